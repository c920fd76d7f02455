//! The chip swimlane's producers.
//!
//! [`Swimlane`] is the AICPU side, one value per launch or per process; its functions take core and thread numbers, as
//! the runtime's hooks do, and every one of them may be called at any time: what is disabled, out of range or not
//! initialised is a no-op of a few instructions. [`CoreRecorder`] is the AICore side.
//!
//! | level | who records | where |
//! |---|---|---|
//! | ≥ 1 | the core: [`CoreRecorder`]; AICPU only rotates: [`Swimlane::on_dispatch`], [`Swimlane::on_ack`] | core pools |
//! | ≥ 2 | [`Swimlane::complete_task`] | task pools |
//! | ≥ 3 | [`Swimlane::record_sched_phase`] and the markers | scheduler pools |
//! | ≥ 4 | [`Swimlane::record_orch_phase`] | orchestrator pool 0 |

mod aicore;
mod core_lane;
mod init;
mod mem;
mod phases;
mod record_lane;
mod tasks;

pub use aicore::{CoreRecorder, Slot, rotation_entry};
pub use init::InitError;
pub use record_lane::SYNC_EVERY;

/// The engine's parts over ABI memory and over any other, for mocks and models.
#[doc(hidden)]
pub mod engine {
    pub use super::core_lane::{CoreLane, CoreMem};
    pub use super::mem::{PoolMem, QueuePtr};
}

use crate::abi::layout::SwimlaneLayout;
use crate::abi::swimlane::{
    CORE_RECORDS, CoreRecord, Level, OrchPhaseRecord, PHASE_RECORDS, QUEUE_SHAPES, SchedPhaseKind,
    SchedPhaseRecord, TASK_RECORDS, TaskRecord,
};
use crate::abi::{DeviceAddr, Geometry};
use crate::clock::Clock;
use crate::lane::{Port, ReadyQueue};
use crate::stall::Stall;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use core::cell::UnsafeCell;
use core::fmt;
use core_lane::CoreLane;
use mem::{PoolMem, QueuePtr};
use record_lane::RecordLane;

const MAX_CORES: usize = Geometry::ANY_MAX_CORES;
const MAX_THREADS: usize = Geometry::ANY_MAX_THREADS;
/// No orchestrator thread was named.
const NO_THREAD: u32 = u32::MAX;

/// Both lanes of a core. 128 bytes apart, so that cores of different threads share no cache line.
#[repr(align(128))]
struct CoreState {
    task: RecordLane<TaskRecord, TASK_RECORDS>,
    core: CoreLane<PoolMem<CoreRecord, CORE_RECORDS>>,
}

#[repr(align(128))]
struct ThreadState {
    queue: Option<ReadyQueue<QueuePtr>>,
    sched: RecordLane<SchedPhaseRecord, PHASE_RECORDS>,
    /// Where the lane's next record goes while it has no buffer: so the record is written in one place, and nothing of
    /// it is kept alive across a cold path.
    dry: SchedPhaseRecord,
}

impl ThreadState {
    const IDLE: Self = ThreadState {
        queue: None,
        sched: RecordLane::CLOSED,
        dry: SchedPhaseRecord {
            start_time: 0,
            end_time: 0,
            loop_iter: 0,
            kind: 0,
            tasks_processed: 0,
            phase_data: [0; 2],
            shared_depth_at_start: [0; QUEUE_SHAPES],
            shared_depth_at_end: [0; QUEUE_SHAPES],
            _pad: [0; 4],
        },
    };
}

type OrchLane = RecordLane<OrchPhaseRecord, PHASE_RECORDS>;

/// What a launch fixes once.
struct Launch {
    layout: SwimlaneLayout,
    base: DeviceAddr,
    stall: Stall,
}

/// A scheduler phase, as the runtime reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedPhase {
    /// Which step of the loop.
    pub kind: SchedPhaseKind,
    /// In ticks.
    pub start: u64,
    /// In ticks.
    pub end: u64,
    /// Which turn of the loop.
    pub loop_iter: u32,
    /// Tasks handled.
    pub tasks: u32,
    /// Ready-queue pops that found a task.
    pub pop_hit: u32,
    /// Ready-queue pops that found none.
    pub pop_miss: u32,
    /// Ready-queue depths (AIC, AIV, MIX) at the start.
    pub depth_start: [i16; QUEUE_SHAPES],
    /// Ready-queue depths (AIC, AIV, MIX) at the end.
    pub depth_end: [i16; QUEUE_SHAPES],
}

/// The AICPU side of the chip swimlane.
///
/// # Who may call what
/// The recording functions are `unsafe`: per core number and per thread number, at most one call is under way at a
/// time (each core belongs to one scheduler thread, each thread number to one thread), and none while
/// [`init`](Self::init) or [`init_phases`](Self::init_phases) runs. That is the runtime's own structure.
pub struct Swimlane<C> {
    clock: C,
    /// Cores whose task lanes are open: 0 below level 2. One range check tests level, range and init.
    task_cores: AtomicU32,
    /// Cores whose own lanes are open: 0 at level 0.
    core_cores: AtomicU32,
    /// Threads whose phase lanes are open: 0 below level 3.
    sched_threads: AtomicU32,
    /// 1 when the orchestrator lane is open.
    orch_open: AtomicU32,
    orch_thread: AtomicU32,
    level: AtomicU32,
    /// Calls with a core or thread out of range.
    misused: AtomicU32,
    cores: [UnsafeCell<CoreState>; MAX_CORES],
    threads: [UnsafeCell<ThreadState>; MAX_THREADS],
    orch: UnsafeCell<OrchLane>,
    launch: UnsafeCell<Launch>,
}

// SAFETY: the cells are reached only by the recording functions, whose callers keep each core's and each thread's calls
// apart, and by the init functions, whose callers let nothing else run; everything else is atomic.
unsafe impl<C: Sync> Sync for Swimlane<C> {}
// SAFETY: the raw pointers inside name the region, which is not bound to a thread.
unsafe impl<C: Send> Send for Swimlane<C> {}

impl<C> fmt::Debug for Swimlane<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swimlane").field("level", &self.level()).finish_non_exhaustive()
    }
}

impl<C> Swimlane<C> {
    /// A collector that records nothing until [`init`](Self::init).
    pub const fn new(clock: C) -> Self {
        Swimlane {
            clock,
            task_cores: AtomicU32::new(0),
            core_cores: AtomicU32::new(0),
            sched_threads: AtomicU32::new(0),
            orch_open: AtomicU32::new(0),
            orch_thread: AtomicU32::new(NO_THREAD),
            level: AtomicU32::new(0),
            misused: AtomicU32::new(0),
            cores: [const { UnsafeCell::new(CoreState { task: RecordLane::CLOSED, core: CoreLane::CLOSED }) };
                MAX_CORES],
            threads: [const { UnsafeCell::new(ThreadState::IDLE) }; MAX_THREADS],
            orch: UnsafeCell::new(RecordLane::CLOSED),
            launch: UnsafeCell::new(Launch {
                layout: SwimlaneLayout::of(crate::abi::Platform::A2a3, 0),
                base: DeviceAddr::NULL,
                stall: Stall::NONE,
            }),
        }
    }

    /// The level in force: what the last init read, 0 before and after [`reset`](Self::reset).
    pub fn level(&self) -> Level {
        Level::from_raw(self.level.load(Relaxed)).unwrap_or_default()
    }

    /// Whether anything is recorded: the test that a runtime makes before it calls.
    #[inline(always)]
    pub fn enabled(&self) -> bool {
        self.open(&self.core_cores) != 0
    }

    /// Calls with a core or thread number out of range since the last init.
    pub fn misused(&self) -> u32 {
        self.misused.load(Relaxed)
    }

    /// Turns everything off: nothing of an earlier launch survives.
    ///
    /// # Safety
    /// No other function of this value is running.
    pub unsafe fn reset(&self) {
        for gate in [
            &self.task_cores,
            &self.core_cores,
            &self.sched_threads,
            &self.orch_open,
            &self.level,
            &self.misused,
        ] {
            gate.store(0, Relaxed);
        }
        self.orch_thread.store(NO_THREAD, Relaxed);
        for thread in &self.threads {
            // SAFETY: nothing else runs (the caller's contract). The queues point into the earlier launch's region.
            unsafe { (*thread.get()).queue = None };
        }
        // SAFETY: as above. The orchestrator's lane is its own gate.
        unsafe { *self.orch.get() = RecordLane::CLOSED };
    }

    /// What a gate lets through: how many cores or threads.
    #[inline(always)]
    fn open(&self, gate: &AtomicU32) -> u32 {
        // SAFETY: written by the init functions only, while nothing else runs; a plain load folds into the comparison.
        unsafe { gate.as_ptr().read() }
    }

    fn misuse(&self) {
        self.misused.store(self.misused.load(Relaxed).saturating_add(1), Relaxed);
    }
}

impl<C: Clock> Swimlane<C> {
    /// What the cold paths of the calling `thread` need.
    ///
    /// # Safety
    /// The caller is the only user of `thread`, and the result is gone before its next call.
    #[allow(clippy::mut_from_ref)] // one caller per thread number: the type's contract
    unsafe fn port(&self, thread: u32) -> Port<'_, QueuePtr, C> {
        let queue = match self.threads.get(thread as usize) {
            // SAFETY: one caller per thread number; the reference covers the queue alone, not the phase lane.
            Some(state) => unsafe { (*state.get()).queue.as_mut() },
            None => None,
        };
        if queue.is_none() {
            self.misuse();
        }
        // SAFETY: `launch` is written only by `init`, while nothing else runs.
        Port { queue, stall: unsafe { &(*self.launch.get()).stall }, clock: &self.clock }
    }

    /// The lanes of `core`.
    ///
    /// # Safety
    /// `core` is below the table's size.
    #[inline(always)]
    unsafe fn core(&self, core: u32) -> *mut CoreState {
        // SAFETY: in range (the caller's contract).
        unsafe { self.cores.get_unchecked(core as usize) }.get()
    }

    /// The state of `thread`.
    ///
    /// # Safety
    /// `thread` is below the table's size.
    #[inline(always)]
    unsafe fn thread(&self, thread: u32) -> *mut ThreadState {
        // SAFETY: in range (the caller's contract).
        unsafe { self.threads.get_unchecked(thread as usize) }.get()
    }

    /// Publishes what the lanes of `cores` hold. A core's last commit may still be under way.
    ///
    /// # Safety
    /// Called by `thread`, whose cores these are.
    pub unsafe fn flush(&self, thread: u32, cores: &[u32]) {
        for &core in cores {
            if core >= self.core_cores.load(Relaxed) {
                if self.level() != Level::Disabled {
                    self.misuse();
                }
                continue;
            }
            // SAFETY: in range, open, and the caller is the core's only one.
            let state = unsafe { &mut *self.core(core) };
            if core < self.task_cores.load(Relaxed) {
                // SAFETY: the caller is `thread`.
                state.task.flush(unsafe { self.port(thread) });
            }
            // SAFETY: the caller is `thread`.
            state.core.flush(unsafe { self.port(thread) });
        }
    }

    /// Publishes what the scheduler-phase lane of `thread` holds (level ≥ 3).
    ///
    /// # Safety
    /// Called by `thread`.
    pub unsafe fn flush_sched_phases(&self, thread: u32) {
        if thread < self.sched_threads.load(Relaxed) {
            // SAFETY: in range, open, one caller; the lane and the queue are apart.
            unsafe {
                let state = self.thread(thread);
                (*state).sched.flush(self.port(thread));
                (*state).sched.park(&raw mut (*state).dry);
            }
        } else {
            Self::no_phase_lane(thread, self);
        }
    }

    /// Publishes what the orchestrator's lane holds (level ≥ 4).
    ///
    /// # Safety
    /// Called by the orchestrator thread only.
    pub unsafe fn flush_orch_phases(&self) {
        if self.orch_open.load(Relaxed) != 0 {
            // SAFETY: open, and only the orchestrator comes here.
            unsafe { (*self.orch.get()).flush(self.port(self.orch_thread.load(Relaxed))) }
        }
    }

    /// Makes the counts and totals of `cores` and of `thread`'s phase lane visible without publishing buffers: for every
    /// abnormal exit, so that the host recovers exactly what there is.
    ///
    /// # Safety
    /// Called by `thread`, whose cores these are.
    pub unsafe fn sync(&self, thread: u32, cores: &[u32]) {
        for &core in cores {
            if core < self.core_cores.load(Relaxed) {
                // SAFETY: in range, open, and the caller is the core's only one.
                let state = unsafe { &mut *self.core(core) };
                state.core.sync();
                if core < self.task_cores.load(Relaxed) {
                    state.task.sync();
                }
            }
        }
        if thread < self.sched_threads.load(Relaxed) {
            // SAFETY: in range, open, one caller.
            unsafe { (*self.thread(thread)).sched.sync() }
        }
        if thread == self.orch_thread.load(Relaxed) && self.orch_open.load(Relaxed) != 0 {
            // SAFETY: open, and only the orchestrator comes here.
            unsafe { (*self.orch.get()).sync() }
        }
    }
}
