//! Level guards are real: each level adds exactly its own reads of the counter, its own records, its own stores.

use dfx_collector::abi::layout::BufferLayout;
use dfx_collector::abi::swimlane::{BufferKind, Level};
use dfx_host_drain::memory::DeviceMemory;
use dfx_host_drain::{DeviceEnd, Drive, PoolSizes, Session, SessionSpec, Target, TransportKind};
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::device::SimDevice;
use dfx_sim::exec::Exec;
use dfx_sim::exec::threads::{ThreadsExec, TickSource};
use dfx_sim::faults::FaultPlan;
use dfx_sim::hooks::{DeviceRegions, Hooks};
use dfx_sim::memory::{HeapAlloc, ProgramMemory};
use dfx_sim::program::{Init, Program};
use dfx_sim::run::{Clocks, Rig};
use dfx_sim::runtime::{Launch, LaunchConfig, LaunchStatus};
use dfx_tests::{PLATFORMS, Run, files, request, run_on};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ALL: [Level; 5] =
    [Level::Disabled, Level::AicoreTiming, Level::AicpuTiming, Level::SchedPhases, Level::OrchPhases];

/// Counts threads of this process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A counter that goes up by one with every read and knows on which thread it was read.
#[derive(Default)]
struct Counted {
    ticks: Arc<AtomicU64>,
    reads: Mutex<BTreeMap<String, u64>>,
}

impl Counted {
    fn reads(&self) -> u64 {
        self.reads.lock().expect("no reader panicked").values().sum()
    }

    fn reads_of(&self, thread: &str) -> u64 {
        self.reads.lock().expect("no reader panicked").get(thread).copied().unwrap_or(0)
    }
}

impl TickSource for Counted {
    fn ticks(&self) -> u64 {
        let thread = std::thread::current().name().unwrap_or("?").to_owned();
        *self.reads.lock().expect("no reader panicked").entry(thread).or_default() += 1;
        1 + self.ticks.fetch_add(1, Ordering::SeqCst)
    }
}

/// The three sides of one counter.
struct Sides {
    host: Arc<Counted>,
    cores: Arc<Counted>,
    aicpus: Arc<Counted>,
}

impl Sides {
    fn new() -> Sides {
        let ticks = Arc::new(AtomicU64::new(0));
        let side = || Arc::new(Counted { ticks: Arc::clone(&ticks), ..Counted::default() });
        Sides { host: side(), cores: side(), aicpus: side() }
    }

    fn clocks(&self) -> Clocks {
        Clocks {
            host: Arc::clone(&self.host) as _,
            cores: Arc::clone(&self.cores) as _,
            aicpus: Arc::clone(&self.aicpus) as _,
        }
    }
}

/// Names of this process's threads that are the host half's.
fn dfx_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs").flatten();
    let name =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.map(name).filter(|name| name.starts_with("dfx-")).count()
}

/// What a kernel saw while the run went on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    threads: usize,
    allocations: usize,
    registrations: u32,
}

/// 60 tasks, half of them in a chain, on AIC and AIV; one of them looks around and says what it saw, once there are
/// `threads` of the host's (a thread has its name only when it runs).
fn program(
    device: &Arc<SimDevice>,
    seen: &Arc<Mutex<Option<Seen>>>,
    threads: usize,
) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("guards");
    let (device, seen) = (Arc::clone(device), Arc::clone(seen));
    let look = p.kernel("look", Duration::from_micros(1), move |_| {
        let begun = Instant::now();
        // A listing may leave threads out while others come and go.
        let mut found = dfx_threads();
        while found < threads && begun.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
            found = dfx_threads();
        }
        let now = Seen {
            threads: found,
            allocations: device.live_allocations(),
            registrations: device.live_registrations(),
        };
        *seen.lock().expect("no kernel panicked") = Some(now);
    });
    let nothing = p.kernel("nothing", Duration::from_micros(1), |_| {});
    let link = p.host("link", dfx_collector::abi::tensor::DataType::Int32, &[1], Init::Zero)?;
    p.submit().aic(look).done()?;
    for number in 0..59 {
        let submit = p.submit();
        let submit = if number % 3 == 0 { submit.aic(nothing) } else { submit.aiv(nothing) };
        let submit = if number % 2 == 0 { submit.inout(link) } else { submit };
        submit.done()?;
    }
    p.build()
}

/// A run of the program at `level`, its counters, and what its kernel saw.
fn run_at(target: Target, level: Level) -> (Run, Sides, Seen, Rig) {
    let (sides, seen) = (Sides::new(), Arc::default());
    let rig = Rig { clocks: sides.clocks(), ..Rig::new(target) };
    let threads = if level == Level::Disabled { 0 } else { 2 };
    let program = program(&rig.device, &seen, threads).expect("it is a program");
    let run = run_on(request("guards", target, level), program, &rig);
    let seen = seen.lock().expect("no kernel panicked").expect("the kernel ran");
    (run, sides, seen, rig)
}

/// Issue 2, point 4: at level 0 there is no region, no thread, no read of the counter and no file.
#[test]
fn level_0_allocates_nothing_starts_no_thread_reads_no_counter_and_writes_no_file() {
    let _alone = ALONE.lock();
    for target in PLATFORMS {
        let (run, sides, seen, rig) = run_at(target, Level::Disabled);
        assert_eq!(seen, Seen { threads: 0, allocations: 0, registrations: 0 });
        assert_eq!(rig.device.registrations(), 0, "not even for a moment");
        assert_eq!((sides.host.reads(), sides.cores.reads(), sides.aicpus.reads()), (0, 0, 0));
        assert_eq!(run.outcome.dir, None);
        assert_eq!(files(run.dir.path()), Vec::<String>::new());
        assert!(run.outcome.report.streams.is_empty());
        assert_eq!(run.outcome.launch.status, LaunchStatus::Completed);
    }
}

/// Issue 2, point 4: the cores read the counter three times per row at every level; AICPU never at level 1, and twice per
/// row from level 2 on; a scheduler's phase costs at most two more reads; the orchestrator reads twice per submit at level
/// 4 and never below.
#[test]
fn each_level_adds_exactly_its_own_reads_of_the_counter() {
    let _alone = ALONE.lock();
    for target in PLATFORMS {
        for level in &ALL[1..] {
            let what = format!("{} at level {}", target.name(), *level as u32);
            let (run, sides, _, _) = run_at(target, *level);
            dfx_tests::assert_whole(&what, &run);
            let records = run.records();
            let (rows, submits) = (run.outcome.core_rows, run.outcome.submits);
            assert_eq!(records.aicore_tasks.len() as u64, rows, "{what}");
            assert_eq!(sides.host.reads(), 1, "{what}: the launch");
            assert_eq!(sides.cores.reads(), 3 * rows, "{what}: receive, start, end");

            let orchestrator = format!("aicpu{}", target.geometry().default_threads - 1);
            let of_orchestrator = sides.aicpus.reads_of(&orchestrator);
            let of_schedulers = sides.aicpus.reads() - of_orchestrator;
            let expected = if *level >= Level::OrchPhases { 2 * submits } else { 0 };
            assert_eq!(of_orchestrator, expected, "{what}: the orchestrator");
            let per_row = if *level >= Level::AicpuTiming { 2 * rows } else { 0 };
            if *level < Level::SchedPhases {
                assert_eq!(of_schedulers, per_row, "{what}: dispatch and finish");
            } else {
                let phases = records.phases().count() as u64;
                let more = of_schedulers - per_row;
                assert!((1..=2 * phases).contains(&more), "{what}: {more} reads for {phases} phases");
            }
        }
    }
}

/// Issue 2, point 4: a level has its own streams in the ledger and no others.
#[test]
fn each_level_adds_exactly_its_own_records() {
    use dfx_host_drain::report::StreamKind::{AicoreTask, AicpuTask, OrchPhase, SchedPhase};
    let _alone = ALONE.lock();
    for target in PLATFORMS {
        for (level, kinds) in [
            (Level::AicoreTiming, &[AicoreTask][..]),
            (Level::AicpuTiming, &[AicoreTask, AicpuTask]),
            (Level::SchedPhases, &[AicoreTask, AicpuTask, SchedPhase]),
            (Level::OrchPhases, &[AicoreTask, AicpuTask, SchedPhase, OrchPhase]),
        ] {
            let (run, _, seen, rig) = run_at(target, level);
            let mut found: Vec<_> = run.report().streams.iter().map(|stream| stream.kind).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found, kinds, "{} at level {}", target.name(), level as u32);
            assert_eq!(seen.threads, 2, "service and collect");
            let mapped = u32::from(target.transport() == TransportKind::Svm);
            assert_eq!(rig.device.registrations() > 0, mapped == 1, "only mapped memory is registered");
            assert_eq!((rig.device.live_allocations(), rig.device.live_registrations()), (0, 0));
        }
    }
}

/// The bytes of every lane's shared state after a run at `level`, before the session gives the region back.
fn lane_states(target: Target, level: Level) -> BTreeMap<(u32, u32), Vec<u8>> {
    let device = Arc::new(SimDevice::default());
    let program = Arc::new(program(&device, &Arc::default(), 0).expect("it is a program"));
    let memory = ProgramMemory::new(&program, Arc::new(HeapAlloc::default())).expect("it fits");
    let request = request("guards", target, level);
    let (blockdim, aicpu_threads) = (request.blockdim, target.geometry().default_threads);
    let core_is_aic = (0..3 * blockdim).map(|core| core < blockdim).collect();
    let board = dfx_host_drain::Board { platform: target.platform(), core_is_aic, aicpu_threads };
    let mut config = request.config;
    config.pools = PoolSizes::all(2);
    let mut session = Session::configure(SessionSpec {
        config,
        board: board.clone(),
        memory: device.clone(),
        transport: target.transport(),
    })
    .expect("there is memory");
    session.start(Drive::Stepped).expect("it is configured");
    let exec: Arc<dyn Exec> = Arc::new(ThreadsExec::with_hz(board.geometry().clock_hz));
    let region = session.swimlane_region().expect("the level records");
    let now = exec.now_aicpu();
    let cfg = LaunchConfig { blockdim, aicpu_threads, ..LaunchConfig::default() };
    let launch = Launch::new(&cfg, program, Arc::new(memory)).expect("it can be launched");
    let no_faults = FaultPlan::default();
    let regions = DeviceRegions { swimlane: Some((region, level)), ..DeviceRegions::default() };
    let hooks = Hooks::new(Arc::clone(&exec), launch.probe(), &board, regions, now, &no_faults);
    let begun = exec.nanos();
    exec.run(launch.actors(&hooks)).expect("there are threads");
    let outcome = launch.outcome(begun);
    assert_eq!(outcome.status, LaunchStatus::Completed);
    session.stop(DeviceEnd::Completed).expect("it runs");

    let mut states = BTreeMap::new();
    for kind in [
        BufferKind::AicpuTask,
        BufferKind::AicpuSchedPhase,
        BufferKind::AicpuOrchPhase,
        BufferKind::AicoreTask,
    ] {
        let lanes = match kind {
            BufferKind::AicpuTask | BufferKind::AicoreTask => board.cores(),
            BufferKind::AicpuSchedPhase => aicpu_threads,
            BufferKind::AicpuOrchPhase => 1,
        };
        assert!(BufferLayout::swimlane(kind).capacity > 60, "no rotation in this test");
        for lane in 0..lanes {
            let mut bytes = vec![0; size_of::<dfx_collector::abi::swimlane::Pool>()];
            let at = region.base.offset(region.layout.pool(kind, lane) as u64);
            device.copy_from(&mut bytes, at).expect("it is the region's");
            states.insert((kind as u32, lane), bytes);
        }
    }
    states
}

/// Issue 2, point 4: the lanes of a level that is off are never stored to, by the host or by the device.
#[test]
fn each_level_stores_into_its_own_lanes_only() {
    let _alone = ALONE.lock();
    let least = |kind: u32| match BufferKind::from_raw(kind) {
        Some(BufferKind::AicoreTask) => Level::AicoreTiming,
        Some(BufferKind::AicpuTask) => Level::AicpuTiming,
        Some(BufferKind::AicpuSchedPhase) => Level::SchedPhases,
        _ => Level::OrchPhases,
    };
    for target in PLATFORMS {
        for level in &ALL[1..] {
            for ((kind, lane), bytes) in lane_states(target, *level) {
                let touched = bytes.iter().any(|byte| *byte != 0);
                let what = format!("{} at level {}: kind {kind} lane {lane}", target.name(), *level as u32);
                assert_eq!(touched, *level >= least(kind), "{what}");
            }
        }
    }
}
