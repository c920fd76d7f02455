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

/// What a dump of the first tasks of [`hanging`] holds is true: before, as many as tasks went before; after, one more.
fn assert_true(what: &str, dump: &Dump) {
    for ((task, after, _), arg) in &dump.args {
        let value = (*task + u64::from(*after)) as f32;
        assert!(arg.bytes.chunks(4).all(|bytes| bytes == value.to_le_bytes()), "{what}: {task} {after}");
        assert_eq!((arg.bytes.len(), &arg.entry["truncated"]), (32, &false.into()), "{what}");
    }
}

/// A thread that dies saves nothing: the host finds its buffers, and all that was dumped is there and true.
#[test]
fn after_an_aicpu_thread_died_what_it_had_dumped_is_recovered() {
    for target in PLATFORMS {
        let mut request = RunRequest { target, ..request("hanging", DumpLevel::Full) };
        request.config.timeouts.scheduler = Duration::from_millis(50);
        let faults = Faults { aicpu_dies: Some(SubmitId(3)), ..Faults::default() };
        let run = run_on(request, hanging().expect("a program"), &Rig { faults, ..Rig::new(target) });
        assert_ne!(run.outcome.launch.status, LaunchStatus::Completed);
        let (report, dump) = (run.report(), Dump::of(&run));
        assert!(!report.complete && run.outcome.leaked == 0, "{:#?}", report.reasons);
        for task in 0..3 {
            for after in [false, true] {
                assert!(dump.args.contains_key(&(task, after, 0)), "{}: {task} {after}", target.name());
            }
        }
        assert_true(target.name(), &dump);
        assert!(report.streams.iter().all(|stream| stream.conserved()), "{:#?}", report.streams);
        assert!(report.streams.iter().any(|stream| stream.recovered > 0), "{:#?}", report.streams);
    }
}

/// Killed where it stands by the op-execute timeout: the same, and `run.json` says that it was killed.
#[test]
fn after_the_op_timeout_what_was_dumped_is_recovered() {
    for target in PLATFORMS {
        let mut request = RunRequest { target, ..request("hanging", DumpLevel::Full) };
        request.config.timeouts.op_execute = Duration::from_millis(50);
        let faults = Faults { core_hang: Some(SubmitId(2)), ..Faults::default() };
        let run = run_on(request, hanging().expect("a program"), &Rig { faults, ..Rig::new(target) });
        let (report, dump) = (run.report(), Dump::of(&run));
        assert!(report.killed && !report.complete && run.outcome.leaked == 0, "{:#?}", report.reasons);
        let places = [(0, false, 0), (0, true, 0), (1, false, 0), (1, true, 0), (2, false, 0)];
        assert_eq!(dump.places(), places, "{}", target.name());
        assert_true(target.name(), &dump);
        assert!(report.streams.iter().all(|stream| stream.conserved()), "{:#?}", report.streams);
    }
}

/// More marks than the table has places: said with the remedy, and what found a place is dumped.
#[test]
fn marks_that_find_no_room_are_counted_and_the_others_are_dumped() {
    const PLACES: u32 = 1 << 15;
    const MORE: u32 = 100;
    let mut p = ProgramBuilder::new("marks");
    let k = p.kernel("k", Duration::from_nanos(100), |_| {});
    let x = p.host_f32("x", &[1], &[1.0]).expect("a tensor");
    p.dump_tag(x).expect("its own");
    for _ in 0..PLACES + MORE {
        p.submit().aiv(k).input(x).done().expect("a submit");
    }
    let program = p.build().expect("a program");
    for target in PLATFORMS {
        let request = RunRequest { target, ..request("marks", DumpLevel::Partial) };
        let run = run_on(request, program.clone(), &Rig::new(target));
        assert_eq!(run.outcome.launch.status, LaunchStatus::Completed);
        let (report, dump) = (run.report(), Dump::of(&run));
        let lost = report.reasons.iter().find(|reason| reason.code == "marks_lost");
        let lost = lost.unwrap_or_else(|| panic!("{:#?}", report.reasons));
        assert!(!report.complete && lost.count == u64::from(MORE), "{lost:?}");
        assert!(lost.message.contains("--dump-args=2"), "{lost:?}");
        let places: Vec<_> = (0..PLACES).map(|task| (u64::from(task), false, 0)).collect();
        assert!(dump.places() == places, "{}: {} of {PLACES}", target.name(), dump.args.len());
    }
}

/// The directory of the dump cannot be made: the run goes to its end, without a dump and with everything else.
#[test]
fn where_no_file_can_be_written_there_is_no_dump_and_the_rest_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut request = request("vector_example", DumpLevel::Full);
    request.config.dep_gen = true;
    request.work_dir = dir.path().into();
    let outputs = request.output_dir();
    std::fs::create_dir_all(&outputs).expect("a directory");
    std::fs::write(outputs.join("args_dump"), "in the way").expect("a file");
    let outcome = dfx_sim::run::run(&request, &|_| {}).expect("the run itself is not touched by it");
    assert_eq!((outcome.launch.status.clone(), outcome.leaked), (LaunchStatus::Completed, 0));
    let failure = outcome.failure().expect("an artifact is missing");
    assert!(failure.contains("args_dump") && failure.contains("move it away"), "{failure}");
    assert!(!outcome.report.complete && outputs.join("deps.json").exists(), "{:#?}", outcome.report.reasons);
}
