//! A hostile device: whatever it leaves in shared memory, the host neither crashes nor reads beside its memory, ends, and
//! counts what it met.
//!
//! `DFX_HOSTILE_SEEDS` sets how many seeds are tried, `DFX_HOSTILE_SEED` tries one. `ci/asan.sh` runs this under
//! AddressSanitizer: every block of device memory is an allocation of its own.

#[path = "hostile/device.rs"]
mod device;
#[path = "hostile/memory.rs"]
mod memory;

use device::{Adversary, SEEDS};
use dfx_collector::abi::Platform;
use dfx_collector::abi::swimlane::{BufferKind, Level};
use dfx_host_drain::report::{Half, Levels, Pass, Peer, Reason, RunReport, SCHEMA, StreamReport};
use dfx_host_drain::{
    Backpressure, Board, DeviceEnd, DfxConfig, Drive, PoolSizes, Session, SessionSpec, TransportKind,
};
use memory::Memory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A board small enough for thousands of sessions.
fn board(platform: Platform) -> Board {
    Board { platform, core_is_aic: vec![true, false, false], aicpu_threads: 3 }
}

fn spec(
    memory: &Arc<Memory>,
    platform: Platform,
    transport: TransportKind,
    level: Level,
    policy: Backpressure,
) -> SessionSpec {
    let config = DfxConfig {
        chip_swimlane: level,
        backpressure: policy,
        pools: PoolSizes { task: 3, core: 3, ..PoolSizes::all(1) },
        ..DfxConfig::default()
    };
    SessionSpec { config, board: board(platform), memory: memory.clone(), transport }
}

/// What became of a session, once everything of it was given back.
struct Ended {
    streams: Vec<StreamReport>,
    reasons: Vec<Reason>,
    anomalies: std::collections::BTreeMap<String, u64>,
    complete: bool,
}

/// Ends the session; its account balances and its artifact is whole.
fn end(
    what: &str,
    memory: &Memory,
    mut session: Session,
    end: DeviceEnd,
    mut between: impl FnMut(),
    export: bool,
) -> Ended {
    session.stop(end).expect("it ran");
    between();
    session.reconcile().expect("it stopped");
    between();
    let streams = session.streams().to_vec();
    for stream in &streams {
        assert!(stream.conserved(), "{what}: {stream:?}");
    }
    if export {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let artifacts = session.export(dir.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let collected: u64 = streams.iter().map(|stream| stream.collected).sum();
        assert_eq!(artifacts.is_empty(), collected == 0, "{what}");
        for artifact in &artifacts {
            let text = std::fs::read(&artifact.path).expect("it was written");
            let json: serde_json::Value =
                serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{what}: {error}"));
            let rows = |key: &str| json[key].as_array().map_or(0, Vec::len) as u64;
            let nested = |key: &str| {
                json[key]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|l| l.as_array().map_or(0, Vec::len) as u64)
                    .sum::<u64>()
            };
            let written = rows("aicore_tasks")
                + rows("aicpu_tasks")
                + nested("aicpu_scheduler_phases")
                + nested("aicpu_orchestrator_phases");
            assert_eq!(written, collected, "{what}: rows in the file");
        }
    }
    let mut report = report(&session);
    report.conclude(session.reasons().to_vec());
    let text = serde_json::to_vec(&report).expect("it is JSON");
    assert_eq!(serde_json::from_slice::<RunReport>(&text).expect("and can be read"), report, "{what}");
    let ended = Ended {
        streams,
        reasons: session.reasons().to_vec(),
        anomalies: session.anomalies().clone(),
        complete: report.complete,
    };
    session.release();
    assert_eq!(memory.out(), (0, 0), "{what}: allocations and registrations not given back");
    assert_eq!(memory.outside(), 0, "{what}: ranges asked for that are not the session's");
    ended
}

fn report(session: &Session) -> RunReport {
    RunReport {
        schema: SCHEMA,
        tool: "test".into(),
        abi: "test".into(),
        platform: "a2a3sim".into(),
        backend_type: "Ascend910B".into(),
        execution_mode: "SIM".into(),
        peer: Peer { device: session.device_half(), host: Half::Ours },
        passes: vec![Pass { kind: "single".into(), exit: Some(0), why: "completed".into() }],
        levels: Levels::default(),
        workload: "hostile".into(),
        started_at: "1970-01-01T00:00:00Z".into(),
        wall_ns: 0,
        op_wall_ns: 0,
        killed: false,
        complete: false,
        reasons: Vec::new(),
        streams: session.streams().to_vec(),
        dump: None,
        anomalies: session.anomalies().clone(),
        artifacts: Vec::new(),
    }
}

/// One session against one seed's adversary.
fn duel(seed: u64) -> Ended {
    let mut dice = device::dice(seed);
    let platform = dice.pick(&[Platform::A2a3, Platform::A5]);
    let transport = dice.pick(&[TransportKind::Svm, TransportKind::Copy]);
    let level = dice.pick(&[Level::AicoreTiming, Level::AicpuTiming, Level::SchedPhases, Level::OrchPhases]);
    let policy = dice.pick(&[Backpressure::Lane, Backpressure::Global, Backpressure::Drop]);
    let what =
        format!("DFX_HOSTILE_SEED={seed} ({platform:?}, {transport:?}, level {}, {policy:?})", level as u32);
    let memory = Arc::new(Memory::default());
    let mut session =
        Session::configure(spec(&memory, platform, transport, level, policy)).expect("a session");
    let region = session.swimlane_region().expect("it records");
    session.start(Drive::Stepped).expect("it was configured");
    let stepper = session.stepper();
    let mut adversary = Adversary::new(dice, &memory, region, 3);
    for _ in 0..adversary.dice.below(40) {
        for _ in 0..=adversary.dice.below(10) {
            adversary.strike();
        }
        assert!(stepper.step().is_some(), "{what}: a host step panicked");
    }
    let how = adversary.dice.pick(&[DeviceEnd::Completed, DeviceEnd::Abnormal]);
    let export = seed.is_multiple_of(4);
    end(&what, &memory, session, how, || (0..4).for_each(|_| adversary.strike()), export)
}

/// Issue 3, point 6.
#[test]
fn whatever_the_device_hands_over_the_host_ends_whole_and_counts_it() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("DFX_HOSTILE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DFX_HOSTILE_SEEDS").unwrap_or(SEEDS),
    };
    let tried = seeds.end - seeds.start;
    let mut met = [0_u64; 6];
    for seed in seeds {
        let begun = Instant::now();
        let outcome = std::panic::catch_unwind(|| duel(seed));
        let Ok(ended) = outcome else { panic!("DFX_HOSTILE_SEED={seed} repeats the failure above") };
        let sum =
            |count: fn(&StreamReport) -> u64| ended.streams.iter().map(count).sum::<u64>().min(1_000_000);
        let of_lanes = [
            sum(|s| s.collected),
            sum(|s| s.recovered),
            sum(|s| s.lost),
            sum(|s| s.corrupt),
            sum(|s| s.duplicate),
        ];
        met.iter_mut().zip(of_lanes).for_each(|(all, here)| *all += here);
        met[5] += ended.reasons.iter().filter(|reason| reason.code == "corrupt").count() as u64;
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "DFX_HOSTILE_SEED={seed} took {:?}",
            begun.elapsed()
        );
    }
    eprintln!("collected, recovered, lost, corrupt, duplicate, corrupt queues: {met:?} in {tried} sessions");
    assert!(
        tried < 100 || met.iter().all(|&count| count > tried / 10),
        "the attack misses something: {met:?}"
    );
}

/// The same against the session's own threads, with a device that does not stop for their looks.
#[test]
fn a_device_that_writes_while_the_host_reads_does_it_no_harm() {
    for seed in 0..4 {
        let mut dice = device::dice(seed);
        let transport = dice.pick(&[TransportKind::Svm, TransportKind::Copy]);
        let memory = Arc::new(Memory::default());
        let spec = spec(&memory, Platform::A2a3, transport, Level::OrchPhases, Backpressure::Global);
        let mut session = Session::configure(spec).expect("a session");
        let mut adversary = Adversary::new(dice, &memory, session.swimlane_region().expect("it records"), 3);
        session.start(Drive::Threads).expect("threads");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    adversary.strike();
                }
            });
            std::thread::sleep(Duration::from_millis(60));
            over.store(true, Ordering::Relaxed);
        });
        let what = format!("seed {seed} over {transport:?}");
        let ended = end(&what, &memory, session, DeviceEnd::Abnormal, || {}, true);
        assert!(
            !ended.reasons.iter().any(|reason| reason.code == "host_thread_panicked"),
            "{what}: {:?}",
            ended.reasons
        );
    }
}

/// One thing that cannot be, in an otherwise healthy region, and where it must show.
#[test]
fn each_kind_of_nonsense_is_counted_under_its_own_name() {
    type Spoil = fn(&mut Adversary<'_>);
    type Shows = fn(&Ended) -> bool;
    fn says(ended: &Ended, word: &str) -> bool {
        ended.reasons.iter().any(|reason| reason.code == "corrupt" && reason.message.contains(word))
    }
    fn lane(ended: &Ended, count: fn(&StreamReport) -> u64) -> u64 {
        ended.streams.iter().map(count).sum()
    }
    let cases: [(&str, Spoil, Shows); 16] = [
        ("an entry of no kind", |a| a.publish(|a| a.entry(99, 0, a.buffer(0), 0)), |e| says(e, "1 lanes")),
        ("an entry of no core", |a| a.publish(|a| a.entry(0, 77, a.buffer(0), 0)), |e| says(e, "1 lanes")),
        ("a null buffer", |a| a.publish(|a| a.entry(0, 0, 0, 0)), |e| says(e, "1 pointers")),
        (
            "a foreign buffer",
            |a| a.publish(|a| a.entry(0, 0, 0xDEAD_BEEF_0000, 0)),
            |e| says(e, "1 pointers"),
        ),
        (
            "a pointer into a buffer",
            |a| a.publish(|a| a.entry(0, 0, a.buffer(0) + 8, 0)),
            |e| says(e, "1 pointers"),
        ),
        (
            "another lane's buffer",
            |a| a.publish(|a| a.entry(BufferKind::AicpuTask as u32, 1, a.task_buffer(0), 0)),
            |e| lane(e, |s| s.corrupt) == 1,
        ),
        (
            "a buffer published twice",
            |a| {
                a.publish(|a| a.entry(BufferKind::AicpuTask as u32, 0, a.task_buffer(0), 0));
                // The first is taken, and its buffer comes back; the second names what the host holds.
                a.publish(|a| a.entry(BufferKind::AicpuTask as u32, 0, a.task_buffer(0), 0));
            },
            |e| lane(e, |s| s.duplicate) == 1 || e.anomalies.contains_key("duplicate_ready_entries"),
        ),
        (
            "a count beyond the capacity",
            |a| {
                a.count(BufferKind::AicpuTask, a.task_buffer(0), 5_000_000);
                a.publish(|a| a.entry(BufferKind::AicpuTask as u32, 0, a.task_buffer(0), 0));
            },
            |e| lane(e, |s| s.corrupt) == 1,
        ),
        ("a tail beyond the queue", |a| a.tail(u32::MAX), |e| says(e, "1 tails")),
        ("a free queue's head ahead of its tail", |a| a.free_head(1000), |e| lane(e, |s| s.corrupt) >= 1),
        ("an active buffer that is none", |a| a.current(0x1234_5678), |e| lane(e, |s| s.corrupt) == 1),
        (
            "an active buffer of another lane",
            |a| a.current(a.task_buffer(1)),
            |e| lane(e, |s| s.corrupt) == 1,
        ),
        ("another level", |a| a.level(2), |e| e.reasons.iter().any(|reason| reason.code == "level_mismatch")),
        ("more cores than there are", |a| a.phase_cores(u32::MAX), |e| says(e, "cores have a thread")),
        ("a core of no thread", |a| a.owner(0, 100), |e| says(e, "a thread that there is not")),
        (
            "more orchestrators than threads",
            |a| a.orchestrators(u32::MAX),
            |e| says(e, "threads orchestrate"),
        ),
    ];
    for transport in [TransportKind::Svm, TransportKind::Copy] {
        for (name, spoil, shows) in &cases {
            let what = format!("{name}, {transport:?}");
            let memory = Arc::new(Memory::default());
            let spec = spec(&memory, Platform::A2a3, transport, Level::OrchPhases, Backpressure::Lane);
            let mut session = Session::configure(spec).expect("a session");
            let region = session.swimlane_region().expect("it records");
            session.start(Drive::Stepped).expect("it was configured");
            let stepper = session.stepper();
            spoil(&mut Adversary::new(device::dice(1), &memory, region, 3));
            for _ in 0..40 {
                assert!(stepper.step().is_some(), "{what}");
            }
            let ended = end(&what, &memory, session, DeviceEnd::Completed, || {}, true);
            assert!(shows(&ended), "{what}: {:#?} {:#?} {:?}", ended.reasons, ended.streams, ended.anomalies);
            let harmless = ended.anomalies.contains_key("duplicate_ready_entries");
            assert!(harmless || !ended.complete, "{what}: passes as complete");
        }
    }
}
