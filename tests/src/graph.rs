//! What a graph promises of the records of its run, taken from its `deps.json` without the loader.

use crate::rows::{CoreRow, Records};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Subtask slots of a task.
const SLOTS: usize = 3;

/// A task.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Task {
    /// Which subtask slots (AIC, AIV0, AIV1) have a kernel.
    pub active: [bool; SLOTS],
    /// Its blocks.
    pub blocks: u64,
}

impl Task {
    /// Core rows that it must give.
    pub fn rows(&self) -> u64 {
        self.blocks * self.active.iter().filter(|active| **active).count() as u64
    }
}

/// A graph.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Graph {
    /// By task id.
    pub tasks: BTreeMap<u64, Task>,
    /// Buffers' creators that are no tasks.
    pub allocs: BTreeSet<u64>,
    /// By task id: the tasks and allocs that it must not start before the end of.
    pub preds: BTreeMap<u64, BTreeSet<u64>>,
}

/// A task id: decimal text.
fn id(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value} is no task id"))
}

impl Graph {
    /// The graph of a `deps.json`'s text.
    pub fn of_deps_json(text: &str) -> Graph {
        let file: Value = serde_json::from_str(text).expect("it is JSON");
        let list = |key: &str| file[key].as_array().unwrap_or_else(|| panic!("no {key}")).iter();
        let task = |row: &Value| {
            let kernel = |slot: usize| row["kernel_ids"][slot].as_i64().expect("a number") != -1;
            let blocks = row["block_num"].as_u64().expect("a number");
            (id(&row["task_id"]), Task { active: [kernel(0), kernel(1), kernel(2)], blocks })
        };
        let tasks: BTreeMap<u64, Task> = list("tasks").map(task).collect();
        let mut graph = Graph { allocs: BTreeSet::new(), preds: BTreeMap::new(), tasks };
        for edge in list("edges") {
            let (pred, succ) = (id(&edge["pred"]), id(&edge["succ"]));
            graph.preds.entry(succ).or_default().insert(pred);
            if !graph.tasks.contains_key(&pred) {
                graph.allocs.insert(pred);
            }
        }
        graph
    }

    /// Core rows in all.
    pub fn rows(&self) -> u64 {
        self.tasks.values().map(Task::rows).sum()
    }

    /// Checks everything that the graph promises of the records at their level.
    pub fn assert_kept(&self, what: &str, records: &Records) {
        self.assert_tasks_kept(what, records);
        if records.chip_swimlane_level >= 4 {
            let submits = records.submits();
            assert!(submits.iter().map(|row| row.submit_idx).eq(0..submits.len() as u64), "{what}");
            let mut ids: Vec<u64> = submits.iter().map(|row| row.task_id).collect();
            ids.sort_unstable();
            let mut expected: Vec<u64> = self.tasks.keys().chain(&self.allocs).copied().collect();
            expected.sort_unstable();
            assert_eq!(ids, expected, "{what}: submits, allocs included");
        }
    }

    /// As [`assert_kept`](Self::assert_kept), but for the submits.
    pub fn assert_tasks_kept(&self, what: &str, records: &Records) {
        self.assert_rows(what, records);
        self.assert_order(what, records);
        records.assert_tokens_in_order(what);
        assert_levels(what, records, self.rows());
        if records.chip_swimlane_level >= 3 {
            let dummies = self.tasks.values().filter(|task| task.rows() == 0).count() as u64;
            assert_eq!(records.processed("dummy"), dummies, "{what}: tasks retired without a core");
            let markers = records.phases().filter(|phase| phase.kind == "dummy_task").count() as u64;
            assert_eq!(markers, dummies, "{what}: dummy_task markers");
        }
    }

    /// One core row per block and active subtask, on a core of its kind; the subtasks of a block on one physical block.
    fn assert_rows(&self, what: &str, records: &Records) {
        let aics = records.metadata.core_types.iter().filter(|kind| *kind == "aic").count() as u32;
        // Core numbers: all AIC cores first, then two AIV cores per block.
        let place =
            |core: u32| if core < aics { (core, 0) } else { ((core - aics) / 2, 1 + (core - aics) % 2) };
        let mut found: HashMap<u64, BTreeMap<u32, [u64; SLOTS]>> = HashMap::new();
        for row in &records.aicore_tasks {
            let (block, slot) = place(row.core);
            found.entry(row.task).or_default().entry(block).or_default()[slot as usize] += 1;
        }
        for (id, task) in &self.tasks {
            let blocks = found.remove(id).unwrap_or_default();
            let sum = |slot: usize| blocks.values().map(|slots| slots[slot]).sum::<u64>();
            let sums = [sum(0), sum(1), sum(2)];
            let active = task.active.iter().filter(|active| **active).count();
            if active > 1 {
                // All subtasks of a block on one physical block, each on its own core.
                for slots in blocks.values() {
                    let n = *slots.iter().max().unwrap_or(&0);
                    let expected = task.active.map(|active| if active { n } else { 0 });
                    assert_eq!(*slots, expected, "{what}: task {id:#x} {task:?} on {blocks:?}");
                }
            }
            let aic = if task.active[0] { task.blocks } else { 0 };
            let aiv = task.rows() - aic;
            assert_eq!((sums[0], sums[1] + sums[2]), (aic, aiv), "{what}: task {id:#x} {task:?}");
        }
        assert!(found.is_empty(), "{what}: rows of tasks that are not in the graph: {:?}", found.keys());
    }

    /// No task starts before its predecessors have ended; a predecessor without rows stands for its own predecessors.
    fn assert_order(&self, what: &str, records: &Records) {
        let mut times: HashMap<u64, (u64, u64)> = HashMap::new();
        for &CoreRow { task, start, end, .. } in &records.aicore_tasks {
            let time = times.entry(task).or_insert((start, end));
            *time = (time.0.min(start), time.1.max(end));
        }
        let mut ends = HashMap::new();
        for (succ, preds) in &self.preds {
            let Some((start, _)) = times.get(succ) else { continue };
            for pred in preds {
                let end = self.end_of(*pred, &times, &mut ends);
                assert!(
                    *start >= end,
                    "{what}: task {succ:#x} starts at {start}, before {pred:#x} ends at {end}"
                );
            }
        }
    }

    fn end_of(&self, task: u64, times: &HashMap<u64, (u64, u64)>, known: &mut HashMap<u64, u64>) -> u64 {
        if let Some((_, end)) = times.get(&task) {
            return *end;
        }
        if let Some(end) = known.get(&task) {
            return *end;
        }
        let preds = self.preds.get(&task).into_iter().flatten();
        let end = preds.map(|pred| self.end_of(*pred, times, known)).max().unwrap_or(0);
        known.insert(task, end);
        end
    }
}

/// Each level adds its own streams and no others, and they agree with each other about `rows` dispatches.
pub fn assert_levels(what: &str, records: &Records, rows: u64) {
    let level = records.chip_swimlane_level;
    assert_eq!(records.aicore_tasks.len() as u64, rows, "{what}: core rows");
    for row in &records.aicore_tasks {
        assert!(row.start != 0 && row.end >= row.start, "{what}: {row:?}");
    }
    if level >= 2 {
        for (core, task) in records.joined(what) {
            let in_order = task.dispatch <= core.start - core.receive_to_start && core.end <= task.finish;
            assert!(in_order, "{what}: {core:?} outside of {task:?}");
        }
    } else {
        assert!(records.aicpu_tasks.is_empty(), "{what}: AICPU rows at level 1");
    }
    assert_eq!(records.aicpu_scheduler_phases.is_some(), level >= 3, "{what}: scheduler phases");
    assert_eq!(records.metadata.core_to_thread.is_some(), level >= 3, "{what}: core_to_thread");
    assert_eq!(records.aicpu_orchestrator_phases.is_some(), level >= 4, "{what}: orchestrator phases");
    if level >= 3 {
        for phase in records.phases() {
            assert!(phase.end_cycles >= phase.start_cycles, "{what}: {phase:?}");
            assert_ne!(phase.kind, "unknown", "{what}: {phase:?}");
        }
        assert_eq!(records.processed("complete"), rows, "{what}: finishes in complete phases");
        let written: u64 =
            ["dispatch", "early_dispatch", "drain_publish"].iter().map(|kind| records.processed(kind)).sum();
        assert_eq!(written, rows, "{what}: register writes in dispatch phases");
    }
    for row in records.submits() {
        assert!(row.end_cycles >= row.start_cycles, "{what}: {row:?}");
    }
}
