//! Issue 5, point 1: the replayed graph is the one that the simulator's orchestrator declared, producers that had long
//! retired included, and the captured graphs of the workloads come out of our own runs.

use dfx_collector::abi::tensor::DataType::Float32;
use dfx_host_drain::{DfxConfig, Target};
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::graph::{GraphParams, random};
use dfx_sim::program::{Init, Program};
use dfx_sim::run::{ClockKind, Rig, RunRequest};
use dfx_tests::five::{assert_complete, deps, edge_pairs, program, virtual_request};
use dfx_tests::{A2A3, PLATFORMS, Run, interop_dir, run_on};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn capturing() -> DfxConfig {
    DfxConfig { dep_gen: true, ..DfxConfig::default() }
}

fn captured(what: &str, program: Program, target: Target, clock: ClockKind) -> Run {
    let rig = Rig { keep_edges: true, ..Rig::new(target) };
    let request = RunRequest { clock, ..virtual_request(what, target, capturing()) };
    run_on(request, program, &rig)
}

/// `deps.json` has the tasks of the program in order, and each pair that the orchestrator declared, and no other.
fn assert_declared(what: &str, run: &Run, program: &Program) {
    assert_complete(what, run);
    let deps = deps(run);
    let launch = &run.outcome.launch;
    let id = |submit: u32| launch.tasks[submit as usize].task_id;
    let declared: BTreeSet<(u64, u64)> =
        launch.edges.iter().map(|(pred, succ)| (id(pred.0), id(succ.0))).collect();
    assert_eq!(edge_pairs(&deps), declared, "{what}");
    let tasks: Vec<u64> =
        program.submits().filter(|submit| !submit.alloc).map(|submit| id(submit.id.0)).collect();
    let found = deps["tasks"].as_array().expect("tasks").iter();
    let found: Vec<u64> =
        found.map(|task| task["task_id"].as_str().and_then(|id| id.parse().ok()).expect("an id")).collect();
    assert_eq!(found, tasks, "{what}");
}

#[test]
fn every_workloads_graph_is_the_declared_one() {
    let workloads = [
        "vector_example",
        "matmul",
        "paged_attention:11",
        "scopes",
        "flood:3000",
        "chain:1500",
        "spmd",
        "mixed",
    ];
    for target in PLATFORMS {
        for workload in workloads {
            for clock in [ClockKind::Virtual, ClockKind::Threads] {
                let what = format!("{workload} on {}, {clock:?}", target.name());
                let run = captured(&what, program(workload), target, clock);
                assert_declared(&what, &run, &program(workload));
            }
        }
    }
}

/// Explicit dependencies, manual scopes, allocs, dummies, several rings.
#[test]
fn random_graphs_are_the_declared_ones() {
    for seed in 0..40 {
        let params = GraphParams { max_fanin: if seed % 4 == 0 { 150 } else { 8 }, ..GraphParams::default() };
        let target = PLATFORMS[seed as usize % 2];
        let what = format!("random graph {seed} on {}", target.name());
        let run = captured(&what, random(seed, params), target, ClockKind::Virtual);
        assert_declared(&what, &run, &random(seed, params));
    }
}

/// Views of a few matrices, read, updated and overwritten at random: overlaps of every kind.
fn tiles(seed: u64) -> Result<Program, BuildError> {
    let mut state = seed;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut p = ProgramBuilder::new("tiles");
    let nothing = p.kernel("nothing", Duration::from_micros(1), |_| {});
    let mut matrices = Vec::new();
    for _ in 0..3 {
        matrices.push(p.host("m", Float32, &[16, 16], Init::Zero)?);
    }
    let mut scopes = 0;
    for _ in 0..150 {
        match next(10) {
            0 if scopes < 4 => {
                if next(3) == 0 {
                    p.manual_scope_begin()
                } else {
                    p.scope_begin()
                }
                scopes += 1;
            }
            1 if scopes > 0 => {
                p.scope_end()?;
                scopes -= 1;
            }
            2 => {
                let made = p.tensor("made", Float32, &[16, 16])?;
                if next(2) == 0 {
                    p.alloc(&[made])?;
                } else {
                    p.submit().aiv(nothing).output(made).done()?;
                }
                matrices.push(made);
            }
            _ => {
                let mut views = Vec::new();
                for _ in 0..1 + next(3) {
                    let of = matrices[next(matrices.len() as u64) as usize];
                    let (rows, cols) = (1 + next(16) as u32, 1 + next(16) as u32);
                    let (row, col) = (next(17 - u64::from(rows)), next(17 - u64::from(cols)));
                    let view = match next(5) {
                        0 => p.view(of, "flat", &[rows * 16], &[1], row * 16)?,
                        _ => p.view(of, "box", &[rows, cols], &[16, 1], row * 16 + col)?,
                    };
                    views.push(if next(12) == 0 { p.manual_dep(view)? } else { view });
                }
                let mut submit = p.submit().aiv(nothing);
                for view in views {
                    submit = match next(3) {
                        0 => submit.input(view),
                        1 => submit.inout(view),
                        _ => submit.output_existing(view),
                    };
                }
                submit.done()?;
            }
        }
    }
    for _ in 0..scopes {
        p.scope_end()?;
    }
    p.build()
}

#[test]
fn random_views_give_the_declared_graph() {
    for seed in 0..60 {
        let target = PLATFORMS[seed as usize % 2];
        let what = format!("tiles {seed} on {}", target.name());
        let program = || tiles(seed).expect("it is a program");
        let run = captured(&what, program(), target, ClockKind::Virtual);
        assert!(run.outcome.launch.edges.len() > 50, "{what}");
        assert_declared(&what, &run, &program());
    }
}

/// Explicit chains around the sizes at which they spill into one and more overflow slots.
#[test]
fn explicit_chains_of_every_size_are_whole() {
    const SIZES: [usize; 9] = [0, 1, 63, 64, 65, 646, 647, 1229, 5000];
    let chains = || -> Result<Program, BuildError> {
        let mut p = ProgramBuilder::new("chains");
        let nothing = p.kernel("nothing", Duration::from_micros(1), |_| {});
        let mut tasks = Vec::new();
        for _ in 0..5000 {
            tasks.push(p.submit().aiv(nothing).done()?);
        }
        for size in SIZES {
            p.submit().aiv(nothing).deps(&tasks[tasks.len() - size..]).done()?;
        }
        p.build()
    };
    for target in PLATFORMS {
        let run = captured("chains", chains().expect("it is a program"), target, ClockKind::Virtual);
        assert_declared(target.name(), &run, &chains().expect("it is a program"));
        let edges = deps(&run)["edges"].as_array().expect("edges").len();
        assert_eq!(edges, SIZES.iter().sum::<usize>());
    }
}

/// A producer that retired before its consumer was submitted is an edge too.
#[test]
fn retired_producers_are_edges() {
    let late = || -> Result<Program, BuildError> {
        let mut p = ProgramBuilder::new("late");
        let nothing = p.kernel("nothing", Duration::from_micros(1), |_| {});
        let first = p.tensor("first", Float32, &[16])?;
        p.submit().aiv(nothing).output(first).done()?;
        // So many that the first has long gone when the last is submitted.
        for _ in 0..2000 {
            p.submit().aic(nothing).done()?;
        }
        p.submit().aiv(nothing).input(first).done()?;
        p.build()
    };
    let run = captured("late", late().expect("it is a program"), A2A3, ClockKind::Virtual);
    assert_declared("late", &run, &late().expect("it is a program"));
    assert_eq!(edge_pairs(&deps(&run)), BTreeSet::from([(0, 2001)]));
}

#[test]
fn no_edges_and_no_tasks_but_graph_tasks_are_a_graph_too() {
    let run = captured("flood:10", program("flood:10"), A2A3, ClockKind::Virtual);
    assert_eq!(deps(&run)["edges"], json!([]));
    assert_eq!(deps(&run)["tasks"].as_array().map(Vec::len), Some(10));
    let graphs = || -> Result<Program, BuildError> {
        let mut p = ProgramBuilder::new("graphs");
        let nothing = p.kernel("nothing", Duration::from_micros(1), |_| {});
        let node = [Some(nothing), None, None];
        p.submit().node(node, &[]).node(node, &[0]).done()?;
        p.build()
    };
    let run = captured("graphs", graphs().expect("it is a program"), A2A3, ClockKind::Virtual);
    assert_declared("graphs", &run, &graphs().expect("it is a program"));
    assert_eq!(deps(&run)["edges"], json!([]));
}

/// A `deps.json` without what differs from run to run: addresses, and the ids and the order that follow from them.
fn shape(file: &Value) -> Value {
    let tensors = file["tensors"].as_array().expect("tensors");
    let number: BTreeMap<&str, usize> = tensors
        .iter()
        .enumerate()
        .map(|(i, tensor)| (tensor["tensor_id"].as_str().expect("an id"), i))
        .collect();
    fn rename(value: &Value, number: &BTreeMap<&str, usize>) -> Value {
        match value {
            Value::Array(list) => list.iter().map(|item| rename(item, number)).collect(),
            Value::Object(map) => {
                let kept = map.iter().filter(|(key, _)| *key != "buffer_addr");
                let entry = |(key, value): (&String, &Value)| match (key.as_str(), value.as_str()) {
                    ("tensor_id", Some(id)) => (key.clone(), json!(number[id])),
                    _ => (key.clone(), rename(value, number)),
                };
                Value::Object(kept.map(entry).collect())
            }
            other => other.clone(),
        }
    }
    rename(file, &number)
}

/// The same without which block of the cache holds which tokens: that is drawn anew for each captured run.
fn without_block_table(mut file: Value) -> Value {
    for task in file["tasks"].as_array_mut().into_iter().flatten() {
        if task["kernel_ids"][0] != -1 {
            task["args"][1]["start_offset"] = json!("the block");
        }
    }
    file
}

fn assert_same_graph(what: &str, ours: &Value, theirs: &Value) {
    for key in ["tasks", "tensors", "edges"] {
        let list = |file: &'_ Value| file[key].as_array().cloned().unwrap_or_default();
        for (i, (ours, theirs)) in list(ours).iter().zip(&list(theirs)).enumerate() {
            assert_eq!(ours, theirs, "{what}: {key}[{i}]");
        }
    }
    assert_eq!(ours, theirs, "{what}");
}

/// The captured graphs of the programs that are workloads here: tasks, kernels, scopes, arguments with their shapes, and
/// edge by edge.
#[test]
fn the_captured_graphs_of_the_workloads_are_reproduced_edge_by_edge() {
    let Some(dir) = interop_dir() else { return };
    let cases = [("vector_example", "a2a3_vector"), ("paged_attention", "a2a3_paged_attention")];
    for (workload, name) in cases {
        let mut found = Vec::new();
        find(&dir.join(name), &mut found);
        let run = captured(workload, program(workload), A2A3, ClockKind::Virtual);
        let ours = shape(&deps(&run));
        let mut exact = 0;
        for path in found {
            let what = format!("{workload}, {}", path.display());
            let sample = std::fs::read_to_string(&path).expect("it can be read");
            let theirs = shape(&serde_json::from_str(&sample).expect("it is JSON"));
            exact += usize::from(ours == theirs);
            assert_same_graph(&what, &without_block_table(ours.clone()), &without_block_table(theirs));
        }
        assert!(exact > 0, "{workload}: none of the samples below {name} is the same in every number");
    }
}

fn find(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => find(&path, found),
            path if path.ends_with("deps.json") => found.push(path),
            _ => {}
        }
    }
}
