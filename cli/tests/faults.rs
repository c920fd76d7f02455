//! `dfx run --inject`: how the binary ends, and what a person reads at two in the morning.

#[allow(dead_code)] // each test binary uses its part
mod common;

use common::{Place, Said};
use dfx_sim::faults;
use serde_json::Value;

const RECORDS: &str = "chip_swimlane_records.json";

/// Runs a flood on virtual time with the faults of `injected`.
fn run(place: &Place, platform: &str, injected: &[&str]) -> Said {
    let (backend, level) = match platform {
        "a2a3sim" => ("Ascend910B", "--enable-chip-swimlane"),
        _ => ("Ascend950", "--enable-chip-swimlane"),
    };
    let mut args =
        vec!["run", "flood:6000", level, "--clock", "virtual", "--work-dir", "w", "--backend-type", backend];
    args.extend(["--execution-mode", "SIM", "--scheduler-timeout", "300ms", "--op-timeout", "2s"]);
    injected.iter().for_each(|fault| args.extend(["--inject", fault]));
    place.dfx(&args)
}

fn outputs(place: &Place) -> Vec<String> {
    dfx_files(&place.join("w/dfx_outputs"))
}

fn dfx_files(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A fault, the exit status on either platform, the files, and words that must be said.
type Case = (&'static str, [i32; 2], &'static [&'static str], &'static [&'static str]);

const BOTH: &[&str] = &[RECORDS, "run.json"];
const REPORT: &[&str] = &["run.json"];

const CASES: &[Case] = &[
    ("copy-fail-once", [0, 0], BOTH, &["complete: nothing dropped, nothing lost", "1 x transport_retries"]),
    ("copy-fail", [3, 3], REPORT, &["INCOMPLETE", "totals of", "see to the device and its driver"]),
    ("register-fail:1", [1, 0], &[], &[]),
    ("register-fail-small", [0, 0], BOTH, &["complete: nothing dropped"]),
    ("alloc-fail:1", [1, 1], &[], &["allocation of", "nothing is left allocated", "run without diagnostics"]),
    ("host-stall:50", [0, 0], BOTH, &["complete: nothing dropped"]),
    ("dry-lane:2", [0, 0], BOTH, &["complete: nothing dropped", "transport_retries"]),
    ("consumer-dead", [3, 3], BOTH, &["host_thread_panicked", "\"service\" panicked", "report it"]),
    (
        "aicpu-dies:5000",
        [3, 3],
        BOTH,
        &["device_error", "declared a hang", "the thread that had them is dead"],
    ),
    ("core-hang:5000", [3, 3], BOTH, &["device_error", "declared a hang", "core ", "Running"]),
    (
        "enospc:chip_swimlane_records.json",
        [1, 1],
        REPORT,
        &[RECORDS, "no storage space", "free space on that file system"],
    ),
    (
        "enospc:run.json",
        [1, 1],
        &[RECORDS],
        &["run.json", "no storage space", "free space on that file system"],
    ),
    // The PMU is off here: its counters are nobody's.
    ("pmu-stale:5000", [0, 0], BOTH, &["complete: nothing dropped"]),
    ("dup-ready", [0, 0], BOTH, &["complete: nothing dropped", "duplicate_ready_entries"]),
    ("reorder-ready", [0, 0], BOTH, &["complete: nothing dropped"]),
    ("corrupt-count", [3, 3], BOTH, &["corrupt", "of core ", "something else writes to the shared memory"]),
    ("corrupt-pointer", [3, 3], BOTH, &["corrupt", "pointers) and were passed over", "another revision"]),
    ("corrupt-index", [3, 3], BOTH, &["corrupt", "lanes,", "another revision"]),
    ("level-mismatch:2", [3, 3], BOTH, &["header says level 2, but 4 was asked for"]),
    ("level-mismatch:9", [3, 3], REPORT, &["header says level 9, but 4 was asked for"]),
];

/// Issue 3, point 2: the exit status of cli.md, the files, the words, and `dfx check`'s opinion.
#[test]
fn every_fault_has_its_exit_status_its_files_and_its_words() {
    for (spelling, _) in faults::ALL.iter().filter(|(spelling, _)| *spelling != "kill:MS") {
        let name = spelling.split(':').next().expect("a name");
        assert!(
            CASES.iter().any(|case| case.0.split(':').next() == Some(name)),
            "{name} is not among the cases"
        );
    }
    for (platform, which) in [("a2a3sim", 0), ("a5sim", 1)] {
        for &(fault, statuses, files, words) in CASES {
            let place = Place::new();
            let said = run(&place, platform, &[fault]);
            let what = format!("{fault} on {platform}: {said:?}");
            let status = statuses[which];
            assert_eq!(said.status, Some(status), "{what}");
            let ran = status != 1 || !files.is_empty();
            let files = if fault == "register-fail:1" && status == 0 { BOTH } else { files };
            assert_eq!(outputs(&place), files, "{what}");
            for word in words {
                assert!(said.err.contains(word), "{word:?} is not said: {what}");
            }
            if status == 1 {
                // One line that names it and the remedy, and it is the last.
                let errors: Vec<_> = said.err.lines().filter(|line| line.starts_with("error: ")).collect();
                assert_eq!(errors.len(), 1, "{what}");
                assert_eq!(said.err.lines().last(), errors.first().copied(), "{what}");
            }
            if ran {
                let checked = place.dfx(&["check", "w"]);
                // Without a run.json only what lies there can be judged, and the verdict says so.
                let alone = files == [RECORDS] && checked.out.contains("no run.json");
                assert_eq!(checked.status == Some(0), status == 0 || alone, "{what}\n{checked:?}");
            }
            if status != 0 && files.contains(&"run.json") {
                let text = std::fs::read(place.join("w/dfx_outputs/run.json")).expect("it is there");
                let report: Value = serde_json::from_slice(&text).expect("and whole");
                assert_eq!(report["complete"], false, "{what}");
                let reasons = report["reasons"].as_array().expect("reasons");
                // What is missing, and what to do: no reason is a bare statement.
                for reason in reasons {
                    let message = reason["message"].as_str().expect("a message");
                    assert!(message.contains([':', ';']), "{message} in {what}");
                }
            }
        }
    }
}

/// The first reason that is printed is the cause, not one of forty consequences.
#[test]
fn the_first_reason_printed_is_the_cause() {
    for (fault, code) in
        [("corrupt-index", "corrupt"), ("core-hang:5000", "device_error"), ("consumer-dead", "host_thread")]
    {
        let place = Place::new();
        let said = run(&place, "a2a3sim", &[fault]);
        let mut lines = said.err.lines().skip_while(|line| !line.starts_with("INCOMPLETE"));
        let first = lines.nth(1).unwrap_or_default().trim_start();
        assert!(first.starts_with(code), "{fault}: {first:?} in {said:?}");
    }
}

#[test]
fn faults_can_be_combined_and_a_wrong_one_is_refused_with_the_right_ones() {
    let place = Place::new();
    let said = run(&place, "a2a3sim", &["dup-ready", "core-hang:5000"]);
    assert_eq!(said.status, Some(3), "{said:?}");
    assert!(said.err.contains("device_error") && said.err.contains("duplicate_ready_entries"), "{said:?}");
    for (fault, word) in [("nonsense", "copy-fail-once"), ("kill", "kill:MS"), ("enospc:x.json", RECORDS)] {
        let place = Place::new();
        let said = run(&place, "a2a3sim", &[fault]);
        assert!(matches!(said.status, Some(1 | 2)) && said.err.contains(word), "{said:?}");
        assert_eq!(outputs(&place), Vec::<String>::new(), "{said:?}");
    }
}
