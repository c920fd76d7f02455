//! What a record costs, rotations and publications included: beside a queue that takes record by record (rtrb,
//! heapless) and a plain copy of the same bytes. All of them hand 1,000 records at a time to somebody who looks at none.
#![allow(missing_docs)] // criterion's macros

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dfx_benches::{NoClock, launch, recorder};
use dfx_collector::abi::swimlane::{BufferKind, Level, SchedPhaseKind, TaskRecord};
use dfx_collector::swimlane::{CoreRecorder, SchedPhase, Swimlane};
use dfx_mock::drain::MockHost;
use dfx_mock::region::Region;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

static SWIMLANE: Swimlane<NoClock> = Swimlane::new(NoClock);
const BATCH: u32 = 1000;

fn task(n: u32) -> TaskRecord {
    TaskRecord { dispatch_time: u64::from(n), finish_time: u64::from(n) + 1, reg_task_id: n, _pad: [0; 3] }
}

/// Panics unless what the lane counts is what was recorded, and nothing was dropped.
fn assert_counted(region: &Region, kind: BufferKind, recorded: u64) {
    // SAFETY: one thread calls.
    unsafe {
        SWIMLANE.sync(0, &[0]);
        SWIMLANE.sync(1, &[]);
    }
    let head = &region.pool((kind, 0)).head;
    assert_eq!(head.total_record_count.load(Relaxed), recorded as u32, "{kind:?}: every record is counted");
    assert_eq!(head.dropped_record_count.load(Relaxed), 0, "{kind:?}: none is dropped");
}

/// Times `record` in batches; the host takes what is ready after each.
fn lane(criterion: &mut Criterion, name: &str, kind: BufferKind, mut record: impl FnMut(&mut Core, u32)) {
    let level = Level::OrchPhases;
    let (region, mut host) = launch(&SWIMLANE, level, 1);
    let mut core = Core { recorder: recorder(&region, 0) };
    let mut recorded = 0u64;
    let mut batch = |host: &mut MockHost| {
        for n in 0..BATCH {
            record(&mut core, black_box(n));
        }
        recorded += u64::from(BATCH);
        host.step(u32::MAX);
    };
    for _ in 0..50 {
        batch(&mut host);
    }
    let mut group = criterion.benchmark_group("record");
    group.throughput(Throughput::Elements(u64::from(BATCH)));
    group.bench_function(name, |bench| bench.iter(|| batch(&mut host)));
    group.finish();
    assert_counted(&region, kind, recorded);
}

struct Core {
    recorder: CoreRecorder,
}

#[allow(clippy::undocumented_unsafe_blocks)] // all of them: one thread calls, and the core follows AICPU
fn lanes(criterion: &mut Criterion) {
    lane(criterion, "core dispatch + reserve + commit + ack", BufferKind::AicoreTask, |core, n| unsafe {
        SWIMLANE.on_dispatch(0, 0, n);
        let slot = core.recorder.reserve();
        SWIMLANE.on_ack(0, 0, n);
        CoreRecorder::commit(slot, 1, 2, 3, n, 1);
    });
    lane(criterion, "complete_task", BufferKind::AicpuTask, |_, n| unsafe {
        SWIMLANE.complete_task(0, 0, n, u64::from(n), u64::from(n) + 1);
    });
    lane(criterion, "sched_phase", BufferKind::AicpuSchedPhase, |_, n| {
        let phase = SchedPhase {
            kind: SchedPhaseKind::Dispatch,
            start: u64::from(n),
            end: u64::from(n) + 1,
            loop_iter: n,
            tasks: 1,
            pop_hit: 2,
            pop_miss: 3,
            depth_start: [1, 2, 3],
            depth_end: [4, 5, 6],
        };
        unsafe { SWIMLANE.record_sched_phase(0, &phase) }
    });
    lane(criterion, "orch_phase", BufferKind::AicpuOrchPhase, |_, n| unsafe {
        SWIMLANE.record_orch_phase(u64::from(n), u64::from(n) + 1, 3, n);
    });
}

fn many_lanes(criterion: &mut Criterion) {
    const CORES: u32 = 72;
    let (region, mut host) = launch(&SWIMLANE, Level::AicpuTiming, CORES);
    let mut group = criterion.benchmark_group("record");
    group.throughput(Throughput::Elements(u64::from(10 * CORES)));
    let mut turn = 0;
    group.bench_function("complete_task, 72 lanes in turn", |bench| {
        bench.iter(|| {
            for n in 0..10 {
                for core in 0..CORES {
                    // SAFETY: one thread calls.
                    let kept = unsafe { SWIMLANE.complete_task(core, 0, black_box(n), 1, 2) };
                    debug_assert!(kept);
                }
            }
            // A buffer lasts a hundred turns.
            turn += 1u32;
            if turn.is_multiple_of(64) {
                host.step(u32::MAX);
            }
        });
    });
    group.finish();
    let dropped = |core| region.pool((BufferKind::AicpuTask, core)).head.dropped_record_count.load(Relaxed);
    assert_eq!((0..CORES).map(dropped).sum::<u32>(), 0);
}

fn peers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    group.throughput(Throughput::Elements(u64::from(BATCH)));

    let (mut producer, mut consumer) = rtrb::RingBuffer::new(1024);
    group.bench_function("peer: rtrb, record by record", |bench| {
        bench.iter(|| {
            for n in 0..BATCH {
                producer.push(task(black_box(n))).expect("room");
            }
            let mut seen = 0;
            while let Ok(record) = consumer.pop() {
                assert_eq!(record.reg_task_id, seen);
                seen += 1;
            }
            assert_eq!(seen, BATCH);
        });
    });
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(1024);
    group.bench_function("peer: rtrb, push only", |bench| {
        bench.iter(|| {
            for n in 0..BATCH {
                producer.push(task(black_box(n))).expect("room");
            }
            let all = consumer.read_chunk(BATCH as usize).expect("all of them");
            all.commit_all();
        });
    });

    let mut queue: heapless::spsc::Queue<TaskRecord, 1024> = heapless::spsc::Queue::new();
    let (mut producer, mut consumer) = queue.split();
    group.bench_function("peer: heapless spsc, record by record", |bench| {
        bench.iter(|| {
            for n in 0..BATCH {
                producer.enqueue(task(black_box(n))).expect("room");
            }
            let mut seen = 0;
            while let Some(record) = consumer.dequeue() {
                assert_eq!(record.reg_task_id, seen);
                seen += 1;
            }
            assert_eq!(seen, BATCH);
        });
    });

    let from: Vec<TaskRecord> = (0..BATCH).map(task).collect();
    let mut to = vec![TaskRecord::default(); BATCH as usize];
    group.bench_function("limit: memcpy of the same bytes", |bench| {
        bench.iter(|| black_box(&mut to).copy_from_slice(black_box(&from)));
    });
    assert_eq!(from, to);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(std::time::Duration::from_secs(2));
    targets = lanes, many_lanes, peers
}
criterion_main!(benches);
