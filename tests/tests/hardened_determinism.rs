//! Virtual time: the same program, seed and platform give the same bytes, whatever else the machine does.

use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::Target;
use dfx_sim::run::{ClockKind, RunRequest};
use dfx_tests::{A5, LEVELS, PLATFORMS, assert_whole, contents, interop_dir, request, run_named};
use std::collections::BTreeMap;
use std::thread;

fn once(workload: &str, target: Target, level: Level, seed: u64) -> BTreeMap<String, Vec<u8>> {
    let request = RunRequest { clock: ClockKind::Virtual, seed, ..request(workload, target, level) };
    let run = run_named(request);
    let what = format!("{workload} on {} at level {}", target.name(), level as u32);
    assert_whole(&what, &run);
    let files = contents(&run.outputs());
    assert_eq!(files.keys().collect::<Vec<_>>(), ["chip_swimlane_records.json", "run.json"], "{what}");
    files
}

/// Two runs at the same time, so that they disturb one another's real time.
fn assert_same(workload: &str, target: Target, level: Level) {
    let run = || once(workload, target, level, 7);
    let (first, second) = thread::scope(|scope| {
        let other = scope.spawn(run);
        (run(), other.join().expect("the other run"))
    });
    let what = format!("{workload} on {} at level {}", target.name(), level as u32);
    assert!(first == second, "{what}: two runs with one seed differ");
}

/// Issue 3, point 1. `DFX_FLOOD` makes the flood larger.
#[test]
fn the_same_seed_gives_the_same_bytes_for_every_workload_on_both_platforms() {
    let flood = std::env::var("DFX_FLOOD").unwrap_or_else(|_| "6000".into());
    let mut workloads: Vec<String> = [
        "vector_example",
        "matmul",
        "chain:600",
        "spmd:40",
        "mixed",
        "paged_attention",
        "scopes",
        "kv_cache",
    ]
    .map(String::from)
    .into();
    workloads.push(format!("flood:{flood}"));
    if let Some(dir) = interop_dir() {
        let deps = dir.join("a2a3_paged_attention/deps.json");
        if deps.is_file() {
            workloads.push(format!("graph:{}", deps.display()));
        }
    }
    let names = workloads.iter().map(|workload| workload.split(':').next());
    let listed = dfx_sim::workloads::ALL.iter().map(|(spelling, _)| spelling.split([':', '[']).next());
    for name in listed.filter(|name| *name != Some("graph")) {
        assert!(names.clone().any(|known| known == name), "{name:?} is not among the workloads of this test");
    }
    for workload in &workloads {
        for target in PLATFORMS {
            assert_same(workload, target, Level::OrchPhases);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_every_level() {
    for level in LEVELS {
        assert_same("mixed", A5, level);
    }
}

/// On virtual time a run's times are virtual too: nothing in the files comes from the real clock.
#[test]
fn a_virtual_run_is_dated_to_the_epoch_and_takes_as_long_as_its_program() {
    for target in PLATFORMS {
        let request =
            RunRequest { clock: ClockKind::Virtual, ..request("chain:1000", target, Level::OrchPhases) };
        let report = run_named(request).report();
        assert_eq!(report.started_at, "1970-01-01T00:00:00Z");
        // A thousand kernels of 2 µs one after the other, and what it takes to hand them over.
        assert!((2_000_000..8_000_000).contains(&report.op_wall_ns), "{} ns", report.op_wall_ns);
        assert!(report.wall_ns >= report.op_wall_ns, "{report:?}");
    }
}
