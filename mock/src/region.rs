//! A chip-swimlane region and its buffers, in host memory.

use crate::rows::LaneKey;
use dfx_collector::abi::layout::{BufferLayout, SwimlaneLayout};
use dfx_collector::abi::swimlane::{BufferKind, Level, Pool, ReadyEntry};
use dfx_collector::abi::{BackpressureHeader, DeviceAddr, Geometry, peer};
use dfx_collector::stall::Budget;
use dfx_collector::swimlane::engine::{PoolMem, QueuePtr};
use dfx_collector::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Zeroed memory with an address that a device could have been given. Reached through atomics and raw pointers only.
#[derive(Debug)]
pub struct Memory {
    at: *mut u8,
    layout: Layout,
}

// SAFETY: the memory is only a place; whoever reads or writes it follows the protocol under test.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` of zeroes, 256-byte aligned.
    pub fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(256), 256).expect("a size that fits");
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            handle_alloc_error(layout);
        }
        Memory { at, layout }
    }

    /// The address of byte `offset`.
    pub fn addr(&self, offset: usize) -> DeviceAddr {
        assert!(offset <= self.layout.size());
        DeviceAddr(self.at as u64).offset(offset as u64)
    }

    /// The shared `T` at `offset`.
    ///
    /// # Safety
    /// `T` consists of atomics (or is not written while the reference lives) and any bytes are a valid one.
    pub unsafe fn at<T>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= self.layout.size() && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: in bounds and aligned, and the caller vouched for the rest.
        unsafe { &*self.at.add(offset).cast::<T>() }
    }

    /// A copy of `range`; nobody may be writing.
    pub fn bytes(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        assert!(range.end <= self.layout.size());
        // SAFETY: in bounds; the test has no writer running.
        unsafe { std::slice::from_raw_parts(self.at.add(range.start), range.len()) }.to_vec()
    }

    /// Zeroes `range`; nobody may be using it.
    pub fn zero(&self, range: std::ops::Range<usize>) {
        self.fill(range, 0);
    }

    /// Makes every byte of `range` a `byte`; nobody may be using it.
    pub fn fill(&self, range: std::ops::Range<usize>, byte: u8) {
        assert!(range.start <= range.end && range.end <= self.layout.size());
        // SAFETY: in bounds; the range is the host's.
        unsafe { self.at.add(range.start).write_bytes(byte, range.len()) }
    }

    /// Writes `bytes` at `offset`; nobody may be using that place.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(self.layout.size().checked_sub(bytes.len()).is_some_and(|last| offset <= last));
        // SAFETY: in bounds; the place is the host's, and no borrowed slice lies in it.
        unsafe { self.at.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at, self.layout) }
    }
}

/// How a region is made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The platform.
    pub geometry: &'static Geometry,
    /// What is recorded.
    pub level: Level,
    /// Cores.
    pub cores: u32,
    /// Scheduler threads.
    pub threads: u32,
    /// Buffers per core lane.
    pub core_buffers: u32,
    /// Buffers per task lane.
    pub task_buffers: u32,
    /// Buffers per phase lane.
    pub phase_buffers: u32,
    /// The stall budget granted; `None`: the host is the reference's and says nothing.
    pub budget: Option<Budget>,
}

impl Shape {
    /// a2a3 at `level` with `cores` cores, one thread, small pools and a short budget.
    pub const fn small(level: Level, cores: u32) -> Shape {
        Shape {
            geometry: &Geometry::A2A3,
            level,
            cores,
            threads: 1,
            core_buffers: 3,
            task_buffers: 3,
            phase_buffers: 2,
            budget: Some(Budget { wait_ms: 10, total_ms: 1000 }),
        }
    }
}

/// A region, its rotation table and its buffers.
#[derive(Debug)]
pub struct Region {
    /// How it was made.
    pub shape: Shape,
    /// Where things lie.
    pub layout: SwimlaneLayout,
    /// The region's bytes.
    pub memory: Memory,
    /// The rotation table.
    pub table: Memory,
    /// Each lane's buffers.
    pub buffers: Vec<(LaneKey, Vec<Memory>)>,
}

impl Region {
    /// Makes a region as a host does; no buffer is offered yet.
    pub fn new(shape: Shape) -> Region {
        let layout = SwimlaneLayout::of(shape.geometry.platform, shape.cores);
        let mut lanes = Vec::new();
        for core in 0..shape.cores {
            lanes.push(((BufferKind::AicoreTask, core), shape.core_buffers));
            if shape.level >= Level::AicpuTiming {
                lanes.push(((BufferKind::AicpuTask, core), shape.task_buffers));
            }
        }
        if shape.level >= Level::SchedPhases {
            lanes.extend(
                (0..shape.threads).map(|thread| ((BufferKind::AicpuSchedPhase, thread), shape.phase_buffers)),
            );
        }
        if shape.level >= Level::OrchPhases {
            lanes.push(((BufferKind::AicpuOrchPhase, 0), shape.phase_buffers));
        }
        let buffers = lanes.into_iter().map(|(lane, count)| {
            let bytes = BufferLayout::swimlane(lane.0).bytes;
            (lane, (0..count).map(|_| Memory::new(bytes)).collect())
        });
        let region = Region {
            buffers: buffers.collect(),
            memory: Memory::new(layout.bytes()),
            table: Memory::new(8 * shape.cores as usize),
            layout,
            shape,
        };
        region.format();
        region
    }

    /// Makes this the region of `shape`, which asks for no more of anything than the one that it was made with. For
    /// tests that need thousands of regions.
    pub fn reshape(&mut self, shape: Shape) {
        self.layout = SwimlaneLayout::of(shape.geometry.platform, shape.cores);
        self.shape = shape;
        self.format();
        for (_, buffers) in
            self.buffers.iter().filter(|(lane, _)| lane.0 == BufferKind::AicoreTask && self.has(*lane))
        {
            for buffer in buffers {
                buffer.zero(0..BufferLayout::swimlane(BufferKind::AicoreTask).bytes);
            }
        }
    }

    /// Whether this shape has such a lane.
    pub fn has(&self, lane: LaneKey) -> bool {
        let shape = &self.shape;
        match lane.0 {
            BufferKind::AicoreTask => lane.1 < shape.cores,
            BufferKind::AicpuTask => lane.1 < shape.cores && shape.level >= Level::AicpuTiming,
            BufferKind::AicpuSchedPhase => lane.1 < shape.threads && shape.level >= Level::SchedPhases,
            BufferKind::AicpuOrchPhase => shape.level >= Level::OrchPhases,
        }
    }

    /// Buffers of a lane of `kind` in this shape.
    pub fn pool_size(&self, kind: BufferKind) -> usize {
        let count = match kind {
            BufferKind::AicoreTask => self.shape.core_buffers,
            BufferKind::AicpuTask => self.shape.task_buffers,
            BufferKind::AicpuSchedPhase | BufferKind::AicpuOrchPhase => self.shape.phase_buffers,
        };
        count as usize
    }

    /// Brings the region back to what a host hands to a device; no buffer is offered.
    pub fn format(&self) {
        self.memory.zero(0..self.layout.bytes());
        self.table.zero(0..8 * self.shape.cores as usize);
        self.word(self.layout.num_cores).store(self.shape.cores, Relaxed);
        self.word(self.layout.level).store(self.shape.level as u32, Relaxed);
        if let Some(budget) = self.shape.budget {
            self.word(self.layout.stall_budget).store(budget.to_word(), Relaxed);
            self.word(self.layout.queue.peer).store(peer::with_host(0), Relaxed);
        }
    }

    /// The region's address.
    pub fn base(&self) -> DeviceAddr {
        self.memory.addr(0)
    }

    /// The word at `offset`.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: an atomic.
        unsafe { self.memory.at(offset) }
    }

    /// The rotation table's entry of `core`.
    pub fn table_entry(&self, core: u32) -> *const AtomicU64 {
        // SAFETY: an atomic.
        unsafe { self.table.at::<AtomicU64>(8 * core as usize) }
    }

    /// The shared state of `lane`.
    pub fn pool(&self, lane: LaneKey) -> &Pool {
        // SAFETY: atomics.
        unsafe { self.memory.at(self.layout.pool(lane.0, lane.1)) }
    }

    /// The shared state of `lane` as the engine sees it.
    pub fn lane<R, const N: usize>(&self, lane: LaneKey) -> PoolMem<R, N> {
        // SAFETY: the pool lies in the region; whoever names its buffers names them by their kind.
        unsafe { PoolMem::new(self.pool(lane)) }
    }

    /// The ready queue of `thread` as the engine sees it.
    pub fn queue(&self, thread: u32) -> QueuePtr {
        let queue = self.layout.queue;
        // SAFETY: all of it lies in the header.
        unsafe {
            QueuePtr::new(
                self.memory.addr(queue.entry(thread, 0)).0 as *const ReadyEntry,
                queue.entries,
                self.word(queue.heads + 4 * thread as usize),
                self.word(queue.tails + 4 * thread as usize),
                self.backpressure(),
            )
        }
    }

    /// The freeze.
    pub fn backpressure(&self) -> &BackpressureHeader {
        // SAFETY: atomics.
        unsafe { self.memory.at(self.layout.queue.backpressure) }
    }
}
