//! A dump read back by a reader that knows nothing of the writer.

use crate::Run;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// (task id, after completion, argument).
pub type Place = (u64, bool, u32);

/// A dumped argument.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// The manifest's entry.
    pub entry: Value,
    /// Its bytes in `args.bin`.
    pub bytes: Vec<u8>,
}

impl Arg {
    /// A field of the entry, as text.
    pub fn text(&self, key: &str) -> &str {
        self.entry[key].as_str().unwrap_or_else(|| panic!("{key} of {}", self.entry))
    }
}

/// `args_dump.json` and `args.bin`.
#[derive(Clone, PartialEq, Debug)]
pub struct Dump {
    /// The manifest but for its arguments.
    pub head: Value,
    /// The arguments; no two are at one place.
    pub args: BTreeMap<Place, Arg>,
    /// The same, in the manifest's order.
    pub order: Vec<Place>,
}

impl Dump {
    /// The dump in the artifacts' directory `dir`.
    pub fn read(dir: &Path) -> Dump {
        let text = std::fs::read(dir.join("args_dump/args_dump.json")).expect("the manifest is there");
        let mut head: Value = serde_json::from_slice(&text).expect("the manifest is JSON");
        let entries = head.as_object_mut().and_then(|head| head.remove("args")).expect("args");
        let bin = std::fs::read(dir.join("args_dump/args.bin")).unwrap_or_default();
        let (mut args, mut order) = (BTreeMap::new(), Vec::new());
        for entry in entries.as_array().expect("a list") {
            let number = |key: &str| entry[key].as_u64().unwrap_or_else(|| panic!("{key} of {entry}"));
            let id = entry["task_id"].as_str().expect("a task id").trim_start_matches("0x");
            let place = (
                u64::from_str_radix(id, 16).expect("hexadecimal"),
                entry["stage"] == "after_completion",
                number("arg_index") as u32,
            );
            let (start, size) = (number("bin_offset") as usize, number("bin_size") as usize);
            let arg = Arg { entry: entry.clone(), bytes: bin[start..start + size].to_vec() };
            assert!(args.insert(place, arg).is_none(), "{place:?} came twice");
            order.push(place);
        }
        Dump { head, args, order }
    }

    /// The dump of `run`.
    pub fn of(run: &Run) -> Dump {
        Dump::read(&run.outputs())
    }

    /// Where there are arguments.
    pub fn places(&self) -> Vec<Place> {
        self.args.keys().copied().collect()
    }
}

/// Every file below `dir`, by its path.
pub fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            found.extend(
                tree(&entry.path()).into_iter().map(|(path, bytes)| (format!("{name}/{path}"), bytes)),
            );
        } else {
            found.insert(name, std::fs::read(entry.path()).expect("a file"));
        }
    }
    found
}
