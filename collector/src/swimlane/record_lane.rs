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
const SYNC_EVERY: usize = 8;

/// A stream of `R` in buffers of `N`.
///
/// Recording is one comparison: `next` is where the next record goes, `last` the slot whose record needs the cold path
/// (it completes a group of [`SYNC_EVERY`] or the buffer). With no buffer both are null, so the same comparison covers
/// full, empty and not initialised.
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

    /// Records `record`; `false` when it had to be dropped.
    ///
    /// # Safety
    /// The lane is open and its caller is its only user.
    #[inline(always)]
    pub(super) unsafe fn push<'p, C: Clock + 'p>(
        &mut self,
        record: R,
        port: impl FnOnce() -> Port<'p, QueuePtr, C>,
    ) -> bool {
        let slot = self.next;
        if core::ptr::eq(slot, self.last) {
            return self.push_cold(record, port());
        }
        // SAFETY: `next` differs from `last`, so there is an active buffer and `next` is one of its slots before the
        // last one; the buffer is this lane's until it is published.
        unsafe {
            slot.write(record);
            self.next = slot.add(1);
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn push_cold<C: Clock>(&mut self, record: R, mut port: Port<'_, QueuePtr, C>) -> bool {
        if self.next.is_null() && !self.reopen(&mut port) {
            self.dropped = self.dropped.wrapping_add(1);
            self.sync();
            return false;
        }
        // SAFETY: the lane has an active buffer with room: `next` is one of its slots (a full one is closed below).
        unsafe {
            self.next.write(record);
            self.next = self.next.add(1);
        }
        self.sync();
        self.arm();
        if self.used() == N {
            self.send(&mut port, 0);
        }
        true
    }

    /// Publishes a full buffer that could not go before, then takes an empty one.
    fn reopen<C: Clock>(&mut self, port: &mut Port<'_, QueuePtr, C>) -> bool {
        if !self.base.is_null() && !self.send(port, 0) {
            return false;
        }
        match self.lane.take(port) {
            Some(buffer) => {
                self.start(buffer);
                true
            }
            None => false,
        }
    }

    fn start(&mut self, buffer: DeviceAddr) {
        let seq = self.lane.seq();
        self.lane.activate(buffer, seq);
        self.base = PoolMem::<R, N>::records(buffer);
        self.next = self.base;
        self.arm();
    }

    /// Points `last` at the end of the group that `next` is in. A full buffer has no next.
    fn arm(&mut self) {
        let used = self.used();
        if used == N {
            self.next = null_mut();
            self.last = null();
        } else {
            self.last = self.base.wrapping_add((used + SYNC_EVERY).min(N) - 1);
        }
    }

    /// Records in the active buffer.
    fn used(&self) -> usize {
        if self.base.is_null() {
            0
        } else if self.next.is_null() {
            N
        } else {
            (self.next as usize - self.base as usize) / size_of::<R>()
        }
    }

    fn active(&self) -> DeviceAddr {
        DeviceAddr(self.base as u64)
    }

    /// Publishes the active buffer. On failure it stays, full or not, and so does its account.
    fn send<C: Clock>(&mut self, port: &mut Port<'_, QueuePtr, C>, flags: u32) -> bool {
        let used = self.used() as u32;
        let entry =
            Entry { index: self.index, kind: self.kind, buffer: self.active(), seq: self.lane.seq(), flags };
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
        let used = self.used() as u32;
        let mem = self.lane.mem();
        if !self.base.is_null() {
            // The count covers whole records only: release, so that a host that recovers this buffer sees them.
            fence::publish(mem.count(self.active()), used);
        }
        mem.total().store(self.sent.wrapping_add(used).wrapping_add(self.dropped), Relaxed);
        mem.dropped().store(self.dropped, Relaxed);
    }

    /// Publishes what there is. What cannot be published stays where the host finds it.
    pub(super) fn flush<C: Clock>(&mut self, mut port: Port<'_, QueuePtr, C>) {
        self.sync();
        if self.used() > 0 {
            self.send(&mut port, 0);
        }
    }
}
