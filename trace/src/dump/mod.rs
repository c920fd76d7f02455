//! The args dump, read back: what each task got and what it made of it.
//!
//! * [`Dump`]: the manifest `args_dump.json` and the payload `args.bin` of one run;
//! * [`Filter`]: which of its records are meant;
//! * [`print_values`], [`export_txt`], [`export_npy`]: the values for a person, for the reference's readers, for numpy;
//! * [`stats`]: one line of figures per tensor;
//! * [`diff`]: two dumps compared, and the first task that went wrong.
//!
//! Nothing of the manifest is trusted: payload ranges are checked against the file before any is read, and no size in it
//! makes memory grow beyond a block of values.

mod bin;
mod diff;
mod dtype;
mod each;
mod export;
mod filter;
mod json;
mod list;
mod manifest;
mod npy;
mod order;
mod print;
mod record;
mod stats;
mod text;

pub use bin::BLOCK_BYTES;
pub use diff::{Compared, DiffReport, Difference, Tolerance, ValueDifference, diff};
pub use dtype::{Dtype, bf16, fp4_e2m1, fp8_e4m3fn, fp8_e8m0, fp16};
pub use export::{Exported, export_npy, export_txt};
pub use filter::{Filter, TaskSelector};
pub use list::{write_list, write_list_json};
pub use manifest::{Counts, Manifest};
pub use print::{PrintOptions, print_values, write_values_json};
pub use record::{Kind, MAX_DIMS, Payload, Record, Role, Stage, Value};
pub use stats::{Number, Stats, stats};

use bin::Bin;
use std::io;
use std::path::{Path, PathBuf};

/// The manifest's name.
pub const FILE_NAME: &str = "args_dump.json";

/// A dump that could not be read, or something that could not be made of it.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// A file could not be read or written.
    #[error("cannot access {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no dump here.
    #[error("there is no args_dump/{FILE_NAME} in {}: record one with dfx run … --dump-args=2", path.display())]
    NoDump {
        /// What was named.
        path: PathBuf,
    },
    /// The text is not what the format says.
    #[error("{} is not valid: line {line}, column {column}: {message}; if the run was cut short, run it again", path.display())]
    Parse {
        /// The manifest.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What was found and what was expected.
        message: String,
    },
    /// The payload file has not what the manifest names.
    #[error("{} has {bytes} bytes, but {record} (entry {index}) is at {offset} with {size}; the dump is damaged: run it again", path.display())]
    Range {
        /// The payload file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// Which record.
        record: String,
        /// Its place in the manifest.
        index: usize,
        /// Where it says that its payload is.
        offset: u64,
        /// And how long.
        size: u64,
    },
    /// The manifest names payload, but no payload file.
    #[error("{} names no bin_file, but {record} (entry {index}) has payload; the dump is damaged: run it again", path.display())]
    NoBin {
        /// The manifest.
        path: PathBuf,
        /// Which record.
        record: String,
        /// Its place in the manifest.
        index: usize,
    },
}

impl DumpError {
    fn io(path: &Path, source: io::Error) -> Self {
        DumpError::Io { path: path.to_path_buf(), source }
    }

    fn parse(path: &Path, error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        if error.is_io() {
            return DumpError::io(path, error.into());
        }
        let text = error.to_string();
        let place = format!(" at line {line} column {column}");
        let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        DumpError::Parse { path: path.to_path_buf(), line, column, message }
    }
}

/// One run's dump.
#[derive(Debug)]
pub struct Dump {
    /// Where the manifest is.
    pub dir: PathBuf,
    /// What was captured.
    pub manifest: Manifest,
    bin: Bin,
}

impl Dump {
    /// Opens the dump that `dir` means: an output directory, its `args_dump`, a work directory, or the manifest itself.
    pub fn open(dir: &Path) -> Result<Dump, DumpError> {
        let path = manifest::locate(dir)?;
        let manifest = Manifest::read(&path)?;
        let dir = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let bin = Bin::open(&path, &dir, &manifest)?;
        Ok(Dump { dir, manifest, bin })
    }

    /// The records that `filter` lets pass, by their place in the manifest.
    #[must_use]
    pub fn select(&self, filter: &Filter) -> Vec<usize> {
        let records = self.manifest.records.iter().enumerate();
        records.filter(|(_, record)| filter.passes(record)).map(|(index, _)| index).collect()
    }

    /// The record at `index`, a place in the manifest.
    #[must_use]
    pub fn record(&self, index: usize) -> &Record {
        &self.manifest.records[index]
    }
}
