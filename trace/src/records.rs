//! The strict reader of `chip_swimlane_records.json`.
//!
//! The text is parsed as a stream into vectors of plain rows: no tree of values, no string per row. Strict means: every
//! key is known and there at most once, every number is an integer that fits its field, every row has its columns.
//! An error says where (line and column) and what was expected. What a strict reader cannot know (do the rows make
//! sense together?) is [`check`](crate::check)'s business.
//!
//! Both shapes of the existing runtime are read: device-orchestrated and host-orchestrated.

mod host;
mod rows;
mod window;

pub use dfx_host_drain::export::swimlane::{CoreKind, FILE_NAME, Level, SchedPhaseKind};
pub use host::{AnchorError, AnchorSample, ClockAnchors, HostCapture, HostSubmit, HostUpload};
pub use rows::{CoreRow, OrchRow, SchedRow, TaskRow};

use crate::digest::{self, Identity};
use serde::{Deserialize, Deserializer, de};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A file that could not be read as swimlane records.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text is not what the format says.
    #[error("{} is not valid: line {line}, column {column}: {message}; if the run was cut short, run it again", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What was found and what was expected.
        message: String,
    },
}

impl RecordsError {
    fn new(path: &Path, error: serde_json::Error) -> Self {
        let path = path.to_path_buf();
        let (line, column) = (error.line(), error.column());
        if error.is_io() {
            return RecordsError::Io { path, source: error.into() };
        }
        let text = error.to_string();
        let place = format!(" at line {line} column {column}");
        let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        RecordsError::Parse { path, line, column, message }
    }
}

/// What a `chip_swimlane_records.json` holds. All times are ticks of the counter unless they say otherwise.
#[derive(Clone, PartialEq, Debug)]
pub struct Records {
    /// What was recorded.
    pub level: Level,
    /// What the numbers mean.
    pub metadata: Metadata,
    /// AICore rows in the order of the file.
    pub core_rows: Vec<CoreRow>,
    /// AICPU rows in the order of the file.
    pub task_rows: Vec<TaskRow>,
    /// Scheduler phases per AICPU thread, if the key is there.
    pub sched: Option<Vec<Vec<SchedRow>>>,
    /// Orchestrator submits per lane, if the key is there.
    pub orch: Option<Vec<Vec<OrchRow>>>,
    /// Submits made on the host, if the key is there.
    pub host_submits: Option<Vec<Vec<HostSubmit>>>,
    /// Uploads from the host, if the key is there.
    pub host_uploads: Option<Vec<HostUpload>>,
}

/// The artifact's outermost object, with what stands for each kind of row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(bound = "C: Deserialize<'de>, T: Deserialize<'de>, S: Deserialize<'de>, O: Deserialize<'de>")]
struct File<C, T, S, O> {
    #[serde(rename = "chip_swimlane_level", deserialize_with = "level")]
    level: Level,
    metadata: Metadata,
    #[serde(rename = "aicore_tasks")]
    core_rows: Vec<C>,
    #[serde(rename = "aicpu_tasks")]
    task_rows: Vec<T>,
    #[serde(rename = "aicpu_scheduler_phases", default, deserialize_with = "present")]
    sched: Option<Vec<Vec<S>>>,
    #[serde(rename = "aicpu_orchestrator_phases", default, deserialize_with = "present")]
    orch: Option<Vec<Vec<O>>>,
    #[serde(rename = "host_orchestrator_phases", default, deserialize_with = "present")]
    host_submits: Option<Vec<Vec<HostSubmit>>>,
    #[serde(rename = "host_device_uploads", default, deserialize_with = "present")]
    host_uploads: Option<Vec<HostUpload>>,
}

/// The `metadata` of the artifact.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Ticks of the counter per second; not 0.
    #[serde(rename = "clock_freq_hz", deserialize_with = "frequency")]
    pub clock_hz: u64,
    /// Cores of the run.
    pub num_cores: u32,
    /// One per core.
    #[serde(deserialize_with = "core_kinds")]
    pub core_types: Vec<CoreKind>,
    /// Which AICPU thread owned each core, -1 for none.
    #[serde(default, deserialize_with = "present")]
    pub core_to_thread: Option<Vec<i32>>,
    /// `host` if the host orchestrated.
    #[serde(default, deserialize_with = "present")]
    pub orchestrator_source: Option<String>,
    /// Of the host's time stamps.
    #[serde(default, deserialize_with = "present")]
    pub orchestrator_clock_domain: Option<String>,
    /// Of the device's time stamps.
    #[serde(default, deserialize_with = "present")]
    pub device_clock_domain: Option<String>,
    /// In ns.
    #[serde(default, deserialize_with = "present")]
    pub host_timestamp_resolution_ns: Option<u64>,
    /// In ns.
    #[serde(default, deserialize_with = "present")]
    pub host_timestamp_quantization_ns: Option<u64>,
    /// Where the host's time line starts, in ns.
    #[serde(default, deserialize_with = "present")]
    pub host_orchestration_origin_ns: Option<u64>,
    /// How the two time lines relate when they are not aligned.
    #[serde(default, deserialize_with = "present")]
    pub timeline_relation: Option<String>,
    /// The account of the host's recording.
    #[serde(default, deserialize_with = "present")]
    pub host_capture: Option<HostCapture>,
    /// What relates the two clocks.
    #[serde(default, deserialize_with = "present")]
    pub clock_anchors: Option<ClockAnchors>,
}

impl Records {
    /// Scheduler phases of all threads.
    #[must_use]
    pub fn sched_count(&self) -> u64 {
        self.sched.iter().flatten().map(|rows| rows.len() as u64).sum()
    }

    /// Submits of all device lanes.
    #[must_use]
    pub fn orch_count(&self) -> u64 {
        self.orch.iter().flatten().map(|rows| rows.len() as u64).sum()
    }

    /// Submits made on the host.
    #[must_use]
    pub fn host_submit_count(&self) -> u64 {
        self.host_submits.iter().flatten().map(|rows| rows.len() as u64).sum()
    }
}

/// Reads the records in the file `path`.
pub fn read(path: &Path) -> Result<Records, RecordsError> {
    let open =
        || fs::File::open(path).map_err(|source| RecordsError::Io { path: path.to_path_buf(), source });
    match window::read(open()?) {
        Some(records) => Ok(records),
        None => from_reader(BufReader::new(open()?), path),
    }
}

/// Reads the records from `reader`; `path` is what errors call it. Slower than [`read`].
pub fn from_reader(reader: impl BufRead, path: &Path) -> Result<Records, RecordsError> {
    let mut json = serde_json::Deserializer::from_reader(reader);
    let file = File::deserialize(&mut json).and_then(|file| json.end().map(|()| file));
    file.map(Records::from).map_err(|error| RecordsError::new(path, error))
}

/// Reads the records in `path`, and tells what the file is whether it parses or not.
pub(crate) fn read_identified(path: &Path) -> io::Result<(Result<Records, RecordsError>, Identity)> {
    let mut reader = digest::open(path)?;
    let quick = window::read(&mut reader);
    let identity = digest::finish(reader)?;
    let records = match quick {
        Some(records) => Ok(records),
        None => from_reader(BufReader::new(fs::File::open(path)?), path),
    };
    Ok((records, identity))
}

impl From<File<CoreRow, TaskRow, SchedRow, OrchRow>> for Records {
    fn from(file: File<CoreRow, TaskRow, SchedRow, OrchRow>) -> Self {
        let File { level, metadata, core_rows, task_rows, sched, orch, host_submits, host_uploads } = file;
        Records { level, metadata, core_rows, task_rows, sched, orch, host_submits, host_uploads }
    }
}

/// An optional key: absent or a value, but not `null`.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

fn level<'de, D: Deserializer<'de>>(value: D) -> Result<Level, D::Error> {
    let raw = u32::deserialize(value)?;
    Level::from_raw(raw)
        .filter(|level| *level != Level::Disabled)
        .ok_or_else(|| de::Error::custom(format_args!("chip_swimlane_level is {raw}, expected 1 to 4")))
}

fn frequency<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    match u64::deserialize(value)? {
        0 => Err(de::Error::custom("clock_freq_hz is 0, expected ticks per second")),
        hz => Ok(hz),
    }
}

fn core_kinds<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<CoreKind>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Name {
        Aic,
        Aiv,
    }
    let names = Vec::<Name>::deserialize(value)?;
    Ok(names.iter().map(|n| if matches!(n, Name::Aic) { CoreKind::Aic } else { CoreKind::Aiv }).collect())
}

#[cfg(test)]
mod tests;
