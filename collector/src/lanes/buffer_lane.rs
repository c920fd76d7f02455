//! One stream of records that AICPU writes itself, and whose count is published with every record.

use super::mem::{RegionQueue, StateMem};
use crate::abi::DeviceAddr;
use crate::abi::layout::{BufferLayout, LaneLayout};
use crate::clock::Clock;
use crate::fence;
use crate::lane::{Entry, Lane, LaneMem, Port};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use core::ptr::{null, null_mut};

/// A stream of `R`.
///
/// `next` is where the next record goes: null covers full, empty and not initialised. The recording function writes the
/// record itself, between [`next`](Self::next) and [`advance`](Self::advance), so that nothing of it is kept alive
/// across a cold path.
#[derive(Debug)]
pub(crate) struct BufferLane<R, const SLOTS: usize> {
    next: *mut R,
    end: *const R,
    /// The active buffer's count word.
    count: *const AtomicU32,
    /// Records in the active buffer.
    used: u32,
    /// Records in buffers that were published.
    sent: u32,
    dropped: u32,
    /// What the total counts besides records and drops; wraps, and so can take off.
    beside: u32,
    index: u32,
    active: DeviceAddr,
    lane: Lane<StateMem<SLOTS>>,
}

impl<R: Copy, const SLOTS: usize> BufferLane<R, SLOTS> {
    /// A lane that drops everything.
    pub(crate) const fn closed(lane: &'static LaneLayout, buffer: &'static BufferLayout) -> Self {
        Self::over(StateMem::dangling(lane, buffer), 0)
    }

    const fn over(mem: StateMem<SLOTS>, index: u32) -> Self {
        assert!(mem.buffer().record_bytes == size_of::<R>());
        BufferLane {
            next: null_mut(),
            end: null(),
            count: null(),
            used: 0,
            sent: 0,
            dropped: 0,
            beside: 0,
            index,
            active: DeviceAddr::NULL,
            lane: Lane::new(mem),
        }
    }

    /// Opens the lane over `mem`, with `index` in its ready entries, and takes a first buffer if one is there; it never
    /// waits.
    pub(crate) fn open(mem: StateMem<SLOTS>, index: u32) -> Self {
        let mut lane = Self::over(mem, index);
        if let Some(buffer) = lane.lane.try_take() {
            lane.start(buffer);
        }
        lane
    }

    /// The shared words.
    pub(crate) const fn mem(&self) -> &StateMem<SLOTS> {
        self.lane.mem()
    }

    /// Records in the active buffer: not published yet.
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }

    /// The slot of the next record; null when there is none: [`room`](Self::room) may find one.
    #[inline(always)]
    pub(crate) fn next(&self) -> *mut R {
        self.next
    }

    /// Publishes, by one store of the count, the `slots` records that were written from `slot` on. `true`: the buffer is
    /// full, [`close`](Self::close) must follow.
    ///
    /// # Safety
    /// `slot` is what [`next`](Self::next) gave and not null, and the buffer has room for that many.
    #[inline(always)]
    pub(crate) unsafe fn advance(&mut self, slot: *mut R, slots: u32) -> bool {
        // SAFETY: the slots are in the active buffer, which has a count.
        let (next, count) = unsafe { (slot.add(slots as usize), &*self.count) };
        self.used += slots;
        self.next = next;
        // SYNC POINT: a host that recovers this buffer observes the count (host-drain `Service::finish`), and with it
        // whole records only.
        fence::publish(count, self.used);
        core::ptr::eq(next, self.end)
    }

    /// Makes room for `wanted` records one behind the other (at most a buffer's capacity), publishing a buffer in which
    /// they do not fit. How many fit now: 0 when there is no room, and then nothing has been counted.
    pub(crate) fn room<C: Clock>(&mut self, wanted: u32, mut port: Port<'_, RegionQueue, C>) -> u32 {
        let capacity = self.mem().buffer().capacity;
        if !self.active.is_null() {
            let left = capacity - self.used;
            if left >= wanted {
                return left;
            }
            if !self.send(&mut port) {
                return 0;
            }
        }
        match self.lane.take(&mut port) {
            Some(buffer) => {
                self.start(buffer);
                capacity
            }
            None => 0,
        }
    }

    /// Publishes the buffer that has just become full; if it cannot go, it waits with its records.
    pub(crate) fn close<C: Clock>(&mut self, mut port: Port<'_, RegionQueue, C>) {
        self.next = null_mut();
        self.send(&mut port);
    }

    /// Counts `records` for which there was no room.
    pub(crate) fn lose(&mut self, records: u32) {
        self.dropped = self.dropped.wrapping_add(records);
        self.sync();
    }

    /// Adds (wrapping) to what the total counts besides records and drops; the next publication shows it.
    pub(crate) fn beside(&mut self, more: u32) {
        self.beside = self.beside.wrapping_add(more);
    }

    fn start(&mut self, buffer: DeviceAddr) {
        let seq = self.lane.seq();
        self.lane.activate(buffer, seq);
        let layout = self.mem().buffer();
        self.active = buffer;
        self.used = 0;
        self.count = self.mem().count(buffer);
        self.next = buffer.offset(layout.records as u64).0 as *mut R;
        self.end = self.next.wrapping_add(layout.capacity as usize);
    }

    /// Publishes the active buffer. On failure it stays, full or not, and so does its account.
    fn send<C: Clock>(&mut self, port: &mut Port<'_, RegionQueue, C>) -> bool {
        self.sync();
        let entry = Entry { index: self.index, kind: 0, buffer: self.active, seq: self.lane.seq(), flags: 0 };
        if !self.lane.publish(port, &entry) {
            return false;
        }
        self.sent = self.sent.wrapping_add(self.used);
        self.active = DeviceAddr::NULL;
        self.used = 0;
        self.next = null_mut();
        true
    }

    /// Makes the totals visible.
    pub(crate) fn sync(&self) {
        let mem = self.mem();
        let records = self.sent.wrapping_add(self.used).wrapping_add(self.dropped);
        mem.total().store(records.wrapping_add(self.beside), Relaxed);
        mem.dropped().store(self.dropped, Relaxed);
    }

    /// Publishes what there is. What cannot be published stays where the host finds it.
    pub(crate) fn flush<C: Clock>(&mut self, mut port: Port<'_, RegionQueue, C>) {
        if self.used > 0 {
            self.send(&mut port);
        } else {
            self.sync();
        }
    }
}
