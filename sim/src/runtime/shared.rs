//! What all actors of a launch see: the plan, the board, the queues, and how the run goes.

use super::board::Board;
use super::drain_slot::DrainSlot;
use super::edges::Edges;
use super::plan::{Kind, Plan, RINGS};
use super::queues::{Early, Events, Fifo, ReadyQueue, UnitState, lock};
use super::{Faults, LaunchConfig, LaunchStatus, StuckTask};
use crate::exec::{ActorId, Exec};
use crate::memory::ProgramMemory;
use crate::program::{Shape, SubmitId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Shapes with a ready queue.
pub(crate) const SHAPES: usize = 3;
/// How long an AICPU thread sleeps at most: a net under the wake-ups, not a means.
pub(crate) const IDLE: Duration = Duration::from_millis(10);

/// A shape's ready queue, in the order of the recorded depths.
pub(crate) fn queue_of(shape: Shape) -> usize {
    match shape {
        Shape::Aic | Shape::None => 0,
        Shape::Aiv => 1,
        Shape::Mix => 2,
    }
}

/// What a scheduler lets the others know.
#[derive(Default)]
pub(crate) struct Seat {
    /// It sleeps (or is about to), having found nothing to do.
    idle: AtomicBool,
    /// Idle cores by shape; for MIX, idle blocks.
    room: [AtomicU32; SHAPES],
    /// Cores by shape that run one task and could hold another.
    second: [AtomicU32; SHAPES],
}

impl Seat {
    /// Of a scheduler with `blocks` idle blocks, whose thread may not have come up yet.
    fn new(blocks: u32) -> Self {
        let seat = Self::default();
        seat.publish([blocks, 2 * blocks, blocks], [0; SHAPES]);
        seat
    }

    pub(crate) fn publish(&self, room: [u32; SHAPES], second: [u32; SHAPES]) {
        for shape in 0..SHAPES {
            self.room[shape].store(room[shape], Ordering::Relaxed);
            self.second[shape].store(second[shape], Ordering::Relaxed);
        }
    }

    /// Says that this scheduler is going to sleep. After this it looks at every queue once more.
    pub(crate) fn sit_idle(&self) {
        self.idle.store(true, Ordering::SeqCst);
        // SYNC POINT: pairs with the queues' counters: either the pusher sees this flag, or this thread its push.
        fence(Ordering::SeqCst);
    }

    pub(crate) fn get_up(&self) {
        self.idle.store(false, Ordering::SeqCst);
    }

    /// Takes the duty of waking it.
    fn take_wake(&self) -> bool {
        self.idle.load(Ordering::SeqCst) && self.idle.swap(false, Ordering::SeqCst)
    }
}

/// A ring of task ids: how many of its tasks are out.
#[derive(Default)]
pub(crate) struct Ring {
    pub in_flight: AtomicU32,
    /// The orchestrator waits for room.
    pub waited_for: AtomicBool,
}

/// How the run goes.
#[derive(Default)]
pub(crate) struct Control {
    /// The collectors are ready.
    pub opened: AtomicBool,
    /// Arguments are dumped.
    pub dumping: AtomicBool,
    /// AICPU threads are to vanish.
    pub killed: AtomicBool,
    /// A scheduler has declared a hang.
    pub hung: AtomicBool,
    /// Every task has completed.
    pub finished: AtomicBool,
    pub orchestrated: AtomicBool,
    pub submitted: AtomicU64,
    pub completed: AtomicU64,
    /// Core rows that AICPU has seen end.
    pub rows: AtomicU64,
    /// Changes whenever a task is dispatched, ends or retires.
    pub progress: AtomicU64,
    pub aicpus_left: AtomicU32,
    /// Executor time at which the last AICPU thread was done.
    pub device_done: AtomicU64,
    /// What went wrong first.
    pub failure: Mutex<Option<LaunchStatus>>,
    pub stuck: Mutex<Vec<StuckTask>>,
    /// By submit, after a hang: it ran, and whether its outputs were dumped.
    pub dumped_running: Mutex<BTreeMap<u32, bool>>,
    /// (predecessor, successor) as the orchestrator declared them, when asked for.
    pub edges: Mutex<Vec<(SubmitId, SubmitId)>>,
}

impl Control {
    pub(crate) fn killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    pub(crate) fn hung(&self) -> bool {
        self.hung.load(Ordering::Acquire)
    }

    /// Whether an AICPU thread should leave its loop before its work is done.
    pub(crate) fn aborted(&self) -> bool {
        self.killed() || self.hung()
    }

    /// Keeps the first failure.
    pub(crate) fn fail(&self, status: LaunchStatus) {
        lock(&self.failure).get_or_insert(status);
    }

    pub(crate) fn moved(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Tasks submitted and not completed.
    pub(crate) fn outstanding(&self) -> u64 {
        let completed = self.completed.load(Ordering::SeqCst);
        self.submitted.load(Ordering::SeqCst).saturating_sub(completed)
    }
}

/// One launch.
pub(crate) struct Shared {
    pub plan: Plan,
    pub memory: Arc<ProgramMemory>,
    pub board: Board,
    pub states: Vec<UnitState>,
    pub edges: Edges,
    pub ready: [ReadyQueue; SHAPES],
    /// Ready units whose inputs are to be dumped before they run.
    pub undumped: Fifo,
    /// Units that retire on the AICPU: dummies and skips.
    pub retire: Fifo,
    /// Graph tasks whose nodes are to be made.
    pub graphs: Fifo,
    pub early: Early,
    pub events: Events,
    pub drain: DrainSlot,
    pub seats: Vec<Seat>,
    pub rings: [Ring; RINGS],
    pub window: u32,
    pub first_token: u32,
    pub scheduler_timeout: Duration,
    pub op_timeout: Duration,
    pub stream_sync_timeout: Duration,
    pub keep_edges: bool,
    pub faults: Faults,
    pub control: Control,
}

impl Shared {
    pub(crate) fn new(cfg: &LaunchConfig, plan: Plan, memory: Arc<ProgramMemory>) -> Self {
        let schedulers = cfg.aicpu_threads - 1;
        let left = |unit: &super::plan::Unit| match unit.kind {
            Kind::Graph => unit.blocks,
            _ => unit.rows(),
        };
        let states = plan.units().iter().map(|unit| UnitState::new(left(unit))).collect();
        let early = Early::new(&plan);
        let board = Board::new(cfg.blockdim, schedulers);
        let seats = (0..schedulers).map(|number| Seat::new(board.blocks_of(number).count() as u32)).collect();
        Self {
            board,
            states,
            edges: Edges::new(),
            ready: Default::default(),
            undumped: Fifo::default(),
            retire: Fifo::default(),
            graphs: Fifo::default(),
            early,
            events: Events::new(),
            drain: DrainSlot::new(),
            seats,
            rings: Default::default(),
            window: cfg.ring_window.max(1),
            first_token: cfg.first_token,
            scheduler_timeout: cfg.scheduler_timeout,
            op_timeout: cfg.op_timeout,
            stream_sync_timeout: cfg.stream_sync_timeout,
            keep_edges: cfg.keep_edges,
            faults: cfg.faults.clone(),
            control: Control { aicpus_left: AtomicU32::new(cfg.aicpu_threads), ..Control::default() },
            plan,
            memory,
        }
    }

    pub(crate) fn schedulers(&self) -> u32 {
        self.board.schedulers()
    }

    /// The AICPU thread of the orchestrator.
    pub(crate) fn orchestrator(&self) -> ActorId {
        ActorId::Aicpu(self.schedulers())
    }

    /// Ready-queue depths as they are recorded: AIC, AIV, MIX.
    pub(crate) fn depths(&self) -> [i16; SHAPES] {
        std::array::from_fn(|shape| self.ready[shape].entries().min(i16::MAX as u32) as i16)
    }

    /// All producers of `unit` have completed: puts it where it is run from, or first where its inputs are dumped. `me` is
    /// the scheduler that found out, which looks for the work itself before it sleeps; the orchestrator (`None`) wakes
    /// somebody.
    pub(crate) fn make_ready(&self, exec: &dyn Exec, unit: u32, me: Option<u32>) {
        let dumping = self.control.dumping.load(Ordering::Relaxed);
        if !dumping || self.plan.unit(unit).node().is_some() || !self.plan.submit(unit).is_dumped() {
            return self.start(exec, unit, me);
        }
        self.control.moved();
        self.undumped.push(unit);
        // Whoever found out takes one; the others are for those who sleep.
        if me.is_none() || self.undumped.len() > 1 {
            self.wake_one(exec);
        }
    }

    /// Puts `unit`, which nothing keeps from running, where it is run from; `me` as above.
    pub(crate) fn start(&self, exec: &dyn Exec, unit: u32, me: Option<u32>) {
        let facts = self.plan.unit(unit);
        self.control.moved();
        match facts.kind {
            Kind::Blocks => {
                let blocks = if self.plan.early { self.open_door(exec, unit) } else { facts.blocks };
                if blocks > 0 {
                    let queue = queue_of(facts.shape);
                    self.ready[queue].push(unit, blocks);
                    if me.is_none() {
                        self.wake_for(exec, queue, blocks, None);
                    }
                }
                return;
            }
            Kind::Together => {
                self.drain.push(unit);
                return self.wake_idle(exec, me);
            }
            Kind::Graph => self.graphs.push(unit),
            Kind::Dummy | Kind::Skip | Kind::Alloc => self.retire.push(unit),
        }
        if me.is_none() {
            self.wake_one(exec);
        }
    }

    /// Lets the gated blocks of `unit` go. Returns how many blocks nobody has claimed yet.
    fn open_door(&self, exec: &dyn Exec, unit: u32) -> u32 {
        let blocks = self.plan.unit(unit).blocks;
        let Some(task) = self.early.tasks.get(&unit) else { return blocks };
        let (behind, unclaimed) = {
            let mut door = lock(&task.door);
            door.open = true;
            let claimed = self.states[unit as usize].next_block.load(Ordering::Relaxed);
            (std::mem::take(&mut door.waiting), blocks - claimed)
        };
        for (core, token) in behind {
            self.board.registers(core).ring(token);
            exec.wake(ActorId::Core(core));
        }
        unclaimed
    }

    /// `producer` is under way on its cores, or has completed: its early consumers may follow it.
    pub(crate) fn under_way(&self, exec: &dyn Exec, producer: u32, scratch: &mut Vec<u32>) {
        scratch.clear();
        self.edges.take(&self.early.watchers[producer as usize], scratch);
        for &unit in &*scratch {
            self.early_producers_less(exec, unit, 1);
        }
    }

    /// `n` more of the producers that the early task `unit` watches are under way (or its submit is done).
    pub(crate) fn early_producers_less(&self, exec: &dyn Exec, unit: u32, n: u32) {
        let Some(task) = self.early.tasks.get(&unit) else { return };
        let all_under_way = task.unstarted.fetch_sub(n, Ordering::AcqRel) == n;
        if all_under_way && self.states[unit as usize].fan_in.load(Ordering::Acquire) > 0 {
            let queue = queue_of(self.plan.unit(unit).shape);
            self.early.queues[queue].push(unit);
            self.wake_for(exec, queue, 1, None);
        }
    }

    /// Wakes sleeping schedulers that have room for `blocks` of shape `queue`: idle cores first, then second places.
    pub(crate) fn wake_for(&self, exec: &dyn Exec, queue: usize, blocks: u32, except: Option<u32>) {
        let kinds: [fn(&Seat) -> &[AtomicU32; SHAPES]; 2] = [|seat| &seat.room, |seat| &seat.second];
        let mut missing = blocks;
        for places in kinds {
            for (scheduler, seat) in self.seats.iter().enumerate() {
                if missing == 0 {
                    return;
                }
                let room = places(seat)[queue].load(Ordering::Relaxed);
                if room > 0 && Some(scheduler as u32) != except && seat.take_wake() {
                    missing = missing.saturating_sub(room);
                    exec.wake(ActorId::Aicpu(scheduler as u32));
                }
            }
        }
    }

    /// Idle places of shape `queue` that schedulers other than `me` have.
    pub(crate) fn room_elsewhere(&self, queue: usize, me: u32) -> u32 {
        let others = self.seats.iter().enumerate().filter(|(scheduler, _)| *scheduler != me as usize);
        others.map(|(_, seat)| seat.room[queue].load(Ordering::Relaxed)).sum()
    }

    /// Wakes one sleeping scheduler, if all that are awake may stay busy for long.
    fn wake_one(&self, exec: &dyn Exec) {
        if let Some(scheduler) = self.seats.iter().position(Seat::take_wake) {
            exec.wake(ActorId::Aicpu(scheduler as u32));
        }
    }

    /// Wakes all sleeping schedulers but `except`.
    pub(crate) fn wake_idle(&self, exec: &dyn Exec, except: Option<u32>) {
        for (scheduler, seat) in self.seats.iter().enumerate() {
            if Some(scheduler as u32) != except && seat.take_wake() {
                exec.wake(ActorId::Aicpu(scheduler as u32));
            }
        }
    }

    /// Wakes every AICPU thread, whatever it does.
    pub(crate) fn wake_aicpus(&self, exec: &dyn Exec) {
        for thread in 0..=self.schedulers() {
            exec.wake(ActorId::Aicpu(thread));
        }
    }

    /// Makes the AICPU threads vanish.
    pub(crate) fn kill(&self, exec: &dyn Exec) {
        self.control.killed.store(true, Ordering::SeqCst);
        self.wake_aicpus(exec);
    }

    /// Ends the cores after what they are doing, hung ones included.
    pub(crate) fn stop_cores(&self, exec: &dyn Exec) {
        self.board.stop();
        for core in 0..self.board.cores() {
            exec.wake(ActorId::Core(core));
        }
    }

    /// One more task has completed, or the orchestrator is done: ends the run if that was all.
    pub(crate) fn check_finished(&self, exec: &dyn Exec) {
        let control = &self.control;
        if control.orchestrated.load(Ordering::SeqCst) && control.outstanding() == 0 {
            control.finished.store(true, Ordering::SeqCst);
            self.wake_aicpus(exec);
        }
    }

    /// Gives back `tasks` places of ring `ring`'s window.
    pub(crate) fn give_back(&self, exec: &dyn Exec, ring: usize, tasks: u32) {
        let Ring { in_flight, waited_for } = &self.rings[ring];
        let left = in_flight.fetch_sub(tasks, Ordering::SeqCst) - tasks;
        // Not for each single place: the orchestrator fills the eighth that it finds empty in one go.
        if left <= self.window - self.window.div_ceil(8)
            && waited_for.load(Ordering::SeqCst)
            && waited_for.swap(false, Ordering::SeqCst)
        {
            exec.wake(self.orchestrator());
        }
    }
}
