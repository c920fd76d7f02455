//! `chip_swimlane_records.json`: our writer beside serde_json's over the same rows, in memory and to disk, and beside a
//! plain write of the same bytes. Ratios are the result.

#![allow(missing_docs)] // criterion's macros

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dfx_collector::abi::swimlane::{
    CoreRecord, Level, OrchPhaseRecord, SchedPhaseKind, SchedPhaseRecord, TaskRecord,
};
use dfx_host_drain::export::swimlane::{CoreKind, FILE_NAME, SwimlaneArtifact};
use dfx_host_drain::records::{SchedRow, SwimlaneRecords};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use std::cell::Cell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

const CORES: usize = 72;
const THREADS: usize = 4;
/// Tasks in all; as many core rows, AICPU rows and submits, and twice as many phases.
const TASKS: usize = 200_000;

/// The rows of a level-4 run, in buffers as a drain delivers them.
fn records() -> SwimlaneRecords {
    let mut records = SwimlaneRecords::new(CORES, THREADS);
    let begin = 3_141_592_653_589_u64;
    let per_core = TASKS / CORES;
    for core in 0..CORES {
        let at = |row: usize| begin + (row * 150 + core * 7) as u64;
        let rows: Vec<usize> = (0..per_core).collect();
        for (seq, rows) in rows.chunks(1000).enumerate() {
            let core_rows: Vec<CoreRecord> = rows
                .iter()
                .map(|&row| CoreRecord {
                    start_time: at(row) + 20,
                    end_time: at(row) + 120,
                    task_token_raw: (row * CORES + core) as u64,
                    reg_task_id: row as u32 + 1,
                    receive_to_start_cycles: 12,
                })
                .collect();
            records.push_core(core, seq as u32, &core_rows).expect("a lane");
            let task_rows: Vec<TaskRecord> = rows
                .iter()
                .map(|&row| TaskRecord {
                    dispatch_time: at(row),
                    finish_time: at(row) + 140,
                    reg_task_id: row as u32 + 1,
                    ..TaskRecord::default()
                })
                .collect();
            records.push_task(core, seq as u32, &task_rows).expect("a lane");
        }
    }
    for thread in 0..THREADS - 1 {
        let rows = 2 * TASKS / (THREADS - 1);
        let phases: Vec<SchedPhaseRecord> = (0..rows)
            .map(|row| SchedPhaseRecord {
                start_time: begin + row as u64 * 60,
                end_time: begin + row as u64 * 60 + 40,
                loop_iter: row as u32,
                kind: if row % 2 == 0 { SchedPhaseKind::Complete } else { SchedPhaseKind::Dispatch } as u32,
                tasks_processed: 1 + row as u32 % 7,
                phase_data: [1, 2],
                ..SchedPhaseRecord::default()
            })
            .collect();
        for (seq, rows) in phases.chunks(16384).enumerate() {
            records.push_sched(thread, seq as u32, rows).expect("a lane");
        }
    }
    let submits: Vec<OrchPhaseRecord> = (0..TASKS)
        .map(|row| OrchPhaseRecord {
            start_time: begin + row as u64 * 25,
            end_time: begin + row as u64 * 25 + 20,
            task_id: row as u64,
            submit_idx: row as u32,
            ..OrchPhaseRecord::default()
        })
        .collect();
    for (seq, rows) in submits.chunks(16384).enumerate() {
        records.push_orch(0, seq as u32, rows).expect("a lane");
    }
    records
}

/// A list that is made while it is written, so that serde_json holds no rows of its own.
struct List<I>(Cell<Option<I>>);

impl<I: Iterator<Item = T>, T: Serialize> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.0.take().into_iter().flatten().try_for_each(|item| list.serialize_element(&item))?;
        list.end()
    }
}

fn list<I: Iterator>(items: I) -> List<I> {
    List(Cell::new(Some(items)))
}

#[derive(Serialize)]
struct Head {
    clock_freq_hz: u64,
    num_cores: usize,
    core_types: Vec<&'static str>,
}

#[derive(Serialize)]
struct Phase {
    kind: &'static str,
    start_cycles: u64,
    end_cycles: u64,
    loop_iter: u32,
    tasks_processed: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pop_hit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pop_miss: Option<u32>,
    shared_at_start: [i16; 3],
    shared_at_end: [i16; 3],
}

impl From<&SchedRow> for Phase {
    fn from(row: &SchedRow) -> Phase {
        let dispatch = row.kind == SchedPhaseKind::Dispatch as u32;
        Phase {
            kind: if dispatch { "dispatch" } else { "complete" },
            start_cycles: row.start,
            end_cycles: row.end,
            loop_iter: row.loop_iter,
            tasks_processed: row.tasks_processed,
            pop_hit: dispatch.then_some(row.phase_data[0]),
            pop_miss: dispatch.then_some(row.phase_data[1]),
            shared_at_start: row.shared_at_start,
            shared_at_end: row.shared_at_end,
        }
    }
}

#[derive(Serialize)]
struct Submit {
    submit_idx: u32,
    task_id: u64,
    start_cycles: u64,
    end_cycles: u64,
}

/// The same artifact through serde_json, compact.
fn with_serde(out: impl Write, records: &SwimlaneRecords) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Artifact<C, T, P, O> {
        chip_swimlane_level: u32,
        metadata: Head,
        aicore_tasks: C,
        aicpu_tasks: T,
        aicpu_scheduler_phases: P,
        aicpu_orchestrator_phases: O,
    }
    let core = (0..CORES).flat_map(|core| {
        records.core_rows(core).map(move |row| {
            (
                core,
                row.task_token_raw,
                row.reg_task_id,
                row.start_time,
                row.end_time,
                row.receive_to_start_cycles,
            )
        })
    });
    let task = (0..CORES)
        .flat_map(|core| records.task_rows(core).map(move |row| (core, row.token, row.dispatch, row.finish)));
    let orch = |lane| {
        records.orch_rows(lane).map(|row| Submit {
            submit_idx: row.submit_idx,
            task_id: row.task_id,
            start_cycles: row.start_time,
            end_cycles: row.end_time,
        })
    };
    let artifact = Artifact {
        chip_swimlane_level: 4,
        metadata: Head { clock_freq_hz: 50_000_000, num_cores: CORES, core_types: vec!["aic"; CORES] },
        aicore_tasks: list(core),
        aicpu_tasks: list(task),
        aicpu_scheduler_phases: list(
            (0..THREADS).map(|thread| list(records.sched_rows(thread).map(Phase::from))),
        ),
        aicpu_orchestrator_phases: list((0..1).map(|lane| list(orch(lane)))),
    };
    serde_json::to_writer(out, &artifact)
}

fn artifact<'a>(records: &'a SwimlaneRecords, kinds: &'a [CoreKind]) -> SwimlaneArtifact<'a> {
    SwimlaneArtifact {
        level: Level::OrchPhases,
        clock_hz: 50_000_000,
        core_types: kinds,
        core_to_thread: None,
        max_threads: THREADS,
        orch_lanes: 1,
        records,
        host: None,
    }
}

fn ours(records: &SwimlaneRecords, kinds: &[CoreKind], out: &mut Vec<u8>) {
    out.clear();
    artifact(records, kinds).write(out).expect("a vector takes everything");
}

/// Both say the same.
fn assert_same(records: &SwimlaneRecords, kinds: &[CoreKind], text: &[u8]) {
    let mut theirs = Vec::new();
    with_serde(&mut theirs, records).expect("a vector takes everything");
    let parse = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).expect("JSON");
    let (a, b) = (parse(text), parse(&theirs));
    for key in [
        "chip_swimlane_level",
        "aicore_tasks",
        "aicpu_tasks",
        "aicpu_scheduler_phases",
        "aicpu_orchestrator_phases",
    ] {
        assert!(a[key] == b[key], "{key} differs from serde_json's ({} cores)", kinds.len());
    }
}

fn write_plain(dir: &Path, text: &[u8]) {
    let mut file = File::create(dir.join("plain")).expect("a file");
    text.chunks(128 << 10).for_each(|block| file.write_all(block).expect("there is room"));
}

fn export(c: &mut Criterion) {
    let (records, kinds) = (records(), vec![CoreKind::Aic; CORES]);
    let mut text = Vec::new();
    ours(&records, &kinds, &mut text);
    assert_same(&records, &kinds, &text);
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Theirs has no line breaks; both are measured in the bytes that ours has.
    let mut group = c.benchmark_group("export");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    group
        .bench_function(BenchmarkId::new("ours", "memory"), |b| b.iter(|| ours(&records, &kinds, &mut text)));
    let mut theirs = Vec::with_capacity(text.len());
    group.bench_function(BenchmarkId::new("serde_json", "memory"), |b| {
        b.iter(|| {
            theirs.clear();
            with_serde(&mut theirs, &records).expect("a vector takes everything");
        });
    });
    group.bench_function(BenchmarkId::new("ours", "disk"), |b| {
        b.iter(|| artifact(&records, &kinds).write_to_dir(dir.path(), None).expect("there is room"));
    });
    assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).expect("it was written"), text);
    group.bench_function(BenchmarkId::new("serde_json", "disk"), |b| {
        b.iter(|| {
            let file =
                BufWriter::with_capacity(128 << 10, File::create(dir.path().join("serde")).expect("a file"));
            with_serde(file, &records).expect("there is room");
        });
    });
    group.bench_function(BenchmarkId::new("plain_write", "disk"), |b| {
        b.iter(|| write_plain(dir.path(), &text))
    });
    group.finish();
}

criterion_group!(benches, export);
criterion_main!(benches);
