//! `graph:` programs: a captured `deps.json` made runnable again, with the tasks' durations from a
//! `chip_swimlane_records.json` if one is given.
//!
//! What the loader keeps: task ids, kernel numbers by subtask slot, blocks, the scope and early-dispatch flags, and every
//! pair of tasks with an edge as one explicit dependency. What a capture cannot show: arithmetic (kernels are dummies) and
//! allocs, which have no entry in `tasks[]`; a predecessor that only `creator` edges name is taken for one and submitted
//! just before its first consumer. Tasks keep their order unless an edge points backwards; then the smallest original
//! position that is ready goes first. Everything else that does not fit is refused with the place and the remedy.

mod error;
mod parse;
mod random;
#[cfg(test)]
mod tests;

pub use error::{GraphError, GraphFault};
pub use random::{GraphParams, random, to_deps_json};

use crate::builder::MAX_BLOCKS;
use crate::program::{Kernel, KernelId, Op, Program, SUBTASKS, Submit, SubmitId, TaskIdRule};
use parse::{DepsFile, EdgeRow, EdgeSource, TaskRow};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Largest kernel number of a graph (they become indices of a table).
pub const MAX_KERNEL_ID: u32 = 65_535;
/// How long a task takes when no records say.
pub const DEFAULT_DURATION: Duration = Duration::from_micros(5);

/// The program of a `deps.json`; `records` gives the durations.
pub fn load(deps: &Path, records: Option<&Path>) -> Result<Program, GraphError> {
    let at = |fault| GraphError { path: deps.to_path_buf(), fault };
    let text = parse::read(deps)?;
    let graph = Graph::of(parse::deps(&text).map_err(at)?).map_err(at)?;
    drop(text);
    let order = graph.order().map_err(at)?;
    let durations = match records {
        Some(path) => durations(path, &graph)?,
        None => HashMap::new(),
    };
    let mut program = graph.program(&order, &durations);
    program.pace = records.is_some();
    Ok(program)
}

/// Tasks and, by task, the distinct predecessors: a task's position, or the number of tasks plus an alloc's.
struct Graph {
    tasks: Vec<Task>,
    allocs: Vec<u64>,
    preds: Vec<Vec<u32>>,
}

struct Task {
    id: u64,
    kernels: [Option<KernelId>; SUBTASKS],
    block_num: u32,
    manual: bool,
    early_dispatch: bool,
}

impl Graph {
    fn of(file: DepsFile) -> Result<Self, GraphFault> {
        let tasks = file.tasks.ok_or(GraphFault::MissingKey { key: "tasks" })?;
        let edges = file.edges.ok_or(GraphFault::MissingKey { key: "edges" })?;
        if tasks.is_empty() {
            return Err(GraphFault::NoTasks);
        }
        let tasks: Vec<Task> = tasks.iter().map(Task::of).collect::<Result<_, _>>()?;
        let mut nodes = HashMap::with_capacity(tasks.len());
        for (position, task) in tasks.iter().enumerate() {
            if nodes.insert(task.id, position as u32).is_some() {
                return Err(GraphFault::DuplicateTask { task_id: task.id });
            }
        }
        let mut graph = Self { preds: vec![Vec::new(); tasks.len()], tasks, allocs: Vec::new() };
        for (number, edge) in edges.iter().enumerate() {
            graph.add_edge(number, edge, &mut nodes)?;
        }
        graph.deduplicate();
        Ok(graph)
    }

    fn add_edge(
        &mut self,
        number: usize,
        edge: &EdgeRow,
        nodes: &mut HashMap<u64, u32>,
    ) -> Result<(), GraphFault> {
        let &EdgeRow { pred, succ, source } = edge;
        if pred == succ {
            return Err(GraphFault::SelfEdge { number, task_id: succ });
        }
        let is_task = |&node: &u32| (node as usize) < self.tasks.len();
        let Some(succ_node) = nodes.get(&succ).copied().filter(is_task) else {
            return Err(GraphFault::UnknownSuccessor { number, pred, succ });
        };
        let pred_node = match nodes.get(&pred).copied() {
            Some(node) if is_task(&node) || source == EdgeSource::Creator => node,
            None if source == EdgeSource::Creator => {
                let node = (self.tasks.len() + self.allocs.len()) as u32;
                self.allocs.push(pred);
                nodes.insert(pred, node);
                node
            }
            _ => return Err(GraphFault::UnknownPredecessor { number, pred, succ, kind: source.name() }),
        };
        self.preds[succ_node as usize].push(pred_node);
        Ok(())
    }

    /// Keeps each predecessor's first mention.
    fn deduplicate(&mut self) {
        let mut seen = vec![u32::MAX; self.tasks.len() + self.allocs.len()];
        for (task, preds) in self.preds.iter_mut().enumerate() {
            preds.retain(|&pred| std::mem::replace(&mut seen[pred as usize], task as u32) != task as u32);
        }
    }

    /// The tasks' positions in an order that every edge agrees with.
    fn order(&self) -> Result<Vec<u32>, GraphFault> {
        let count = self.tasks.len() as u32;
        let task_preds = |task: u32| self.preds[task as usize].iter().copied().filter(move |&p| p < count);
        if (0..count).all(|task| task_preds(task).all(|pred| pred < task)) {
            return Ok((0..count).collect());
        }
        let mut waiting: Vec<usize> = (0..count).map(|task| task_preds(task).count()).collect();
        let mut followers = vec![Vec::new(); count as usize];
        for task in 0..count {
            task_preds(task).for_each(|pred| followers[pred as usize].push(task));
        }
        let mut ready: BinaryHeap<_> =
            (0..count).filter(|&task| waiting[task as usize] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(count as usize);
        while let Some(Reverse(task)) = ready.pop() {
            order.push(task);
            for &follower in &followers[task as usize] {
                waiting[follower as usize] -= 1;
                if waiting[follower as usize] == 0 {
                    ready.push(Reverse(follower));
                }
            }
        }
        match waiting.iter().position(|&preds| preds > 0) {
            None => Ok(order),
            Some(stuck) => Err(self.cycle(stuck as u32, &waiting)),
        }
    }

    /// A cycle upstream of `stuck`: every waiting task has a waiting predecessor, so walking back must come round.
    fn cycle(&self, stuck: u32, waiting: &[usize]) -> GraphFault {
        let waits = |&task: &u32| waiting.get(task as usize).is_some_and(|&preds| preds > 0);
        let mut path = Vec::new();
        let mut step_of = HashMap::new();
        let mut task = stuck;
        while !step_of.contains_key(&task) {
            step_of.insert(task, path.len());
            path.push(task);
            task = self.preds[task as usize].iter().copied().find(waits).unwrap_or(task);
        }
        let mut tasks: Vec<u64> =
            path[step_of[&task]..].iter().map(|&task| self.tasks[task as usize].id).collect();
        tasks.reverse();
        let first = (0..tasks.len()).min_by_key(|&step| tasks[step]).unwrap_or(0);
        tasks.rotate_left(first);
        GraphFault::Cycle { tasks }
    }

    /// Tasks and allocs in submit order: each alloc just before its first consumer.
    fn plan(&self, order: &[u32]) -> Vec<u32> {
        let tasks = self.tasks.len();
        let mut planned = vec![false; self.allocs.len()];
        let mut plan = Vec::with_capacity(tasks + self.allocs.len());
        for &task in order {
            let first = plan.len();
            for &pred in &self.preds[task as usize] {
                let alloc = (pred as usize).checked_sub(tasks);
                if alloc.is_some_and(|alloc| !std::mem::replace(&mut planned[alloc], true)) {
                    plan.push(pred);
                }
            }
            plan[first..].sort_by_key(|&node| self.allocs[node as usize - tasks]);
            plan.push(task);
        }
        plan
    }

    fn program(&self, order: &[u32], durations: &HashMap<u64, Duration>) -> Program {
        let plan = self.plan(order);
        let mut submit_of = vec![SubmitId(0); plan.len()];
        for (submit, &node) in plan.iter().enumerate() {
            submit_of[node as usize] = SubmitId(submit as u32);
        }
        let mut ops = Vec::with_capacity(plan.len());
        let mut in_manual = false;
        for node in plan {
            let id = submit_of[node as usize];
            let Some(task) = self.tasks.get(node as usize) else {
                let alloc = self.allocs[node as usize - self.tasks.len()];
                ops.push(Op::Submit(Box::new(Submit { alloc: true, ..bare(id, alloc) })));
                continue;
            };
            if task.manual != in_manual {
                ops.push(if task.manual { Op::ScopeBegin { manual: true } } else { Op::ScopeEnd });
                in_manual = task.manual;
            }
            let deps = self.preds[node as usize].iter().map(|&pred| submit_of[pred as usize]).collect();
            ops.push(Op::Submit(Box::new(Submit {
                kernels: task.kernels,
                block_num: task.block_num,
                deps,
                early_dispatch: task.early_dispatch,
                duration: durations.get(&task.id).copied(),
                ..bare(id, task.id)
            })));
        }
        if in_manual {
            ops.push(Op::ScopeEnd);
        }
        let top = self.tasks.iter().flat_map(|task| task.kernels).flatten().max();
        Program {
            name: "graph".into(),
            buffers: Vec::new(),
            tensors: Vec::new(),
            kernels: kernels(top.map_or(0, |kernel| kernel.0 + 1)),
            ops,
            pace: false,
            ring_heap: crate::program::RING_HEAP,
            verify: None,
            marks: Vec::new(),
        }
    }
}

impl Task {
    fn of(row: &TaskRow) -> Result<Self, GraphFault> {
        let task_id = row.task_id;
        let &[aic, aiv0, aiv1] = row.kernel_ids.as_slice() else {
            return Err(GraphFault::KernelSlots { task_id, found: row.kernel_ids.len() });
        };
        let kernel = |value: i64| match u32::try_from(value) {
            _ if value == -1 => Ok(None),
            Ok(id) if id <= MAX_KERNEL_ID => Ok(Some(KernelId(id))),
            _ => Err(GraphFault::KernelId { task_id, value }),
        };
        let blocks = u32::try_from(row.block_num).ok().filter(|blocks| (1..=MAX_BLOCKS).contains(blocks));
        Ok(Self {
            id: task_id,
            kernels: [kernel(aic)?, kernel(aiv0)?, kernel(aiv1)?],
            block_num: blocks.ok_or(GraphFault::BlockNum { task_id, value: row.block_num })?,
            manual: row.scope == parse::Scope::Manual,
            early_dispatch: row.early_dispatch,
        })
    }
}

/// The longest row of each task.
fn durations(path: &Path, graph: &Graph) -> Result<HashMap<u64, Duration>, GraphError> {
    let at = |fault| GraphError { path: path.to_path_buf(), fault };
    let text = parse::read(path)?;
    let records = parse::records(&text).map_err(at)?;
    let mut longest: HashMap<u64, u64> = HashMap::new();
    let mut skipped = 0u64;
    for &[_, task, _, start, end, _] in &records.rows {
        let cycles = end.wrapping_sub(start);
        if cycles > i64::MAX as u64 {
            skipped += 1;
            continue;
        }
        let longest = longest.entry(task).or_default();
        *longest = cycles.max(*longest);
    }
    if skipped > 0 {
        tracing::warn!(path = %path.display(), skipped, "core rows that end before they start: their durations are not used");
    }
    if !longest.is_empty() && !graph.tasks.iter().any(|task| longest.contains_key(&task.id)) {
        return Err(at(GraphFault::ForeignRecords { rows: records.rows.len() }));
    }
    let time = |cycles: u64| {
        let nanos = u128::from(cycles) * 1_000_000_000 / u128::from(records.frequency);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    Ok(longest.into_iter().map(|(task, cycles)| (task, time(cycles))).collect())
}

/// Dummy kernels 0 to `count` - 1.
fn kernels(count: u32) -> Vec<Kernel> {
    let run: crate::program::KernelFn = Arc::new(|_| {});
    let kernel = |id| Kernel { name: format!("func_{id}"), duration: DEFAULT_DURATION, run: run.clone() };
    (0..count).map(kernel).collect()
}

/// A submit with a task id and nothing else.
fn bare(id: SubmitId, task_id: u64) -> Submit {
    Submit {
        id,
        task_id: TaskIdRule::Fixed(task_id),
        kernels: [None; SUBTASKS],
        block_num: 1,
        args: Vec::new(),
        deps: Vec::new(),
        alloc: false,
        predicate: true,
        early_dispatch: false,
        sync_start: false,
        async_after: None,
        nodes: Vec::new(),
        duration: None,
        marks: crate::marks::ArgMarks::NONE,
    }
}
