//! The swimlane's rows against each other.

use super::deps::DepsTasks;
use super::{Check, RECORDS_NAME, Severity};
use crate::records::{CoreRow, Level, Records, RecordsError, TaskRow};
use dfx_host_drain::report::RunReport;
use std::collections::BTreeMap;

/// How often something was seen, and the first example.
#[derive(Default)]
struct Tally {
    count: u64,
    example: String,
}

impl Tally {
    #[inline]
    fn add(&mut self, seen: bool, example: impl FnOnce() -> String) {
        if seen {
            self.seen(example);
        }
    }

    #[cold]
    fn seen(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.count == 1 {
            self.example = example();
        }
    }
}

/// Whether counter value `a` is not after `b`, wherever the counter wraps.
const fn ordered(a: u64, b: u64) -> bool {
    b.wrapping_sub(a) as i64 >= 0
}

/// The text of a parse error without the file's path, which the finding names already.
pub(super) fn parse_message(error: &RecordsError) -> String {
    match error {
        RecordsError::Parse { line, column, message, .. } => {
            format!("is not valid: line {line}, column {column}: {message}")
        }
        RecordsError::Io { source, .. } => format!("cannot be read: {source}"),
    }
}

/// Core rows of tasks that `deps` does not have, and an example.
pub(super) fn tasks_outside(records: &Records, deps: &DepsTasks) -> (u64, String) {
    let mut outside = Tally::default();
    for row in &records.core_rows {
        outside.add(!deps.has(row.task), || format!("for example task {}", row.task));
    }
    (outside.count, outside.example)
}

impl Check<'_> {
    /// Checks the rows; `report` is there if the ledger, not the tokens, tells what is missing.
    pub(super) fn swimlane(&mut self, records: &Records, report: Option<&RunReport>) {
        self.counts.insert("core_rows", records.core_rows.len() as u64);
        self.counts.insert("aicpu_rows", records.task_rows.len() as u64);
        self.counts.insert("scheduler_phases", records.sched_count());
        self.counts.insert("submits", records.orch_count() + records.host_submit_count());
        self.level_keys(records);
        self.cores(records);
        self.phases(records);
        self.submits(records);
        self.core_rows(records, report.is_none());
        if records.level >= Level::AicpuTiming {
            self.joins(records);
        }
    }

    fn tally(&mut self, severity: Severity, code: &'static str, tally: &Tally, what: &str) {
        let message = format!("{} {what}, for example {}", tally.count, tally.example);
        self.add_if(tally.count, severity, code, RECORDS_NAME, message);
    }

    /// The keys are those of the level.
    fn level_keys(&mut self, records: &Records) {
        let level = records.level;
        let mut wrong = |message: String| self.error("level-key", RECORDS_NAME, message);
        let number = level as u32;
        match (&records.sched, level >= Level::SchedPhases) {
            (None, true) => wrong(format!("has no aicpu_scheduler_phases, which level {number} demands")),
            (Some(_), false) => {
                wrong(format!("has aicpu_scheduler_phases, which level {number} does not record"))
            }
            _ => {}
        }
        if records.orch.is_some() && level < Level::OrchPhases {
            wrong(format!("has aicpu_orchestrator_phases, which level {number} does not record"));
        }
        if level < Level::AicpuTiming && !records.task_rows.is_empty() {
            wrong(format!("has aicpu_tasks rows, which level {number} does not record"));
        }
        let submits = records.orch.is_some() || records.host_submits.is_some();
        if level >= Level::OrchPhases && !submits && !records.core_rows.is_empty() {
            wrong(
                "has tasks but no submits: neither aicpu_orchestrator_phases nor host_orchestrator_phases"
                    .into(),
            );
        }
        if records.orch.is_some() && records.host_submits.is_some() {
            wrong("has submits from both the device and the host".into());
        }
        if let Some(capture) = records.metadata.host_capture.as_ref().filter(|c| c.status != "complete") {
            let message = format!(
                "the host's recording is {}: {} of {} submits, {} records dropped",
                capture.status, capture.recorded_records, capture.expected_records, capture.dropped_records
            );
            self.error("host-capture", RECORDS_NAME, message);
        }
    }

    /// Core and thread numbers are in range.
    fn cores(&mut self, records: &Records) {
        let meta = &records.metadata;
        let cores = meta.num_cores;
        if meta.core_types.len() != cores as usize {
            let message = format!("has num_cores {cores}, but {} core_types", meta.core_types.len());
            self.error("core-types", RECORDS_NAME, message);
        }
        let mut outside = Tally::default();
        for core in records.core_rows.iter().map(|r| r.core).chain(records.task_rows.iter().map(|r| r.core)) {
            outside.add(core >= cores, || format!("core {core} of {cores}"));
        }
        self.tally(Severity::Error, "core-range", &outside, "rows name a core that there is not");
        let Some(map) = &meta.core_to_thread else { return };
        if map.len() > cores as usize {
            let message = format!("has core_to_thread for {} cores of {cores}", map.len());
            self.error("core-to-thread", RECORDS_NAME, message);
        }
        let threads = records.sched.as_ref().map_or(usize::MAX, Vec::len);
        let mut outside = Tally::default();
        for (core, thread) in map.iter().enumerate() {
            let known = *thread == -1 || usize::try_from(*thread).is_ok_and(|thread| thread < threads);
            outside.add(!known, || format!("thread {thread} for core {core}"));
        }
        self.tally(
            Severity::Error,
            "core-to-thread",
            &outside,
            "cores are assigned to a thread that there is not",
        );
    }

    /// Scheduler phases are of known kinds and do not end before they start.
    fn phases(&mut self, records: &Records) {
        let (mut unknown, mut backwards) = (Tally::default(), Tally::default());
        for (thread, rows) in records.sched.iter().flatten().enumerate() {
            for (i, row) in rows.iter().enumerate() {
                unknown.add(row.kind.is_none(), || format!("number {i} of thread {thread}"));
                backwards.add(!ordered(row.start, row.end), || {
                    format!("number {i} of thread {thread}, {} to {}", row.start, row.end)
                });
            }
        }
        self.tally(Severity::Warning, "unknown-kind", &unknown, "scheduler phases are of an unknown kind");
        self.tally(Severity::Warning, "negative-phase", &backwards, "scheduler phases end before they start");
    }

    /// Submits count from 0 without a gap, over all lanes, and up within one.
    fn submits(&mut self, records: &Records) {
        let device = records.orch.iter().flatten().map(|rows| rows.iter().map(|r| r.submit_idx).collect());
        let host =
            records.host_submits.iter().flatten().map(|rows| rows.iter().map(|r| r.submit_idx).collect());
        let lanes: Vec<Vec<u32>> = device.chain(host).collect();
        let (mut disorder, mut gaps) = (Tally::default(), Tally::default());
        for lane in &lanes {
            for pair in lane.windows(2) {
                disorder.add(pair[0] >= pair[1], || format!("{} after {}", pair[1], pair[0]));
            }
        }
        let mut all = lanes.concat();
        all.sort_unstable();
        let mut next = 0;
        for submit in all {
            gaps.add(submit > next, || format!("{next} is missing before {submit}"));
            next = submit.saturating_add(1);
        }
        self.tally(Severity::Error, "submit-order", &disorder, "submits are out of order or there twice");
        self.tally(Severity::Error, "submit-gap", &gaps, "gaps are in the submits, which count from 0");
        let mut backwards = Tally::default();
        for row in records.orch.iter().flatten().flatten() {
            backwards.add(!ordered(row.start, row.end), || format!("submit {}", row.submit_idx));
        }
        self.tally(Severity::Warning, "negative-phase", &backwards, "submits end before they start");
    }

    /// What a core's own rows show without AICPU's.
    fn core_rows(&mut self, records: &Records, tokens_tell: bool) {
        let rows = &records.core_rows;
        let (mut backwards, mut twice) = (Tally::default(), Tally::default());
        for row in rows {
            backwards.add(!ordered(row.start, row.end), || {
                format!("{}, {} to {}", name(row.core, row.token), row.start, row.end)
            });
        }
        for pair in by_occurrence(rows.iter().map(|row| (row.core, row.token))).windows(2) {
            let (row, next) = (&rows[pair[0].1 as usize], &rows[pair[1].1 as usize]);
            twice.add(row == next, || name(row.core, row.token));
        }
        // Per core: the row before, whose token and start the next one's follow.
        let (mut gaps, mut disorder) = (Tally::default(), Tally::default());
        let mut before: BTreeMap<u32, &CoreRow> = BTreeMap::new();
        for row in rows {
            let Some(last) = before.insert(row.core, row) else { continue };
            disorder.add(!ordered(last.start, row.start), || {
                format!("{} after token {}", name(row.core, row.token), last.token)
            });
            // A smaller token is a new count, not a gap.
            gaps.add(row.token > last.token.saturating_add(1), || {
                format!("{} after token {}", name(row.core, row.token), last.token)
            });
        }
        self.tally(Severity::Warning, "negative-duration", &backwards, "core rows end before they start");
        self.tally(
            Severity::Warning,
            "row-order",
            &disorder,
            "core rows start before the row that precedes them",
        );
        self.tally(Severity::Error, "duplicate-row", &twice, "core rows are there twice");
        if tokens_tell {
            self.tally(
                Severity::Error,
                "token-gap",
                &gaps,
                "gaps are in the cores' tokens: rows are missing",
            );
        }
    }

    /// Every occurrence of a (core, token) is there on both sides, and the times of a pair agree.
    fn joins(&mut self, records: &Records) {
        let cores = &records.core_rows;
        let tasks = &records.task_rows;
        let core_order = by_occurrence(cores.iter().map(|row| (row.core, row.token)));
        let task_order = by_occurrence(tasks.iter().map(|row| (row.core, row.token)));
        let (mut no_core, mut no_task) = (Tally::default(), Tally::default());
        let mut times = PairTimes::default();
        let (mut i, mut j) = (0, 0);
        loop {
            match (core_order.get(i), task_order.get(j)) {
                (None, None) => break,
                (Some(a), Some(b)) if a.0 == b.0 => {
                    times.pair(&cores[a.1 as usize], &tasks[b.1 as usize]);
                    (i, j) = (i + 1, j + 1);
                }
                (Some(a), b) if b.is_none_or(|b| a.0 < b.0) => {
                    no_task.seen(|| name(a.0.0, a.0.1));
                    i += 1;
                }
                (_, Some(b)) => {
                    no_core.seen(|| name(b.0.0, b.0.1));
                    j += 1;
                }
                (Some(_), None) => unreachable!("the case before takes it"),
            }
        }
        self.tally(Severity::Error, "no-aicpu-row", &no_task, "core rows have no AICPU row");
        self.tally(Severity::Error, "no-core-row", &no_core, "AICPU rows have no core row");
        let odd = [
            ("negative-dispatch", &times.dispatch, "AICPU rows finish before they are dispatched"),
            ("early-receive", &times.receive, "tasks are received by their core before they are dispatched"),
            ("early-finish", &times.finish, "tasks are seen finished before their core ends them"),
        ];
        for (code, tally, what) in odd {
            self.tally(Severity::Warning, code, tally, what);
        }
    }
}

/// Odd times of joined rows.
#[derive(Default)]
struct PairTimes {
    dispatch: Tally,
    receive: Tally,
    finish: Tally,
}

impl PairTimes {
    fn pair(&mut self, core: &CoreRow, task: &TaskRow) {
        let receive = core.start.wrapping_sub(u64::from(core.receive_to_start));
        let place = || name(core.core, core.token);
        self.dispatch.add(!ordered(task.dispatch, task.finish), || {
            format!("{}, {} to {}", place(), task.dispatch, task.finish)
        });
        self.receive.add(!ordered(task.dispatch, receive), || {
            format!("{}, received at {receive}, dispatched at {}", place(), task.dispatch)
        });
        self.finish.add(!ordered(core.end, task.finish), || {
            format!("{}, finished at {}, ended at {}", place(), task.finish, core.end)
        });
    }
}

/// `(core, token)` and row number of each row, sorted; rows of equal key in the order of the file.
fn by_occurrence(keys: impl Iterator<Item = (u32, u32)>) -> Vec<((u32, u32), u32)> {
    let mut order: Vec<_> = keys.zip(0..).collect();
    // The row number is part of the key, so an unstable sort keeps the order of the file.
    order.sort_unstable();
    order
}

fn name(core: u32, token: u32) -> String {
    format!("token {token} of core {core}")
}
