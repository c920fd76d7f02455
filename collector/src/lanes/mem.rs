//! ABI memory as the engine sees it: where these producers turn addresses into references.

use crate::abi::DeviceAddr;
use crate::abi::layout::{BufferLayout, LaneLayout, QueueLayout};
use crate::abi::shared::IndexedEntry;
use crate::abi::{BackpressureHeader, FREE_QUEUE_LINE};
use crate::lane::{EntryWords, LaneMem, QueueMem};
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use core::mem::offset_of;

/// The shared `T` at `offset` of the memory at `base`.
///
/// # Safety
/// A `T` made of atomics lies there, aligned, and outlives `'a`.
pub(crate) unsafe fn word<'a, T>(base: DeviceAddr, offset: usize) -> &'a T {
    // SAFETY: the caller's contract.
    unsafe { &*(base.offset(offset as u64).0 as *const T) }
}

/// A lane's state in the region, with `SLOTS` free-queue slots, and its buffers.
#[derive(Debug)]
pub(crate) struct StateMem<const SLOTS: usize> {
    state: DeviceAddr,
    lane: &'static LaneLayout,
    buffer: &'static BufferLayout,
}

impl<const SLOTS: usize> StateMem<SLOTS> {
    /// The state of a lane that was never initialised: must not be used.
    pub(crate) const fn dangling(lane: &'static LaneLayout, buffer: &'static BufferLayout) -> Self {
        StateMem { state: DeviceAddr::NULL, lane, buffer }
    }

    /// The state at `state`.
    ///
    /// # Safety
    /// A lane's state laid out as `lane` says, with `SLOTS` slots, lies at `state` and outlives every use of this value;
    /// every non-zero address in its free queue is a 64-byte-aligned buffer laid out as `buffer` says, which the lane may
    /// use until it publishes it.
    pub(crate) const unsafe fn new(
        state: DeviceAddr,
        lane: &'static LaneLayout,
        buffer: &'static BufferLayout,
    ) -> Self {
        StateMem { state, lane, buffer }
    }

    /// Where things lie in this lane's buffers.
    pub(crate) const fn buffer(&self) -> &'static BufferLayout {
        self.buffer
    }

    /// The u32 at `offset` of the state.
    pub(crate) fn u32_at(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset + 4 <= self.lane.bytes);
        // SAFETY: `new`'s caller vouched for the state; the offset is one of its layout's.
        unsafe { word(self.state, offset) }
    }

    /// The u64 at `offset` of the state.
    pub(crate) fn u64_at(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= self.lane.bytes);
        // SAFETY: `new`'s caller vouched for the state; the offset is one of its layout's.
        unsafe { word(self.state, offset) }
    }
}

impl<const SLOTS: usize> LaneMem for StateMem<SLOTS> {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    const SLOTS: u32 = {
        assert!(SLOTS * 8 < FREE_QUEUE_LINE);
        SLOTS as u32
    };

    fn current_ptr(&self) -> &AtomicU64 {
        self.u64_at(self.lane.current_ptr)
    }
    fn current_seq(&self) -> &AtomicU32 {
        self.u32_at(self.lane.current_seq)
    }
    fn total(&self) -> &AtomicU32 {
        self.u32_at(self.lane.total)
    }
    fn dropped(&self) -> &AtomicU32 {
        self.u32_at(self.lane.dropped)
    }
    fn free_slot(&self, index: u32) -> &AtomicU64 {
        self.u64_at(self.lane.free_ptrs + 8 * (index as usize % SLOTS))
    }
    fn free_head(&self) -> &AtomicU32 {
        self.u32_at(self.lane.free_head)
    }
    fn free_tail(&self) -> &AtomicU32 {
        self.u32_at(self.lane.free_tail)
    }
    fn count(&self, buffer: DeviceAddr) -> &AtomicU32 {
        // SAFETY: `new`'s caller vouched for the buffers of this free queue; only the count word is referenced.
        unsafe { word(buffer, self.buffer.count) }
    }
    fn add_stall(&self, ticks: u64) {
        let Some(stall) = self.lane.stall else { return };
        let (count, sum, max) =
            (self.u32_at(stall.count), self.u64_at(stall.ticks), self.u64_at(stall.max_ticks));
        // Only the lane's owner writes these; the host reads them when the device is at rest.
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        sum.store(sum.load(Relaxed).wrapping_add(ticks), Relaxed);
        max.store(max.load(Relaxed).max(ticks), Relaxed);
    }
}

/// An AICPU thread's ready queue in the region.
#[derive(Debug)]
pub(crate) struct RegionQueue {
    base: DeviceAddr,
    layout: QueueLayout,
    thread: u32,
}

impl RegionQueue {
    /// The queue of `thread` in the region at `base`.
    ///
    /// # Safety
    /// A header whose queues lie as `layout` says is at `base` and outlives every use of this value; `thread` is one of
    /// its threads.
    pub(crate) const unsafe fn new(base: DeviceAddr, layout: QueueLayout, thread: u32) -> Self {
        RegionQueue { base, layout, thread }
    }

    fn backpressure(&self) -> &BackpressureHeader {
        // SAFETY: `new`'s caller vouched for the header; all fields are atomics.
        unsafe { word(self.base, self.layout.backpressure) }
    }
}

impl QueueMem for RegionQueue {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    fn entries(&self) -> u32 {
        self.layout.entries
    }
    fn head(&self) -> &AtomicU32 {
        // SAFETY: `new`'s caller vouched for the header.
        unsafe { word(self.base, self.layout.heads + 4 * self.thread as usize) }
    }
    fn tail(&self) -> &AtomicU32 {
        // SAFETY: `new`'s caller vouched for the header.
        unsafe { word(self.base, self.layout.tails + 4 * self.thread as usize) }
    }
    fn entry(&self, index: u32) -> EntryWords<'_, AtomicU32, AtomicU64> {
        let index = if index < self.layout.entries { index } else { 0 };
        let at = self.layout.entry(self.thread, index);
        // SAFETY: `new`'s caller vouched for the header, and the entry is one of the thread's. Each word is an atomic;
        // the two that the pinned revision leaves unused take the kind and the flags, always 0 here.
        unsafe {
            EntryWords {
                index: word(self.base, at + offset_of!(IndexedEntry, index)),
                kind: word(self.base, at + offset_of!(IndexedEntry, _pad0)),
                ptr: word(self.base, at + offset_of!(IndexedEntry, buffer_ptr)),
                seq: word(self.base, at + offset_of!(IndexedEntry, buffer_seq)),
                flags: word(self.base, at + offset_of!(IndexedEntry, _pad1)),
            }
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
