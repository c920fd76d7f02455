//! What a disabled recorder costs: beside nothing at all.
#![allow(missing_docs)] // criterion's macros

use criterion::{Criterion, criterion_group, criterion_main};
use dfx_benches::{NoClock, launch};
use dfx_collector::abi::swimlane::Level;
use dfx_collector::swimlane::Swimlane;
use std::hint::black_box;

static SWIMLANE: Swimlane<NoClock> = Swimlane::new(NoClock);

fn guard(criterion: &mut Criterion) {
    let (region, _host) = launch(&SWIMLANE, Level::Disabled, 1);
    let before = region.memory.bytes(0..region.layout.bytes());
    let mut group = criterion.benchmark_group("guard");
    group.bench_function("nothing", |bench| bench.iter(|| black_box(7u32)));
    group.bench_function("call site", |bench| {
        bench.iter(|| {
            if SWIMLANE.enabled() {
                // SAFETY: one thread calls.
                unsafe { SWIMLANE.on_dispatch(black_box(0), 0, 7) }
            }
        });
    });
    group.bench_function("on_dispatch", |bench| {
        // SAFETY: one thread calls.
        bench.iter(|| unsafe { SWIMLANE.on_dispatch(black_box(0), 0, black_box(7)) });
    });
    group.bench_function("complete_task", |bench| {
        // SAFETY: one thread calls.
        bench.iter(|| unsafe { SWIMLANE.complete_task(black_box(0), 0, black_box(7), 1, 2) });
    });
    group.bench_function("record_orch_phase", |bench| {
        // SAFETY: one thread calls.
        bench.iter(|| unsafe { SWIMLANE.record_orch_phase(1, 2, black_box(3), 4) });
    });
    group.finish();
    assert!(region.memory.bytes(0..region.layout.bytes()) == before, "disabled writes nothing");
}

criterion_group!(benches, guard);
criterion_main!(benches);
