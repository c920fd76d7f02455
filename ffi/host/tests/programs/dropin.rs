//! The C++ headers that stand in for a runtime's host collectors, driven as its device runner drives them, with our device
//! library on the other side. Where the runtime's own headers would be, `tests/ffi/dropin` has the few types they need.

use crate::build::{Platform, SANITIZERS, dropin_libs, host_libs, root, succeed};
use dfx_trace::check::{CheckReport, check_dir};
use std::path::{Path, PathBuf};
use std::process::Command;

fn build(platform: Platform, sanitized: bool, dir: &Path) -> PathBuf {
    let name = platform.name();
    let program = dir.join(format!("dropin_{name}"));
    let mut cc = Command::new("c++");
    cc.args(["-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    if sanitized {
        cc.args(SANITIZERS);
    }
    let upper = name.to_uppercase();
    cc.arg(format!("-DDFX_PLATFORM_{upper}")).arg(format!("-DDFX_DROPIN_TARGET=DFX_TARGET_{upper}SIM"));
    // As a runtime is built: our directory before its own.
    for include in ["ffi/include/dropin", "ffi/include", "tests/ffi/dropin"] {
        cc.arg("-I").arg(root().join(include));
    }
    cc.arg(root().join("tests/ffi/dropin_host.cpp"))
        .arg(root().join("ffi/include/dropin/dep_gen_replay.cpp"));
    cc.arg(host_libs().join("libdfx.a"));
    cc.arg(dropin_libs().join(format!("libdfx_device_{name}.a")));
    cc.args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    succeed(&mut cc);
    program
}

/// What `tests/ffi/dropin_device.hpp` records of two tasks, but for submits, which the host may have made. The last two
/// the device holds back until it flushes.
const RECORDED: [(&str, u64); 7] = [
    ("core_rows", 2),
    ("dump_args", 4),
    ("pmu_rows", 2),
    ("scope_samples", 2),
    ("deps_edges", 2),
    ("aicpu_rows", 2),
    ("scheduler_phases", 2),
];

fn has(report: &CheckReport, expected: &[(&str, u64)]) {
    for (name, count) in expected {
        assert_eq!(report.counts.get(name), Some(count), "{name}");
    }
}

fn runs(platform: Platform, sanitized: bool) {
    let dir = tempfile::tempdir().unwrap();
    let program = build(platform, sanitized, dir.path());
    succeed(Command::new(program).arg(dir.path()));
    for launch in ["first", "second"] {
        let out = dir.path().join(launch);
        let report = check_dir(&out).unwrap();
        assert!(report.complete && report.has_run_json, "{platform:?} {launch}: {:#?}", report.findings);
        has(&report, &RECORDED);
        let run = std::fs::read_to_string(out.join("run.json")).unwrap();
        let run: serde_json::Value = serde_json::from_str(&run).unwrap();
        let levels = serde_json::json!(
            {"chip_swimlane": 4, "dep_gen": true, "pmu": 4, "scope_stats": true, "dump_args": 2});
        assert_eq!(run["levels"], levels, "five sessions make one run.json");
        let swimlane = std::fs::read_to_string(out.join("chip_swimlane_records.json")).unwrap();
        let swimlane: serde_json::Value = serde_json::from_str(&swimlane).unwrap();
        assert_eq!(swimlane["metadata"]["core_types"], serde_json::json!(["aic", "aiv"]));
        assert_eq!(swimlane["aicore_tasks"].as_array().unwrap().len(), 2);
        let host = launch == "second";
        assert_eq!(swimlane.get("host_orchestrator_phases").is_some(), host);
        assert_eq!(swimlane.get("host_device_uploads").is_some(), host);
        assert_eq!(swimlane["metadata"].get("clock_anchors").is_some(), host);
    }
    // Nothing was flushed, and the rest was recovered; that the device hung makes the run incomplete.
    let report = check_dir(&dir.path().join("hung")).unwrap();
    assert!(!report.complete && report.has_run_json);
    has(&report, &RECORDED[..5]);
}

#[test]
fn a_runner_written_for_the_runtimes_collectors_leaves_all_artifacts_even_of_a_hung_device() {
    for platform in [Platform::A2a3, Platform::A5] {
        runs(platform, false);
    }
}

#[test]
fn the_same_with_the_sanitizers() {
    runs(Platform::A5, true);
}
