//! The drain's budget over a whole run on the virtual clock: the rate in every second, the queue's bound, who waits.

use dfx_collector::abi::tensor::DataType;
use dfx_host_drain::report::StreamKind;
use dfx_host_drain::{Backpressure, DumpBudget, DumpLevel, Target};
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{Init, Program};
use dfx_sim::run::{ClockKind, Rig, RunRequest};
use dfx_tests::dump::Dump;
use dfx_tests::{PLATFORMS, run_on};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The documented rate of a board's drain, in bytes per second.
const RATE: u64 = 42_000_000;
/// Each thread's arena.
const ARENA: u64 = 8 << 20;
/// Elements of the tensor that each task writes.
const N: u32 = 1 << 19;
/// Tasks of the long run: 5 seconds and more of payload.
const TASKS: u32 = 110;

/// Independent tasks that each write 2 MiB.
fn program(tasks: u32) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("writers");
    let write = p.kernel("write", Duration::from_millis(1), |ctx| {
        let (out, n) = (ctx.tensor(0), ctx.scalar(0));
        (0..out.len()).for_each(|i| out.set_bits(i, n << 20 | i as u64));
    });
    for n in 0..tasks {
        let out = p.host("out", DataType::Uint32, &[N], Init::Zero)?;
        p.submit().aiv(write).output_existing(out).u32(n).done()?;
    }
    p.build()
}

/// The payload's flow: time in ns, drained so far, waiting, and the rate as it is reported live.
#[derive(Clone, Copy)]
struct Look {
    at: u64,
    drained: u64,
    waiting: u64,
    rate: u64,
}

/// What was drained in each second, from several moments on, in which something waited all the time.
fn full_seconds(looks: &[Look]) -> Vec<u64> {
    let second = Duration::from_secs(1).as_nanos() as u64;
    let mut found = Vec::new();
    for (first, from) in looks.iter().enumerate().step_by(500) {
        let Some(length) = looks[first..].iter().position(|look| look.at >= from.at + second) else { break };
        let within = &looks[first..=first + length];
        if within.iter().all(|look| look.waiting > 0) {
            found.push(within[length].drained - from.drained);
        }
    }
    found
}

fn request(target: Target) -> RunRequest {
    let mut request = RunRequest { target, clock: ClockKind::Virtual, ..RunRequest::new("writers", "") };
    request.config.dump_args = DumpLevel::Full;
    request.config.dump_budget = DumpBudget::Rate(RATE);
    request.config.dump_arena_bytes = ARENA;
    request
}

fn run(target: Target) -> Vec<Look> {
    let looks = Arc::new(Mutex::new(Vec::<Look>::new()));
    let seen = Arc::clone(&looks);
    let watch = move |at: u64, flow: &dfx_host_drain::dump::Flow| {
        let (drained, waiting, rate) = (flow.drained(), flow.backlog(), flow.rate());
        seen.lock().expect("unpoisoned").push(Look { at, drained, waiting, rate });
    };
    let rig = Rig { flow_watch: Some(Arc::new(watch)), ..Rig::new(target) };
    let run = run_on(request(target), program(TASKS).expect("a program"), &rig);

    let (report, what) = (run.report(), target.name());
    assert!(report.complete && run.outcome.leaked == 0, "{what}: {:#?}", report.reasons);
    let dump = report.dump.expect("its account");
    let payload = u64::from(TASKS) * 4 * u64::from(N);
    assert_eq!((dump.payload_bytes_produced, dump.payload_bytes_written), (payload, payload), "{what}");
    assert_eq!(dump.budget_bytes_per_s, Some(RATE), "{what}");
    assert!(dump.drain_rate_bytes_per_s.abs_diff(RATE) * 50 <= RATE, "{what}: {dump:?}");
    let stalls = report.sum(StreamKind::Arg, |stream| stream.stalls);
    assert!(stalls > 0, "{what}: the producers never waited");
    let found = Dump::of(&run);
    for n in 0..TASKS {
        let bytes = &found.args[&(n.into(), true, 0)].bytes;
        let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four")));
        assert!(words.eq((0..N).map(|i| n << 20 | i)), "{what}: task {n}");
    }
    looks.lock().expect("unpoisoned").clone()
}

/// Issue 4, point 4.
#[test]
fn every_full_second_has_the_budget_within_two_percent_and_the_producer_waits() {
    for target in PLATFORMS {
        let looks = run(target);
        let bound = u64::from(target.geometry().default_threads) * ARENA;
        let most = looks.iter().map(|look| look.waiting).max().unwrap_or(0);
        assert!(most <= bound, "{}: {most} bytes waited", target.name());
        let busy = looks.iter().filter(|look| look.drained > RATE && look.waiting > 0);
        let rates: Vec<u64> = busy.map(|look| look.rate).collect();
        assert!(rates.len() > 1000 && rates.iter().all(|rate| rate.abs_diff(RATE) * 20 <= RATE));
        let seconds = full_seconds(&looks);
        assert!(seconds.len() > 50, "{}: {} looks at a second", target.name(), seconds.len());
        for (number, bytes) in seconds.iter().enumerate() {
            let name = target.name();
            assert!(bytes.abs_diff(RATE) * 50 <= RATE, "{name}: {bytes} bytes in second {number}");
        }
    }
}

/// Who waits by which policy: where somebody does, nothing is lost; where nobody does, payload is shed at once and counted.
#[test]
fn policies_that_wait_lose_nothing_and_the_one_that_does_not_takes_no_time() {
    const SOME: u32 = 40;
    let payload = u64::from(SOME) * 4 * u64::from(N);
    let program = program(SOME).expect("a program");
    for target in PLATFORMS {
        for policy in [Backpressure::Lane, Backpressure::Global, Backpressure::Block, Backpressure::Drop] {
            let what = format!("{policy:?} on {}", target.name());
            let mut request = request(target);
            request.config.backpressure = policy;
            let run = run_on(request, program.clone(), &Rig::new(target));
            let report = run.report();
            let dump = report.dump.expect("its account");
            assert!(!report.killed && run.outcome.leaked == 0, "{what}");
            assert_eq!(dump.payload_bytes_produced, payload, "{what}");
            assert_eq!(dump.payload_bytes_written + dump.payload_bytes_shed, payload, "{what}: {dump:?}");
            assert_eq!(Dump::of(&run).args.len(), 2 * SOME as usize, "{what}: every record is there");
            let device = Duration::from_nanos(report.op_wall_ns);
            let drain = Duration::from_secs_f64(payload as f64 / RATE as f64);
            match policy {
                Backpressure::Drop => {
                    assert!(!report.complete && dump.payload_bytes_shed > 0, "{what}: {dump:?}");
                    assert!(device < drain / 8, "{what}: {device:?} on the device");
                }
                _ => {
                    assert!(report.complete, "{what}: {:#?}", report.reasons);
                    assert!(device > drain / 4 && device < drain, "{what}: {device:?} on the device");
                }
            }
        }
    }
}
