//! ABI memory as the engine sees it: the one place where the swimlane's producers turn addresses into references.

use super::core_lane::CoreMem;
use crate::abi::swimlane::{ActiveHead, CORE_RECORDS, CoreRecord, Pool, ReadyEntry, RecordBuffer, SLOTS};
use crate::abi::{BackpressureHeader, DeviceAddr};
use crate::lane::{EntryWords, HeadMem, LaneMem, QueueMem};
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use core::marker::PhantomData;

/// A lane's pool in the region; its buffers hold `N` records of `R`.
#[derive(Debug)]
pub struct PoolMem<R, const N: usize> {
    pool: *const Pool,
    _buffers: PhantomData<*mut R>,
}

impl<R, const N: usize> PoolMem<R, N> {
    /// The pool of a lane that was never initialised: must not be used.
    pub const DANGLING: Self = PoolMem { pool: core::ptr::null(), _buffers: PhantomData };

    /// The pool at `pool`.
    ///
    /// # Safety
    /// `pool` points to a [`Pool`] of a region that outlives every use of this value, and every non-zero address in its
    /// free queue is a 64-byte-aligned `RecordBuffer<R, N>` that the lane may use until it publishes it.
    pub const unsafe fn new(pool: *const Pool) -> Self {
        PoolMem { pool, _buffers: PhantomData }
    }

    fn pool(&self) -> &Pool {
        // SAFETY: `new`'s caller vouched for the pointer; all fields are atomics or unused.
        unsafe { &*self.pool }
    }

    fn head(&self) -> &ActiveHead {
        &self.pool().head
    }

    /// The first record of `buffer`.
    pub(super) fn records(buffer: DeviceAddr) -> *mut R {
        buffer.0 as *mut R
    }
}

impl<R, const N: usize> LaneMem for PoolMem<R, N> {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    const SLOTS: u32 = SLOTS as u32;

    fn current_ptr(&self) -> &AtomicU64 {
        &self.head().current_buf_ptr
    }
    fn current_seq(&self) -> &AtomicU32 {
        &self.head().current_buf_seq
    }
    fn total(&self) -> &AtomicU32 {
        &self.head().total_record_count
    }
    fn dropped(&self) -> &AtomicU32 {
        &self.head().dropped_record_count
    }
    fn free_slot(&self, index: u32) -> &AtomicU64 {
        &self.pool().free_queue.buffer_ptrs[index as usize % SLOTS]
    }
    fn free_head(&self) -> &AtomicU32 {
        &self.pool().free_queue.head
    }
    fn free_tail(&self) -> &AtomicU32 {
        &self.pool().free_queue.tail
    }
    fn count(&self, buffer: DeviceAddr) -> &AtomicU32 {
        let buffer = buffer.0 as *const RecordBuffer<R, N>;
        // SAFETY: `new`'s caller vouched for the buffers of this free queue; only the count word is referenced.
        unsafe { &*core::ptr::addr_of!((*buffer).count) }
    }
    fn add_stall(&self, ticks: u64) {
        let head = self.head();
        // Only the lane's owner writes these; the host reads them when the device is at rest.
        head.stalls.store(head.stalls.load(Relaxed).wrapping_add(1), Relaxed);
        head.stall_ticks.store(head.stall_ticks.load(Relaxed).wrapping_add(ticks), Relaxed);
        head.max_stall_ticks.store(head.max_stall_ticks.load(Relaxed).max(ticks), Relaxed);
    }
}

impl CoreMem for PoolMem<CoreRecord, CORE_RECORDS> {
    const CAPACITY: u32 = CORE_RECORDS as u32;
    fn stash_ptr(&self) -> &AtomicU64 {
        &self.head().stash_ptr
    }
    fn stash_seq(&self) -> &AtomicU32 {
        &self.head().stash_seq
    }
}

/// An AICPU thread's ready queue in the region.
#[derive(Debug)]
pub struct QueuePtr {
    entries: *const ReadyEntry,
    len: u32,
    head: *const AtomicU32,
    tail: *const AtomicU32,
    backpressure: *const BackpressureHeader,
}

impl QueuePtr {
    /// The queue of `len` entries at `entries` with its indices and its region's freeze.
    ///
    /// # Safety
    /// All pointers are into one region's header that outlives every use of this value; `len` entries lie at `entries`.
    pub const unsafe fn new(
        entries: *const ReadyEntry,
        len: u32,
        head: *const AtomicU32,
        tail: *const AtomicU32,
        backpressure: *const BackpressureHeader,
    ) -> Self {
        QueuePtr { entries, len, head, tail, backpressure }
    }

    fn backpressure(&self) -> &BackpressureHeader {
        // SAFETY: `new`'s caller vouched for the pointer; all fields are atomics.
        unsafe { &*self.backpressure }
    }
}

impl QueueMem for QueuePtr {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    fn entries(&self) -> u32 {
        self.len
    }
    fn head(&self) -> &AtomicU32 {
        // SAFETY: `new`'s caller vouched for the pointer.
        unsafe { &*self.head }
    }
    fn tail(&self) -> &AtomicU32 {
        // SAFETY: `new`'s caller vouched for the pointer.
        unsafe { &*self.tail }
    }
    fn entry(&self, index: u32) -> EntryWords<'_, AtomicU32, AtomicU64> {
        let index = if index < self.len { index } else { 0 };
        // SAFETY: `new`'s caller vouched for `len` entries; `index` is below it; all fields are atomics.
        let entry = unsafe { &*self.entries.add(index as usize) };
        EntryWords {
            index: &entry.core_index,
            kind: &entry.kind,
            ptr: &entry.buffer_ptr,
            seq: &entry.buffer_seq,
            flags: &entry.flags,
        }
    }
    fn rq_contended(&self) -> &AtomicU32 {
        &self.backpressure().rq_contended
    }
    fn rq_freeze(&self) -> &AtomicU32 {
        &self.backpressure().rq_freeze_active
    }
    fn fq_contended(&self) -> &AtomicU32 {
        &self.backpressure().fq_contended
    }
    fn fq_freeze(&self) -> &AtomicU32 {
        &self.backpressure().fq_freeze_active
    }
}

/// The head that a core reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadPtr(*const ActiveHead);

impl HeadPtr {
    /// The head at `head`.
    ///
    /// # Safety
    /// `head` points to an [`ActiveHead`] of a region that outlives every use of this value.
    pub(super) const unsafe fn new(head: *const ActiveHead) -> Self {
        HeadPtr(head)
    }

    fn head(&self) -> &ActiveHead {
        // SAFETY: `new`'s caller vouched for the pointer; all fields are atomics or unused.
        unsafe { &*self.0 }
    }
}

impl HeadMem for HeadPtr {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    fn current_ptr(&self) -> &AtomicU64 {
        &self.head().current_buf_ptr
    }
    fn current_seq(&self) -> &AtomicU32 {
        &self.head().current_buf_seq
    }
}
