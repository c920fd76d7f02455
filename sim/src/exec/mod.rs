//! How the simulated device's actors get time: one trait, so that the same actor code runs on real threads and on a
//! virtual clock.
//!
//! Cores, scheduler threads, the orchestrator, the watchdog (and later the host's workers) are straight-line functions
//! that take and wait for time only through [`Exec`]. [`threads`] runs each of them as an operating-system thread.
//! [`virtual_time`] runs them as coroutines of one thread, ordered by an event queue: every call of `spend`, `park`,
//! `relax` is then a place where another actor may run.
//!
//! What an actor promises in return: no other way of waiting, no lock held across a call of `Exec` (or of a recorder,
//! which may wait for the host), and every change that another actor waits for is stored *before* that actor is woken.

pub mod threads;
pub mod virtual_time;

use std::sync::Arc;
use std::time::Duration;

/// Who an actor is: whom to wake, and whose clock goes on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ActorId {
    /// An AICore, by core id.
    Core(u32),
    /// An AICPU thread: a scheduler, or (the last one) the orchestrator.
    Aicpu(u32),
    /// STARS and the host's stream sync.
    Watchdog,
    /// A worker of the host.
    Host(u32),
}

/// What an actor has just done, for a clock on which work takes declared time. Real threads take it as it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// A scheduler looked at its cores' condition registers.
    Poll {
        /// How many.
        cores: u32,
    },
    /// A scheduler handled an acknowledgement.
    Acknowledged,
    /// A scheduler handled a finish.
    Finished,
    /// Consumers of finished tasks were visited.
    Resolve {
        /// How many.
        consumers: u32,
    },
    /// A payload and a dispatch register were written.
    Dispatch,
    /// A task was retired on the AICPU.
    Retire,
    /// Finished tasks' resources were given back.
    Release {
        /// How many tasks.
        tasks: u32,
    },
    /// A graph task's nodes were made.
    GraphPrepare {
        /// How many.
        nodes: u32,
    },
    /// A core took a task and acknowledged it.
    CoreTake,
    /// A core reported a finish and committed its record.
    CoreFinish,
    /// A kernel ran for its declared duration.
    Kernel(Duration),
    /// A worker of the host was busy for so long.
    Host(Duration),
    /// An argument was dumped.
    DumpArg {
        /// Bytes copied.
        bytes: u64,
    },
    /// The orchestrator submitted a task.
    Submit {
        /// Its predecessors.
        fan_in: u32,
        /// Its arguments.
        args: u32,
    },
}

/// An executor as its actors see it.
pub trait Exec: Send + Sync {
    /// The platform's counter as an AICore reads it, in platform ticks. Read for DFX time-stamps only.
    fn now_core(&self) -> u64;

    /// The platform's counter as an AICPU thread reads it, in platform ticks. Read for DFX time-stamps only.
    fn now_aicpu(&self) -> u64;

    /// The runtime's own monotonic time in nanoseconds, for timeouts and pacing. Not the DFX counter.
    fn nanos(&self) -> u64;

    /// The calling actor has done this.
    fn spend(&self, me: ActorId, cost: Cost);

    /// Waits until woken or until `timeout` has passed; may return early. A wake that came before the call counts:
    /// there is at most one such token per actor, and it is used up by returning.
    fn park(&self, me: ActorId, timeout: Option<Duration>);

    /// Ends `who`'s current or next [`park`](Exec::park). Unknown and ended actors are ignored.
    fn wake(&self, who: ActorId);

    /// Gives way between two looks at a word that the host must change (the wait of a collector).
    fn relax(&self);

    /// Runs `actors` to their ends, started in this order. One run per executor.
    fn run(self: Arc<Self>, actors: Vec<Actor>) -> Result<(), RunError>;
}

/// An actor's code.
pub type Body = Box<dyn FnOnce(&dyn Exec) + Send>;

/// An actor about to run.
pub struct Actor {
    /// Who it is.
    pub id: ActorId,
    /// What it does.
    pub body: Body,
}

impl Actor {
    /// The actor `id`, which does `body`.
    pub fn new(id: ActorId, body: impl FnOnce(&dyn Exec) + Send + 'static) -> Self {
        Self { id, body: Box::new(body) }
    }
}

/// The actors could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The system refuses a thread; no actor has run.
    #[error(
        "cannot start the thread of {actor:?}: {source}; use fewer blocks (--blockdim) or raise the limit of processes"
    )]
    Spawn {
        /// Whose.
        actor: ActorId,
        /// Why.
        source: std::io::Error,
    },
    /// Every actor waits for another (virtual time).
    #[error("all actors wait for one another: {actors:?}; this is a bug of the simulator")]
    Stuck {
        /// Who.
        actors: Vec<ActorId>,
    },
    /// An executor runs once.
    #[error("this executor has already run its actors; make one per launch")]
    UsedUp,
}
