//! What the reference wrote, rebuilt and written again: byte for byte.

use super::random::replayed;
use super::raw::{self, Submit};
use dfx_collector::abi::tensor::{DataType, Tensor, TensorArgType};
use dfx_host_drain::deps::{self, DepsCounts, FILE_NAME, Variant};
use serde_json::Value;
use std::collections::HashMap;
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
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            samples(&path, found);
        } else if path.ends_with(FILE_NAME) {
            found.push(path);
        }
    }
}

fn u(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value} is no u64"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn u32s(value: &Value) -> Vec<u32> {
    list(value).iter().map(|n| u(n) as u32).collect()
}

fn arg_type(name: &str) -> TensorArgType {
    match name {
        "INPUT" => TensorArgType::Input,
        "OUTPUT" => TensorArgType::Output,
        "INOUT" => TensorArgType::Inout,
        "OUTPUT_EXISTING" => TensorArgType::OutputExisting,
        _ => TensorArgType::NoDep,
    }
}

/// The submits of a `deps.json`. What it does not say (owners, explicit dependencies) is taken from its edges.
pub(crate) fn submits(file: &Value) -> Vec<Submit> {
    let tensors: HashMap<u64, &Value> =
        list(&file["tensors"]).iter().map(|t| (u(&t["tensor_id"]), t)).collect();
    let mut owners = HashMap::new();
    let mut explicit: HashMap<u64, Vec<u64>> = HashMap::new();
    for edge in list(&file["edges"]) {
        let (pred, succ) = (u(&edge["pred"]), u(&edge["succ"]));
        match edge["source"].as_str() {
            Some("creator") => drop(owners.insert((succ, u(&edge["arg"])), pred)),
            Some("explicit") => explicit.entry(succ).or_default().push(pred),
            _ => {}
        }
    }
    let tensor = |task: u64, arg: &Value| -> Tensor {
        let row = tensors[&u(&arg["tensor_id"])];
        let dtype =
            DataType::ALL.into_iter().find(|dtype| dtype.name() == arg["dtype"]).expect("a known dtype");
        let (shape, strides) = (u32s(&arg["shape"]), u32s(&arg["strides"]));
        let mut tensor = raw::view(u(&row["buffer_addr"]), 0, u(&arg["start_offset"]), &shape, &strides);
        tensor.buffer.size = u(&row["buffer_numel"]) * dtype.bytes();
        tensor.dtype = dtype as u8;
        tensor.version = row["version"].as_i64().unwrap() as i32;
        if let Some(owner) = owners.get(&(task, u(&arg["idx"]))) {
            tensor.owner_task_id.raw = *owner;
        }
        tensor
    };
    let submit = |task: &Value| {
        let task_id = u(&task["task_id"]);
        let kernels = list(&task["kernel_ids"]).iter().map(|k| k.as_i64().unwrap() as i32);
        let args = list(&task["args"]).iter().map(|arg| match arg_type(arg["type"].as_str().unwrap()) {
            TensorArgType::Output => (TensorArgType::Output, raw::garbage()),
            other => (other, tensor(task_id, arg)),
        });
        Submit {
            task_id,
            manual: task["scope"] == "manual",
            early: task["early_dispatch"] == true,
            kernels: kernels.collect::<Vec<_>>().try_into().unwrap(),
            blocks: u(&task["block_num"]) as u32,
            args: args.collect(),
            deps: explicit.remove(&task_id).unwrap_or_default(),
        }
    };
    list(&file["tasks"]).iter().map(submit).collect()
}

/// `submits` written as a file.
fn written(submits: &[Submit], variant: Variant) -> (String, DepsCounts) {
    let store = raw::stored(submits);
    let mut text = Vec::new();
    let counts = deps::write(&mut text, store.finish(raw::count(submits)).unwrap(), variant).unwrap();
    (String::from_utf8(text).unwrap(), counts)
}

/// Issue 5, point 1: each captured graph is reproduced edge by edge, and so is its text.
#[test]
fn every_captured_graph_is_reproduced_byte_for_byte() {
    let Some(dir) = interop() else { return };
    let mut paths = Vec::new();
    samples(&dir, &mut paths);
    assert!(paths.len() >= 20, "only {} samples", paths.len());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let submits = submits(&file);
        let pairs = |row: &Value| (u(&row["pred"]), u(&row["succ"]), row["arg"].as_i64().unwrap() as i32);
        let expected: Vec<_> = list(&file["edges"]).iter().map(pairs).collect();
        let rows = replayed(&raw::stored(&submits), &submits);
        let found: Vec<_> = rows.iter().map(|row| (row.pred, row.succ, row.arg)).collect();
        assert_eq!(found, expected, "{}", path.display());
        let variant = if text.contains("\"flags\"") { Variant::Device } else { Variant::HostGraph };
        let (ours, counts) = written(&submits, variant);
        assert!(ours == text, "{}: the text differs", path.display());
        let sizes = ["tasks", "tensors", "edges"].map(|key| list(&file[key]).len() as u64);
        assert_eq!([counts.tasks, counts.tensors, counts.edges], sizes);
    }
}

/// The example of the format's description.
#[test]
fn the_text_is_that_of_the_format() {
    let tensor = |start, shape: &[u32]| {
        let mut tensor = raw::view(4096, 6, start, shape, &[3, 1]);
        tensor.version = 2;
        tensor
    };
    let mut first = Submit::new(1).arg(TensorArgType::OutputExisting, tensor(0, &[2, 3])).deps([9]);
    first.manual = false;
    let mut second = Submit::new(7)
        .arg(TensorArgType::Output, raw::garbage())
        .arg(TensorArgType::Inout, tensor(3, &[1, 2]))
        .arg(TensorArgType::NoDep, tensor(0, &[2, 3]));
    second.args[1].1.owner_task_id.raw = 5;
    second.early = true;
    second.kernels = [3, -1, -1];
    let mut third = Submit::new(8);
    third.manual = true;
    third.blocks = 0;
    // FNV-1a 64 over address 4096 and version 2.
    let id = [0u8, 16, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let flags = |both| if both { r#","flags":["wait","retain"]"# } else { r#","flags":["wait"]"# };
    let whole = format!(
        r#","tensor_id":"{id}","dtype":"FLOAT32","shape":[2,3],"start_offset":"0","strides":[3,1]}}"#
    );
    let part = format!(
        r#","tensor_id":"{id}","dtype":"FLOAT32","shape":[1,2],"start_offset":"3","strides":[3,1]}}"#
    );
    let consumer = format!(
        r#","tensor_id":"{id}","consumer_dtype":"FLOAT32","consumer_shape":[1,2],"consumer_start_offset":"3","consumer_strides":[3,1]"#
    );
    let producer = r#","producer_shape":[2,3],"producer_start_offset":"0","producer_strides":[3,1]}"#;
    let expected = [
        r#"{"tasks":[{"task_id":"1","scope":"auto","early_dispatch":false,"kernel_ids":[-1,0,-1],"block_num":1,"args":[{"idx":0,"type":"OUTPUT_EXISTING""#,
        &whole,
        r#"]},{"task_id":"7","scope":"auto","early_dispatch":true,"kernel_ids":[3,-1,-1],"block_num":1,"args":[{"idx":0,"type":"OUTPUT"},{"idx":1,"type":"INOUT""#,
        &part,
        r#",{"idx":2,"type":"UNKNOWN""#,
        &whole,
        r#"]},{"task_id":"8","scope":"manual","early_dispatch":false,"kernel_ids":[-1,0,-1],"block_num":1,"args":[]}],"#,
        &format!(r#""tensors":[{{"tensor_id":"{id}","buffer_addr":"4096","version":2,"dtype":"FLOAT32","buffer_numel":"6"}}],"#),
        r#""edges":[{"pred":"9","succ":"1","arg":-1,"source":"explicit""#,
        flags(true),
        r#"},{"pred":"5","succ":"7","arg":1,"source":"creator""#,
        flags(true),
        &consumer,
        r#"},{"pred":"1","succ":"7","arg":1,"source":"tensormap""#,
        flags(false),
        r#","overlap":"other""#,
        &consumer,
        producer,
        "]}\n",
    ]
    .concat();
    let submits = [first, second, third];
    assert_eq!(written(&submits, Variant::Device).0, expected);
    let without = expected.replace(flags(true), "").replace(flags(false), "");
    assert_eq!(written(&submits, Variant::HostGraph).0, without);
}

#[test]
fn no_edges_and_no_tasks_are_a_file_too() {
    let (text, counts) = written(&[], Variant::Device);
    assert_eq!(text, "{\"tasks\":[],\"tensors\":[],\"edges\":[]}\n");
    assert_eq!(counts, DepsCounts::default());
    let dir = tempfile::tempdir().unwrap();
    let submits = [Submit::new(3)];
    let store = raw::stored(&submits);
    let whole = store.finish(raw::count(&submits)).unwrap();
    let path = dir.path().join(FILE_NAME);
    let (info, counts) = deps::write_file(&path, whole, Variant::Device, None).unwrap();
    assert_eq!((counts.tasks, counts.edges), (1, 0));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(info.bytes, text.len() as u64);
    assert!(text.ends_with("\"tensors\":[],\"edges\":[]}\n"), "{text}");
}
