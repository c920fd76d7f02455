//! Dumps made by hand, and those that the reference wrote.
#![allow(dead_code)] // each test binary uses its part

use dfx_trace::dump::Dump;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The reference's samples; `None`, said, where there are none.
pub(crate) fn interop() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/interop");
    let dir = std::env::var_os("DFX_INTEROP_DIR").map_or(beside, PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no interop samples at {}", dir.display());
    eprintln!("skipped: no interop samples at {}", dir.display());
    None
}

/// All files below `dir` that are called `name`.
pub(crate) fn find(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(find(&path, name));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// An entry of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct Arg {
    pub(crate) task: u64,
    pub(crate) index: u32,
    pub(crate) role: &'static str,
    pub(crate) stage: &'static str,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<u64>,
    /// A scalar's value as JSON.
    pub(crate) value: Option<String>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) truncated: bool,
    pub(crate) overwritten: bool,
    /// Shares the payload of the entry before it.
    pub(crate) shared: bool,
}

impl Arg {
    pub(crate) fn tensor(task: u64, index: u32, dtype: &'static str, shape: &[u64], bytes: Vec<u8>) -> Arg {
        Arg {
            task,
            index,
            role: "input",
            stage: "before_dispatch",
            dtype,
            shape: shape.to_vec(),
            value: None,
            bytes,
            truncated: false,
            overwritten: false,
            shared: false,
        }
    }

    pub(crate) fn floats(task: u64, index: u32, shape: &[u64], values: &[f32]) -> Arg {
        Arg::tensor(task, index, "FLOAT32", shape, values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    pub(crate) fn scalar(task: u64, index: u32, dtype: &'static str, value: &str) -> Arg {
        Arg { value: Some(value.into()), ..Arg::tensor(task, index, dtype, &[], Vec::new()) }
    }

    pub(crate) fn output(self) -> Arg {
        Arg { role: "output", stage: "after_completion", ..self }
    }

    /// Its line, with the payload at `offset`.
    pub(crate) fn line(&self, offset: u64) -> String {
        let Arg { task, index, role, stage, dtype, shape, truncated, overwritten, .. } = self;
        let kind = if self.value.is_some() { "scalar" } else { "tensor" };
        let value = self.value.as_ref().map(|value| format!("\"value\": {value}, ")).unwrap_or_default();
        let numel = shape.iter().fold(1u64, |n, &d| n.wrapping_mul(d));
        let ones = vec![1; shape.len()];
        format!(
            "    {{\"task_id\": \"{task:#018x}\", \"func_id\": [{index}, -1], \"arg_index\": {index}, \"role\": \"{role}\", \
             \"stage\": \"{stage}\", \"kind\": \"{kind}\", \"dtype\": \"{dtype}\", {value}\"is_contiguous\": true, \
             \"shape\": {shape:?}, \"strides\": {ones:?}, \"start_offset\": 0, \"numel\": {numel}, \"bin_offset\": {}, \
             \"bin_size\": {}, \"truncated\": {truncated}, \"overwritten\": {overwritten}}}",
            if self.bytes.is_empty() { 0 } else { offset },
            self.bytes.len()
        )
    }
}

/// The manifest's text, without the payload file.
pub(crate) fn manifest(args: &[Arg]) -> String {
    let count = |key: fn(&Arg) -> &str, word: &str| args.iter().filter(|arg| key(arg) == word).count();
    let stage = |word| count(|arg| arg.stage, word);
    let role = |word| count(|arg| arg.role, word);
    let (mut offset, mut lines) = (0, Vec::new());
    for arg in args {
        let at = if arg.shared { offset - arg.bytes.len() as u64 } else { offset };
        lines.push(arg.line(at));
        offset = at + arg.bytes.len() as u64;
    }
    let mut text = String::from("{\n  \"run_dir\": \"args_dump\",\n  \"bin_format\": {\n");
    text.push_str("    \"type\": \"logical_contiguous\",\n    \"byte_order\": \"little_endian\"\n  },\n");
    let counts = [
        ("dump_args_level", 2),
        ("total_args", args.len()),
        ("before_dispatch", stage("before_dispatch")),
        ("after_completion", stage("after_completion")),
        ("input_args", role("input")),
        ("output_args", role("output")),
        ("inout_args", role("inout")),
        ("truncated_args", args.iter().filter(|arg| arg.truncated).count()),
        ("dropped_records", 0),
        ("dropped_overwrite", args.iter().filter(|arg| arg.overwritten).count()),
    ];
    for (key, value) in counts {
        writeln!(text, "  \"{key}\": {value},").unwrap();
    }
    text + "  \"bin_file\": \"args.bin\",\n  \"args\": [\n" + &lines.join(",\n") + "\n  ]\n}\n"
}

/// Writes a dump below `dir`.
pub(crate) fn write(dir: &Path, args: &[Arg]) {
    let dir = dir.join("args_dump");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("args_dump.json"), manifest(args)).unwrap();
    let bin: Vec<u8> = args.iter().filter(|arg| !arg.shared).flat_map(|arg| arg.bytes.clone()).collect();
    std::fs::write(dir.join("args.bin"), bin).unwrap();
}

/// A dump in a directory of its own.
pub(crate) fn dump(args: &[Arg]) -> (TempDir, Dump) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), args);
    let dump = Dump::open(dir.path()).unwrap();
    (dir, dump)
}
