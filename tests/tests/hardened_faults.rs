//! Every fault, alone and in pairs, on both platforms and both clocks: the run ends in its time, says what is missing,
//! leaves whole files, and gives everything back.

use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::{Target, Timeouts};
use dfx_sim::faults::{self, Fault, FaultPlan};
use dfx_sim::run::{self, ClockKind, Rig, RunFailure, RunOutcome, RunRequest};
use dfx_sim::workloads::{self, WorkloadOptions};
use dfx_tests::rows::Records;
use dfx_tests::{A2A3, PLATFORMS, contents, request};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Enough for every core to rotate its buffers.
const WORKLOAD: &str = "flood:6000";
/// Every timeout, and some time for a busy machine.
const BOUND: Duration = Duration::from_secs(20);

/// What a fault makes of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expect {
    /// Nothing is lost.
    Complete,
    /// It runs, and something is missing.
    Incomplete,
    /// It does not start.
    Refused,
    /// An artifact cannot be written.
    NotWritten,
    /// `run.json` cannot be written.
    NotReported,
}

/// All faults with arguments that make them act, except `kill`, which ends this process.
fn all() -> Vec<(String, Fault)> {
    let listed = faults::ALL.iter().map(|(spelling, _)| *spelling).filter(|spelling| *spelling != "kill:MS");
    let mut texts = Vec::new();
    for spelling in listed {
        let text =
            spelling.replace("MS", "30").replace("TASK", "5000").replace(":K", ":1").replace("CORE", "2");
        if spelling.contains("FILE") {
            texts.extend(["chip_swimlane_records.json", "run.json"].map(|file| text.replace("FILE", file)));
        } else if spelling.contains(":N") {
            texts.extend(["1", "9"].map(|level| text.replace('N', level)));
        } else {
            texts.push(text);
        }
    }
    texts
        .into_iter()
        .map(|text| (text.clone(), text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))))
        .collect()
}

fn expected(fault: &Fault, target: Target) -> Expect {
    match fault {
        Fault::CopyFailOnce
        | Fault::DupReady
        | Fault::ReorderReady
        | Fault::HostStall(_)
        | Fault::DryLane(_) => Expect::Complete,
        // Regions and buffers lie in a few large blocks: no small registration is made.
        Fault::RegisterFailSmall => Expect::Complete,
        // The PMU is off in these runs (its own tests turn it on: `five_pmu`).
        Fault::PmuStale(_) => Expect::Complete,
        // The a5 registers nothing.
        Fault::RegisterFail(_) if target != A2A3 => Expect::Complete,
        Fault::RegisterFail(_) | Fault::AllocFail(_) => Expect::Refused,
        Fault::Enospc(file) if file == "run.json" => Expect::NotReported,
        Fault::Enospc(_) => Expect::NotWritten,
        _ => Expect::Incomplete,
    }
}

/// One run with faults: its end, its directory, and that nothing is out.
struct Ended {
    outcome: Result<RunOutcome, RunFailure>,
    dir: TempDir,
}

fn run_with(faults: &[Fault], target: Target, clock: ClockKind) -> Ended {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut request = RunRequest { clock, ..request(WORKLOAD, target, Level::OrchPhases) };
    request.work_dir = dir.path().to_path_buf();
    request.faults = FaultPlan(faults.to_vec());
    request.config.timeouts = Timeouts {
        scheduler: Duration::from_millis(300),
        op_execute: Duration::from_millis(1_500),
        stream_sync: Duration::from_millis(2_000),
    };
    let program = workloads::build(WORKLOAD, &WorkloadOptions::default()).expect("a workload");
    let rig = Rig::new(target);
    let begun = Instant::now();
    let outcome = run::run_program(&request, program, &rig, &|_| {});
    assert!(begun.elapsed() < BOUND, "{faults:?}: took {:?}", begun.elapsed());
    assert_eq!(
        (rig.device.live_allocations(), rig.device.live_registrations()),
        (0, 0),
        "{faults:?}: not given back"
    );
    Ended { outcome, dir }
}

/// What holds of every run, whatever befell it.
fn assert_true_to_itself(what: &str, ended: &Ended) {
    let dir = ended.dir.path().join(run::OUTPUT_DIR);
    let files = contents(&dir);
    for name in files.keys() {
        assert!(
            ["chip_swimlane_records.json", "run.json"].contains(&name.as_str()),
            "{what}: {name} was left"
        );
    }
    let Ok(outcome) = &ended.outcome else {
        let message = ended.outcome.as_ref().unwrap_err().to_string();
        assert!(!files.contains_key("run.json"), "{what}: {message}");
        return;
    };
    assert_eq!(outcome.leaked, 0, "{what}");
    let report = &outcome.report;
    assert_eq!(
        serde_json::from_slice::<dfx_host_drain::report::RunReport>(&files["run.json"]).unwrap(),
        *report,
        "{what}"
    );
    assert_eq!(report.complete, report.reasons.is_empty(), "{what}");
    for stream in &report.streams {
        assert!(stream.conserved(), "{what}: {stream:?}");
    }
    let listed: Vec<&str> = report.artifacts.iter().map(|entry| entry.path.as_str()).collect();
    let records = files.get("chip_swimlane_records.json");
    assert_eq!(listed.is_empty(), records.is_none(), "{what}: {listed:?}");
    match records {
        Some(text) => assert_rows(what, outcome, &serde_json::from_slice(text).expect("whole JSON")),
        // Without a file, nothing was collected or it could not be written.
        None => assert!(
            outcome.export_error.is_some() || report.streams.iter().all(|stream| stream.collected == 0),
            "{what}"
        ),
    }
    let check = dfx_trace::check::check_dir(&dir).expect("the directory can be checked");
    assert_eq!(check.complete, report.complete, "{what}: {}\n{:#?}", check.verdict(), check.findings);
}

fn assert_rows(what: &str, outcome: &RunOutcome, records: &Records) {
    for stream in &outcome.report.streams {
        let rows = records.rows_of(stream.kind, stream.lane);
        assert_eq!(rows, stream.collected, "{what}: rows of {:?} {} in the file", stream.kind, stream.lane);
    }
}

fn assert_expected(what: &str, fault: &Fault, expect: Expect, ended: &Ended) {
    let outcome = match (&ended.outcome, expect) {
        (Err(RunFailure::Session(error)), Expect::Refused) => {
            assert!(error.to_string().contains("run without diagnostics"), "{what}: {error}");
            return assert!(
                !ended.dir.path().join(run::OUTPUT_DIR).exists(),
                "{what}: an empty directory was left"
            );
        }
        (Err(RunFailure::Report(error)), Expect::NotReported) => {
            return assert!(
                error.to_string().contains("run.json") && error.to_string().contains("free space"),
                "{error}"
            );
        }
        (Ok(outcome), _) => outcome,
        (Err(error), _) => panic!("{what}: {error}, expected {expect:?}"),
    };
    let reasons = &outcome.report.reasons;
    let said = |code: &str, word: &str| {
        reasons.iter().any(|reason| reason.code == code && reason.message.contains(word))
    };
    match expect {
        Expect::Complete => {
            assert!(outcome.report.complete && outcome.failure().is_none(), "{what}: {reasons:#?}")
        }
        Expect::NotWritten => {
            assert!(outcome.failure().is_some() && said("artifact_not_written", "free space"), "{what}")
        }
        _ => assert!(!outcome.report.complete && outcome.failure().is_none(), "{what}: {reasons:#?}"),
    }
    let named = match fault {
        Fault::CopyFail => said("totals_unread", "driver"),
        Fault::ConsumerDead => said("host_thread_panicked", "service"),
        Fault::AicpuDies(_) => said("device_error", "is dead"),
        Fault::CoreHang(_) => said("device_error", "core "),
        Fault::CorruptCount => said("corrupt", "of core "),
        Fault::CorruptPointer => said("corrupt", "pointers"),
        Fault::CorruptIndex => said("corrupt", "lanes"),
        Fault::LevelMismatch(level) => said("level_mismatch", &format!("level {level}")),
        Fault::DupReady => outcome.report.anomalies.contains_key("duplicate_ready_entries"),
        Fault::CopyFailOnce | Fault::DryLane(_) => outcome.report.anomalies.contains_key("transport_retries"),
        _ => true,
    };
    assert!(named, "{what} is not named: {reasons:#?} {:?}", outcome.report.anomalies);
    // Whoever reads only the first line learns the cause.
    if expect == Expect::Incomplete && !matches!(fault, Fault::CorruptCount) {
        assert!(!["lost", "dropped"].contains(&reasons[0].code.as_str()), "{what}: {reasons:#?}");
    }
}

/// Issue 3, point 2, on real threads.
#[test]
fn every_fault_on_real_threads_ends_in_its_time_and_is_named() {
    for target in PLATFORMS {
        for (text, fault) in all() {
            let what = format!("{text} on {}", target.name());
            let ended = run_with(std::slice::from_ref(&fault), target, ClockKind::Threads);
            assert_true_to_itself(&what, &ended);
            assert_expected(&what, &fault, expected(&fault, target), &ended);
        }
    }
}

/// Issue 3, point 2, on virtual time: and the same fault with the same seed gives the same bytes.
#[test]
fn every_fault_on_virtual_time_ends_is_named_and_can_be_repeated() {
    for target in PLATFORMS {
        for (text, fault) in all() {
            let what = format!("{text} on {}, virtual", target.name());
            let run = || run_with(std::slice::from_ref(&fault), target, ClockKind::Virtual);
            let first = run();
            assert_true_to_itself(&what, &first);
            assert_expected(&what, &fault, expected(&fault, target), &first);
            assert!(
                files(first.dir.path()) == files(run().dir.path()),
                "{what}: two runs with one seed differ"
            );
        }
    }
}

/// As `diff -r`, but for the directory's own name in messages.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = dir.to_string_lossy().into_owned();
    let mut files = contents(&dir.join(run::OUTPUT_DIR));
    for text in files.values_mut() {
        *text = String::from_utf8_lossy(text).replace(&name, "DIR").into_bytes();
    }
    files
}

/// Two at once: what holds of every run holds of these. `DFX_PAIRS=all` takes every pair.
#[test]
fn two_faults_at_once_end_and_tell_the_truth() {
    let all = all();
    let every = std::env::var("DFX_PAIRS").as_deref() == Ok("all");
    let mut pairs = 0;
    for (i, (first, a)) in all.iter().enumerate() {
        for (j, (second, b)) in all.iter().enumerate().skip(i + 1) {
            // A spread of them that meets each fault a few times.
            if !every && (i * 7 + j * 3) % 17 != 0 {
                continue;
            }
            let target = PLATFORMS[(i + j) % 2];
            let what = format!("{first} and {second} on {}", target.name());
            let ended = run_with(&[a.clone(), b.clone()], target, ClockKind::Virtual);
            assert_true_to_itself(&what, &ended);
            let harmless = [a, b].iter().all(|fault| expected(fault, target) == Expect::Complete);
            if let Ok(outcome) = &ended.outcome {
                assert!(outcome.report.complete <= harmless, "{what}: passes as complete");
            }
            pairs += 1;
        }
    }
    assert!(pairs >= 10, "{pairs}");
}
