//! Tests of the program's memory.

use super::*;
use crate::program::{Kernel, TaskIdRule};
use dfx_collector::abi::tensor::DataType;
use std::time::Duration;

fn tensor(buffer: u32, dtype: DataType, shape: &[u32], strides: &[u32], start_offset: u64) -> TensorDef {
    TensorDef {
        name: format!("t{buffer}+{start_offset}"),
        buffer: BufferId(buffer),
        dtype,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        start_offset,
        version: 0,
        manual_dep: false,
    }
}

fn program(buffers: &[(u64, Init, Option<SubmitId>)], tensors: Vec<TensorDef>) -> Program {
    let buffer = |(bytes, init, creator): &(u64, Init, Option<SubmitId>)| BufferDef {
        bytes: *bytes,
        init: init.clone(),
        creator: *creator,
    };
    Program {
        name: "test".into(),
        buffers: buffers.iter().map(buffer).collect(),
        tensors,
        kernels: Vec::new(),
        ops: Vec::new(),
        pace: false,
        ring_heap: crate::program::RING_HEAP,
        verify: None,
        marks: Vec::new(),
    }
}

use crate::program::SubmitId;

fn submit(args: Vec<Arg>, block_num: u32) -> Submit {
    Submit {
        marks: crate::marks::ArgMarks::NONE,
        id: SubmitId(0),
        task_id: TaskIdRule::Next,
        kernels: [None, Some(KernelId(0)), None],
        block_num,
        args,
        deps: Vec::new(),
        alloc: false,
        predicate: true,
        early_dispatch: false,
        sync_start: false,
        async_after: None,
        nodes: Vec::new(),
        duration: None,
    }
}

fn f32_bytes(values: &[f32]) -> Init {
    Init::Bytes(values.iter().flat_map(|v| v.to_le_bytes()).collect())
}

#[test]
fn views_see_their_elements_wherever_the_strides_put_them() {
    let values: Vec<f32> = (0..24u8).map(f32::from).collect();
    let tensors = vec![
        tensor(0, DataType::Float32, &[4, 6], &[6, 1], 0),
        tensor(0, DataType::Float32, &[2, 3], &[12, 2], 7),
        tensor(0, DataType::Float32, &[], &[], 5),
        tensor(0, DataType::Float32, &[3, 0], &[6, 1], 0),
    ];
    let program = program(&[(96, f32_bytes(&values), None)], tensors);
    let memory = ProgramMemory::new(&program, Arc::new(HeapAlloc::default())).unwrap();
    let view = |i| memory.view(&program, TensorId(i));
    assert_eq!(view(0).read_to_vec_f32(), values);
    assert!(view(0).is_contiguous() && !view(1).is_contiguous());
    assert_eq!(view(1).read_to_vec_f32(), [7.0, 9.0, 11.0, 19.0, 21.0, 23.0]);
    assert_eq!(view(1).at_f32(&[1, 1]), 21.0);
    assert_eq!(view(2).read_to_vec_f32(), [5.0]);
    assert_eq!((view(3).len(), view(3).read_to_vec_f32()), (0, vec![]));
    view(1).write_from_f32(&[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    assert_eq!((view(0).f32(9), view(0).f32(23), view(0).f32(8)), (-2.0, -6.0, 8.0));
    view(1).set_at_f32(&[0, 0], 70.0);
    let mut seen = Vec::new();
    view(1).for_each_in(2..5, |i, value| seen.push((i, value)));
    assert_eq!(seen, [(2, -3.0), (3, -4.0), (4, -5.0)]);
    assert_eq!(view(0).f32(7), 70.0);
}

#[test]
fn a_buffer_with_narrow_views_is_reached_in_narrow_cells_with_the_same_values() {
    let tensors = vec![
        tensor(0, DataType::Float32, &[2], &[1], 0),
        tensor(0, DataType::Uint8, &[8], &[1], 0),
        tensor(0, DataType::Int64, &[1], &[1], 0),
        tensor(0, DataType::Bfloat16, &[4], &[1], 0),
    ];
    let program = program(&[(8, f32_bytes(&[1.5, -2.0]), None)], tensors);
    let memory = ProgramMemory::new(&program, Arc::new(HeapAlloc::default())).unwrap();
    let view = |i| memory.view(&program, TensorId(i));
    assert_eq!(view(0).read_to_vec_f32(), [1.5, -2.0]);
    assert_eq!(view(3).bits(1), 0x3FC0);
    view(1).set_bits(7, 0x40);
    assert_eq!(view(0).f32(1), 2.0);
    view(2).set_bits(0, u64::from(7f32.to_bits()) << 32);
    assert_eq!(view(0).read_to_vec_f32(), [0.0, 7.0]);
    view(0).write_from_f32(&[3.0, 4.0]);
    assert_eq!(view(1).bits(3), 0x40);
}

#[test]
fn blocks_come_when_needed_and_all_are_given_back() {
    let alloc = Arc::new(HeapAlloc::default());
    let tensors = vec![tensor(1, DataType::Int32, &[4], &[1], 0)];
    let buffers =
        [(0, Init::Zero, None), (16, Init::Zero, Some(SubmitId(0))), (16, Init::Zero, Some(SubmitId(1)))];
    let program = program(&buffers, tensors);
    let memory = ProgramMemory::new(&program, alloc.clone()).unwrap();
    assert_eq!(alloc.live_blocks(), 1);
    memory.view(&program, TensorId(0)).set_i32(3, -9);
    assert_eq!(alloc.live_blocks(), 2);
    let address = memory.address(BufferId(1));
    assert_eq!((address % BLOCK_ALIGN, memory.bytes(BufferId(1))), (0, 16));
    assert_eq!(address, memory.ensure(BufferId(1)).unwrap());
    assert_eq!(memory.view(&program, TensorId(0)).i32(3), -9);
    drop(memory);
    assert_eq!(alloc.live_blocks(), 0);
}

#[test]
fn blocks_of_every_size_are_zero_and_whole_with_huge_pages_or_without() {
    let alloc = HeapAlloc::default();
    for bytes in [1, 4096, (2 << 20) + 1, (4 << 20) - 1, 4 << 20, (6 << 20) + 3, 33 << 20] {
        for align in [64, 4096] {
            let at = alloc.alloc(bytes, align).unwrap();
            assert_eq!(at % align, 0);
            // SAFETY: a block of so many bytes, of which nobody else knows.
            let block = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, bytes as usize) };
            assert!(block.iter().all(|&byte| byte == 0), "{bytes} bytes aligned to {align}");
            block.fill(1);
            // SAFETY: it is out, and its last use is above.
            unsafe { alloc.free(at, bytes) };
        }
    }
    assert_eq!(alloc.live_blocks(), 0);
}

struct Empty;

// SAFETY: it never gives a block.
unsafe impl DeviceAlloc for Empty {
    fn alloc(&self, bytes: u64, _align: u64) -> Result<u64, String> {
        Err(format!("no {bytes} bytes"))
    }
    unsafe fn free(&self, _addr: u64, _bytes: u64) {}
}

#[test]
fn memory_that_cannot_be_had_is_reported_and_reads_as_zero() {
    let tensors = vec![tensor(0, DataType::Float32, &[4], &[1], 0)];
    let created = program(&[(16, Init::Zero, Some(SubmitId(0)))], tensors);
    let memory = ProgramMemory::new(&created, Arc::new(Empty)).unwrap();
    let view = memory.view(&created, TensorId(0));
    view.write_from_f32(&[1.0; 4]);
    view.set_f32(0, 1.0);
    assert_eq!((view.read_to_vec_f32(), view.f32(0)), (vec![0.0; 4], 0.0));
    assert_eq!(memory.address(BufferId(0)), 0);
    assert_eq!(memory.verify(&created), Err("buffer 0 of the program: no 16 bytes".into()));
    let made_by_host = program(&[(16, Init::Zero, None)], vec![]);
    assert!(ProgramMemory::new(&made_by_host, Arc::new(Empty)).is_err());
}

#[test]
fn kernels_of_all_blocks_share_the_work_from_many_threads() {
    let mut program =
        program(&[(4000, Init::Zero, None)], vec![tensor(0, DataType::Float32, &[1000], &[1], 0)]);
    program.kernels.push(Kernel {
        name: "add".into(),
        duration: Duration::ZERO,
        run: Arc::new(|ctx: &KernelCtx<'_>| {
            let (x, by) = (ctx.tensor(0), ctx.scalar_f32(0));
            let range = ctx.share(x.len());
            x.fill_in(range, |i| x.f32(i) + by * i as f32);
        }),
    });
    let args = vec![Arg::InOut(TensorId(0)), Arg::Scalar(2f32.to_bits().into(), DataType::Float32)];
    let task = submit(args, 7);
    let memory = ProgramMemory::new(&program, Arc::new(HeapAlloc::default())).unwrap();
    std::thread::scope(|threads| {
        for block in 0..7 {
            let (memory, program, task) = (&memory, &program, &task);
            threads.spawn(move || memory.run_kernel(program, task, 1, block));
        }
    });
    memory.run_kernel(&program, &task, 0, 0);
    let expected: Vec<f32> = (0..1000u16).map(|i| 2.0 * f32::from(i)).collect();
    assert_eq!(memory.view(&program, TensorId(0)).read_to_vec_f32(), expected);
}

#[test]
fn shares_are_disjoint_and_cover_all() {
    for (n, parts) in [(0, 3), (5, 1), (5, 7), (1000, 24)] {
        let all: Vec<usize> = (0..parts).flat_map(|part| share(n, part, parts)).collect();
        assert_eq!(all, (0..n).collect::<Vec<_>>());
    }
}

#[test]
#[should_panic(expected = "index [4, 0] of t0+0")]
fn an_index_outside_the_shape_is_refused() {
    let program = program(&[(96, Init::Zero, None)], vec![tensor(0, DataType::Float32, &[4, 6], &[6, 1], 0)]);
    let memory = ProgramMemory::new(&program, Arc::new(HeapAlloc::default())).unwrap();
    memory.view(&program, TensorId(0)).at_f32(&[4, 0]);
}
