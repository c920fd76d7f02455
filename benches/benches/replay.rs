//! dep_gen's replay of 1,000,000 submits of 4 tensors and 3 explicit dependencies each: from raw slots to compact
//! submits, from those to edges, and on to text. Bars: replay under 3 s, the whole process under 1 GiB.
#![allow(missing_docs)] // criterion's macros

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dfx_collector::abi::dep_gen::{RECORDS, SubmitRecord};
use dfx_collector::abi::task_id;
use dfx_collector::abi::tensor::{BufferHandle, DataType, TaskId, Tensor, TensorArgType};
use dfx_host_drain::deps::{DeviceCount, SubmitStore, Submits, Variant, write};
use std::convert::Infallible;
use std::io::sink;
use std::time::{Duration, Instant};
use zerocopy::FromZeros;

const SUBMITS: u64 = 1_000_000;
/// A tile in rows and columns.
const TILE: u64 = 16;
/// Tiles of an array in rows and columns.
const GRID: u64 = 1024;

/// A tile of the array at `addr`.
fn tile(addr: u64, number: u64) -> Tensor {
    let cols = GRID * TILE;
    let (row, col) = (number / GRID % GRID * TILE, number % GRID * TILE);
    Tensor {
        buffer: BufferHandle { addr, size: cols * cols * 4 },
        owner_task_id: TaskId { raw: task_id::INVALID },
        start_offset: row * cols + col,
        ndims: 2,
        dtype: DataType::Float32 as u8,
        shapes: [TILE as u32, TILE as u32, 0, 0, 0],
        extent_elem_cache: (TILE - 1) * cols + TILE,
        strides: [cols as u32, 1, 0, 0, 0],
        ..Tensor::default()
    }
}

/// A tensor of its own buffer, made by task `owner`.
fn made(owner: u64) -> Tensor {
    Tensor {
        buffer: BufferHandle { addr: 1 << 50 | owner << 12, size: TILE * TILE * 4 },
        owner_task_id: TaskId { raw: owner },
        ndims: 2,
        is_contiguous: 1,
        shapes: [TILE as u32, TILE as u32, 0, 0, 0],
        strides: [TILE as u32, 1, 0, 0, 0],
        ..Tensor::default()
    }
}

type Args = [(TensorArgType, Tensor); 4];
type ArgsOf = fn(u64) -> Args;
use TensorArgType::{Inout, Input, Output, OutputExisting};

/// Layers: a weight, the result of an earlier task, an accumulator on one of 4,096 buffers, a new result.
fn layers(task: u64) -> Args {
    let (weights, accumulator) = (tile(4096, task), tile((1 << 40) + task % 4096 * 65536, 0));
    [
        (Input, weights),
        (Input, made(task.saturating_sub(4))),
        (Inout, accumulator),
        (Output, Tensor::default()),
    ]
}

/// Everything on one array: two tiles read, one updated, one written; each tile is updated once.
fn one_buffer(task: u64) -> Args {
    let number = |step: u64| tile(4096, task.wrapping_mul(step));
    [(Input, number(7)), (Input, number(11)), (Inout, number(5)), (OutputExisting, tile(8192, task * 3))]
}

/// Each submit updates all of the same four buffers.
fn chain(_: u64) -> Args {
    [1, 2, 3, 4].map(|buffer| (Inout, tile(buffer << 30, 0)))
}

/// The store of a program, and how long the raw slots took to get in.
fn captured(args: ArgsOf) -> (SubmitStore, Duration) {
    let mut store = SubmitStore::new();
    let mut buffer = vec![SubmitRecord::new_zeroed(); RECORDS];
    let mut pushed = Duration::ZERO;
    let numbers: Vec<u64> = (0..SUBMITS).collect();
    for (seq, tasks) in (0..).zip(numbers.chunks(RECORDS)) {
        for (slot, &task) in buffer.iter_mut().zip(tasks) {
            slot.task_id = task;
            slot.tensor_count = 4;
            slot.explicit_dep_count = 3;
            slot.explicit_deps[..3].copy_from_slice(&[1, 2, 9].map(|back| task.wrapping_sub(back)));
            for (i, (arg_type, tensor)) in args(task).into_iter().enumerate() {
                slot.arg_types[i] = arg_type as u8;
                slot.tensors[i] = tensor;
            }
        }
        let started = Instant::now();
        store.push_buffer(seq, &buffer[..tasks.len()]);
        pushed += started.elapsed();
    }
    (store, pushed)
}

fn edges(submits: &Submits) -> u64 {
    let mut edges = 0;
    let Ok(()) = submits.replay::<Infallible>(|_| {
        edges += 1;
        Ok(())
    });
    edges
}

/// The process's peak resident memory.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("unknown".into(), |line| line.trim().into())
}

fn replay(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay");
    group.sample_size(10).throughput(Throughput::Elements(SUBMITS));
    let programs: [(&str, ArgsOf); 3] = [("layers", layers), ("one buffer", one_buffer), ("chain", chain)];
    for (name, args) in programs {
        let (store, pushed) = captured(args);
        let count = DeviceCount { submits: SUBMITS, ..DeviceCount::default() };
        let submits = store.finish(count).expect("a whole capture");
        let edges_expected = edges(submits);
        assert!(edges_expected >= 3 * SUBMITS, "{edges_expected}");
        println!("{name}: {edges_expected} edges; capture {pushed:.2?}; peak {}", peak());
        group.bench_function(name, |bench| bench.iter(|| assert_eq!(edges(submits), edges_expected)));
        if name == "layers" {
            group.bench_function("layers, to text", |bench| {
                bench.iter(|| write(sink(), submits, Variant::Device).expect("a sink takes all").edges);
            });
        }
    }
}

criterion_group!(benches, replay);
criterion_main!(benches);
