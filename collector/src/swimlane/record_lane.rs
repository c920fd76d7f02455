//! A lane whose records the AICPU itself writes: tasks, scheduler phases, orchestrator submits.

use super::mem::{PoolMem, QueuePtr};
use crate::abi::DeviceAddr;
use crate::clock::Clock;
use crate::fence;
use crate::lane::{Entry, Lane, LaneMem, Port};
use crate::sync::Ordering::Relaxed;
use core::ptr::{null, null_mut};

/// Counts and totals become visible every so many records: 256 bytes of the task streams. A hard kill leaves at most
/// one less uncounted per lane, and seven of eight records touch one cache line instead of three.
///
/// A host finds the others behind the count of a device at rest (host-drain `tail`). For that a record's end is written
/// last: where the end is new, the record is whole.
pub const SYNC_EVERY: usize = 8;

/// A stream of `R` in buffers of `N`.
///
/// `next` is where the next record goes: null covers full, empty and not initialised. `last` is the slot whose record
/// completes a group of [`SYNC_EVERY`], or the buffer. The recording function writes the record itself, between
/// [`next`](Self::next) and [`advance`](Self::advance), so that nothing of it is kept alive across a cold path.
#[derive(Debug)]
pub(super) struct RecordLane<R, const N: usize> {
    next: *mut R,
    last: *const R,
    base: *mut R,
    lane: Lane<PoolMem<R, N>>,
    /// Records in buffers that were published.
    sent: u32,
    dropped: u32,
    kind: u32,
    index: u32,
}

impl<R: Copy, const N: usize> RecordLane<R, N> {
    /// A lane that drops everything.
    pub(super) const CLOSED: Self = RecordLane {
        next: null_mut(),
        last: null(),
        base: null_mut(),
        lane: Lane::new(PoolMem::DANGLING),
        sent: 0,
        dropped: 0,
        kind: 0,
        index: 0,
    };

    /// Opens the lane over `mem` and takes a first buffer if one is there; it never waits.
    pub(super) fn open(mem: PoolMem<R, N>, kind: u32, index: u32) -> Self {
        let mut lane = RecordLane { lane: Lane::new(mem), kind, index, ..Self::CLOSED };
        if let Some(buffer) = lane.lane.try_take() {
            lane.start(buffer);
        }
        lane
    }

    /// Where the next record goes; null (or what [`park`](Self::park) said) when the lane has no buffer with room:
    /// [`reopen`](Self::reopen) may find one.
    #[inline(always)]
    pub(super) fn next(&self) -> *mut R {
        self.next
    }

    /// Counts the record that was written to `slot`. `false`: it is the last of its group, which is not shown yet:
    /// [`group`](Self::group) must do it, or it went [aside](Self::went_aside).
    ///
    /// # Safety
    /// `slot` is what [`next`](Self::next) gave, and it is not null.
    #[inline(always)]
    pub(super) unsafe fn advance(&mut self, slot: *mut R) -> bool {
        let within = !core::ptr::eq(slot, self.last);
        // Whether or not: nothing has to be kept for it across the comparison then.
        // SAFETY: a slot of the active buffer has an end, and so has the place aside.
        self.next = unsafe { slot.add(1) };
        within
    }

    /// Shows a group of which the last record was written. `true`: the buffer is full, [`close`](Self::close) must
    /// follow.
    #[inline(always)]
    pub(super) fn group(&mut self) -> bool {
        const { assert!(N.is_multiple_of(SYNC_EVERY)) };
        self.next = self.last.wrapping_add(1).cast_mut();
        let used = (self.next as usize - self.base as usize) / size_of::<R>();
        self.last = self.last.wrapping_add(SYNC_EVERY);
        self.show(used as u32);
        used == N
    }

    /// Sends the next record to `aside` if there is no buffer with room for it.
    pub(super) fn park(&mut self, aside: *mut R) {
        if self.next.is_null() {
            self.next = aside;
            self.last = aside;
        }
    }

    /// Whether the record that was just written is in `aside`, not in a buffer. The next one goes there, too.
    pub(super) fn went_aside(&mut self, aside: *mut R) -> bool {
        let went = core::ptr::eq(self.last, aside);
        if went {
            self.next = aside;
        }
        went
    }

    /// Publishes a full buffer that could not go before, then takes an empty one. `false`: a record is dropped.
    pub(super) fn reopen<C: Clock>(&mut self, mut port: Port<'_, QueuePtr, C>) -> bool {
        let gone = self.base.is_null() || self.send(&mut port);
        match if gone { self.lane.take(&mut port) } else { None } {
            Some(buffer) => {
                self.start(buffer);
                true
            }
            None => {
                self.dropped = self.dropped.wrapping_add(1);
                self.sync();
                false
            }
        }
    }

    /// Publishes the buffer that has just become full; if it cannot go, it waits with its records.
    pub(super) fn close<C: Clock>(&mut self, mut port: Port<'_, QueuePtr, C>) {
        self.next = null_mut();
        self.last = null();
        self.send(&mut port);
    }

    fn start(&mut self, buffer: DeviceAddr) {
        let seq = self.lane.seq();
        self.lane.activate(buffer, seq);
        self.base = PoolMem::<R, N>::records(buffer);
        self.next = self.base;
        self.last = self.base.wrapping_add(SYNC_EVERY - 1);
    }

    /// Records in the active buffer. One without room has its `next` elsewhere.
    fn used(&self) -> usize {
        if self.base.is_null() {
            return 0;
        }
        (self.next as usize).wrapping_sub(self.base as usize).min(N * size_of::<R>()) / size_of::<R>()
    }

    fn active(&self) -> DeviceAddr {
        DeviceAddr(self.base as u64)
    }

    /// Publishes the active buffer. On failure it stays, full or not, and so does its account.
    fn send<C: Clock>(&mut self, port: &mut Port<'_, QueuePtr, C>) -> bool {
        let used = self.used() as u32;
        let entry = Entry {
            index: self.index,
            kind: self.kind,
            buffer: self.active(),
            seq: self.lane.seq(),
            flags: 0,
        };
        if !self.lane.publish(port, &entry) {
            return false;
        }
        self.sent = self.sent.wrapping_add(used);
        self.base = null_mut();
        self.next = null_mut();
        self.last = null();
        true
    }

    /// Makes counts and totals visible.
    pub(super) fn sync(&self) {
        let mem = self.lane.mem();
        if self.base.is_null() {
            mem.total().store(self.sent.wrapping_add(self.dropped), Relaxed);
        } else {
            self.show(self.used() as u32);
        }
        mem.dropped().store(self.dropped, Relaxed);
    }

    /// Of a lane with a buffer.
    #[inline(always)]
    fn show(&self, used: u32) {
        let mem = self.lane.mem();
        // The count covers whole records only: release, so that a host that recovers this buffer sees them.
        fence::publish(mem.count(self.active()), used);
        mem.total().store(self.sent.wrapping_add(used).wrapping_add(self.dropped), Relaxed);
    }

    /// Publishes what there is. What cannot be published stays where the host finds it.
    pub(super) fn flush<C: Clock>(&mut self, mut port: Port<'_, QueuePtr, C>) {
        self.sync();
        if self.used() > 0 {
            self.send(&mut port);
        }
    }
}
