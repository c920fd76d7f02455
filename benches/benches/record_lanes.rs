//! Group `record`, continued: the recording functions of dep_gen, the scope stats and the PMU, with a plain copy of the live
//! bytes beside. A mock host takes and returns buffers, so that the figures include rotations.
#![allow(missing_docs)] // criterion's macros

use criterion::{Criterion, criterion_group, criterion_main};
use dfx_benches::lanes::Host;
use dfx_collector::abi::layout::{
    BufferLayout, DEP_GEN_LANE, DepGenLayout, PmuLayout, SCOPE_STATS_LANE, ScopeStatsLayout,
};
use dfx_collector::abi::tensor::Tensor;
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::clock::Clock;
use dfx_collector::dep_gen::{DepGen, Submit};
use dfx_collector::pmu::{Mmio, Pmu};
use dfx_collector::scope_stats::{Sample, ScopeStats};
use dfx_mock::region::Memory;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

/// Calls per iteration.
const CALLS: u32 = 256;

/// A clock that costs nothing: the figures are without clock reads.
#[derive(Clone, Copy, Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> u64 {
        0
    }
    fn relax(&self) {}
}

fn dep_gen(criterion: &mut Criterion) {
    let layout = DepGenLayout::of(Platform::A2a3);
    let host = Host::new(layout.bytes(), layout.queue, layout.lane(), DEP_GEN_LANE, BufferLayout::dep_gen());
    let dep_gen = DepGen::new(NoClock);
    dep_gen.set_enabled(true);
    dep_gen.set_orch_thread(1);
    // SAFETY: the region outlives its use; nothing else runs.
    unsafe { dep_gen.init(&Geometry::A2A3, host.region.addr(0), Some(0)) }.expect("a region");
    let tensors: Vec<Tensor> = (0..4).map(|n| Tensor { version: n, ..Tensor::default() }).collect();
    let pointers: Vec<*const Tensor> = tensors.iter().map(std::ptr::from_ref).collect();
    let record = |task_id: u64| {
        let submit = Submit {
            task_id,
            flags: 0,
            tensors: &pointers,
            arg_types: &[0, 1, 2, 3],
            deps: &[1, 2, 3],
            kernel_ids: &[1, -1, -1],
            block_num: 1,
        };
        // SAFETY: one thread calls, and the tensors live.
        unsafe { dep_gen.record_submit(black_box(&submit)) }
    };
    let total = || host.word(layout.lane() + DEP_GEN_LANE.total).load(Relaxed);
    (0..2000).for_each(&record);
    host.step();
    assert!(total() >= 1024, "submits are counted");
    let mut group = criterion.benchmark_group("record");
    group.bench_function("dep_gen submit, 4 tensors, 3 deps", |bencher| {
        bencher.iter(|| {
            (0..u64::from(CALLS)).for_each(&record);
            host.step();
        });
    });
    let mut live = vec![0u64; 1 << 16];
    group.bench_function("memcpy of a submit's live bytes", |bencher| {
        bencher.iter(|| {
            for n in 0..CALLS as usize {
                let at = n % 512 * 80;
                for (word, tensor) in live[at..at + 64].chunks_exact_mut(16).zip(&tensors) {
                    word.copy_from_slice(zerocopy::transmute_ref!(black_box(tensor)) as &[u64; 16]);
                }
            }
            black_box(&live);
        });
    });
    group.finish();
}

fn scopes(criterion: &mut Criterion) {
    let layout = ScopeStatsLayout::of(Platform::A2a3);
    let buffer = BufferLayout::scope_stats();
    let host = Host::new(layout.bytes(), layout.queue, layout.lane(), SCOPE_STATS_LANE, buffer);
    let scopes = ScopeStats::new(NoClock);
    scopes.set_enabled(true);
    scopes.set_orch_thread(1);
    // SAFETY: the region outlives its use; nothing else runs.
    unsafe { scopes.init(&Geometry::A2A3, host.region.addr(0), Some(0)) }.expect("a region");
    let record = |n: u32| {
        let sample = Sample { ring: 1, heap_end: u64::from(n), ..Sample::default() };
        // SAFETY: one thread calls; the site is a constant.
        unsafe {
            scopes.set_pending_site(c"attention.cpp".as_ptr().cast(), 12);
            scopes.begin(black_box(&sample));
            scopes.end(black_box(&sample));
        }
    };
    (0..CALLS).for_each(record);
    host.step();
    assert!(host.word(layout.lane() + SCOPE_STATS_LANE.total).load(Relaxed) >= 512, "samples are counted");
    criterion.benchmark_group("record").bench_function("scope site + begin + end", |bencher| {
        bencher.iter(|| {
            (0..CALLS).for_each(record);
            host.step();
        });
    });
}

fn pmu(criterion: &mut Criterion) {
    let layout = PmuLayout::of(Platform::A2a3, 1);
    let registers = Memory::new(0x8000);
    let buffer = BufferLayout::pmu(Platform::A2a3);
    let host = Host::new(layout.bytes(), layout.queue, layout.lane(0), layout.state, buffer);
    host.word(layout.num_cores).store(1, Relaxed);
    let pmu: Pmu<NoClock, Mmio> = Pmu::new(NoClock);
    // SAFETY: region and registers outlive their use; nothing else runs.
    unsafe {
        let mmio = |_| Mmio::new(registers.addr(0));
        pmu.init(&Geometry::A2A3, host.region.addr(0), 1, mmio, Some(0)).expect("a region");
    }
    // SAFETY: one thread calls.
    let record = |n: u32| unsafe { pmu.record_task(0, 0, black_box(u64::from(n)), 7, 1) };
    (0..1024).for_each(record);
    host.step();
    assert!(host.word(layout.lane(0) + layout.state.total).load(Relaxed) >= 512, "records are counted");
    criterion.benchmark_group("record").bench_function("pmu record, a2a3, fake registers", |bencher| {
        bencher.iter(|| {
            (0..CALLS).for_each(record);
            host.step();
        });
    });
}

criterion_group!(benches, dep_gen, scopes, pmu);
criterion_main!(benches);
