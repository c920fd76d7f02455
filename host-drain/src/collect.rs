//! The collector: takes delivered buffers, checks their rows, and keeps them until export.

use crate::lanes::LaneId;
use crate::records::SwimlaneRecords;
use crate::report::StreamKind;
use dfx_collector::abi::swimlane::{CoreRecord, OrchPhaseRecord, SchedPhaseKind, SchedPhaseRecord, TaskRecord};
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// The records of one buffer, on the host.
#[derive(Debug)]
pub enum Rows {
    /// AICore tasks.
    Core(Vec<CoreRecord>),
    /// AICPU tasks.
    Task(Vec<TaskRecord>),
    /// Scheduler phases.
    Sched(Vec<SchedPhaseRecord>),
    /// Orchestrator submits.
    Orch(Vec<OrchPhaseRecord>),
}

impl Rows {
    /// `rows` records of `kind`, whose bytes `fill` supplies.
    pub(crate) fn fetch<E>(kind: StreamKind, rows: u32, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Rows, E> {
        let rows = rows as usize;
        Ok(match kind {
            StreamKind::AicoreTask => {
                let mut records = vec![CoreRecord::default(); rows];
                fill(records.as_mut_bytes())?;
                Rows::Core(records)
            }
            StreamKind::SchedPhase => {
                let mut records = vec![SchedPhaseRecord::default(); rows];
                fill(records.as_mut_bytes())?;
                Rows::Sched(records)
            }
            StreamKind::OrchPhase => {
                let mut records = vec![OrchPhaseRecord::default(); rows];
                fill(records.as_mut_bytes())?;
                Rows::Orch(records)
            }
            _ => {
                let mut records = vec![TaskRecord::default(); rows];
                fill(records.as_mut_bytes())?;
                Rows::Task(records)
            }
        })
    }

    /// Rows, there or not.
    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Core(rows) => rows.len(),
            Rows::Task(rows) => rows.len(),
            Rows::Sched(rows) => rows.len(),
            Rows::Orch(rows) => rows.len(),
        }
    }

    /// Rows that are there: a core's row whose start is 0 is not.
    pub(crate) fn present(&self) -> usize {
        match self {
            Rows::Core(rows) => rows.iter().filter(|row| row.start_time != 0).count(),
            _ => self.len(),
        }
    }
}

/// A buffer's records on their way to the collector.
#[derive(Debug)]
pub struct Delivery {
    /// Whose.
    pub lane: LaneId,
    /// The buffer's number in the lane.
    pub seq: u32,
    /// Its records.
    pub rows: Rows,
    /// Whether the device never published it.
    pub recovered: bool,
}

/// What a lane's deliveries came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// Records kept.
    pub collected: u64,
    /// Of these: from buffers that were never published.
    pub recovered: u64,
}

/// Odd records by kind. They are kept: drawn where they can be, and counted here.
pub type Anomalies = BTreeMap<&'static str, u64>;

/// Keeps what is delivered.
#[derive(Debug)]
pub struct Collector {
    records: SwimlaneRecords,
    /// By lane: the index of its core or thread.
    index: Vec<u32>,
    taken: Vec<Taken>,
    anomalies: Anomalies,
}

/// Whether `later - earlier`, taken as wrapping, is negative.
fn backwards(earlier: u64, later: u64) -> bool {
    (later.wrapping_sub(earlier) as i64) < 0
}

impl Collector {
    /// A collector for a board of `cores` and `threads`, whose lanes have these indices.
    pub fn new(cores: u32, threads: u32, index: Vec<u32>) -> Self {
        let taken = vec![Taken::default(); index.len()];
        let records = SwimlaneRecords::new(cores as usize, threads as usize);
        Collector { records, index, taken, anomalies: Anomalies::new() }
    }

    /// What was kept so far.
    pub fn records(&self) -> &SwimlaneRecords {
        &self.records
    }

    /// What lane `id`'s deliveries came to.
    pub fn taken(&self, id: LaneId) -> Taken {
        self.taken.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// Odd records so far.
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    fn odd(&mut self, what: &'static str, count: usize) {
        if count > 0 {
            *self.anomalies.entry(what).or_default() += count as u64;
        }
    }

    /// Checks and keeps one delivery.
    pub fn take(&mut self, delivery: Delivery) {
        let lane = delivery.lane.0 as usize;
        let Some(&index) = self.index.get(lane) else { return };
        let (index, seq) = (index as usize, delivery.seq);
        let kept = match delivery.rows {
            Rows::Core(mut rows) => {
                // A row whose start is 0 was never committed: the ledger will find it lost.
                rows.retain(|row| row.start_time != 0);
                let odd = rows.iter().filter(|row| backwards(row.start_time, row.end_time)).count();
                self.odd("core_end_before_start", odd);
                self.records.push_core(index, seq, &rows).map(|()| rows.len())
            }
            Rows::Task(rows) => {
                let odd = rows.iter().filter(|row| backwards(row.dispatch_time, row.finish_time)).count();
                self.odd("task_finish_before_dispatch", odd);
                self.records.push_task(index, seq, &rows).map(|()| rows.len())
            }
            Rows::Sched(rows) => {
                let odd = rows.iter().filter(|row| backwards(row.start_time, row.end_time)).count();
                self.odd("phase_end_before_start", odd);
                let unknown = rows.iter().filter(|row| SchedPhaseKind::from_raw(row.kind).is_none()).count();
                self.odd("phase_of_unknown_kind", unknown);
                self.records.push_sched(index, seq, &rows).map(|()| rows.len())
            }
            Rows::Orch(rows) => {
                let odd = rows.iter().filter(|row| backwards(row.start_time, row.end_time)).count();
                self.odd("submit_end_before_start", odd);
                self.records.push_orch(index, seq, &rows).map(|()| rows.len())
            }
        };
        match kept {
            Ok(rows) => {
                let taken = &mut self.taken[lane];
                taken.collected += rows as u64;
                if delivery.recovered {
                    taken.recovered += rows as u64;
                }
            }
            Err(error) => tracing::warn!(%error, "a delivery could not be kept"),
        }
    }

    /// Rows of the two task streams that have no partner in the other, by `(core, token)` and occurrence: core rows
    /// without an AICPU row, and AICPU rows without a core row.
    pub fn unpaired(&self) -> (u64, u64) {
        let (mut without_task, mut without_core) = (0, 0);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for core in 0..self.records.cores() {
            ours.clear();
            theirs.clear();
            ours.extend(self.records.core_rows(core).map(|row| row.reg_task_id));
            theirs.extend(self.records.task_rows(core).map(|row| row.token));
            if ours == theirs {
                continue;
            }
            ours.sort_unstable();
            theirs.sort_unstable();
            let (mut i, mut j) = (0, 0);
            while i < ours.len() || j < theirs.len() {
                match (ours.get(i), theirs.get(j)) {
                    (Some(a), Some(b)) if a == b => (i, j) = (i + 1, j + 1),
                    (Some(a), Some(b)) if a > b => (without_core, j) = (without_core + 1, j + 1),
                    (None, Some(_)) => (without_core, j) = (without_core + 1, j + 1),
                    _ => (without_task, i) = (without_task + 1, i + 1),
                }
            }
        }
        (without_task, without_core)
    }
}
