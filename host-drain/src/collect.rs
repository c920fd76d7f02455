//! The collector: takes delivered buffers, checks their rows, and keeps them until export.

use crate::deps::SubmitStore;
use crate::dump::Dump;
use crate::export::pmu::PmuRow;
use crate::lanes::LaneId;
use crate::records::{Lanes, SwimlaneRecords};
use crate::report::StreamKind;
use dfx_collector::abi::Platform;
use dfx_collector::abi::args_dump;
use dfx_collector::abi::dep_gen::SubmitRecord;
use dfx_collector::abi::pmu::{RecordA2a3, RecordA5};
use dfx_collector::abi::scope_stats;
use dfx_collector::abi::swimlane::{
    CoreRecord, OrchPhaseRecord, SchedPhaseKind, SchedPhaseRecord, TaskRecord,
};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

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
    /// dep_gen's submits and overflow slots.
    Submit(Vec<SubmitRecord>),
    /// PMU records of a2a3.
    PmuA2a3(Vec<RecordA2a3>),
    /// PMU records of a5.
    PmuA5(Vec<RecordA5>),
    /// Scope samples.
    Scope(Vec<scope_stats::Record>),
    /// Dumped arguments.
    Arg(Vec<args_dump::Record>),
}

fn filled<R: Clone + FromZeros + IntoBytes + FromBytes, E>(
    rows: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<R>, E> {
    let mut records = vec![R::new_zeroed(); rows];
    fill(records.as_mut_bytes())?;
    Ok(records)
}

impl Rows {
    /// `rows` records of `kind`, whose bytes `fill` supplies.
    pub(crate) fn fetch<E>(
        kind: StreamKind,
        rows: u32,
        platform: Platform,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Rows, E> {
        let rows = rows as usize;
        Ok(match kind {
            StreamKind::AicoreTask => Rows::Core(filled(rows, fill)?),
            StreamKind::AicpuTask => Rows::Task(filled(rows, fill)?),
            StreamKind::SchedPhase => Rows::Sched(filled(rows, fill)?),
            StreamKind::OrchPhase => Rows::Orch(filled(rows, fill)?),
            StreamKind::Submit => Rows::Submit(filled(rows, fill)?),
            StreamKind::ScopeSample => Rows::Scope(filled(rows, fill)?),
            StreamKind::Arg => Rows::Arg(filled(rows, fill)?),
            StreamKind::PmuRow => match platform {
                Platform::A2a3 => Rows::PmuA2a3(filled(rows, fill)?),
                Platform::A5 => Rows::PmuA5(filled(rows, fill)?),
            },
        })
    }

    /// Rows, there or not.
    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Core(rows) => rows.len(),
            Rows::Task(rows) => rows.len(),
            Rows::Sched(rows) => rows.len(),
            Rows::Orch(rows) => rows.len(),
            Rows::Submit(rows) => rows.len(),
            Rows::PmuA2a3(rows) => rows.len(),
            Rows::PmuA5(rows) => rows.len(),
            Rows::Scope(rows) => rows.len(),
            Rows::Arg(rows) => rows.len(),
        }
    }

    /// Keeps the first `rows` of a swimlane's.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            Rows::Core(of) => of.truncate(rows),
            Rows::Task(of) => of.truncate(rows),
            Rows::Sched(of) => of.truncate(rows),
            Rows::Orch(of) => of.truncate(rows),
            _ => {}
        }
    }

    /// Host memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Rows::Core(rows) => size_of_val(&rows[..]),
            Rows::Task(rows) => size_of_val(&rows[..]),
            Rows::Sched(rows) => size_of_val(&rows[..]),
            Rows::Orch(rows) => size_of_val(&rows[..]),
            Rows::Submit(rows) => size_of_val(&rows[..]),
            Rows::PmuA2a3(rows) => size_of_val(&rows[..]),
            Rows::PmuA5(rows) => size_of_val(&rows[..]),
            Rows::Scope(rows) => size_of_val(&rows[..]),
            Rows::Arg(rows) => size_of_val(&rows[..]),
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
    /// The AICPU thread whose ready queue brought it.
    pub thread: u32,
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
    /// Of these: with something that cannot be.
    pub corrupt: u64,
}

/// Odd records by kind. They are kept: drawn where they can be, and counted here.
pub type Anomalies = BTreeMap<&'static str, u64>;

/// Keeps what is delivered.
#[derive(Debug)]
pub struct Collector {
    records: SwimlaneRecords,
    pmu: Lanes<PmuRow>,
    scopes: Lanes<scope_stats::Record>,
    submits: SubmitStore,
    dump: Option<Dump>,
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
        Collector {
            records,
            pmu: Lanes::new(cores as usize),
            scopes: Lanes::new(1),
            submits: SubmitStore::default(),
            dump: None,
            index,
            taken,
            anomalies: Anomalies::new(),
        }
    }

    /// The same, with a place for dumped arguments.
    pub(crate) fn with_dump(self, dump: Option<Dump>) -> Self {
        Collector { dump, ..self }
    }

    /// The dump, if arguments are dumped.
    pub(crate) fn dump(&mut self) -> Option<&mut Dump> {
        self.dump.as_mut()
    }

    /// What was kept so far.
    pub fn records(&self) -> &SwimlaneRecords {
        &self.records
    }

    /// The PMU rows, core by core.
    pub fn pmu_rows(&self) -> impl Iterator<Item = &PmuRow> + '_ {
        self.pmu.all()
    }

    /// The scope samples.
    pub fn scope_samples(&self) -> impl Iterator<Item = &scope_stats::Record> + '_ {
        self.scopes.all()
    }

    /// The submits.
    pub fn submits(&self) -> &SubmitStore {
        &self.submits
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
            Rows::PmuA2a3(rows) => {
                let row = |record| PmuRow::of_a2a3(record, index as u32, delivery.thread);
                self.pmu.insert(index, seq, rows.iter().map(row).collect());
                Ok(rows.len())
            }
            Rows::PmuA5(rows) => {
                let row = |record| PmuRow::of_a5(record, index as u32, delivery.thread);
                self.pmu.insert(index, seq, rows.iter().map(row).collect());
                Ok(rows.len())
            }
            Rows::Scope(rows) => {
                let count = rows.len();
                self.scopes.insert(index, seq, rows.into_boxed_slice());
                Ok(count)
            }
            Rows::Arg(rows) => {
                let took = self.dump.as_mut().map(|dump| dump.take(index, seq, &rows)).unwrap_or_default();
                self.odd("arg_of_unknown_dtype", took.unknown_dtype);
                self.taken[lane].corrupt += took.corrupt as u64;
                Ok(took.kept)
            }
            // Overflow slots are no submits of their own.
            Rows::Submit(rows) => Ok(self.submits.push_buffer(seq, &rows) as usize),
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
