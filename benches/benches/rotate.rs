//! What a rotation costs, uncontended: the whole of publishing a full buffer and taking an empty one, beside the same
//! hand-over of a pointer through rtrb and heapless.
#![allow(missing_docs)] // criterion's macros

use criterion::{Criterion, criterion_group, criterion_main};
use dfx_benches::NoClock;
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::swimlane::{BufferKind, Level, TASK_RECORDS, TaskRecord};
use dfx_collector::lane::{Entry, Lane, Port, ReadyQueue};
use dfx_collector::stall::{Budget, Stall};
use dfx_mock::drain::MockHost;
use dfx_mock::region::{Region, Shape};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn rotate(criterion: &mut Criterion) {
    let region = Arc::new(Region::new(Shape { task_buffers: 5, ..Shape::small(Level::AicpuTiming, 1) }));
    let mut host = MockHost::new(&region);
    host.checks = false;
    host.refill();
    let key = (BufferKind::AicpuTask, 0);
    let stall = Stall::new(Budget { wait_ms: 0, total_ms: 0 }, 1_000_000, 0);
    let mut ready = ReadyQueue::new(region.queue(0));
    let mut lane = Lane::new(region.lane::<TaskRecord, TASK_RECORDS>(key));
    let first = lane.try_take().expect("a buffer");
    lane.activate(first, 0);
    let mut active = first;
    let mut rotations = 0u32;

    let mut group = criterion.benchmark_group("rotate");
    group.bench_function("publish + take", |bench| {
        bench.iter_custom(|iterations| {
            timed(
                iterations,
                || while host.step(8) != 0 {},
                || {
                    let mut port = Port { queue: Some(&mut ready), stall: &stall, clock: &NoClock };
                    let seq = lane.seq();
                    assert!(
                        lane.publish(&mut port, &Entry { index: 0, kind: 0, buffer: active, seq, flags: 0 })
                    );
                    active = lane.take(&mut port).expect("a buffer");
                    lane.activate(active, seq + 1);
                    rotations += 1;
                },
            )
        });
    });
    while host.step(8) != 0 {}
    assert_eq!(host.entries, rotations, "every buffer came to the host");

    let (mut full, mut taken) = rtrb::RingBuffer::<DeviceAddr>::new(8);
    let (mut empty, mut offered) = rtrb::RingBuffer::<DeviceAddr>::new(8);
    group.bench_function("peer: rtrb, two pointers", |bench| {
        bench.iter_custom(|iterations| {
            let host = || {
                while taken.pop().is_ok() {}
                while empty.push(DeviceAddr(64)).is_ok() {}
            };
            timed(iterations, host, || {
                full.push(black_box(DeviceAddr(64))).expect("room");
                black_box(offered.pop().expect("a buffer"));
            })
        });
    });
    group.bench_function("nothing, to subtract", |bench| {
        bench.iter_custom(|iterations| timed(iterations, || (), || _ = black_box(7)));
    });
    group.finish();
}

/// The time of `iterations` calls of `device`, four at a time, with `host`'s part between them left out.
fn timed(iterations: u64, mut host: impl FnMut(), mut device: impl FnMut()) -> Duration {
    let mut spent = Duration::ZERO;
    let mut left = iterations;
    while left > 0 {
        host();
        let now = left.min(4);
        let start = Instant::now();
        for _ in 0..now {
            device();
        }
        spent += start.elapsed();
        left -= now;
    }
    spent
}

criterion_group!(benches, rotate);
criterion_main!(benches);
