//! The args dump's region: what tasks were called with, as records, and their payloads in arenas.
//!
//! ```text
//! base                                                          stride
//!  ├─ Header                                                8320 (a2a3) / 12928 (a5)
//!  └─ BufferState [threads]                                     256
//!       ├─ free queue                                           128
//!       ├─ active buffer, its number
//!       └─ arena: base, size, write offset ─▶ payload bytes, elsewhere
//! ```
//!
//! A thread's arena is circular and its offsets are not: `payload_offset` and `arena_write_offset` count bytes since
//! init, and a payload lies at `arena_base + offset % arena_size`, never across the end. `published_payload_count` and
//! `completed_payload_count` tell how many payloads the device has handed over and the host has saved; when the writer
//! wraps it waits until the two are equal.

use super::common::BackpressureHeader;
use super::shared;
use super::swimlane::RecordBuffer;
use super::tensor::MAX_DIMS;
use crate::sync::{AtomicU32, AtomicU64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PLATFORM_DUMP_RECORDS_PER_BUFFER`: records of a [`MetaBuffer`].
pub const RECORDS: usize = 256;
/// `PLATFORM_DUMP_SLOT_COUNT`: free-queue slots of a thread.
pub const SLOTS: usize = 4;
/// `PLATFORM_DUMP_BUFFERS_PER_THREAD`: buffers that a host makes per thread by default.
pub const BUFFERS: usize = 8;
/// `PLATFORM_DUMP_AVG_TENSOR_BYTES`: what an arena reckons per record, in bytes.
pub const AVERAGE_TENSOR_BYTES: u64 = 65_536;
/// `CALC_DUMP_ARENA_SIZE`: a thread's arena in bytes, by default.
pub const ARENA_BYTES: u64 = BUFFERS as u64 * RECORDS as u64 * AVERAGE_TENSOR_BYTES;
/// `ARGS_DUMP_MAGIC`: what the host writes in [`Header::magic`].
pub const MAGIC: u32 = 0x4455_4D50;
/// `ARGS_DUMP_MAX_FUNC_IDS`: kernels that a record can name.
pub const MAX_FUNC_IDS: usize = 3;
/// How a [`Record`] writes the kernel id −1.
pub const NO_FUNC_ID: u16 = u16::MAX;
/// `ARGS_DUMP_ARG_MASK_NONE`: no argument is marked.
pub const ARG_MASK_NONE: u64 = 0;
/// `ARGS_DUMP_ARG_MASK_BITS`: arguments that a mark mask covers.
pub const ARG_MASK_BITS: u32 = 64;
/// `ARGS_DUMP_RECORD_FLAG_ARG_INDEX_AMBIGUOUS`, in [`Record::flags`]: the index does not name one argument alone.
pub const FLAG_ARG_INDEX_AMBIGUOUS: u8 = 1;

/// How much the args dump records (`DumpArgsLevel`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u32)]
pub enum Level {
    /// Nothing.
    #[default]
    Off = 0,
    /// Marked arguments only.
    Partial = 1,
    /// Everything.
    Full = 2,
    /// A record of everything, the payload of marked tensors.
    Hybrid = 3,
}

impl Level {
    /// The level with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Level> {
        Some(match raw {
            0 => Level::Off,
            1 => Level::Partial,
            2 => Level::Full,
            3 => Level::Hybrid,
            _ => return None,
        })
    }
}

/// What a task does with an argument (`ArgsDumpRole`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Role {
    /// Reads it. Scalars, too.
    Input = 0,
    /// Writes it.
    Output = 1,
    /// Reads, then writes it.
    Inout = 2,
}

impl Role {
    /// The role with number `raw`, if there is one.
    pub const fn from_raw(raw: u8) -> Option<Role> {
        Some(match raw {
            0 => Role::Input,
            1 => Role::Output,
            2 => Role::Inout,
            _ => return None,
        })
    }
}

/// When an argument was captured (`ArgsDumpStage`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Before the task was written to a core.
    BeforeDispatch = 0,
    /// After it was seen to have finished.
    AfterCompletion = 1,
}

impl Stage {
    /// The stage with number `raw`, if there is one.
    pub const fn from_raw(raw: u8) -> Option<Stage> {
        Some(match raw {
            0 => Stage::BeforeDispatch,
            1 => Stage::AfterCompletion,
            _ => return None,
        })
    }
}

/// What an argument is (`ArgsDumpKind`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Its elements are in the arena.
    Tensor = 0,
    /// Its value is in the record.
    Scalar = 1,
}

impl Kind {
    /// The kind with number `raw`, if there is one.
    pub const fn from_raw(raw: u8) -> Option<Kind> {
        Some(match raw {
            0 => Kind::Tensor,
            1 => Kind::Scalar,
            _ => return None,
        })
    }
}

/// One captured argument (`ArgsDumpRecord`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Record {
    /// The task.
    pub task_id: u64,
    /// A [`Role`].
    pub role: u8,
    /// A [`Stage`].
    pub stage: u8,
    /// Valid entries of `shapes` and `strides`.
    pub ndims: u8,
    /// Unused.
    pub _pad0: u8,
    /// The argument's position; scalars come after the tensors.
    pub arg_index: u32,
    /// A [`DataType`](super::tensor::DataType).
    pub dtype: u8,
    /// 1 when the payload is shorter than the tensor.
    pub truncated: u8,
    /// 1 when the elements lay without holes.
    pub is_contiguous: u8,
    /// Unused.
    pub _pad1: [u8; 5],
    /// Where the payload begins, in bytes written to the arena before it.
    pub payload_offset: u64,
    /// The payload in bytes; 0 when there is none.
    pub payload_size: u64,
    /// A scalar's value; 0 for tensors.
    pub scalar_value: u64,
    /// A [`Kind`].
    pub kind: u8,
    /// `FLAG_*` bits.
    pub flags: u8,
    /// The task's kernels.
    pub func_ids: [u16; MAX_FUNC_IDS],
    /// Valid entries of `func_ids`.
    pub func_count: u8,
    /// Unused.
    pub _pad2: [u8; 7],
    /// The view's first element, in elements from the buffer's start.
    pub start_offset: u64,
    /// In elements, per dimension; only `ndims` are written.
    pub strides: [u32; MAX_DIMS],
    /// In elements, per dimension; only `ndims` are written.
    pub shapes: [u32; MAX_DIMS],
    /// Unused.
    pub _pad3: [u32; 4],
}

/// `DumpMetaBuffer`
pub type MetaBuffer = RecordBuffer<Record, RECORDS>;
/// `DumpFreeQueue`
pub type FreeQueue = shared::FreeQueue<SLOTS, 22>;
/// `DumpReadyQueueEntry`: the index is `thread_index`.
pub type ReadyEntry = shared::IndexedEntry;

/// One thread's shared state (`DumpBufferState`).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BufferState {
    /// What the host offers.
    pub free_queue: FreeQueue,
    /// The active buffer's device address; 0 when there is none.
    pub current_buf_ptr: AtomicU64,
    /// Its number, counting from 0 per thread.
    pub current_buf_seq: AtomicU32,
    /// Unused.
    pub _pad0: u32,
    /// The arena's device address (host writes).
    pub arena_base: AtomicU64,
    /// The arena in bytes (host writes).
    pub arena_size: AtomicU64,
    /// Bytes written to the arena since init (device writes).
    pub arena_write_offset: AtomicU64,
    /// Payloads in published buffers (device writes).
    pub published_payload_count: AtomicU64,
    /// Payloads that the host has saved (host writes).
    pub completed_payload_count: AtomicU64,
    /// Records for which there was no room; stays at its largest value.
    pub dropped_record_count: AtomicU32,
    /// Extension: records produced, as of the last publication. The pinned ABI keeps no total here.
    pub total_record_count: AtomicU32,
    /// Unused.
    pub _pad1: [u64; 8],
}

/// The region's header (`DumpDataHeader`): `T` threads, `N` ready entries per thread.
#[repr(C, align(64))]
pub struct Header<const T: usize, const N: usize> {
    /// One ready queue per AICPU thread. Indices are stored reduced modulo `N`; `N - 1` entries are usable.
    pub queues: [[ReadyEntry; N]; T],
    /// Taken by the host.
    pub queue_heads: [AtomicU32; T],
    /// Published by the device.
    pub queue_tails: [AtomicU32; T],
    /// Threads of this run, hence [`BufferState`]s (host writes).
    pub num_dump_threads: AtomicU32,
    /// [`RECORDS`] (host writes).
    pub records_per_buffer: AtomicU32,
    /// Every thread's arena in bytes (host writes).
    pub arena_size_per_thread: AtomicU64,
    /// [`MAGIC`] (host writes).
    pub magic: AtomicU32,
    /// A [`Level`] (host writes).
    pub dump_args_level: AtomicU32,
    /// The freeze.
    pub backpressure: BackpressureHeader,
    /// Extension: the [peer word](super::peer).
    pub peer: AtomicU32,
}

/// The header on a2a3.
pub type HeaderA2a3 = Header<4, 64>;
/// The header on a5.
pub type HeaderA5 = Header<5, 80>;

/// One argument as a caller describes it to the collector (`ArgsDumpInfo`). Crosses the C++ ABI, not shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Info {
    /// The task.
    pub task_id: u64,
    /// A [`Role`].
    pub role: u8,
    /// A [`Stage`].
    pub stage: u8,
    /// A [`DataType`](super::tensor::DataType).
    pub dtype: u8,
    /// Valid entries of `shapes` and `strides`.
    pub ndims: u8,
    /// The argument's position; scalars come after the tensors.
    pub arg_index: u32,
    /// Device address of the tensor's buffer.
    pub buffer_addr: u64,
    /// A scalar's value.
    pub scalar_value: u64,
    /// The task's kernels; −1 for none.
    pub func_ids: [i32; MAX_FUNC_IDS],
    /// Valid entries of `func_ids`.
    pub func_count: i32,
    /// A [`Kind`].
    pub kind: u8,
    /// `FLAG_*` bits.
    pub flags: u8,
    /// At [`Level::Hybrid`]: whether the payload is wanted.
    pub capture_payload: u8,
    /// Unused.
    pub _pad: [u8; 5],
    /// The view's first element, in elements from the buffer's start.
    pub start_offset: u64,
    /// In elements, per dimension.
    pub shapes: [u32; MAX_DIMS],
    /// In elements, per dimension.
    pub strides: [u32; MAX_DIMS],
}

/// What a task carries along for the dump (`ArgsDumpTaskMetadata`). Crosses the C++ ABI, not shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TaskMetadata {
    /// Bit per marked argument.
    pub dump_arg_mask: u64,
    /// Bit per argument whose mark is ambiguous.
    pub dump_arg_flags: u64,
    /// A [`DataType`](super::tensor::DataType) per scalar.
    pub scalar_dtypes: [u8; super::tensor::MAX_SCALAR_ARGS],
}

const _: () = {
    assert!(size_of::<Record>() == 128 && size_of::<MetaBuffer>() == 32832);
    assert!(size_of::<FreeQueue>() == 128 && size_of::<BufferState>() == 256);
    assert!(size_of::<HeaderA2a3>() == 8320 && size_of::<HeaderA5>() == 12928);
    assert!(size_of::<Info>() == 104 && size_of::<TaskMetadata>() == 32);
    assert!(ARENA_BYTES == 128 << 20);
};
