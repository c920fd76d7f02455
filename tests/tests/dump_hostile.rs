//! A dump while host, device or link misbehave: it ends, everything is given back, and what the dump holds is true.

use dfx_host_drain::{DumpLevel, Target, TransportKind};
use dfx_sim::run::{self, ClockKind, Rig, RunRequest};
use dfx_sim::workloads::{self, WorkloadOptions};
use dfx_tests::dump::Dump;
use dfx_tests::{PLATFORMS, Run, run_named};
use std::time::Duration;

const WORKLOAD: &str = "paged_attention:16";

fn request(target: Target, fault: &str) -> RunRequest {
    let mut request = RunRequest { target, clock: ClockKind::Virtual, ..RunRequest::new(WORKLOAD, "") };
    request.config.dump_args = DumpLevel::Full;
    // Small, so that there are many buffers and laps.
    request.config.dump_arena_bytes = 1 << 16;
    request.config.timeouts.scheduler = Duration::from_secs(1);
    request.config.timeouts.op_execute = Duration::from_secs(4);
    if !fault.is_empty() {
        request.faults.0.push(fault.parse().expect("a fault"));
    }
    request
}

/// The dump of `run`, but for where in the file payload lies: that is a matter of who was late.
fn placeless(run: &Run) -> Dump {
    let mut dump = Dump::of(run);
    for arg in dump.args.values_mut() {
        arg.entry.as_object_mut().expect("an object").remove("bin_offset");
    }
    dump
}

/// Nothing that is not so, nothing twice, and no silence about what is missing.
#[test]
fn whatever_misbehaves_what_is_in_the_dump_is_true_and_what_is_not_is_counted() {
    for target in PLATFORMS {
        let good = placeless(&run_named(request(target, "")));
        for fault in [
            "dup-ready",
            "reorder-ready",
            "corrupt-count",
            "corrupt-pointer",
            "corrupt-index",
            "copy-fail-once",
            "copy-fail",
            "host-stall:50",
            "consumer-dead",
            "level-mismatch:1",
        ] {
            let what = format!("{fault} on {}", target.name());
            let run = run_named(request(target, fault));
            let report = run.report();
            assert_eq!(run.outcome.leaked, 0, "{what}");
            for stream in &report.streams {
                assert!(stream.produced.is_none() || stream.conserved(), "{what}: {stream:?}");
            }
            if !run.outputs().join("args_dump/args_dump.json").exists() {
                assert!(!report.complete, "{what}: nothing is there");
                continue;
            }
            let dump = placeless(&run);
            assert!(!report.complete || dump == good, "{what}: it says that it is complete");
            let mut whole = 0;
            for (place, arg) in &dump.args {
                let expected = good.args.get(place).unwrap_or_else(|| panic!("{what}: {}", arg.entry));
                if arg.entry["truncated"] == false && arg.entry["overwritten"] == false {
                    assert!(arg.bytes == expected.bytes, "{what}: {} has other bytes", arg.entry);
                    whole += 1;
                }
            }
            eprintln!("{what}: {whole} of {} whole, complete: {}", good.args.len(), report.complete);
        }
    }
}

/// Registration or allocation of any block fails: an error before the launch, and nothing stays behind.
#[test]
fn a_session_that_cannot_be_set_up_leaves_nothing_behind() {
    let program = workloads::build(WORKLOAD, &WorkloadOptions::default()).expect("a workload");
    for target in PLATFORMS {
        for fault in ["alloc-fail", "register-fail"] {
            let mut refused = 0;
            for k in 1..=12 {
                let dir = tempfile::tempdir().expect("a directory");
                let request =
                    RunRequest { work_dir: dir.path().into(), ..request(target, &format!("{fault}:{k}")) };
                let rig = Rig::new(target);
                match run::run_program(&request, program.clone(), &rig, &|_| {}) {
                    Ok(outcome) => assert!(outcome.report.complete, "{fault}:{k}: beyond the last block"),
                    Err(error) => {
                        refused += 1;
                        assert!(error.to_string().contains("injected"), "{fault}:{k}: {error}");
                        assert!(!request.output_dir().exists(), "{fault}:{k}");
                    }
                }
                let left = (rig.device.live_allocations(), rig.device.live_registrations());
                assert_eq!(left, (0, 0), "{fault}:{k} on {}", target.name());
            }
            // Where the host only copies, nothing is registered.
            let registers = fault == "alloc-fail" || target.transport() == TransportKind::Svm;
            assert_eq!(refused > 0, registers, "{fault} on {}", target.name());
        }
    }
}
