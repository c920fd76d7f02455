//! An args dump's region with its arenas, a host that saves and acknowledges, and tensors with an oracle.
#![allow(dead_code)] // no test uses all of it

use super::plain::{Plan, Rig};
use dfx_collector::abi::args_dump::{FLAG_REFERENCE, Info, Kind, Level, MAGIC, Record};
use dfx_collector::abi::layout::{ARENA, ARGS_DUMP_LANE, ArgsDumpLayout, BufferLayout};
use dfx_collector::abi::tensor::DataType;
use dfx_collector::abi::{DeviceAddr, Geometry};
use dfx_collector::args_dump::{ArgsDump, Tables};
use dfx_collector::clock::Clock;
use dfx_collector::stall::Budget;
use dfx_mock::region::Memory;
use dfx_mock::scaled;
use rand::rngs::SmallRng;
use rand::{Rng, seq::SliceRandom};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};
use zerocopy::FromBytes;

/// A dump whose tables are its own.
pub(crate) type Dump<C> = ArgsDump<C, Box<Tables>>;

/// A budget of 10 ms a wait, 1 s in all.
pub(crate) const BUDGET: Budget = Budget { wait_ms: 10, total_ms: 1000 };
/// a2a3's counter.
pub(crate) const TICKS_PER_MS: u64 = 50_000;

pub(crate) fn tables() -> Box<Tables> {
    // SAFETY: zeroes are empty tables.
    unsafe { Box::<Tables>::new_zeroed().assume_init() }
}

/// How a region is made.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) geometry: &'static Geometry,
    pub(crate) threads: u32,
    pub(crate) level: Level,
    pub(crate) arena: usize,
    pub(crate) buffers: usize,
    /// `None`: the host is the reference's.
    pub(crate) budget: Option<Budget>,
    pub(crate) dedup: bool,
}

impl Shape {
    /// One thread of a2a3 at level 2, with an arena of 64 KiB.
    pub(crate) const SMALL: Shape = Shape {
        geometry: &Geometry::A2A3,
        threads: 1,
        level: Level::Full,
        arena: 1 << 16,
        buffers: 4,
        budget: Some(BUDGET),
        dedup: false,
    };
}

/// A record as the host has it.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) thread: u32,
    pub(crate) record: Record,
    /// The payload, or that of the record that it refers to.
    pub(crate) bytes: Vec<u8>,
}

/// A region with its arenas and its host.
pub(crate) struct Host {
    pub(crate) rig: Rig,
    pub(crate) layout: ArgsDumpLayout,
    pub(crate) shape: Shape,
    arenas: Vec<Memory>,
    /// Records that were taken, their payloads still in the arena, per thread.
    waiting: Vec<Vec<Record>>,
    /// Everything whose payload was saved.
    pub(crate) saved: Vec<Saved>,
    known: HashMap<(u32, u64), Vec<u8>>,
    last_end: Vec<u64>,
    taken: usize,
    recovered: bool,
}

impl Host {
    pub(crate) fn new(shape: Shape) -> Host {
        let layout = ArgsDumpLayout::of(shape.geometry.platform, shape.threads);
        let plan = Plan {
            geometry: shape.geometry,
            bytes: layout.bytes(),
            queue: layout.queue,
            lane: ARGS_DUMP_LANE,
            buffer: BufferLayout::args_dump(),
            states: layout.lane(0),
            lanes: shape.threads as usize,
            budget_at: layout.stall_budget,
        };
        let rig = Rig::new(plan, shape.buffers, shape.budget);
        rig.word(layout.magic).store(MAGIC, Relaxed);
        rig.word(layout.num_threads).store(shape.threads, Relaxed);
        rig.word(layout.level).store(shape.level as u32, Relaxed);
        rig.word(layout.options).store(shape.dedup.into(), Relaxed);
        let arenas: Vec<Memory> = (0..shape.threads).map(|_| Memory::new(shape.arena)).collect();
        for (thread, arena) in arenas.iter().enumerate() {
            rig.wide(rig.state(thread) + ARENA.base).store(arena.addr(0).0, Relaxed);
            rig.wide(rig.state(thread) + ARENA.size).store(shape.arena as u64, Relaxed);
        }
        Host {
            rig,
            layout,
            shape,
            arenas,
            waiting: vec![Vec::new(); shape.threads as usize],
            saved: Vec::new(),
            known: HashMap::new(),
            last_end: vec![0; shape.threads as usize],
            taken: 0,
            recovered: false,
        }
    }

    /// A dump, enabled and launched on this region.
    pub(crate) fn launch<C: Clock>(&self, clock: C) -> Dump<C> {
        let dump = ArgsDump::new(clock, tables());
        // SAFETY: the region is one, and outlives the dump's use in each test; nothing else runs.
        unsafe {
            dump.set_enabled(true);
            dump.init(self.shape.geometry, self.rig.base(), self.shape.threads, Some(0)).expect("a region");
        }
        dump
    }

    /// The arenas with their sizes.
    pub(crate) fn arenas(&self) -> Vec<(&Memory, usize)> {
        self.arenas.iter().map(|arena| (arena, self.shape.arena)).collect()
    }

    pub(crate) fn word(&self, thread: u32, offset: usize) -> u64 {
        self.rig.wide(self.rig.state(thread as usize) + offset).load(Relaxed)
    }

    pub(crate) fn count(&self, thread: u32, offset: usize) -> u32 {
        self.rig.word(self.rig.state(thread as usize) + offset).load(Relaxed)
    }

    /// Takes all published buffers and gives them back at once; the payloads wait in the arena.
    pub(crate) fn take(&mut self) {
        self.rig.drain(true);
        for taken in &self.rig.taken[self.taken..] {
            let records = taken.records.iter().map(|bytes| Record::read_from_bytes(bytes).expect("a record"));
            self.waiting[taken.index as usize].extend(records);
        }
        self.taken = self.rig.taken.len();
    }

    fn bytes_at(&self, thread: u32, offset: u64, size: u64) -> Vec<u8> {
        let at = (offset % self.shape.arena as u64) as usize;
        assert!(at + size as usize <= self.shape.arena, "a payload across the end");
        self.arenas[thread as usize].bytes(at..at + size as usize)
    }

    /// Saves the payloads of the first `count` records that wait on `thread`, and acknowledges them.
    pub(crate) fn save(&mut self, thread: u32, count: usize) {
        let lane = thread as usize;
        let count = count.min(self.waiting[lane].len());
        for record in self.waiting[lane].drain(..count).collect::<Vec<_>>() {
            self.save_one(thread, record);
        }
        let (word, end) = (self.rig.state(lane) + ARENA.acknowledged, self.last_end[lane]);
        if self.shape.budget.is_some() {
            self.rig.wide(word).store(end, Release);
        }
    }

    fn save_one(&mut self, thread: u32, record: Record) {
        let at = (thread, record.payload_offset);
        let bytes = if record.payload_size == 0 {
            Vec::new()
        } else if record.flags & FLAG_REFERENCE != 0 {
            let known = self.known.get(&at).expect("a reference to what was saved before");
            assert_eq!(known.len() as u64, record.payload_size, "all of it");
            known.clone()
        } else {
            let end = &mut self.last_end[thread as usize];
            assert!(record.payload_offset >= *end, "offsets grow");
            *end = record.payload_offset + record.payload_size;
            let bytes = self.bytes_at(thread, record.payload_offset, record.payload_size);
            if self.shape.dedup && record.truncated == 0 {
                self.known.insert(at, bytes.clone());
            }
            let completed = self.rig.wide(self.rig.state(thread as usize) + ARENA.completed);
            completed.store(completed.load(Relaxed) + 1, Release);
            bytes
        };
        self.saved.push(Saved { thread, record, bytes });
    }

    /// Takes and saves everything; what a buffer still holds, too, if `recover`.
    pub(crate) fn finish(&mut self, recover: bool) {
        self.take();
        for thread in 0..self.shape.threads {
            self.save(thread, usize::MAX);
            if recover {
                self.recovered = true;
                for record in self.rig.recover(thread as usize) {
                    self.save_one(thread, Record::read_from_bytes(&record).expect("a record"));
                }
            }
        }
    }

    /// The account of a thread against what was saved of it.
    pub(crate) fn balance(&self, thread: u32) {
        let of = || self.saved.iter().filter(|saved| saved.thread == thread).map(|saved| &saved.record);
        let refers = |record: &&Record| record.flags & FLAG_REFERENCE != 0;
        let shed = |record: &&Record| record.flags & 4 != 0;
        let lane = thread as usize;
        assert_eq!(of().count() as u32 + self.rig.dropped(lane), self.rig.total(lane), "records");
        let sum = |all: &mut dyn Iterator<Item = &Record>| all.map(|record| record.payload_size).sum::<u64>();
        assert_eq!(sum(&mut of().filter(|r| !refers(r))), self.word(thread, ARENA.payload_bytes), "payload");
        assert_eq!(sum(&mut of().filter(refers)), self.word(thread, ARENA.saved_bytes), "saved");
        assert_eq!(of().filter(refers).count() as u32, self.count(thread, ARENA.saved_records));
        assert_eq!(of().filter(shed).count() as u32, self.count(thread, ARENA.shed_records), "shed");
        let carries = |record: &&Record| record.payload_size > 0 && !refers(record);
        let (carrying, published) = (of().filter(carries).count() as u64, self.word(thread, ARENA.published));
        assert!(published == carrying || (self.recovered && published < carrying), "{published} published");
    }

    /// Whether the device asks for a full stop.
    pub(crate) fn is_asked(&self) -> bool {
        let words = self.layout.queue.backpressure;
        [4, 12].into_iter().any(|at| self.rig.word(words + at).load(Relaxed) != 0)
    }

    /// Lets go of a freeze as the reference's host does, once everything is saved.
    pub(crate) fn reference_tick(&mut self) {
        let words = self.layout.queue.backpressure;
        let [rq, rq_asked, fq, fq_asked] = [0, 4, 8, 12].map(|at| self.rig.word(words + at));
        for (freeze, asked) in [(rq, rq_asked), (fq, fq_asked)] {
            if asked.load(Relaxed) != 0 {
                freeze.store(1, Release);
                asked.store(0, Release);
            }
        }
        self.finish(false);
        let words = self.layout.queue.backpressure;
        for at in [0, 8] {
            self.rig.word(words + at).store(0, Release);
        }
    }
}

/// A tensor in memory of its own.
pub(crate) struct Tensor {
    pub(crate) memory: Memory,
    pub(crate) info: Info,
    pub(crate) len: usize,
}

impl Tensor {
    /// A view of random bytes.
    pub(crate) fn new(
        random: &mut SmallRng,
        dtype: DataType,
        shapes: &[u32],
        strides: &[u32],
        start: u64,
    ) -> Tensor {
        let last: u64 =
            shapes.iter().zip(strides).map(|(n, s)| u64::from(n.max(&1) - 1) * u64::from(*s)).sum();
        let len = ((start + last + 1) * dtype.bytes()) as usize;
        let mut info = Info {
            dtype: dtype as u8,
            ndims: shapes.len() as u8,
            kind: Kind::Tensor as u8,
            start_offset: start,
            func_ids: [7, -1, -1],
            func_count: 1,
            ..Info::default()
        };
        info.shapes[..shapes.len()].copy_from_slice(shapes);
        info.strides[..strides.len()].copy_from_slice(strides);
        // At an odd address now and then: nobody promises that a buffer is aligned.
        let shift = random.random_range(0..3) % 2;
        let memory = Memory::new(len + 8);
        info.buffer_addr = memory.addr(shift).0;
        let tensor = Tensor { memory, info, len };
        tensor.scramble(random);
        tensor
    }

    /// Its description, for `..tensor.info()` in closures: there, rustc 1.95 chokes on `..tensor.info`.
    pub(crate) fn info(&self) -> Info {
        self.info
    }

    /// As a runtime makes a fresh one: rows behind each other.
    pub(crate) fn dense(random: &mut SmallRng, dtype: DataType, shapes: &[u32]) -> Tensor {
        let mut strides = vec![1; shapes.len()];
        for at in (1..shapes.len()).rev() {
            strides[at - 1] = strides[at] * shapes[at];
        }
        Tensor::new(random, dtype, shapes, &strides, 0)
    }

    /// A view like those that people make: transposed, sliced, stepped, with dimensions of one or no element.
    pub(crate) fn random(random: &mut SmallRng, most: u32) -> Tensor {
        Tensor::random_of(random, most, 0..=usize::MAX)
    }

    /// The same, with so many logical bytes.
    pub(crate) fn random_of(random: &mut SmallRng, most: u32, bytes: RangeInclusive<usize>) -> Tensor {
        let (dtype, shapes) = loop {
            let dtype = DataType::ALL[random.random_range(0..15)];
            let ndims = random.random_range(0..=5);
            let shapes: Vec<u32> = (0..ndims)
                .map(|_| match random.random_range(0..20) {
                    0 => 0,
                    1..4 => 1,
                    _ => random.random_range(1..=most),
                })
                .collect();
            let count: usize = shapes.iter().map(|n| *n as usize).product();
            if bytes.contains(&(count * dtype.bytes() as usize)) {
                break (dtype, shapes);
            }
        };
        let ndims = shapes.len();
        let mut order: Vec<usize> = (0..ndims).collect();
        if random.random() {
            order.shuffle(random);
        }
        let mut strides = vec![0; ndims];
        let mut next = 1;
        let (stepped, sliced) = (random.random_range(0..3) == 0, random.random());
        for dim in order.into_iter().rev() {
            let step = if stepped { random.random_range(1..4) } else { 1 };
            let more = if sliced { random.random_range(0..3) } else { 0 };
            strides[dim] = next * step;
            next *= step * shapes[dim].max(1) + more;
        }
        let start = if random.random() { random.random_range(0..50) } else { 0 };
        Tensor::new(random, dtype, &shapes, &strides, start)
    }

    pub(crate) fn scramble(&self, random: &mut SmallRng) {
        // Again and again in an interpreter; a prime, so that no row of any view looks like another.
        let mut bytes = vec![0; (self.len + 8).min(scaled(u32::MAX, 251) as usize)];
        random.fill(&mut bytes[..]);
        for at in (0..self.len + 8).step_by(bytes.len()) {
            self.memory.write(at, &bytes[..bytes.len().min(self.len + 8 - at)]);
        }
    }

    /// Writes a byte of the memory.
    pub(crate) fn poke(&self, at: usize, byte: u8) {
        // SAFETY: atomics, and nobody else writes.
        unsafe { self.memory.at::<std::sync::atomic::AtomicU8>(at) }.store(byte, Relaxed);
    }

    /// What the payload has to be: element by element, as the indices say.
    pub(crate) fn oracle(&self) -> Vec<u8> {
        let info = &self.info;
        let size = DataType::bytes_of(info.dtype) as usize;
        let shift = (DeviceAddr(info.buffer_addr).0 - self.memory.addr(0).0) as usize;
        let memory = self.memory.bytes(0..self.len + 8);
        let shapes = &info.shapes[..info.ndims as usize];
        let mut bytes = Vec::new();
        let first = shift + info.start_offset as usize * size;
        walk(&memory, first, size, shapes, &info.strides, &mut bytes);
        bytes
    }
}

/// All elements of a view, one dimension within the other.
fn walk(memory: &[u8], at: usize, size: usize, shapes: &[u32], strides: &[u32], bytes: &mut Vec<u8>) {
    let ([n, shapes @ ..], [stride, strides @ ..]) = (shapes, strides) else {
        return bytes.extend_from_slice(&memory[at..at + size]);
    };
    if shapes.is_empty() && *stride == 1 {
        return bytes.extend_from_slice(&memory[at..at + *n as usize * size]);
    }
    for i in 0..*n as usize {
        walk(memory, at + i * *stride as usize * size, size, shapes, strides, bytes);
    }
}

/// A scalar.
pub(crate) fn scalar(task: u64, index: u32, value: u64) -> Info {
    Info {
        task_id: task,
        arg_index: index,
        kind: Kind::Scalar as u8,
        dtype: DataType::Uint64 as u8,
        scalar_value: value,
        func_ids: [1, 2, -1],
        func_count: 2,
        ..Info::default()
    }
}

/// Records `info` as `thread`.
pub(crate) fn record<C: Clock>(dump: &Dump<C>, thread: u32, info: &Info) -> bool {
    // SAFETY: in these tests each thread number has one caller, and the tensors live.
    unsafe { dump.record(thread, info) }
}

pub(crate) fn flush<C: Clock>(dump: &Dump<C>, thread: u32) {
    // SAFETY: in these tests each thread number has one caller.
    unsafe { dump.flush(thread) }
}
