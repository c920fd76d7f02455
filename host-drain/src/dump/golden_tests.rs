//! The manifest's writer against the files that the existing runtime really wrote.

use super::manifest::{Head, write};
use super::records::{Held, Store, mark};
use dfx_collector::abi::args_dump::{Level, NO_FUNC_ID};
use dfx_collector::abi::tensor::DataType;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn interop() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/interop");
    let dir = std::env::var_os("DFX_INTEROP_DIR").map_or(default, PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no interop samples at {}", dir.display());
    eprintln!("skipped: no interop samples at {} (set DFX_INTEROP_DIR)", dir.display());
    None
}

fn samples(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            samples(&entry, found);
        } else if entry.ends_with("args_dump.json") {
            found.push(entry);
        }
    }
}

fn index(names: &[&str], value: &Value) -> u8 {
    names.iter().position(|name| *name == value).unwrap_or_else(|| panic!("{value} is none of {names:?}"))
        as u8
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no u64"))
}

fn held(entry: &Value) -> Held {
    let names: Vec<&str> = DataType::ALL.iter().map(|dtype| dtype.name()).collect();
    let words = |key: &str| {
        let mut words = [0; 5];
        let list = entry[key].as_array().unwrap();
        words.iter_mut().zip(list).for_each(|(word, value)| *word = number(value) as u32);
        words
    };
    let ids = entry["func_id"].as_array().unwrap();
    let mut func_ids = [0; 3];
    func_ids.iter_mut().zip(ids).for_each(|(id, value)| {
        *id = value.as_i64().filter(|id| *id >= 0).map_or(NO_FUNC_ID, |id| id as u16);
    });
    let bit = |key: &str, mark: u8| if entry[key] == true { mark } else { 0 };
    let value = entry.get("value").map_or(0, |value| match value {
        Value::Bool(value) => u64::from(*value),
        _ if entry["dtype"] == "FLOAT32" => u64::from((value.as_f64().unwrap() as f32).to_bits()),
        _ => value.as_u64().unwrap_or_else(|| value.as_i64().unwrap() as u64),
    });
    Held {
        task_id: u64::from_str_radix(&entry["task_id"].as_str().unwrap()[2..], 16).unwrap(),
        value,
        payload: 0,
        bin_offset: number(&entry["bin_offset"]),
        bin_size: number(&entry["bin_size"]),
        start_offset: number(&entry["start_offset"]),
        shapes: words("shape"),
        strides: words("strides"),
        arg_index: number(&entry["arg_index"]) as u32,
        func_ids,
        counts: Held::counts(entry["shape"].as_array().unwrap().len() as u8, ids.len() as u8),
        role: index(&["input", "output", "inout"], &entry["role"]),
        stage: index(&["before_dispatch", "after_completion"], &entry["stage"]),
        kind: index(&["tensor", "scalar"], &entry["kind"]),
        dtype: index(&names, &entry["dtype"]),
        marks: bit("is_contiguous", mark::CONTIGUOUS)
            | bit("truncated", mark::TRUNCATED)
            | bit("overwritten", mark::OVERWRITTEN)
            | bit("arg_index_ambiguous", mark::AMBIGUOUS),
    }
}

fn text(root: &Value, records: &[Held], dropped: u64) -> String {
    // Over several threads, as a run would have them: what is equal in the key must stay in one.
    let mut stores: Vec<Store> = (0..3).map(|_| Store::default()).collect();
    for record in records {
        stores[record.task_id as usize % 3].push(0, *record);
    }
    let level = Level::from_raw(number(&root["dump_args_level"]) as u32).unwrap();
    let mut out = Vec::new();
    write(&mut out, Head { level, dropped, bin: root["bin_file"].is_string() }, &stores).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_sample_comes_out_byte_for_byte() {
    let Some(dir) = interop() else { return };
    let mut found = Vec::new();
    // An interpreter takes minutes for a large one, and for the way through all directories.
    let few = cfg!(miri);
    samples(&if few { dir.join("a2a3_hbg_dump_args") } else { dir }, &mut found);
    assert!(found.len() >= if few { 4 } else { 20 }, "{} samples", found.len());
    found.retain(|path| !few || path.metadata().unwrap().len() < 1400);
    for path in found {
        let sample = std::fs::read_to_string(&path).unwrap();
        let root: Value = serde_json::from_str(&sample).unwrap();
        let records: Vec<Held> = root["args"].as_array().unwrap().iter().map(held).collect();
        let ours = text(&root, &records, number(&root["dropped_records"]));
        if let Some((at, (a, b))) = sample.lines().zip(ours.lines()).enumerate().find(|(_, (a, b))| a != b) {
            panic!("{}:{}\n{a}\n{b}", path.display(), at + 1);
        }
        assert!(sample == ours, "{}", path.display());
    }
}

#[test]
fn the_example_of_the_format_page_comes_out_as_it_stands_there() {
    let example = r#"{
  "run_dir": "args_dump",
  "bin_format": {
    "type": "logical_contiguous",
    "byte_order": "little_endian"
  },
  "dump_args_level": 2,
  "total_args": 2,
  "before_dispatch": 2,
  "after_completion": 0,
  "input_args": 1,
  "output_args": 0,
  "inout_args": 1,
  "truncated_args": 0,
  "dropped_records": 5,
  "dropped_overwrite": 0,
  "bin_file": "args.bin",
  "args": [
    {"task_id": "0x0000000200000007", "func_id": [4, -1], "arg_index": 0, "role": "inout", "stage": "before_dispatch", "kind": "tensor", "dtype": "FLOAT32", "is_contiguous": true, "shape": [3, 2], "strides": [2, 1], "start_offset": 0, "numel": 6, "bin_offset": 24, "bin_size": 24, "truncated": false, "overwritten": false},
    {"task_id": "0x0000000200000007", "func_id": [3], "arg_index": 1, "role": "input", "stage": "before_dispatch", "kind": "scalar", "dtype": "INT32", "value": -5, "is_contiguous": true, "shape": [], "strides": [], "start_offset": 0, "numel": 1, "bin_offset": 0, "bin_size": 0, "truncated": false, "overwritten": false}
  ]
}
"#;
    let root: Value = serde_json::from_str(example).unwrap();
    let mut records: Vec<Held> = root["args"].as_array().unwrap().iter().map(held).collect();
    assert_eq!(text(&root, &records, 5), example);
    records.reverse();
    assert_eq!(text(&root, &records, 5), example, "sorted");
}

#[test]
fn equal_keys_stay_in_the_order_of_their_thread_and_unknown_words_are_said() {
    let mut stores = vec![Store::default(), Store::default()];
    for (thread, seq, n) in [(1, 1, 11), (1, 0, 10), (0, 0, 0), (1, 2, 12), (0, 1, 1)] {
        stores[thread]
            .push(seq, Held { start_offset: n, role: 9, stage: 9, kind: 9, dtype: 99, ..Held::default() });
    }
    let mut out = Vec::new();
    write(&mut out, Head { level: Level::Hybrid, dropped: 0, bin: false }, &stores).unwrap();
    let root: Value = serde_json::from_slice(&out).unwrap();
    let order: Vec<u64> =
        root["args"].as_array().unwrap().iter().map(|e| number(&e["start_offset"])).collect();
    assert_eq!(order, [0, 1, 10, 11, 12]);
    let entry = &root["args"][0];
    assert!([&entry["role"], &entry["stage"], &entry["kind"]].iter().all(|word| **word == "unknown"));
    assert_eq!((&entry["dtype"], &root["bin_file"]), (&"UNKNOWN".into(), &Value::Null));
}
