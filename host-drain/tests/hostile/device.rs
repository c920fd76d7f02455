//! The adversary: writes values that could be, nearly could be and cannot be where the host looks.

use crate::memory::{Memory, long, word};
use dfx_collector::abi::layout::{BufferLayout, SWIMLANE_LANE};
use dfx_collector::abi::swimlane::{ActiveHead, BufferKind, ENTRY_FLUSHED, ReadyEntry};
use dfx_host_drain::features::swimlane::SwimlaneRegion;
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Seeds tried by default.
pub(crate) const SEEDS: u64 = 1_000;

/// A small generator (xorshift64*): the same seed gives the same attack.
pub(crate) struct Dice(u64);

/// The dice of `seed`.
pub(crate) fn dice(seed: u64) -> Dice {
    Dice((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
}

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    /// One of `choices`.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A 32-bit value: mostly one that is nearly right.
    fn value(&mut self) -> u32 {
        let random = self.next() as u32;
        let small = self.below(70) as u32;
        let capacity = self.pick(&[999, 1000, 1001, 1023, 1024, 1025, 16383, 16384, 16385]);
        self.pick(&[0, 1, small, small, capacity, u32::MAX, i32::MAX as u32, random])
    }
}

/// One device gone mad.
pub(crate) struct Adversary<'a> {
    pub(crate) dice: Dice,
    memory: &'a Memory,
    region: SwimlaneRegion,
    cores: u32,
    /// Buffers that the lanes were offered at first, in the order of the lanes.
    buffers: Vec<(BufferKind, u32, u64)>,
    tail: u32,
}

const KINDS: [BufferKind; 4] =
    [BufferKind::AicpuTask, BufferKind::AicpuSchedPhase, BufferKind::AicpuOrchPhase, BufferKind::AicoreTask];

impl<'a> Adversary<'a> {
    pub(crate) fn new(dice: Dice, memory: &'a Memory, region: SwimlaneRegion, cores: u32) -> Self {
        let mut buffers = Vec::new();
        for kind in KINDS {
            let lanes = match kind {
                BufferKind::AicpuOrchPhase => 1,
                _ => cores,
            };
            for index in 0..lanes {
                let state = region.base.0 + region.layout.pool(kind, index) as u64;
                for slot in 0..u64::from(SWIMLANE_LANE.slots) {
                    let buffer = long(state + SWIMLANE_LANE.free_ptrs as u64 + 8 * slot).load(Relaxed);
                    if buffer != 0 {
                        buffers.push((kind, index, buffer));
                    }
                }
            }
        }
        Adversary { dice, memory, region, cores, buffers, tail: 0 }
    }

    fn at(&self, offset: usize) -> u64 {
        self.region.base.0 + offset as u64
    }

    fn put(&self, offset: usize, value: u32) {
        word(self.at(offset)).store(value, Release);
    }

    /// A buffer of the lane that stands at `place` in the list.
    pub(crate) fn buffer(&self, place: usize) -> u64 {
        self.buffers[place].2
    }

    /// The first buffer of core `core`'s AICPU task lane.
    pub(crate) fn task_buffer(&self, core: u32) -> u64 {
        self.buffers.iter().find(|b| (b.0, b.1) == (BufferKind::AicpuTask, core)).expect("level 2").2
    }

    /// Writes the next entry of queue 0.
    pub(crate) fn entry(&self, kind: u32, index: u32, buffer: u64, flags: u32) {
        self.write_entry(0, self.tail, [kind, index, flags, 7], buffer);
    }

    fn write_entry(&self, thread: u32, place: u32, [kind, index, flags, seq]: [u32; 4], buffer: u64) {
        let at = self.region.layout.queue.entry(thread, place);
        self.put(at + offset_of!(ReadyEntry, core_index), index);
        self.put(at + offset_of!(ReadyEntry, kind), kind);
        self.put(at + offset_of!(ReadyEntry, buffer_seq), seq);
        self.put(at + offset_of!(ReadyEntry, flags), flags);
        long(self.at(at + offset_of!(ReadyEntry, buffer_ptr))).store(buffer, Release);
    }

    /// Publishes what `write` wrote as the next entry of queue 0.
    pub(crate) fn publish(&mut self, write: impl FnOnce(&Self)) {
        write(self);
        self.tail += 1;
        self.tail(self.tail);
    }

    pub(crate) fn tail(&self, tail: u32) {
        self.put(self.region.layout.queue.tails, tail);
    }

    pub(crate) fn count(&self, kind: BufferKind, buffer: u64, count: u32) {
        word(buffer + BufferLayout::swimlane(kind).count as u64).store(count, Release);
    }

    pub(crate) fn free_head(&self, head: u32) {
        self.put(self.region.layout.pool(BufferKind::AicpuTask, 0) + SWIMLANE_LANE.free_head, head);
        // Somebody hungry, so that the host looks.
        self.put(
            self.region.layout.queue.backpressure
                + offset_of!(dfx_collector::abi::BackpressureHeader, fq_contended),
            1,
        );
        // And a spare buffer to offer.
        self.count(BufferKind::AicpuTask, self.task_buffer(0), 1);
        self.write_entry(0, 0, [BufferKind::AicpuTask as u32, 0, 0, 0], self.task_buffer(0));
        self.tail(1);
    }

    pub(crate) fn current(&self, buffer: u64) {
        let at = self.region.layout.pool(BufferKind::AicpuTask, 0) + SWIMLANE_LANE.current_ptr;
        long(self.at(at)).store(buffer, Release);
    }

    pub(crate) fn level(&self, level: u32) {
        self.put(self.region.layout.level, level);
    }

    pub(crate) fn phase_cores(&self, cores: u32) {
        self.put(self.region.layout.num_phase_cores, cores);
    }

    pub(crate) fn owner(&self, core: usize, thread: u8) {
        self.phase_cores(self.cores);
        let at = self.region.layout.core_to_thread + core;
        let word_at = at & !3;
        let shift = 8 * (at - word_at);
        let old = word(self.at(word_at)).load(Relaxed);
        self.put(word_at, old & !(0xFF << shift) | u32::from(thread) << shift);
    }

    pub(crate) fn orchestrators(&self, threads: u32) {
        self.put(self.region.layout.num_orch_threads, threads);
    }

    /// A pointer: a buffer's, nearly a buffer's, or nothing's.
    fn pointer(&mut self) -> u64 {
        let (_, _, buffer) = self.dice.pick(&self.buffers);
        let (start, bytes) = self.dice.pick(&self.memory.blocks());
        let random = self.dice.next();
        self.dice.pick(&[
            buffer,
            buffer,
            buffer,
            buffer + 4,
            start,
            start + bytes,
            start + bytes - 8,
            random,
            0,
            u64::MAX,
        ])
    }

    /// A lane's state, and its kind.
    fn pool(&mut self) -> (usize, BufferKind) {
        let (kind, index, _) = self.dice.pick(&self.buffers);
        (self.region.layout.pool(kind, index), kind)
    }

    /// One blow.
    pub(crate) fn strike(&mut self) {
        let queue = self.region.layout.queue;
        let thread = self.dice.below(u64::from(queue.threads)) as u32;
        let value = self.dice.value();
        match self.dice.below(16) {
            // Entries, mostly nearly right, and a tail that makes the host take some.
            0..=4 => {
                let first = self.dice.below(u64::from(queue.entries)) as u32;
                for place in 0..self.dice.below(8) as u32 {
                    let (kind, index, buffer) = self.dice.pick(&self.buffers);
                    let flags = self.dice.pick(&[0, ENTRY_FLUSHED, value]);
                    let right = [kind as u32, index, flags, self.dice.below(5) as u32];
                    let wrong = [self.dice.value(), self.dice.value(), flags, self.dice.value()];
                    let words = if self.dice.below(4) > 0 { right } else { wrong };
                    let buffer = if self.dice.below(4) > 0 { buffer } else { self.pointer() };
                    self.write_entry(thread, (first + place) % queue.entries, words, buffer);
                }
                let tail = self.dice.below(u64::from(queue.entries)) as u32;
                self.put(queue.tails + 4 * thread as usize, tail);
            }
            5 => self.put(queue.tails + 4 * thread as usize, value),
            6 => self.put(queue.heads + 4 * thread as usize, value),
            7..=8 => {
                let (kind, _, buffer) = self.dice.pick(&self.buffers);
                self.count(kind, buffer, value);
            }
            9 => {
                // A record, or what is none.
                let (kind, _, buffer) = self.dice.pick(&self.buffers);
                let layout = BufferLayout::swimlane(kind);
                let record = self.dice.below(u64::from(layout.capacity)) * layout.record_bytes as u64;
                for at in (0..layout.record_bytes as u64).step_by(4) {
                    word(buffer + layout.records as u64 + record + at).store(self.dice.value(), Release);
                }
            }
            10 => {
                let (pool, _) = self.pool();
                let field = self.dice.pick(&[SWIMLANE_LANE.free_head, SWIMLANE_LANE.free_tail]);
                self.put(pool + field, value);
            }
            11 => {
                let (pool, kind) = self.pool();
                let pointer = self.pointer();
                let field = match kind {
                    BufferKind::AicoreTask => {
                        self.dice.pick(&[SWIMLANE_LANE.current_ptr, offset_of!(ActiveHead, stash_ptr)])
                    }
                    _ => SWIMLANE_LANE.current_ptr,
                };
                long(self.at(pool + field)).store(pointer, Release);
            }
            12 => {
                let (pool, _) = self.pool();
                let field = self.dice.pick(&[
                    SWIMLANE_LANE.total,
                    SWIMLANE_LANE.dropped,
                    SWIMLANE_LANE.current_seq,
                    offset_of!(ActiveHead, stalls),
                    offset_of!(ActiveHead, stash_seq),
                    offset_of!(ActiveHead, stall_ticks) + 4,
                    offset_of!(ActiveHead, max_stall_ticks) + 4,
                ]);
                self.put(pool + field, value);
            }
            13 => {
                let word = self.dice.below(4) as usize;
                self.put(queue.backpressure + 4 * word, value);
            }
            14 => {
                let layout = self.region.layout;
                let field = self.dice.pick(&[
                    queue.peer,
                    layout.level,
                    layout.num_cores,
                    layout.num_sched_threads,
                    layout.num_orch_threads,
                    layout.num_phase_cores,
                    layout.stall_budget,
                    layout.core_to_thread,
                ]);
                self.put(field, value);
            }
            // Anywhere in the region.
            _ => {
                let place = self.dice.below(self.region.layout.bytes() as u64 / 4) as usize;
                self.put(4 * place, value);
            }
        }
    }
}
