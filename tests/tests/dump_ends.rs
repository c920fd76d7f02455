//! Dumps that do not go well: too much payload, a hang, a full disk.

use dfx_host_drain::{Backpressure, DumpBudget, DumpLevel};
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{Program, SubmitId};
use dfx_sim::run::{ClockKind, Rig, RunRequest};
use dfx_sim::runtime::{Faults, LaunchStatus};
use dfx_tests::dump::{Dump, tree};
use dfx_tests::{A2A3, PLATFORMS, run_named, run_on};
use std::time::Duration;

fn request(workload: &str, level: DumpLevel) -> RunRequest {
    let mut request = RunRequest { clock: ClockKind::Virtual, ..RunRequest::new(workload, "") };
    request.config.dump_args = level;
    request
}

/// The disease and the cure: waits that know no deadline have the watchdog kill the AICPU; ours end before it.
#[test]
fn a_dump_that_blocks_is_killed_where_one_that_sheds_comes_through() {
    for (policy, killed) in [(Backpressure::Block, true), (Backpressure::Lane, false)] {
        let mut request = request("kv_cache", DumpLevel::Full);
        request.config.dump_budget = DumpBudget::Rate(42_000_000);
        request.config.backpressure = policy;
        request.config.timeouts.op_execute = Duration::from_secs(4);
        let run = run_named(request);
        let report = run.report();
        assert_eq!(report.killed, killed, "{policy:?}: {:?}", run.outcome.launch.status);
        assert!(!report.complete && run.outcome.leaked == 0, "{policy:?}");
        if !killed {
            let dump = report.dump.expect("its account");
            assert!(dump.payload_bytes_shed > 0, "{dump:?}");
            assert_eq!(run.outcome.wrong_results, None);
            assert_eq!(Dump::of(&run).args.len(), 64 * 5, "no record is lost");
        }
    }
}

/// `state` becomes 1, then 2, then a kernel hangs.
fn hanging() -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("hanging");
    let step = p.kernel("step", Duration::from_micros(5), |ctx| {
        let state = ctx.tensor(0);
        state.fill_in(0..state.len(), |i| state.f32(i) + 1.0);
    });
    let state = p.host_f32("state", &[8], &[0.0; 8])?;
    for _ in 0..4 {
        p.submit().aiv(step).inout(state).done()?;
    }
    p.build()
}

#[test]
fn after_a_hang_the_outputs_of_what_ran_are_dumped_as_they_stood_and_the_account_says_so() {
    for target in PLATFORMS {
        let mut request = RunRequest { target, ..request("hanging", DumpLevel::Full) };
        request.config.timeouts.scheduler = Duration::from_millis(50);
        let faults = Faults { core_hang: Some(SubmitId(2)), ..Faults::default() };
        let run = run_on(request, hanging().expect("a program"), &Rig { faults, ..Rig::new(target) });
        assert!(matches!(run.outcome.launch.status, LaunchStatus::SchedulerHang { .. }));
        let dump = Dump::of(&run);
        let places: Vec<_> = (0..3).flat_map(|task| [(task, false, 0), (task, true, 0)]).collect();
        assert_eq!(dump.places(), places, "{}", target.name());
        for (task, value) in [(0, 1.0f32), (1, 2.0)] {
            assert_eq!(dump.args[&(task, true, 0)].bytes[..4], value.to_le_bytes());
        }
        assert_eq!(dump.args[&(2, true, 0)].bytes.len(), 32);
        let report = run.report();
        let said = report.reasons.iter().find(|reason| reason.code == "dumped_while_running");
        let said = said.unwrap_or_else(|| panic!("{:#?}", report.reasons));
        assert!(said.count == 1 && said.message.contains("0x2"), "{said:?}");
        assert_eq!(run.outcome.leaked, 0);
    }
}

/// The run comes to its end, no file claims what is not there, and the other artifacts are there.
#[test]
fn on_a_full_disk_there_is_no_half_dump_and_the_rest_is_there() {
    for file in ["args_dump/args.bin", "args_dump/args_dump.json"] {
        let mut request = request("vector_example", DumpLevel::Full);
        request.config.dep_gen = true;
        request.faults.0.push(format!("enospc:{file}").parse().expect("a fault"));
        let run = run_named(request);
        assert_eq!(run.outcome.launch.status, LaunchStatus::Completed, "{file}");
        let report = run.report();
        assert!(!report.complete, "{file}");
        let names: Vec<String> = tree(&run.outputs()).into_keys().collect();
        assert!(
            !names.iter().any(|name| name == file || name == "args_dump/args_dump.json"),
            "{file}: {names:?}"
        );
        assert!(names.iter().any(|name| name == "deps.json"), "{file}: {names:?}");
        assert_eq!(run.outcome.leaked, 0, "{file}");
    }
}

/// What is marked is small: nothing is lost at a rate at which everything would be.
#[test]
fn a_marked_probe_comes_through_whole_at_the_documented_rate() {
    let mut request = RunRequest { target: A2A3, ..request("kv_cache", DumpLevel::Partial) };
    request.config.dump_budget = DumpBudget::Rate(42_000_000);
    request.dump_tags = vec!["probe".into()];
    let run = run_named(request);
    assert!(run.report().complete, "{:#?}", run.report().reasons);
    let dump = Dump::of(&run);
    assert_eq!(dump.args.len(), 128);
    for ((task, after, _), arg) in &dump.args {
        let value = (*task + u64::from(*after)) as f32;
        assert!(arg.bytes.chunks(4).all(|bytes| bytes == value.to_le_bytes()), "task {task}, after: {after}");
    }
}
