//! Rotation under pressure: few buffers, a slow host, a dead host. Nothing is lost silently, nothing comes twice.

use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::report::{RunReport, StreamKind};
use dfx_host_drain::{Backpressure, PoolSizes, Target, Timeouts};
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{Init, Program};
use dfx_sim::run::{HostPace, Rig, RunRequest, run_program};
use dfx_sim::runtime::LaunchStatus;
use dfx_tests::graph::assert_levels;
use dfx_tests::{PLATFORMS, Run, assert_ledger, assert_whole, request, run_on};
use std::time::Duration;

/// `tasks` AIC tasks, each after the one before if `chained`.
fn tasks_on_one_core(tasks: u32, chained: bool) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("one core");
    let nothing = p.kernel("nothing", Duration::from_micros(1), |_| {});
    let link = p.host("link", dfx_collector::abi::tensor::DataType::Int32, &[1], Init::Zero)?;
    for _ in 0..tasks {
        let submit = p.submit().aic(nothing);
        let submit = if chained { submit.inout(link) } else { submit };
        submit.done()?;
    }
    p.build()
}

/// A request for one block and two AICPU threads, so that all tasks go to core 0.
fn on_one_block(target: Target, level: Level) -> RunRequest {
    RunRequest { blockdim: 1, aicpu_threads: Some(2), ..request("one core", target, level) }
}

fn run_tasks(request: RunRequest, tasks: u32, chained: bool, pace: HostPace) -> Run {
    let rig = Rig { pace, ..Rig::new(request.target) };
    run_on(request, tasks_on_one_core(tasks, chained).expect("it is a program"), &rig)
}

/// Behaviour §9: the reference gave 10,240 rows for 9,300 dispatches at level 1. Exactly the dispatched tasks come out.
#[test]
fn nine_thousand_three_hundred_dispatches_on_one_core_give_as_many_rows() {
    for target in PLATFORMS {
        for level in [Level::AicoreTiming, Level::OrchPhases] {
            for chained in [false, true] {
                let what = format!("{} at level {}, chained: {chained}", target.name(), level as u32);
                let run = run_tasks(on_one_block(target, level), 9_300, chained, HostPace::Threads);
                assert_whole(&what, &run);
                let records = run.records();
                assert!(records.aicore_tasks.iter().all(|row| row.core == 0), "{what}");
                assert_levels(&what, &records, 9_300);
                records.assert_tokens_in_order(&what);
                // A task's local number is its place in the program: each is there once.
                let mut tasks: Vec<u64> = records.aicore_tasks.iter().map(|row| row.task).collect();
                tasks.sort_unstable();
                assert!(tasks.into_iter().eq(0..9_300), "{what}: every task once");
            }
        }
    }
}

/// The buffers of every lane: as few as a lane can rotate with.
const TINY: [PoolSizes; 2] = [PoolSizes { core: 2, ..PoolSizes::all(1) }, PoolSizes::all(2)];

/// Issue 2, point 5: tiny pools and a host that looks only now and then, on both transports and with every policy that
/// waits: nothing lost, nothing twice, every lane in order, and the waits are in the account.
#[test]
fn tiny_pools_and_a_slow_host_lose_nothing_on_both_transports_and_policies() {
    for target in PLATFORMS {
        for policy in [Backpressure::Lane, Backpressure::Global, Backpressure::Block] {
            for pools in TINY {
                let what = format!("{}, {policy:?}, {pools:?}", target.name());
                let mut request = on_one_block(target, Level::OrchPhases);
                request.config.pools = pools;
                request.config.backpressure = policy;
                let run = run_until_pressed(&what, request, 4_200);
                let report = run.report();
                let frozen = report.anomalies.get("freezes").copied().unwrap_or(0);
                assert_eq!(frozen > 0, policy == Backpressure::Global, "{what}: {frozen} freezes");
                assert!(report.complete, "{what}: {:#?}", report.reasons);
                assert_ledger(&what, &run);
                let records = run.records();
                assert_levels(&what, &records, 4_200);
                records.assert_tokens_in_order(&what);
                assert_eq!(records.submits().len(), 4_200, "{what}");
                assert_eq!(run.outcome.leaked, 0, "{what}");
            }
        }
    }
}

/// The lanes of threads rotate too: more phases and submits than a buffer holds, one buffer each, a slow host.
#[test]
fn the_lanes_of_schedulers_and_of_the_orchestrator_rotate_without_loss() {
    for target in PLATFORMS {
        let what = target.name();
        let tasks = dfx_collector::abi::swimlane::PHASE_RECORDS as u32 + 1_000;
        let mut request = on_one_block(target, Level::OrchPhases);
        request.config.pools = TINY[0];
        let run = run_until_pressed(what, request, tasks);
        let report = run.report();
        for kind in [StreamKind::SchedPhase, StreamKind::OrchPhase] {
            assert!(report.sum(kind, |stream| stream.rotations) > 0, "{what}: {kind}");
        }
        assert!(report.complete, "{what}: {:#?}", report.reasons);
        assert_ledger(what, &run);
        let records = run.records();
        assert_levels(what, &records, tasks.into());
        records.assert_tokens_in_order(what);
        assert!(
            records.submits().iter().map(|row| row.submit_idx).eq(0..u64::from(tasks)),
            "{what}: in order"
        );
        let phases = records.aicpu_scheduler_phases.expect("the level has them");
        for thread in phases {
            assert!(thread.is_sorted_by_key(|phase| phase.loop_iter), "{what}: phases in order");
        }
    }
}

/// A pool that no lane can rotate with is refused before the launch, with the field and the least.
#[test]
fn a_pool_that_cannot_rotate_is_refused_before_the_launch() {
    for (pools, field) in [
        (PoolSizes::all(1), "pools.core"),
        (PoolSizes { task: 0, ..PoolSizes::default() }, "pools.task"),
        (PoolSizes { sched: 0, ..PoolSizes::default() }, "pools.sched"),
        (PoolSizes { orch: 0, ..PoolSizes::default() }, "pools.orch"),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut request =
            RunRequest { work_dir: dir.path().into(), ..on_one_block(PLATFORMS[0], Level::OrchPhases) };
        request.config.pools = pools;
        let program = tasks_on_one_core(10, false).expect("it is a program");
        let refused = run_program(&request, program, &Rig::new(request.target), &|_| {});
        let error = refused.expect_err("it is refused").to_string();
        assert!(error.contains(field) && error.contains("at least"), "{error}");
        assert_eq!(dfx_tests::files(dir.path()), Vec::<String>::new(), "nothing is left behind");
    }
}

/// Runs `tasks` tasks with a host that sleeps between two looks, and with one that sleeps twice as long until some lane
/// had to wait for it: how long that is depends on the machine.
fn run_until_pressed(what: &str, request: RunRequest, tasks: u32) -> Run {
    for pause in [10, 40, 160, 640].map(Duration::from_millis) {
        let run = run_tasks(request.clone(), tasks, false, HostPace::Every(pause));
        let report = run.report();
        for kind in [StreamKind::AicoreTask, StreamKind::AicpuTask] {
            assert!(report.sum(kind, |stream| stream.rotations) >= 3, "{what}: {kind}\n{report:#?}");
        }
        for stream in &report.streams {
            assert!(stream.max_stall_ns <= stream.stall_ns, "{what}: {stream:?}");
            assert_eq!(stream.stalls > 0, stream.stall_ns > 0, "{what}: {stream:?}");
        }
        if report.streams.iter().any(|stream| stream.stalls > 0) {
            return run;
        }
    }
    panic!("{what}: no lane ever waited for the host");
}

/// Policy `drop` and a host that does nothing: nobody waits, the run completes, and every record is accounted for.
#[test]
fn a_dead_host_under_policy_drop_costs_counted_records_and_never_the_run() {
    for target in PLATFORMS {
        let what = target.name();
        let mut request = on_one_block(target, Level::AicpuTiming);
        request.config.pools = PoolSizes::all(2);
        request.config.backpressure = Backpressure::Drop;
        let run = run_tasks(request, 5_000, false, HostPace::Never);
        assert_eq!(run.outcome.launch.status, LaunchStatus::Completed, "{what}");
        let report = run.report();
        assert_dropped(what, &run, &report, 5_000);
        assert_eq!(report.streams.iter().map(|stream| stream.stalls).sum::<u64>(), 0, "{what}: nobody waits");
    }
}

/// A dead host under the policies that wait: each wait ends within the budget, the host is then taken for gone, and the
/// run completes instead of being killed.
#[test]
fn a_dead_host_under_the_waiting_policies_never_kills_the_run() {
    for target in PLATFORMS {
        for policy in [Backpressure::Lane, Backpressure::Global] {
            let what = format!("{}, {policy:?}", target.name());
            let mut request = on_one_block(target, Level::AicpuTiming);
            request.config.pools = PoolSizes::all(2);
            request.config.backpressure = policy;
            request.config.timeouts =
                Timeouts { scheduler: Duration::from_millis(500), ..Timeouts::default() };
            let run = run_tasks(request, 5_000, false, HostPace::Never);
            assert_eq!(run.outcome.launch.status, LaunchStatus::Completed, "{what}");
            let report = run.report();
            assert_dropped(&what, &run, &report, 5_000);
            assert!(report.streams.iter().any(|stream| stream.stalls > 0), "{what}: somebody waited once");
        }
    }
}

/// Both task streams lost part of `tasks` records, all of them counted as dropped; what is there is in order.
fn assert_dropped(what: &str, run: &Run, report: &RunReport, tasks: u64) {
    assert!(!report.complete, "{what}");
    assert!(report.reasons.iter().all(|reason| reason.code == "dropped"), "{what}: {:#?}", report.reasons);
    for kind in [StreamKind::AicoreTask, StreamKind::AicpuTask] {
        let dropped = report.sum(kind, |stream| stream.dropped);
        let collected = report.sum(kind, |stream| stream.collected);
        assert!(
            dropped > 0 && collected >= 2_000,
            "{what}: {kind}: {dropped} dropped, {collected} collected"
        );
        assert_eq!(dropped + collected, tasks, "{what}: {kind}");
    }
    assert_ledger(what, run);
    let records = run.records();
    assert!(records.aicore_tasks.is_sorted_by_key(|row| row.token), "{what}");
    assert!(records.aicpu_tasks.is_sorted_by_key(|row| row.token), "{what}");
    let mut tokens: Vec<u32> = records.aicore_tasks.iter().map(|row| row.token).collect();
    tokens.dedup();
    assert_eq!(tokens.len(), records.aicore_tasks.len(), "{what}: twice");
    assert_eq!(run.outcome.leaked, 0, "{what}");
    let check = dfx_trace::check::check_dir(&run.outputs()).expect("the directory can be checked");
    assert!(!check.complete, "{what}: {}", check.verdict());
}
