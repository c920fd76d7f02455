//! Shapes that the args dump, dep_gen, PMU and scope stats have in common.
//!
//! The swimlane has its own free queue and ready entry: its queue ends early and its entry carries a kind.

use crate::sync::{AtomicU32, AtomicU64};

/// Empty buffers on their way to the device: `S` slots, `P` words up to the second cache line's end. Indices run
/// freely and are taken modulo `S`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FreeQueue<const S: usize, const P: usize> {
    /// Device addresses of buffers.
    pub buffer_ptrs: [AtomicU64; S],
    /// Taken so far (device writes).
    pub head: AtomicU32,
    /// Offered so far (host writes).
    pub tail: AtomicU32,
    /// Unused.
    pub _pad: [u32; P],
}

/// A full buffer on its way to the host. Written field by field, then published by the tail.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct IndexedEntry {
    /// Which lane: a thread (args dump), a core (PMU), or 0 (dep_gen, scope stats).
    pub index: AtomicU32,
    /// Never written by the reference; ours writes 0.
    pub _pad0: AtomicU32,
    /// The buffer's device address.
    pub buffer_ptr: AtomicU64,
    /// The buffer's sequence number in its lane.
    pub buffer_seq: AtomicU32,
    /// Never written by the reference; ours writes 0.
    pub _pad1: AtomicU32,
    /// Never written.
    pub _pad2: [u32; 2],
}

/// A fixed block of records behind its count: dep_gen and scope stats keep the count in a line of its own, in front.
#[repr(C, align(64))]
pub struct CountedBuffer<R, const N: usize> {
    /// How many records are valid.
    pub count: AtomicU32,
    /// Unused.
    pub _pad: [u32; 15],
    /// The records.
    pub records: [R; N],
}

const _: () = {
    assert!(size_of::<FreeQueue<4, 22>>() == 128 && size_of::<FreeQueue<8, 14>>() == 128);
    assert!(size_of::<IndexedEntry>() == 32 && align_of::<IndexedEntry>() == 32);
    assert!(size_of::<CountedBuffer<u64, 8>>() == 128);
};
