//! A host for the lanes of dep_gen, the PMU and the scope stats, over ABI memory: it makes the region, offers buffers,
//! takes them back, and says what the device's words hold.
#![allow(dead_code)] // no test uses all of it

use dfx_collector::abi::layout::{BufferLayout, LaneLayout, QueueLayout};
use dfx_collector::abi::{DeviceAddr, Geometry, peer};
use dfx_collector::stall::Budget;
use dfx_mock::region::Memory;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Both platforms.
pub(crate) const PLATFORMS: [&Geometry; 2] = [&Geometry::A2A3, &Geometry::A5];

/// What a region is made of.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) geometry: &'static Geometry,
    pub(crate) bytes: usize,
    pub(crate) queue: QueueLayout,
    pub(crate) lane: LaneLayout,
    pub(crate) buffer: BufferLayout,
    /// Each lane's state.
    pub(crate) states: usize,
    pub(crate) lanes: usize,
    pub(crate) budget_at: usize,
}

/// A buffer as it was taken: whose, which, and its records.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) index: u32,
    pub(crate) thread: u32,
    pub(crate) seq: u32,
    pub(crate) count: u32,
    /// `count` records.
    pub(crate) records: Vec<Vec<u8>>,
}

/// A region with its host.
pub(crate) struct Rig {
    pub(crate) plan: Plan,
    pub(crate) region: Memory,
    pub(crate) buffers: Vec<Memory>,
    /// Taken in order of publication.
    pub(crate) taken: Vec<Taken>,
    /// Each buffer's lane.
    home: Vec<usize>,
}

impl Rig {
    /// A region with `buffers` per lane, all offered (as many as there are slots), and `budget` granted; `None`: the
    /// host is the reference's. Buffers are filled with `0xA5`, so that what is not written shows.
    pub(crate) fn new(plan: Plan, buffers: usize, budget: Option<Budget>) -> Rig {
        let region = Memory::new(plan.bytes);
        let home: Vec<usize> = (0..plan.lanes).flat_map(|lane| std::iter::repeat_n(lane, buffers)).collect();
        let memory = home.iter().map(|_| Memory::new(plan.buffer.bytes)).collect();
        let mut rig = Rig { plan, region, buffers: memory, taken: Vec::new(), home };
        if let Some(budget) = budget {
            rig.word(plan.queue.peer).store(peer::with_host(0), Relaxed);
            rig.word(plan.budget_at).store(budget.to_word(), Relaxed);
        }
        for buffer in 0..rig.buffers.len() {
            rig.fill(buffer, 0xA5);
            rig.offer(buffer);
        }
        rig
    }

    pub(crate) fn base(&self) -> DeviceAddr {
        self.region.addr(0)
    }

    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: shared words are atomics.
        unsafe { self.region.at(offset) }
    }

    pub(crate) fn wide(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: shared words are atomics.
        unsafe { self.region.at(offset) }
    }

    /// Where a lane's state begins.
    pub(crate) fn state(&self, lane: usize) -> usize {
        self.plan.states + lane * self.plan.lane.bytes
    }

    pub(crate) fn total(&self, lane: usize) -> u32 {
        self.word(self.state(lane) + self.plan.lane.total).load(Relaxed)
    }

    pub(crate) fn dropped(&self, lane: usize) -> u32 {
        self.word(self.state(lane) + self.plan.lane.dropped).load(Relaxed)
    }

    /// Waits, ticks in all, longest.
    pub(crate) fn stalls(&self, lane: usize) -> (u32, u64, u64) {
        let (state, stall) = (self.state(lane), self.plan.lane.stall.expect("an account of waits"));
        (
            self.word(state + stall.count).load(Relaxed),
            self.wide(state + stall.ticks).load(Relaxed),
            self.wide(state + stall.max_ticks).load(Relaxed),
        )
    }

    fn fill(&self, buffer: usize, byte: u8) {
        let layout = self.plan.buffer;
        let records = layout.records..layout.records + layout.record_bytes * layout.capacity as usize;
        self.buffers[buffer].fill(records, byte);
    }

    /// Offers `buffer` to its lane. `false`: the free queue is full.
    pub(crate) fn offer(&mut self, buffer: usize) -> bool {
        let (state, lane) = (self.state(self.home[buffer]), self.plan.lane);
        let (head, tail) = (self.word(state + lane.free_head), self.word(state + lane.free_tail));
        let next = tail.load(Relaxed);
        if next.wrapping_sub(head.load(Acquire)) == lane.slots {
            return false;
        }
        let slot = self.wide(state + lane.free_ptrs + 8 * (next % lane.slots) as usize);
        slot.store(self.buffers[buffer].addr(0).0, Relaxed);
        tail.store(next.wrapping_add(1), Release);
        true
    }

    fn buffer_at(&self, addr: u64) -> usize {
        self.buffers.iter().position(|memory| memory.addr(0).0 == addr).expect("a buffer of this host's")
    }

    fn read(&self, buffer: usize) -> (u32, Vec<Vec<u8>>) {
        let (memory, layout) = (&self.buffers[buffer], self.plan.buffer);
        // SAFETY: the count is an atomic.
        let count = unsafe { memory.at::<AtomicU32>(layout.count) }.load(Acquire);
        assert!(count <= layout.capacity, "{count} records in a buffer of {}", layout.capacity);
        let record = |i: usize| {
            let at = layout.records + i * layout.record_bytes;
            memory.bytes(at..at + layout.record_bytes)
        };
        (count, (0..count as usize).map(record).collect())
    }

    /// Takes all that is published, and offers the buffers again if `refill`.
    pub(crate) fn drain(&mut self, refill: bool) {
        for thread in 0..self.plan.queue.threads {
            while let Some(buffer) = self.take_one(thread) {
                if refill {
                    self.offer(buffer);
                }
            }
        }
    }

    fn take_one(&mut self, thread: u32) -> Option<usize> {
        let queue = self.plan.queue;
        let head = self.word(queue.heads + 4 * thread as usize).load(Relaxed);
        if head == self.word(queue.tails + 4 * thread as usize).load(Acquire) {
            return None;
        }
        let entry = queue.entry(thread, head);
        let index = self.word(entry).load(Relaxed);
        assert_eq!([self.word(entry + 4).load(Relaxed), self.word(entry + 20).load(Relaxed)], [0, 0], "pads");
        let buffer = self.buffer_at(self.wide(entry + 8).load(Relaxed));
        assert_eq!(self.home[buffer], index as usize, "a buffer of the lane that the entry names");
        let (count, records) = self.read(buffer);
        let seq = self.word(entry + 16).load(Relaxed);
        self.taken.push(Taken { index, thread, seq, count, records });
        let next = (head + 1) % queue.entries;
        self.word(queue.heads + 4 * thread as usize).store(next, Release);
        self.fill(buffer, 0xA5);
        Some(buffer)
    }

    /// Records of the lane's active buffer, as a recovery finds them.
    pub(crate) fn recover(&self, lane: usize) -> Vec<Vec<u8>> {
        match self.wide(self.state(lane) + self.plan.lane.current_ptr).load(Relaxed) {
            0 => Vec::new(),
            at => self.read(self.buffer_at(at)).1,
        }
    }

    /// All records of a lane that were taken, in order.
    pub(crate) fn records(&self, lane: usize) -> Vec<Vec<u8>> {
        let of = |taken: &&Taken| taken.index as usize == lane;
        self.taken.iter().filter(of).flat_map(|taken| taken.records.clone()).collect()
    }

    /// Buffers of a lane come with the numbers 0, 1, 2, …
    pub(crate) fn check_sequence(&self, lane: usize) {
        let of = |taken: &&Taken| taken.index as usize == lane;
        for (seq, taken) in self.taken.iter().filter(of).enumerate() {
            assert_eq!(taken.seq as usize, seq);
        }
    }
}
