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
//! # The arena
//! A thread's arena is circular and its offsets are not: `payload_offset` and `arena_write_offset` count bytes since the
//! region was made, and a payload lies at `arena_base + payload_offset % arena_size`, in one piece: one that would cross
//! the end begins at the next multiple of `arena_size` instead, and the bytes before that multiple stay unused (a *gap*).
//! Payloads are packed: two records one behind the other whose payloads abut in offsets abut in memory, but for gaps, so a
//! host may write them with one call.
//!
//! ```text
//!  offset   0         A            B        k·size        C            D
//!           │ payload │  payload   │  gap   │  payload    │  payload   │ ─▶ arena_write_offset
//!           ▲                      ▲ acknowledged: all before B is in the file, so up to B + size may be written
//! ```
//!
//! # What a host must do (ours; the peer word's low half is not 0)
//! 1. *At init*: `arena_base` (the address that the device uses), `arena_size`, `magic`, level, counts, the peer word,
//!    [`Header::stall_budget`], and [`Header::options`] ([`OPTION_DEDUP`]) if it understands references. All else is 0.
//! 2. *Per record, in order* (a thread's buffers by `buffer_seq`, a buffer's records by index): a [`Kind::Tensor`] with
//!    `payload_size` > 0 and without [`FLAG_REFERENCE`] carries a payload; the offsets of a thread's payloads only grow.
//!    The buffer may be given back as soon as its records are copied; the payload stays until it is acknowledged.
//! 3. *Acknowledge*: when a payload and all earlier ones of the thread are in the file (or were given up for good), store
//!    the payload's end, `payload_offset + payload_size`, in [`BufferState::arena_acknowledged`] (release; after the
//!    write, as eagerly as once per payload, at the latest once per batch: the producer waits for nothing else). Part of a
//!    payload may be acknowledged: any offset up to which all bytes are saved is valid. It never decreases. Gaps, shed
//!    payloads and references need no acknowledgement. Nobody waits for `completed_payload_count` then, and a freeze is
//!    neither asked for nor needed by the arena.
//! 4. *A reference* ([`FLAG_REFERENCE`]): `payload_offset` and `payload_size` are exactly those of an earlier record of the
//!    same thread that carried a payload, whole (not truncated), with the same bytes. Look its place in the file up by
//!    (thread, `payload_offset`): offsets ascend in record order, so a binary search does. It must not move the
//!    acknowledgement, the "largest end seen", or any payload count. If the named payload is not known (its buffer was
//!    lost, or its bytes could not be written), the record's own payload is lost, too: count it.
//! 5. *Shed* ([`FLAG_SHED`]): the record stays, `payload_size` 0, `truncated` 1. Bytes and records are in
//!    [`BufferState::shed_payload_bytes`] and [`BufferState::shed_record_count`].
//! 6. *At the end*: a buffer left in `current_buf_ptr` is recovered with its payloads (nothing acknowledged is in it).
//!    Then, per thread, exactly: records had + `dropped_record_count` = `total_record_count`; the sizes of its payloads
//!    (references not) = `payload_bytes`; the sizes of its references = `saved_payload_bytes`; its [`FLAG_SHED`] records =
//!    `shed_record_count`. These words are true after `flush` or `sync`; after a kill at worst as of the last publication.
//!
//! # With a reference host
//! `published_payload_count` and `completed_payload_count` tell how many payloads the device has handed over and the host
//! has saved; a producer that comes to the arena's end publishes, raises `fq_contended`, and waits until the host has let
//! go of its freeze and the two are equal. No reference is made, and shed payloads show as `truncated`.

use super::common::BackpressureHeader;
use super::records;
use super::shared;
use super::swimlane::RecordBuffer;
use super::tensor::MAX_DIMS;
use crate::sync::{AtomicU32, AtomicU64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PLATFORM_DUMP_RECORDS_PER_BUFFER`: records of a [`MetaBuffer`].
pub const RECORDS: usize = records(256, 32);
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
/// Extension, in [`Record::flags`]: the payload is that of an earlier record, which has the same offset and size.
pub const FLAG_REFERENCE: u8 = 2;
/// Extension, in [`Record::flags`]: the payload was given up, so that the producer need not wait for room any longer.
pub const FLAG_SHED: u8 = 4;
/// Extension, in [`Header::options`]: a payload that has not changed since it was last dumped is not sent again.
pub const OPTION_DEDUP: u32 = 1;

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
    /// Extension: the arena's offset up to which every byte is saved and may be overwritten (host writes; see above).
    pub arena_acknowledged: AtomicU64,
    /// Extension: ticks waited in all.
    pub stall_ticks: AtomicU64,
    /// Extension: the longest wait in ticks.
    pub max_stall_ticks: AtomicU64,
    /// Extension: bytes of payloads in the arena since the region was made, without gaps, as of the last publication.
    pub payload_bytes: AtomicU64,
    /// Extension: payload bytes that [`FLAG_SHED`] records lack.
    pub shed_payload_bytes: AtomicU64,
    /// Extension: payload bytes that [`FLAG_REFERENCE`] records did not need, as of the last publication.
    pub saved_payload_bytes: AtomicU64,
    /// Extension: how often the lane had to wait.
    pub stalls: AtomicU32,
    /// Extension: records with [`FLAG_SHED`].
    pub shed_record_count: AtomicU32,
    /// Extension: records with [`FLAG_REFERENCE`], as of the last publication.
    pub saved_record_count: AtomicU32,
    /// Unused.
    pub _pad1: u32,
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
    /// Extension: the [stall budget](crate::stall) (host writes at init).
    pub stall_budget: AtomicU32,
    /// Extension: `OPTION_*` bits (host writes at init).
    pub options: AtomicU32,
    /// Extension: marks, and scalars' types, for which the tables had no room (device writes). Not 0: at levels 1 and 3
    /// arguments may be missing that were marked.
    pub lost_mark_count: AtomicU32,
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
    assert!(size_of::<Record>() == 128 && (cfg!(miri) || size_of::<MetaBuffer>() == 32832));
    assert!(size_of::<FreeQueue>() == 128 && size_of::<BufferState>() == 256);
    assert!(size_of::<HeaderA2a3>() == 8320 && size_of::<HeaderA5>() == 12928);
    assert!(size_of::<Info>() == 104 && size_of::<TaskMetadata>() == 32);
    assert!(cfg!(miri) || ARENA_BYTES == 128 << 20);
};
