//! What the end-to-end tests share: a run in a directory of its own, its artifacts read back by a reader that knows
//! nothing of the writer, and what a graph promises of them.

pub mod device_library;
pub mod dump;
pub mod five;
pub mod glue;
pub mod graph;
pub mod rows;

use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::report::{RunReport, StreamKind};
use dfx_host_drain::{BackendType, ExecutionMode, Target};
use dfx_sim::program::Program;
use dfx_sim::run::{self, Rig, RunOutcome, RunRequest};
use rows::Records;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The a2a3 simulator (mapped memory).
pub const A2A3: Target = Target { backend: BackendType::Ascend910B, mode: ExecutionMode::Sim };
/// The a5 simulator (copies only).
pub const A5: Target = Target { backend: BackendType::Ascend950, mode: ExecutionMode::Sim };
/// Both.
pub const PLATFORMS: [Target; 2] = [A2A3, A5];
/// Every level that records.
pub const LEVELS: [Level; 4] =
    [Level::AicoreTiming, Level::AicpuTiming, Level::SchedPhases, Level::OrchPhases];

/// A finished run and its directory, which goes with it.
#[derive(Debug)]
pub struct Run {
    /// What `run` said.
    pub outcome: RunOutcome,
    /// The work directory.
    pub dir: TempDir,
}

impl Run {
    /// The artifacts' directory.
    pub fn outputs(&self) -> PathBuf {
        self.dir.path().join(run::OUTPUT_DIR)
    }

    /// The records, as the file has them.
    pub fn records(&self) -> Records {
        Records::read(&self.outputs().join("chip_swimlane_records.json"))
    }

    /// `run.json`, as the file has it.
    pub fn report(&self) -> RunReport {
        let text = std::fs::read(self.outputs().join("run.json")).expect("run.json is there");
        serde_json::from_slice(&text).expect("run.json is whole")
    }
}

/// A request whose work directory `run_on` replaces.
pub fn request(workload: &str, target: Target, level: Level) -> RunRequest {
    let mut request = RunRequest::new(workload, "");
    request.target = target;
    request.config.chip_swimlane = level;
    request
}

/// Runs the workload of `request` in a new directory.
pub fn run_named(mut request: RunRequest) -> Run {
    let dir = tempfile::tempdir().expect("a temporary directory");
    request.work_dir = dir.path().to_path_buf();
    let outcome = run::run(&request, &|_| {}).unwrap_or_else(|error| panic!("{}: {error}", request.workload));
    Run { outcome, dir }
}

/// Runs `program` on `rig` in a new directory.
pub fn run_on(mut request: RunRequest, program: Program, rig: &Rig) -> Run {
    let dir = tempfile::tempdir().expect("a temporary directory");
    request.work_dir = dir.path().to_path_buf();
    let outcome = run::run_program(&request, program, rig, &|_| {})
        .unwrap_or_else(|error| panic!("{}: {error}", request.workload));
    Run { outcome, dir }
}

/// Everything was recorded, says the run, and the file has what `run.json` says, lane by lane.
pub fn assert_whole(what: &str, run: &Run) {
    let report = run.report();
    assert!(report.complete, "{what}: {:#?}", report.reasons);
    assert_eq!(report, run.outcome.report, "{what}: run.json is not the report");
    assert_eq!(report.anomalies.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "{what}");
    assert_eq!(run.outcome.leaked, 0, "{what}: not given back");
    assert_eq!(run.outcome.wrong_results, None, "{what}");
    assert_ledger(what, run);
    for stream in &report.streams {
        assert_eq!(stream.produced, Some(stream.collected), "{what}: {stream:?}");
        assert_eq!((stream.dropped, stream.lost, stream.duplicate, stream.corrupt), (0, 0, 0, 0), "{what}");
        assert_eq!(stream.recovered, 0, "{what}: a run that ended well flushed everything: {stream:?}");
    }
    let check = dfx_trace::check::check_dir(&run.outputs()).expect("the directory can be checked");
    assert!(check.complete, "{what}: {}\n{:#?}", check.verdict(), check.findings);
}

/// `run.json` and the file have the same number of rows in every lane, and every account balances.
pub fn assert_ledger(what: &str, run: &Run) {
    let (report, records) = (run.report(), run.records());
    for stream in &report.streams {
        assert!(stream.conserved(), "{what}: {stream:?}");
        let rows = records.rows_of(stream.kind, stream.lane);
        assert_eq!(rows, stream.collected, "{what}: rows of {:?} {} in the file", stream.kind, stream.lane);
    }
    for kind in [StreamKind::AicoreTask, StreamKind::AicpuTask, StreamKind::SchedPhase, StreamKind::OrchPhase]
    {
        let in_file = records.all_rows_of(kind);
        assert_eq!(report.sum(kind, |stream| stream.collected), in_file, "{what}: {kind} rows in all");
    }
    assert_artifacts(what, &run.outputs(), &report);
}

/// Every file that `run.json` lists is there with its size, and no other.
fn assert_artifacts(what: &str, dir: &Path, report: &RunReport) {
    let mut found: Vec<String> = files(dir);
    found.retain(|name| name != "run.json");
    let listed: Vec<String> = report.artifacts.iter().map(|entry| entry.path.clone()).collect();
    assert_eq!(found, listed, "{what}: files and run.json's list of them");
    for entry in &report.artifacts {
        let bytes = std::fs::metadata(dir.join(&entry.path)).expect("it is there").len();
        assert_eq!(bytes, entry.bytes, "{what}: {}", entry.path);
    }
}

/// The names of everything in `dir`, sorted; nothing if there is no such directory.
pub fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every file in `dir`, by name.
pub fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    files(dir)
        .into_iter()
        .map(|name| (name.clone(), std::fs::read(dir.join(&name)).expect("a file")))
        .collect()
}

/// Where the captured artifacts are: `DFX_INTEROP_DIR`, or beside the repository. `None`, with a word on stderr, where
/// they are not; on CI that is a failure.
pub fn interop_dir() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/interop");
    let dir = PathBuf::from(std::env::var_os("DFX_INTEROP_DIR").unwrap_or_else(|| beside.into()));
    if dir.is_dir() {
        return Some(dir);
    }
    let why = format!("no captured artifacts at {}: set DFX_INTEROP_DIR to where they are", dir.display());
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    eprintln!("SKIPPED: {why}");
    None
}
