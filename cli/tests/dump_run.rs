//! `dfx run` with the args dump: how it ends, and what it says.

#[allow(dead_code)] // each test binary uses its part
mod common;

use common::Place;
use serde_json::Value;

const KV: [&str; 7] =
    ["run", "kv_cache:1", "--clock=virtual", "--dump-budget=42MB/s", "--op-timeout=45s", "--work-dir", "w"];

fn report(place: &Place) -> Value {
    let text = std::fs::read(place.join("w/dfx_outputs/run.json")).expect("run.json");
    serde_json::from_slice(&text).expect("JSON")
}

/// Issue 4, point 3: everything at once is too much, and the summary says what to do; it is not killed.
#[test]
fn a_cache_that_is_too_large_is_shed_and_the_remedy_is_named() {
    let place = Place::new();
    let said = place.dfx(&[&KV[..], &["--dump-args=2"]].concat());
    assert_eq!(said.status, Some(3), "{said:?}");
    let report = report(&place);
    assert_eq!(
        (&report["killed"], &report["complete"], &report["levels"]["dump_args"]),
        (&false.into(), &false.into(), &2.into())
    );
    assert!(report["dump"]["payload_bytes_shed"].as_u64() > Some(0), "{report}");
    assert!(said.err.contains("--dump-args=1 and --dump-tag NAME"), "{said:?}");
    assert!(said.out.contains("dumped payload: ") && said.out.contains("(ceiling 42.0 MB/s)"), "{said:?}");
    assert!(said.err.contains("to look at it: dfx dump w/dfx_outputs"), "{said:?}");
}

/// The remedy.
#[test]
fn a_marked_probe_loses_nothing() {
    let place = Place::new();
    let said = place.dfx(&[&KV[..], &["--dump-args", "--dump-tag", "probe"]].concat());
    assert_eq!(said.status, Some(0), "{said:?}");
    assert_eq!(report(&place)["dump"]["payload_bytes_written"], 128 << 20);
    assert!(!said.err.contains("warning"), "{said:?}");
}

#[test]
fn a_mark_that_matches_nothing_is_warned_of_by_name_and_is_no_loss() {
    let place = Place::new();
    let said = place.dfx(&[
        "run",
        "vector_example",
        "--clock=virtual",
        "--dump-args=3",
        "--dump-tag=nobody",
        "--work-dir=w",
    ]);
    assert_eq!(said.status, Some(0), "{said:?}");
    assert!(said.err.contains("warning: the mark `nobody` matched no dumped argument"), "{said:?}");
    assert_eq!(report(&place)["anomalies"]["unmatched_mark:nobody"], 1);
    let inert = place.dfx(&[
        "run",
        "vector_example",
        "--clock=virtual",
        "--dump-args=2",
        "--dump-tag=nobody",
        "--work-dir=w",
    ]);
    assert_eq!(inert.status, Some(0), "{inert:?}");
    assert!(inert.err.contains("--dump-tag does nothing at --dump-args=2"), "{inert:?}");
}

#[test]
fn values_that_cannot_be_had_are_refused_by_name_before_anything_runs() {
    let place = Place::new();
    for (switch, field) in [
        ("--dump-args=4", "enable_dump_args"),
        ("--dump-args=-1", "enable_dump_args"),
        ("--dump-budget=0", "dump_budget"),
        ("--link-rate=fast", "link_rate"),
    ] {
        let said = place.dfx(&["run", "vector_example", switch]);
        assert!(matches!(said.status, Some(1 | 2)), "{switch}: {said:?}");
        assert!(said.err.contains(field), "{switch}: {said:?}");
    }
    assert_eq!(place.contents(), Vec::<String>::new());
}

/// A slow link is a slow drain: the same dump takes the host longer, not the device.
#[test]
fn the_link_has_a_rate_in_virtual_time() {
    let place = Place::new();
    let rate = |link: &str| {
        let said =
            place.dfx(&["run", "vector_example", "--clock=virtual", "--dump-args=2", "--work-dir=w", link]);
        assert_eq!(said.status, Some(0), "{said:?}");
        report(&place)["dump"]["drain_rate_bytes_per_s"].as_u64().expect("a rate")
    };
    assert!((9_000_000..=10_000_000).contains(&rate("--link-rate=10MB/s")));
    assert!(rate("--link-rate=auto") > 1_000_000_000);
}
