//! The ABI that compiles is the ABI that is pinned.
//!
//! `data/{a2a3,a5}.json` hold the pinned facts. Every struct, enum and constant in them is compared with ours or stands
//! on a list of exclusions with the reason; nothing can be forgotten, because the comparison ends by asking which names
//! were neither. Our structs are taken apart exhaustively, so no field of ours escapes either: it is a fact's, it is
//! named `_pad…`, or it stands in [`EXTENSIONS`](facts::EXTENSIONS), and the last two lie only in bytes that the
//! facts leave unused.

#[path = "abi_json/constants.rs"]
mod constants;
#[path = "abi_json/facts.rs"]
mod facts;
#[path = "abi_json/regions.rs"]
mod regions;
#[path = "abi_json/structs.rs"]
mod structs;

use constants::{constants, register_names};
use dfx_collector::abi::{
    Geometry, Platform, REVISION, args_dump, clock_anchor, dep_gen, device_phase, flags, host_phase, pmu,
    scope_stats, swimlane, task, task_id, tensor,
};
use facts::{EXCLUDED, EXTENSIONS, Facts, check_enum, int, list, nothing, num, read, spare_bytes};
use serde_json::Value;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use structs::check_structs;

/// The peer words' offsets on a2a3 and a5, as the design states them.
const PEER_WORDS: &[(&str, usize, usize)] = &[
    ("ChipSwimlaneDataHeader", 127116, 233144),
    ("DumpDataHeader", 8264, 12880),
    ("DepGenDataHeader", 1076, 1340),
    ("PmuDataHeader", 18488, 34624),
    ("ScopeStatsDataHeader", 1108, 1372),
];

/// What the reduced copy keeps.
const KEPT: &[&str] = &[
    "platform",
    "source_commit",
    "constants",
    "enums",
    "structs",
    "regions",
    "pmu_events",
    "pmu_event_fallback",
    "pmu_counter_count",
    "dfx_flags",
    "dtype",
    "dtype_out_of_range",
    "host_phase_kinds",
    "task_id",
    "clock_freq_hz",
    "queue_rules",
];

/// What the reduced copy leaves out of `regions`: prose.
const PROSE: &[&str] = &[
    "note",
    "prefix_note",
    "base_published_in",
    "published_in",
    "content",
    "index",
    "size_formula",
    "offsets",
    "formula",
];

#[test]
#[cfg_attr(miri, ignore = "Miri has shorter buffers")]
fn every_struct_lies_as_pinned_or_is_excluded() {
    for facts in Facts::both() {
        check_structs(&facts);
        for (name, fields) in EXTENSIONS {
            for field in *fields {
                let met = facts.extensions.borrow().contains(&((*name).to_owned(), (*field).to_owned()));
                facts.expect(met, || format!("the extension {name}.{field} does not exist"));
            }
        }
        nothing(facts.finish(&["structs"]));
    }
}

#[test]
fn a_fact_that_differs_in_one_byte_is_noticed() {
    type Tamper = fn(&mut Value);
    let tampers: [(&str, Tamper); 4] = [
        ("offset of PmuRecord.func_id", |json| {
            json["structs"]["PmuRecord"]["fields"][1]["offset"] = 12.into()
        }),
        ("size of ScopeStatsRecord", |json| json["structs"]["ScopeStatsRecord"]["size"] = 88.into()),
        ("DepGenBufferState._pad lies in bytes", |json| {
            json["structs"]["DepGenBufferState"]["fields"][6]["name"] = "news".into();
        }),
        ("Novelty is neither compared nor excluded", |json| {
            json["structs"]["Novelty"] = json["structs"]["PmuRecord"].clone();
        }),
    ];
    for (complaint, tamper) in tampers {
        let mut json = Facts::load("a2a3.json").json;
        tamper(&mut json);
        let facts = Facts::from_json(json);
        check_structs(&facts);
        let wrong = facts.finish(&["structs"]);
        assert!(wrong.iter().any(|wrong| wrong.contains(complaint)), "{complaint:?} not in {wrong:?}");
    }
}

#[test]
fn the_peer_word_is_the_first_spare_word_of_each_header() {
    let ours = |platform: Platform| match platform {
        Platform::A2a3 => [
            offset_of!(swimlane::SwimlaneHeaderA2a3, peer),
            offset_of!(args_dump::HeaderA2a3, peer),
            offset_of!(dep_gen::HeaderA2a3, peer),
            offset_of!(pmu::HeaderA2a3, peer),
            offset_of!(scope_stats::HeaderA2a3, peer),
        ],
        Platform::A5 => [
            offset_of!(swimlane::SwimlaneHeaderA5, peer),
            offset_of!(args_dump::HeaderA5, peer),
            offset_of!(dep_gen::HeaderA5, peer),
            offset_of!(pmu::HeaderA5, peer),
            offset_of!(scope_stats::HeaderA5, peer),
        ],
    };
    for facts in Facts::both() {
        for ((name, a2a3, a5), ours) in PEER_WORDS.iter().zip(ours(facts.platform)) {
            let spare = spare_bytes(facts.fact("structs", name));
            let first = (0..spare.len()).step_by(4).find(|at| spare[*at..*at + 4] == [true; 4]);
            facts.same(&format!("peer word of {name}"), Some(ours), first);
            let stated = if facts.platform == Platform::A2a3 { *a2a3 } else { *a5 };
            facts.same(&format!("stated peer word of {name}"), ours, stated);
        }
        nothing(facts.finish(&[]));
    }
}

#[test]
#[rustfmt::skip] // One enum, one block.
fn every_enum_has_the_pinned_numbers_or_is_excluded() {
    for f in Facts::both() {
        check_enum!(f, "ChipSwimlaneLevel", swimlane::Level: u32 {
            Disabled, AicoreTiming, AicpuTiming, SchedPhases, OrchPhases,
        });
        check_enum!(f, "ChipSwimlaneBufferKind", swimlane::BufferKind: u32 {
            AicpuTask, AicpuSchedPhase, AicpuOrchPhase, AicoreTask,
        });
        check_enum!(f, "ChipSwimlaneSchedPhaseKind", swimlane::SchedPhaseKind: u32 {
            Complete, Dispatch, Release, Dummy, EarlyDispatch, Resolve, DummyTask, Drain, DrainPrepare, DrainPublish,
            AsyncPoll, PredicatedSkip, GraphPrepare,
        });
        check_enum!(f, "HostPhaseKind", host_phase::Kind: u32 {
            BindArgs, BindArenaBuild, BindStaticArena, BindGmHeap, BindSharedMem, BindRuntimeInit, BindHostOrch,
            BindGraphUpload, BindRelocate, BindSmH2d, BindArenaH2d, BindHostViewClose, OrchSubmitTask,
            OrchAllocTensors, OrchRecordNode, OrchGraphSubmit, OrchBuildDefinition,
        } "Count" = host_phase::Kind::ALL.len());
        check_enum!(f, "ArgsDumpRole", args_dump::Role: u8 { Input, Output, Inout });
        check_enum!(f, "ArgsDumpStage", args_dump::Stage: u8 { BeforeDispatch, AfterCompletion });
        check_enum!(f, "ArgsDumpKind", args_dump::Kind: u8 { Tensor, Scalar });
        check_enum!(f, "DumpArgsLevel", args_dump::Level: u32 { Off, Partial, Full, Hybrid });
        check_enum!(f, "CoreType", task::CoreType: i32 { Aic, Aiv });
        check_enum!(f, "PmuEventType", pmu::EventType: u32 {
            ArithmeticUtilization, PipeUtilization, Memory, MemoryL0, ResourceConflict, MemoryUb, L2Cache,
        });
        check_enum!(f, "DataType", tensor::DataType: u8 {
            Float32, Float16, Int32, Int16, Int8, Uint8, Bfloat16, Int64, Uint64, Uint16, Uint32, Bool, Fp8E4m3fn,
            Fp8E8m0, Fp4E2m1,
        } "DATA_TYPE_NUM" = tensor::DataType::ALL.len());
        check_enum!(f, "AddressSpace", tensor::AddressSpace: u8 { Host, Device });
        check_enum!(f, "ArgDirection", tensor::ArgDirection: i32 { Scalar, In, Out, Inout });
        check_enum!(f, "TensorArgType", tensor::TensorArgType: i32 { Input, Output, Inout, OutputExisting, NoDep });
        check_enum!(f, "AicpuPhase", device_phase::Phase: u32 {
            RunWall, Preamble, SoLoad, GraphBuild, PostOrch, OrchWindow, SchedWindow, ConfigValidate, ArenaWire,
            SmReset,
        } "Count" = device_phase::Phase::ALL.len());
        check_enum!(f, "PTO2SubtaskSlot", task::SubtaskSlot: u8 { Aic, Aiv0, Aiv1 });
        check_enum!(f, "PTO2ResourceShape", task::ResourceShape: u8 { Aic, Aiv, Mix, Dummy });
        check_enum!(f, "ClockAnchorPosition", clock_anchor::Position: u32 {
            HostOrchestrationBegin, DeviceExecutionComplete,
        });
        check_enum!(f, "ClockAnchorErrorStage", clock_anchor::ErrorStage: u32 {
            None, CreateStream, CreateEvent, RecordEvent, SynchronizeEvent, GetTimestamp,
        });
        use dep_gen::flags::*;
        f.enum_is("DepGenRecordFlags", "u32", 4, &[
            ("DEP_GEN_FLAG_IN_MANUAL_SCOPE", IN_MANUAL_SCOPE.into()),
            ("DEP_GEN_FLAG_HAS_OVERFLOW", HAS_OVERFLOW.into()),
            ("DEP_GEN_FLAG_OVERFLOW", OVERFLOW.into()),
            ("DEP_GEN_FLAG_LAST_OVERFLOW", LAST_OVERFLOW.into()),
            ("DEP_GEN_FLAG_EARLY_DISPATCH", EARLY_DISPATCH.into()),
        ]);
        let registers = register_names(f.platform);
        let numbers: Vec<_> = registers.iter().map(|(name, _, id)| (name.as_str(), i128::from(*id))).collect();
        f.enum_is("RegId", "u8", 1, &numbers);
        nothing(f.finish(&["enums"]));
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has shorter buffers")]
fn every_constant_has_the_pinned_value_or_is_excluded() {
    for facts in Facts::both() {
        for (name, ours) in constants(facts.platform) {
            facts.constant_is(&name, ours);
        }
        let unit = "PLATFORM_ACL_EVENT_TIMESTAMP_UNIT";
        facts.same(unit, Some(clock_anchor::EVENT_UNIT), facts.fact("constants", unit).as_str());
        facts.same("source_commit", Some(REVISION), facts.json["source_commit"].as_str());
        facts.same(
            "clock_freq_hz",
            Geometry::of(facts.platform).clock_hz.into(),
            num(&facts.json["clock_freq_hz"]),
        );
        nothing(facts.finish(&["constants"]));
    }
}

#[test]
fn every_exclusion_excludes_something() {
    let facts = Facts::both();
    for (name, reason) in EXCLUDED {
        let known =
            |f: &Facts| ["structs", "enums", "constants"].iter().any(|of| f.json[*of].get(name).is_some());
        assert!(facts.iter().any(known), "{name} ({reason}) is no fact");
    }
}

#[test]
fn names_and_tables_are_the_pinned_ones() {
    for f in Facts::both() {
        let dtypes = f.json["dtype"].as_object().unwrap();
        f.same("dtypes", tensor::DataType::ALL.len(), dtypes.len());
        for (raw, theirs) in dtypes {
            let raw = raw.parse().unwrap();
            f.same("dtype", Some(tensor::DataType::name_of(raw)), theirs["name"].as_str());
            f.same("dtype", tensor::DataType::bytes_of(raw).into(), num(&theirs["bytes"]));
        }
        let none = &f.json["dtype_out_of_range"];
        f.same("no dtype", Some(tensor::DataType::name_of(15)), none["name"].as_str());
        f.same("no dtype", tensor::DataType::bytes_of(255).into(), num(&none["bytes"]));

        for kind in host_phase::Kind::ALL {
            let theirs = &f.json["host_phase_kinds"][(kind as u32).to_string()];
            f.same("host phase", Some(kind.name()), theirs["name"].as_str());
            f.same("host phase submits", Some(kind.submits_task()), theirs["submits_task"].as_bool());
            f.same("host phase uploads", Some(kind.device_upload()), theirs["device_upload"].as_bool());
        }

        f.same("pmu counters", pmu::counter_count(f.platform), int(&f.json["pmu_counter_count"]));
        f.same("pmu fallback", pmu::EventType::default() as usize, int(&f.json["pmu_event_fallback"]));
        f.same("pmu events", pmu::EventType::ALL.len(), f.json["pmu_events"].as_object().unwrap().len());
        for event in pmu::EventType::ALL {
            let theirs = &f.json["pmu_events"][(event as u32).to_string()];
            f.same("pmu event", Some(event.name()), theirs["name"].as_str());
            let counters = pmu::counters(f.platform, event);
            let ids: Vec<_> = counters.iter().map(|c| i128::from(c.event_id)).collect();
            f.same(event.name(), ids, list(&theirs["event_ids"]).iter().map(num).collect());
            let names: Vec<_> = counters.iter().map(|c| Some(c.name)).collect();
            f.same(event.name(), names, list(&theirs["counter_names"]).iter().map(Value::as_str).collect());
        }

        for (name, ours) in [
            ("NONE", flags::NONE),
            ("DUMP_ARGS", flags::DUMP_ARGS),
            ("CHIP_SWIMLANE", flags::CHIP_SWIMLANE),
            ("PMU", flags::PMU),
            ("DEP_GEN", flags::DEP_GEN),
            ("SCOPE_STATS", flags::SCOPE_STATS),
        ] {
            f.same(name, ours.into(), num(&f.json["dfx_flags"][name]));
        }
        f.same("dfx flags", f.json["dfx_flags"].as_object().unwrap().len(), 6);

        let id = &f.json["task_id"];
        let raw = task_id::new(3, 7);
        f.same("task id", raw.into(), num(&id["sample"]["raw"]));
        f.same("task id's ring", task_id::ring(raw).into(), num(&id["sample"]["ring"]));
        f.same("task id's local", task_id::local(raw).into(), num(&id["sample"]["local"]));
        f.same("no task id", task_id::INVALID.into(), num(&id["invalid"]));

        // What the engine is written to; a new revision must not change it unnoticed.
        for (queue, rule, ours) in [
            ("free_queue", "empty", "head == tail"),
            ("free_queue", "full", "tail - head >= SLOT_COUNT"),
            ("free_queue", "slot", "index % SLOT_COUNT"),
            ("free_queue", "indices", "free-running u32, never reduced"),
            ("ready_queue", "empty", "head == tail"),
            ("ready_queue", "full", "(tail + 1) % N == head"),
            ("ready_queue", "usable_entries", "N - 1"),
            ("ready_queue", "indices", "stored already reduced modulo N"),
            ("ready_queue", "publish_order", "entry fields, write barrier, tail"),
        ] {
            f.same(queue, Some(ours), f.json["queue_rules"][queue][rule].as_str());
        }
        nothing(f.finish(&[]));
    }
}

#[test]
fn the_copy_of_the_facts_is_true_where_the_originals_are_at_hand() {
    fn without_prose(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|key, _| !PROSE.contains(&key.as_str()));
                map.values_mut().for_each(without_prose);
            }
            Value::Array(all) => all.iter_mut().for_each(without_prose),
            _ => (),
        }
    }
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/abi");
    let dir = std::env::var_os("DFX_ABI_DIR").map_or_else(beside, PathBuf::from);
    if !dir.is_dir() {
        println!("skipped: no originals in {} (set DFX_ABI_DIR)", dir.display());
        return;
    }
    for name in ["a2a3.json", "a5.json"] {
        let (copy, mut original) = (Facts::load(name).json, read(&dir.join(name)));
        without_prose(&mut original["regions"]);
        let original = original.as_object_mut().unwrap();
        original.retain(|key, _| KEPT.contains(&key.as_str()));
        let copy = copy.as_object().unwrap();
        assert_eq!(copy.keys().collect::<Vec<_>>(), original.keys().collect::<Vec<_>>(), "{name}");
        for (key, kept) in copy {
            assert_eq!(kept, &original[key], "{key} of {name}");
        }
    }
}
