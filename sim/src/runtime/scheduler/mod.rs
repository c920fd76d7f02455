//! A scheduler thread: owns some blocks' cores, runs tasks on them, and retires what ends.
//!
//! An iteration goes through its steps in the order in which they are recorded: `complete` (with `resolve` inside),
//! `async_poll`, `dispatch`, `release` (in an iteration in which nothing moved before it), graph tasks, `dummy`,
//! `early_dispatch`, `drain`. A step that did nothing reads no clock and leaves no record. A scheduler that found nothing
//! to do sleeps until a core answers, somebody hands it work, or an event is due.

mod args;
mod cores;
mod dispatch;
mod drain;
mod finish;
mod retire;

use super::aicore::nanos;
use super::queues::Events;
use super::record::{AicpuRecorder, SchedPhase, Switches};
use super::shared::{IDLE, SHAPES, Shared};
use super::{LaunchStatus, lock};
use crate::exec::{ActorId, Exec};
use cores::Cores;
pub(crate) use cores::MAX_BLOCKS;
use dfx_collector::abi::args_dump::Level as DumpLevel;
use dfx_collector::abi::swimlane::{Level, SchedPhaseKind};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Tasks whose resources a scheduler gives back at the latest, idle or not.
const RELEASE_AT: u32 = 64;
/// No depths: what is recorded for steps that do not touch the ready queues.
const NO_DEPTHS: [i16; SHAPES] = [0; SHAPES];

/// A time in ticks, and the depths of the ready queues then.
type Stamp = (u64, [i16; SHAPES]);

/// One scheduler thread.
pub(super) struct Scheduler<'a, A> {
    shared: &'a Shared,
    exec: &'a dyn Exec,
    number: u32,
    me: ActorId,
    recorder: A,
    level: Level,
    pmu: bool,
    dump: DumpLevel,
    cores: Cores,
    /// The iteration, counted from 1.
    iter: u32,
    /// Pops of ready queues since the last `dispatch` record.
    pop_hit: u32,
    pop_miss: u32,
    /// End of the last step recorded in this iteration (and the depths then), where the next one begins.
    last_end: Option<Stamp>,
    /// Units that have ended and are to be completed.
    ended: Vec<u32>,
    /// Tasks to be released, by ring.
    release: [u32; super::plan::RINGS],
    consumers: Vec<u32>,
    places: Vec<usize>,
    /// Places held empty for the unit that gathers in the drain slot.
    offered: Option<(u32, u32)>,
    drain_seen: u64,
    /// Progress counter when it last changed, and when that was seen.
    progress: (u64, u64),
    /// The injected death has come.
    dead: bool,
}

/// How a scheduler's loop came to its end.
enum Exit {
    /// Everything is done.
    Done,
    /// No progress: declared here or elsewhere.
    Hang,
    /// Killed where it stands.
    Killed,
}

/// Runs scheduler `number` to its end.
pub(super) fn run<A: AicpuRecorder>(
    shared: &Shared,
    recorder: A,
    (level, switches): (Level, Switches),
    number: u32,
    exec: &dyn Exec,
) {
    let cores = Cores::new(&shared.board, number, shared.first_token, switches.single_issue);
    let mut scheduler = Scheduler {
        shared,
        exec,
        number,
        me: ActorId::Aicpu(number),
        recorder,
        level,
        pmu: switches.pmu,
        dump: switches.dump,
        cores,
        iter: 0,
        pop_hit: 0,
        pop_miss: 0,
        last_end: None,
        ended: Vec::new(),
        release: Default::default(),
        consumers: Vec::new(),
        places: Vec::new(),
        offered: None,
        drain_seen: 0,
        progress: (u64::MAX, 0),
        dead: false,
    };
    if level >= Level::SchedPhases {
        scheduler.recorder.assign_cores(scheduler.cores.ids());
    }
    match scheduler.work() {
        Exit::Done => scheduler.close(),
        Exit::Hang => scheduler.close_hung(),
        Exit::Killed => {}
    }
}

impl<A: AicpuRecorder> Scheduler<'_, A> {
    fn work(&mut self) -> Exit {
        loop {
            let control = &self.shared.control;
            if self.dead || control.killed() {
                return Exit::Killed;
            }
            if control.hung() {
                return Exit::Hang;
            }
            if self.iterate() {
                continue;
            }
            if control.finished.load(Ordering::Acquire) {
                return Exit::Done;
            }
            if self.sees_hang() {
                return Exit::Hang;
            }
            self.sleep();
        }
    }

    /// One iteration. True if anything moved.
    fn iterate(&mut self) -> bool {
        self.iter = self.iter.wrapping_add(1);
        self.last_end = None;
        let mut moved = self.complete();
        moved |= self.async_poll();
        moved |= self.dump_inputs();
        moved |= self.dispatch();
        self.publish_room();
        if !moved || self.release.iter().sum::<u32>() >= RELEASE_AT {
            moved |= self.release();
        }
        moved |= self.graph_prepare();
        moved |= self.dummy();
        if self.shared.plan.early {
            moved |= self.early_dispatch();
        }
        moved |= self.drain();
        moved
    }

    /// Waits for something to do. What it can do is looked at once more after it has said that it sleeps.
    fn sleep(&mut self) {
        let seat = &self.shared.seats[self.number as usize];
        self.publish_room();
        seat.sit_idle();
        if !self.has_work() {
            let now = self.exec.nanos();
            let until_event = match self.shared.events.next() {
                Events::NEVER => IDLE,
                due => Duration::from_nanos(due.saturating_sub(now)),
            };
            self.exec.park(self.me, Some(until_event.min(IDLE).min(self.shared.scheduler_timeout)));
        }
        seat.get_up();
    }

    fn has_work(&self) -> bool {
        let shared = self.shared;
        let control = &shared.control;
        control.aborted()
            || control.finished.load(Ordering::SeqCst)
            || shared.undumped.len() > 0
            || shared.retire.len() > 0
            || shared.graphs.len() > 0
            || shared.drain.used() && shared.drain.generation() != self.drain_seen
            || self.can_dispatch()
            || self.can_dispatch_early()
    }

    /// Whether tasks are out and nothing has happened to any for the scheduler timeout. Declares it.
    fn sees_hang(&mut self) -> bool {
        let control = &self.shared.control;
        let (now, progress) = (self.exec.nanos(), control.progress.load(Ordering::Relaxed));
        if progress != self.progress.0 || control.outstanding() == 0 {
            self.progress = (progress, now);
            return false;
        }
        if now.saturating_sub(self.progress.1) < nanos(self.shared.scheduler_timeout) {
            return false;
        }
        control.fail(LaunchStatus::SchedulerHang {
            thread: self.number,
            after: self.shared.scheduler_timeout,
            outstanding: control.outstanding(),
            stuck: Vec::new(),
        });
        control.hung.store(true, Ordering::SeqCst);
        self.shared.wake_aicpus(self.exec);
        true
    }

    /// The end of a complete run.
    fn close(&mut self) {
        self.record_left_over_pops();
        if self.records() {
            self.recorder.flush(self.cores.ids());
        }
        for &core in self.cores.ids() {
            self.shared.board.registers(core).write_exit();
            self.exec.wake(ActorId::Core(core));
        }
    }

    /// The end of a hung one: says what stands on its cores and saves what was recorded.
    fn close_hung(&mut self) {
        lock(&self.shared.control.stuck).extend(self.cores.stuck(self.number, &self.shared.plan));
        self.record_left_over_pops();
        self.dump_running();
        if self.records() {
            self.recorder.sync(self.cores.ids());
            self.recorder.flush(self.cores.ids());
        }
    }

    /// Whether there is anything to flush.
    fn records(&self) -> bool {
        self.level >= Level::AicoreTiming || self.pmu || self.dumps()
    }

    fn record_left_over_pops(&mut self) {
        if self.recording_phases() && self.pop_hit + self.pop_miss > 0 {
            let at = self.exec.now_aicpu();
            let depths = self.shared.depths();
            self.record(SchedPhaseKind::Dispatch, (at, depths), (at, depths), 0);
        }
    }

    fn recording_phases(&self) -> bool {
        self.level >= Level::SchedPhases
    }

    /// The depths before a look at the ready queues, for [`begin_at`](Self::begin_at).
    fn depths(&self) -> [i16; SHAPES] {
        if self.recording_phases() { self.shared.depths() } else { NO_DEPTHS }
    }

    /// Where a step begins that has just found its first work.
    fn begin(&mut self) -> Stamp {
        let depths = self.depths();
        self.begin_at(depths)
    }

    /// The same, with the depths as they were before it took that work. Level ≥ 3 reads the clock, unless a step of this
    /// iteration has just ended.
    fn begin_at(&mut self, depths: [i16; SHAPES]) -> Stamp {
        match self.last_end.take() {
            Some(end) => end,
            None if self.recording_phases() => (self.exec.now_aicpu(), depths),
            None => (0, depths),
        }
    }

    /// Records a step that ends now.
    fn end(&mut self, kind: SchedPhaseKind, begun: Stamp, tasks: u32) {
        if self.recording_phases() {
            let ended = (self.exec.now_aicpu(), self.shared.depths());
            self.record(kind, begun, ended, tasks);
            self.last_end = Some(ended);
        }
    }

    fn record(
        &mut self,
        kind: SchedPhaseKind,
        (start, depth_start): Stamp,
        (end, depth_end): Stamp,
        tasks: u32,
    ) {
        let (pop_hit, pop_miss) = match kind {
            SchedPhaseKind::Dispatch => {
                (std::mem::take(&mut self.pop_hit), std::mem::take(&mut self.pop_miss))
            }
            _ => (0, 0),
        };
        let loop_iter = self.iter;
        let phase =
            SchedPhase { kind, start, end, loop_iter, tasks, pop_hit, pop_miss, depth_start, depth_end };
        self.recorder.sched_phase(&phase);
    }
}
