//! Issue 5, point 5: a run that hangs, dies or is killed with everything on. What was recorded and never flushed is
//! recovered and counted, and nothing that lacks something passes as complete.

use dfx_collector::abi::pmu::EventType;
use dfx_host_drain::report::{Feature, RunReport, StreamKind};
use dfx_host_drain::{DfxConfig, Target, Timeouts};
use dfx_sim::faults::{Fault, FaultPlan};
use dfx_sim::run::{ClockKind, Rig, RunRequest};
use dfx_tests::five::{PmuRow, all_on, deps, expected_pmu, pmu, program, scopes, virtual_request};
use dfx_tests::{A2A3, PLATFORMS, Run, run_on};
use std::time::Duration;

const WORKLOAD: &str = "paged_attention:60";
/// A submit in the midst of it.
const AT: u32 = 400;

fn timeouts() -> Timeouts {
    Timeouts { scheduler: Duration::from_millis(300), ..Timeouts::default() }
}

fn faulty(target: Target, clock: ClockKind, fault: Fault, timeouts: Timeouts) -> Run {
    let config = DfxConfig { timeouts, ..all_on() };
    let request =
        RunRequest { clock, faults: FaultPlan(vec![fault]), ..virtual_request(WORKLOAD, target, config) };
    run_on(request, program(WORKLOAD), &Rig::new(target))
}

/// The account balances, says that it is incomplete and why, and the files have exactly what it says; whatever rows there
/// are, are right.
fn assert_honest(what: &str, run: &Run, target: Target, exact_cycles: bool) -> RunReport {
    let report = run.report();
    assert!(!report.complete && !report.reasons.is_empty(), "{what}");
    assert!(report.streams.iter().all(|stream| stream.conserved()), "{what}: {:#?}", report.streams);
    assert_eq!(run.outcome.leaked, 0, "{what}");
    let collected = |kind| report.sum(kind, |stream| stream.collected);

    let rows = pmu(run).1;
    assert_eq!(rows.len() as u64, collected(StreamKind::PmuRow), "{what}: PMU rows");
    let mut expected = expected_pmu(&program(WORKLOAD), run, target, EventType::PipeUtilization);
    for PmuRow { task, func, core_type, cycles, counters, .. } in rows {
        let is = |row: &(u64, u32, u32, u64, Vec<u32>)| {
            (row.0, row.1, row.2, &row.4) == (task, func, core_type, &counters)
                && (!exact_cycles || row.3 == cycles)
        };
        let at = expected.iter().position(is);
        let at = at.unwrap_or_else(|| panic!("{what}: no such row, or twice: task {task:#x} {counters:?}"));
        expected.swap_remove(at);
    }
    let lines = scopes(run);
    assert_eq!(lines.len() as u64 - 1, collected(StreamKind::ScopeSample), "{what}: scope samples");
    if run.outputs().join("deps.json").exists() {
        let tasks = deps(run)["tasks"].as_array().map_or(0, Vec::len) as u64;
        assert_eq!(tasks, collected(StreamKind::Submit), "{what}: captured submits");
        assert_eq!(
            report.sum(StreamKind::Submit, |s| s.dropped + s.lost + s.corrupt),
            0,
            "{what}: no such graph"
        );
    } else {
        assert!(report.reasons.iter().any(|reason| reason.feature == Some(Feature::DepGen)), "{what}");
    }
    let check = dfx_trace::check::check_dir(&run.outputs()).expect("it can be checked");
    assert!(!check.complete, "{what}: {}", check.verdict());
    let broken: Vec<_> = check
        .findings
        .iter()
        .filter(|finding| {
            finding.severity == dfx_trace::check::Severity::Error && finding.code != "incomplete-run"
        })
        .filter(|finding| !finding.file.starts_with("chip_swimlane"))
        .collect();
    assert!(broken.is_empty(), "{what}: {broken:#?}");
    report
}

#[test]
fn after_a_hang_what_was_recorded_is_there_and_marked() {
    for target in PLATFORMS {
        for clock in [ClockKind::Virtual, ClockKind::Threads] {
            let what = format!("core-hang on {}, {clock:?}", target.name());
            let run = faulty(target, clock, Fault::CoreHang(AT), timeouts());
            let report = assert_honest(&what, &run, target, clock == ClockKind::Virtual);
            assert!(report.reasons.iter().any(|reason| reason.code == "device_error"), "{what}");
            // All that AICPU saw end before the hang: the schedulers flushed.
            assert_eq!(pmu(&run).1.len() as u64, run.outcome.launch.core_rows, "{what}");
            assert!(run.outcome.launch.core_rows > 50, "{what}");
        }
    }
}

#[test]
fn after_the_op_timeout_what_was_never_flushed_is_recovered_and_counted() {
    let killed = Timeouts {
        op_execute: Duration::from_millis(700),
        scheduler: Duration::from_secs(9),
        ..Timeouts::default()
    };
    for target in PLATFORMS {
        for clock in [ClockKind::Virtual, ClockKind::Threads] {
            let what = format!("op timeout on {}, {clock:?}", target.name());
            let run = faulty(target, clock, Fault::CoreHang(AT), killed);
            let report = assert_honest(&what, &run, target, clock == ClockKind::Virtual);
            assert!(report.killed, "{what}");
            let recovered = |kind| report.sum(kind, |stream| stream.recovered);
            assert!(recovered(StreamKind::PmuRow) > 0, "{what}: {:#?}", report.streams);
            // A lane counts its records in the shared memory every so often: the last few of each may be unseen.
            let lanes =
                report.streams.iter().filter(|stream| stream.kind == StreamKind::PmuRow).count() as u64;
            let rows = pmu(&run).1.len() as u64;
            assert!(rows + 8 * lanes >= run.outcome.launch.core_rows, "{what}: {rows} PMU rows");
        }
    }
}

#[test]
fn when_an_aicpu_thread_dies_its_lanes_are_recovered() {
    let times = Timeouts { op_execute: Duration::from_millis(900), ..timeouts() };
    for target in PLATFORMS {
        for clock in [ClockKind::Virtual, ClockKind::Threads] {
            let what = format!("aicpu-dies on {}, {clock:?}", target.name());
            let run = faulty(target, clock, Fault::AicpuDies(AT), times);
            let report = assert_honest(&what, &run, target, clock == ClockKind::Virtual);
            let recovered = report.sum(StreamKind::PmuRow, |stream| stream.recovered);
            assert!(recovered > 0, "{what}: {:#?}", report.streams);
        }
    }
}

/// A capture that lacks a buffer leaves no graph, and says so.
#[test]
fn a_capture_that_lacks_something_leaves_no_graph() {
    for target in PLATFORMS {
        let mut config = all_on();
        config.backpressure = dfx_host_drain::Backpressure::Drop;
        config.pools.dep_gen = 1;
        let request = virtual_request("flood:9000", target, config);
        let mut rig = Rig::new(target);
        rig.pace = dfx_sim::run::HostPace::Never;
        let run = run_on(request, program("flood:9000"), &rig);
        let report = run.report();
        let what = target.name();
        assert!(!report.complete && report.sum(StreamKind::Submit, |s| s.dropped + s.lost) > 0, "{what}");
        assert!(!run.outputs().join("deps.json").exists(), "{what}");
        assert!(
            report.reasons.iter().any(|reason| reason.code == "graph_refused"),
            "{what}: {:#?}",
            report.reasons
        );
        assert!(report.streams.iter().all(|stream| stream.conserved()), "{what}");
    }
}

/// A disk that is full for one artifact costs that artifact.
#[test]
fn a_full_disk_is_named_with_its_artifact() {
    for name in ["deps.json", "pmu.csv", "scope_stats.jsonl", "scope_stats/scope_stats.jsonl"] {
        let fault = Fault::Enospc(name.into());
        let request = RunRequest {
            faults: FaultPlan(vec![fault]),
            ..virtual_request("vector_example", A2A3, all_on())
        };
        let run = run_on(request, program("vector_example"), &Rig::new(A2A3));
        let Some(error) = &run.outcome.export_error else { continue };
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert!(!run.outputs().join(name).exists() && !run.report().complete, "{name}");
    }
}
