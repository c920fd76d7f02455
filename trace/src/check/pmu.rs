//! `pmu.csv`: every row has the columns of one event type, and a core is of one kind.

use super::others::{Reader, lines};
use super::{Check, Severity};
use crate::records::Records;
use dfx_host_drain::export::pmu::columns as columns_of;
use dfx_host_drain::report::{RunReport, StreamKind};
use dfx_host_drain::{ExecutionMode, PmuEvent, Target};
use std::collections::BTreeMap;

const NAME: &str = "pmu.csv";
/// Columns before the counters'.
const HEAD: [&str; 6] = ["thread_id", "core_id", "task_id", "func_id", "core_type", "pmu_total_cycles"];

/// What the file has.
#[derive(Default)]
pub(super) struct Found {
    columns: Vec<String>,
    events: BTreeMap<u32, u64>,
    /// Rows, and the core's type, by core.
    cores: BTreeMap<u32, (u64, u32)>,
    /// (core, task) of each row.
    tasks: Vec<(u32, u64)>,
    /// Rows of a core whose type another row of that core has otherwise.
    two_kinds: u64,
}

impl Found {
    fn header(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split(',').collect();
        match fields.strip_prefix(&HEAD[..]) {
            Some([columns @ .., "event_type"]) if !columns.is_empty() => {
                self.columns = columns.iter().map(|name| (*name).to_owned()).collect();
                Ok(())
            }
            _ => Err(format!("the header is {line:?}, expected {},…,event_type", HEAD.join(","))),
        }
    }

    fn row(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split(',').collect();
        let expected = HEAD.len() + self.columns.len() + 1;
        if fields.len() != expected {
            return Err(format!("{} columns, expected {expected}", fields.len()));
        }
        let no_number = |field: &str| format!("{field:?}, expected a number");
        let number = |at: usize| fields[at].parse::<u32>().map_err(|_| no_number(fields[at]));
        let task = fields[2].strip_prefix("0x").filter(|digits| digits.len() == 16);
        let task = task.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let task = task.ok_or_else(|| format!("{:?}, expected 0x and 16 digits", fields[2]))?;
        fields[5].parse::<u64>().map_err(|_| no_number(fields[5]))?;
        for at in [0, 3].into_iter().chain(HEAD.len()..expected - 1) {
            number(at)?;
        }
        let (core, kind, event) = (number(1)?, number(4)?, number(expected - 1)?);
        if kind > 1 {
            return Err(format!("core type {kind}, expected 0 (AIC) or 1 (AIV)"));
        }
        *self.events.entry(event).or_default() += 1;
        let of_core = self.cores.entry(core).or_insert((0, kind));
        of_core.0 += 1;
        self.two_kinds += u64::from(of_core.1 != kind);
        self.tasks.push((core, task));
        Ok(())
    }

    fn rows(&self) -> u64 {
        self.tasks.len() as u64
    }
}

impl Check<'_> {
    pub(super) fn pmu(&mut self, reader: &mut Reader) -> Result<(), String> {
        let mut found = Found::default();
        lines(reader, |number, line| if number == 1 { found.header(line) } else { found.row(line) })?;
        self.counts.insert("pmu_rows", found.rows());
        if found.columns.is_empty() {
            return Err("the file is empty, expected a header".into());
        }
        if found.events.len() > 1 {
            let events: Vec<_> = found.events.keys().map(u32::to_string).collect();
            self.error(
                "event-type",
                NAME,
                format!("has rows of event types {}: a run counts one", events.join(", ")),
            );
        }
        let message = format!("has {} rows whose core is AIC in some and AIV in others", found.two_kinds);
        self.add_if(found.two_kinds, Severity::Error, "core-type", NAME, message);
        self.pmu = Some(found);
        Ok(())
    }

    /// The rows against `run.json` and the cores' own rows.
    pub(super) fn pmu_of(&mut self, report: &RunReport, records: Option<&Records>) {
        let Some(found) = self.pmu.take() else { return };
        if found.events.keys().any(|event| *event != report.levels.pmu) {
            let message = format!(
                "has rows of event type {:?}, run.json says {}",
                found.events.keys(),
                report.levels.pmu
            );
            self.error("event-type", NAME, message);
        }
        if let Some(columns) = columns(report)
            && found.columns != columns
        {
            let message = format!(
                "has the columns {}, event type {} has {}",
                found.columns.join(","),
                report.levels.pmu,
                columns.join(",")
            );
            self.error("columns", NAME, message);
        }
        let streams: Vec<_> = report.streams.iter().filter(|s| s.kind == StreamKind::PmuRow).collect();
        let mut cores: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        found.cores.iter().for_each(|(core, (rows, _))| cores.entry(*core).or_default().0 = *rows);
        streams.iter().for_each(|stream| cores.entry(stream.lane).or_default().1 += stream.collected);
        for (core, (rows, collected)) in cores {
            if rows != collected {
                let message = format!("has {rows} rows of core {core}, run.json says {collected}");
                self.add(Severity::Error, "row-count", NAME, rows.abs_diff(collected), message);
            }
        }
        // A run that did not end well may have rows of a task in one stream only: its account says so.
        if let Some(records) = records.filter(|_| report.complete && report.levels.pmu != 0) {
            let mut ours = found.tasks;
            let mut theirs: Vec<_> = records.core_rows.iter().map(|row| (row.core, row.task)).collect();
            ours.sort_unstable();
            theirs.sort_unstable();
            if ours != theirs {
                let message = format!(
                    "has {} rows, which are not of the same tasks on the same cores as the {} core rows of the swimlane",
                    ours.len(),
                    theirs.len()
                );
                self.error("pmu-tasks", NAME, message);
            }
        }
    }
}

/// The counters' columns that the run's platform and event type have, if it says so.
fn columns(report: &RunReport) -> Option<Vec<&'static str>> {
    let event = PmuEvent::from_raw(report.levels.pmu)?;
    let target = Target { backend: report.backend_type.parse().ok()?, mode: ExecutionMode::Sim };
    Some(columns_of(target.platform(), event).collect())
}
