//! A mock host for the one-lane regions of dep_gen, the PMU and the scope stats.

use dfx_collector::abi::layout::{BufferLayout, LaneLayout, QueueLayout};
use dfx_mock::region::Memory;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A region with two lanes' worth of buffers, and a host that takes and returns them.
pub struct Host {
    /// The region.
    pub region: Memory,
    buffers: Vec<Memory>,
    queue: QueueLayout,
    state: usize,
    lane: LaneLayout,
}

impl Host {
    /// A region of `bytes` with one lane at `state`, whose free queue holds four buffers.
    pub fn new(
        bytes: usize,
        queue: QueueLayout,
        state: usize,
        lane: LaneLayout,
        buffer: BufferLayout,
    ) -> Host {
        let buffers = (0..4).map(|_| Memory::new(buffer.bytes)).collect();
        let host = Host { region: Memory::new(bytes), buffers, queue, state, lane };
        host.buffers.iter().for_each(|buffer| host.offer(buffer.addr(0).0));
        host
    }

    /// The 32-bit word at `offset` of the region.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: shared words are atomics.
        unsafe { self.region.at(offset) }
    }

    /// The 64-bit word at `offset` of the region.
    pub fn wide(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: shared words are atomics.
        unsafe { self.region.at(offset) }
    }

    fn offer(&self, buffer: u64) {
        let tail = self.word(self.state + self.lane.free_tail);
        let slot = self.lane.free_ptrs + 8 * (tail.load(Relaxed) % self.lane.slots) as usize;
        self.wide(self.state + slot).store(buffer, Relaxed);
        tail.store(tail.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Takes what was published and offers it again.
    pub fn step(&self) {
        for thread in 0..self.queue.threads as usize {
            let (head, tail) =
                (self.word(self.queue.heads + 4 * thread), self.word(self.queue.tails + 4 * thread));
            while head.load(Relaxed) != tail.load(Relaxed) {
                let entry = self.queue.entry(thread as u32, head.load(Relaxed));
                self.offer(self.wide(entry + 8).load(Relaxed));
                head.store((head.load(Relaxed) + 1) % self.queue.entries, Relaxed);
            }
        }
    }
}
