//! `check_dir` on a good directory, on what can happen to one, and on what the existing runtime wrote.

use dfx_host_drain::artifact::{ArtifactFile, hex};
use dfx_host_drain::report::*;
use dfx_trace::check::{CheckError, CheckReport, Severity, check_dir};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const RECORDS: &str = r#"{
  "chip_swimlane_level": 4,
  "metadata": {
    "clock_freq_hz": 50000000,
    "num_cores": 2,
    "core_types": ["aic", "aiv"],
    "core_to_thread": [0, 0]
  },
  "aicore_tasks": [
    [0, 4294967296, 1, 1010, 1015, 2],
    [0, 4294967297, 2, 1020, 1025, 2],
    [0, 4294967298, 3, 1040, 1045, 2],
    [1, 4294967299, 1, 1050, 1055, 2]
  ],
  "aicpu_tasks": [
    [0, 1, 1000, 1018],
    [0, 2, 1001, 1028],
    [0, 3, 1030, 1048],
    [1, 1, 1040, 1058]
  ],
  "aicpu_scheduler_phases": [
    [
      {"kind": "dispatch", "start_cycles": 1000, "end_cycles": 1001, "loop_iter": 1, "tasks_processed": 2, "pop_hit": 2, "pop_miss": 0, "shared_at_start": [2,0,0], "shared_at_end": [0,0,0]},
      {"kind": "complete", "start_cycles": 1018, "end_cycles": 1030, "loop_iter": 2, "tasks_processed": 2, "shared_at_start": [0,0,0], "shared_at_end": [0,0,0]}
    ],
    [],
    [],
    []
  ],
  "aicpu_orchestrator_phases": [
    [
      {"submit_idx": 0, "task_id": 4294967296, "start_cycles": 900, "end_cycles": 910},
      {"submit_idx": 1, "task_id": 4294967297, "start_cycles": 910, "end_cycles": 920},
      {"submit_idx": 2, "task_id": 4294967298, "start_cycles": 920, "end_cycles": 930},
      {"submit_idx": 3, "task_id": 4294967299, "start_cycles": 930, "end_cycles": 940}
    ]
  ]
}
"#;
const NAME: &str = "chip_swimlane_records.json";

fn stream(kind: StreamKind, lane: u32, records: u64) -> StreamReport {
    let new = StreamReport::new(Feature::ChipSwimlane, kind, lane);
    StreamReport { produced: Some(records), collected: records, ..new }
}

fn report(records: &str) -> RunReport {
    let mut report = RunReport {
        schema: SCHEMA,
        tool: "dfx 0.1.0".into(),
        abi: "6ebaf77".into(),
        platform: "a2a3sim".into(),
        backend_type: "Ascend910B".into(),
        execution_mode: "SIM".into(),
        peer: Peer { device: Half::Ours, host: Half::Ours },
        passes: Vec::new(),
        levels: Levels { chip_swimlane: 4, ..Levels::default() },
        workload: "made up".into(),
        started_at: "1970-01-01T00:00:00Z".into(),
        wall_ns: 1,
        op_wall_ns: 1,
        killed: false,
        complete: false,
        reasons: Vec::new(),
        streams: vec![
            stream(StreamKind::AicoreTask, 0, 3),
            stream(StreamKind::AicoreTask, 1, 1),
            stream(StreamKind::AicpuTask, 0, 3),
            stream(StreamKind::AicpuTask, 1, 1),
            stream(StreamKind::SchedPhase, 0, 2),
            stream(StreamKind::OrchPhase, 0, 4),
        ],
        dump: None,
        anomalies: BTreeMap::new(),
        artifacts: vec![ArtifactEntry {
            path: NAME.into(),
            bytes: records.len() as u64,
            sha256: hex(&Sha256::digest(records)),
        }],
    };
    report.conclude(Vec::new());
    report
}

/// A run's directory that may be good or not.
struct Run {
    dir: tempfile::TempDir,
    out: PathBuf,
}

/// A run with this text and the report that `change` makes of a good one.
fn run(records: &str, change: impl FnOnce(&mut RunReport)) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("dfx_outputs");
    fs::create_dir(&out).unwrap();
    fs::write(out.join(NAME), records).unwrap();
    let mut report = report(records);
    change(&mut report);
    report.write_to_dir(&out).unwrap();
    Run { dir, out }
}

impl Run {
    fn check(&self) -> CheckReport {
        check_dir(self.dir.path()).unwrap()
    }
}

fn codes(report: &CheckReport, severity: Severity) -> Vec<&'static str> {
    report.findings.iter().filter(|f| f.severity == severity).map(|f| f.code).collect()
}

/// The good text with `from` replaced by `to`.
fn text(from: &str, to: &str) -> String {
    assert!(RECORDS.contains(from), "{from}");
    RECORDS.replacen(from, to, 1)
}

/// What is found when the text was changed and the report knows its new size and hash.
fn found(from: &str, to: &str) -> CheckReport {
    run(&text(from, to), |_| {}).check()
}

#[test]
fn a_good_directory_is_complete_and_says_what_is_there() {
    let run = run(RECORDS, |_| {});
    let report = run.check();
    assert_eq!(report.findings, []);
    assert!(report.complete && report.has_run_json);
    assert_eq!(report.dir, run.out);
    assert_eq!(report.verdict(), "complete: 4 core rows, 4 AICPU rows, 2 scheduler phases, 4 submits");
    assert_eq!(check_dir(&run.out).unwrap(), report);
}

#[test]
fn without_a_report_the_artifacts_are_judged_and_it_says_so() {
    let run = run(RECORDS, |_| {});
    fs::remove_file(run.out.join("run.json")).unwrap();
    let report = run.check();
    assert!(report.complete && !report.has_run_json);
    assert_eq!(codes(&report, Severity::Note), ["no-run-json"]);
    assert!(report.verdict().ends_with("(no run.json: judged by the artifacts alone)"));
    let gap = text("    [0, 4294967297, 2, 1020, 1025, 2],\n", "").replace("    [0, 2, 1001, 1028],\n", "");
    fs::write(run.out.join(NAME), gap).unwrap();
    assert_eq!(codes(&run.check(), Severity::Error), ["token-gap"]);
}

#[test]
fn every_change_to_the_rows_is_found() {
    let core = "    [0, 4294967297, 2, 1020, 1025, 2],\n";
    let task = "    [0, 2, 1001, 1028],\n";
    let submit =
        "      {\"submit_idx\": 1, \"task_id\": 4294967297, \"start_cycles\": 910, \"end_cycles\": 920},\n";
    let cases: [(&str, String, &[&str]); 14] = [
        (core, String::new(), &["row-count", "no-core-row"]),
        (core, core.repeat(2), &["row-count", "duplicate-row", "no-aicpu-row"]),
        (task, String::new(), &["row-count", "no-aicpu-row"]),
        (task, task.repeat(2), &["row-count", "no-core-row"]),
        (task, task.replace("[0,", "[1,"), &["row-count", "row-count", "no-aicpu-row", "no-core-row"]),
        (
            task,
            task.replace("[0,", "[2,"),
            &["row-count", "row-count", "core-range", "no-aicpu-row", "no-core-row"],
        ),
        (submit, String::new(), &["row-count", "submit-gap"]),
        (submit, submit.repeat(2), &["row-count", "submit-order"]),
        ("\"submit_idx\": 3", "\"submit_idx\": 4".into(), &["submit-gap"]),
        ("\"num_cores\": 2", "\"num_cores\": 3".into(), &["core-types"]),
        ("[0, 0]", "[0, 4]".into(), &["core-to-thread"]),
        ("[0, 0]", "[0, 0, 0]".into(), &["core-to-thread"]),
        ("_level\": 4", "_level\": 3".into(), &["level", "level-key"]),
        ("_level\": 4", "_level\": 1".into(), &["level", "level-key", "level-key", "level-key"]),
    ];
    for (from, to, expected) in cases {
        let report = found(from, &to);
        let errors = codes(&report, Severity::Error);
        for code in expected {
            assert!(errors.contains(code), "{from} -> {to}: {code} is not among {errors:?}");
        }
        assert_eq!(errors.len(), expected.len(), "{from} -> {to}: {:#?}", report.findings);
        assert!(!report.complete && report.verdict().starts_with("INCOMPLETE: "), "{}", report.verdict());
    }
}

#[test]
fn a_missing_key_is_found() {
    let sched = RECORDS.find("  \"aicpu_scheduler_phases\"").unwrap();
    let orch = RECORDS.find("  \"aicpu_orchestrator_phases\"").unwrap();
    let without_sched = [&RECORDS[..sched], &RECORDS[orch..]].concat();
    assert_eq!(codes(&run(&without_sched, |_| {}).check(), Severity::Error), ["row-count", "level-key"]);
    let without_orch = [RECORDS[..orch].trim_end().trim_end_matches(','), "\n}\n"].concat();
    assert_eq!(codes(&run(&without_orch, |_| {}).check(), Severity::Error), ["row-count", "level-key"]);
    let without_tasks = text("\"aicpu_tasks\"", "\"tasks\"");
    assert_eq!(codes(&run(&without_tasks, |_| {}).check(), Severity::Error), ["invalid"]);
}

#[test]
fn odd_times_are_warned_of_and_nothing_is_missing() {
    let cases: [(&str, &str, &[&str]); 7] = [
        ("1020, 1025", "1020, 1019", &["negative-duration"]),
        ("1001, 1028", "1001, 900", &["negative-dispatch", "early-finish"]),
        ("1001, 1028", "1019, 1028", &["early-receive"]),
        ("1001, 1028", "1001, 1024", &["early-finish"]),
        ("1020, 1025", "1008, 1025", &["row-order"]),
        ("1018, \"end_cycles\": 1030", "1018, \"end_cycles\": 1017", &["negative-phase"]),
        ("\"kind\": \"complete\"", "\"kind\": \"unknown\"", &["unknown-kind"]),
    ];
    for (from, to, expected) in cases {
        let report = found(from, to);
        assert_eq!(codes(&report, Severity::Warning), expected, "{from} -> {to}");
        assert!(report.complete, "{from} -> {to}: {}", report.verdict());
    }
}

#[test]
fn a_counter_that_wraps_within_a_run_is_not_odd() {
    let mut wrapped = RECORDS.to_owned();
    for (from, to) in [
        ("[0, 4294967297, 2, 1020, 1025, 2]", "[0, 4294967297, 2, 18446744073709551610, 3, 2]"),
        ("[0, 2, 1001, 1028]", "[0, 2, 18446744073709551600, 8]"),
        (
            "[0, 4294967296, 1, 1010, 1015, 2]",
            "[0, 4294967296, 1, 18446744073709551500, 18446744073709551600, 2]",
        ),
        ("[0, 1, 1000, 1018]", "[0, 1, 18446744073709551400, 18446744073709551605]"),
    ] {
        assert!(wrapped.contains(from));
        wrapped = wrapped.replacen(from, to, 1);
    }
    assert_eq!(run(&wrapped, |_| {}).check().findings, []);
}

#[test]
fn tokens_that_repeat_are_paired_by_occurrence() {
    let repeated =
        text("[0, 4294967297, 2, ", "[0, 4294967297, 1, ").replacen("[0, 2, 1001", "[0, 1, 1001", 1);
    assert_eq!(run(&repeated, |_| {}).check().findings, []);
    let crossed = repeated.replacen("[0, 1, 1000, 1018]", "[0, 1, 1016, 1018]", 1);
    assert_eq!(codes(&run(&crossed, |_| {}).check(), Severity::Warning), ["early-receive"]);
}

#[test]
fn what_happens_to_files_is_found() {
    let good = run(RECORDS, |_| {});
    let errors = || codes(&good.check(), Severity::Error);
    let path = good.out.join(NAME);
    for cut in [0, 1, RECORDS.len() / 2, RECORDS.len() - 3] {
        fs::write(&path, &RECORDS[..cut]).unwrap();
        assert_eq!(errors(), ["invalid", "size"], "cut at {cut}");
    }
    let message = good.check().verdict();
    assert!(
        message.contains("chip_swimlane_records.json: is not valid: line ") && message.contains(", column ")
    );
    fs::write(&path, text("4294967296, 1, 1010", "4294967295, 1, 1010")).unwrap();
    assert_eq!(errors(), ["sha256"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(errors(), ["missing"]);
    fs::write(&path, RECORDS).unwrap();
    assert_eq!(errors(), [] as [&str; 0]);

    let mut unfinished = ArtifactFile::create(good.out.join("pmu.csv")).unwrap();
    unfinished.write_all(b"x").unwrap();
    assert_eq!(errors(), ["unfinished"]);
    drop(unfinished);
    fs::write(
        good.out.join("pmu.csv"),
        "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles,a,event_type\n",
    )
    .unwrap();
    assert_eq!(errors(), ["unlisted"]);
    fs::remove_file(good.out.join("pmu.csv")).unwrap();
    let text = fs::read_to_string(good.out.join("run.json")).unwrap();
    fs::write(good.out.join("run.json"), &text[..text.len() / 2]).unwrap();
    assert_eq!(errors(), ["invalid"]);
}

#[test]
fn what_the_report_says_is_checked() {
    let of = |change: fn(&mut RunReport)| codes(&run(RECORDS, change).check(), Severity::Error);
    assert_eq!(of(|r| r.streams[0].collected = 2), ["unsaid", "row-count"]);
    assert_eq!(of(|r| r.streams[0].produced = Some(4)), ["unsaid"]);
    assert_eq!(of(|r| r.streams[0].produced = None), [] as [&str; 0]);
    assert_eq!(
        of(|r| {
            r.streams.swap_remove(1);
        }),
        ["row-count"]
    );
    assert_eq!(of(|r| r.streams.push(r.streams[0])), ["stream-twice", "row-count"]);
    assert_eq!(of(|r| r.killed = true), ["unsaid"]);
    assert_eq!(of(|r| r.complete = false), ["verdict"]);
    assert_eq!(of(|r| r.schema = 2), ["schema"]);
    assert_eq!(of(|r| r.levels.chip_swimlane = 2), ["level"]);
    assert_eq!(of(|r| r.artifacts[0].path = "../x".into()), ["artifact-path", "unlisted"]);
    assert_eq!(of(|r| r.artifacts[0].bytes += 1), ["size"]);
    assert_eq!(of(|r| r.artifacts[0].sha256 = "0".repeat(64)), ["sha256"]);
    let lost = |r: &mut RunReport| {
        r.streams[0].produced = Some(5);
        r.streams[0].lost = 2;
        r.conclude(Vec::new());
    };
    let report = run(RECORDS, lost).check();
    assert_eq!(codes(&report, Severity::Error), ["incomplete-run"]);
    assert!(report.verdict().contains("2 aicore_task records of core 0 were produced but did not reach"));
    let unrecorded = run(RECORDS, |r| r.levels.pmu = 2).check();
    // pmu.csv is not written without a row: worth a note, no more. deps.json is, even of an empty graph.
    assert_eq!((codes(&unrecorded, Severity::Warning), unrecorded.complete), (vec![], true));
    assert!(codes(&unrecorded, Severity::Note).contains(&"missing"));
    let ungraphed = run(RECORDS, |r| r.levels.dep_gen = true).check();
    assert_eq!((codes(&ungraphed, Severity::Warning), ungraphed.complete), (vec!["missing"], true));
}

#[test]
fn a_directory_that_cannot_be_checked_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let missing = check_dir(&dir.path().join("no"));
    assert!(matches!(missing, Err(CheckError::Unreadable { .. })), "{missing:?}");
    let nothing = check_dir(dir.path());
    assert!(matches!(nothing, Err(CheckError::NoArtifacts { .. })), "{nothing:?}");
    fs::create_dir(dir.path().join("dfx_outputs")).unwrap();
    let killed = check_dir(dir.path()).unwrap();
    assert_eq!(codes(&killed, Severity::Error), ["no-artifacts"]);
}

fn interop() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/interop");
    let dir = std::env::var_os("DFX_INTEROP_DIR").map_or(default, PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no interop samples at {}", dir.display());
    eprintln!("skipped: no interop samples at {} (set DFX_INTEROP_DIR)", dir.display());
    None
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect()
}

#[test]
fn everything_that_the_existing_runtime_wrote_passes() {
    let Some(dir) = interop() else { return };
    let mut checked = 0;
    for case in entries(&dir).iter().flat_map(|p| entries(p)).flat_map(|p| entries(&p)) {
        let report = check_dir(&case).unwrap();
        assert!(report.complete, "{}: {}", case.display(), report.verdict());
        assert_eq!(codes(&report, Severity::Note).len(), report.findings.len(), "{:#?}", report.findings);
        checked += 1;
    }
    assert!(checked >= 60, "only {checked} samples under {}", dir.display());
}
