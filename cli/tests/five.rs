//! The switches of the collectors beside the swimlane, as the binary takes them.

mod common;

use common::{Place, Said};
use serde_json::Value;

fn run(place: &Place, args: &[&str]) -> Said {
    let mut all = vec!["run", "vector_example", "--work-dir", "w", "--clock", "virtual"];
    all.extend(args);
    place.dfx(&all)
}

fn report(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.join("w/dfx_outputs/run.json")).expect("run.json is there");
    serde_json::from_str(&text).expect("it is JSON")
}

fn artifacts(place: &Place) -> Vec<String> {
    let report = report(place);
    let paths = report["artifacts"].as_array().expect("a list").iter();
    paths.map(|entry| entry["path"].as_str().expect("a path").to_owned()).collect()
}

/// Each switch leaves its own artifact and line of the summary, and no other.
#[test]
fn each_switch_leaves_its_artifact() {
    let cases: [(&[&str], &[&str], &[&str]); 5] = [
        (&["--enable-dep-gen"], &["deps.json"], &["captured submits"]),
        (&["--enable-pmu"], &["pmu.csv"], &["PMU rows"]),
        (&["--enable-scope-stats"], &["scope_stats/scope_stats.jsonl"], &["scope samples"]),
        (
            &["--enable-scope-stats", "--enable-dep-gen"],
            &["deps.json", "scope_stats/scope_stats.jsonl"],
            &["captured submits", "scope samples"],
        ),
        (
            &["--enable-chip-swimlane", "--enable-dep-gen", "--enable-pmu=4", "--enable-scope-stats"],
            &["chip_swimlane_records.json", "deps.json", "pmu.csv", "scope_stats/scope_stats.jsonl"],
            &["AICore tasks", "captured submits", "PMU rows", "scope samples"],
        ),
    ];
    for platform in ["a2a3sim", "a5sim"] {
        for (switches, expected, lines) in cases {
            let place = Place::new();
            let mut args = vec!["--platform", platform];
            args.extend(switches);
            let said = run(&place, &args);
            assert_eq!(said.status, Some(0), "{said:?}");
            assert_eq!(artifacts(&place), expected, "{switches:?}");
            let streams = ["AICore tasks", "captured submits", "PMU rows", "scope samples"];
            for stream in streams {
                assert_eq!(said.out.contains(stream), lines.contains(&stream), "{stream}: {}", said.out);
            }
            let check = place.dfx(&["check", "w"]);
            assert_eq!(check.status, Some(0), "{check:?}");
        }
    }
}

/// `--enable-pmu` alone is event 2; a number is that event; 0 is off; an unknown one is 2 and says so.
#[test]
fn the_pmus_event_is_the_one_that_was_asked_for() {
    for (switch, event, warns) in [
        ("--enable-pmu", 2, false),
        ("--enable-pmu=1", 1, false),
        ("--enable-pmu=8", 8, false),
        ("--enable-pmu=3", 2, true),
        ("--enable-pmu=99", 2, true),
    ] {
        let place = Place::new();
        let said = run(&place, &[switch]);
        assert_eq!(said.status, Some(0), "{said:?}");
        assert_eq!(report(&place)["levels"]["pmu"], event, "{switch}");
        assert_eq!(said.err.contains("PIPE_UTILIZATION"), warns, "{switch}: {}", said.err);
        let csv = std::fs::read_to_string(place.join("w/dfx_outputs/pmu.csv")).expect("it is there");
        assert!(csv.lines().skip(1).all(|row| row.ends_with(&format!(",{event}"))), "{switch}");
        assert_eq!(csv.lines().count(), 1 + 5, "{switch}: a row per task");
    }
    let place = Place::new();
    let said = run(&place, &["--enable-pmu=0"]);
    assert_eq!((said.status, place.contents()), (Some(0), Vec::new()), "{said:?}");
    // The bare flag does not swallow what follows.
    let said = place.dfx(&["run", "--enable-pmu", "vector_example", "--work-dir", "w"]);
    assert_eq!(said.status, Some(0), "{said:?}");
    for bad in ["--enable-pmu=x", "--enable-pmu=-1", "--enable-dep-gen=1", "--enable-scope-stats=yes"] {
        let said = run(&Place::new(), &[bad]);
        assert_eq!(said.status, Some(2), "{bad}: {said:?}");
    }
}

/// Counters that are another task's: what is missing is counted, and the run exits as incomplete.
#[test]
fn a_stale_counter_slot_makes_the_run_incomplete() {
    let place = Place::new();
    let said = run(&place, &["--platform", "a5sim", "--enable-pmu", "--inject", "pmu-stale:2"]);
    assert_eq!(said.status, Some(3), "{said:?}");
    let report = report(&place);
    assert_eq!(report["complete"], false);
    let mismatched: u64 = report["streams"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| s["mismatched"].as_u64().expect("a number"))
        .sum();
    assert_eq!(mismatched, 1);
    assert!(said.err.contains("INCOMPLETE"), "{}", said.err);
    assert_eq!(place.dfx(&["check", "w"]).status, Some(3));
}

/// The new workloads run, check their results and say so.
#[test]
fn the_workloads_run_with_everything_on() {
    for workload in ["scopes", "paged_attention", "paged_attention:3"] {
        let place = Place::new();
        let mut args = vec!["run", workload, "--work-dir", "w"];
        args.extend(["--enable-chip-swimlane", "--enable-dep-gen", "--enable-pmu", "--enable-scope-stats"]);
        let said = place.dfx(&args);
        assert_eq!(said.status, Some(0), "{said:?}");
        assert!(said.err.contains("results: as they should be"), "{}", said.err);
        assert_eq!(place.dfx(&["check", "w"]).status, Some(0));
    }
    let said = Place::new().dfx(&["run", "paged_attention:0"]);
    assert_eq!(said.status, Some(1), "{said:?}");
}

/// A change to any of the files is found.
#[test]
fn check_finds_a_change_to_each_artifact() {
    let place = Place::new();
    let all = ["--enable-dep-gen", "--enable-pmu", "--enable-scope-stats"];
    assert_eq!(run(&place, &all).status, Some(0));
    for name in ["deps.json", "pmu.csv", "scope_stats/scope_stats.jsonl"] {
        let path = place.join("w/dfx_outputs").join(name);
        let good = std::fs::read_to_string(&path).expect("it is there");
        let cut = good.len() * 2 / 3;
        for bad in [good[..cut].to_owned(), good.replacen('1', "2", 1), String::new()] {
            place.write(&format!("w/dfx_outputs/{name}"), &bad);
            let said = place.dfx(&["check", "w"]);
            assert_eq!(said.status, Some(3), "{name}: {said:?}");
            assert!(said.err.contains(name), "{name}: {said:?}");
        }
        std::fs::write(&path, good).expect("it can be written");
    }
    assert_eq!(place.dfx(&["check", "w"]).status, Some(0));
}
