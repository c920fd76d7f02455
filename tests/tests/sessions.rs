//! Many runs in one process: each has its own state, and leaves none.

use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::Target;
use dfx_host_drain::report::RunReport;
use dfx_sim::run::RunRequest;
use dfx_tests::graph::assert_levels;
use dfx_tests::{A2A3, A5, PLATFORMS, assert_whole, request, run_named};

/// A run of `tasks` tasks at `level` on `blocks` blocks with `threads` AICPU threads: its artifact has it and nothing else.
fn run_alone(target: Target, level: Level, blocks: u32, threads: u32, tasks: u64) {
    let what = format!("{} at level {} on {blocks} blocks", target.name(), level as u32);
    let workload = format!("flood:{tasks}");
    let request =
        RunRequest { blockdim: blocks, aicpu_threads: Some(threads), ..request(&workload, target, level) };
    let run = run_named(request);
    assert_whole(&what, &run);
    let records = run.records();
    assert_eq!(records.chip_swimlane_level, level as u32, "{what}");
    assert_eq!(records.metadata.num_cores, 3 * blocks, "{what}");
    assert_eq!(records.metadata.core_types.len() as u32, 3 * blocks, "{what}");
    assert_levels(&what, &records, tasks);
    records.assert_tokens_in_order(&what);
    let mut ids: Vec<u64> = records.aicore_tasks.iter().map(|row| row.task).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..tasks), "{what}: this run's tasks, each once");
    if let Some(owners) = &records.metadata.core_to_thread {
        assert_eq!(owners.len() as u32, 3 * blocks, "{what}");
        assert!(owners.iter().all(|owner| (0..threads as i32 - 1).contains(owner)), "{what}: {owners:?}");
    }
    if level >= Level::OrchPhases {
        assert_eq!(records.submits().len() as u64, tasks, "{what}");
    }
    let report: RunReport = run.report();
    assert_eq!(report.levels.chip_swimlane, level as u32, "{what}");
    assert!(report.streams.iter().all(|stream| stream.lane < 3 * blocks), "{what}: {:?}", report.streams);
}

/// Issue 2, point 6: runs of one process at levels 2, 4 and 1, on 24, 6 and 3 cores, with 4, 3 and 2 AICPU threads: each
/// artifact holds its own run only, and everything is given back.
#[test]
fn runs_of_one_process_with_other_levels_cores_and_threads_share_nothing() {
    for target in PLATFORMS {
        run_alone(target, Level::AicpuTiming, 8, 4, 3_000);
        run_alone(target, Level::OrchPhases, 2, 3, 1_500);
        run_alone(target, Level::AicoreTiming, 1, 2, 2_500);
        run_alone(target, Level::OrchPhases, 4, 2, 100);
    }
}

/// Two runs at once from two threads of one process do not meet.
#[test]
fn two_runs_at_once_in_one_process_share_nothing() {
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|n| run_alone(A2A3, Level::OrchPhases, 2, 3, 1_200 + n)));
        scope.spawn(|| (0..3).for_each(|n| run_alone(A5, Level::AicpuTiming, 3, 2, 2_400 + n)));
    });
}

/// Behaviour §1: an empty output prefix is an error before the launch, not the current directory.
#[test]
fn an_empty_work_directory_is_refused() {
    let request = request("flood:10", A2A3, Level::AicoreTiming);
    let error = dfx_sim::run::run(&request, &|_| {}).expect_err("it is refused").to_string();
    assert!(error.contains("output directory is empty"), "{error}");
}

/// Two runs into one directory, one after the other: the second leaves nothing of the first, not even where it records
/// less.
#[test]
fn a_run_replaces_the_artifacts_of_an_earlier_one_in_its_directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = |workload: &str, level| {
        let request = RunRequest { work_dir: dir.path().into(), ..request(workload, A2A3, level) };
        dfx_sim::run::run(&request, &|_| {}).expect("it runs")
    };
    let first = run("flood:500", Level::OrchPhases);
    let outputs = first.dir.expect("it recorded");
    std::fs::write(outputs.join("pmu.csv"), "of an earlier run").expect("it can be written");
    std::fs::write(outputs.join("notes.txt"), "mine").expect("it can be written");
    run("flood:20", Level::AicoreTiming);
    let expected = ["chip_swimlane_records.json", "notes.txt", "run.json"];
    assert_eq!(dfx_tests::files(&outputs), expected, "only the user's own file stays");
    let records = dfx_tests::rows::Records::read(&outputs.join("chip_swimlane_records.json"));
    assert_levels("the second run", &records, 20);
}
