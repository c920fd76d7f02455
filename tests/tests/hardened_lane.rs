//! One dry lane: under policy `lane` only its own thread waits; under `global` the others wait with it.
//!
//! Two AICPU threads that share nothing but the collector, on the virtual clock: each runs tasks on its own cores and
//! records them, so that a time-stamp of one that depends on the other can only come from the recording.

use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::swimlane::{Level, SchedPhaseKind};
use dfx_collector::clock::Clock;
use dfx_collector::swimlane::{CoreRecorder, SchedPhase, Swimlane, rotation_entry};
use dfx_host_drain::report::{StreamKind, StreamReport};
use dfx_host_drain::testpoint::Points;
use dfx_host_drain::{
    Backpressure, Board, DeviceEnd, DfxConfig, Drive, PoolSizes, Session, SessionSpec, Target,
};
use dfx_sim::device::SimDevice;
use dfx_sim::exec::virtual_time::VirtualExec;
use dfx_sim::exec::{Actor, ActorId, Cost, Exec};
use dfx_sim::faults::FaultPlan;
use dfx_sim::faults::host::{DryLane, FaultyTransport};
use dfx_sim::run::{ClockKind, RunRequest};
use dfx_tests::rows::{CoreRow, Phase, Records, TaskRow};
use dfx_tests::{PLATFORMS, assert_ledger, request, run_named};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// The cores of each thread: a block each.
const OWNED: [[u32; 3]; 2] = [[0, 2, 3], [1, 4, 5]];
const CORES: u32 = 6;
/// Tasks on each core: enough for several rotations of every lane.
const TASKS: u32 = 6_000;
/// The core whose lanes the host leaves dry; of thread 0.
const DRY: u32 = 2;

struct DeviceClock(Arc<VirtualExec>);

impl Clock for DeviceClock {
    fn now(&self) -> u64 {
        self.0.now_aicpu()
    }
    fn relax(&self) {
        self.0.relax();
    }
}

/// A scheduler's life: a task on each of its cores, one after the other, again and again.
fn schedule(swimlane: &Swimlane<DeviceClock>, table: DeviceAddr, thread: u32, exec: &dyn Exec) {
    let cores = OWNED[thread as usize];
    // SAFETY: `init` filled the table, and this actor is the only one to record for these cores.
    let attach = |core| unsafe {
        CoreRecorder::attach(std::ptr::with_exposed_provenance(rotation_entry(table, core).0 as usize))
            .expect("a core")
    };
    let mut recorders = cores.map(attach);
    let me = ActorId::Aicpu(thread);
    for token in 1..=TASKS {
        let begun = exec.now_aicpu();
        for (core, recorder) in cores.into_iter().zip(&mut recorders) {
            let dispatch = exec.now_aicpu();
            exec.spend(me, Cost::Dispatch);
            // SAFETY: this actor is the thread, the core is its own, and calls come in the order of the protocol.
            unsafe { swimlane.on_dispatch(core, thread, token) };
            let (receive, slot) = (exec.now_core(), recorder.reserve());
            // SAFETY: as above.
            unsafe { swimlane.on_ack(core, thread, token) };
            let start = exec.now_core();
            exec.spend(me, Cost::Kernel(Duration::from_nanos(700)));
            // SAFETY: the slot was reserved for this task, and is committed once.
            unsafe { CoreRecorder::commit(slot, start, exec.now_core(), u64::from(token), token, receive) };
            // SAFETY: as above.
            unsafe { swimlane.complete_task(core, thread, token, dispatch, exec.now_aicpu()) };
        }
        let end = exec.now_aicpu();
        let phase = SchedPhase {
            kind: SchedPhaseKind::Dispatch,
            start: begun,
            end,
            loop_iter: token,
            tasks: 3,
            pop_hit: 3,
            pop_miss: 0,
            depth_start: [0; 3],
            depth_end: [0; 3],
        };
        // SAFETY: as above.
        unsafe { swimlane.record_sched_phase(thread, &phase) };
    }
    // SAFETY: as above.
    unsafe {
        swimlane.flush(thread, &cores);
        swimlane.flush_sched_phases(thread);
    }
}

struct Recorded {
    records: Records,
    streams: Vec<StreamReport>,
    freezes: u64,
}

fn record(target: Target, policy: Backpressure, dry: bool) -> Recorded {
    let exec = Arc::new(VirtualExec::new(target.geometry().clock_hz));
    let config = DfxConfig {
        chip_swimlane: Level::SchedPhases,
        backpressure: policy,
        pools: PoolSizes::all(8),
        ..DfxConfig::default()
    };
    let plan =
        FaultPlan(if dry { vec![format!("dry-lane:{DRY}").parse().expect("a fault")] } else { Vec::new() });
    let board = Board {
        platform: target.platform(),
        core_is_aic: (0..CORES).map(|core| core < 2).collect(),
        aicpu_threads: 3,
    };
    let spec = SessionSpec {
        config: config.clone(),
        board,
        memory: Arc::new(SimDevice::default()),
        transport: target.transport(),
    };
    let lane = DryLane::new(&plan, {
        let exec = Arc::clone(&exec);
        Box::new(move || exec.nanos())
    });
    let wrap = |transport| -> Arc<dyn dfx_host_drain::transport::Transport> {
        Arc::new(FaultyTransport::new(transport, &plan, Arc::new(AtomicBool::new(true)), Arc::clone(&lane)))
    };
    let mut session = Session::configure_with(spec, wrap, Points::default()).expect("a session");
    let region = session.swimlane_region().expect("it records");
    lane.aim(&region, CORES);
    session.start(Drive::Stepped).expect("it was configured");

    let swimlane = Arc::new(Swimlane::new(DeviceClock(Arc::clone(&exec))));
    // SAFETY: the session made the region for this platform, and it outlives the launch; nothing else runs yet.
    unsafe {
        let launch = Some(exec.now_aicpu());
        swimlane
            .init(target.geometry(), region.base, region.rotation_table, CORES, launch)
            .expect("a region");
        swimlane.init_phases(2, 1);
    }
    let left = Arc::new(AtomicU32::new(2));
    let mut actors: Vec<Actor> = (0..2)
        .map(|thread| {
            let (swimlane, left) = (Arc::clone(&swimlane), Arc::clone(&left));
            Actor::new(ActorId::Aicpu(thread), move |exec| {
                schedule(&swimlane, region.rotation_table, thread, exec);
                left.fetch_sub(1, Ordering::Relaxed);
            })
        })
        .collect();
    let host = session.stepper();
    actors.push(Actor::new(ActorId::Host(0), move |exec| {
        while left.load(Ordering::Relaxed) > 0 {
            let done = host.step().expect("a host that lives");
            exec.spend(ActorId::Host(0), Cost::Host(Duration::from_micros(2 + 5 * u64::from(done))));
            if done == 0 {
                exec.park(ActorId::Host(0), Some(Duration::from_micros(100)));
            }
        }
    }));
    exec.run(actors).expect("they end");

    session.stop(DeviceEnd::Completed).expect("it ran");
    session.reconcile().expect("it stopped");
    let dir = tempfile::tempdir().expect("a temporary directory");
    session.export(dir.path()).expect("there is room");
    assert!(session.reasons().is_empty(), "{:?}", session.reasons());
    Recorded {
        records: Records::read(&dir.path().join("chip_swimlane_records.json")),
        streams: session.streams().to_vec(),
        freezes: session.anomalies().get("freezes").copied().unwrap_or(0),
    }
}

/// Everything that `thread` recorded of itself and its cores.
fn of_thread(records: &Records, thread: u32) -> (Vec<CoreRow>, Vec<TaskRow>, Vec<Phase>) {
    let cores = OWNED[thread as usize];
    let phases = records.aicpu_scheduler_phases.as_ref().expect("level 3");
    (
        records.aicore_tasks.iter().filter(|row| cores.contains(&row.core)).copied().collect(),
        records.aicpu_tasks.iter().filter(|row| cores.contains(&row.core)).copied().collect(),
        phases[thread as usize].clone(),
    )
}

/// Whether `thread`, or one of its cores, waited.
fn waited(streams: &[StreamReport], thread: u32) -> bool {
    let owns = |stream: &StreamReport| match stream.kind {
        StreamKind::SchedPhase => stream.lane == thread,
        _ => OWNED[thread as usize].contains(&stream.lane),
    };
    streams.iter().any(|stream| owns(stream) && stream.stalls > 0)
}

fn assert_nothing_lost(what: &str, recorded: &Recorded) {
    for stream in &recorded.streams {
        assert_eq!(stream.produced, Some(stream.collected), "{what}: {stream:?}");
    }
    assert_eq!(recorded.records.aicore_tasks.len() as u32, CORES * TASKS, "{what}");
}

/// Issue 3, point 3.
#[test]
fn a_dry_lane_makes_only_its_own_thread_wait_under_lane_and_all_of_them_under_global() {
    for target in PLATFORMS {
        let what = target.name();
        for policy in [Backpressure::Lane, Backpressure::Global] {
            let what = format!("{what}, {policy:?}");
            let (plain, dry) = (record(target, policy, false), record(target, policy, true));
            assert_nothing_lost(&what, &plain);
            assert_nothing_lost(&what, &dry);
            assert!(!waited(&plain.streams, 0) && !waited(&plain.streams, 1), "{what}: {:#?}", plain.streams);
            assert!(waited(&dry.streams, 0), "{what}: the lane was not dry: {:#?}", dry.streams);
            let stalls = dry.streams.iter().find(|s| s.kind == StreamKind::AicpuTask && s.lane == DRY);
            let stalls = stalls.expect("it recorded");
            assert!(stalls.max_stall_ns > 1_000_000, "{what}: {stalls:?}");
            assert_ne!(
                of_thread(&plain.records, 0),
                of_thread(&dry.records, 0),
                "{what}: its own thread waited"
            );
            let same = of_thread(&plain.records, 1) == of_thread(&dry.records, 1);
            if policy == Backpressure::Lane {
                assert!(same && !waited(&dry.streams, 1), "{what}: the other thread's times changed");
                assert_eq!(dry.freezes, 0, "{what}");
            } else {
                assert!(!same && waited(&dry.streams, 1), "{what}: the other thread went on");
                assert!(dry.freezes > 0, "{what}");
            }
        }
    }
}

/// The same fault in a whole run: it ends complete, and nobody's lanes but the dry core's have waited.
#[test]
fn a_dry_lane_in_a_whole_run_loses_nothing_and_stalls_no_other_lane() {
    for target in PLATFORMS {
        for clock in [ClockKind::Threads, ClockKind::Virtual] {
            let what = format!("{} {clock:?}", target.name());
            let mut request =
                RunRequest { clock, pace: Some(true), ..request("flood:24000", target, Level::OrchPhases) };
            request.faults = FaultPlan(vec![format!("dry-lane:{DRY}").parse().expect("a fault")]);
            let run = run_named(request);
            assert!(run.outcome.report.complete, "{what}: {:#?}", run.outcome.report.reasons);
            assert_ledger(&what, &run);
            let stalled = run.outcome.report.streams.iter().filter(|stream| stream.stalls > 0);
            let stalled: Vec<_> = stalled.map(|stream| (stream.kind, stream.lane)).collect();
            // On a busy machine the real host may keep others waiting, too.
            if clock == ClockKind::Virtual {
                let own = |(kind, lane): &(StreamKind, u32)| {
                    *lane == DRY && matches!(kind, StreamKind::AicoreTask | StreamKind::AicpuTask)
                };
                assert!(!stalled.is_empty() && stalled.iter().all(own), "{what}: {stalled:?}");
            }
        }
    }
}
