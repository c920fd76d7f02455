//! `dfx run`: switches in, a run on the simulator, a summary out.

use crate::exit::Done;
use crate::style;
use anyhow::{Result, anyhow};
use clap::builder::TypedValueParser as _;
use dfx_host_drain::report::{RunReport, StreamKind};
use dfx_host_drain::{
    BackendType, Backpressure, DfxConfig, DumpBudget, DumpLevel, ExecutionMode, PmuEvent, Target, Timeouts,
};
use dfx_sim::faults::{self, Fault, FaultPlan};
use dfx_sim::run::{ClockKind, LinkRate, Progress, RunOutcome, RunRequest};
use dfx_sim::{run, workloads};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// Run a workload on a simulator platform and record it
///
/// Writes <work-dir>/dfx_outputs/ when any switch is on, and prints what was recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help(), allow_negative_numbers = true)]
pub(crate) struct Args {
    /// What to run (see below)
    workload: String,

    /// a2a3sim or a5sim, in one word (old spelling of the two options that follow)
    #[arg(long, value_name = "P", help_heading = "Target")]
    platform: Option<String>,
    /// Ascend910B (a2a3) or Ascend950 (a5)
    #[arg(long, value_name = "B", help_heading = "Target")]
    backend_type: Option<BackendType>,
    /// SIM; ONBOARD is for `dfx capture`
    #[arg(long, value_name = "M", help_heading = "Target")]
    execution_mode: Option<ExecutionMode>,
    /// Where the artifacts go [default: build_output/<workload>_<timestamp>]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    work_dir: Option<PathBuf>,

    /// Record the chip swimlane at level 4
    #[arg(long, help_heading = "Switches", conflicts_with = "chip_swimlane_level")]
    enable_chip_swimlane: bool,
    /// Record the chip swimlane: 0 off, 1 AICore start/end, 2 + AICPU dispatch/finish, 3 + scheduler phases, 4 + orchestrator
    #[arg(long, value_name = "N", help_heading = "Switches")]
    chip_swimlane_level: Option<i64>,
    /// Old spelling of --enable-chip-swimlane
    #[arg(long, hide = true, conflicts_with_all = ["enable_chip_swimlane", "chip_swimlane_level"])]
    enable_l2_swimlane: bool,

    /// Capture the dependency graph: deps.json
    #[arg(long, help_heading = "Switches")]
    enable_dep_gen: bool,
    /// Dump arguments: 0 off, 1 those that are marked (--dump-tag), 2 all, 3 all with the payload of those that are marked
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", help_heading = "Switches")]
    dump_args: Option<i64>,
    /// Mark the workload's tensors of that name for --dump-args=1 or 3; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Switches")]
    dump_tag: Vec<String>,
    /// Count PMU events of a type: 1, 2 (PIPE_UTILIZATION, the default), 4 (MEMORY), 5, 6, 7 or 8; 0 is off
    #[arg(long, value_name = "EVENT", num_args = 0..=1, require_equals = true, default_missing_value = "2", help_heading = "Switches")]
    enable_pmu: Option<u32>,
    /// Sample what scopes hold: scope_stats/scope_stats.jsonl
    #[arg(long, help_heading = "Switches")]
    enable_scope_stats: bool,

    /// What happens when the host cannot keep up: lane, global, block or drop
    #[arg(long, value_name = "POLICY", default_value = "lane", help_heading = "Draining")]
    backpressure: Backpressure,
    /// How fast dumped payload may be drained: auto, unlimited, or a rate such as 42MB/s
    #[arg(long, value_name = "RATE", default_value = "auto", help_heading = "Draining")]
    dump_budget: DumpBudget,
    /// Send a tensor again that has not changed since it was last dumped (--dump-args=2)
    #[arg(long, help_heading = "Draining")]
    no_dump_dedup: bool,

    /// Blocks of one AIC and two AIV cores
    #[arg(long, value_name = "N", default_value_t = run::DEFAULT_BLOCKDIM, help_heading = "Board")]
    blockdim: u32,
    /// AICPU threads: schedulers, and one orchestrator [default: 4 on a2a3, 5 on a5]
    #[arg(long, value_name = "N", help_heading = "Board")]
    aicpu_threads: Option<u32>,
    /// STARS kills the AICPU after so long
    #[arg(long, value_name = "T", default_value = "45s", value_parser = duration(), help_heading = "Board")]
    op_timeout: Duration,
    /// A scheduler without progress declares a hang after so long
    #[arg(long, value_name = "T", default_value = "10s", value_parser = duration(), help_heading = "Board")]
    scheduler_timeout: Duration,
    /// The host gives up waiting after so long
    #[arg(long, value_name = "T", default_value = "50s", value_parser = duration(), help_heading = "Board")]
    stream_sync_timeout: Duration,

    /// Rounds to run; with more than one, diagnostics are off
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Simulator")]
    rounds: u32,
    /// What makes time pass: real threads, or virtual time, in which the same seed gives the same bytes
    #[arg(long, value_name = "CLOCK", default_value = "threads", help_heading = "Simulator")]
    clock: ClockKind,
    /// Seed of made-up input
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Simulator")]
    seed: u64,
    /// Make kernels last their declared time (or not), whatever the workload is meant to do
    #[arg(long, value_name = "BOOL", help_heading = "Simulator")]
    pace: Option<bool>,
    /// The link's rate from device to host: auto (2GB/s in virtual time), unlimited, or a rate such as 42MB/s
    #[arg(long, value_name = "RATE", default_value = "auto", help_heading = "Simulator")]
    link_rate: LinkRate,
    /// Make something go wrong: FAULT[:ARG], repeatable (see below)
    #[arg(long, value_name = "FAULT", help_heading = "Simulator")]
    inject: Vec<Fault>,
}

fn duration() -> impl clap::builder::TypedValueParser<Value = Duration> {
    clap::builder::StringValueParser::new().try_map(|text| match humantime::parse_duration(&text) {
        Ok(time) if time.is_zero() => Err("must be longer than 0".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}; for example 45s or 500ms")),
    })
}

fn after_help() -> String {
    let list = |rows: &[(&str, &str)]| -> String {
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        rows.iter().map(|(name, what)| format!("  {name:width$}  {what}\n")).collect()
    };
    format!(
        "Workloads:\n{}\nFaults:\n{}\nExample:\n  dfx run vector_example --enable-chip-swimlane",
        list(workloads::ALL),
        list(faults::ALL)
    )
}

impl Args {
    fn pmu(&self) -> Option<PmuEvent> {
        let (event, replaced) = DfxConfig::pmu_event(self.enable_pmu.unwrap_or(0));
        if replaced {
            eprintln!(
                "warning: --enable-pmu={} is no event type; counting PIPE_UTILIZATION (2)",
                self.enable_pmu.unwrap_or(0)
            );
        }
        event
    }

    fn request(&self) -> Result<RunRequest> {
        let target = Target::resolve(self.platform.as_deref(), self.backend_type, self.execution_mode)?;
        let level = match self.chip_swimlane_level {
            Some(level) => DfxConfig::swimlane_level(level)?,
            None if self.enable_chip_swimlane || self.enable_l2_swimlane => DfxConfig::swimlane_level(4)?,
            None => DfxConfig::swimlane_level(0)?,
        };
        let config = DfxConfig {
            chip_swimlane: level,
            dep_gen: self.enable_dep_gen,
            pmu: self.pmu(),
            scope_stats: self.enable_scope_stats,
            dump_args: DfxConfig::dump_level(self.dump_args.unwrap_or(0))?,
            dump_budget: self.dump_budget,
            dump_dedup: !self.no_dump_dedup,
            backpressure: self.backpressure,
            timeouts: Timeouts {
                op_execute: self.op_timeout,
                scheduler: self.scheduler_timeout,
                stream_sync: self.stream_sync_timeout,
            },
            ..DfxConfig::default()
        };
        let work_dir = self.work_dir.clone().unwrap_or_else(|| run::default_work_dir(&self.workload));
        Ok(RunRequest {
            seed: self.seed,
            target,
            config,
            blockdim: self.blockdim,
            aicpu_threads: self.aicpu_threads,
            pace: self.pace,
            clock: self.clock,
            link: self.link_rate,
            dump_tags: self.dump_tag.clone(),
            faults: FaultPlan(self.inject.clone()),
            ..RunRequest::new(&self.workload, work_dir)
        })
    }
}

/// Runs the workload and prints what came of it.
pub(crate) fn main(args: &Args) -> Result<Done> {
    if args.platform.is_some() {
        eprintln!(
            "note: --platform is the old spelling of --backend-type and --execution-mode (DeprecationWarning)"
        );
    }
    if args.enable_l2_swimlane {
        eprintln!(
            "note: --enable-l2-swimlane is the old spelling of --enable-chip-swimlane (DeprecationWarning)"
        );
    }
    let mut request = args.request()?;
    if args.rounds > 1 && request.config.any() {
        eprintln!(
            "note: with --rounds {} diagnostics are off: they would disturb what rounds measure",
            args.rounds
        );
        request.config = request.config.without_switches();
    }
    let mut done = Done::Complete;
    for round in 0..args.rounds {
        let outcome = once(&request)?;
        if round == 0 {
            warn_of_marks(&request.config, &request.dump_tags, &outcome);
        }
        if args.rounds > 1 {
            println!("round {}: {:.3} ms", round + 1, outcome.report.op_wall_ns as f64 / 1e6);
        } else {
            summary(&request, &outcome);
        }
        if let Some(failure) = outcome.failure() {
            return Err(anyhow!(failure));
        }
        if !outcome.report.complete {
            done = Done::Incomplete;
        }
    }
    Ok(done)
}

fn once(request: &RunRequest) -> Result<RunOutcome> {
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new_spinner(),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(format!("{} on {}", request.workload, request.target.name()));
    let outcome = run::run(request, &|progress| {
        bar.set_message(format!("{} on {}: {}", request.workload, request.target.name(), live(progress)));
        bar.tick();
    });
    bar.finish_and_clear();
    Ok(outcome?)
}

/// How far the drain is.
fn live(progress: Progress) -> String {
    let buffers = format!("{} buffers drained", progress.buffers);
    match progress.dump_rate {
        None => buffers,
        Some(rate) => {
            format!("{buffers}, payload at {}/s, {} waiting", mega(rate), mega(progress.dump_backlog))
        }
    }
}

/// Bytes, in MB.
fn mega(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// `1234567` as `1,234,567`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn summary(request: &RunRequest, outcome: &RunOutcome) {
    let report = &outcome.report;
    eprintln!(
        "{} on {}: {} submits, {} core rows, {:.3} ms on the device",
        style::strong(&report.workload),
        report.platform,
        grouped(outcome.submits),
        grouped(outcome.launch.core_rows),
        report.op_wall_ns as f64 / 1e6
    );
    if outcome.checked
        && outcome.wrong_results.is_none()
        && report.passes.iter().all(|pass| pass.exit == Some(0))
    {
        eprintln!("results: {}", style::good("as they should be"));
    }
    let Some(dir) = &outcome.dir else {
        eprintln!("nothing was recorded (no switch on): add --enable-chip-swimlane");
        return;
    };
    streams(report);
    dumped(report);
    for artifact in &report.artifacts {
        eprintln!("wrote {} ({} bytes)", dir.join(&artifact.path).display(), grouped(artifact.bytes));
    }
    eprintln!("wrote {}", dir.join(dfx_host_drain::report::FILE_NAME).display());
    if report.complete {
        eprintln!("{}: nothing dropped, nothing lost", style::good("complete"));
    } else {
        eprintln!("{}:", style::bad("INCOMPLETE"));
        for reason in report.reasons.iter().take(5) {
            eprintln!("  {}: {}", reason.code, reason.message);
        }
        if report.reasons.len() > 5 {
            eprintln!("  and {} more reasons in run.json", report.reasons.len() - 5);
        }
    }
    for (name, count) in &report.anomalies {
        eprintln!("odd: {count} x {name}");
    }
    if report.dump.is_some() {
        eprintln!("to look at it: dfx dump {}", style::shell_word(&dir.display().to_string()));
    }
    eprintln!("to check it:  dfx check {}", style::shell_word(&request.work_dir.display().to_string()));
}

/// What became of the dumped payload.
fn dumped(report: &RunReport) {
    let Some(dump) = &report.dump else { return };
    let ceiling =
        dump.budget_bytes_per_s.map_or("no ceiling".into(), |rate| format!("ceiling {}/s", mega(rate)));
    println!(
        "dumped payload: {} produced, {} written, {} shed, {} deduplicated; drained at {}/s ({ceiling})",
        mega(dump.payload_bytes_produced),
        mega(dump.payload_bytes_written),
        mega(dump.payload_bytes_shed),
        mega(dump.payload_bytes_deduplicated),
        mega(dump.drain_rate_bytes_per_s),
    );
}

/// Says what a request for a dump does not do.
fn warn_of_marks(config: &DfxConfig, tags: &[String], outcome: &RunOutcome) {
    for name in &outcome.unmatched_marks {
        eprintln!(
            "warning: the mark `{name}` matched no dumped argument: no task is given a value of that name (a rebound or \
             transformed value is another one; mark that)"
        );
    }
    match config.dump_args {
        DumpLevel::Off if !tags.is_empty() => eprintln!("note: --dump-tag does nothing without --dump-args"),
        DumpLevel::Full if !tags.is_empty() => {
            eprintln!("note: --dump-tag does nothing at --dump-args=2, which dumps everything");
        }
        _ => {}
    }
}

/// One line per kind of stream.
fn streams(report: &RunReport) {
    let kinds: [(StreamKind, &str); 8] = [
        (StreamKind::AicoreTask, "AICore tasks"),
        (StreamKind::AicpuTask, "AICPU tasks"),
        (StreamKind::SchedPhase, "scheduler phases"),
        (StreamKind::OrchPhase, "orchestrator submits"),
        (StreamKind::Submit, "captured submits"),
        (StreamKind::PmuRow, "PMU rows"),
        (StreamKind::ScopeSample, "scope samples"),
        (StreamKind::Arg, "dumped arguments"),
    ];
    println!(
        "{:<22} {:>10} {:>10} {:>8} {:>8} {:>8} {:>7} {:>12}",
        "stream", "produced", "collected", "dropped", "lost", "buffers", "stalls", "max stall ms"
    );
    for (kind, name) in kinds {
        if !report.streams.iter().any(|stream| stream.kind == kind) {
            continue;
        }
        let max = report.streams.iter().filter(|s| s.kind == kind).map(|s| s.max_stall_ns).max().unwrap_or(0);
        println!(
            "{name:<22} {:>10} {:>10} {:>8} {:>8} {:>8} {:>7} {:>12.3}",
            grouped(report.sum(kind, |s| s.produced.unwrap_or(0))),
            grouped(report.sum(kind, |s| s.collected)),
            grouped(report.sum(kind, |s| s.dropped)),
            grouped(report.sum(kind, |s| s.lost)),
            grouped(report.sum(kind, |s| s.buffers)),
            grouped(report.sum(kind, |s| s.stalls)),
            max as f64 / 1e6
        );
    }
}
