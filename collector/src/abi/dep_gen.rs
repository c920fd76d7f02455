//! dep_gen's region: every submit with its tensors, from which the host works out who depends on whom.
//!
//! ```text
//! base                                                          stride
//!  ├─ Header                                                1088 (a2a3) / 1344 (a5)
//!  └─ BufferState [1]                                           192
//! ```
//!
//! A submit is one [`SubmitRecord`]; explicit dependencies beyond its 64 follow in [`OverflowRecord`]s, which take
//! whole slots of the same buffer right behind it:
//!
//! ```text
//!  slot  │ submit  HAS_OVERFLOW │ OVERFLOW │ OVERFLOW LAST_OVERFLOW │ submit │ …
//! ```
//!
//! A chain is published by one store of the count, so it never straddles two buffers.

use super::common::BackpressureHeader;
use super::records;
use super::shared;
use super::tensor::{MAX_TENSOR_ARGS, Tensor};
use crate::sync::{AtomicU32, AtomicU64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PLATFORM_DEP_GEN_RECORDS_PER_BUFFER`: slots of a [`Buffer`].
pub const RECORDS: usize = records(1024, 64);
/// `PLATFORM_DEP_GEN_SLOT_COUNT`: free-queue slots.
pub const SLOTS: usize = 4;
/// `PLATFORM_DEP_GEN_BUFFERS_PER_INSTANCE`: buffers that a host makes by default.
pub const BUFFERS: usize = 4;
/// `PLATFORM_DEP_GEN_READYQUEUE_SIZE`: ready-queue entries per thread.
pub const READY_ENTRIES: usize = 8;
/// `DEP_GEN_TENSOR_SIZE`: a [`Tensor`] in bytes.
pub const TENSOR_BYTES: usize = 128;
/// `DEP_GEN_MAX_EXPLICIT_DEPS`: dependencies in a [`SubmitRecord`].
pub const MAX_EXPLICIT_DEPS: usize = 64;
/// `DEP_GEN_OVERFLOW_DEPS_PER_RECORD`: dependencies in an [`OverflowRecord`].
pub const OVERFLOW_DEPS: usize = 582;

/// Bits of [`SubmitRecord::flags`] and [`OverflowRecord::flags`] (`DepGenRecordFlags`).
pub mod flags {
    /// Submitted inside a manual scope: no dependency is inferred.
    pub const IN_MANUAL_SCOPE: u32 = 1;
    /// The record is followed by [`OVERFLOW`] records.
    pub const HAS_OVERFLOW: u32 = 2;
    /// The record is an [`OverflowRecord`](super::OverflowRecord).
    pub const OVERFLOW: u32 = 4;
    /// The last of a chain.
    pub const LAST_OVERFLOW: u32 = 8;
    /// The task may be written to a core before its producers end.
    pub const EARLY_DISPATCH: u32 = 16;
    /// Extension: the submit had more dependencies or tensors than there was room for; the graph is incomplete.
    pub const TRUNCATED: u32 = 32;
}

/// One submit (`DepGenRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct SubmitRecord {
    /// The submitted task.
    pub task_id: u64,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Valid entries of `arg_types` and `tensors`.
    pub tensor_count: u16,
    /// Valid entries of `explicit_deps`.
    pub explicit_dep_count: u16,
    /// Task ids that the caller named.
    pub explicit_deps: [u64; MAX_EXPLICIT_DEPS],
    /// A [`TensorArgType`](super::tensor::TensorArgType) per tensor.
    pub arg_types: [u8; MAX_TENSOR_ARGS],
    /// The kernel per [`SubtaskSlot`](super::task::SubtaskSlot); −1 for none.
    pub kernel_id: [i32; super::task::SUBTASK_SLOTS],
    /// Blocks of the task, at least 1.
    pub block_num: u32,
    /// The arguments; entries from `tensor_count` on keep old bytes.
    pub tensors: [Tensor; MAX_TENSOR_ARGS],
}

/// More dependencies of the submit in front (`DepGenOverflowRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct OverflowRecord {
    /// The submitted task, as in its [`SubmitRecord`].
    pub task_id: u64,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Valid entries of `deps`.
    pub dep_count: u16,
    /// Written as 0.
    pub _pad: u16,
    /// Task ids that the caller named.
    pub deps: [u64; OVERFLOW_DEPS],
}

/// `DepGenBuffer`. A slot is a [`SubmitRecord`] or, by its flags, an [`OverflowRecord`].
pub type Buffer = shared::CountedBuffer<SubmitRecord, RECORDS>;
/// `DepGenFreeQueue`
pub type FreeQueue = shared::FreeQueue<SLOTS, 22>;
/// `DepGenReadyQueueEntry`: the index is `instance_index`, always 0.
pub type ReadyEntry = shared::IndexedEntry;

/// The lane's shared state (`DepGenBufferState`).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BufferState {
    /// What the host offers.
    pub free_queue: FreeQueue,
    /// The active buffer's device address; 0 when there is none.
    pub current_buf_ptr: AtomicU64,
    /// Its number, counting from 0.
    pub current_buf_seq: AtomicU32,
    /// Submits for which there was no room, and the slots that a chain longer than a buffer would have needed.
    /// Recorded slots + dropped = total + overflow.
    pub dropped_record_count: AtomicU32,
    /// Submits, whether recorded or dropped.
    pub total_record_count: AtomicU32,
    /// Slots that [`OverflowRecord`]s take, or would have taken.
    pub total_overflow_record_count: AtomicU32,
    /// Extension: ticks waited in all.
    pub stall_ticks: AtomicU64,
    /// Extension: the longest wait in ticks.
    pub max_stall_ticks: AtomicU64,
    /// Extension: how often the lane had to wait.
    pub stalls: AtomicU32,
    /// Extension: the [stall budget](crate::stall) (host writes at init). The header of a5 has no room for it.
    pub stall_budget: AtomicU32,
    /// Extension: submits recorded with [`flags::TRUNCATED`].
    pub truncated_record_count: AtomicU32,
    /// Unused.
    pub _pad: [u32; 3],
}

/// The region's header (`DepGenDataHeader`): `T` threads.
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
    /// Extension: the [peer word](super::peer).
    pub peer: AtomicU32,
}

/// The header on a2a3.
pub type HeaderA2a3 = Header<4>;
/// The header on a5.
pub type HeaderA5 = Header<5>;

const _: () = {
    assert!(size_of::<SubmitRecord>() == 4672 && size_of::<OverflowRecord>() == 4672);
    assert!((cfg!(miri) || size_of::<Buffer>() == 4_784_192) && size_of::<Tensor>() == TENSOR_BYTES);
    assert!(size_of::<FreeQueue>() == 128 && size_of::<BufferState>() == 192);
    assert!(size_of::<HeaderA2a3>() == 1088 && size_of::<HeaderA5>() == 1344);
};
