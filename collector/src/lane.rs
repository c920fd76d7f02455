//! The lane engine: how buffers of records travel between one producer and the host.
//!
//! *One lane = one producer = one owner.* A lane takes an empty buffer from its free queue, fills it, and publishes it
//! through the ready queue of the AICPU thread that runs it. The engine is written against [`LaneMem`] and [`QueueMem`]
//! (words reached through [`Word`]), so that the very same code runs over ABI memory and over a model's atomics.
//!
//! ```text
//!            free queue (host → device)                  ready queue of a thread (device → host)
//!  host ── slot, publish(tail) ──▶ take ── fill ── push: entry, publish(tail) ──▶ host peeks, delivers,
//!   ▲                                                                             publishes head
//!   └────────────────────────────── buffer, zeroed if a core's ◀──────────────────┘
//! ```
//!
//! Ownership passes with the tail: a buffer whose entry was published belongs to the host, whatever happens after.

use crate::abi::DeviceAddr;
use crate::clock::Clock;
use crate::fence;
use crate::stall::{Stall, Waited};
use crate::sync::{Ordering::Relaxed, Word};

/// The words that one lane shares with its host.
pub trait LaneMem {
    /// A 32-bit word.
    type U32: Word<u32>;
    /// A 64-bit word.
    type U64: Word<u64>;
    /// Free-queue slots.
    const SLOTS: u32;

    /// The active buffer (0: none).
    fn current_ptr(&self) -> &Self::U64;
    /// Its sequence number.
    fn current_seq(&self) -> &Self::U32;
    /// Records produced.
    fn total(&self) -> &Self::U32;
    /// Records dropped.
    fn dropped(&self) -> &Self::U32;
    /// Free-queue slot `index` (already reduced).
    fn free_slot(&self, index: u32) -> &Self::U64;
    /// Buffers taken from the free queue.
    fn free_head(&self) -> &Self::U32;
    /// Buffers offered to the free queue.
    fn free_tail(&self) -> &Self::U32;
    /// The count word of a buffer that this lane owns.
    fn count(&self, buffer: DeviceAddr) -> &Self::U32;
    /// Adds a wait of `ticks` to the lane's account.
    fn add_stall(&self, ticks: u64);
}

/// The words of one AICPU thread's ready queue and of the freeze.
pub trait QueueMem {
    /// A 32-bit word.
    type U32: Word<u32>;
    /// A 64-bit word.
    type U64: Word<u64>;

    /// Entries of the queue; one less are usable.
    fn entries(&self) -> u32;
    /// The next entry that the host takes (reduced modulo the entries; host writes).
    fn head(&self) -> &Self::U32;
    /// The next entry that the device fills (reduced modulo the entries; device writes).
    fn tail(&self) -> &Self::U32;
    /// Entry `index`.
    fn entry(&self, index: u32) -> EntryWords<'_, Self::U32, Self::U64>;
    /// Raised when the ready queue was found full.
    fn rq_contended(&self) -> &Self::U32;
    /// The host's request to park after a publication.
    fn rq_freeze(&self) -> &Self::U32;
    /// Raised when a free queue was found empty.
    fn fq_contended(&self) -> &Self::U32;
    /// The host's request to park before a pop.
    fn fq_freeze(&self) -> &Self::U32;
}

/// The words of a ready entry.
#[derive(Debug)]
pub struct EntryWords<'a, U32, U64> {
    /// Core, thread or instance.
    pub index: &'a U32,
    /// What the buffer holds.
    pub kind: &'a U32,
    /// The buffer.
    pub ptr: &'a U64,
    /// Its sequence number.
    pub seq: &'a U32,
    /// Our flags.
    pub flags: &'a U32,
}

/// A ready entry's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Core, thread or instance.
    pub index: u32,
    /// What the buffer holds, by the region's own numbers.
    pub kind: u32,
    /// The buffer.
    pub buffer: DeviceAddr,
    /// Its sequence number in its lane.
    pub seq: u32,
    /// `ENTRY_*` bits.
    pub flags: u32,
}

/// What a lane needs to wait and to publish: its thread's queue, the launch's budget, the clock.
pub struct Port<'a, Q, C> {
    /// The ready queue of the calling thread; `None` when the thread index was out of range.
    pub queue: Option<&'a mut ReadyQueue<Q>>,
    /// The launch's budget.
    pub stall: &'a Stall,
    /// The platform's clock.
    pub clock: &'a C,
}

/// The producer's end of one thread's ready queue.
#[derive(Debug)]
pub struct ReadyQueue<Q> {
    mem: Q,
    tail: u32,
    /// The host's head when it was last observed.
    head: u32,
    starved: bool,
    /// An entry that a fault plan holds back.
    #[cfg(feature = "testpoints")]
    held: Option<Entry>,
}

impl<Q: QueueMem> ReadyQueue<Q> {
    /// Attaches to a queue where it stands.
    pub fn new(mem: Q) -> Self {
        let tail = mem.tail().load(Relaxed) % mem.entries();
        ReadyQueue {
            tail,
            // Full, until the first push has looked: what waits already is the host's.
            head: (tail + 1) % mem.entries(),
            starved: false,
            #[cfg(feature = "testpoints")]
            held: None,
            mem,
        }
    }

    /// Publishes `entry`, waiting within the budget for room. `false`: there was none, the buffer is still the lane's.
    fn push<M: LaneMem, C: Clock>(&mut self, entry: &Entry, lane: &M, stall: &Stall, clock: &C) -> bool {
        #[cfg(feature = "testpoints")]
        return self.push_spoiled(entry, lane, stall, clock);
        #[cfg(not(feature = "testpoints"))]
        self.put(entry, lane, stall, clock)
    }

    /// [`put`](Self::put) as a fault plan wants it.
    #[cfg(feature = "testpoints")]
    fn push_spoiled<M: LaneMem, C: Clock>(
        &mut self,
        entry: &Entry,
        lane: &M,
        stall: &Stall,
        clock: &C,
    ) -> bool {
        use crate::clock::Publish;
        let mut entry = *entry;
        match clock.publish(&mut entry) {
            Publish::Later if self.held.is_none() => {
                self.held = Some(entry);
                return true;
            }
            Publish::Twice => {
                return self.put(&entry, lane, stall, clock) && self.put(&entry, lane, stall, clock);
            }
            Publish::Once | Publish::Later => {}
        }
        let sent = self.put(&entry, lane, stall, clock);
        if let Some(held) = self.held.take() {
            self.put(&held, lane, stall, clock);
        }
        sent
    }

    fn put<M: LaneMem, C: Clock>(&mut self, entry: &Entry, lane: &M, stall: &Stall, clock: &C) -> bool {
        let mem = &self.mem;
        let next = if self.tail + 1 == mem.entries() { 0 } else { self.tail + 1 };
        if next == self.head {
            let head = &mut self.head;
            let waited = stall.wait(
                clock,
                &mut self.starved,
                || mem.rq_contended().store(1, Relaxed),
                || {
                    // SYNC POINT: host acknowledged entries (host-drain `Drain::acknowledge`); we may refill theirs.
                    *head = fence::observe(mem.head());
                    next != *head
                },
            );
            account(lane, waited);
            if !waited.ready {
                return false;
            }
        }
        let words = mem.entry(self.tail);
        words.index.store(entry.index, Relaxed);
        words.kind.store(entry.kind, Relaxed);
        words.ptr.store(entry.buffer.0, Relaxed);
        words.seq.store(entry.seq, Relaxed);
        words.flags.store(entry.flags, Relaxed);
        // SYNC POINT: host drain observes the tail (host-drain `Drain::peek`) and then owns entry, buffer and count.
        fence::publish(mem.tail(), next);
        self.tail = next;
        // Also when an earlier wait here had expired: the budget then sees that the host has moved. Relaxed: the freeze
        // asks for a pause and guards nothing; what the host did meanwhile is observed at the heads and tails.
        if mem.rq_freeze().load(Relaxed) != 0 || self.starved {
            let waited = stall.wait(clock, &mut self.starved, || {}, || mem.rq_freeze().load(Relaxed) == 0);
            account(lane, waited);
        }
        true
    }
}

fn account<M: LaneMem>(lane: &M, waited: Waited) {
    if waited.ticks != 0 {
        lane.add_stall(waited.ticks);
    }
}

/// The protocol part of a lane: which buffer is active, and how it is had and given away.
#[derive(Debug)]
pub struct Lane<M> {
    mem: M,
    seq: u32,
    starved: bool,
}

impl<M: LaneMem> Lane<M> {
    /// A lane over `mem` without a buffer; the first one gets sequence number 0.
    pub const fn new(mem: M) -> Self {
        Lane { mem, seq: 0, starved: false }
    }

    /// The shared words.
    pub const fn mem(&self) -> &M {
        &self.mem
    }

    /// The active buffer's sequence number.
    pub const fn seq(&self) -> u32 {
        self.seq
    }

    /// Takes an empty buffer if one is there. A slot that holds no buffer is consumed and passed over.
    pub fn try_take(&mut self) -> Option<DeviceAddr> {
        loop {
            let head = self.mem.free_head().load(Relaxed);
            // SYNC POINT: host offered buffers (host-drain `Refill::offer`): slot and zeroed memory are visible.
            if head == fence::observe(self.mem.free_tail()) {
                return None;
            }
            let buffer = DeviceAddr(self.mem.free_slot(head % M::SLOTS).load(Relaxed));
            // SYNC POINT: host observes the head before it fills the slot again.
            fence::publish(self.mem.free_head(), head.wrapping_add(1));
            if !buffer.is_null() {
                return Some(buffer);
            }
        }
    }

    /// Takes an empty buffer, waiting for one within the budget.
    pub fn take<Q: QueueMem, C: Clock>(&mut self, port: &mut Port<'_, Q, C>) -> Option<DeviceAddr> {
        if let Some(buffer) = self.try_take() {
            if self.starved {
                // Lets the budget see that the host is back.
                port.stall.wait(port.clock, &mut self.starved, || {}, || true);
            }
            return Some(buffer);
        }
        let queue = &port.queue.as_deref()?.mem;
        let mem = &self.mem;
        let mut frozen_ok = true;
        let waited = port.stall.wait(
            port.clock,
            &mut self.starved,
            || queue.fq_contended().store(1, Relaxed),
            || {
                // Relaxed, both: `try_take` observes the tail again before it touches what was offered.
                let offered = mem.free_head().load(Relaxed) != mem.free_tail().load(Relaxed);
                // A buffer that is there at first sight is taken; one that had to be waited for is taken when the
                // host has let go of the freeze.
                let go = offered && (frozen_ok || queue.fq_freeze().load(Relaxed) == 0);
                frozen_ok = false;
                go
            },
        );
        account(&self.mem, waited);
        if waited.ready { self.try_take() } else { None }
    }

    /// Makes `buffer` the active one with sequence number `seq`.
    pub fn activate(&mut self, buffer: DeviceAddr, seq: u32) {
        self.seq = seq;
        self.mem.count(buffer).store(0, Relaxed);
        self.mem.current_ptr().store(buffer.0, Relaxed);
        // SYNC POINT: an AICore observes the sequence number (`Reserver::reserve`) and then reads the pointer; the host
        // observes it when it recovers an un-flushed buffer.
        fence::publish(self.mem.current_seq(), seq);
    }

    /// Publishes the active buffer. `true`: it belongs to the host now, and the lane has none.
    pub fn publish<Q: QueueMem, C: Clock>(&mut self, port: &mut Port<'_, Q, C>, entry: &Entry) -> bool {
        let sent = self.push(port, entry);
        if sent {
            self.mem.current_ptr().store(0, Relaxed);
            self.seq = self.seq.wrapping_add(1);
            fence::publish(self.mem.current_seq(), self.seq);
        }
        sent
    }

    /// Publishes any buffer of this lane, leaving the active one alone.
    pub fn push<Q: QueueMem, C: Clock>(&mut self, port: &mut Port<'_, Q, C>, entry: &Entry) -> bool {
        let (stall, clock) = (port.stall, port.clock);
        match port.queue.as_deref_mut() {
            Some(queue) => queue.push(entry, &self.mem, stall, clock),
            None => false,
        }
    }
}

/// The words of the head that a core reads at every reserve.
pub trait HeadMem {
    /// A 32-bit word.
    type U32: Word<u32>;
    /// A 64-bit word.
    type U64: Word<u64>;
    /// The active buffer (0: none).
    fn current_ptr(&self) -> &Self::U64;
    /// Its sequence number.
    fn current_seq(&self) -> &Self::U32;
}

/// A core's place in its active buffer, whose rows are `ROW` bytes each.
#[derive(Clone, Copy, Debug)]
pub struct Reserver<const ROW: u64> {
    /// The next row, and the end of the buffer; equal when there is no room, or no buffer.
    next: DeviceAddr,
    end: DeviceAddr,
    seen: u32,
}

impl<const ROW: u64> Default for Reserver<ROW> {
    fn default() -> Self {
        Self::NEW
    }
}

impl<const ROW: u64> Reserver<ROW> {
    /// A core that has seen no buffer yet.
    pub const NEW: Self = Reserver { next: DeviceAddr::NULL, end: DeviceAddr::NULL, seen: u32::MAX };

    /// The address of the next of the `capacity` rows of the active buffer; null when there is no room.
    #[inline(always)]
    pub fn reserve<H: HeadMem>(&mut self, head: &H, capacity: u32) -> DeviceAddr {
        // SYNC POINT: AICPU activated this buffer (`Lane::activate`).
        let seq = fence::observe(head.current_seq());
        if seq != self.seen {
            self.turn(seq, DeviceAddr(head.current_ptr().load(Relaxed)), capacity);
        }
        let row = self.next;
        if row == self.end {
            return DeviceAddr::NULL;
        }
        self.next = row.offset(ROW);
        row
    }

    #[cold]
    fn turn(&mut self, seq: u32, buffer: DeviceAddr, capacity: u32) {
        self.seen = seq;
        self.next = buffer;
        self.end = if buffer.is_null() { buffer } else { buffer.offset(u64::from(capacity) * ROW) };
    }
}
