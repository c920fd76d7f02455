//! The device-phase region: how long an AICPU thread spent on the parts of a launch.
//!
//! ```text
//! base                                                                     stride
//!  ├─ Header                                                                  16
//!  ├─ PhaseRecord      [launch threads][PHASES]                               16
//!  └─ TaskTimingRecord [launch threads][TIMING_SLOTS]                         16
//! ```
//!
//! Not one of the five, and of a simpler shape: no queues, no buffers; the host reads it after the launch. Each thread
//! writes its own rows only. A row that nobody wrote is `{UNSET, 0}`.

use crate::sync::AtomicU64;

/// `NUM_AICPU_PHASES`: phases of a thread.
pub const PHASES: usize = 10;
/// `NUM_TASK_TIMING_SLOTS`: task timings of a thread.
pub const TIMING_SLOTS: usize = 16;
/// `TASK_TIMING_SLOT_NONE`: a task that is not timed.
pub const NO_TIMING_SLOT: i32 = -1;
/// `kPhaseUnset`: a start that was not stamped.
pub const UNSET: u64 = u64::MAX;

/// A part of a launch (`AicpuPhase`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum Phase {
    /// All of it.
    RunWall = 0,
    /// Before the orchestrator is loaded.
    Preamble = 1,
    /// Loading the orchestrator.
    SoLoad = 2,
    /// Building the graph.
    GraphBuild = 3,
    /// After the orchestrator has returned.
    PostOrch = 4,
    /// From the orchestrator's first submit to its last.
    OrchWindow = 5,
    /// From a scheduler's first turn to its last.
    SchedWindow = 6,
    /// Checking the configuration.
    ConfigValidate = 7,
    /// Wiring the arena.
    ArenaWire = 8,
    /// Resetting the shared memory.
    SmReset = 9,
}

impl Phase {
    /// All phases, by number; its length is `Count`.
    pub const ALL: [Phase; PHASES] = [
        Phase::RunWall,
        Phase::Preamble,
        Phase::SoLoad,
        Phase::GraphBuild,
        Phase::PostOrch,
        Phase::OrchWindow,
        Phase::SchedWindow,
        Phase::ConfigValidate,
        Phase::ArenaWire,
        Phase::SmReset,
    ];

    /// The phase with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Phase> {
        if (raw as usize) < Self::ALL.len() { Some(Self::ALL[raw as usize]) } else { None }
    }
}

/// The region's header (`DevicePhaseBufferHeader`).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Header {
    /// Not 0: task timings were stamped.
    pub task_timing_tail_used: AtomicU64,
    /// Unused.
    pub _pad: u64,
}

/// One phase of one thread (`AicpuPhaseRecord`).
#[derive(Debug)]
#[repr(C)]
pub struct PhaseRecord {
    /// In ticks; [`UNSET`] until stamped.
    pub start_cycle: AtomicU64,
    /// In ticks; 0 until stamped.
    pub end_cycle: AtomicU64,
}

/// One task timing of one thread (`TaskTimingRecord`).
#[derive(Debug)]
#[repr(C)]
pub struct TaskTimingRecord {
    /// The earliest dispatch, in ticks; [`UNSET`] until stamped.
    pub dispatch_cycle: AtomicU64,
    /// The latest finish, in ticks; 0 until stamped.
    pub finish_cycle: AtomicU64,
}

const _: () = {
    assert!(size_of::<Header>() == 16);
    assert!(size_of::<PhaseRecord>() == 16 && size_of::<TaskTimingRecord>() == 16);
};
