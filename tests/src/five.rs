//! The content of a run's artifacts without its times: what two runs of one program have in common, whatever else was
//! recorded beside it.

use crate::Run;
use dfx_collector::abi::pmu::{EventType, counters};
use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::{DfxConfig, DumpLevel, Target};
use dfx_sim::pmu::{Work, counted};
use dfx_sim::program::{AIC, KernelId, Program};
use dfx_sim::run::{ClockKind, RunRequest};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The independent switches that there are.
pub const SWITCHES: usize = 5;

/// The switches of combination `bits`: the chip swimlane, dep_gen, PMU, scope stats, the full args dump.
pub fn switches(bits: usize) -> DfxConfig {
    let on = |bit: usize| bits & 1 << bit != 0;
    DfxConfig {
        chip_swimlane: if on(0) { Level::OrchPhases } else { Level::Disabled },
        dep_gen: on(1),
        pmu: on(2).then_some(EventType::PipeUtilization),
        scope_stats: on(3),
        dump_args: if on(4) { DumpLevel::Full } else { DumpLevel::Off },
        ..DfxConfig::default()
    }
}

/// All of them.
pub fn all_on() -> DfxConfig {
    switches((1 << SWITCHES) - 1)
}

/// A request for `workload` with these switches on the virtual clock.
pub fn virtual_request(workload: &str, target: Target, config: DfxConfig) -> RunRequest {
    RunRequest { target, config, clock: ClockKind::Virtual, ..RunRequest::new(workload, "") }
}

/// A row of `pmu.csv`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PmuRow {
    /// The task.
    pub task: u64,
    /// The kernel.
    pub func: u32,
    /// 0 AIC, 1 AIV.
    pub core_type: u32,
    /// Cycles in all.
    pub cycles: u64,
    /// The counters that have a column, in its order.
    pub counters: Vec<u32>,
    /// The event type.
    pub event: u32,
    /// The thread whose queue brought it.
    pub thread: u32,
    /// The core.
    pub core: u32,
}

/// `pmu.csv`: the counters' columns and the rows.
pub fn pmu(run: &Run) -> (Vec<String>, Vec<PmuRow>) {
    let text = std::fs::read_to_string(run.outputs().join("pmu.csv")).expect("pmu.csv is there");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let (fixed, last) = (6, header.len() - 1);
    assert_eq!(
        header[..fixed],
        ["thread_id", "core_id", "task_id", "func_id", "core_type", "pmu_total_cycles"]
    );
    assert_eq!(header[last], "event_type");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), header.len(), "columns of {line}");
        let number = |at: usize| fields[at].parse().unwrap_or_else(|_| panic!("{} in {line}", fields[at]));
        PmuRow {
            task: u64::from_str_radix(fields[2].trim_start_matches("0x"), 16).expect("a task id"),
            func: number(3),
            core_type: number(4),
            cycles: fields[5].parse().expect("cycles"),
            counters: (fixed..last).map(number).collect(),
            event: number(last),
            thread: number(0),
            core: number(1),
        }
    };
    (header[fixed..last].iter().map(|name| (*name).to_owned()).collect(), lines.map(row).collect())
}

/// `deps.json`.
pub fn deps(run: &Run) -> Value {
    let text = std::fs::read_to_string(run.outputs().join("deps.json")).expect("deps.json is there");
    serde_json::from_str(&text).expect("deps.json is JSON")
}

/// The lines of `scope_stats.jsonl`, the header first; every one parses.
pub fn scopes(run: &Run) -> Vec<Value> {
    let path = run.outputs().join("scope_stats/scope_stats.jsonl");
    let text = std::fs::read_to_string(path).expect("scope_stats.jsonl is there");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// A row without its place: task, kernel, core type, cycles, counters.
pub type PmuCounts = (u64, u32, u32, u64, Vec<u32>);

/// What a run recorded, but for times, places and what follows from them (which core, which thread, how full a ring was
/// when a scope ended).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Content {
    /// Core rows per task.
    pub rows: Option<BTreeMap<u64, usize>>,
    /// Submits in order.
    pub submits: Option<Vec<u64>>,
    /// `deps.json`.
    pub deps: Option<Value>,
    /// Task, kernel, core type, cycles, counters; sorted.
    pub pmu: Option<Vec<PmuCounts>>,
    /// Header; then site, phase, depth, ring, tasks submitted, bytes allocated, tensor map.
    pub scopes: Option<Vec<String>>,
    /// The manifest's entries in order, but for where in `args.bin` their bytes are; and the bytes.
    pub args: Option<Vec<(String, Vec<u8>)>>,
}

impl Content {
    /// What the artifacts of `run` hold.
    pub fn of(run: &Run, config: &DfxConfig) -> Content {
        let mut content = Content::default();
        if config.chip_swimlane != Level::Disabled {
            let records = run.records();
            let mut rows = BTreeMap::new();
            records.aicore_tasks.iter().for_each(|row| *rows.entry(row.task).or_default() += 1);
            content.rows = Some(rows);
            content.submits = Some(records.submits().iter().map(|row| row.task_id).collect());
        }
        content.deps = config.dep_gen.then(|| deps(run));
        content.pmu = config.pmu.map(|_| {
            let rows = pmu(run).1.into_iter();
            let mut rows: Vec<_> =
                rows.map(|r| (r.task, r.func, r.core_type, r.cycles, r.counters)).collect();
            rows.sort();
            rows
        });
        content.scopes = config.scope_stats.then(|| {
            let keys = [
                "site",
                "phase",
                "depth",
                "ring",
                "task_window_end",
                "heap_end",
                "dep_pool_end",
                "tensormap",
            ];
            let lines = scopes(run).into_iter();
            let kept = |line: Value| keys.map(|key| line[key].to_string()).join(" ");
            lines.enumerate().map(|(i, line)| if i == 0 { line.to_string() } else { kept(line) }).collect()
        });
        content.args = (config.dump_args != DumpLevel::Off).then(|| args(run));
        content
    }
}

/// The dumped arguments, each with its payload. None are written when nothing was dumped.
fn args(run: &Run) -> Vec<(String, Vec<u8>)> {
    let dir = run.outputs().join("args_dump");
    let Ok(text) = std::fs::read_to_string(dir.join("args_dump.json")) else { return Vec::new() };
    let manifest: Value = serde_json::from_str(&text).expect("the manifest is JSON");
    let bin = std::fs::read(dir.join("args.bin")).unwrap_or_default();
    let entries = manifest["args"].as_array().expect("args").iter();
    entries
        .map(|entry| {
            let mut entry = entry.clone();
            let number = |key: &str| entry[key].as_u64().expect(key) as usize;
            let (offset, size) = (number("bin_offset"), number("bin_size"));
            entry["bin_offset"] = Value::Null;
            (entry.to_string(), bin[offset..offset + size].to_vec())
        })
        .collect()
}

/// (predecessor, successor) of every edge in `deps.json`, once.
pub fn edge_pairs(deps: &Value) -> BTreeSet<(u64, u64)> {
    let id = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).expect("a task id");
    deps["edges"]
        .as_array()
        .expect("edges")
        .iter()
        .map(|edge| (id(&edge["pred"]), id(&edge["succ"])))
        .collect()
}

/// The program that `workload` names.
pub fn program(workload: &str) -> Program {
    let options = dfx_sim::workloads::WorkloadOptions::default();
    dfx_sim::workloads::build(workload, &options).unwrap_or_else(|error| panic!("{workload}: {error}"))
}

/// Everything was recorded, says the run; every account balances, everything came back, and `dfx check` agrees.
pub fn assert_complete(what: &str, run: &Run) {
    let report = run.report();
    assert!(report.complete, "{what}: {:#?}", report.reasons);
    assert_eq!(report, run.outcome.report, "{what}: run.json is not the report");
    assert!(report.anomalies.is_empty(), "{what}: {:?}", report.anomalies);
    assert_eq!((run.outcome.leaked, &run.outcome.wrong_results), (0, &None), "{what}");
    for stream in &report.streams {
        assert_eq!(stream.produced, Some(stream.collected), "{what}: {stream:?}");
        assert_eq!(stream.recovered, 0, "{what}: a run that ended well flushed everything: {stream:?}");
    }
    let check = dfx_trace::check::check_dir(&run.outputs()).expect("the directory can be checked");
    assert!(check.complete, "{what}: {}\n{:#?}", check.verdict(), check.findings);
    let warned: Vec<_> = check
        .findings
        .iter()
        .filter(|finding| finding.severity != dfx_trace::check::Severity::Note)
        .collect();
    assert!(warned.is_empty(), "{what}: {warned:#?}");
}

/// The rows of `pmu.csv` that `program` must give on `platform`, sorted: task, kernel, core type, cycles, and the counters
/// that have a column. The task ids are those of the run's submits.
pub fn expected_pmu(program: &Program, run: &Run, target: Target, event: EventType) -> Vec<PmuCounts> {
    let hz = target.geometry().clock_hz;
    let selected = counters(target.platform(), event);
    let mut rows = Vec::new();
    let mut row = |task_id: u64, block: u32, slot: usize, kernel: KernelId, duration: Duration| {
        let work = Work { task_id, submit: 0, func_id: kernel.0, block, nanos: duration.as_nanos() as u64 };
        let named = selected.iter().filter(|counter| !counter.name.is_empty());
        let counts = named.map(|counter| counted(&work, counter.event_id)).collect();
        rows.push((task_id, kernel.0, u32::from(slot != AIC), work.ticks(hz), counts));
    };
    for (submit, task) in program.submits().zip(&run.outcome.launch.tasks) {
        if !submit.predicate {
            continue;
        }
        let of = |kernel: KernelId| program.kernels[kernel.0 as usize].duration;
        for (slot, kernel) in submit.kernels.iter().enumerate() {
            let Some(kernel) = *kernel else { continue };
            (0..submit.block_num).for_each(|block| {
                row(task.task_id, block, slot, kernel, submit.duration.unwrap_or(of(kernel)))
            });
        }
        for (node, def) in (0..).zip(&submit.nodes) {
            // A node is a task of ring 1, numbered within its graph task.
            let task_id = 1 << 32 | u64::from(task.task_id as u32) << 10 | node;
            for (slot, kernel) in def.kernels.iter().enumerate() {
                let Some(kernel) = *kernel else { continue };
                row(task_id, 0, slot, kernel, of(kernel));
            }
        }
    }
    rows.sort();
    rows
}
