//! The writer against the files that the existing runtime really wrote, and against its own edges.

use super::host::*;
use super::swimlane::*;
use crate::records::SwimlaneRecords;
use dfx_collector::abi::swimlane::*;
use proptest::prelude::*;
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
        } else if entry.ends_with(FILE_NAME) {
            found.push(entry);
        }
    }
}

/// An artifact's inputs, owned.
struct Parsed {
    level: Level,
    clock_hz: u64,
    core_types: Vec<CoreKind>,
    core_to_thread: Option<Vec<i8>>,
    max_threads: usize,
    orch_lanes: usize,
    records: SwimlaneRecords,
    host: Option<HostOrchestration>,
}

impl Parsed {
    fn artifact(&self) -> SwimlaneArtifact<'_> {
        SwimlaneArtifact {
            level: self.level,
            clock_hz: self.clock_hz,
            core_types: &self.core_types,
            core_to_thread: self.core_to_thread.as_deref(),
            max_threads: self.max_threads,
            orch_lanes: self.orch_lanes,
            records: &self.records,
            host: self.host.as_ref(),
        }
    }

    fn text(&self) -> (String, ExportCounts) {
        let mut out = Vec::new();
        let counts = self.artifact().write(&mut out).unwrap();
        (String::from_utf8(out).unwrap(), counts)
    }
}

fn u(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no u64"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn phase(row: &Value) -> SchedPhaseRecord {
    let kind = (0..=14).find(|k| kind_name(*k) == row["kind"]).unwrap();
    let depths = |key: &str| [0, 1, 2].map(|i| row[key][i].as_i64().unwrap() as i16);
    let task = row["task_id"].as_u64();
    let pops = [row["pop_hit"].as_u64().unwrap_or(0) as u32, row["pop_miss"].as_u64().unwrap_or(0) as u32];
    SchedPhaseRecord {
        start_time: u(&row["start_cycles"]),
        end_time: u(&row["end_cycles"]),
        loop_iter: u(&row["loop_iter"]) as u32,
        kind,
        tasks_processed: u(&row["tasks_processed"]) as u32,
        phase_data: task.map_or(pops, |t| [t as u32, (t >> 32) as u32]),
        shared_depth_at_start: depths("shared_at_start"),
        shared_depth_at_end: depths("shared_at_end"),
        _pad: [0; 4],
    }
}

fn host(root: &Value) -> Option<HostOrchestration> {
    let meta = &root["metadata"];
    let capture = meta.get("host_capture").map(|c| HostCapture {
        expected_records: u(&c["expected_records"]),
        recorded_records: u(&c["recorded_records"]),
        pool_records: u(&c["pool_records"]),
        dropped_records: u(&c["dropped_records"]),
    });
    let anchors = meta.get("clock_anchors").map(|a| ClockAnchors {
        provider: a["provider"].as_str().unwrap().into(),
        raw_device_timestamp_unit: a["raw_device_timestamp_unit"].as_str().unwrap().into(),
        samples_per_position: u(&a["samples_per_position"]) as u32,
        samples: list(&a["samples"])
            .iter()
            .map(|s| AnchorSample {
                position: s["position"].as_str().unwrap().into(),
                sample_idx: u(&s["sample_idx"]) as u32,
                host_before_ns: u(&s["host_before_ns"]),
                raw_device_timestamp: s["raw_device_timestamp"].as_u64(),
                device_cycles: s["device_cycles"].as_u64(),
                host_after_ns: u(&s["host_after_ns"]),
                error: None,
            })
            .collect(),
    });
    let submits = list(&root["host_orchestrator_phases"][0]).iter().map(|s| HostSubmit {
        submit_idx: u(&s["submit_idx"]) as u32,
        task_id: u(&s["task_id"]),
        start_ns: u(&s["start_host_ns"]),
        end_ns: u(&s["end_host_ns"]),
    });
    let uploads = list(&root["host_device_uploads"]).iter().map(|s| HostUpload {
        phase: UploadPhase::from_name(s["phase"].as_str().unwrap()).unwrap(),
        start_ns: u(&s["start_host_ns"]),
        end_ns: u(&s["end_host_ns"]),
        detail: u(&s["detail"]),
    });
    let (submits, uploads) = (submits.collect(), uploads.collect());
    (capture.is_some() || anchors.is_some()).then_some(HostOrchestration {
        capture,
        anchors,
        submits,
        uploads,
    })
}

fn parse(text: &str) -> Parsed {
    let root: Value = serde_json::from_str(text).unwrap();
    let meta = &root["metadata"];
    let cores = u(&meta["num_cores"]) as usize;
    let sched = list(&root["aicpu_scheduler_phases"]);
    let orch = list(&root["aicpu_orchestrator_phases"]);
    let mut records = SwimlaneRecords::new(cores, sched.len().max(1));
    for (i, row) in list(&root["aicore_tasks"]).iter().enumerate() {
        let record = CoreRecord {
            start_time: u(&row[3]),
            end_time: u(&row[4]),
            task_token_raw: u(&row[1]),
            reg_task_id: u(&row[2]) as u32,
            receive_to_start_cycles: u(&row[5]) as u32,
        };
        records.push_core(u(&row[0]) as usize, i as u32, &[record]).unwrap();
    }
    for (i, row) in list(&root["aicpu_tasks"]).iter().enumerate() {
        let (reg_task_id, dispatch_time, finish_time) = (u(&row[1]) as u32, u(&row[2]), u(&row[3]));
        let record = TaskRecord { dispatch_time, finish_time, reg_task_id, _pad: [0; 3] };
        records.push_task(u(&row[0]) as usize, i as u32, &[record]).unwrap();
    }
    for (thread, rows) in sched.iter().enumerate() {
        records.push_sched(thread, 0, &list(rows).iter().map(phase).collect::<Vec<_>>()).unwrap();
    }
    for (lane, rows) in orch.iter().enumerate() {
        let rows: Vec<_> = list(rows)
            .iter()
            .map(|r| OrchPhaseRecord {
                start_time: u(&r["start_cycles"]),
                end_time: u(&r["end_cycles"]),
                task_id: u(&r["task_id"]),
                submit_idx: u(&r["submit_idx"]) as u32,
                _pad: 0,
            })
            .collect();
        records.push_orch(lane, 0, &rows).unwrap();
    }
    let kind = |t: &Value| if t == "aic" { CoreKind::Aic } else { CoreKind::Aiv };
    let map = meta.get("core_to_thread").map(|m| list(m).iter().map(|t| t.as_i64().unwrap() as i8).collect());
    Parsed {
        level: Level::from_raw(u(&root["chip_swimlane_level"]) as u32).unwrap(),
        clock_hz: u(&meta["clock_freq_hz"]),
        core_types: list(&meta["core_types"]).iter().map(kind).collect(),
        core_to_thread: map,
        max_threads: sched.len(),
        orch_lanes: orch.len(),
        records,
        host: host(&root),
    }
}

#[test]
fn every_sample_of_the_existing_runtime_is_written_again_byte_for_byte() {
    let Some(dir) = interop() else { return };
    let mut found = Vec::new();
    // An interpreter takes minutes for a large one, and for the way through all directories.
    let few = cfg!(miri);
    samples(&if few { dir.join("a2a3_hbg_dump_args") } else { dir.clone() }, &mut found);
    assert!(found.len() >= if few { 5 } else { 30 }, "only {} samples under {}", found.len(), dir.display());
    found.retain(|path| !few || path.metadata().unwrap().len() < 640);
    let mut seen = std::collections::BTreeSet::new();
    for path in found {
        let original = std::fs::read_to_string(&path).unwrap();
        let parsed = parse(&original);
        seen.insert((parsed.level as u32, parsed.clock_hz, parsed.host.is_some()));
        assert!(
            parsed.text().0 == original,
            "{} comes out differently:\n{}",
            path.display(),
            parsed.text().0
        );
    }
    // Both platforms, every level; the host-orchestrated ones add their keys at level 4 only.
    assert_eq!(seen.len(), if few { 2 } else { 10 }, "{seen:?}");
}

fn empty(level: Level, cores: usize) -> Parsed {
    Parsed {
        level,
        clock_hz: 50_000_000,
        core_types: vec![CoreKind::Aiv; cores],
        core_to_thread: None,
        max_threads: 4,
        orch_lanes: 1,
        records: SwimlaneRecords::new(cores, 4),
        host: None,
    }
}

#[test]
fn a_run_without_records_has_exactly_the_keys_of_its_level() {
    let head = "{\n  \"chip_swimlane_level\": 3,\n  \"metadata\": {\n    \"clock_freq_hz\": 50000000,\n    \
                \"num_cores\": 1,\n    \"core_types\": [\"aiv\"]\n  },\n  \"aicore_tasks\": [],\n  \
                \"aicpu_tasks\": []";
    let phases = ",\n  \"aicpu_scheduler_phases\": [\n    [],\n    [],\n    [],\n    []\n  ]";
    assert_eq!(empty(Level::SchedPhases, 1).text().0, format!("{head}{phases}\n}}\n"));
    let head = head.replace("level\": 3", "level\": 2");
    assert_eq!(empty(Level::AicpuTiming, 1).text().0, format!("{head}\n}}\n"));
    let head = head.replace("level\": 2", "level\": 1").replace("\"num_cores\": 1", "\"num_cores\": 0");
    assert_eq!(empty(Level::AicoreTiming, 0).text().0, format!("{}\n}}\n", head.replace("\"aiv\"", "")));
}

#[test]
fn rows_that_are_not_written_are_counted() {
    let mut run = empty(Level::AicpuTiming, 2);
    let row = |start_time| CoreRecord { start_time, ..CoreRecord::default() };
    run.records.push_core(0, 0, &[row(0), row(5), row(0)]).unwrap();
    run.records.push_core(1, 0, &[row(0)]).unwrap();
    run.records.push_sched(3, 0, &[SchedPhaseRecord::default(); 2]).unwrap();
    run.records.push_orch(0, 0, &[OrchPhaseRecord::default(); 3]).unwrap();
    let (text, counts) = run.text();
    assert!(text.contains("\"aicore_tasks\": [\n    [0, 0, 0, 5, 0, 0]\n  ],"), "{text}");
    let expected = ExportCounts {
        core_rows: 1,
        core_rows_uncommitted: 3,
        rows_above_level: 5,
        ..ExportCounts::default()
    };
    assert_eq!(counts, expected);
}

#[test]
fn rows_of_more_lanes_than_the_device_counted_do_not_vanish() {
    let mut run = empty(Level::OrchPhases, 1);
    run.max_threads = 2;
    run.records.push_sched(3, 0, &[SchedPhaseRecord { kind: 3, ..SchedPhaseRecord::default() }]).unwrap();
    run.records.push_orch(2, 0, &[OrchPhaseRecord::default()]).unwrap();
    let (text, counts) = run.text();
    assert_eq!((counts.sched_rows, counts.orch_rows), (1, 1));
    let root: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(root["aicpu_scheduler_phases"][3][0]["kind"], "unknown");
    assert_eq!(list(&root["aicpu_orchestrator_phases"]).len(), 3);
    run.orch_lanes = 0;
    run.records.push_orch(0, 0, &[OrchPhaseRecord::default()]).unwrap();
    let root: Value = serde_json::from_str(&run.text().0).unwrap();
    assert_eq!(list(&root["aicpu_orchestrator_phases"]).len(), 3);
}

#[test]
fn a_failed_host_recording_says_so() {
    let mut run = empty(Level::OrchPhases, 1);
    let sample = AnchorSample { error: Some(("record_event".into(), -3)), ..AnchorSample::default() };
    run.host = Some(HostOrchestration {
        capture: Some(HostCapture { expected_records: 2, dropped_records: 1, ..HostCapture::default() }),
        anchors: Some(ClockAnchors { samples: vec![sample], ..ClockAnchors::default() }),
        ..HostOrchestration::default()
    });
    let root: Value = serde_json::from_str(&run.text().0).unwrap();
    assert_eq!(root["metadata"]["host_capture"]["error"], "pool_overflow");
    assert_eq!(root["metadata"]["clock_anchors"]["samples"][0]["error"]["code"], -3);
    assert!(root.get("host_orchestrator_phases").is_none());
    run.host.as_mut().unwrap().capture = Some(HostCapture { expected_records: 2, ..HostCapture::default() });
    assert!(run.text().0.contains("\"status\": \"incomplete\""));
}

#[test]
fn an_artifact_on_disk_is_what_was_written_or_absent() {
    let dir = tempfile::tempdir().unwrap();
    let run = empty(Level::OrchPhases, 3);
    let (info, _) = run.artifact().write_to_dir(dir.path(), None).unwrap();
    assert_eq!(std::fs::read_to_string(&info.path).unwrap(), run.text().0);
    assert_eq!(info.bytes, run.text().0.len() as u64);
}

fn any_ticks() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 63), Just((1 << 53) + 1), 0..10u64]
}

proptest! {
    #[test]
    fn any_record_reads_back_as_it_was(
        core in (any_ticks(), any_ticks(), any::<u64>(), any::<u32>(), any::<u32>()),
        kind in 0..14u32,
        data in any::<[u32; 2]>(),
        depths in any::<[i16; 3]>(),
    ) {
        let (start, end, task, token, delta) = core;
        let mut run = empty(Level::OrchPhases, 2);
        let record = CoreRecord {
            start_time: start.max(1),
            end_time: end,
            task_token_raw: task,
            reg_task_id: token,
            receive_to_start_cycles: delta,
        };
        let phases = SchedPhaseRecord {
            start_time: start, end_time: end, loop_iter: token, kind, tasks_processed: delta, phase_data: data,
            shared_depth_at_start: depths, shared_depth_at_end: depths, _pad: [0; 4],
        };
        let submit =
            OrchPhaseRecord { start_time: start, end_time: end, task_id: task, submit_idx: token, _pad: 0 };
        let dispatch = TaskRecord { dispatch_time: start, finish_time: end, reg_task_id: token, _pad: [0; 3] };
        run.records.push_core(1, 0, &[record]).unwrap();
        run.records.push_task(1, 0, &[dispatch]).unwrap();
        run.records.push_sched(2, 0, &[phases]).unwrap();
        run.records.push_orch(0, 0, &[submit]).unwrap();
        let (text, _) = run.text();
        let again = parse(&text);
        prop_assert_eq!(again.records.core_rows(1).copied().collect::<Vec<_>>(), vec![record]);
        prop_assert_eq!(again.records.orch_rows(0).copied().collect::<Vec<_>>(), vec![submit]);
        prop_assert_eq!(&again.text().0, &text);
    }
}
