//! The pinned facts of a platform, and how ours are compared with them.

use dfx_collector::abi::Platform;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Fields of ours in bytes that the pinned revision leaves unused.
pub(crate) const EXTENSIONS: &[(&str, &[&str])] = &[
    ("ChipSwimlaneDataHeader", &["peer", "stall_budget"]),
    ("ReadyQueueEntry", &["flags"]),
    ("ChipSwimlaneActiveHead", &["stalls", "stash_ptr", "stash_seq", "stall_ticks", "max_stall_ticks"]),
    ("DumpDataHeader", &["peer", "stall_budget", "options", "lost_mark_count"]),
    (
        "DumpBufferState",
        &[
            "total_record_count",
            "arena_acknowledged",
            "stall_ticks",
            "max_stall_ticks",
            "payload_bytes",
            "shed_payload_bytes",
            "saved_payload_bytes",
            "stalls",
            "shed_record_count",
            "saved_record_count",
        ],
    ),
    ("DepGenDataHeader", &["peer"]),
    (
        "DepGenBufferState",
        &["stalls", "stall_ticks", "max_stall_ticks", "stall_budget", "truncated_record_count"],
    ),
    ("PmuDataHeader", &["peer", "stall_budget"]),
    ("PmuBufferState", &["stalls", "stall_ticks", "max_stall_ticks"]),
    ("ScopeStatsDataHeader", &["peer"]),
    (
        "ScopeStatsBufferState",
        &["stalls", "stall_ticks", "max_stall_ticks", "stall_budget", "deep_scope_count"],
    ),
];

const LAUNCH: &str = "an argument of a launch, handed over outside the regions";
const CALLABLE: &str = "how the runtime loads kernels and orchestrators";

/// Facts that are no part of the shared memory.
pub(crate) const EXCLUDED: &[(&str, &str)] = &[
    ("KernelArgs", LAUNCH),
    ("InitArgs", LAUNCH),
    ("RegisterCallableArgs", LAUNCH),
    ("CallConfig", LAUNCH),
    ("RuntimeEnv", LAUNCH),
    ("ChipCallable", CALLABLE),
    ("DumpArgSelection", "a helper of the orchestrator's; what it selects arrives as ArgsDumpTaskMetadata"),
    ("AicpuTopologyQueryResult", "a query of the launcher's (a5)"),
    ("AicpuTopologyQueryArgs", "a query of the launcher's (a5)"),
    ("PmuEventConfig", "a table of pointers in the program; its content is compared as pmu_events"),
    ("DmaWorkspaceKind", "indexes InitArgs"),
    ("INIT_ARGS_MAX_ORCH_SYMBOL_NAME", "sizes RegisterCallableArgs"),
    ("RUNTIME_ENV_RING_COUNT", "sizes RuntimeEnv"),
    ("RUNTIME_ENV_FIELD_GROUPS", "sizes RuntimeEnv"),
    ("RUNTIME_ENV_UINT64_FIELD_COUNT", "sizes RuntimeEnv"),
    ("CHIP_MAX_TENSOR_ARGS", "sizes ChipCallable"),
    ("CHIP_MAX_SCALAR_ARGS", "sizes ChipCallable"),
    ("CALLABLE_ALIGN", CALLABLE),
    ("CALLABLE_CHILD_ALIGN", CALLABLE),
    ("CALLABLE_FUNC_NAME_MAX", CALLABLE),
    ("CORE_CALLABLE_BINARY_DATA_OFFSET", CALLABLE),
];

/// One field of ours, and what the facts call it.
pub(crate) struct Field {
    pub(crate) ours: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// One platform's facts, what has been compared, and what was found wrong.
pub(crate) struct Facts {
    pub(crate) platform: Platform,
    pub(crate) json: Value,
    pub(crate) seen: RefCell<BTreeSet<String>>,
    pub(crate) extensions: RefCell<BTreeSet<(String, String)>>,
    pub(crate) wrong: RefCell<Vec<String>>,
}

pub(crate) fn num(value: &Value) -> i128 {
    match value {
        Value::Number(n) => n.as_i64().map(i128::from).or(n.as_u64().map(i128::from)).expect("an integer"),
        other => panic!("{other} is no number"),
    }
}

pub(crate) fn int(value: &Value) -> usize {
    usize::try_from(num(value)).expect("a size")
}

pub(crate) fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

pub(crate) fn is_pad(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    name.starts_with("pad") || name.starts_with("reserved")
}

/// Bytes of the struct that no field of the facts but a pad covers.
pub(crate) fn spare_bytes(theirs: &Value) -> Vec<bool> {
    let mut spare = vec![true; int(&theirs["size"])];
    for field in list(&theirs["fields"]).iter().filter(|field| !is_pad(field["name"].as_str().unwrap())) {
        let offset = int(&field["offset"]);
        spare[offset..offset + int(&field["size"])].fill(false);
    }
    spare
}

/// Names that differ only in case and underscores are the same.
pub(crate) fn plain(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

impl Facts {
    pub(crate) fn from_json(json: Value) -> Facts {
        let platform = match json["platform"].as_str() {
            Some("a2a3") => Platform::A2a3,
            Some("a5") => Platform::A5,
            other => panic!("no platform {other:?}"),
        };
        let (seen, extensions, wrong) = Default::default();
        Facts { platform, json, seen, extensions, wrong }
    }

    /// Each file is parsed once: an interpreter takes long for that.
    pub(crate) fn load(name: &str) -> Facts {
        static PARSED: Mutex<BTreeMap<String, Value>> = Mutex::new(BTreeMap::new());
        let path = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
        Facts::from_json(parsed.entry(name.to_owned()).or_insert_with(|| read(&path())).clone())
    }

    pub(crate) fn both() -> [Facts; 2] {
        [Facts::load("a2a3.json"), Facts::load("a5.json")]
    }

    pub(crate) fn expect(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.borrow_mut().push(format!("{:?}: {}", self.platform, what()));
        }
    }

    pub(crate) fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, ours: T, theirs: T) {
        self.expect(ours == theirs, || format!("{what} is {ours:?}, pinned as {theirs:?}"));
    }

    pub(crate) fn fact(&self, section: &str, name: &str) -> &Value {
        self.seen.borrow_mut().insert(name.to_owned());
        let found = &self.json[section][name];
        assert!(!found.is_null(), "{:?} has no {name} in {section}", self.platform);
        found
    }

    pub(crate) fn field_of(&self, name: &str, field: &str) -> &Value {
        let fields = list(&self.json["structs"][name]["fields"]);
        fields.iter().find(|f| f["name"] == field).unwrap_or_else(|| panic!("no {name}.{field}"))
    }

    pub(crate) fn struct_is(&self, name: &str, size: usize, align: usize, ours: &[Field]) {
        let theirs = self.fact("structs", name);
        self.same(&format!("size of {name}"), size, int(&theirs["size"]));
        self.same(&format!("alignment of {name}"), align, int(&theirs["align"]));
        let spare = spare_bytes(theirs);
        let mut ours_in_spare = vec![false; spare.len()];
        for field in ours {
            let extension = EXTENSIONS.iter().any(|(on, fields)| *on == name && fields.contains(&field.ours));
            if extension {
                self.extensions.borrow_mut().insert((name.to_owned(), field.ours.to_owned()));
            }
            if extension || field.ours.starts_with("_pad") {
                let bytes = field.offset..field.offset + field.size;
                let free = spare.get(bytes.clone()).is_some_and(|bytes| bytes.iter().all(|spare| *spare));
                self.expect(free, || format!("{name}.{} lies in bytes that are not spare", field.ours));
                ours_in_spare.get_mut(bytes).into_iter().for_each(|bytes| bytes.fill(true));
            } else {
                let known = list(&theirs["fields"]).iter().any(|their| their["name"] == field.theirs);
                self.expect(known, || format!("{name}.{} is pinned nowhere", field.ours));
            }
        }
        for their in list(&theirs["fields"]) {
            let (called, offset, size) =
                (their["name"].as_str().unwrap(), int(&their["offset"]), int(&their["size"]));
            if is_pad(called) {
                let covered = ours_in_spare[offset..offset + size].iter().all(|covered| *covered);
                self.expect(covered, || format!("{name}.{called} is not covered by pads and extensions"));
                continue;
            }
            let mut mine = ours.iter().filter(|field| field.theirs == called);
            match (mine.next(), mine.next()) {
                (Some(field), None) => {
                    self.same(&format!("offset of {name}.{called}"), field.offset, offset);
                    self.same(&format!("size of {name}.{called}"), field.size, size);
                }
                _ => self.expect(false, || format!("{name}.{called} must be ours exactly once")),
            }
        }
    }

    pub(crate) fn enum_is(&self, name: &str, underlying: &str, size: usize, ours: &[(&str, i128)]) {
        let theirs = self.fact("enums", name);
        let bits = theirs["underlying"].as_str().unwrap();
        self.same(&format!("type of {name}"), underlying, bits);
        self.same(&format!("bits of {name}"), size * 8, bits[1..].parse().unwrap());
        let set = |all: Vec<(String, i128)>| all.into_iter().collect::<BTreeSet<_>>();
        let values = theirs["values"].as_object().unwrap();
        self.same(
            name,
            set(ours.iter().map(|(name, value)| (plain(name), *value)).collect()),
            set(values.iter().map(|(name, value)| (plain(name), num(value))).collect()),
        );
    }

    pub(crate) fn constant_is(&self, name: &str, ours: i128) {
        self.same(name, ours, num(self.fact("constants", name)));
    }

    /// Nothing wrong, nothing of the sections forgotten, no exclusion without need.
    pub(crate) fn finish(self, sections: &[&str]) -> Vec<String> {
        for section in sections {
            for name in self.json[*section].as_object().unwrap().keys() {
                let (seen, excluded) =
                    (self.seen.borrow().contains(name), EXCLUDED.iter().any(|(other, _)| other == name));
                self.expect(seen || excluded, || format!("{name} is neither compared nor excluded"));
                self.expect(!(seen && excluded), || format!("{name} is compared and excluded"));
            }
        }
        self.wrong.into_inner()
    }
}

pub(crate) fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
pub(crate) fn nothing(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} differences:\n  {}", wrong.len(), wrong.join("\n  "));
}

pub(crate) fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! theirs {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $theirs:literal) => {
        $theirs
    };
}

/// Compares a struct of ours, all of its fields listed (`ours = "theirs"` where the names differ).
macro_rules! check {
    ($facts:expr, $json:literal, $ty:path { $($field:ident $(= $theirs:literal)?),* $(,)? }) => {{
        let _exhaustive = |it: &$ty| { let $ty { $($field: _),* } = it; };
        let fields = [$(crate::facts::Field {
            ours: stringify!($field),
            theirs: crate::facts::theirs!($field $($theirs)?),
            offset: std::mem::offset_of!($ty, $field),
            size: crate::facts::size_of_field(|it: &$ty| &it.$field),
        }),*];
        $facts.struct_is($json, size_of::<$ty>(), align_of::<$ty>(), &fields);
    }};
}

/// Compares an enum of ours, all of its variants listed, and what `from_raw` makes of numbers.
macro_rules! check_enum {
    ($facts:expr, $json:literal, $ty:path: $raw:ident { $($ours:ident),* $(,)? } $($count:literal = $n:expr)?) => {{
        use $ty as It;
        let _exhaustive = |it: It| match it { $(It::$ours => ()),* };
        let ours = [$((stringify!($ours), It::$ours as i128),)* $(($count, $n as i128))?];
        $(assert_eq!(It::from_raw(It::$ours as $raw), Some(It::$ours));)*
        let known = (0..=127 as $raw).filter(|raw| It::from_raw(*raw).is_some()).count();
        assert_eq!(known, [$(stringify!($ours)),*].len(), "{} has numbers that are no variant", $json);
        $facts.enum_is($json, stringify!($raw), size_of::<It>(), &ours);
    }};
}

pub(crate) use {check, check_enum, theirs};
