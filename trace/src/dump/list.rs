//! The table of records: the columns of the reference's viewer, and behind them what it does not say.

use super::json;
use super::manifest::Counts;
use super::record::{Kind, Payload, Record, Role, Stage, Value};
use super::{Dtype, Dump};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// Writes the table of the records at `selected`.
pub fn write_list(out: &mut dyn Write, dump: &Dump, selected: &[usize]) -> io::Result<()> {
    writeln!(
        out,
        "{:>6}  {:>18}  {:>7}  {:>5}  {:>3}  {:>8}  {:<20}  {:>10}",
        "idx", "task_id", "stage", "role", "arg", "dtype", "shape", "bytes"
    )?;
    writeln!(out, "{}", "-".repeat(100))?;
    let mut line = String::new();
    for &index in selected {
        let record = dump.record(index);
        line.clear();
        let (stage, role, dtype) = (record.stage.short(), record.role.name(), record.dtype.name());
        let shape = Shape(record.shape()).to_string();
        // Writing to memory does not fail.
        let _ = write!(
            line,
            "{index:>6}  {:#018x}  {stage:>7}  {role:>5}  {:>3}  {dtype:>8}  {shape:<20}  {:>10}",
            record.task_id, record.arg_index, record.bin_size
        );
        if let Some(value) = record.value {
            let _ = write!(line, "  = {value}");
        }
        if record.payload() != Payload::Complete {
            let _ = write!(line, "  payload {}", record.payload().words());
        }
        if record.arg_index_ambiguous {
            line.push_str("  ambiguous mark");
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// A shape as Python prints it.
pub(super) struct Shape<'a>(pub(super) &'a [u32]);

impl std::fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('[')?;
        for (dim, elements) in self.0.iter().enumerate() {
            write!(f, "{}{elements}", if dim > 0 { ", " } else { "" })?;
        }
        f.write_char(']')
    }
}

/// A record as `--json` says it: the manifest's words, and what they come to.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    /// Place in the manifest.
    entry: usize,
    #[serde(serialize_with = "json::task_id")]
    task_id: u64,
    task: String,
    func_id: &'a [i32],
    arg_index: u32,
    role: Role,
    stage: Stage,
    kind: Kind,
    dtype: Dtype,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    is_contiguous: bool,
    shape: &'a [u32],
    strides: &'a [u32],
    start_offset: u64,
    numel: u64,
    arg_index_ambiguous: bool,
    bin_offset: u64,
    bin_size: u64,
    payload: Payload,
}

impl<'a> Row<'a> {
    pub(super) fn new(entry: usize, record: &'a Record) -> Self {
        Row {
            entry,
            task_id: record.task_id,
            task: record.task_name(),
            func_id: record.func_ids(),
            arg_index: record.arg_index,
            role: record.role,
            stage: record.stage,
            kind: record.kind,
            dtype: record.dtype,
            value: record.value,
            is_contiguous: record.is_contiguous,
            shape: record.shape(),
            strides: record.strides(),
            start_offset: record.start_offset,
            numel: record.numel,
            arg_index_ambiguous: record.arg_index_ambiguous,
            bin_offset: record.bin_offset,
            bin_size: record.bin_size,
            payload: record.payload(),
        }
    }
}

/// Writes the records at `selected` as one JSON object, row by row.
pub fn write_list_json(out: &mut dyn Write, dump: &Dump, selected: &[usize]) -> io::Result<()> {
    struct Rows<'a>(&'a Dump, &'a [usize]);
    impl Serialize for Rows<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut rows = serializer.serialize_seq(Some(self.1.len()))?;
            for &index in self.1 {
                rows.serialize_element(&Row::new(index, self.0.record(index)))?;
            }
            rows.end()
        }
    }
    #[derive(Serialize)]
    struct List<'a> {
        dir: &'a Path,
        #[serde(flatten)]
        counts: Counts,
        remarks: Vec<String>,
        args: Rows<'a>,
    }
    let (counts, remarks) = (dump.manifest.counts(), dump.manifest.remarks());
    serde_json::to_writer(&mut *out, &List { dir: &dump.dir, counts, remarks, args: Rows(dump, selected) })?;
    out.write_all(b"\n")
}
