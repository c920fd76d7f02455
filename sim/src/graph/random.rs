//! Made-up graphs for tests, and their text.

use super::{bare, kernels};
use crate::program::{AIC, AIV0, AIV1, KernelId, Op, Program, SUBTASKS, Submit, SubmitId, TaskIdRule};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt::Write;

/// What a made-up graph is like.
#[derive(Clone, Copy, Debug)]
pub struct GraphParams {
    /// Tasks besides allocs.
    pub tasks: u32,
    /// Most predecessors of a task; the last task has as many as there are, up to this.
    pub max_fanin: u32,
    /// Most blocks of a task (1: no SPMD).
    pub spmd: u32,
    /// Tasks with more than one subtask.
    pub mix: bool,
    /// Runs of tasks in manual scopes.
    pub manual: bool,
    /// Tasks without a kernel.
    pub dummies: bool,
    /// Allocs before some tasks.
    pub allocs: bool,
}

impl Default for GraphParams {
    fn default() -> Self {
        Self { tasks: 200, max_fanin: 8, spmd: 6, mix: true, manual: true, dummies: true, allocs: true }
    }
}

const KERNELS: u32 = 7;
/// Rings that task ids are drawn from.
const RINGS: u64 = 4;

/// A graph program: the same for the same seed and parameters.
pub fn random(seed: u64, params: GraphParams) -> Program {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut locals = [0u64; RINGS as usize];
    let mut submits = 0;
    let mut next = |rng: &mut SmallRng| {
        let ring = rng.random_range(0..RINGS);
        let task_id = ring << 32 | locals[ring as usize];
        locals[ring as usize] += 1;
        submits += 1;
        bare(SubmitId(submits - 1), task_id)
    };
    let mut ops = Vec::new();
    let mut tasks: Vec<SubmitId> = Vec::new();
    let mut in_manual = false;
    for number in 0..params.tasks {
        if params.manual && rng.random_bool(0.1) {
            ops.push(if in_manual { Op::ScopeEnd } else { Op::ScopeBegin { manual: true } });
            in_manual = !in_manual;
        }
        let alloc = (params.allocs && rng.random_bool(0.05)).then(|| next(&mut rng));
        let mut task = next(&mut rng);
        let most = params.max_fanin.min(tasks.len() as u32);
        let fanin = if number + 1 == params.tasks { most } else { rng.random_range(0..=most.min(6)) };
        let picked = rand::seq::index::sample(&mut rng, tasks.len(), fanin as usize);
        task.deps = picked.iter().map(|position| tasks[position]).collect();
        if let Some(alloc) = alloc {
            task.deps.push(alloc.id);
            ops.push(Op::Submit(Box::new(Submit { alloc: true, ..alloc })));
        }
        task.kernels = shape(&mut rng, params);
        task.block_num = if rng.random_bool(0.3) { rng.random_range(1..=params.spmd.max(1)) } else { 1 };
        task.early_dispatch = rng.random_bool(0.2);
        tasks.push(task.id);
        ops.push(Op::Submit(Box::new(task)));
    }
    if in_manual {
        ops.push(Op::ScopeEnd);
    }
    Program {
        name: format!("random graph {seed}"),
        buffers: Vec::new(),
        tensors: Vec::new(),
        kernels: kernels(KERNELS),
        ops,
        pace: false,
        ring_heap: crate::program::RING_HEAP,
        verify: None,
        marks: Vec::new(),
    }
}

fn shape(rng: &mut SmallRng, params: GraphParams) -> [Option<KernelId>; SUBTASKS] {
    let mut slots = [None; SUBTASKS];
    if params.dummies && rng.random_bool(0.1) {
        return slots;
    }
    let used: &[usize] = match rng.random_range(0..8) {
        0 if params.mix => &[AIC, AIV0, AIV1],
        1 if params.mix => &[AIC, AIV0],
        2 if params.mix => &[AIV0, AIV1],
        0..=4 => &[AIC],
        5 => &[AIV1],
        _ => &[AIV0],
    };
    used.iter().for_each(|&slot| slots[slot] = Some(KernelId(rng.random_range(0..KERNELS))));
    slots
}

/// The parts of a program's `deps.json` that [`load`](super::load) reads: explicit dependencies as edges, an alloc's as
/// `creator` edges. The error says which submit has no fixed task id.
pub fn to_deps_json(program: &Program) -> Result<String, String> {
    let mut ids = Vec::new();
    let mut allocs = Vec::new();
    let (mut tasks, mut edges) = (String::new(), String::new());
    let mut scopes = vec!["auto"];
    for op in &program.ops {
        let submit = match op {
            Op::ScopeBegin { manual } => {
                scopes.push(if *manual { "manual" } else { "auto" });
                continue;
            }
            Op::ScopeEnd => {
                scopes.pop();
                continue;
            }
            Op::Submit(submit) => submit,
        };
        let TaskIdRule::Fixed(id) = submit.task_id else {
            return Err(format!("submit {} has no fixed task id", submit.id.0));
        };
        ids.push(id);
        allocs.push(submit.alloc);
        if submit.alloc {
            continue;
        }
        let [a, b, c] = submit.kernels.map(|kernel| kernel.map_or(-1, |kernel| i64::from(kernel.0)));
        let (scope, early, blocks) =
            (scopes.last().unwrap_or(&"auto"), submit.early_dispatch, submit.block_num);
        let comma = if tasks.is_empty() { "" } else { "," };
        let _ = write!(
            tasks,
            r#"{comma}{{"task_id":"{id}","scope":"{scope}","early_dispatch":{early},"kernel_ids":[{a},{b},{c}],"block_num":{blocks},"args":[]}}"#
        );
        for dep in &submit.deps {
            let (pred, is_alloc) = (ids[dep.0 as usize], allocs[dep.0 as usize]);
            let source = if is_alloc { "creator" } else { "explicit" };
            let comma = if edges.is_empty() { "" } else { "," };
            let _ = write!(
                edges,
                r#"{comma}{{"pred":"{pred}","succ":"{id}","arg":-1,"source":"{source}","flags":["wait","retain"]}}"#
            );
        }
    }
    Ok(format!("{{\"tasks\":[{tasks}],\"tensors\":[],\"edges\":[{edges}]}}\n"))
}
