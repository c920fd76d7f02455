//! The PMU's region: what each core's hardware counters said, task by task.
//!
//! ```text
//! base                                                          stride
//!  ├─ Header                                               18496 (a2a3) / 34688 (a5)
//!  └─ BufferState [num_cores]                                   192
//!                                                 a5 only:  aicore_ring_ptr ─▶ AicoreRing, elsewhere   128
//! ```
//!
//! On a2a3 AICPU reads 8 counters of the core that has finished. On a5 the core reads its own 10 into its
//! [`AicoreRing`], at slot `token % 2` and with `task_id` (the token) last; AICPU takes them over when it sees the
//! finish and counts a mismatch when the slot holds another token. [`counters`] says what they mean.

use super::common::BackpressureHeader;
use super::platform::Platform;
use super::records;
use super::shared;
use super::swimlane::RecordBuffer;
use crate::sync::{AtomicU32, AtomicU64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PLATFORM_PMU_RECORDS_PER_BUFFER`: records of a buffer.
pub const RECORDS: usize = records(512, 32);
/// `PLATFORM_PMU_SLOT_COUNT`: free-queue slots of a core.
pub const SLOTS: usize = 4;
/// `PLATFORM_PMU_BUFFERS_PER_CORE`: buffers that a host makes per core by default.
pub const BUFFERS: usize = 2;
/// `PLATFORM_PMU_AICORE_RING_SIZE` (a5): slots of an [`AicoreRing`].
pub const RING_SLOTS: usize = 2;
/// `PMU_COUNTER_COUNT_A2A3`: counters of a core on a2a3.
pub const COUNTERS_A2A3: usize = 8;
/// `PMU_COUNTER_COUNT_A5`: counters of a core on a5.
pub const COUNTERS_A5: usize = 10;

/// Which events the counters count (`PmuEventType`). 3 is unused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u32)]
pub enum EventType {
    /// Operations by number type.
    ArithmeticUtilization = 1,
    /// Busy cycles by pipe; also stands in for an unknown number (`PMU_EVENT_TYPE_DEFAULT`).
    #[default]
    PipeUtilization = 2,
    /// Requests to the memories.
    Memory = 4,
    /// Requests to the cube's memories.
    MemoryL0 = 5,
    /// Cycles lost to conflicts.
    ResourceConflict = 6,
    /// Requests to the vector's memory.
    MemoryUb = 7,
    /// Hits and misses.
    L2Cache = 8,
}

impl EventType {
    /// All event types, by number.
    pub const ALL: [EventType; 7] = [
        EventType::ArithmeticUtilization,
        EventType::PipeUtilization,
        EventType::Memory,
        EventType::MemoryL0,
        EventType::ResourceConflict,
        EventType::MemoryUb,
        EventType::L2Cache,
    ];

    /// The event type with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<EventType> {
        let mut i = 0;
        while i < Self::ALL.len() {
            if Self::ALL[i] as u32 == raw {
                return Some(Self::ALL[i]);
            }
            i += 1;
        }
        None
    }

    /// The name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            EventType::ArithmeticUtilization => "ARITHMETIC_UTILIZATION",
            EventType::PipeUtilization => "PIPE_UTILIZATION",
            EventType::Memory => "MEMORY",
            EventType::MemoryL0 => "MEMORY_L0",
            EventType::ResourceConflict => "RESOURCE_CONFLICT",
            EventType::MemoryUb => "MEMORY_UB",
            EventType::L2Cache => "L2_CACHE",
        }
    }
}

/// What one counter counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The number for the counter's selector register; 0 when the counter is not used.
    pub event_id: u32,
    /// Its column in `pmu.csv`; empty when the counter is not used.
    pub name: &'static str,
}

/// The counters of `platform` for `event`, by index (`pmu_events` of `abi/*.json`).
pub const fn counters(platform: Platform, event: EventType) -> &'static [Counter] {
    use super::pmu_events::{A2A3, A5};
    let mut i = 0;
    while EventType::ALL[i] as u32 != event as u32 {
        i += 1;
    }
    match platform {
        Platform::A2a3 => &A2A3[i],
        Platform::A5 => &A5[i],
    }
}

/// How many counters a core of `platform` has.
pub const fn counter_count(platform: Platform) -> usize {
    match platform {
        Platform::A2a3 => COUNTERS_A2A3,
        Platform::A5 => COUNTERS_A5,
    }
}

/// One task's counters on a2a3 (`PmuRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct RecordA2a3 {
    /// The task.
    pub task_id: u64,
    /// The kernel.
    pub func_id: u32,
    /// A [`CoreType`](super::task::CoreType).
    pub core_type: i32,
    /// Cycles in all.
    pub pmu_total_cycles: u64,
    /// The counters, meaning by [`counters`].
    pub pmu_counters: [u32; COUNTERS_A2A3],
    /// Unused.
    pub _pad: u64,
}

/// One task's counters on a5 (`PmuRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct RecordA5 {
    /// The task; in an [`AicoreRing`] the token, written last.
    pub task_id: u64,
    /// The kernel.
    pub func_id: u32,
    /// A [`CoreType`](super::task::CoreType).
    pub core_type: i32,
    /// Cycles in all.
    pub pmu_total_cycles: u64,
    /// The counters, meaning by [`counters`].
    pub pmu_counters: [u32; COUNTERS_A5],
}

/// `PmuBuffer` on a2a3
pub type BufferA2a3 = RecordBuffer<RecordA2a3, RECORDS>;
/// `PmuBuffer` on a5
pub type BufferA5 = RecordBuffer<RecordA5, RECORDS>;
/// `PmuFreeQueue`
pub type FreeQueue = shared::FreeQueue<SLOTS, 22>;
/// `PmuReadyQueueEntry`: the index is `core_index`.
pub type ReadyEntry = shared::IndexedEntry;

/// Where a core of a5 leaves its counters for AICPU (`PmuAicoreRing`). Never cleared: read it volatile, by token.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct AicoreRing {
    /// Slot `token % 2`.
    pub dual_issue_slots: [RecordA5; RING_SLOTS],
}

/// One core's shared state on a2a3 (`PmuBufferState`).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BufferStateA2a3 {
    /// What the host offers.
    pub free_queue: FreeQueue,
    /// The active buffer's device address; 0 when there is none.
    pub current_buf_ptr: AtomicU64,
    /// Its number, counting from 0 per core.
    pub current_buf_seq: AtomicU32,
    /// Records for which there was no room.
    pub dropped_record_count: AtomicU32,
    /// Records produced.
    pub total_record_count: AtomicU32,
    /// Extension: how often the lane had to wait.
    pub stalls: AtomicU32,
    /// Extension: ticks waited in all.
    pub stall_ticks: AtomicU64,
    /// Extension: the longest wait in ticks.
    pub max_stall_ticks: AtomicU64,
    /// Unused.
    pub _pad: [u32; 6],
}

/// One core's shared state on a5 (`PmuBufferState`).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BufferStateA5 {
    /// What the host offers.
    pub free_queue: FreeQueue,
    /// The active buffer's device address; 0 when there is none.
    pub current_buf_ptr: AtomicU64,
    /// The core's [`AicoreRing`] (host writes).
    pub aicore_ring_ptr: AtomicU64,
    /// The active buffer's number, counting from 0 per core.
    pub current_buf_seq: AtomicU32,
    /// Records produced.
    pub total_record_count: AtomicU32,
    /// Records for which there was no room, or no ring.
    pub dropped_record_count: AtomicU32,
    /// Finishes whose ring slot held another token.
    pub mismatch_record_count: AtomicU32,
    /// Extension: ticks waited in all.
    pub stall_ticks: AtomicU64,
    /// Extension: the longest wait in ticks.
    pub max_stall_ticks: AtomicU64,
    /// Extension: how often the lane had to wait.
    pub stalls: AtomicU32,
    /// Unused.
    pub _pad: [u32; 3],
}

/// The region's header (`PmuDataHeader`): `T` threads, `N` ready entries per thread.
#[repr(C, align(64))]
pub struct Header<const T: usize, const N: usize> {
    /// One ready queue per AICPU thread. Indices are stored reduced modulo `N`; `N - 1` entries are usable.
    pub queues: [[ReadyEntry; N]; T],
    /// Taken by the host.
    pub queue_heads: [AtomicU32; T],
    /// Published by the device.
    pub queue_tails: [AtomicU32; T],
    /// Cores of this run, hence buffer states (host writes).
    pub num_cores: AtomicU32,
    /// An [`EventType`] (host writes).
    pub event_type: AtomicU32,
    /// The freeze.
    pub backpressure: BackpressureHeader,
    /// Extension: the [peer word](super::peer).
    pub peer: AtomicU32,
    /// Extension: the [stall budget](crate::stall) that the host grants.
    pub stall_budget: AtomicU32,
}

/// The header on a2a3.
pub type HeaderA2a3 = Header<4, 144>;
/// The header on a5.
pub type HeaderA5 = Header<5, 216>;

const _: () = {
    assert!(size_of::<RecordA2a3>() == 64 && size_of::<RecordA5>() == 64 && size_of::<AicoreRing>() == 128);
    assert!(cfg!(miri) || size_of::<BufferA2a3>() == 32832 && size_of::<BufferA5>() == 32832);
    assert!(size_of::<FreeQueue>() == 128);
    assert!(size_of::<BufferStateA2a3>() == 192 && size_of::<BufferStateA5>() == 192);
    assert!(size_of::<HeaderA2a3>() == 18496 && size_of::<HeaderA5>() == 34688);
};
