//! `run.json` against itself, the files it lists, and the rows in them.

use super::{Check, RECORDS_NAME, REPORT_NAME, Severity};
use crate::records::Records;
use dfx_host_drain::artifact::ARTIFACT_NAMES;
use dfx_host_drain::report::{Feature, Reason, RunReport, SCHEMA, StreamKind, judge};
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path};

/// Made from artifacts after a run, by other commands: nobody lists them.
const DERIVED: [&str; 2] = ["run.json", "merged_swimlane.json"];

impl Check<'_> {
    /// Checks `report`, and `records` against it.
    pub(super) fn report(&mut self, report: &RunReport, records: Option<&Records>) {
        if report.schema != SCHEMA {
            let message = format!("has schema {}, this reader knows {SCHEMA}", report.schema);
            self.error("schema", REPORT_NAME, message);
        }
        self.account(report);
        self.listed(report);
        self.expected(report);
        if let Some(records) = records {
            self.rows(report, records);
        }
    }

    /// The ledger and the verdict that the run gave itself.
    fn account(&mut self, report: &RunReport) {
        let judged = judge(report.killed, &report.streams, report.dump.as_ref());
        if report.complete && !report.reasons.is_empty() {
            self.error("verdict", REPORT_NAME, "says complete and gives reasons why not".into());
        }
        if !report.complete && report.reasons.is_empty() {
            self.error("verdict", REPORT_NAME, "says incomplete and gives no reason".into());
        }
        let said = |reason: &Reason| {
            report
                .reasons
                .iter()
                .any(|r| (&r.code, r.lane, r.feature) == (&reason.code, reason.lane, reason.feature))
        };
        for reason in judged.iter().filter(|reason| !said(reason)) {
            self.error("unsaid", REPORT_NAME, format!("does not say that {}", reason.message));
        }
        for reason in &report.reasons {
            let message = format!("{} ({})", reason.message, reason.code);
            self.add(Severity::Error, "incomplete-run", REPORT_NAME, reason.count, message);
        }
        let mut seen = BTreeMap::new();
        for stream in &report.streams {
            *seen.entry((stream.feature, stream.kind, stream.lane)).or_insert(0u32) += 1;
        }
        for ((_, kind, lane), _) in seen.into_iter().filter(|(_, n)| *n > 1) {
            self.error(
                "stream-twice",
                REPORT_NAME,
                format!("accounts for {kind} lane {lane} more than once"),
            );
        }
        let odd = report.anomalies.iter().filter(|(_, n)| **n > 0);
        let odd: Vec<_> = odd.map(|(name, n)| format!("{n} {name}")).collect();
        if !odd.is_empty() {
            let message = format!("the run saw odd records: {}", odd.join(", "));
            self.add(Severity::Warning, "anomalies", REPORT_NAME, odd.len() as u64, message);
        }
    }

    /// Each listed artifact is there and is what it was; none is there that is not listed.
    fn listed(&mut self, report: &RunReport) {
        for entry in &report.artifacts {
            let inside = Path::new(&entry.path).components().all(|part| matches!(part, Component::Normal(_)));
            if !inside || entry.path.is_empty() {
                let message = format!("lists {:?}, which is not inside the output directory", entry.path);
                self.error("artifact-path", REPORT_NAME, message);
                continue;
            }
            match self.identity(&entry.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.error("missing", &entry.path, "is listed in run.json, but is not there".into());
                }
                Err(error) => self.error("unreadable", &entry.path, format!("cannot be read: {error}")),
                Ok(now) if now.bytes != entry.bytes => {
                    let message = format!(
                        "has {} bytes, run.json says {}: it was changed since",
                        now.bytes, entry.bytes
                    );
                    self.error("size", &entry.path, message);
                }
                Ok(now) if now.sha256 != entry.sha256 => {
                    let message = "has another SHA-256 than run.json says: it was changed since".to_owned();
                    self.error("sha256", &entry.path, message);
                }
                Ok(_) => {}
            }
        }
        for name in ARTIFACT_NAMES.iter().filter(|name| !DERIVED.contains(name)) {
            if self.dir.join(name).exists() && !report.artifacts.iter().any(|entry| entry.path == *name) {
                let message = "is there, but run.json does not list it: it is not this run's".to_owned();
                self.error("unlisted", name, message);
            }
        }
    }

    /// A switch that was on left its artifact.
    fn expected(&mut self, report: &RunReport) {
        let levels = &report.levels;
        let switches = [
            (levels.chip_swimlane > 0, Feature::ChipSwimlane, RECORDS_NAME),
            (levels.dep_gen, Feature::DepGen, "deps.json"),
            (levels.dump_args > 0, Feature::DumpArgs, "args_dump/args_dump.json"),
            (levels.pmu > 0, Feature::Pmu, "pmu.csv"),
            (levels.scope_stats, Feature::ScopeStats, "scope_stats/scope_stats.jsonl"),
        ];
        for (_, feature, name) in switches.into_iter().filter(|(on, ..)| *on) {
            if self.dir.join(name).exists() || report.artifacts.iter().any(|entry| entry.path == name) {
                continue;
            }
            let collected: u64 =
                report.streams.iter().filter(|s| s.feature == feature).map(|s| s.collected).sum();
            let (severity, message) = if collected > 0 {
                (Severity::Error, format!("is not there, though {collected} records were collected for it"))
            } else {
                // Files that hold only records are not written without any; the others always are.
                let severity = if name.ends_with(".jsonl") || name == "deps.json" {
                    Severity::Warning
                } else {
                    Severity::Note
                };
                (severity, "is not there: its switch was on, but nothing was recorded".to_owned())
            };
            self.add(severity, "missing", name, 1, message);
        }
    }

    /// The rows of each lane are as many as the ledger says were collected.
    fn rows(&mut self, report: &RunReport, records: &Records) {
        if report.levels.chip_swimlane != records.level as u32 {
            let message = format!(
                "is of level {}, run.json says {}",
                records.level as u32, report.levels.chip_swimlane
            );
            self.error("level", RECORDS_NAME, message);
        }
        let mut lanes: BTreeMap<(StreamKind, u32), (u64, u64)> = BTreeMap::new();
        for row in &records.core_rows {
            lanes.entry((StreamKind::AicoreTask, row.core)).or_default().0 += 1;
        }
        for row in &records.task_rows {
            lanes.entry((StreamKind::AicpuTask, row.core)).or_default().0 += 1;
        }
        for (lane, rows) in records.sched.iter().flatten().enumerate() {
            lanes.entry((StreamKind::SchedPhase, lane as u32)).or_default().0 += rows.len() as u64;
        }
        for (lane, rows) in records.orch.iter().flatten().enumerate() {
            lanes.entry((StreamKind::OrchPhase, lane as u32)).or_default().0 += rows.len() as u64;
        }
        for stream in report.streams.iter().filter(|s| s.feature == Feature::ChipSwimlane) {
            lanes.entry((stream.kind, stream.lane)).or_default().1 += stream.collected;
        }
        for ((kind, lane), (rows, collected)) in lanes {
            if rows != collected {
                let message = format!("has {rows} {kind} rows of lane {lane}, run.json says {collected}");
                self.add(Severity::Error, "row-count", RECORDS_NAME, rows.abs_diff(collected), message);
            }
        }
    }
}
