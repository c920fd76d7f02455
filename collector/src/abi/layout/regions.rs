//! The regions whose lanes carry their own free queue in front: args dump, dep_gen, PMU, scope stats; and device phase.

use super::{BufferLayout, LaneLayout, QueueLayout, StallLayout};
use crate::abi::platform::{Geometry, Platform};
use crate::abi::{args_dump, dep_gen, device_phase, pmu, scope_stats, shared};
use core::mem::offset_of;

impl BufferLayout {
    const fn counted<R, const N: usize>() -> BufferLayout {
        BufferLayout {
            bytes: size_of::<shared::CountedBuffer<R, N>>(),
            records: offset_of!(shared::CountedBuffer<R, N>, records),
            record_bytes: size_of::<R>(),
            capacity: N as u32,
            count: offset_of!(shared::CountedBuffer<R, N>, count),
        }
    }

    /// The layout of an [`args_dump::MetaBuffer`].
    pub const fn args_dump() -> BufferLayout {
        Self::typed::<args_dump::Record, { args_dump::RECORDS }>()
    }

    /// The layout of a [`dep_gen::Buffer`].
    pub const fn dep_gen() -> BufferLayout {
        Self::counted::<dep_gen::SubmitRecord, { dep_gen::RECORDS }>()
    }

    /// The layout of a PMU buffer ([`pmu::BufferA2a3`], [`pmu::BufferA5`]).
    pub const fn pmu(platform: Platform) -> BufferLayout {
        match platform {
            Platform::A2a3 => Self::typed::<pmu::RecordA2a3, { pmu::RECORDS }>(),
            Platform::A5 => Self::typed::<pmu::RecordA5, { pmu::RECORDS }>(),
        }
    }

    /// The layout of a [`scope_stats::Buffer`].
    pub const fn scope_stats() -> BufferLayout {
        Self::counted::<scope_stats::Record, { scope_stats::RECORDS }>()
    }
}

macro_rules! lane_layout {
    ($state:ty, $slots:expr, $stall:expr) => {
        LaneLayout {
            current_ptr: offset_of!($state, current_buf_ptr),
            current_seq: offset_of!($state, current_buf_seq),
            total: offset_of!($state, total_record_count),
            dropped: offset_of!($state, dropped_record_count),
            free_ptrs: offset_of!($state, free_queue.buffer_ptrs),
            free_head: offset_of!($state, free_queue.head),
            free_tail: offset_of!($state, free_queue.tail),
            slots: $slots as u32,
            stall: $stall,
            bytes: size_of::<$state>(),
        }
    };
}

macro_rules! stall_layout {
    ($state:ty) => {
        Some(StallLayout {
            count: offset_of!($state, stalls),
            ticks: offset_of!($state, stall_ticks),
            max_ticks: offset_of!($state, max_stall_ticks),
        })
    };
}

macro_rules! queue_layout {
    ($header:ty, $threads:expr, $entries:expr) => {
        QueueLayout {
            threads: $threads as u32,
            entries: $entries as u32,
            heads: offset_of!($header, queue_heads),
            tails: offset_of!($header, queue_tails),
            backpressure: offset_of!($header, backpressure),
            peer: offset_of!($header, peer),
        }
    };
}

/// The state of an args-dump lane ([`args_dump::BufferState`]). Its `total` is our extension: 0 when the device is the
/// reference's.
pub const ARGS_DUMP_LANE: LaneLayout =
    lane_layout!(args_dump::BufferState, args_dump::SLOTS, stall_layout!(args_dump::BufferState));
/// The state of dep_gen's lane ([`dep_gen::BufferState`]).
pub const DEP_GEN_LANE: LaneLayout =
    lane_layout!(dep_gen::BufferState, dep_gen::SLOTS, stall_layout!(dep_gen::BufferState));
/// The state of the scope stats' lane ([`scope_stats::BufferState`]).
pub const SCOPE_STATS_LANE: LaneLayout =
    lane_layout!(scope_stats::BufferState, scope_stats::SLOTS, stall_layout!(scope_stats::BufferState));
/// The state of a PMU lane on a2a3 ([`pmu::BufferStateA2a3`]).
pub const PMU_LANE_A2A3: LaneLayout =
    lane_layout!(pmu::BufferStateA2a3, pmu::SLOTS, stall_layout!(pmu::BufferStateA2a3));
/// The state of a PMU lane on a5 ([`pmu::BufferStateA5`]).
pub const PMU_LANE_A5: LaneLayout =
    lane_layout!(pmu::BufferStateA5, pmu::SLOTS, stall_layout!(pmu::BufferStateA5));

/// Where an args-dump lane keeps its arena's account, relative to the lane's start: u64 where nothing else is said. What
/// follows `completed` is our extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaLayout {
    /// [`args_dump::BufferState::arena_base`].
    pub base: usize,
    /// [`args_dump::BufferState::arena_size`].
    pub size: usize,
    /// [`args_dump::BufferState::arena_write_offset`].
    pub write_offset: usize,
    /// [`args_dump::BufferState::published_payload_count`].
    pub published: usize,
    /// [`args_dump::BufferState::completed_payload_count`].
    pub completed: usize,
    /// [`args_dump::BufferState::arena_acknowledged`].
    pub acknowledged: usize,
    /// [`args_dump::BufferState::payload_bytes`].
    pub payload_bytes: usize,
    /// [`args_dump::BufferState::shed_payload_bytes`].
    pub shed_bytes: usize,
    /// u32: [`args_dump::BufferState::shed_record_count`].
    pub shed_records: usize,
    /// [`args_dump::BufferState::saved_payload_bytes`].
    pub saved_bytes: usize,
    /// u32: [`args_dump::BufferState::saved_record_count`].
    pub saved_records: usize,
}

/// The arena's account in an [`ARGS_DUMP_LANE`].
pub const ARENA: ArenaLayout = ArenaLayout {
    base: offset_of!(args_dump::BufferState, arena_base),
    size: offset_of!(args_dump::BufferState, arena_size),
    write_offset: offset_of!(args_dump::BufferState, arena_write_offset),
    published: offset_of!(args_dump::BufferState, published_payload_count),
    completed: offset_of!(args_dump::BufferState, completed_payload_count),
    acknowledged: offset_of!(args_dump::BufferState, arena_acknowledged),
    payload_bytes: offset_of!(args_dump::BufferState, payload_bytes),
    shed_bytes: offset_of!(args_dump::BufferState, shed_payload_bytes),
    shed_records: offset_of!(args_dump::BufferState, shed_record_count),
    saved_bytes: offset_of!(args_dump::BufferState, saved_payload_bytes),
    saved_records: offset_of!(args_dump::BufferState, saved_record_count),
};

/// The args dump's region for one platform and thread count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgsDumpLayout {
    /// Ready queues, freeze, peer word.
    pub queue: QueueLayout,
    /// u32: [`args_dump::Header::num_dump_threads`].
    pub num_threads: usize,
    /// u32: [`args_dump::Header::records_per_buffer`].
    pub records_per_buffer: usize,
    /// u64: [`args_dump::Header::arena_size_per_thread`].
    pub arena_size: usize,
    /// u32: [`args_dump::Header::magic`].
    pub magic: usize,
    /// u32: [`args_dump::Header::dump_args_level`].
    pub level: usize,
    /// u32: [`args_dump::Header::stall_budget`].
    pub stall_budget: usize,
    /// u32: [`args_dump::Header::options`].
    pub options: usize,
    /// u32: [`args_dump::Header::lost_mark_count`].
    pub lost_marks: usize,
    /// Size of the header in bytes.
    pub header_bytes: usize,
    /// Threads of this run.
    pub threads: u32,
}

impl ArgsDumpLayout {
    const fn header<const T: usize, const N: usize>(threads: u32) -> ArgsDumpLayout {
        ArgsDumpLayout {
            queue: queue_layout!(args_dump::Header<T, N>, T, N),
            num_threads: offset_of!(args_dump::Header<T, N>, num_dump_threads),
            records_per_buffer: offset_of!(args_dump::Header<T, N>, records_per_buffer),
            arena_size: offset_of!(args_dump::Header<T, N>, arena_size_per_thread),
            magic: offset_of!(args_dump::Header<T, N>, magic),
            level: offset_of!(args_dump::Header<T, N>, dump_args_level),
            stall_budget: offset_of!(args_dump::Header<T, N>, stall_budget),
            options: offset_of!(args_dump::Header<T, N>, options),
            lost_marks: offset_of!(args_dump::Header<T, N>, lost_mark_count),
            header_bytes: size_of::<args_dump::Header<T, N>>(),
            threads,
        }
    }

    /// The layout for `threads` threads of `platform`.
    pub const fn of(platform: Platform, threads: u32) -> ArgsDumpLayout {
        match platform {
            Platform::A2a3 => Self::header::<4, 64>(threads),
            Platform::A5 => Self::header::<5, 80>(threads),
        }
    }

    /// Offset of the [`ARGS_DUMP_LANE`] of `thread`.
    pub const fn lane(&self, thread: u32) -> usize {
        self.header_bytes + thread as usize * ARGS_DUMP_LANE.bytes
    }

    /// Size of the whole region in bytes.
    pub const fn bytes(&self) -> usize {
        self.lane(self.threads)
    }
}

/// dep_gen's region for one platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepGenLayout {
    /// Ready queues, freeze, peer word.
    pub queue: QueueLayout,
    /// u32: [`dep_gen::Header::num_instances`].
    pub num_instances: usize,
    /// Size of the header in bytes.
    pub header_bytes: usize,
}

impl DepGenLayout {
    /// u32, relative to the lane's start: [`dep_gen::BufferState::total_overflow_record_count`].
    pub const OVERFLOW_TOTAL: usize = offset_of!(dep_gen::BufferState, total_overflow_record_count);
    /// u32, relative to the lane's start: [`dep_gen::BufferState::truncated_record_count`] (our device half only).
    pub const TRUNCATED: usize = offset_of!(dep_gen::BufferState, truncated_record_count);

    const fn header<const T: usize>() -> DepGenLayout {
        DepGenLayout {
            queue: queue_layout!(dep_gen::Header<T>, T, dep_gen::READY_ENTRIES),
            num_instances: offset_of!(dep_gen::Header<T>, num_instances),
            header_bytes: size_of::<dep_gen::Header<T>>(),
        }
    }

    /// The layout for `platform`.
    pub const fn of(platform: Platform) -> DepGenLayout {
        match platform {
            Platform::A2a3 => Self::header::<4>(),
            Platform::A5 => Self::header::<5>(),
        }
    }

    /// Offset of the [`DEP_GEN_LANE`].
    pub const fn lane(&self) -> usize {
        self.header_bytes
    }

    /// u32: [`dep_gen::BufferState::stall_budget`].
    pub const fn stall_budget(&self) -> usize {
        self.lane() + offset_of!(dep_gen::BufferState, stall_budget)
    }

    /// Size of the whole region in bytes.
    pub const fn bytes(&self) -> usize {
        self.lane() + DEP_GEN_LANE.bytes
    }
}

/// The PMU's region for one platform and core count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmuLayout {
    /// Ready queues, freeze, peer word.
    pub queue: QueueLayout,
    /// u32: [`pmu::Header::num_cores`].
    pub num_cores: usize,
    /// u32: [`pmu::Header::event_type`].
    pub event_type: usize,
    /// u32: [`pmu::Header::stall_budget`].
    pub stall_budget: usize,
    /// Size of the header in bytes.
    pub header_bytes: usize,
    /// A lane's state: [`PMU_LANE_A2A3`] or [`PMU_LANE_A5`].
    pub state: LaneLayout,
    /// u64, relative to the lane's start, on a5: [`pmu::BufferStateA5::aicore_ring_ptr`].
    pub ring_ptr: Option<usize>,
    /// u32, relative to the lane's start, on a5: [`pmu::BufferStateA5::mismatch_record_count`].
    pub mismatched: Option<usize>,
    /// Cores of this run.
    pub cores: u32,
}

impl PmuLayout {
    const fn header<const T: usize, const N: usize>(state: LaneLayout, cores: u32) -> PmuLayout {
        PmuLayout {
            queue: queue_layout!(pmu::Header<T, N>, T, N),
            num_cores: offset_of!(pmu::Header<T, N>, num_cores),
            event_type: offset_of!(pmu::Header<T, N>, event_type),
            stall_budget: offset_of!(pmu::Header<T, N>, stall_budget),
            header_bytes: size_of::<pmu::Header<T, N>>(),
            state,
            ring_ptr: None,
            mismatched: None,
            cores,
        }
    }

    /// The layout for `cores` cores of `platform`.
    pub const fn of(platform: Platform, cores: u32) -> PmuLayout {
        match platform {
            Platform::A2a3 => Self::header::<4, 144>(PMU_LANE_A2A3, cores),
            Platform::A5 => PmuLayout {
                ring_ptr: Some(offset_of!(pmu::BufferStateA5, aicore_ring_ptr)),
                mismatched: Some(offset_of!(pmu::BufferStateA5, mismatch_record_count)),
                ..Self::header::<5, 216>(PMU_LANE_A5, cores)
            },
        }
    }

    /// Offset of the state of `core`'s lane.
    pub const fn lane(&self, core: u32) -> usize {
        self.header_bytes + core as usize * self.state.bytes
    }

    /// Size of the whole region in bytes.
    pub const fn bytes(&self) -> usize {
        self.lane(self.cores)
    }
}

/// The scope stats' region for one platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeStatsLayout {
    /// Ready queues, freeze, peer word.
    pub queue: QueueLayout,
    /// u32: [`scope_stats::Header::num_instances`].
    pub num_instances: usize,
    /// `[i32; RINGS]`: [`scope_stats::Header::task_window_cap`].
    pub task_window_cap: usize,
    /// `[i32; RINGS]`: [`scope_stats::Header::dep_pool_cap`].
    pub dep_pool_cap: usize,
    /// `[u64; RINGS]`: [`scope_stats::Header::heap_cap`].
    pub heap_cap: usize,
    /// i32: [`scope_stats::Header::tensormap_cap`].
    pub tensormap_cap: usize,
    /// u32: [`scope_stats::Header::fatal_latched`].
    pub fatal_latched: usize,
    /// Size of the header in bytes.
    pub header_bytes: usize,
}

impl ScopeStatsLayout {
    /// u32, relative to the lane's start: [`scope_stats::BufferState::deep_scope_count`] (our device half only).
    pub const DEEP: usize = offset_of!(scope_stats::BufferState, deep_scope_count);

    const fn header<const T: usize>() -> ScopeStatsLayout {
        ScopeStatsLayout {
            queue: queue_layout!(scope_stats::Header<T>, T, scope_stats::READY_ENTRIES),
            num_instances: offset_of!(scope_stats::Header<T>, num_instances),
            task_window_cap: offset_of!(scope_stats::Header<T>, task_window_cap),
            dep_pool_cap: offset_of!(scope_stats::Header<T>, dep_pool_cap),
            heap_cap: offset_of!(scope_stats::Header<T>, heap_cap),
            tensormap_cap: offset_of!(scope_stats::Header<T>, tensormap_cap),
            fatal_latched: offset_of!(scope_stats::Header<T>, fatal_latched),
            header_bytes: size_of::<scope_stats::Header<T>>(),
        }
    }

    /// The layout for `platform`.
    pub const fn of(platform: Platform) -> ScopeStatsLayout {
        match platform {
            Platform::A2a3 => Self::header::<4>(),
            Platform::A5 => Self::header::<5>(),
        }
    }

    /// Offset of the [`SCOPE_STATS_LANE`].
    pub const fn lane(&self) -> usize {
        self.header_bytes
    }

    /// u32: [`scope_stats::BufferState::stall_budget`].
    pub const fn stall_budget(&self) -> usize {
        self.lane() + offset_of!(scope_stats::BufferState, stall_budget)
    }

    /// Size of the whole region in bytes.
    pub const fn bytes(&self) -> usize {
        self.lane() + SCOPE_STATS_LANE.bytes
    }
}

/// The device-phase region for one count of launch threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePhaseLayout {
    /// Threads that a launch starts.
    pub launch_threads: u32,
}

impl DevicePhaseLayout {
    /// Offset of the [`device_phase::PhaseRecord`] of `phase` of `thread`.
    pub const fn phase(&self, thread: u32, phase: u32) -> usize {
        let index = thread as usize * device_phase::PHASES + phase as usize;
        size_of::<device_phase::Header>() + index * size_of::<device_phase::PhaseRecord>()
    }

    /// Offset of the [`device_phase::TaskTimingRecord`] in `slot` of `thread`.
    pub const fn timing(&self, thread: u32, slot: u32) -> usize {
        let index = thread as usize * device_phase::TIMING_SLOTS + slot as usize;
        self.phase(self.launch_threads, 0) + index * size_of::<device_phase::TaskTimingRecord>()
    }

    /// Size of the whole region in bytes.
    pub const fn bytes(&self) -> usize {
        self.timing(self.launch_threads, 0)
    }
}

const _: () = {
    assert!(ArgsDumpLayout::of(Platform::A2a3, 4).queue.entries == Geometry::A2A3.dump_ready_entries);
    assert!(ArgsDumpLayout::of(Platform::A5, 5).queue.entries == Geometry::A5.dump_ready_entries);
    assert!(PmuLayout::of(Platform::A2a3, 72).queue.entries == Geometry::A2A3.pmu_ready_entries);
    assert!(PmuLayout::of(Platform::A5, 108).queue.entries == Geometry::A5.pmu_ready_entries);
};
