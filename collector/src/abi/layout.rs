//! Where things lie in a region, as numbers: what a side that may only copy ranges needs, and what both sides agree on.
//!
//! All offsets are bytes from the region's base (or from a buffer's start, in [`BufferLayout`]).

use super::platform::{Geometry, Platform};
use super::swimlane::{
    self, ActiveHead, BufferKind, Pool, SwimlaneFreeQueue, SwimlaneHeader, SwimlaneHeaderA2a3,
    SwimlaneHeaderA5,
};
use core::mem::offset_of;

mod regions;

pub use regions::{
    ARENA, ARGS_DUMP_LANE, ArenaLayout, ArgsDumpLayout, DEP_GEN_LANE, DepGenLayout, DevicePhaseLayout,
    PMU_LANE_A2A3, PMU_LANE_A5, PmuLayout, SCOPE_STATS_LANE, ScopeStatsLayout,
};

/// The ready queues of a region and the words around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLayout {
    /// AICPU threads, hence queues.
    pub threads: u32,
    /// Entries per queue (32 bytes each, queues back to back from offset 0).
    pub entries: u32,
    /// `queue_heads[0]`; the next words follow.
    pub heads: usize,
    /// `queue_tails[0]`; the next words follow.
    pub tails: usize,
    /// The [`BackpressureHeader`](super::BackpressureHeader).
    pub backpressure: usize,
    /// The [peer word](super::peer).
    pub peer: usize,
}

impl QueueLayout {
    /// Size of a ready entry in bytes, in every region.
    pub const ENTRY_BYTES: usize = 32;

    /// Offset of entry `index` of queue `thread`.
    pub const fn entry(&self, thread: u32, index: u32) -> usize {
        (thread as usize * self.entries as usize + index as usize) * Self::ENTRY_BYTES
    }
}

/// Where one lane's shared state lies, relative to that state's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLayout {
    /// u64: the active buffer.
    pub current_ptr: usize,
    /// u32: its sequence number.
    pub current_seq: usize,
    /// u32: records produced.
    pub total: usize,
    /// u32: records dropped.
    pub dropped: usize,
    /// `[u64; slots]`: the free queue's buffers.
    pub free_ptrs: usize,
    /// u32: taken from the free queue.
    pub free_head: usize,
    /// u32: offered to the free queue.
    pub free_tail: usize,
    /// Free-queue slots.
    pub slots: u32,
    /// The account of the producer's waits, where there is one (our device half only).
    pub stall: Option<StallLayout>,
    /// Size of the whole state in bytes.
    pub bytes: usize,
}

/// Where a lane accounts for its producer's waits, relative to the lane's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallLayout {
    /// u32: waits.
    pub count: usize,
    /// u64: ticks waited in all.
    pub ticks: usize,
    /// u64: the longest wait in ticks.
    pub max_ticks: usize,
}

/// Where things lie in a buffer of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLayout {
    /// Size of the buffer in bytes.
    pub bytes: usize,
    /// Offset of the first record.
    pub records: usize,
    /// Size of a record in bytes.
    pub record_bytes: usize,
    /// Records that fit.
    pub capacity: u32,
    /// u32: offset of the count.
    pub count: usize,
}

impl BufferLayout {
    const fn typed<R, const N: usize>() -> BufferLayout {
        BufferLayout {
            bytes: size_of::<swimlane::RecordBuffer<R, N>>(),
            records: offset_of!(swimlane::RecordBuffer<R, N>, records),
            record_bytes: size_of::<R>(),
            capacity: N as u32,
            count: offset_of!(swimlane::RecordBuffer<R, N>, count),
        }
    }

    /// The layout of a swimlane buffer.
    pub const fn swimlane(kind: BufferKind) -> BufferLayout {
        match kind {
            BufferKind::AicpuTask => Self::typed::<swimlane::TaskRecord, { swimlane::TASK_RECORDS }>(),
            BufferKind::AicoreTask => Self::typed::<swimlane::CoreRecord, { swimlane::CORE_RECORDS }>(),
            BufferKind::AicpuSchedPhase => {
                Self::typed::<swimlane::SchedPhaseRecord, { swimlane::PHASE_RECORDS }>()
            }
            BufferKind::AicpuOrchPhase => {
                Self::typed::<swimlane::OrchPhaseRecord, { swimlane::PHASE_RECORDS }>()
            }
        }
    }
}

/// The state of a swimlane lane ([`Pool`]).
pub const SWIMLANE_LANE: LaneLayout = LaneLayout {
    current_ptr: offset_of!(ActiveHead, current_buf_ptr),
    current_seq: offset_of!(ActiveHead, current_buf_seq),
    total: offset_of!(ActiveHead, total_record_count),
    dropped: offset_of!(ActiveHead, dropped_record_count),
    free_ptrs: offset_of!(Pool, free_queue) + offset_of!(SwimlaneFreeQueue, buffer_ptrs),
    free_head: offset_of!(Pool, free_queue) + offset_of!(SwimlaneFreeQueue, head),
    free_tail: offset_of!(Pool, free_queue) + offset_of!(SwimlaneFreeQueue, tail),
    slots: swimlane::SLOTS as u32,
    stall: Some(StallLayout {
        count: offset_of!(ActiveHead, stalls),
        ticks: offset_of!(ActiveHead, stall_ticks),
        max_ticks: offset_of!(ActiveHead, max_stall_ticks),
    }),
    bytes: size_of::<Pool>(),
};

/// The chip swimlane's region for one platform and core count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwimlaneLayout {
    /// Ready queues, freeze, peer word.
    pub queue: QueueLayout,
    /// u32: [`SwimlaneHeader::num_cores`].
    pub num_cores: usize,
    /// u32: [`SwimlaneHeader::chip_swimlane_level`].
    pub level: usize,
    /// u32: [`SwimlaneHeader::num_sched_phase_threads`].
    pub num_sched_threads: usize,
    /// u32: [`SwimlaneHeader::num_orch_phase_threads`].
    pub num_orch_threads: usize,
    /// u32: [`SwimlaneHeader::num_phase_cores`].
    pub num_phase_cores: usize,
    /// `[i8; max_cores]`: [`SwimlaneHeader::core_to_thread`].
    pub core_to_thread: usize,
    /// u32: [`SwimlaneHeader::stall_budget`].
    pub stall_budget: usize,
    /// Size of the header in bytes.
    pub header_bytes: usize,
    /// Cores of this run.
    pub cores: u32,
}

impl SwimlaneLayout {
    const fn header<const T: usize, const N: usize, const C: usize>(cores: u32) -> SwimlaneLayout {
        SwimlaneLayout {
            queue: QueueLayout {
                threads: T as u32,
                entries: N as u32,
                heads: offset_of!(SwimlaneHeader<T, N, C>, queue_heads),
                tails: offset_of!(SwimlaneHeader<T, N, C>, queue_tails),
                backpressure: offset_of!(SwimlaneHeader<T, N, C>, backpressure),
                peer: offset_of!(SwimlaneHeader<T, N, C>, peer),
            },
            num_cores: offset_of!(SwimlaneHeader<T, N, C>, num_cores),
            level: offset_of!(SwimlaneHeader<T, N, C>, chip_swimlane_level),
            num_sched_threads: offset_of!(SwimlaneHeader<T, N, C>, num_sched_phase_threads),
            num_orch_threads: offset_of!(SwimlaneHeader<T, N, C>, num_orch_phase_threads),
            num_phase_cores: offset_of!(SwimlaneHeader<T, N, C>, num_phase_cores),
            core_to_thread: offset_of!(SwimlaneHeader<T, N, C>, core_to_thread),
            stall_budget: offset_of!(SwimlaneHeader<T, N, C>, stall_budget),
            header_bytes: size_of::<SwimlaneHeader<T, N, C>>(),
            cores,
        }
    }

    /// The layout for `cores` cores of `platform`.
    pub const fn of(platform: Platform, cores: u32) -> SwimlaneLayout {
        match platform {
            Platform::A2a3 => Self::header::<4, 992, 72>(cores),
            Platform::A5 => Self::header::<5, 1456, 108>(cores),
        }
    }

    /// Offset of the pool of `kind` number `index` (a core, or a thread).
    pub const fn pool(&self, kind: BufferKind, index: u32) -> usize {
        let cores = self.cores as usize;
        let first = match kind {
            BufferKind::AicpuTask => 0,
            BufferKind::AicoreTask => cores,
            BufferKind::AicpuSchedPhase => 2 * cores,
            BufferKind::AicpuOrchPhase => 2 * cores + self.queue.threads as usize,
        };
        self.header_bytes + (first + index as usize) * size_of::<Pool>()
    }

    /// Size of the whole region in bytes (orchestrator pools are always one per thread).
    pub const fn bytes(&self) -> usize {
        self.pool(BufferKind::AicpuOrchPhase, self.queue.threads)
    }
}

const _: () = {
    assert!(SwimlaneLayout::of(Platform::A2a3, 24).bytes() == 137920);
    assert!(SwimlaneLayout::of(Platform::A2a3, 24).header_bytes == size_of::<SwimlaneHeaderA2a3>());
    assert!(SwimlaneLayout::of(Platform::A5, 1).header_bytes == size_of::<SwimlaneHeaderA5>());
    assert!(Geometry::A2A3.max_cores == 72);
};
