//! The binary on its good days and on its bad ones: what it leaves in the work directory, and how it ends.

mod common;

use common::{Place, Said};
use dfx_host_drain::artifact::is_temp_name;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const RECORDS: &str = "dfx_outputs/chip_swimlane_records.json";

fn json(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn complete(said: &Said) {
    assert_eq!(said.status, Some(0), "{said:?}");
}

/// The one command of the README: records, `run.json`, results checked, complete.
#[test]
fn a_run_leaves_its_records_and_its_account_and_says_so() {
    let place = Place::new();
    let said = place.dfx(&["run", "vector_example", "--enable-chip-swimlane"]);
    complete(&said);
    assert!(said.err.contains("results: as they should be"), "{said:?}");
    assert!(said.err.contains("complete: nothing dropped, nothing lost"), "{said:?}");
    let contents = place.contents();
    let dir = contents.iter().find(|path| path.ends_with("dfx_outputs")).expect("the default work directory");
    assert!(dir.starts_with("build_output/vector_example_"), "{contents:?}");
    assert_eq!(json(&place.join(&format!("{dir}/run.json")))["complete"], true);
    let checked = place.dfx(&["check"]);
    complete(&checked);
    assert!(checked.err.contains(dir) && checked.out.starts_with("complete: 5 core rows"), "{checked:?}");
}

/// Without a switch nothing is recorded and nothing is written.
#[test]
fn a_run_without_a_switch_leaves_nothing() {
    let place = Place::new();
    for args in [&["run", "vector_example"][..], &["run", "vector_example", "--chip-swimlane-level", "0"]] {
        let said = place.dfx(args);
        complete(&said);
        assert!(said.err.contains("nothing was recorded"), "{said:?}");
        assert_eq!(place.contents(), Vec::<String>::new());
    }
}

/// Behaviour §1: names with spaces, quotes and non-ASCII work, nested and new; the command that is printed can be pasted.
#[test]
fn any_name_of_a_work_directory_works_and_can_be_pasted_from_the_summary() {
    let place = Place::new();
    for name in ["a b", "it's \"quoted\"", "größe/漢字", "deep/er/new", "$HOME;&|*", "-dash"] {
        let work_dir = format!("--work-dir={name}");
        complete(&place.dfx(&["run", "vector_example", "--enable-chip-swimlane", &work_dir]));
        assert!(place.join(name).join(RECORDS).is_file(), "{name}");
    }
    for name in ["a b", "it's \"quoted\"", "größe/漢字", "$HOME;&|*"] {
        let said = place.dfx(&["run", "vector_example", "--enable-chip-swimlane", "--work-dir", name]);
        let line = said.err.lines().find_map(|line| line.strip_prefix("to check it:  dfx "));
        let line = line.unwrap_or_else(|| panic!("{said:?}"));
        let script = format!("'{}' {line}", env!("CARGO_BIN_EXE_dfx"));
        let pasted =
            std::process::Command::new("sh").args(["-c", &script]).current_dir(place.path()).output();
        let pasted = Said::from(pasted.expect("there is a shell"));
        assert!(pasted.status == Some(0) && pasted.out.starts_with("complete"), "{line}: {pasted:?}");
    }
}

/// Behaviour §1: artifacts of an earlier run never pose as this run's.
#[test]
fn nothing_of_an_earlier_run_stays_in_the_directory() {
    let place = Place::new();
    let run = |workload: &str, level: &str| {
        place.dfx(&["run", workload, "--chip-swimlane-level", level, "--work-dir", "w"])
    };
    complete(&run("flood:300", "4"));
    place.write("w/dfx_outputs/deps.json", "of an earlier run");
    place.write("w/dfx_outputs/.run.json.tmp-1-0", "of a killed run");
    place.write("w/dfx_outputs/mine.txt", "mine");
    complete(&run("flood:20", "1"));
    let expected = ["w", "w/dfx_outputs", RECORDS, "w/dfx_outputs/mine.txt", "w/dfx_outputs/run.json"]
        .map(|path| if path == RECORDS { format!("w/{RECORDS}") } else { path.to_owned() });
    assert_eq!(place.contents(), expected);
    let records = json(&place.join("w").join(RECORDS));
    assert_eq!(records["aicore_tasks"].as_array().map(Vec::len), Some(20));
    assert_eq!(json(&place.join("w/dfx_outputs/run.json"))["levels"]["chip_swimlane"], 1);
}

/// Behaviour §1: with more than one round diagnostics are off, and a message says so.
#[test]
fn with_more_rounds_than_one_diagnostics_are_off_and_a_message_says_so() {
    let place = Place::new();
    let said = place.dfx(&["run", "flood:100", "--rounds", "3", "--enable-chip-swimlane", "--work-dir", "w"]);
    complete(&said);
    assert!(said.err.contains("--rounds 3") && said.err.contains("diagnostics are off"), "{said:?}");
    assert_eq!(said.out.lines().filter(|line| line.starts_with("round ")).count(), 3, "{said:?}");
    assert_eq!(place.contents(), Vec::<String>::new());
}

/// Behaviour §1: the old spellings work and warn.
#[test]
fn the_old_spellings_work_and_warn() {
    let place = Place::new();
    let args = ["run", "vector_example", "--platform", "a5sim", "--enable-l2-swimlane", "--work-dir", "w"];
    let said = place.dfx(&args);
    complete(&said);
    let warnings: Vec<&str> = said.err.lines().filter(|line| line.contains("DeprecationWarning")).collect();
    assert_eq!(warnings.len(), 2, "{said:?}");
    assert!(warnings[0].contains("--platform") && warnings[1].contains("--enable-l2-swimlane"), "{said:?}");
    let report = json(&place.join("w/dfx_outputs/run.json"));
    assert_eq!((&report["platform"], &report["levels"]["chip_swimlane"]), (&"a5sim".into(), &4.into()));
    let said = place.dfx(&[
        "run",
        "vector_example",
        "--backend-type",
        "Ascend950",
        "--execution-mode",
        "SIM",
        "--enable-chip-swimlane",
        "--work-dir",
        "v",
    ]);
    complete(&said);
    assert!(!said.err.contains("DeprecationWarning"), "{said:?}");
    assert_eq!(json(&place.join("v/dfx_outputs/run.json"))["platform"], "a5sim");
}

/// A hang: exit status 3, and the files are complete up to it and say why there is no more.
#[test]
fn after_a_hang_the_exit_status_is_3_and_the_files_say_why() {
    let place = Place::new();
    for platform in ["a2a3sim", "a5sim"] {
        let said = place.dfx(&[
            "run",
            "chain:2000",
            "--enable-chip-swimlane",
            "--platform",
            platform,
            "--scheduler-timeout",
            "500ms",
            "--inject",
            "core-hang:1301",
            "--work-dir",
            "w",
        ]);
        assert_eq!(said.status, Some(3), "{said:?}");
        assert!(said.err.contains("INCOMPLETE") && said.err.contains("no progress for 500ms"), "{said:?}");
        let report = json(&place.join("w/dfx_outputs/run.json"));
        assert_eq!(report["complete"], false);
        let reasons = report["reasons"].as_array().expect("a list");
        assert!(reasons.iter().any(|reason| reason["code"] == "device_error"), "{reasons:#?}");
        let records = json(&place.join("w").join(RECORDS));
        assert_eq!(records["aicore_tasks"].as_array().map(Vec::len), Some(1301), "{platform}");
        assert_eq!(records["aicpu_tasks"].as_array().map(Vec::len), Some(1301), "{platform}");
        let checked = place.dfx(&["check", "w"]);
        assert_eq!(checked.status, Some(3), "{checked:?}");
        assert!(checked.out.starts_with("INCOMPLETE"), "{checked:?}");
    }
}

/// A reader that leaves early ends nothing: no panic, the same exit status, all files.
#[test]
fn a_closed_pipe_is_not_a_failure() {
    let place = Place::new();
    let run = ["run", "vector_example", "--enable-chip-swimlane", "--work-dir", "w"];
    for args in [&run[..], &["check", "w"], &["check", "--json", "w"]] {
        let mut command = place.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{args:?}: {err}");
        assert!(!err.contains("panicked"), "{args:?}: {err}");
    }
    complete(&place.dfx(&["check", "w"]));
}

/// Starts a long run in `w`, kills it when `when` says so, and checks what is left: complete files under final names, or
/// none.
fn kill(place: &Place, when: impl Fn(&Path, Duration) -> bool) {
    let mut command = place.command(&["run", "flood:150000", "--enable-chip-swimlane", "--work-dir", "w"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let (dir, begun) = (place.join("w/dfx_outputs"), Instant::now());
    while !when(&dir, begun.elapsed()) && child.try_wait().expect("it is ours").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // It may have ended by itself on a fast machine: then everything is complete.
    let _ = child.kill();
    child.wait().expect("it ends");
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.as_str() {
            "chip_swimlane_records.json" => {
                let rows = json(&entry.path())["aicore_tasks"].as_array().map(Vec::len);
                assert_eq!(rows, Some(150_000));
            }
            "run.json" => {
                assert_eq!(json(&entry.path())["complete"], true);
                assert!(dir.join("chip_swimlane_records.json").is_file(), "run.json is written last");
            }
            _ => assert!(is_temp_name(&name), "{name}"),
        }
    }
}

/// Behaviour §8: killed at any time, a run leaves complete files under their final names, or none; the next run in the
/// directory clears the rest away.
#[test]
fn a_killed_run_leaves_no_half_written_file_under_a_final_name() {
    let place = Place::new();
    for after in [5, 60, 400] {
        kill(&place, |_, time| time >= Duration::from_millis(after));
    }
    // While the records are being written, at once and a little later.
    let writing = |dir: &Path| {
        let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
        names.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with(".chip_swimlane"))
    };
    kill(&place, |dir, _| writing(dir));
    kill(&place, |dir, _| {
        let there = writing(dir);
        std::thread::sleep(Duration::from_millis(if there { 40 } else { 0 }));
        there
    });
    complete(&place.dfx(&["run", "vector_example", "--enable-chip-swimlane", "--work-dir", "w"]));
    complete(&place.dfx(&["check", "w"]));
    let left = place.contents();
    assert_eq!(
        left,
        ["w", "w/dfx_outputs", "w/dfx_outputs/chip_swimlane_records.json", "w/dfx_outputs/run.json"]
    );
}
