//! The parts of `deps.json` and `chip_swimlane_records.json` that a program is rebuilt from; all else is skipped unread.

use super::{GraphError, GraphFault};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// The file's bytes.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, GraphError> {
    let at = |fault| GraphError { path: path.to_path_buf(), fault };
    if path.is_dir() {
        return Err(at(GraphFault::Directory { example: path.join("deps.json").display().to_string() }));
    }
    std::fs::read(path).map_err(|cause| at(GraphFault::Read(cause)))
}

fn json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, GraphFault> {
    serde_json::from_slice(text).map_err(|cause| GraphFault::Json {
        message: cause.to_string(),
        remedy: match cause.classify() {
            serde_json::error::Category::Eof => "the file is cut short: capture or copy it again",
            serde_json::error::Category::Syntax => "this is not JSON: give a file as the runtime writes it",
            _ => "give a file as the runtime writes it",
        },
    })
}

/// A `deps.json`.
#[derive(Deserialize)]
pub(super) struct DepsFile {
    pub(super) tasks: Option<Vec<TaskRow>>,
    pub(super) edges: Option<Vec<EdgeRow>>,
}

pub(super) fn deps(text: &[u8]) -> Result<DepsFile, GraphFault> {
    json(text)
}

/// How a task's scope treats dependencies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scope {
    #[default]
    Auto,
    Manual,
}

#[derive(Deserialize)]
pub(super) struct TaskRow {
    #[serde(deserialize_with = "task_id")]
    pub(super) task_id: u64,
    #[serde(default)]
    pub(super) scope: Scope,
    #[serde(default)]
    pub(super) early_dispatch: bool,
    pub(super) kernel_ids: Vec<i64>,
    pub(super) block_num: i64,
}

#[derive(Deserialize)]
pub(super) struct EdgeRow {
    #[serde(deserialize_with = "pred_id")]
    pub(super) pred: u64,
    #[serde(deserialize_with = "succ_id")]
    pub(super) succ: u64,
    pub(super) source: EdgeSource,
}

/// Which rule an edge follows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EdgeSource {
    Explicit,
    Creator,
    Tensormap,
}

impl EdgeSource {
    pub(super) fn name(self) -> &'static str {
        match self {
            EdgeSource::Explicit => "explicit",
            EdgeSource::Creator => "creator",
            EdgeSource::Tensormap => "tensormap",
        }
    }
}

fn task_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Id("task_id"))
}

fn pred_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Id("pred"))
}

fn succ_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Id("succ"))
}

/// A task id under this key: decimal text, as the runtime writes it, or a number.
struct Id(&'static str);

impl Visitor<'_> for Id {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a task id under \"{}\": a 64-bit decimal number in quotes", self.0)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let id = text.parse().ok().filter(|_| digits);
        id.ok_or_else(|| {
            let shown: Cow<'_, str> = match text.char_indices().nth(40) {
                Some((end, _)) => format!("{}…", &text[..end]).into(),
                None => text.into(),
            };
            E::custom(format!("\"{}\" is \"{shown}\", expected a 64-bit decimal task id", self.0))
        })
    }
}

/// What the core rows of a capture say.
pub(super) struct Records {
    /// Counter ticks per second.
    pub(super) frequency: u64,
    /// Core, task, token, start, end, receive to start.
    pub(super) rows: Vec<[u64; 6]>,
}

#[derive(Deserialize)]
struct RecordsFile {
    chip_swimlane_level: Option<i64>,
    metadata: Option<Metadata>,
    aicore_tasks: Option<Vec<[u64; 6]>>,
}

#[derive(Deserialize)]
struct Metadata {
    clock_freq_hz: Option<i64>,
}

pub(super) fn records(text: &[u8]) -> Result<Records, GraphFault> {
    let file: RecordsFile = json(text)?;
    let missing = |key| GraphFault::MissingKey { key };
    let level = file.chip_swimlane_level.ok_or(missing("chip_swimlane_level"))?;
    if !(1..=4).contains(&level) {
        return Err(GraphFault::Level { value: level });
    }
    let metadata = file.metadata.ok_or(missing("metadata"))?;
    let value = metadata.clock_freq_hz.ok_or(missing("metadata.clock_freq_hz"))?;
    let frequency = u64::try_from(value).ok().filter(|hz| (1..=10_000_000_000).contains(hz));
    let frequency = frequency.ok_or(GraphFault::Frequency { value })?;
    Ok(Records { frequency, rows: file.aicore_tasks.ok_or(missing("aicore_tasks"))? })
}
