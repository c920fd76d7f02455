//! One `dfx run`: the workload built, the session opened, the program launched, the records drained and written.
//!
//! The order is that of a real runtime's host (configure, arm, launch, wait, stop, reconcile, export, release); what goes
//! wrong on the way leaves what was collected, and a `run.json` that says what is missing.

use crate::drive::Drive;
pub use crate::drive::{ClockKind, Clocks, FlowWatch, HostPace, Rig};
use crate::faults::FaultPlan;
use crate::faults::host::{DryLane, FaultyTransport, HostFaults};
use crate::faults::memory::FaultyMemory;
use crate::hooks::{DeviceRegions, Hooks};
pub use crate::link::LinkRate;
use crate::link::Linked;
use crate::memory::{HeapAlloc, ProgramMemory};
use crate::program::Program;
use crate::runtime::{Launch, LaunchConfig, LaunchError, LaunchOutcome, LaunchStatus};
use crate::workloads::{self, WorkloadError, WorkloadOptions};
use dfx_collector::abi::REVISION;
use dfx_host_drain::artifact::{ArtifactError, OutputDirError, prepare_output_dir};
use dfx_host_drain::config::ConfigError;
use dfx_host_drain::report::{Feature, Half, Pass, Peer, Reason, RunReport, SCHEMA};
use dfx_host_drain::target::ExecutionMode;
use dfx_host_drain::testpoint::Points;
use dfx_host_drain::{
    Board, DeviceEnd, DfxConfig, Drive as Workers, DumpLevel, ExportError, Session, SessionError,
    SessionSpec, Stepper, Target,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The directory of the artifacts, below the work directory.
pub const OUTPUT_DIR: &str = "dfx_outputs";

/// What to run, where, and what to record.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// A workload as the command line spells it.
    pub workload: String,
    /// Seed of made-up input.
    pub seed: u64,
    /// The simulator platform.
    pub target: Target,
    /// The switches.
    pub config: DfxConfig,
    /// Blocks of one AIC and two AIV cores.
    pub blockdim: u32,
    /// AICPU threads; `None`: the platform's default.
    pub aicpu_threads: Option<u32>,
    /// Where `dfx_outputs/` goes when anything is recorded.
    pub work_dir: PathBuf,
    /// Whether real-time runs make kernels last their declared duration; `None`: as the workload is meant.
    pub pace: Option<bool>,
    /// Real threads, or virtual time.
    pub clock: ClockKind,
    /// The link over which dumped payload comes.
    pub link: LinkRate,
    /// Names of tensors that are marked for a partial dump.
    pub dump_tags: Vec<String>,
    /// What goes wrong on purpose.
    pub faults: FaultPlan,
}

impl RunRequest {
    /// The default run of `workload`: a2a3sim, nothing recorded.
    pub fn new(workload: impl Into<String>, work_dir: impl Into<PathBuf>) -> Self {
        RunRequest {
            workload: workload.into(),
            seed: 1,
            target: Target::DEFAULT,
            config: DfxConfig::default(),
            blockdim: DEFAULT_BLOCKDIM,
            aicpu_threads: None,
            work_dir: work_dir.into(),
            pace: None,
            clock: ClockKind::default(),
            link: LinkRate::default(),
            dump_tags: Vec::new(),
            faults: FaultPlan::default(),
        }
    }

    /// The artifacts' directory.
    pub fn output_dir(&self) -> PathBuf {
        self.work_dir.join(OUTPUT_DIR)
    }
}

/// Blocks by default: six cores, few enough for a laptop's two processors, enough to see a schedule.
pub const DEFAULT_BLOCKDIM: u32 = 2;

/// A run that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunFailure {
    /// A value cannot be had.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The workload cannot be built.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The output directory cannot be used.
    #[error(transparent)]
    OutputDir(#[from] OutputDirError),
    /// The session could not be set up.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The workload's tensors do not fit.
    #[error("the workload's memory could not be set up: {0}")]
    Memory(String),
    /// The program cannot be launched on this board.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// `run.json` could not be written.
    #[error(transparent)]
    Report(ArtifactError),
}

/// What a run came to.
#[derive(Debug)]
pub struct RunOutcome {
    /// The account, as in `run.json`.
    pub report: RunReport,
    /// Where the artifacts are; `None` when nothing was recorded.
    pub dir: Option<PathBuf>,
    /// What the device did.
    pub launch: LaunchOutcome,
    /// Submits of the program.
    pub submits: u64,
    /// Core rows that the program must give.
    pub core_rows: u64,
    /// Marks that no dumped argument matched, by name.
    pub unmatched_marks: Vec<String>,
    /// What the workload's own check found wrong.
    pub wrong_results: Option<String>,
    /// Whether the workload checks its results.
    pub checked: bool,
    /// An artifact that could not be written.
    pub export_error: Option<ExportError>,
    /// Registrations, mappings and allocations that the session did not give back.
    pub leaked: usize,
}

impl RunOutcome {
    /// Whether the run failed, as opposed to having recorded incompletely.
    pub fn failure(&self) -> Option<String> {
        if let Some(error) = &self.export_error {
            return Some(error.to_string());
        }
        if let LaunchStatus::Panicked { .. } = self.launch.status {
            return Some(describe(&self.launch.status));
        }
        self.wrong_results.clone().map(|what| format!("the workload's results are wrong: {what}"))
    }
}

/// A look at a run under way.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Buffers drained so far.
    pub buffers: u64,
    /// Bytes of dumped payload drained so far.
    pub dump_drained: u64,
    /// How fast it is drained of late, in bytes per second; `None` while none was.
    pub dump_rate: Option<u64>,
    /// Bytes of dumped payload that wait to be drained.
    pub dump_backlog: u64,
}

impl Progress {
    /// Where `host` is.
    pub(crate) fn of(host: &Stepper) -> Self {
        let flow = host.flow();
        Progress {
            buffers: host.progress(),
            dump_drained: flow.map_or(0, |flow| flow.drained()),
            dump_rate: flow.map(|flow| flow.rate()).filter(|&rate| rate > 0),
            dump_backlog: flow.map_or(0, |flow| flow.backlog()),
        }
    }
}

/// Runs `request`; `watch` is called about ten times a second while the device runs.
///
/// # Errors
/// [`RunFailure`]: before the launch, nothing was run and nothing is left behind.
pub fn run(request: &RunRequest, watch: &(dyn Fn(Progress) + Sync)) -> Result<RunOutcome, RunFailure> {
    board(request)?;
    let options = WorkloadOptions { seed: request.seed, pace: request.pace };
    let program = workloads::build(&request.workload, &options)?;
    run_program(request, program, &Rig::new(request.target), watch)
}

/// [`run`] of a ready-made program on the caller's rig.
///
/// # Errors
/// As [`run`].
pub fn run_program(
    request: &RunRequest,
    mut program: Program,
    rig: &Rig,
    watch: &(dyn Fn(Progress) + Sync),
) -> Result<RunOutcome, RunFailure> {
    let board = board(request)?;
    request.dump_tags.iter().for_each(|name| program.tag(name));
    let program = Arc::new(program);

    let Rig { clocks, device, pace, faults, keep_edges, .. } = rig;
    let memory = ProgramMemory::new(&program, Arc::new(HeapAlloc::default())).map_err(RunFailure::Memory)?;
    let memory = Arc::new(memory);
    let cfg = LaunchConfig {
        faults: request.faults.runtime(faults),
        keep_edges: *keep_edges,
        ..launch_config(request, &board)
    };
    let launch = Launch::new(&cfg, Arc::clone(&program), Arc::clone(&memory))?;
    let plan = &request.faults;
    let armed = Arc::new(AtomicBool::new(false));
    let spec = SessionSpec {
        config: request.config.clone(),
        board: board.clone(),
        memory: Arc::new(FaultyMemory::new(device.clone(), plan)),
        transport: request.target.transport(),
    };
    let drive = Drive::new(request.clock, request.target.geometry().clock_hz, clocks);
    let dry = {
        let exec = drive.exec();
        DryLane::new(plan, Box::new(move || exec.nanos()))
    };
    let points = HostFaults::new(plan, Arc::clone(&armed), drive.sleeper());
    let mut session = Session::configure_with(
        spec,
        |transport| {
            let linked = Linked::new(transport, request.link.limit(request.clock), drive.sleeper());
            Arc::new(FaultyTransport::new(Arc::new(linked), plan, Arc::clone(&armed), Arc::clone(&dry)))
        },
        Points::new(Arc::new(points)),
    )?;
    if let Some(region) = session.swimlane_region() {
        dry.aim(&region, board.cores());
    }
    if let Some(level) = plan.level_mismatch() {
        session.overwrite_level(level)?;
    }
    let dir = request.config.any().then(|| request.output_dir());
    if let Some(dir) = &dir {
        if request.work_dir.as_os_str().is_empty() {
            return Err(OutputDirError::Empty.into());
        }
        prepare_output_dir(dir)?;
        session.set_output(dir)?;
    }
    if request.clock == ClockKind::Virtual {
        let exec = drive.exec();
        session.set_clock(Arc::new(move || exec.nanos()))?;
    }
    armed.store(true, Ordering::Relaxed);
    let own_threads = *pace == HostPace::Threads && request.clock == ClockKind::Threads;
    session.start(if own_threads { Workers::Threads } else { Workers::Stepped })?;
    let hooks = Hooks::new(
        drive.exec(),
        launch.probe(),
        &board,
        DeviceRegions::of(&session),
        if request.config.any() { drive.launch_start(clocks) } else { 0 },
        plan,
    );
    let outcome = drive.execute(&launch, &hooks, &session.stepper(), rig, plan.kill(), watch)?;

    let end = match outcome.status {
        LaunchStatus::Completed => DeviceEnd::Completed,
        _ => DeviceEnd::Abnormal,
    };
    session.stop(end)?;
    session.reconcile()?;
    let (artifacts, export_error) = match &dir {
        Some(dir) => match session.export(dir) {
            Ok(artifacts) => (artifacts, None),
            Err(error) => (error.written().to_vec(), Some(error)),
        },
        None => (Vec::new(), None),
    };
    let mut others = session.reasons().to_vec();
    let plain = |code: &str, message: String| Reason {
        code: code.into(),
        feature: None,
        lane: None,
        count: 1,
        message,
    };
    if outcome.status != LaunchStatus::Completed && !outcome.killed {
        others.push(plain("device_error", describe(&outcome.status)));
    }
    if !outcome.dumped_running.is_empty() {
        let named: Vec<_> = outcome.dumped_running.iter().take(4).map(|id| format!("{id:#x}")).collect();
        let more = if outcome.dumped_running.len() > named.len() { ", …" } else { "" };
        let message = format!(
            "outputs of tasks that had not ended were dumped as they stood, as after_completion: {}{more}",
            named.join(", ")
        );
        let count = outcome.dumped_running.len() as u64;
        others.push(Reason {
            count,
            feature: Some(Feature::DumpArgs),
            ..plain("dumped_while_running", message)
        });
    }
    if let Some(error) = &export_error {
        others.push(plain("artifact_not_written", error.to_string()));
    }
    let exit = if outcome.status == LaunchStatus::Completed { 0 } else { 1 };
    let mut report = RunReport {
        schema: SCHEMA,
        tool: concat!("pto-dfx ", env!("CARGO_PKG_VERSION")).into(),
        abi: REVISION.into(),
        platform: request.target.name().into(),
        backend_type: request.target.backend.name().into(),
        execution_mode: request.target.mode.name().into(),
        peer: Peer { device: session.device_half(), host: Half::Ours },
        passes: vec![Pass { kind: "single".into(), exit: Some(exit), why: describe(&outcome.status) }],
        levels: session.levels(),
        workload: request.workload.clone(),
        started_at: drive.started_at().format(&Rfc3339).unwrap_or_default(),
        wall_ns: 0,
        op_wall_ns: outcome.device_ns,
        killed: outcome.killed,
        complete: false,
        reasons: Vec::new(),
        streams: session.streams().to_vec(),
        dump: session.dump(),
        anomalies: session.anomalies().clone(),
        artifacts: dir.as_deref().map(|dir| Session::entries(dir, &artifacts)).unwrap_or_default(),
    };
    let wrong_results = match outcome.status {
        LaunchStatus::Completed => memory.verify(&program).err(),
        _ => None,
    };
    let unmatched_marks: Vec<String> = match request.config.dump_args {
        DumpLevel::Partial | DumpLevel::Hybrid => program.unmatched_marks().map(str::to_owned).collect(),
        DumpLevel::Off | DumpLevel::Full => Vec::new(),
    };
    for name in &unmatched_marks {
        *report.anomalies.entry(format!("unmatched_mark:{name}")).or_default() += 1;
    }
    if let Some(what) = &wrong_results {
        others.push(plain("wrong_results", format!("the workload's results are wrong: {what}")));
    }
    report.conclude(others);
    session.release();
    report.wall_ns = drive.wall_ns();
    if let Some(dir) = &dir {
        report
            .write_with_room(dir, plan.disk_room(dfx_host_drain::report::FILE_NAME))
            .map_err(RunFailure::Report)?;
    }
    Ok(RunOutcome {
        report,
        dir,
        submits: program.submits().count() as u64,
        core_rows: program.submits().map(|submit| submit.core_rows()).sum(),
        launch: outcome,
        unmatched_marks,
        wrong_results,
        checked: program.verify.is_some(),
        export_error,
        leaked: device.live_allocations() + device.live_registrations() as usize,
    })
}

/// The board that a request asks for.
fn board(request: &RunRequest) -> Result<Board, ConfigError> {
    let target = request.target;
    if target.mode != ExecutionMode::Sim {
        return Err(ConfigError::new(
            "execution_mode",
            target.mode.name(),
            format!("SIM: `dfx run` drives the simulators (--platform {}sim)", target.name()),
        ));
    }
    let geometry = target.geometry();
    if request.blockdim == 0 || request.blockdim > geometry.max_blockdim {
        return Err(ConfigError::new(
            "blockdim",
            request.blockdim,
            format!("1 to {} on {}", geometry.max_blockdim, target.name()),
        ));
    }
    let threads = request.aicpu_threads.unwrap_or(geometry.default_threads);
    if threads < 2 || threads > geometry.max_threads {
        return Err(ConfigError::new(
            "aicpu_threads",
            threads,
            format!("2 to {} on {} (schedulers, and one orchestrator)", geometry.max_threads, target.name()),
        ));
    }
    let aic = request.blockdim as usize;
    let core_is_aic = (0..3 * aic).map(|core| core < aic).collect();
    Ok(Board { platform: target.platform(), core_is_aic, aicpu_threads: threads })
}

fn launch_config(request: &RunRequest, board: &Board) -> LaunchConfig {
    let timeouts = request.config.timeouts;
    LaunchConfig {
        blockdim: request.blockdim,
        aicpu_threads: board.aicpu_threads,
        op_timeout: timeouts.op_execute,
        scheduler_timeout: timeouts.scheduler,
        stream_sync_timeout: timeouts.stream_sync,
        ..LaunchConfig::default()
    }
}

/// How a launch ended, in words.
pub fn describe(status: &LaunchStatus) -> String {
    match status {
        LaunchStatus::Completed => "completed".into(),
        LaunchStatus::SchedulerHang { thread, after, outstanding, stuck } => {
            let mut text = format!(
                "scheduler thread {thread} saw no progress for {after:?} and declared a hang with {outstanding} tasks \
                 outstanding"
            );
            for task in stuck.iter().take(4) {
                text += &format!("; core {}: task {:#x} {:?}", task.core, task.task_id, task.state);
            }
            if stuck.is_empty() {
                text += "; no scheduler that answered has one on its cores: the thread that had them is dead";
            }
            if stuck.len() > 4 {
                text += &format!("; and {} more", stuck.len() - 4);
            }
            text
        }
        LaunchStatus::OpTimeout { after } => {
            format!("the AICPU was killed by the op-execute timeout after {after:?} (--op-timeout)")
        }
        LaunchStatus::Abandoned { after } => {
            format!("the host gave up waiting after {after:?} (--stream-sync-timeout)")
        }
        LaunchStatus::Died => "an AICPU thread died".into(),
        LaunchStatus::Panicked { actor, message } => format!("{actor:?} panicked: {message}"),
    }
}

/// `build_output/<workload>_<timestamp>`: where a run goes when nothing else is asked for. Every character of the
/// workload that is not alphanumeric or one of `._-` becomes `_`; a number is appended while the name is taken.
pub fn default_work_dir(workload: &str) -> PathBuf {
    let keep = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    // A graph is named by its file, not by the way there.
    let label = workload.rsplit('/').next().unwrap_or(workload);
    let label: String = label.chars().map(keep).collect();
    let format = time::macros::format_description!("[year][month][day]_[hour][minute][second]");
    let stamp = OffsetDateTime::now_utc().format(&format).unwrap_or_default();
    let name = format!("{label}_{stamp}");
    let base = PathBuf::from("build_output");
    (0..u32::MAX)
        .map(|n| base.join(if n == 0 { name.clone() } else { format!("{name}_{n}") }))
        .find(|path| !path.exists())
        .unwrap_or_else(|| base.join(name))
}
