//! `chip_swimlane_records.json`, read by the description of its format alone.

use dfx_host_drain::report::StreamKind;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// A row of `aicore_tasks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct CoreRow {
    /// The core.
    pub core: u32,
    /// `(ring << 32) | local`.
    pub task: u64,
    /// The dispatch's number on its core.
    pub token: u32,
    /// In ticks.
    pub start: u64,
    /// In ticks.
    pub end: u64,
    /// In ticks.
    pub receive_to_start: u64,
}

/// A row of `aicpu_tasks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct TaskRow {
    /// The core.
    pub core: u32,
    /// The dispatch's number on its core.
    pub token: u32,
    /// In ticks.
    pub dispatch: u64,
    /// In ticks.
    pub finish: u64,
}

/// A scheduler phase.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What it was.
    pub kind: String,
    /// In ticks.
    pub start_cycles: u64,
    /// In ticks.
    pub end_cycles: u64,
    /// The iteration of its thread.
    pub loop_iter: u64,
    /// What it did, in tasks (or as its kind counts).
    pub tasks_processed: u64,
    /// Of `dispatch` only.
    pub pop_hit: Option<u64>,
    /// Of `dispatch` only.
    pub pop_miss: Option<u64>,
    /// Of markers only.
    pub task_id: Option<u64>,
    /// AIC, AIV, MIX.
    pub shared_at_start: [i64; 3],
    /// AIC, AIV, MIX.
    pub shared_at_end: [i64; 3],
}

/// A submit of the orchestrator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRow {
    /// Counted from 0.
    pub submit_idx: u64,
    /// `(ring << 32) | local`.
    pub task_id: u64,
    /// In ticks.
    pub start_cycles: u64,
    /// In ticks.
    pub end_cycles: u64,
}

/// The head of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Ticks per second.
    pub clock_freq_hz: u64,
    /// Cores in use.
    pub num_cores: u32,
    /// `aic` or `aiv`, by core.
    pub core_types: Vec<String>,
    /// Which scheduler owned which core.
    pub core_to_thread: Option<Vec<i32>>,
}

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    /// 1 to 4.
    pub chip_swimlane_level: u32,
    /// The head.
    pub metadata: Metadata,
    /// AICore tasks.
    pub aicore_tasks: Vec<CoreRow>,
    /// AICPU tasks.
    pub aicpu_tasks: Vec<TaskRow>,
    /// By thread.
    pub aicpu_scheduler_phases: Option<Vec<Vec<Phase>>>,
    /// By lane.
    pub aicpu_orchestrator_phases: Option<Vec<Vec<SubmitRow>>>,
}

impl Records {
    /// The file at `path`.
    pub fn read(path: &Path) -> Records {
        let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// All phases of all threads.
    pub fn phases(&self) -> impl Iterator<Item = &Phase> {
        self.aicpu_scheduler_phases.iter().flatten().flatten()
    }

    /// All submits.
    pub fn submits(&self) -> Vec<SubmitRow> {
        self.aicpu_orchestrator_phases.iter().flatten().flatten().copied().collect()
    }

    /// Tasks that the phases of `kind` processed.
    pub fn processed(&self, kind: &str) -> u64 {
        self.phases().filter(|phase| phase.kind == kind).map(|phase| phase.tasks_processed).sum()
    }

    /// Rows of `kind` in lane `lane`.
    pub fn rows_of(&self, kind: StreamKind, lane: u32) -> u64 {
        let rows = match kind {
            StreamKind::AicoreTask => self.aicore_tasks.iter().filter(|row| row.core == lane).count(),
            StreamKind::AicpuTask => self.aicpu_tasks.iter().filter(|row| row.core == lane).count(),
            StreamKind::SchedPhase => {
                self.aicpu_scheduler_phases.as_ref().map_or(0, |threads| threads[lane as usize].len())
            }
            StreamKind::OrchPhase => self.submits().len(),
            _ => 0,
        };
        rows as u64
    }

    /// Rows of `kind` in all.
    pub fn all_rows_of(&self, kind: StreamKind) -> u64 {
        let rows = match kind {
            StreamKind::AicoreTask => self.aicore_tasks.len(),
            StreamKind::AicpuTask => self.aicpu_tasks.len(),
            StreamKind::SchedPhase => self.phases().count(),
            StreamKind::OrchPhase => self.submits().len(),
            _ => 0,
        };
        rows as u64
    }

    /// The two task streams joined by `(core, token)`, occurrence by occurrence, in the order of the core rows.
    ///
    /// # Panics
    /// If a row of either has no partner.
    pub fn joined(&self, what: &str) -> Vec<(CoreRow, TaskRow)> {
        let mut by_key: HashMap<(u32, u32), Vec<TaskRow>> = HashMap::new();
        for row in self.aicpu_tasks.iter().rev() {
            by_key.entry((row.core, row.token)).or_default().push(*row);
        }
        let partner = |row: &CoreRow| {
            let rows = by_key.get_mut(&(row.core, row.token)).and_then(Vec::pop);
            (*row, rows.unwrap_or_else(|| panic!("{what}: {row:?} has no AICPU row")))
        };
        let joined: Vec<_> = self.aicore_tasks.iter().map(partner).collect();
        assert_eq!(joined.len(), self.aicpu_tasks.len(), "{what}: AICPU rows without a core row");
        joined
    }

    /// In each core's streams the tokens go up, one by one from 1: nothing is missing, twice, or out of order.
    pub fn assert_tokens_in_order(&self, what: &str) {
        let mut next: HashMap<(u32, bool), u32> = HashMap::new();
        let core_rows = self.aicore_tasks.iter().map(|row| (row.core, row.token, false));
        let task_rows = self.aicpu_tasks.iter().map(|row| (row.core, row.token, true));
        for (core, token, of_aicpu) in core_rows.chain(task_rows) {
            let next = next.entry((core, of_aicpu)).or_insert(1);
            assert_eq!(token, *next, "{what}: core {core}, AICPU stream: {of_aicpu}");
            *next += 1;
        }
    }
}
