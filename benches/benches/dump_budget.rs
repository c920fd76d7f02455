//! The dump's budget on the real clock, through the same door as `dfx run`: a ceiling is kept in every second, to the end,
//! with a mapped arena and with copies; what a run under a ceiling takes in all.
//!
//! Printed: bytes drained in each second in which something waited, against the ceiling, and the whole run's rate. The
//! criterion group shows the throughput of short runs, which cannot be above the ceiling.

#![allow(missing_docs)] // criterion's macros

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dfx_collector::abi::tensor::DataType;
use dfx_host_drain::{BackendType, DumpBudget, DumpLevel, ExecutionMode, Target};
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{Init, Program};
use dfx_sim::run::{ClockKind, Progress, Rig, RunRequest, run_program};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The documented rate of a board's drain, in bytes per second.
const BOARD: u64 = 42_000_000;
/// Bytes that each task writes.
const TENSOR: u64 = 1 << 20;
const PLATFORMS: [Target; 2] = [
    Target { backend: BackendType::Ascend910B, mode: ExecutionMode::Sim },
    Target { backend: BackendType::Ascend950, mode: ExecutionMode::Sim },
];

/// Independent tasks that each write a tensor.
fn program(tasks: u64) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("writers");
    let write = p.kernel("write", Duration::from_millis(1), |ctx| {
        let (out, n) = (ctx.tensor(0), ctx.scalar(0));
        (0..out.len()).for_each(|i| out.set_bits(i, n << 20 | i as u64));
    });
    for n in 0..tasks {
        let out = p.host("out", DataType::Uint32, &[TENSOR as u32 / 4], Init::Zero)?;
        p.submit().aiv(write).output_existing(out).u32(n as u32).done()?;
    }
    p.build()
}

/// Dumps all of `program` under a ceiling. Returns the drain's own measure of its rate, in bytes per second.
fn run(target: Target, program: &Program, rate: u64, watch: &(dyn Fn(Progress) + Sync)) -> u64 {
    let dir = tempfile::tempdir().expect("a directory");
    let mut request =
        RunRequest { target, clock: ClockKind::Threads, ..RunRequest::new("writers", dir.path()) };
    request.config.dump_args = DumpLevel::Full;
    request.config.dump_budget = DumpBudget::Rate(rate);
    // Small, so that the producers wait.
    request.config.dump_arena_bytes = 8 << 20;
    let outcome = run_program(&request, program.clone(), &Rig::new(target), watch).expect("it runs");
    assert!(outcome.report.complete, "{:#?}", outcome.report.reasons);
    outcome.report.dump.expect("its account").drain_rate_bytes_per_s
}

/// The most that any second saw, and the least of those in which something waited throughout.
fn seconds(looks: &[(Instant, Progress)]) -> Option<(u64, u64)> {
    let (mut most, mut least) = (0, u64::MAX);
    for (first, (from, begin)) in looks.iter().enumerate() {
        let within = looks[first..].iter().take_while(|(at, _)| *at - *from < Duration::from_secs(1)).count();
        let Some((at, end)) = looks.get(first + within) else { break };
        let nanos = (*at - *from).as_nanos();
        let bytes = u128::from(end.dump_drained - begin.dump_drained) * 1_000_000_000 / nanos;
        most = most.max(bytes as u64);
        if looks[first..=first + within].iter().all(|(_, look)| look.dump_backlog > 0) {
            least = least.min(bytes as u64);
        }
    }
    (most > 0).then_some((least, most))
}

fn ceiling() {
    let program = program(240).expect("a program");
    for target in PLATFORMS {
        let looks = Mutex::new(Vec::new());
        let rate = run(target, &program, BOARD, &|look| {
            looks.lock().expect("unpoisoned").push((Instant::now(), look));
        });
        let looks = looks.into_inner().expect("unpoisoned");
        let mega = |bytes: u64| bytes as f64 / 1e6;
        let (least, most) = seconds(&looks).expect("it takes some seconds");
        println!(
            "dump_budget/{}: {:.2} to {:.2} MB in a second, {:.2} MB/s in all, under a ceiling of {:.2} MB/s",
            target.name(),
            mega(least),
            mega(most),
            mega(rate),
            mega(BOARD)
        );
        assert!(most <= BOARD + BOARD / 50, "{most} bytes in a second");
    }
}

fn bench(c: &mut Criterion) {
    if !std::env::args().skip(1).any(|arg| !arg.starts_with('-')) {
        ceiling();
    }
    let tasks = 48;
    let program = program(tasks).expect("a program");
    let mut group = c.benchmark_group("dump_budget");
    group.throughput(Throughput::Bytes(tasks * TENSOR)).sample_size(10);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(5));
    for target in PLATFORMS {
        group.bench_function(BenchmarkId::new(target.name(), "100MB/s"), |b| {
            b.iter(|| run(target, &program, 100_000_000, &|_| {}));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
