//! Tests of the workloads: each is run here one task at a time, in random orders that its derived dependencies allow.

use super::*;
use crate::fanin::Fanin;
use crate::memory::{HeapAlloc, ProgramMemory};
use crate::program::{Arg, Op, SUBTASKS, Shape, Submit, SubmitId, TensorId};
use std::sync::Arc;

fn of(spec: &str) -> Program {
    build(spec, &WorkloadOptions::default()).unwrap()
}

/// Predecessors of every submit, by number.
fn fanins(program: &Program) -> Vec<Vec<u32>> {
    let mut fanin = Fanin::new(program);
    let mut scopes = vec![false];
    let mut all = Vec::new();
    for op in &program.ops {
        match op {
            Op::ScopeBegin { manual } => scopes.push(*manual),
            Op::ScopeEnd => drop(scopes.pop()),
            Op::Submit(submit) => {
                let mut preds = Vec::new();
                fanin.submit(submit, *scopes.last().unwrap(), &mut preds);
                all.push(preds.into_iter().map(|SubmitId(pred)| pred).collect());
            }
        }
    }
    all
}

fn run_task(memory: &ProgramMemory, program: &Program, submit: &Submit) {
    if !submit.predicate {
        return;
    }
    for subtask in (0..SUBTASKS).rev() {
        (0..submit.block_num).rev().for_each(|block| memory.run_kernel(program, submit, subtask, block));
    }
    for node in 0..submit.nodes.len() {
        (0..SUBTASKS).for_each(|subtask| memory.run_node(program, submit, node, subtask));
    }
}

/// Runs the program in an order drawn from `seed` that only its dependencies restrict.
fn run(program: &Program, seed: u64) -> Result<(), String> {
    let memory = ProgramMemory::new(program, Arc::new(HeapAlloc::default())).unwrap();
    let (submits, fanins) = (program.submits().collect::<Vec<_>>(), fanins(program));
    let mut followers = vec![Vec::new(); submits.len()];
    let mut waiting: Vec<usize> = fanins.iter().map(Vec::len).collect();
    for (task, preds) in fanins.iter().enumerate() {
        preds.iter().for_each(|&pred| followers[pred as usize].push(task));
    }
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut ready: Vec<usize> = (0..submits.len()).filter(|&task| waiting[task] == 0).collect();
    let mut ran = 0;
    while !ready.is_empty() {
        let task = ready.swap_remove(rng.random_range(0..ready.len()));
        run_task(&memory, program, submits[task]);
        ran += 1;
        for &follower in &followers[task] {
            waiting[follower] -= 1;
            if waiting[follower] == 0 {
                ready.push(follower);
            }
        }
    }
    assert_eq!(ran, submits.len());
    memory.verify(program)
}

#[test]
fn results_are_right_in_every_order_that_the_dependencies_allow() {
    for spec in [
        "vector_example",
        "matmul",
        "spmd",
        "spmd:1",
        "mixed",
        "chain:101",
        "flood:50",
        "paged_attention",
        "paged_attention:9",
        "scopes",
    ] {
        let program = of(spec);
        for seed in 0..5 {
            assert_eq!(run(&program, seed), Ok(()), "{spec}, order {seed}");
        }
    }
    for spec in ["mixed", "paged_attention"] {
        assert_eq!(run(&build(spec, &WorkloadOptions { seed: 99, pace: None }).unwrap(), 0), Ok(()));
    }
}

#[test]
fn a_missing_task_is_noticed_by_the_check_of_the_results() {
    for spec in ["vector_example", "matmul", "spmd", "mixed", "chain:7", "paged_attention", "scopes"] {
        let mut program = of(spec);
        let computing = |op: &mut Op| match op {
            Op::Submit(submit) if submit.predicate && submit.core_rows() > 0 => Some(submit.as_mut().clone()),
            _ => None,
        };
        let count = program.ops.iter_mut().filter_map(computing).count();
        for skipped in 0..count {
            let mut broken = program.clone();
            let mut number = 0;
            for op in &mut broken.ops {
                if let Op::Submit(submit) = op
                    && submit.predicate
                    && submit.core_rows() > 0
                {
                    submit.predicate = number != skipped;
                    number += 1;
                }
            }
            assert!(run(&broken, 0).is_err(), "{spec} without task {skipped}");
        }
    }
}

#[test]
fn the_vector_example_is_the_captured_program() {
    let program = of("vector_example");
    let names: Vec<&str> = program.kernels.iter().map(|kernel| &*kernel.name).collect();
    assert_eq!(names, ["kernel_add", "kernel_add_scalar", "kernel_mul"]);
    assert_eq!(fanins(&program), [vec![], vec![0], vec![0], vec![1, 2], vec![3, 0]]);
    let kernels: Vec<_> =
        program.submits().map(|s| s.kernels.map(|k| k.map_or(-1, |k| k.0 as i32))).collect();
    assert_eq!(kernels, [[-1, 0, -1], [-1, 1, -1], [-1, 1, -1], [-1, 2, -1], [-1, 0, -1]]);
    let letter = |arg: &Arg| match arg {
        Arg::In(_) => "in".to_owned(),
        Arg::Out(_) => "out".to_owned(),
        Arg::InOut(_) => "inout".to_owned(),
        Arg::OutExisting(_) => "existing".to_owned(),
        Arg::Scalar(raw, dtype) => format!("{dtype:?} {raw:x}"),
    };
    let args: Vec<String> =
        program.submits().map(|s| s.args.iter().map(letter).collect::<Vec<_>>().join(", ")).collect();
    assert_eq!(
        args,
        [
            "in, in, out",
            "in, out, Float32 3f800000, Uint32 3",
            "in, out, Float32 40000000, Uint32 3",
            "in, in, out, Uint32 3",
            "in, in, existing",
        ]
    );
    let scopes: Vec<usize> = program
        .ops
        .iter()
        .enumerate()
        .filter(|(_, op)| !matches!(op, Op::Submit(_)))
        .map(|(i, _)| i)
        .collect();
    assert_eq!(scopes, [1, 6]);
}

#[test]
fn the_paged_attention_has_the_captured_size_and_shapes() {
    let program = of("paged_attention");
    let (allocs, tasks): (Vec<_>, Vec<_>) = program.submits().partition(|submit| submit.alloc);
    assert_eq!((allocs.len(), tasks.len()), (4, 64));
    assert!(
        tasks.iter().zip([Shape::Aic, Shape::Aiv].iter().cycle()).all(|(task, shape)| task.shape() == *shape)
    );
    let fanins = fanins(&program);
    // The alloc, then QK, SF, PV and UP of the first block, QK to UP of the second.
    assert_eq!(fanins[..5], [vec![], vec![], vec![1], vec![2], vec![2, 3, 0]]);
    assert_eq!(fanins[8], [6, 7, 0, 4]);
}

#[test]
fn workloads_have_the_size_that_was_asked_for() {
    let submits = |spec| of(spec).submits().count();
    assert_eq!(
        (submits("flood"), submits("flood:3"), submits("chain"), submits("chain:5")),
        (65_536, 3, 1_000, 5)
    );
    assert_eq!((submits("matmul"), submits("spmd:7"), submits("vector_example")), (27, 3, 5));
    let rows = |spec| of(spec).submits().map(Submit::core_rows).sum::<u64>();
    assert_eq!((rows("spmd"), rows("spmd:7"), rows("spmd:65535")), (27, 10, 65_538));
    let chain = of("chain:4");
    assert_eq!(fanins(&chain), [vec![], vec![0], vec![1], vec![2]]);
    assert_eq!(
        chain.submits().map(Submit::shape).collect::<Vec<_>>(),
        [Shape::Aic, Shape::Aiv, Shape::Aic, Shape::Aiv]
    );
    assert!(fanins(&of("flood:100")).iter().all(Vec::is_empty));
}

#[test]
fn mixed_has_everything_that_a_scheduler_can_meet() {
    let program = of("mixed");
    let any = |what: fn(&Submit) -> bool| program.submits().any(what);
    for shape in [Shape::Aic, Shape::Aiv, Shape::Mix] {
        assert!(program.submits().any(|s| s.shape() == shape), "{shape:?}");
    }
    assert!(
        any(|s| s.alloc)
            && any(|s| !s.predicate)
            && any(|s| s.early_dispatch)
            && any(|s| s.async_after.is_some())
    );
    assert!(
        any(|s| s.sync_start && s.block_num > 1)
            && any(|s| !s.nodes.is_empty())
            && any(|s| !s.deps.is_empty())
    );
    assert!(any(|s| s.shape() == Shape::None && !s.alloc && s.nodes.is_empty()));
    assert!(program.ops.iter().any(|op| matches!(op, Op::ScopeBegin { manual: true })));
}

#[test]
fn what_is_not_a_workload_is_refused_with_what_is() {
    for (spec, expected) in [
        (
            "nope",
            "unknown workload `nope`; there are: vector_example, matmul, paged_attention[:SEQS], scopes, kv_cache[:GIB], flood[:N], chain[:N], spmd[:BLOCKS], mixed",
        ),
        ("", "unknown workload ``"),
        ("flood:0", "workload `flood:0`: `0` is not a number from 1 to 16777216"),
        ("flood:16777217", "`16777217` is not a number"),
        ("chain:", "`` is not a number"),
        ("chain:-1", "`-1` is not a number"),
        ("chain:many", "`many` is not a number from 1 to"),
        ("spmd:65536", "from 1 to 65535"),
        ("scopes:2", "`scopes` takes no argument"),
        ("paged_attention:0", "`0` is not a number from 1 to 65536"),
        ("kv_cache:0", "`0` is not a number from 1 to 1024"),
        ("mixed:3", "workload `mixed:3`: `mixed` takes no argument"),
        ("graph", "no file is named"),
        ("graph:", "no file is named"),
        ("graph:,x", "no file is named"),
        ("graph:/nowhere/deps.json", "/nowhere/deps.json: cannot be read"),
        ("graph:/nowhere/deps.json,/nowhere/r.json", "/nowhere/deps.json: cannot be read"),
    ] {
        let error = build(spec, &WorkloadOptions::default()).expect_err(spec).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn graph_files_may_have_a_comma_in_their_name_and_records_beside() {
    let dir = tempfile::tempdir().unwrap();
    let (deps, records) = (dir.path().join("a,b.json"), dir.path().join("r.json"));
    let text = r#"{"tasks":[{"task_id":"1","kernel_ids":[0,-1,-1],"block_num":1}],"edges":[]}"#;
    std::fs::write(&deps, text).unwrap();
    let rows =
        r#"{"chip_swimlane_level":1,"metadata":{"clock_freq_hz":1000000},"aicore_tasks":[[0,1,1,5,12,0]]}"#;
    std::fs::write(&records, rows).unwrap();
    let plain = of(&format!("graph:{}", deps.display()));
    assert_eq!((plain.submits().count(), plain.pace), (1, false));
    let timed = of(&format!("graph:{},{}", deps.display(), records.display()));
    assert_eq!(timed.submits().next().unwrap().duration, Some(std::time::Duration::from_micros(7)));
    let unpaced = WorkloadOptions { pace: Some(false), ..Default::default() };
    assert!(
        timed.pace
            && !build(&format!("graph:{},{}", deps.display(), records.display()), &unpaced).unwrap().pace
    );
}

/// Its memory is only what is written; every task changes the cache in every MiB.
#[test]
fn kv_cache_is_64_tasks_on_as_many_gib_as_asked_for_and_a_probe() {
    for gib in [1, 3] {
        let program = of(&format!("kv_cache:{gib}"));
        assert_eq!(program.submits().count(), 64);
        let bytes: Vec<u64> = program.buffers.iter().map(|buffer| buffer.bytes).collect();
        assert_eq!(bytes, [gib << 30, 1 << 20]);
        assert!(
            program
                .submits()
                .all(|submit| submit.args[..2] == [Arg::InOut(TensorId(0)), Arg::InOut(TensorId(1))])
        );
    }
}
