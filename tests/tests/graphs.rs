//! Real and made-up graphs on both platforms at every level: the records have exactly what the graph promises.

use dfx_host_drain::Target;
use dfx_sim::graph::{GraphParams, random, to_deps_json};
use dfx_sim::run::{ClockKind, Rig, RunRequest};
use dfx_tests::graph::{Graph, assert_levels};
use dfx_tests::{LEVELS, PLATFORMS, assert_whole, interop_dir, request, run_named, run_on};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs the `deps.json` at `path` on `target` at every level.
fn run_graph(path: &Path, graph: &Graph, target: Target, blockdim: u32) {
    for level in LEVELS {
        let what = format!("{} on {} at level {}", path.display(), target.name(), level as u32);
        let workload = format!("graph:{}", path.display());
        let run = run_named(RunRequest { blockdim, ..request(&workload, target, level) });
        assert_whole(&what, &run);
        assert_eq!(run.outcome.core_rows, graph.rows(), "{what}");
        assert_eq!(run.outcome.submits as usize, graph.tasks.len() + graph.allocs.len(), "{what}");
        graph.assert_kept(&what, &run.records());
    }
}

/// Every `deps.json` below `dir`.
fn find_graphs(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("it can be listed").flatten() {
        match entry.path() {
            path if path.is_dir() => find_graphs(&path, found),
            path if path.ends_with("deps.json") => found.push(path),
            _ => {}
        }
    }
}

/// Issue 2, point 2: real input. Every captured graph gives one core row per block and active subtask, one AICPU row for
/// each, one orchestrator row per submit, in an order that every edge agrees with.
#[test]
fn every_captured_graph_is_recorded_whole_on_both_platforms_at_every_level() {
    let Some(dir) = interop_dir() else { return };
    let mut paths = Vec::new();
    find_graphs(&dir, &mut paths);
    paths.sort();
    // Captures of one program differ in addresses only: one of each is run.
    let mut distinct: BTreeMap<Graph, PathBuf> = BTreeMap::new();
    for path in paths {
        let graph = Graph::of_deps_json(&std::fs::read_to_string(&path).expect("it can be read"));
        if !graph.tasks.is_empty() {
            distinct.entry(graph).or_insert(path);
        }
    }
    assert!(distinct.len() >= 5, "the captures have more programs than {}", distinct.len());
    for (graph, path) in &distinct {
        for target in PLATFORMS {
            run_graph(path, graph, target, 2);
        }
    }
}

fn run_random(seed: u64, params: GraphParams, target: Target, blockdim: u32) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join(format!("random, {seed}.json"));
    let text = to_deps_json(&random(seed, params)).expect("its ids are fixed");
    std::fs::write(&path, &text).expect("it can be written");
    run_graph(&path, &Graph::of_deps_json(&text), target, blockdim);
}

/// Issue 2, point 2: made-up graphs with SPMD, MIX, manual scopes, dummies, allocs and early dispatch.
#[test]
fn made_up_graphs_are_recorded_whole_on_both_platforms_at_every_level() {
    for (number, target) in PLATFORMS.into_iter().enumerate() {
        for seed in [1, 20, 300] {
            run_random(seed + number as u64, GraphParams::default(), target, 1 + number as u32 * 2);
        }
    }
}

/// Issue 2, point 2: a task with more than 1,000 predecessors.
#[test]
fn a_task_with_more_than_a_thousand_predecessors_waits_for_all_of_them() {
    let params = GraphParams { tasks: 1_300, max_fanin: 1_250, spmd: 1, ..GraphParams::default() };
    let text = to_deps_json(&random(7, params)).expect("its ids are fixed");
    let widest = Graph::of_deps_json(&text).preds.values().map(|preds| preds.len()).max();
    assert!(widest > Some(1_000), "{widest:?}");
    for target in PLATFORMS {
        run_random(7, params, target, 2);
    }
}

/// A captured graph with the durations of its captured records runs whole, too.
#[test]
fn a_captured_graph_runs_with_the_durations_of_its_records() {
    let Some(dir) = interop_dir() else { return };
    let case = dir.join("a2a3_paged_attention/all/CaseVarSeq4");
    let deps = case.join("deps.json");
    let graph = Graph::of_deps_json(&std::fs::read_to_string(&deps).expect("it can be read"));
    let workload = format!("graph:{},{}", deps.display(), case.join("chip_swimlane_records.json").display());
    for target in PLATFORMS {
        let what = format!("{workload} on {}", target.name());
        let run = run_named(request(&workload, target, LEVELS[3]));
        assert_whole(&what, &run);
        graph.assert_kept(&what, &run.records());
    }
}

/// Made-up graphs as they are made, without a file in between, on boards of many cores and few threads.
#[test]
fn made_up_graphs_run_on_boards_of_every_shape() {
    for (target, blockdim, threads) in [(PLATFORMS[0], 24, 2), (PLATFORMS[0], 5, 3), (PLATFORMS[1], 36, 5)] {
        let what = format!("{blockdim} blocks, {threads} threads on {}", target.name());
        let program = random(u64::from(blockdim), GraphParams { tasks: 600, ..GraphParams::default() });
        let graph = Graph::of_deps_json(&to_deps_json(&program).expect("its ids are fixed"));
        let request =
            RunRequest { blockdim, aicpu_threads: Some(threads), ..request("random", target, LEVELS[3]) };
        let run = run_on(request, program, &Rig::new(target));
        assert_whole(&what, &run);
        let records = run.records();
        // Allocs that nothing reads are no edge's predecessor: the program knows them, the file does not.
        assert_eq!(records.submits().len() as u64, run.outcome.submits, "{what}");
        graph.assert_tasks_kept(&what, &records);
    }
}

/// Every kind of phase and marker, by name.
const KINDS: [&str; 13] = [
    "complete",
    "dispatch",
    "release",
    "dummy",
    "early_dispatch",
    "resolve",
    "dummy_task",
    "drain",
    "drain_prepare",
    "drain_publish",
    "async_poll",
    "predicated_skip",
    "graph_prepare",
];

/// Issue 2, simulator: the workload `mixed` shows every kind of scheduler phase, on both platforms from level 3 on. In
/// virtual time each run does; on real threads the system may hold up the orchestrator until the producer of what could
/// have been dispatched early is done, so that it takes more than one run now and then.
#[test]
fn the_mixed_workload_emits_every_phase_kind() {
    for target in PLATFORMS {
        for level in LEVELS {
            for (clock, most) in [(ClockKind::Virtual, 1), (ClockKind::Threads, 10)] {
                let what = format!("mixed on {} at level {}, {clock:?}", target.name(), level as u32);
                let mut unseen = KINDS.to_vec();
                for _ in 0..most {
                    let run = run_named(RunRequest { clock, ..request("mixed", target, level) });
                    assert_whole(&what, &run);
                    let records = run.records();
                    assert_levels(&what, &records, run.outcome.core_rows);
                    records.assert_tokens_in_order(&what);
                    if records.chip_swimlane_level >= 4 {
                        let ids: Vec<u64> = records.submits().iter().map(|row| row.task_id).collect();
                        let tasks = &run.outcome.launch.tasks;
                        let expected: Vec<u64> = tasks.iter().map(|task| task.task_id).collect();
                        assert_eq!(ids, expected, "{what}: submits in program order");
                    }
                    unseen.retain(|kind| !records.phases().any(|phase| phase.kind == *kind));
                    if unseen.is_empty() || records.chip_swimlane_level < 3 {
                        unseen.clear();
                        break;
                    }
                }
                assert!(unseen.is_empty(), "{what}: no {unseen:?}");
            }
        }
    }
}
