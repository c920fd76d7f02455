//! The order of tasks: that of their submits where `deps.json` lies beside the dump, else that of their ids.
//!
//! Ids alone mislead with several rings: a task of ring 1 has a greater id than any of ring 0, whenever it was submitted.

use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Ranks of tasks.
#[derive(Default, Debug)]
pub(super) struct TaskOrder {
    /// Place of each submit.
    ranks: HashMap<u64, u64>,
}

#[derive(Deserialize)]
struct Deps {
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    task_id: String,
}

impl TaskOrder {
    /// The order of the run whose dump is in `dir`, if its submits are known.
    pub(super) fn of(dir: &Path) -> Option<TaskOrder> {
        let beside = dir.join("..").join("deps.json");
        let path = if beside.exists() { beside } else { dir.join("deps.json") };
        let file = File::open(path).ok()?;
        let deps: Deps = serde_json::from_reader(BufReader::new(file)).ok()?;
        let ids = deps.tasks.iter().zip(0..).map(|(task, rank)| Some((task.task_id.parse().ok()?, rank)));
        Some(TaskOrder { ranks: ids.collect::<Option<_>>()? })
    }

    /// Whether submits are known.
    pub(super) fn by_submit(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// What to sort a task by; one that was never submitted comes last.
    pub(super) fn key(&self, task_id: u64) -> (u64, u64) {
        (self.ranks.get(&task_id).copied().unwrap_or(u64::MAX), task_id)
    }
}
