//! The strict reader of `args_dump.json`.
//!
//! Strict means: every key is known and there once, every number fits its field, a record's shape, element count and
//! payload size agree. An error says where (line and column) and what was expected. The text is parsed into plain records
//! as it passes; a very large one is not held in memory.

use super::DumpError;
use super::record::{Record, Stage};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

/// Up to this many bytes are parsed from memory, which is several times faster than from a reader.
const IN_MEMORY_BYTES: u64 = 64 * 1024 * 1024;

/// What an `args_dump.json` holds.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The directory's own name when it was written.
    pub run_dir: String,
    bin_format: BinFormat,
    /// 1: marked arguments only; 2: everything; 3: everything, but payload of marked tensors only.
    #[serde(deserialize_with = "level")]
    pub dump_args_level: u32,
    /// Records, by the manifest's own count.
    pub total_args: u64,
    /// Of these, captured before dispatch.
    pub before_dispatch: u64,
    /// Of these, captured after completion.
    pub after_completion: u64,
    /// Of these, read.
    pub input_args: u64,
    /// Of these, written.
    pub output_args: u64,
    /// Of these, read and written.
    pub inout_args: u64,
    /// Of these, with a payload cut short.
    pub truncated_args: u64,
    /// Records that the device could not deliver.
    pub dropped_records: u64,
    /// Records whose payload was overwritten before it was read.
    pub dropped_overwrite: u64,
    /// Where the payload is; `None` if there is none.
    #[serde(deserialize_with = "bin_file")]
    pub bin_file: Option<String>,
    /// The records, in the order of the file.
    #[serde(rename = "args")]
    pub records: Vec<Record>,
}

/// How the payload is laid out: the one way that there is.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BinFormat {
    #[serde(rename = "type", deserialize_with = "layout")]
    _layout: (),
    #[serde(rename = "byte_order", deserialize_with = "byte_order")]
    _byte_order: (),
}

/// The manifest's counts, as it says them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Counts {
    /// 1, 2 or 3.
    pub dump_args_level: u32,
    /// Records.
    pub total_args: u64,
    /// Captured before dispatch.
    pub before_dispatch: u64,
    /// Captured after completion.
    pub after_completion: u64,
    /// With a payload cut short.
    pub truncated_args: u64,
    /// Not delivered.
    pub dropped_records: u64,
    /// Payload overwritten.
    pub dropped_overwrite: u64,
}

impl Manifest {
    /// Reads the manifest in the file `path`.
    pub fn read(path: &Path) -> Result<Manifest, DumpError> {
        let io = |source| DumpError::io(path, source);
        let mut file = File::open(path).map_err(io)?;
        let parsed = if file.metadata().map_err(io)?.len() <= IN_MEMORY_BYTES {
            let mut text = Vec::new();
            std::io::Read::read_to_end(&mut file, &mut text).map_err(io)?;
            serde_json::from_slice(&text)
        } else {
            serde_json::from_reader(BufReader::with_capacity(256 * 1024, file))
        };
        parsed.map_err(|error| DumpError::parse(path, error))
    }

    /// The counts in its head.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let &Manifest { dump_args_level, total_args, before_dispatch, after_completion, .. } = self;
        let &Manifest { truncated_args, dropped_records, dropped_overwrite, .. } = self;
        Counts {
            dump_args_level,
            total_args,
            before_dispatch,
            after_completion,
            truncated_args,
            dropped_records,
            dropped_overwrite,
        }
    }

    /// What a reader must know before trusting it to be everything: losses, and counts that contradict the records.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                remarks.push(format!("{count} {what}"));
            }
        };
        say(self.dropped_records, "records were dropped on the device: they are not here");
        say(self.dropped_overwrite, "records lost their payload on the device before it was read");
        say(
            self.truncated_args,
            "records have their payload cut short or shed: dump less of them (level 1 and a mark) to have it",
        );
        let count = |stage| self.records.iter().filter(|r| r.stage == stage).count() as u64;
        let listed = [
            ("total_args", self.total_args, self.records.len() as u64),
            ("before_dispatch", self.before_dispatch, count(Stage::BeforeDispatch)),
            ("after_completion", self.after_completion, count(Stage::AfterCompletion)),
        ];
        for (name, said, found) in listed {
            if said != found {
                remarks.push(format!(
                    "{name} is {said}, but {found} are listed: the manifest is not of one piece"
                ));
            }
        }
        remarks
    }

    /// How many records of the same task, stage, argument and role come before each: several blocks of one task.
    #[must_use]
    pub fn occurrences(&self) -> Vec<u32> {
        let mut seen = std::collections::HashMap::with_capacity(self.records.len());
        let key = |r: &Record| (r.task_id, r.stage, r.arg_index, r.role);
        let next = |record| {
            let count = seen.entry(key(record)).or_insert(0);
            *count += 1;
            *count - 1
        };
        self.records.iter().map(next).collect()
    }
}

/// Finds the manifest that `dir` means: in itself, its `args_dump`, or that of its `dfx_outputs`; or it is the file.
pub(super) fn locate(dir: &Path) -> Result<std::path::PathBuf, DumpError> {
    if dir.is_file() {
        return Ok(dir.to_path_buf());
    }
    if let Err(source) = fs::read_dir(dir) {
        return Err(DumpError::io(dir, source));
    }
    let places = ["", "args_dump", "dfx_outputs/args_dump"];
    let found = places.iter().map(|place| dir.join(place).join(super::FILE_NAME)).find(|path| path.exists());
    found.ok_or_else(|| DumpError::NoDump { path: dir.to_path_buf() })
}

fn level<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    match u32::deserialize(value)? {
        level @ 1..=3 => Ok(level),
        other => Err(de::Error::custom(format_args!("dump_args_level is {other}, expected 1 to 3"))),
    }
}

fn bin_file<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(value)?;
    match &name {
        Some(text) if text.is_empty() || text.contains(['/', '\\', '\0']) || text == "." || text == ".." => {
            Err(de::Error::custom(format_args!(
                "bin_file is {text:?}, expected the name of a file beside it"
            )))
        }
        _ => Ok(name),
    }
}

/// A word that is the only one known.
fn word<'de, D: Deserializer<'de>>(value: D, key: &str, known: &str) -> Result<(), D::Error> {
    let found = String::deserialize(value)?;
    if found == known {
        return Ok(());
    }
    Err(de::Error::custom(format_args!("bin_format {key} is {found:?}, expected {known:?}")))
}

fn layout<'de, D: Deserializer<'de>>(value: D) -> Result<(), D::Error> {
    word(value, "type", "logical_contiguous")
}

fn byte_order<'de, D: Deserializer<'de>>(value: D) -> Result<(), D::Error> {
    word(value, "byte_order", "little_endian")
}
