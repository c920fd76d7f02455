//! The cold half of the AICPU side: attaching to a region, opening its lanes, and who owns which core.

use super::core_lane::CoreLane;
use super::mem::{PoolMem, QueuePtr};
use super::record_lane::RecordLane;
use super::{Launch, Swimlane, ThreadState, rotation_entry};
use crate::abi::layout::SwimlaneLayout;
use crate::abi::peer::{self, Peer};
use crate::abi::swimlane::{BufferKind, Level, Pool, ReadyEntry};
use crate::abi::{BackpressureHeader, DeviceAddr, Geometry};
use crate::clock::Clock;
use crate::lane::ReadyQueue;
use crate::stall::{Budget, Stall};
use crate::sync::{AtomicI8, AtomicU32, AtomicU64, Ordering};
use core::fmt;

use Ordering::Relaxed;

/// Why a region cannot be recorded into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitError {
    /// No region was named.
    NoRegion,
    /// More cores than the region or the platform has.
    Cores {
        /// Asked for.
        wanted: u32,
        /// Possible.
        limit: u32,
    },
    /// The header's level is none of 0..=4.
    Level(u32),
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::NoRegion => write!(f, "chip swimlane: no region base was set; nothing is recorded"),
            InitError::Cores { wanted, limit } => {
                write!(
                    f,
                    "chip swimlane: {wanted} cores asked for, the region has {limit}; nothing is recorded"
                )
            }
            InitError::Level(level) => {
                write!(
                    f,
                    "chip swimlane: level {level} in the region header, expected 0..=4; nothing is recorded"
                )
            }
        }
    }
}

impl core::error::Error for InitError {}

/// The shared `T` at `offset` of the region at `base`.
///
/// # Safety
/// A `T` made of atomics (or never written while shared) lies there, and outlives `'a`.
unsafe fn word<'a, T>(base: DeviceAddr, offset: usize) -> &'a T {
    // SAFETY: the caller's contract.
    unsafe { &*(base.offset(offset as u64).0 as *const T) }
}

fn pool(base: DeviceAddr, layout: &SwimlaneLayout, kind: BufferKind, index: u32) -> *const Pool {
    base.offset(layout.pool(kind, index) as u64).0 as *const Pool
}

impl<C: Clock> Swimlane<C> {
    /// Initialises for a launch on the region at `base`: reads the level, opens the core lanes (and the task lanes from
    /// level 2 on) of cores `0..cores`, and fills the rotation table at `rotation_table` (may be null) with the address
    /// of each core's head. Takes buffers that are there, waits for none. State of an earlier launch is gone.
    ///
    /// `launch_start` is the counter when the launch began, if the runtime knows it; otherwise the clock is read once.
    ///
    /// # Errors
    /// [`InitError`]; nothing is recorded then.
    ///
    /// # Safety
    /// `base` is 0 or a chip-swimlane region made for `geometry`, mapped at that address for the whole launch, whose
    /// free queues hold buffers of the kinds of their pools; `rotation_table` is 0 or `cores` u64 there. No other
    /// function of this value is running.
    pub unsafe fn init(
        &self,
        geometry: &Geometry,
        base: DeviceAddr,
        rotation_table: DeviceAddr,
        cores: u32,
        launch_start: Option<u64>,
    ) -> Result<(), InitError> {
        // SAFETY: nothing else runs (the caller's contract).
        unsafe { self.reset() };
        if base.is_null() {
            return Err(InitError::NoRegion);
        }
        let header = SwimlaneLayout::of(geometry.platform, 0);
        // SAFETY: the header of `geometry`'s region lies at `base` (the caller's contract).
        let (num_cores, level, peer_word, budget) = unsafe {
            (
                word::<AtomicU32>(base, header.num_cores),
                word::<AtomicU32>(base, header.level),
                word::<AtomicU32>(base, header.queue.peer),
                word::<AtomicU32>(base, header.stall_budget),
            )
        };
        let made_for = num_cores.load(Relaxed);
        let limit = made_for.min(geometry.max_cores);
        if cores > limit {
            return Err(InitError::Cores { wanted: cores, limit });
        }
        let level = level.load(Relaxed);
        let level = Level::from_raw(level).ok_or(InitError::Level(level))?;
        let peers = peer_word.load(Relaxed);
        peer_word.store(peer::with_device(peers), Relaxed);
        let budget = match Peer::host(peers) {
            Peer::Ours(_) => Budget::from_word(budget.load(Relaxed)),
            Peer::Reference => Budget::DEFAULT,
        };
        let start = launch_start.unwrap_or_else(|| self.clock.now());
        // The pools are laid out for the host's core count, whatever part of it this launch uses.
        let layout = SwimlaneLayout::of(geometry.platform, made_for.min(geometry.max_cores));
        let launch = Launch { layout, base, stall: Stall::new(budget, geometry.clock_hz, start) };
        // SAFETY: nothing else runs, so the cell is ours.
        unsafe { *self.launch.get() = launch };

        for thread in 0..layout.queue.threads {
            // SAFETY: the queue's words lie in the header; nothing else runs, so the cell is ours.
            unsafe {
                let queue = QueuePtr::new(
                    base.offset(layout.queue.entry(thread, 0) as u64).0 as *const ReadyEntry,
                    layout.queue.entries,
                    word::<AtomicU32>(base, layout.queue.heads + 4 * thread as usize),
                    word::<AtomicU32>(base, layout.queue.tails + 4 * thread as usize),
                    word::<BackpressureHeader>(base, layout.queue.backpressure),
                );
                *self.threads[thread as usize].get() =
                    ThreadState { queue: Some(ReadyQueue::new(queue)), ..ThreadState::IDLE };
            }
        }
        for core in 0..cores {
            let task = pool(base, &layout, BufferKind::AicpuTask, core);
            let own = pool(base, &layout, BufferKind::AicoreTask, core);
            // SAFETY: both pools lie in the region and hold buffers of their kinds; nothing else runs.
            unsafe {
                let state = &mut *self.cores[core as usize].get();
                state.task = match level >= Level::AicpuTiming {
                    true => RecordLane::open(PoolMem::new(task), BufferKind::AicpuTask as u32, core),
                    false => RecordLane::CLOSED,
                };
                state.core = match level >= Level::AicoreTiming {
                    true => CoreLane::open(PoolMem::new(own), core),
                    false => CoreLane::CLOSED,
                };
            }
            if !rotation_table.is_null() {
                let entry = rotation_entry(rotation_table, core).0 as *const AtomicU64;
                // SAFETY: the table has `cores` entries (the caller's contract).
                // SYNC POINT: the core's `CoreRecorder::attach` acquires it, and sees the first buffer.
                unsafe { &*entry }.store(own as u64, Ordering::Release);
            }
        }
        self.level.store(level as u32, Relaxed);
        self.core_cores.store(if level >= Level::AicoreTiming { cores } else { 0 }, Relaxed);
        self.task_cores.store(if level >= Level::AicpuTiming { cores } else { 0 }, Relaxed);
        Ok(())
    }

    /// Opens the phase lanes: scheduler phases of threads `0..sched_threads` from level 3 on, the orchestrator's lane at
    /// level 4 (when `orch_threads` is not 0). Below level 3 it does nothing. Clears the core assignments.
    ///
    /// # Safety
    /// After [`init`](Self::init), while no other function of this value is running. The value is not moved from here on
    /// until the next [`init`](Self::init) or [`reset`](Self::reset).
    pub unsafe fn init_phases(&self, sched_threads: u32, orch_threads: u32) {
        let level = self.level();
        if level < Level::SchedPhases {
            return;
        }
        // SAFETY: initialised; only `init` writes the cell.
        let (base, layout) = unsafe { ((*self.launch.get()).base, (*self.launch.get()).layout) };
        let sched = sched_threads.min(layout.queue.threads);
        let orch = orch_threads.min(layout.queue.threads);
        // SAFETY: the words lie in the header.
        unsafe {
            word::<AtomicU32>(base, layout.num_sched_threads).store(sched, Relaxed);
            word::<AtomicU32>(base, layout.num_orch_threads).store(orch, Relaxed);
            word::<AtomicU32>(base, layout.num_phase_cores).store(0, Relaxed);
            self.assign_none(layout.cores);
        }
        for thread in 0..sched {
            let pool = pool(base, &layout, BufferKind::AicpuSchedPhase, thread);
            // SAFETY: the pool lies in the region; nothing else runs.
            unsafe {
                let state = self.threads[thread as usize].get();
                (*state).sched =
                    RecordLane::open(PoolMem::new(pool), BufferKind::AicpuSchedPhase as u32, thread);
                (*state).sched.park(&raw mut (*state).dry);
            }
        }
        self.sched_threads.store(sched, Relaxed);
        if level >= Level::OrchPhases && orch > 0 {
            let pool = pool(base, &layout, BufferKind::AicpuOrchPhase, 0);
            // SAFETY: the pool lies in the region; nothing else runs.
            unsafe {
                *self.orch.get() = RecordLane::open(PoolMem::new(pool), BufferKind::AicpuOrchPhase as u32, 0);
            }
            self.orch_open.store(1, Relaxed);
        }
    }

    /// Forgets which thread owns which core, for `total_cores` cores (level ≥ 3).
    ///
    /// # Safety
    /// After [`init_phases`](Self::init_phases), before any thread writes its assignments.
    pub unsafe fn init_core_assignments(&self, total_cores: u32) {
        if self.sched_threads.load(Relaxed) == 0 {
            return;
        }
        // SAFETY: initialised; the words lie in the header.
        unsafe {
            let (base, layout) = ((*self.launch.get()).base, (*self.launch.get()).layout);
            let total = total_cores.min(layout.cores);
            self.assign_none(total);
            word::<AtomicU32>(base, layout.num_phase_cores).store(total, Relaxed);
        }
    }

    /// # Safety
    /// Initialised; `cores` is at most the region's.
    unsafe fn assign_none(&self, cores: u32) {
        for core in 0..cores as usize {
            // SAFETY: `core_to_thread` has one byte per core.
            unsafe {
                let (base, layout) = ((*self.launch.get()).base, (*self.launch.get()).layout);
                word::<AtomicI8>(base, layout.core_to_thread + core).store(-1, Relaxed);
            }
        }
    }

    /// Writes that `thread` owns `cores` (level ≥ 3). Numbers out of range are counted and passed over.
    ///
    /// # Safety
    /// After [`init_core_assignments`](Self::init_core_assignments).
    pub unsafe fn write_core_assignments(&self, thread: u32, cores: &[u32]) {
        if self.sched_threads.load(Relaxed) == 0 {
            return;
        }
        // SAFETY: initialised; only `init` writes the cell.
        let (base, layout) = unsafe { ((*self.launch.get()).base, (*self.launch.get()).layout) };
        for &core in cores {
            if core < layout.cores && thread < layout.queue.threads {
                // SAFETY: `core_to_thread` has one byte per core.
                unsafe { word::<AtomicI8>(base, layout.core_to_thread + core as usize) }
                    .store(thread as i8, Relaxed);
            } else {
                self.misuse();
            }
        }
    }
}
