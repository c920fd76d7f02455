//! Loom cells in the place of shared memory: the engine of `dfx-collector` and the host of `dfx-mock` run over them
//! unchanged.
//!
//! What is not atomic in real memory is a loom `UnsafeCell` here, so that an access without a happens-before fails. The
//! atomic words of a ready entry, a free-queue slot and a buffer's count are guarded by such a cell too: they are
//! relaxed, and only ownership keeps the two sides apart.
#![cfg(loom)]

use dfx_collector::abi::DeviceAddr;
use dfx_collector::clock::Clock;
use dfx_collector::lane::{EntryWords, HeadMem, LaneMem, QueueMem};
use dfx_collector::swimlane::engine::CoreMem;
use dfx_collector::sync::{Ordering, Word};
use loom::cell::UnsafeCell;
use std::cell::Cell;
use std::sync::Arc;

macro_rules! word {
    ($name:ident, $value:ty, $atomic:ty) => {
        /// A shared word.
        #[derive(Debug, Default)]
        pub struct $name($atomic);
        impl Word<$value> for $name {
            fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }
            fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order)
            }
        }
    };
}
word!(W32, u32, loom::sync::atomic::AtomicU32);
word!(W64, u64, loom::sync::atomic::AtomicU64);

/// Something that one side at a time may touch.
#[derive(Debug, Default)]
pub struct Guard(UnsafeCell<()>);

impl Guard {
    fn touch(&self) {
        self.0.with_mut(|_| ());
    }
}

/// Bytes of a modelled row.
pub const ROW: u64 = 16;

/// A buffer of `CAP` rows.
#[derive(Debug)]
pub struct Buffer<const CAP: usize> {
    rows: [UnsafeCell<u32>; CAP],
    count: W32,
    owner: Guard,
}

/// A lane with `SLOTS` free-queue slots.
#[derive(Debug)]
pub struct LaneCells<const SLOTS: usize, const CAP: usize> {
    ptr: W64,
    seq: W32,
    total: W32,
    dropped: W32,
    stash_ptr: W64,
    stash_seq: W32,
    slots: [(W64, Guard); SLOTS],
    free_head: W32,
    free_tail: W32,
    buffers: Vec<Buffer<CAP>>,
}

/// A lane as the engine sees it.
#[derive(Debug)]
pub struct Lane<const SLOTS: usize, const CAP: usize>(Arc<LaneCells<SLOTS, CAP>>);

impl<const SLOTS: usize, const CAP: usize> Clone for Lane<SLOTS, CAP> {
    fn clone(&self) -> Self {
        Lane(Arc::clone(&self.0))
    }
}

impl<const SLOTS: usize, const CAP: usize> Lane<SLOTS, CAP> {
    /// A lane with `buffers` buffers, none offered.
    pub fn new(buffers: usize) -> Self {
        let buffer = |_| Buffer {
            rows: std::array::from_fn(|_| UnsafeCell::new(0)),
            count: W32::default(),
            owner: Guard::default(),
        };
        Lane(Arc::new(LaneCells {
            ptr: W64::default(),
            seq: W32::default(),
            total: W32::default(),
            dropped: W32::default(),
            stash_ptr: W64::default(),
            stash_seq: W32::default(),
            slots: std::array::from_fn(|_| Default::default()),
            free_head: W32::default(),
            free_tail: W32::default(),
            buffers: (0..buffers).map(buffer).collect(),
        }))
    }

    /// The address of buffer `index`.
    pub fn buffer(index: usize) -> DeviceAddr {
        DeviceAddr((index as u64 + 1) << 12)
    }

    /// The index of the buffer at `at`.
    pub fn index(at: DeviceAddr) -> usize {
        (at.0 >> 12) as usize - 1
    }

    /// Writes the row at `at`.
    pub fn write(&self, at: DeviceAddr, value: u32) {
        let row = ((at.0 & 0xFFF) / ROW) as usize;
        // SAFETY: loom checks that nobody else is here.
        self.0.buffers[Self::index(at)].rows[row].with_mut(|cell| unsafe { *cell = value });
    }

    /// Reads the first `count` rows of `buffer`.
    pub fn read(&self, buffer: DeviceAddr, count: u32) -> Vec<u32> {
        let rows = &self.0.buffers[Self::index(buffer)].rows[..count as usize];
        // SAFETY: loom checks that nobody writes.
        rows.iter().map(|row| row.with(|cell| unsafe { *cell })).collect()
    }

    /// Reads all rows of `buffer` that are there, and clears them.
    pub fn take(&self, buffer: DeviceAddr) -> Vec<u32> {
        let rows = self.read(buffer, CAP as u32);
        for row in 0..CAP as u64 {
            self.write(buffer.offset(row * ROW), 0);
        }
        rows.into_iter().filter(|&row| row != 0).collect()
    }

    /// The buffer that waits for its gate, with its sequence number.
    pub fn stash(&self) -> Option<(u32, DeviceAddr)> {
        let at = DeviceAddr(self.0.stash_ptr.load(Ordering::Relaxed));
        (!at.is_null()).then(|| (self.0.stash_seq.load(Ordering::Relaxed), at))
    }

    /// The device's total and drops.
    pub fn totals(&self) -> (u32, u32) {
        (self.0.total.load(Ordering::Relaxed), self.0.dropped.load(Ordering::Relaxed))
    }
}

impl<const SLOTS: usize, const CAP: usize> LaneMem for Lane<SLOTS, CAP> {
    type U32 = W32;
    type U64 = W64;
    const SLOTS: u32 = SLOTS as u32;
    fn current_ptr(&self) -> &W64 {
        &self.0.ptr
    }
    fn current_seq(&self) -> &W32 {
        &self.0.seq
    }
    fn total(&self) -> &W32 {
        &self.0.total
    }
    fn dropped(&self) -> &W32 {
        &self.0.dropped
    }
    fn free_slot(&self, index: u32) -> &W64 {
        let (word, guard) = &self.0.slots[index as usize];
        guard.touch();
        word
    }
    fn free_head(&self) -> &W32 {
        &self.0.free_head
    }
    fn free_tail(&self) -> &W32 {
        &self.0.free_tail
    }
    fn count(&self, buffer: DeviceAddr) -> &W32 {
        let buffer = &self.0.buffers[Self::index(buffer)];
        buffer.owner.touch();
        &buffer.count
    }
    fn add_stall(&self, _ticks: u64) {}
}

impl<const SLOTS: usize, const CAP: usize> CoreMem for Lane<SLOTS, CAP> {
    const CAPACITY: u32 = CAP as u32;
    fn stash_ptr(&self) -> &W64 {
        &self.0.stash_ptr
    }
    fn stash_seq(&self) -> &W32 {
        &self.0.stash_seq
    }
}

impl<const SLOTS: usize, const CAP: usize> HeadMem for Lane<SLOTS, CAP> {
    type U32 = W32;
    type U64 = W64;
    fn current_ptr(&self) -> &W64 {
        &self.0.ptr
    }
    fn current_seq(&self) -> &W32 {
        &self.0.seq
    }
}

#[derive(Debug, Default)]
struct EntryCells {
    index: W32,
    kind: W32,
    ptr: W64,
    seq: W32,
    flags: W32,
    owner: Guard,
}

#[derive(Debug)]
struct QueueCells {
    entries: Vec<EntryCells>,
    head: W32,
    tail: W32,
    rq_contended: W32,
    rq_freeze: W32,
    fq_contended: W32,
    fq_freeze: W32,
}

/// A ready queue and the freeze.
#[derive(Clone, Debug)]
pub struct Queue(Arc<QueueCells>);

impl Queue {
    /// A queue of `entries` entries.
    pub fn new(entries: usize) -> Self {
        Queue(Arc::new(QueueCells {
            entries: (0..entries).map(|_| EntryCells::default()).collect(),
            head: W32::default(),
            tail: W32::default(),
            rq_contended: W32::default(),
            rq_freeze: W32::default(),
            fq_contended: W32::default(),
            fq_freeze: W32::default(),
        }))
    }
}

impl QueueMem for Queue {
    type U32 = W32;
    type U64 = W64;
    fn entries(&self) -> u32 {
        self.0.entries.len() as u32
    }
    fn head(&self) -> &W32 {
        &self.0.head
    }
    fn tail(&self) -> &W32 {
        &self.0.tail
    }
    fn entry(&self, index: u32) -> EntryWords<'_, W32, W64> {
        let entry = &self.0.entries[index as usize];
        entry.owner.touch();
        EntryWords {
            index: &entry.index,
            kind: &entry.kind,
            ptr: &entry.ptr,
            seq: &entry.seq,
            flags: &entry.flags,
        }
    }
    fn rq_contended(&self) -> &W32 {
        &self.0.rq_contended
    }
    fn rq_freeze(&self) -> &W32 {
        &self.0.rq_freeze
    }
    fn fq_contended(&self) -> &W32 {
        &self.0.fq_contended
    }
    fn fq_freeze(&self) -> &W32 {
        &self.0.fq_freeze
    }
}

/// A clock that moves one tick a read.
#[derive(Debug, Default)]
pub struct ModelClock(Cell<u64>);

impl Clock for ModelClock {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
    fn relax(&self) {
        loom::thread::yield_now();
    }
}

/// Explores every interleaving with at most `preemptions` preemptions.
pub fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
