//! The host's half of the lane protocol, over the engine's own traits.
//!
//! Over ABI memory it serves tests and benches, over a model's cells it is the peer in the model: the same lines, the
//! same orderings. Each function names the one of `host-drain` that it mirrors.

use dfx_collector::abi::DeviceAddr;
use dfx_collector::fence;
use dfx_collector::lane::{Entry, LaneMem, QueueMem};
use dfx_collector::sync::{Ordering::Relaxed, Word};

/// The host's end of one thread's ready queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueEnd {
    head: u32,
    /// Added to every head that the device is told, so that it believes the queue to be this much shorter. 0 in truth.
    shift: u32,
}

impl QueueEnd {
    /// The end of a queue that starts at entry `head`.
    pub const fn at(head: u32) -> Self {
        QueueEnd { head, shift: 0 }
    }

    /// Makes the device believe that only `room` entries may wait.
    pub fn limit<Q: QueueMem>(&mut self, queue: &Q, room: u32) {
        self.shift = if room + 1 >= queue.entries() { 0 } else { room + 1 };
        fence::publish(queue.head(), (self.head + self.shift) % queue.entries());
    }

    /// The entry at the head, if the device has published one (`Service::step` and `Drain::peek`).
    pub fn peek<Q: QueueMem>(&self, queue: &Q) -> Option<Entry> {
        // SYNC POINT: the device published the tail (`ReadyQueue::push`).
        if fence::observe(queue.tail()) == self.head {
            return None;
        }
        let words = queue.entry(self.head);
        Some(Entry {
            index: words.index.load(Relaxed),
            kind: words.kind.load(Relaxed),
            buffer: DeviceAddr(words.ptr.load(Relaxed)),
            seq: words.seq.load(Relaxed),
            flags: words.flags.load(Relaxed),
        })
    }

    /// Tells the device that the entry at the head was taken (`Drain::advance` and `Drain::acknowledge`).
    pub fn acknowledge<Q: QueueMem>(&mut self, queue: &Q) {
        self.head = (self.head + 1) % queue.entries();
        // SYNC POINT: the device observes the head (`ReadyQueue::push`) and then fills this entry again.
        fence::publish(queue.head(), (self.head + self.shift) % queue.entries());
    }
}

/// The host's end of one lane's free queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeEnd {
    offered: u32,
}

impl FreeEnd {
    /// The end of a free queue into which `offered` buffers went so far.
    pub const fn at(offered: u32) -> Self {
        FreeEnd { offered }
    }

    /// Offers `buffer` if there is room (`LaneTable::offer`).
    pub fn offer<M: LaneMem>(&mut self, lane: &M, buffer: DeviceAddr) -> bool {
        // SYNC POINT: the device published its head after it had read the slot (`Lane::try_take`).
        let head = fence::observe(lane.free_head());
        if self.offered.wrapping_sub(head) >= M::SLOTS {
            return false;
        }
        lane.free_slot(self.offered % M::SLOTS).store(buffer.0, Relaxed);
        self.offered = self.offered.wrapping_add(1);
        // SYNC POINT: the device observes the tail (`Lane::try_take`) and then owns the buffer.
        fence::publish(lane.free_tail(), self.offered);
        true
    }
}

/// The active buffer of a lane, as a host finds it after an abnormal end (`Service::recover`): sequence number, buffer.
pub fn active<M: LaneMem>(lane: &M) -> (u32, Option<DeviceAddr>) {
    // SYNC POINT: the device published the number after the pointer (`Lane::activate`, `Lane::publish`).
    let seq = fence::observe(lane.current_seq());
    let buffer = DeviceAddr(lane.current_ptr().load(Relaxed));
    (seq, (!buffer.is_null()).then_some(buffer))
}
