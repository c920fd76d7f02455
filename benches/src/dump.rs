//! A mock host for one thread's args dump, and arguments to record.

use crate::lanes;
use dfx_collector::abi::args_dump::{Info, Kind, Level, MAGIC};
use dfx_collector::abi::layout::{ARENA, ARGS_DUMP_LANE, ArgsDumpLayout, BufferLayout};
use dfx_collector::abi::tensor::DataType;
use dfx_collector::abi::{DeviceAddr, Geometry, Platform, peer};
use dfx_mock::region::Memory;
use std::sync::atomic::Ordering::Relaxed;

/// A region with one thread and its arena, and a host that saves everything at once.
pub struct Host {
    lanes: lanes::Host,
    state: usize,
    _arena: Memory,
}

impl Host {
    /// What the region is made for.
    pub const GEOMETRY: Geometry = Geometry::A2A3;

    /// A region at `level`, its arena of `arena` bytes written once, as a board's is.
    pub fn new(level: Level, arena: usize) -> Host {
        let layout = ArgsDumpLayout::of(Platform::A2a3, 1);
        let (state, buffer) = (layout.lane(0), BufferLayout::args_dump());
        let host = Host {
            lanes: lanes::Host::new(layout.bytes(), layout.queue, state, ARGS_DUMP_LANE, buffer),
            state,
            _arena: Memory::new(arena),
        };
        let (lanes, memory) = (&host.lanes, host._arena.addr(0));
        for at in (0..arena).step_by(4096) {
            // SAFETY: inside the arena, which nobody else has.
            unsafe { (memory.offset(at as u64).0 as *mut u8).write_volatile(0) };
        }
        lanes.word(layout.magic).store(MAGIC, Relaxed);
        lanes.word(layout.level).store(level as u32, Relaxed);
        lanes.word(layout.num_threads).store(1, Relaxed);
        lanes.word(layout.queue.peer).store(peer::with_host(0), Relaxed);
        lanes.wide(state + ARENA.base).store(memory.0, Relaxed);
        lanes.wide(state + ARENA.size).store(arena as u64, Relaxed);
        host
    }

    /// Where the region is.
    pub fn base(&self) -> DeviceAddr {
        self.lanes.region.addr(0)
    }

    /// Takes what was published, gives its buffers back, and acknowledges all payload that was written.
    pub fn step(&self) {
        self.lanes.step();
        let written = self.lanes.wide(self.state + ARENA.write_offset).load(Relaxed);
        self.lanes.wide(self.state + ARENA.acknowledged).store(written, Relaxed);
    }
}

/// A scalar of a task with two kernels.
pub fn scalar() -> Info {
    Info {
        kind: Kind::Scalar as u8,
        dtype: DataType::Int64 as u8,
        arg_index: 4,
        scalar_value: 7,
        func_ids: [3, 4, -1],
        func_count: 2,
        ..Info::default()
    }
}

/// A tensor of f32 in `memory` with the `strides`, in elements.
fn tensor<const N: usize>(memory: &[u8], shape: [u32; N], strides: [u32; N]) -> Info {
    let last: u32 = shape.iter().zip(strides).map(|(n, stride)| (n - 1) * stride).sum();
    assert!((last as usize + 1) * 4 <= memory.len());
    let mut info = Info {
        kind: Kind::Tensor as u8,
        dtype: DataType::Float32 as u8,
        ndims: N as u8,
        buffer_addr: memory.as_ptr().expose_provenance() as u64,
        func_ids: [3, -1, -1],
        func_count: 1,
        ..Info::default()
    };
    info.shapes[..N].copy_from_slice(&shape);
    info.strides[..N].copy_from_slice(&strides);
    info
}

/// A tensor of f32 without holes.
pub fn dense<const N: usize>(memory: &[u8], shape: [u32; N]) -> Info {
    let strides = std::array::from_fn(|dim| shape[dim + 1..].iter().product());
    tensor(memory, shape, strides)
}

/// The left half of the columns of a tensor of f32 that is twice as wide: one run per row.
pub fn rows(memory: &[u8], [lines, columns]: [u32; 2]) -> Info {
    tensor(memory, [lines, columns], [2 * columns, 1])
}

/// 128 × 128 f32 read the other way round.
pub fn transposed(memory: &[u8]) -> Info {
    tensor(memory, [128, 128], [1, 128])
}
