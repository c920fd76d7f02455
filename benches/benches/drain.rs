//! The host path: a million AICPU task records through a session (peek, copy, recycle, check, keep), from 1 and from 72
//! lanes, over both transports; beside it a per-record queue (rtrb) that hands the same records to the same store's rows,
//! and a plain memcpy of their bytes. Filling the buffers is the device's work and is not timed.

#![allow(missing_docs)] // criterion's macros

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dfx_benches::NoClock;
use dfx_collector::abi::swimlane::{Level, TASK_RECORDS, TaskRecord};
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::swimlane::Swimlane;
use dfx_host_drain::records::TaskRow;
use dfx_host_drain::report::StreamKind;
use dfx_host_drain::{Board, DeviceEnd, DfxConfig, Drive, PoolSizes, Session, SessionSpec, TransportKind};
use dfx_sim::device::SimDevice;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RECORDS: u64 = 1_000_000;

/// Time that the host takes for `records` records of `lanes` lanes.
fn drain(transport: TransportKind, lanes: u32, records: u64) -> Duration {
    let config = DfxConfig {
        chip_swimlane: Level::AicpuTiming,
        pools: PoolSizes { task: 8, core: 2, ..PoolSizes::all(1) },
        ..DfxConfig::default()
    };
    let geometry = &Geometry::A2A3;
    let board = Board { platform: Platform::A2a3, core_is_aic: vec![true; lanes as usize], aicpu_threads: 4 };
    let spec = SessionSpec { config, board, memory: Arc::new(SimDevice::default()), transport };
    let mut session = Session::configure(spec).expect("a session");
    let region = session.swimlane_region().expect("it records");
    session.start(Drive::Stepped).expect("it was configured");
    let host = session.stepper();
    let swimlane = Swimlane::new(NoClock);
    // SAFETY: the session made the region for this platform; nothing else runs, and this thread is thread 0 of it.
    unsafe {
        swimlane.init(geometry, region.base, region.rotation_table, lanes, Some(0)).expect("a region");
    }
    let mut took = Duration::ZERO;
    let (mut made, mut token) = (0, 0);
    while made < records {
        // Two buffers of every lane, or three of one: what the free queue holds beside the active one.
        let rows = TASK_RECORDS as u32 * if lanes == 1 { 3 } else { 2 };
        for _ in 0..rows {
            token += 1;
            for core in 0..lanes {
                // SAFETY: as above; the cores are this thread's own.
                unsafe { swimlane.complete_task(core, 0, token, u64::from(token), u64::from(token) + 9) };
            }
        }
        made += u64::from(rows) * u64::from(lanes);
        let begun = Instant::now();
        while host.step().expect("it lives") > 0 {}
        took += begun.elapsed();
    }
    let cores: Vec<u32> = (0..lanes).collect();
    // SAFETY: as above.
    unsafe { swimlane.flush(0, &cores) };
    let begun = Instant::now();
    session.stop(DeviceEnd::Completed).expect("it ran");
    took += begun.elapsed();
    session.reconcile().expect("it stopped");
    let tasks = session.streams().iter().filter(|stream| stream.kind == StreamKind::AicpuTask);
    let collected: u64 = tasks.map(|stream| stream.collected).sum();
    assert_eq!(collected, made, "every record is kept");
    took * records as u32 / made as u32
}

fn record(n: u64) -> TaskRecord {
    TaskRecord { dispatch_time: n, finish_time: n + 9, reg_task_id: n as u32, _pad: [0; 3] }
}

/// Each record pushed and popped on its own; the best case of a queue: one thread, never full, rows kept in chunks.
fn through_rtrb(
    source: &[TaskRecord],
    queue: &mut (rtrb::Producer<TaskRecord>, rtrb::Consumer<TaskRecord>),
) -> Vec<Box<[TaskRow]>> {
    let mut kept = Vec::with_capacity(source.len() / TASK_RECORDS + 1);
    for chunk in source.chunks(TASK_RECORDS) {
        for row in chunk {
            queue.0.push(*row).expect("it has room");
        }
        let mut rows = Vec::with_capacity(TASK_RECORDS);
        while let Ok(row) = queue.1.pop() {
            rows.push(TaskRow::from(&row));
        }
        kept.push(rows.into_boxed_slice());
    }
    kept
}

/// The same with a thread at each end, as a device and a host are.
fn across_rtrb(source: &[TaskRecord]) -> u64 {
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(4096);
    std::thread::scope(|scope| {
        let taker = scope.spawn(move || {
            let mut rows: Vec<TaskRow> = Vec::with_capacity(RECORDS as usize);
            while !consumer.is_abandoned() || !consumer.is_empty() {
                match consumer.pop() {
                    Ok(row) => rows.push(TaskRow::from(&row)),
                    Err(_) => std::thread::yield_now(),
                }
            }
            rows.len() as u64
        });
        for row in source {
            while producer.push(*row).is_err() {
                std::thread::yield_now();
            }
        }
        drop(producer);
        taker.join().expect("it ends")
    })
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("drain");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(10);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    for (name, transport) in [("svm", TransportKind::Svm), ("copy", TransportKind::Copy)] {
        for lanes in [1, 72] {
            group.bench_function(BenchmarkId::new(name, lanes), |b| {
                b.iter_custom(|times| (0..times).map(|_| drain(transport, lanes, RECORDS)).sum());
            });
        }
    }
    let source: Vec<TaskRecord> = (0..RECORDS).map(record).collect();
    let mut queue = rtrb::RingBuffer::new(4096);
    let kept = through_rtrb(&source, &mut queue);
    assert_eq!(kept.iter().map(|rows| rows.len() as u64).sum::<u64>(), RECORDS);
    assert_eq!(across_rtrb(&source), RECORDS);
    group.bench_function(BenchmarkId::new("rtrb", "one thread"), |b| {
        b.iter(|| black_box(through_rtrb(&source, &mut queue)));
    });
    group.bench_function(BenchmarkId::new("rtrb", "two threads"), |b| {
        b.iter(|| black_box(across_rtrb(&source)))
    });
    group.bench_function("memcpy", |b| b.iter(|| black_box(source.clone())));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
