//! The scope stats' region: how full the runtime's resources were when a scope began and ended.
//!
//! ```text
//! base                                                          stride
//!  ├─ Header                                                1152 (a2a3) / 1472 (a5)
//!  └─ BufferState [1]                                           192
//! ```
//!
//! The header also holds each ring's capacities, which the device writes when the runtime tells them. The peer word
//! lies between them, where the 64-bit heap sizes are aligned:
//!
//! ```text
//!  … backpressure │ task_window_cap[4] │ dep_pool_cap[4] │ peer │ heap_cap[4] │ tensormap_cap │ fatal_latched
//! ```

use super::common::BackpressureHeader;
use super::records;
use super::shared;
use crate::sync::{AtomicI32, AtomicU32, AtomicU64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PLATFORM_SCOPE_STATS_RECORDS_PER_BUFFER`: records of a [`Buffer`].
pub const RECORDS: usize = records(512, 96);
/// `PLATFORM_SCOPE_STATS_SLOT_COUNT`: free-queue slots.
pub const SLOTS: usize = 8;
/// `PLATFORM_SCOPE_STATS_BUFFERS_PER_INSTANCE`: buffers that a host makes by default.
pub const BUFFERS: usize = 4;
/// `PLATFORM_SCOPE_STATS_READYQUEUE_SIZE`: ready-queue entries per thread.
pub const READY_ENTRIES: usize = 8;
/// `PTO2_SCOPE_STATS_MAX_RING_DEPTH`: rings.
pub const RINGS: usize = 4;
/// `PTO2_SCOPE_STATS_MAX_SCOPE_DEPTH`: scopes that can be open at once.
pub const MAX_DEPTH: usize = 64;
/// Bytes of [`Record::site_file_basename`], its NUL included.
pub const SITE_BYTES: usize = 32;

/// Which end of a scope (`SCOPE_STATS_PHASE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(i16)]
pub enum Phase {
    /// It was opened.
    Begin = 0,
    /// It was closed.
    End = 1,
}

impl Phase {
    /// The phase with number `raw`, if there is one.
    pub const fn from_raw(raw: i16) -> Option<Phase> {
        Some(match raw {
            0 => Phase::Begin,
            1 => Phase::End,
            _ => return None,
        })
    }
}

/// Which of a ring heap's two pointers wrapped (`SCOPE_STATS_HEAP_SIDE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(i32)]
pub enum HeapSide {
    /// The one that allocates.
    Alloc = 0,
    /// The one that reclaims.
    Reclaim = 1,
}

impl HeapSide {
    /// The side with number `raw`, if there is one.
    pub const fn from_raw(raw: i32) -> Option<HeapSide> {
        Some(match raw {
            0 => HeapSide::Alloc,
            1 => HeapSide::Reclaim,
            _ => return None,
        })
    }
}

/// One end of a scope (`ScopeStatsRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Record {
    /// The source file without its folders, NUL-terminated; what does not fit is cut off.
    pub site_file_basename: [u8; SITE_BYTES],
    /// The heap's reclaim pointer, unrolled, in bytes.
    pub heap_start: u64,
    /// The heap's allocation pointer, unrolled, in bytes.
    pub heap_end: u64,
    /// The source line.
    pub site_line: i32,
    /// First task of the window.
    pub task_start: i32,
    /// One past its last.
    pub task_end: i32,
    /// First entry in use of the dependency pool.
    pub dep_pool_start: i32,
    /// One past its last.
    pub dep_pool_end: i32,
    /// Tensor-map entries in use.
    pub tensormap_used: i32,
    /// How deep the scope is nested, from 0.
    pub depth: i16,
    /// The scope's ring.
    pub ring_id: i16,
    /// A [`Phase`].
    pub phase: i16,
    /// Written as 0.
    pub _pad: i16,
}

/// `ScopeStatsBuffer`
pub type Buffer = shared::CountedBuffer<Record, RECORDS>;
/// `ScopeStatsFreeQueue`
pub type FreeQueue = shared::FreeQueue<SLOTS, 14>;
/// `ScopeStatsReadyQueueEntry`: the index is `instance_index`, always 0.
pub type ReadyEntry = shared::IndexedEntry;

/// The lane's shared state (`ScopeStatsBufferState`).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BufferState {
    /// What the host offers.
    pub free_queue: FreeQueue,
    /// The active buffer's device address; 0 when there is none.
    pub current_buf_ptr: AtomicU64,
    /// Its number, counting from 0.
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
    /// Extension: the [stall budget](crate::stall) (host writes at init). The header has no room for it.
    pub stall_budget: AtomicU32,
    /// Extension: scopes that were opened at a depth of [`MAX_DEPTH`] and more.
    pub deep_scope_count: AtomicU32,
    /// Unused.
    pub _pad: [u32; 4],
}

/// The region's header (`ScopeStatsDataHeader`): `T` threads.
#[repr(C, align(64))]
pub struct Header<const T: usize> {
    /// One ready queue per AICPU thread. Indices are stored reduced modulo 8; 7 entries are usable.
    pub queues: [[ReadyEntry; READY_ENTRIES]; T],
    /// Taken by the host.
    pub queue_heads: [AtomicU32; T],
    /// Published by the device.
    pub queue_tails: [AtomicU32; T],
    /// [`BufferState`]s, always 1 (host writes).
    pub num_instances: AtomicU32,
    /// The freeze.
    pub backpressure: BackpressureHeader,
    /// Tasks that a ring's window holds (device writes).
    pub task_window_cap: [AtomicI32; RINGS],
    /// Entries of a ring's dependency pool (device writes).
    pub dep_pool_cap: [AtomicI32; RINGS],
    /// Extension: the [peer word](super::peer).
    pub peer: AtomicU32,
    /// A ring's heap in bytes (device writes).
    pub heap_cap: [AtomicU64; RINGS],
    /// Entries of the tensor map (device writes).
    pub tensormap_cap: AtomicI32,
    /// 1 once the runtime has met a fatal error (device writes).
    pub fatal_latched: AtomicU32,
}

/// The header on a2a3.
pub type HeaderA2a3 = Header<4>;
/// The header on a5.
pub type HeaderA5 = Header<5>;

const _: () = {
    assert!(size_of::<Record>() == 80 && (cfg!(miri) || size_of::<Buffer>() == 41024));
    assert!(size_of::<FreeQueue>() == 128 && size_of::<BufferState>() == 192);
    assert!(size_of::<HeaderA2a3>() == 1152 && size_of::<HeaderA5>() == 1472);
};
