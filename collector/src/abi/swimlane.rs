//! The chip swimlane's region: four streams of records.
//!
//! ```text
//! base                                                          stride
//!  ├─ SwimlaneHeader                                        127168 (a2a3) / 233152 (a5)
//!  ├─ task pool  [num_cores]     AICPU dispatch / finish          192
//!  ├─ core pool  [num_cores]     AICore start / end               192
//!  ├─ sched pool [max_threads]   scheduler phases                 192
//!  └─ orch pool  [max_threads]   orchestrator submits (slot 0)    192
//! ```
//!
//! A pool is an [`ActiveHead`] (what the producer records into) and a [`SwimlaneFreeQueue`] (what the host offers).

use super::common::BackpressureHeader;
use super::records;
use crate::sync::{AtomicI8, AtomicU32, AtomicU64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PLATFORM_PROF_SLOT_COUNT`: free-queue slots of a pool.
pub const SLOTS: usize = 4;
/// `PLATFORM_PROF_BUFFER_SIZE`: records of a [`TaskBuffer`].
pub const TASK_RECORDS: usize = records(1000, 56);
/// `PLATFORM_AICORE_BUFFER_SIZE`: records of a [`CoreBuffer`].
pub const CORE_RECORDS: usize = records(1024, 64);
/// `PLATFORM_PHASE_RECORDS_PER_THREAD`: records of a [`SchedPhaseBuffer`] and an [`OrchPhaseBuffer`].
pub const PHASE_RECORDS: usize = records(16384, 96);
/// `PLATFORM_PROF_BUFFERS_PER_CORE`: task buffers that a host makes per core by default.
pub const TASK_BUFFERS: usize = 8;
/// `PLATFORM_AICORE_BUFFERS_PER_CORE`: core buffers that a host makes per core by default.
pub const CORE_BUFFERS: usize = 4;
/// `PLATFORM_PROF_SCHED_BUFFERS_PER_THREAD`: scheduler-phase buffers that a host makes per thread by default.
pub const SCHED_BUFFERS: usize = 6;
/// `PLATFORM_PROF_ORCH_BUFFERS_PER_THREAD`: orchestrator buffers that a host makes by default.
pub const ORCH_BUFFERS: usize = 8;
/// `CHIP_SWIMLANE_NUM_QUEUE_SHAPES`: AIC, AIV, MIX.
pub const QUEUE_SHAPES: usize = 3;

/// How much the chip swimlane records (`ChipSwimlaneLevel`). Each level is a guard in the collector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u32)]
pub enum Level {
    /// Nothing.
    #[default]
    Disabled = 0,
    /// The cores' own start and end.
    AicoreTiming = 1,
    /// And AICPU dispatch and finish.
    AicpuTiming = 2,
    /// And scheduler phases.
    SchedPhases = 3,
    /// And orchestrator submits.
    OrchPhases = 4,
}

impl Level {
    /// The level with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Level> {
        Some(match raw {
            0 => Level::Disabled,
            1 => Level::AicoreTiming,
            2 => Level::AicpuTiming,
            3 => Level::SchedPhases,
            4 => Level::OrchPhases,
            _ => return None,
        })
    }
}

/// What a ready entry's buffer holds (`ChipSwimlaneBufferKind`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum BufferKind {
    /// A [`TaskBuffer`]; the entry's index is a core.
    AicpuTask = 0,
    /// A [`SchedPhaseBuffer`]; the index is a thread.
    AicpuSchedPhase = 1,
    /// An [`OrchPhaseBuffer`]; the index is 0.
    AicpuOrchPhase = 2,
    /// A [`CoreBuffer`]; the index is a core.
    AicoreTask = 3,
}

impl BufferKind {
    /// The kind with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<BufferKind> {
        Some(match raw {
            0 => BufferKind::AicpuTask,
            1 => BufferKind::AicpuSchedPhase,
            2 => BufferKind::AicpuOrchPhase,
            3 => BufferKind::AicoreTask,
            _ => return None,
        })
    }
}

/// A step of a scheduler's loop (`ChipSwimlaneSchedPhaseKind`). 3 is unused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum SchedPhaseKind {
    /// Tasks seen to have finished.
    Complete = 0,
    /// Tasks written to cores.
    Dispatch = 1,
    /// Resources of finished tasks given back.
    Release = 2,
    /// Tasks without a kernel retired.
    Dummy = 4,
    /// Tasks written to cores ahead of their producers' end.
    EarlyDispatch = 5,
    /// Consumers of finished tasks made ready (inside `complete`).
    Resolve = 6,
    /// Marker: one task without a kernel.
    DummyTask = 7,
    /// Cores emptied and filled at once for a task whose blocks must start together.
    Drain = 8,
    /// The waiting part of `drain`.
    DrainPrepare = 9,
    /// The writing part of `drain`.
    DrainPublish = 10,
    /// Tasks that complete by an event, looked at.
    AsyncPoll = 11,
    /// Marker: one task whose predicate was false.
    PredicatedSkip = 12,
    /// A graph task's nodes made.
    GraphPrepare = 13,
}

impl SchedPhaseKind {
    /// All kinds, by number.
    pub const ALL: [SchedPhaseKind; 13] = [
        SchedPhaseKind::Complete,
        SchedPhaseKind::Dispatch,
        SchedPhaseKind::Release,
        SchedPhaseKind::Dummy,
        SchedPhaseKind::EarlyDispatch,
        SchedPhaseKind::Resolve,
        SchedPhaseKind::DummyTask,
        SchedPhaseKind::Drain,
        SchedPhaseKind::DrainPrepare,
        SchedPhaseKind::DrainPublish,
        SchedPhaseKind::AsyncPoll,
        SchedPhaseKind::PredicatedSkip,
        SchedPhaseKind::GraphPrepare,
    ];

    /// The kind with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<SchedPhaseKind> {
        let mut i = 0;
        while i < Self::ALL.len() {
            if Self::ALL[i] as u32 == raw {
                return Some(Self::ALL[i]);
            }
            i += 1;
        }
        None
    }
}

/// One AICPU task record (`ChipSwimlaneAicpuTaskRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(32))]
pub struct TaskRecord {
    /// When the task was written to the core, in ticks.
    pub dispatch_time: u64,
    /// When AICPU saw it complete, in ticks.
    pub finish_time: u64,
    /// The token, the per-core dispatch number.
    pub reg_task_id: u32,
    /// Never written by the reference.
    pub _pad: [u32; 3],
}

/// One AICore task record (`ChipSwimlaneAicoreTaskRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(32))]
pub struct CoreRecord {
    /// When the kernel started, in ticks.
    pub start_time: u64,
    /// When the kernel ended, in ticks.
    pub end_time: u64,
    /// The task id, or whatever the payload carried.
    pub task_token_raw: u64,
    /// The token, the per-core dispatch number.
    pub reg_task_id: u32,
    /// Ticks between seeing the token and starting the kernel.
    pub receive_to_start_cycles: u32,
}

/// One scheduler phase record (`ChipSwimlaneAicpuSchedPhaseRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SchedPhaseRecord {
    /// In ticks.
    pub start_time: u64,
    /// In ticks.
    pub end_time: u64,
    /// Which turn of the scheduler's loop.
    pub loop_iter: u32,
    /// A [`SchedPhaseKind`].
    pub kind: u32,
    /// Tasks handled (for `GraphPrepare`: nodes).
    pub tasks_processed: u32,
    /// For `Dispatch`: pop hits and misses. For the markers and `GraphPrepare`: the task id's low and high half.
    pub phase_data: [u32; 2],
    /// Ready-queue depths (AIC, AIV, MIX) at the start.
    pub shared_depth_at_start: [i16; QUEUE_SHAPES],
    /// Ready-queue depths (AIC, AIV, MIX) at the end.
    pub shared_depth_at_end: [i16; QUEUE_SHAPES],
    /// Never written.
    pub _pad: [u32; 4],
}

/// One orchestrator submit (`ChipSwimlaneAicpuOrchPhaseRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OrchPhaseRecord {
    /// In ticks.
    pub start_time: u64,
    /// In ticks.
    pub end_time: u64,
    /// The submitted task.
    pub task_id: u64,
    /// Counts submits from 0.
    pub submit_idx: u32,
    /// Never written.
    pub _pad: u32,
}

/// A fixed block of records and how many of them are valid (`TypedBuffer`).
#[repr(C, align(64))]
pub struct RecordBuffer<R, const N: usize> {
    /// The records.
    pub records: [R; N],
    /// How many records are valid.
    pub count: AtomicU32,
}

/// `ChipSwimlaneAicpuTaskBuffer`
pub type TaskBuffer = RecordBuffer<TaskRecord, TASK_RECORDS>;
/// `ChipSwimlaneAicoreTaskBuffer`
pub type CoreBuffer = RecordBuffer<CoreRecord, CORE_RECORDS>;
/// `ChipSwimlaneAicpuSchedPhaseBuffer`
pub type SchedPhaseBuffer = RecordBuffer<SchedPhaseRecord, PHASE_RECORDS>;
/// `ChipSwimlaneAicpuOrchPhaseBuffer`
pub type OrchPhaseBuffer = RecordBuffer<OrchPhaseRecord, PHASE_RECORDS>;

/// Empty buffers on their way to the device. Indices run freely and are taken modulo [`SLOTS`].
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct SwimlaneFreeQueue {
    /// Device addresses of buffers.
    pub buffer_ptrs: [AtomicU64; SLOTS],
    /// Taken so far (device writes).
    pub head: AtomicU32,
    /// Offered so far (host writes).
    pub tail: AtomicU32,
    /// Unused.
    pub _pad: [u32; 13],
}

/// What a producer records into, and its account.
///
/// An AICore reads `current_buf_ptr` and `current_buf_seq` at every reserve, so AICPU writes this line only at rotation
/// and flush. From `stalls` on: our extension in bytes that the pinned revision leaves unused.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ActiveHead {
    /// The active buffer's device address; 0 when there is none.
    pub current_buf_ptr: AtomicU64,
    /// Its number, counting from 0 per lane.
    pub current_buf_seq: AtomicU32,
    /// Records produced, as of the last publication.
    pub total_record_count: AtomicU32,
    /// Records for which there was no room.
    pub dropped_record_count: AtomicU32,
    /// Extension: how often the lane had to wait.
    pub stalls: AtomicU32,
    /// Extension: a full core buffer that waits for its gate; 0 when there is none.
    pub stash_ptr: AtomicU64,
    /// Extension: its sequence number.
    pub stash_seq: AtomicU32,
    /// Unused.
    pub _pad0: u32,
    /// Extension: ticks waited in all.
    pub stall_ticks: AtomicU64,
    /// Extension: the longest wait in ticks.
    pub max_stall_ticks: AtomicU64,
    /// Unused.
    pub _pad1: u64,
}

/// One lane's shared state (`ChipSwimlaneAicpuTaskPool`, `ChipSwimlaneAicoreTaskPool` and the two phase pools).
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Pool {
    /// What the producer records into.
    pub head: ActiveHead,
    /// What the host offers.
    pub free_queue: SwimlaneFreeQueue,
}

/// Set in [`ReadyEntry::flags`] of a core buffer that was published by a flush, before its gate: its last row may still
/// be on its way, so it is decoded only after the device has come to rest.
pub const ENTRY_FLUSHED: u32 = 1;

/// A full buffer on its way to the host (`ReadyQueueEntry`). Written field by field, then published by the tail.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct ReadyEntry {
    /// The core or thread, by `kind`.
    pub core_index: AtomicU32,
    /// A [`BufferKind`].
    pub kind: AtomicU32,
    /// The buffer's device address.
    pub buffer_ptr: AtomicU64,
    /// The buffer's sequence number in its lane.
    pub buffer_seq: AtomicU32,
    /// Extension: `ENTRY_*` bits.
    pub flags: AtomicU32,
    /// Unused.
    pub _pad: u64,
}

/// The region's header (`ChipSwimlaneDataHeader`): `T` threads, `N` ready entries per thread, `C` cores.
#[repr(C, align(64))]
pub struct SwimlaneHeader<const T: usize, const N: usize, const C: usize> {
    /// One ready queue per AICPU thread. Indices are stored reduced modulo `N`; `N - 1` entries are usable.
    pub queues: [[ReadyEntry; N]; T],
    /// Taken by the host.
    pub queue_heads: [AtomicU32; T],
    /// Published by the device.
    pub queue_tails: [AtomicU32; T],
    /// Cores of this run (host writes).
    pub num_cores: AtomicU32,
    /// A [`Level`] (host writes).
    pub chip_swimlane_level: AtomicU32,
    /// Scheduler-phase lanes in use (device writes).
    pub num_sched_phase_threads: AtomicU32,
    /// Orchestrator lanes in use (device writes).
    pub num_orch_phase_threads: AtomicU32,
    /// Valid entries of `core_to_thread` (device writes).
    pub num_phase_cores: AtomicU32,
    /// Which scheduler thread owns a core; -1 for none (device writes).
    pub core_to_thread: [AtomicI8; C],
    /// The freeze.
    pub backpressure: BackpressureHeader,
    /// Extension: the [peer word](super::peer).
    pub peer: AtomicU32,
    /// Extension: the [stall budget](crate::stall) that the host grants.
    pub stall_budget: AtomicU32,
}

/// The header on a2a3.
pub type SwimlaneHeaderA2a3 = SwimlaneHeader<4, 992, 72>;
/// The header on a5.
pub type SwimlaneHeaderA5 = SwimlaneHeader<5, 1456, 108>;

const _: () = {
    assert!(size_of::<TaskRecord>() == 32 && size_of::<CoreRecord>() == 32);
    assert!(size_of::<SchedPhaseRecord>() == 64 && size_of::<OrchPhaseRecord>() == 32);
    assert!(cfg!(miri) || size_of::<TaskBuffer>() == 32064 && size_of::<CoreBuffer>() == 32832);
    assert!(cfg!(miri) || size_of::<SchedPhaseBuffer>() == 1048640);
    assert!(cfg!(miri) || size_of::<OrchPhaseBuffer>() == 524352);
    assert!(
        size_of::<SwimlaneFreeQueue>() == 128 && size_of::<ActiveHead>() == 64 && size_of::<Pool>() == 192
    );
    assert!(size_of::<ReadyEntry>() == 32);
    assert!(size_of::<SwimlaneHeaderA2a3>() == 127168 && size_of::<SwimlaneHeaderA5>() == 233152);
};
