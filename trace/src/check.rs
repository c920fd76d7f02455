//! Is what lies in an output directory complete and of one piece?
//!
//! Answered from the files alone, trusting none: each is parsed strictly, compared with what `run.json` says of it,
//! and with the others. An *error* is something missing, broken or contradictory, and makes the answer INCOMPLETE; a
//! *warning* is something odd that is nevertheless all there (a task that ends before it starts: the clocks are
//! suspect, no row is missing); a *note* is what a reader must know to read the verdict.

mod deps;
mod others;
mod pmu;
mod report;
mod scopes;
mod swimlane;

use crate::digest::{self, Identity};
use crate::locate;
use crate::records::{self, Records};
use dfx_host_drain::artifact::{self, ARTIFACT_NAMES};
use dfx_host_drain::export::swimlane::FILE_NAME as RECORDS_NAME;
use dfx_host_drain::report::{FILE_NAME as REPORT_NAME, RunReport};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// How much a finding weighs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// To know when reading the verdict.
    Note,
    /// Odd, but nothing is missing.
    Warning,
    /// Missing, broken or contradictory.
    Error,
}

/// Something that the check found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// How much it weighs.
    pub severity: Severity,
    /// A word for programs.
    pub code: &'static str,
    /// The artifact, relative to the output directory; the directory itself is `.`.
    pub file: String,
    /// How often.
    pub count: u64,
    /// What it is, with an example if it is there more than once.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}: {} [{}]", self.file, self.message, self.code)
    }
}

/// What the check found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckReport {
    /// The output directory that was checked.
    pub dir: PathBuf,
    /// Whether nothing is missing, broken or contradictory.
    pub complete: bool,
    /// Whether there is a `run.json` to judge by.
    pub has_run_json: bool,
    /// What was found, the gravest first.
    pub findings: Vec<Finding>,
    /// What is there: rows and entries by name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// The counts that a verdict names, in its order, and how.
const COUNTED: [(&str, &str); 9] = [
    ("core_rows", "core rows"),
    ("aicpu_rows", "AICPU rows"),
    ("scheduler_phases", "scheduler phases"),
    ("submits", "submits"),
    ("dump_args", "dumped arguments"),
    ("pmu_rows", "PMU rows"),
    ("scope_samples", "scope samples"),
    ("deps_tasks", "deps tasks"),
    ("deps_edges", "deps edges"),
];

/// How many messages the verdict quotes.
const QUOTED: usize = 3;

impl CheckReport {
    /// One line for a person: `complete: …` or `INCOMPLETE: …`.
    #[must_use]
    pub fn verdict(&self) -> String {
        let basis = if self.has_run_json { "" } else { " (no run.json: judged by the artifacts alone)" };
        if self.complete {
            let counts = COUNTED.iter().filter_map(|(key, name)| Some((self.counts.get(key)?, name)));
            let counts: Vec<_> =
                counts.filter(|(n, _)| **n > 0).map(|(n, name)| format!("{n} {name}")).collect();
            let counts = if counts.is_empty() { "nothing was recorded".into() } else { counts.join(", ") };
            return format!("complete: {counts}{basis}");
        }
        let errors: Vec<_> = self.findings.iter().filter(|f| f.severity == Severity::Error).collect();
        let mut quoted: Vec<_> =
            errors.iter().take(QUOTED).map(|f| format!("{}: {}", f.file, f.message)).collect();
        if errors.len() > QUOTED {
            quoted.push(format!("and {} more", errors.len() - QUOTED));
        }
        format!("INCOMPLETE: {}{basis}", quoted.join("; "))
    }
}

/// A directory that cannot be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// There is no such directory.
    #[error("cannot check {}: {source}; name the output directory of a run", path.display())]
    Unreadable {
        /// What was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing that a run would have left.
    #[error(
        "there are no artifacts in {}: name a directory that holds run.json or {RECORDS_NAME}, or make one with dfx run \
         vector_example --enable-chip-swimlane", path.display()
    )]
    NoArtifacts {
        /// What was named.
        path: PathBuf,
    },
}

/// Checks the output directory `dir`, or `dir/dfx_outputs` if `dir` itself holds no artifact.
pub fn check_dir(dir: &Path) -> Result<CheckReport, CheckError> {
    if let Err(source) = std::fs::read_dir(dir) {
        return Err(CheckError::Unreadable { path: dir.into(), source });
    }
    let Some(dir) = locate::output_dir(dir) else {
        return Err(CheckError::NoArtifacts { path: dir.into() });
    };
    let mut check = Check::new(&dir);
    let report = check.run_json();
    let records = check.records();
    check.others();
    check.unfinished();
    if let Some(report) = &report {
        check.report(report, records.as_ref());
        check.others_of(report, records.as_ref());
    }
    if let Some(records) = &records {
        check.swimlane(records, report.as_ref());
    }
    if let (Some(records), Some(tasks)) = (&records, &check.deps_tasks) {
        let (count, example) = swimlane::tasks_outside(records, tasks);
        let message = format!("{count} core rows are of tasks that deps.json does not have, {example}");
        check.add_if(count, Severity::Warning, "task-not-in-deps", "deps.json", message);
    }
    Ok(check.finish())
}

/// A check on its way.
struct Check<'a> {
    dir: &'a Path,
    findings: Vec<Finding>,
    counts: BTreeMap<&'static str, u64>,
    /// What the artifacts are that were read.
    identities: BTreeMap<String, Identity>,
    /// The tasks of `deps.json`.
    deps_tasks: Option<deps::DepsTasks>,
    /// What `pmu.csv` has.
    pmu: Option<pmu::Found>,
    has_run_json: bool,
}

impl<'a> Check<'a> {
    fn new(dir: &'a Path) -> Self {
        let has_run_json = dir.join(REPORT_NAME).exists();
        Check {
            dir,
            findings: Vec::new(),
            counts: BTreeMap::new(),
            identities: BTreeMap::new(),
            deps_tasks: None,
            pmu: None,
            has_run_json,
        }
    }

    fn add(&mut self, severity: Severity, code: &'static str, file: &str, count: u64, message: String) {
        self.findings.push(Finding { severity, code, file: file.into(), count, message });
    }

    fn error(&mut self, code: &'static str, file: &str, message: String) {
        self.add(Severity::Error, code, file, 1, message);
    }

    /// A finding that is one only if it was seen.
    fn add_if(&mut self, count: u64, severity: Severity, code: &'static str, file: &str, message: String) {
        if count > 0 {
            self.add(severity, code, file, count, message);
        }
    }

    fn run_json(&mut self) -> Option<RunReport> {
        if !self.has_run_json {
            let message = "there is none: judged by the artifacts alone, which cannot show what is missing at the end \
                           of a stream";
            self.add(Severity::Note, "no-run-json", REPORT_NAME, 1, message.into());
            return None;
        }
        let text = match std::fs::read(self.dir.join(REPORT_NAME)) {
            Ok(text) => text,
            Err(error) => {
                self.error("unreadable", REPORT_NAME, format!("cannot be read: {error}"));
                return None;
            }
        };
        match serde_json::from_slice(&text) {
            Ok(report) => Some(report),
            Err(error) => {
                self.error("invalid", REPORT_NAME, format!("is not valid: {error}"));
                None
            }
        }
    }

    fn records(&mut self) -> Option<Records> {
        let path = self.dir.join(RECORDS_NAME);
        if !path.exists() {
            return None;
        }
        match records::read_identified(&path) {
            Err(error) => {
                self.error("unreadable", RECORDS_NAME, format!("cannot be read: {error}"));
                None
            }
            Ok((records, identity)) => {
                self.identities.insert(RECORDS_NAME.into(), identity);
                records
                    .map_err(|error| self.error("invalid", RECORDS_NAME, swimlane::parse_message(&error)))
                    .ok()
            }
        }
    }

    fn unfinished(&mut self) {
        for path in artifact::unfinished(self.dir) {
            let name = path.strip_prefix(self.dir).unwrap_or(&path).display().to_string();
            let message = "was never finished: the run was killed while it wrote this artifact".to_owned();
            self.error("unfinished", &name, message);
        }
    }

    /// What the artifact `name` is, read now if it was not read before.
    fn identity(&mut self, name: &str) -> io::Result<Identity> {
        if let Some(identity) = self.identities.get(name) {
            return Ok(identity.clone());
        }
        let identity = digest::finish(digest::open(&self.dir.join(name))?)?;
        self.identities.insert(name.into(), identity.clone());
        Ok(identity)
    }

    fn finish(mut self) -> CheckReport {
        if !ARTIFACT_NAMES.iter().any(|name| self.dir.join(name).exists()) {
            self.error(
                "no-artifacts",
                ".",
                "no artifact was written: the run failed or was killed before".into(),
            );
        }
        // Stable: within a severity the order of the checks.
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let complete = self.findings.first().is_none_or(|finding| finding.severity < Severity::Error);
        let Check { dir, findings, counts, has_run_json, .. } = self;
        CheckReport { dir: dir.into(), complete, has_run_json, findings, counts }
    }
}
