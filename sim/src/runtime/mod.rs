//! The simulated device's runtime: cores, scheduler threads, the orchestrator and the watchdog, as actors over an
//! [`Exec`].
//!
//! ```text
//!  program ─▶ orchestrator ──ready queues──▶ schedulers ──dispatch registers──▶ cores
//!              (task ids, fan-in, windows)    (own blocks) ◀──condition registers── (kernels)
//! ```
//!
//! [`launch`] runs one program once. What happens is recorded through the [`Recorder`] that the caller gives; the runtime
//! itself knows nothing of buffers. Guards: a scheduler that sees no progress declares a hang, STARS kills AICPU threads
//! after the op-execute timeout, the host gives up after the stream-sync timeout; after each of them every actor ends.

mod aicore;
mod board;
mod capture;
mod drain_slot;
mod dump;
mod edges;
mod orchestrator;
mod plan;
mod queues;
mod record;
mod rings;
mod scheduler;
mod shared;
mod watchdog;

#[cfg(test)]
mod tests;

pub use board::{EXIT as EXIT_TOKEN, next_token};
pub use capture::Captured;
pub use record::{AicpuRecorder, CoreRecorder, CountedTask, Recorder, SchedPhase, Switches};
pub use rings::{RingCapacity, TENSOR_MAP};

use crate::exec::{Actor, ActorId, Exec, RunError};
use crate::memory::ProgramMemory;
use crate::program::{KernelId, Program, Shape, SubmitId};
use dfx_collector::abi::args_dump::Level as DumpLevel;
use plan::Plan;
use queues::lock;
use shared::{IDLE, Shared};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a program is launched.
#[derive(Clone, Debug)]
pub struct LaunchConfig {
    /// Blocks of one AIC and two AIV cores.
    pub blockdim: u32,
    /// AICPU threads: schedulers, and the last one the orchestrator; at least 2.
    pub aicpu_threads: u32,
    /// STARS kills the AICPU when the launch has taken so long.
    pub op_timeout: Duration,
    /// A scheduler that sees tasks out and none moving for so long declares a hang.
    pub scheduler_timeout: Duration,
    /// The host gives up waiting after so long.
    pub stream_sync_timeout: Duration,
    /// Each core's first token; tokens count up from it.
    pub first_token: u32,
    /// Tasks per ring that may be out; the orchestrator waits for room.
    pub ring_window: u32,
    /// Whether the outcome lists the dependencies that the orchestrator declared.
    pub keep_edges: bool,
    /// What goes wrong on purpose.
    pub faults: Faults,
}

impl Default for LaunchConfig {
    fn default() -> Self {
        Self {
            blockdim: 2,
            aicpu_threads: 3,
            op_timeout: Duration::from_secs(45),
            scheduler_timeout: Duration::from_secs(10),
            stream_sync_timeout: Duration::from_secs(50),
            first_token: 1,
            ring_window: 4096,
            keep_edges: false,
            faults: Faults::default(),
        }
    }
}

/// What goes wrong on purpose.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// A core that runs this task (or a node of it) acknowledges and never finishes.
    pub core_hang: Option<SubmitId>,
    /// The scheduler that would write this task to a core dies instead, saving nothing.
    pub aicpu_dies: Option<SubmitId>,
}

/// A program that cannot be launched as asked.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There must be a scheduler and the orchestrator.
    #[error("{0} AICPU thread(s): a scheduler and the orchestrator need at least 2 (--aicpu-threads)")]
    TooFewThreads(u32),
    /// No cores, or more than the schedulers can hold.
    #[error("{blocks} block(s) (--blockdim): with {schedulers} scheduler thread(s) it must be 1 to {max}")]
    Blocks {
        /// Asked for.
        blocks: u32,
        /// Scheduler threads.
        schedulers: u32,
        /// The most blocks that they can own.
        max: u32,
    },
    /// Tokens are 1 up to the exit signal.
    #[error("first token {0:#x}: tokens are 1 to {max:#x}", max = EXIT_TOKEN - 1)]
    Token(u32),
    /// Submits are numbered in program order.
    #[error("the program's submits are out of order: submit {} stands where submit {} should", found.0, expected.0)]
    SubmitOrder {
        /// The number due.
        expected: SubmitId,
        /// The number there.
        found: SubmitId,
    },
    /// A task has at least one block.
    #[error("submit {}: block_num is 0; it must be at least 1", submit.0)]
    NoBlocksOfTask {
        /// Which.
        submit: SubmitId,
    },
    /// A dependency on itself or on a later submit can never be met.
    #[error("submit {} depends on submit {}, which is not before it", submit.0, dep.0)]
    ForwardDep {
        /// Which.
        submit: SubmitId,
        /// On what.
        dep: SubmitId,
    },
    /// A graph task's node depends on itself or a later node.
    #[error("submit {}: node {node} depends on node {dep}, which is not before it", submit.0)]
    NodeDep {
        /// The graph task.
        submit: SubmitId,
        /// Its node.
        node: u32,
        /// On what.
        dep: u32,
    },
    /// A task runs kernels or nodes.
    #[error("submit {} has nodes and is an alloc or has kernels of its own; it can be one only", submit.0)]
    GraphWithKernels {
        /// Which.
        submit: SubmitId,
    },
    /// A node's number must fit its task id.
    #[error("submit {} has {nodes} nodes; a graph task has at most {max}", submit.0)]
    TooManyNodes {
        /// Which.
        submit: SubmitId,
        /// How many.
        nodes: usize,
        /// The most.
        max: usize,
    },
    /// A graph task's own number must fit its nodes' ids.
    #[error("submit {}: task id {task_id:#x} is too large for a graph task: its nodes' ids would overflow", submit.0)]
    NodeIds {
        /// Which.
        submit: SubmitId,
        /// Its task id.
        task_id: u64,
    },
    /// A kernel that the program does not have.
    #[error("submit {} runs kernel {}, which the program does not have", submit.0, kernel.0)]
    UnknownKernel {
        /// Which submit.
        submit: SubmitId,
        /// Which kernel.
        kernel: KernelId,
    },
    /// Blocks that start together need as many places.
    #[error(
        "submit {}: its {blocks} {shape:?} blocks must start together (sync_start), but the board has places for \
         {available}; raise --blockdim or lower block_num",
        submit.0
    )]
    TooWideToStartTogether {
        /// Which.
        submit: SubmitId,
        /// Its blocks.
        blocks: u32,
        /// Their shape.
        shape: Shape,
        /// Places on the board.
        available: u32,
    },
    /// The executor could not run the actors.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchStatus {
    /// Every task has completed.
    Completed,
    /// A scheduler saw no progress; the schedulers saved what they had recorded.
    SchedulerHang {
        /// The scheduler that declared it.
        thread: u32,
        /// After so long without progress.
        after: Duration,
        /// Tasks that had not completed.
        outstanding: u64,
        /// What stood on the cores.
        stuck: Vec<StuckTask>,
    },
    /// STARS killed the AICPU; nothing was saved.
    OpTimeout {
        /// The op-execute timeout.
        after: Duration,
    },
    /// The host gave up; AICPU threads were killed.
    Abandoned {
        /// The stream-sync timeout.
        after: Duration,
    },
    /// An AICPU thread died and nothing else noticed before the rest was done.
    Died,
    /// An actor panicked: a kernel, or the simulator itself.
    Panicked {
        /// Whose code.
        actor: ActorId,
        /// What it said.
        message: String,
    },
}

/// A dispatch that had not ended when a hang was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckTask {
    /// The core.
    pub core: u32,
    /// Its scheduler.
    pub thread: u32,
    /// `(ring << 32) | local`.
    pub task_id: u64,
    /// The submit.
    pub submit: SubmitId,
    /// The node, of a graph task.
    pub node: Option<u32>,
    /// The dispatch's token.
    pub token: u32,
    /// How far it had come.
    pub state: StuckState,
}

/// How far a dispatch had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckState {
    /// The core never answered.
    Unacknowledged,
    /// Behind its doorbell.
    Gated,
    /// Acknowledged, not finished.
    Running,
}

/// What a launch did.
#[derive(Clone, Debug)]
pub struct LaunchOutcome {
    /// How it ended.
    pub status: LaunchStatus,
    /// Whether AICPU threads were killed where they stood.
    pub killed: bool,
    /// Submits that reached the runtime, allocs included.
    pub submitted: u64,
    /// Submits that completed.
    pub completed: u64,
    /// Core rows whose end AICPU has seen.
    pub core_rows: u64,
    /// Launch to the last AICPU thread's end, in the executor's nanoseconds.
    pub device_ns: u64,
    /// By submit.
    pub tasks: Vec<TaskReport>,
    /// Tasks that ran when a hang was declared and whose outputs were dumped as they stood.
    pub dumped_running: Vec<u64>,
    /// (predecessor, successor) in declaration order, when [`LaunchConfig::keep_edges`] asked for them.
    pub edges: Vec<(SubmitId, SubmitId)>,
}

/// What became of a submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// `(ring << 32) | local`.
    pub task_id: u64,
    /// Whether it completed.
    pub completed: bool,
}

/// A launch about to be run: for callers that run its actors beside others.
pub struct Launch {
    shared: Arc<Shared>,
}

impl Launch {
    /// Lays `program` out for the board of `cfg`; refuses what cannot run there.
    pub fn new(
        cfg: &LaunchConfig,
        program: Arc<Program>,
        memory: Arc<ProgramMemory>,
    ) -> Result<Self, LaunchError> {
        if cfg.aicpu_threads < 2 {
            return Err(LaunchError::TooFewThreads(cfg.aicpu_threads));
        }
        let schedulers = cfg.aicpu_threads - 1;
        let max = scheduler::MAX_BLOCKS.saturating_mul(schedulers);
        if cfg.blockdim == 0 || cfg.blockdim > max {
            return Err(LaunchError::Blocks { blocks: cfg.blockdim, schedulers, max });
        }
        if cfg.first_token == 0 || cfg.first_token >= EXIT_TOKEN {
            return Err(LaunchError::Token(cfg.first_token));
        }
        let plan = Plan::new(program, cfg.blockdim)?;
        Ok(Self { shared: Arc::new(Shared::new(cfg, plan, memory)) })
    }

    /// The task ids that the submits get, by submit.
    pub fn task_ids(&self) -> impl Iterator<Item = u64> + '_ {
        let plan = &self.shared.plan;
        plan.units()[..plan.submits() as usize].iter().map(|unit| unit.task_id)
    }

    /// The launch's actors, to be started in this order: cores, AICPU threads, watchdog. All of them end by themselves.
    pub fn actors<R: Recorder>(&self, recorder: &Arc<R>) -> Vec<Actor> {
        let board = &self.shared.board;
        let cores = (0..board.cores()).map(|core| {
            let recorder = Arc::clone(recorder);
            self.actor(ActorId::Core(core), move |shared, exec| aicore::run(shared, &recorder, core, exec))
        });
        let aicpus = (0..=board.schedulers()).map(|thread| {
            let recorder = Arc::clone(recorder);
            self.actor(ActorId::Aicpu(thread), move |shared, exec| aicpu(shared, &recorder, thread, exec))
        });
        let watchdog = self.actor(ActorId::Watchdog, watchdog::watch);
        cores.chain(aicpus).chain([watchdog]).collect()
    }

    /// An actor that takes the run down with it if it panics, and whose end the watchdog learns of.
    fn actor(&self, id: ActorId, body: impl FnOnce(&Shared, &dyn Exec) + Send + 'static) -> Actor {
        let shared = Arc::clone(&self.shared);
        Actor::new(id, move |exec| {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&shared, exec)))
                && !panic.is::<Vanished>()
            {
                shared.control.fail(LaunchStatus::Panicked { actor: id, message: message_of(&*panic) });
                shared.kill(exec);
            }
            if let ActorId::Aicpu(_) = id {
                let control = &shared.control;
                control.device_done.fetch_max(exec.nanos(), Ordering::SeqCst);
                if control.aicpus_left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    exec.wake(ActorId::Watchdog);
                }
            }
        })
    }

    /// A look at the launch from outside its actors.
    pub fn probe(&self) -> Probe {
        Probe(Arc::clone(&self.shared))
    }

    /// What the run did; to be asked after its actors have ended. `begun` is the executor's time at the launch.
    pub fn outcome(&self, begun: u64) -> LaunchOutcome {
        let shared = &self.shared;
        let control = &shared.control;
        let finished = control.finished.load(Ordering::SeqCst);
        let mut status = lock(&control.failure).clone().unwrap_or(match finished {
            true => LaunchStatus::Completed,
            false => LaunchStatus::Died,
        });
        if let LaunchStatus::SchedulerHang { stuck, .. } = &mut status {
            *stuck = lock(&control.stuck).clone();
            stuck.sort_by_key(|task| task.core);
        }
        let report = |(task_id, state): (u64, &queues::UnitState)| TaskReport {
            task_id,
            completed: edges::Edges::taken(&state.consumers),
        };
        LaunchOutcome {
            status,
            killed: control.killed(),
            submitted: control.submitted.load(Ordering::SeqCst),
            completed: control.completed.load(Ordering::SeqCst),
            core_rows: control.rows.load(Ordering::SeqCst),
            device_ns: control.device_done.load(Ordering::SeqCst).saturating_sub(begun),
            tasks: self.task_ids().zip(&shared.states).map(report).collect(),
            dumped_running: {
                let dumped = lock(&control.dumped_running);
                let submits = dumped.iter().filter(|(_, dumped)| **dumped).map(|(submit, _)| *submit);
                submits.map(|submit| shared.plan.unit(submit).task_id).collect()
            },
            edges: lock(&control.edges).clone(),
        }
    }
}

/// A look at a launch that is under way.
#[derive(Clone)]
pub struct Probe(Arc<Shared>);

impl Probe {
    /// Whether AICPU threads are to vanish where they stand.
    pub fn killed(&self) -> bool {
        self.0.control.killed()
    }

    /// Whether every AICPU thread has ended.
    pub fn device_done(&self) -> bool {
        self.0.control.aicpus_left.load(Ordering::SeqCst) == 0
    }
}

/// What a killed AICPU thread unwinds with when it stands in a collector's wait.
#[derive(Debug)]
pub struct Vanished;

/// Runs `program` once on the board of `cfg`: starts every actor on `exec`, waits for all of them to end.
pub fn launch<R: Recorder>(
    cfg: &LaunchConfig,
    program: Arc<Program>,
    memory: Arc<ProgramMemory>,
    recorder: &Arc<R>,
    exec: Arc<dyn Exec>,
) -> Result<LaunchOutcome, LaunchError> {
    let launch = Launch::new(cfg, program, memory)?;
    let begun = exec.nanos();
    exec.run(launch.actors(recorder))?;
    Ok(launch.outcome(begun))
}

/// AICPU thread `thread`: waits until the collectors are ready (thread 0 makes them so), then schedules or orchestrates.
fn aicpu<R: Recorder>(shared: &Shared, recorder: &Arc<R>, thread: u32, exec: &dyn Exec) {
    let control = &shared.control;
    let mut own = None;
    if thread == 0 {
        own.get_or_insert_with(|| recorder.aicpu(thread)).init(shared.schedulers());
        control.dumping.store(recorder.switches().dump != DumpLevel::Off, Ordering::Relaxed);
        control.opened.store(true, Ordering::Release);
        shared.wake_aicpus(exec);
    }
    while !control.opened.load(Ordering::Acquire) {
        if control.killed() {
            return;
        }
        exec.park(ActorId::Aicpu(thread), Some(IDLE));
    }
    let own = own.unwrap_or_else(|| recorder.aicpu(thread));
    if thread == shared.schedulers() {
        orchestrator::run(shared, own, (recorder.level(), recorder.switches()), exec);
    } else {
        scheduler::run(shared, own, (recorder.level(), recorder.switches()), thread, exec);
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
