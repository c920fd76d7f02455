//! Runs that do not end well: what was recorded is there, and `run.json` says why the rest is not.

use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::report::StreamKind;
use dfx_host_drain::{PoolSizes, Target, Timeouts};
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{Init, Program, SubmitId};
use dfx_sim::run::{Rig, RunRequest};
use dfx_sim::runtime::{Faults, LaunchStatus};
use dfx_tests::{LEVELS, PLATFORMS, Run, assert_ledger, files, request, run_on};
use std::collections::BTreeSet;
use std::time::Duration;

/// A chain of `tasks` AIC and AIV tasks in turn.
fn chain(tasks: u32) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("chain");
    let nothing = p.kernel("nothing", Duration::from_micros(1), |_| {});
    let link = p.host("link", dfx_collector::abi::tensor::DataType::Int32, &[1], Init::Zero)?;
    for number in 0..tasks {
        let submit = p.submit();
        let submit = if number % 2 == 0 { submit.aic(nothing) } else { submit.aiv(nothing) };
        submit.inout(link).done()?;
    }
    p.build()
}

fn run_with(target: Target, level: Level, tasks: u32, faults: Faults, timeouts: Timeouts) -> Run {
    let mut request: RunRequest = request("chain", target, level);
    request.config.timeouts = timeouts;
    let rig = Rig { faults, ..Rig::new(target) };
    run_on(request, chain(tasks).expect("it is a program"), &rig)
}

/// All rows of tasks 0 to `before` are in both streams, and `run.json` says why there are no more.
fn assert_kept_up_to(what: &str, run: &Run, before: u64) {
    let (report, records) = (run.report(), run.records());
    assert!(!report.complete && !report.reasons.is_empty(), "{what}: {report:#?}");
    assert_ledger(what, run);
    let tasks: BTreeSet<u64> = records.aicore_tasks.iter().map(|row| row.task).collect();
    assert_eq!(tasks.len(), records.aicore_tasks.len(), "{what}: a row came twice");
    assert!(tasks.into_iter().eq(0..before), "{what}: {} core rows of {before}", records.aicore_tasks.len());
    if records.chip_swimlane_level >= 2 {
        let joined = records.joined(what);
        assert_eq!(joined.len() as u64, before, "{what}: AICPU rows");
    }
    if records.chip_swimlane_level >= 4 {
        assert!(records.submits().len() as u64 > before, "{what}: submits go on until the hang");
    }
    assert_eq!(files(&run.outputs()), ["chip_swimlane_records.json", "run.json"], "{what}");
    assert_eq!(run.outcome.leaked, 0, "{what}");
}

/// A kernel that never ends: the scheduler declares the hang, and every record made before it is in the files.
#[test]
fn after_a_hang_everything_recorded_before_it_is_there() {
    let hang_at = 1_501;
    let faults = Faults { core_hang: Some(SubmitId(hang_at)), ..Faults::default() };
    for target in PLATFORMS {
        for level in LEVELS {
            let what = format!("{} at level {}", target.name(), level as u32);
            let timeouts = Timeouts { scheduler: Duration::from_millis(500), ..Timeouts::default() };
            let run = run_with(target, level, 3_000, faults.clone(), timeouts);
            let LaunchStatus::SchedulerHang { ref stuck, .. } = run.outcome.launch.status else {
                panic!("{what}: {:?}", run.outcome.launch.status);
            };
            assert_eq!(stuck.len(), 1, "{what}");
            assert_eq!(stuck[0].submit, SubmitId(hang_at), "{what}");
            assert_kept_up_to(&what, &run, hang_at.into());
            let reasons = run.report().reasons;
            let hang = reasons.iter().find(|reason| reason.code == "device_error");
            let hang = hang.unwrap_or_else(|| panic!("{what}: {reasons:#?}"));
            assert!(hang.message.contains("no progress for 500ms"), "{what}: {}", hang.message);
        }
    }
}

/// The op-execute timeout kills the AICPU where it stands, before it can flush: the host recovers what lies in the
/// buffers that were never published.
#[test]
fn after_the_op_timeout_the_host_recovers_what_was_never_flushed() {
    let hang_at = 1_100;
    let faults = Faults { core_hang: Some(SubmitId(hang_at)), ..Faults::default() };
    for target in PLATFORMS {
        for level in LEVELS {
            let what = format!("{} at level {}", target.name(), level as u32);
            let timeouts = Timeouts { op_execute: Duration::from_millis(800), ..Timeouts::default() };
            let run = run_with(target, level, 2_000, faults.clone(), timeouts);
            let report = run.report();
            assert!(report.killed, "{what}: {:?}", run.outcome.launch.status);
            assert!(
                report.streams.iter().any(|stream| stream.recovered > 0),
                "{what}: {:#?}",
                report.streams
            );
            assert_killed(&what, &run, hang_at.into());
        }
    }
}

/// Every core row is there, and every AICPU row of a task that AICPU has seen end, also those that a killed thread had not
/// yet counted.
fn assert_killed(what: &str, run: &Run, before: u64) {
    let (report, records) = (run.report(), run.records());
    assert!(!report.complete, "{what}");
    assert_ledger(what, run);
    let tasks: Vec<u64> = records.aicore_tasks.iter().map(|row| row.task).collect();
    let distinct: BTreeSet<u64> = tasks.iter().copied().collect();
    assert!(distinct.len() == tasks.len(), "{what}: a row came twice");
    // On a busy machine the kill may come before the hang: the rows then go as far as AICPU has seen them end.
    let (rows, seen) = (tasks.len() as u64, run.outcome.launch.core_rows);
    assert!(distinct.into_iter().eq(0..rows), "{what}: {rows} core rows");
    assert!(
        (seen..=before).contains(&rows),
        "{what}: {rows} core rows, {seen} seen to end, hang at {before}"
    );
    if records.chip_swimlane_level >= 2 {
        let rows = records.aicpu_tasks.len() as u64;
        assert!(rows >= seen, "{what}: {rows} AICPU rows of {seen}");
        let place = |row: &dfx_tests::rows::TaskRow| (row.core, row.token);
        assert!(records.aicpu_tasks.is_sorted_by(|a, b| place(a) < place(b)), "{what}: a row came twice");
    }
    assert_eq!(files(&run.outputs()), ["chip_swimlane_records.json", "run.json"], "{what}");
    assert_eq!(run.outcome.leaked, 0, "{what}");
}

/// Behaviour §9: a buffer that was used before shows none of its earlier rows, however the run ends.
#[test]
fn a_recycled_buffer_shows_no_rows_of_its_earlier_use() {
    let hang_at = 6_500;
    let faults = Faults { core_hang: Some(SubmitId(hang_at)), ..Faults::default() };
    let hung = Timeouts { scheduler: Duration::from_millis(400), ..Timeouts::default() };
    let killed = Timeouts { op_execute: Duration::from_millis(1_500), ..Timeouts::default() };
    for target in PLATFORMS {
        for (end, timeouts) in [("hung", hung), ("killed", killed)] {
            let what = format!("{}, {end}", target.name());
            // One AIC core with two buffers: each has been full before it becomes the last.
            let mut request = RunRequest {
                blockdim: 1,
                aicpu_threads: Some(2),
                ..request("chain", target, Level::AicpuTiming)
            };
            request.config.pools = PoolSizes::all(2);
            request.config.timeouts = timeouts;
            let rig = Rig { faults: faults.clone(), ..Rig::new(target) };
            let run = run_on(request, chain(7_000).expect("it is a program"), &rig);
            let report = run.report();
            let collected = report.sum(StreamKind::AicoreTask, |stream| stream.collected);
            let rotations = report.sum(StreamKind::AicoreTask, |stream| stream.rotations);
            assert!(rotations >= 3 || collected < hang_at.into(), "{what}: {rotations} rotations");
            assert_killed(&what, &run, hang_at.into());
        }
    }
}

/// An AICPU thread that dies saves nothing itself; its lanes are recovered, the other threads' were flushed or are too.
#[test]
fn when_an_aicpu_thread_dies_its_lanes_are_recovered() {
    let dies_at = 1_050;
    let faults = Faults { aicpu_dies: Some(SubmitId(dies_at)), ..Faults::default() };
    for target in PLATFORMS {
        let what = target.name();
        let timeouts = Timeouts {
            scheduler: Duration::from_millis(400),
            op_execute: Duration::from_millis(1_500),
            ..Timeouts::default()
        };
        let run = run_with(target, Level::OrchPhases, 2_000, faults.clone(), timeouts);
        assert_ne!(run.outcome.launch.status, LaunchStatus::Completed, "{what}");
        assert_killed(what, &run, dies_at.into());
        assert!(run.report().streams.iter().any(|stream| stream.recovered > 0), "{what}");
    }
}
