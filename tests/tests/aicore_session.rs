//! Issue 6, point 2: a host drained from cores that record through `dfx_aicore.h` has what one drained from Rust cores has.
//!
//! The simulator's runtime with recorders of the test's own: AICPU's are the collectors, a core's is the Rust one or the
//! header's.

use dfx_collector::abi::pmu::EventType;
use dfx_collector::abi::swimlane::Level;
use dfx_collector::abi::{Platform, flags};
use dfx_collector::clock::Clock;
use dfx_collector::pmu::{Pmu, PmuRecorder};
use dfx_collector::swimlane::{CoreRecorder, Slot, Swimlane, rotation_entry};
use dfx_host_drain::features::pmu::PmuRegion;
use dfx_host_drain::features::swimlane::SwimlaneRegion;
use dfx_host_drain::report::StreamReport;
use dfx_host_drain::{Board, DeviceEnd, DfxConfig, Drive, Session, SessionSpec, Target};
use dfx_sim::device::SimDevice;
use dfx_sim::exec::threads::ThreadsExec;
use dfx_sim::exec::virtual_time::VirtualExec;
use dfx_sim::exec::{Actor, ActorId, Cost, Exec};
use dfx_sim::memory::{HeapAlloc, ProgramMemory};
use dfx_sim::pmu::{SharedRegisters, SimRegisters, Work};
use dfx_sim::runtime::{
    self, AicpuRecorder, CountedTask, Launch, LaunchConfig, LaunchStatus, Recorder, Switches,
};
use dfx_sim::workloads::{self, WorkloadOptions};
use dfx_tests::glue::{self, CorePmu, Flavor, Glue};
use dfx_tests::{A2A3, A5, PLATFORMS, contents};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
struct DeviceClock(Arc<dyn Exec>);

impl Clock for DeviceClock {
    fn now(&self) -> u64 {
        self.0.now_aicpu()
    }
    fn relax(&self) {
        self.0.relax();
    }
}

/// The collectors, and what the cores are made of.
struct Recorders {
    clock: DeviceClock,
    swimlane: Swimlane<DeviceClock>,
    pmu: Pmu<DeviceClock, SharedRegisters>,
    registers: Vec<SharedRegisters>,
    regions: (SwimlaneRegion, PmuRegion),
    target: Target,
    /// How cores record; none: in Rust.
    glue: Option<&'static Glue>,
}

impl Recorders {
    fn cores(&self) -> u32 {
        self.registers.len() as u32
    }
}

impl Recorder for Recorders {
    type Aicpu = Aicpu;
    type Core = Core;

    fn level(&self) -> Level {
        Level::AicpuTiming
    }
    fn switches(&self) -> Switches {
        let single_issue = self.target.platform() == Platform::A2a3;
        Switches { pmu: true, single_issue, ..Switches::default() }
    }
    fn aicpu(self: &Arc<Self>, thread: u32) -> Aicpu {
        Aicpu { all: Arc::clone(self), thread }
    }
    fn core(self: &Arc<Self>, core: u32) -> Core {
        let (swimlane, pmu) = &self.regions;
        let entry = rotation_entry(swimlane.rotation_table, core).0;
        let registers = self.registers[core as usize].clone();
        let platform = self.target.platform();
        let ring = if platform == Platform::A5 { pmu.ring_table.offset(8 * u64::from(core)).0 } else { 0 };
        // SAFETY: the session made both tables; AICPU's init has run, as this core was given a task; the runtime asks
        // once per core.
        let side = unsafe {
            match self.glue {
                Some(glue) => {
                    let on = flags::CHIP_SWIMLANE | flags::PMU;
                    let ring = glue.entry(pmu.ring_table.0, core, on, flags::PMU);
                    assert_eq!(glue.entry(swimlane.rotation_table.0, core, on, flags::CHIP_SWIMLANE), entry);
                    Side::C {
                        glue,
                        lane: glue::CoreRecorder::open(glue, entry),
                        pmu: CorePmu::hooked(glue, registers.clone(), ring),
                    }
                }
                None => Side::Rust {
                    lane: CoreRecorder::attach(std::ptr::with_exposed_provenance(entry as usize))
                        .expect("AICPU filled the table"),
                    pmu: match platform {
                        Platform::A2a3 => PmuRecorder::gates(platform, registers.clone()),
                        Platform::A5 => PmuRecorder::attach(
                            registers.clone(),
                            std::ptr::with_exposed_provenance(ring as usize),
                        ),
                    },
                },
            }
        };
        Core { side, registers, platform }
    }
}

struct Aicpu {
    all: Arc<Recorders>,
    thread: u32,
}

// SAFETY (of every `unsafe` below): the thread number is this value's own, the cores named are this thread's own for the
// whole launch, and `init` runs before any other call (`Recorder`'s contract).
impl AicpuRecorder for Aicpu {
    fn init(&mut self, _: u32) {
        let (all, (swimlane, pmu)) = (&self.all, &self.all.regions);
        let (geometry, start) = (all.target.geometry(), Some(all.clock.now()));
        // SAFETY: the session made the regions for this geometry; nothing else runs yet.
        unsafe {
            all.swimlane
                .init(geometry, swimlane.base, swimlane.rotation_table, all.cores(), start)
                .expect("a swimlane region");
            let registers = |core: u32| all.registers.get(core as usize).cloned();
            all.pmu.init(geometry, pmu.base, all.cores(), registers, start).expect("a PMU region");
        }
    }
    fn assign_cores(&mut self, _: &[u32]) {}
    fn on_dispatch(&mut self, core: u32, token: u32) {
        // SAFETY: see the impl.
        unsafe { self.all.swimlane.on_dispatch(core, self.thread, token) }
    }
    fn on_ack(&mut self, core: u32, token: u32) {
        // SAFETY: see the impl.
        unsafe { self.all.swimlane.on_ack(core, self.thread, token) }
    }
    fn complete_task(&mut self, core: u32, token: u32, dispatch: u64, finish: u64) {
        // SAFETY: see the impl.
        unsafe { self.all.swimlane.complete_task(core, self.thread, token, dispatch, finish) };
    }
    fn sched_phase(&mut self, _: &runtime::SchedPhase) {}
    fn dummy_task(&mut self, _: u64, _: u32, _: u64) {}
    fn predicated_skip(&mut self, _: u64, _: u32, _: u64) {}
    fn graph_prepare(&mut self, _: u64, _: u64, _: u32, _: u64, _: u32) {}
    fn orch_submit(&mut self, _: u64, _: u64, _: u64, _: u32) {}
    fn pmu_record(&mut self, core: u32, token: u32, task: &CountedTask) {
        let CountedTask { task_id, func_id, core_type } = *task;
        let (pmu, thread, core_type) = (&self.all.pmu, self.thread, core_type as i32);
        // SAFETY: see the impl.
        unsafe {
            match self.all.target.platform() {
                Platform::A2a3 => pmu.record_task(core, thread, task_id, func_id, core_type),
                Platform::A5 => pmu.complete_record(core, thread, token, task_id, func_id, core_type),
            }
        }
    }
    fn flush(&mut self, cores: &[u32]) {
        // SAFETY: see the impl.
        unsafe {
            self.all.swimlane.flush(self.thread, cores);
            self.all.pmu.flush(self.thread, cores);
            self.all.pmu.finalize(cores);
        }
    }
    fn flush_orch(&mut self) {}
    fn sync(&mut self, _: &[u32]) {}
}

/// One core's recorders, in one language or the other.
enum Side {
    Rust { lane: CoreRecorder, pmu: PmuRecorder<SharedRegisters> },
    C { glue: &'static Glue, lane: glue::CoreRecorder, pmu: CorePmu },
}

#[derive(Clone, Copy)]
enum AnySlot {
    Rust(Slot),
    C(u64),
}

struct Core {
    side: Side,
    registers: SharedRegisters,
    platform: Platform,
}

impl Core {
    fn end(&self) {
        match &self.side {
            Side::Rust { pmu, .. } => pmu.end(),
            Side::C { pmu, .. } => pmu.end(),
        }
    }
}

impl runtime::CoreRecorder for Core {
    type Slot = AnySlot;

    fn reserve(&mut self) -> AnySlot {
        match &mut self.side {
            Side::Rust { lane, .. } => AnySlot::Rust(lane.reserve()),
            Side::C { lane, .. } => AnySlot::C(lane.reserve()),
        }
    }
    fn commit(&mut self, slot: AnySlot, start: u64, end: u64, task_id: u64, token: u32, receive: u64) {
        // SAFETY: the slot was reserved for this token by this core, which commits it once, before its next acknowledge.
        unsafe {
            match (slot, &self.side) {
                (AnySlot::C(slot), Side::C { glue, .. }) => {
                    glue.commit(slot, start, end, task_id, token, receive)
                }
                (AnySlot::Rust(slot), Side::Rust { .. }) => {
                    CoreRecorder::commit(slot, start, end, task_id, token, receive)
                }
                _ => unreachable!("a core has one side"),
            }
        }
    }
    fn pmu_begin(&mut self) {
        match &self.side {
            Side::Rust { pmu, .. } => pmu.begin(),
            Side::C { pmu, .. } => pmu.begin(),
        }
    }
    fn pmu_ran(&mut self, work: &Work, token: u32) {
        self.registers.0.run(work);
        if self.platform == Platform::A5 {
            self.end();
            match &mut self.side {
                Side::Rust { pmu, .. } => pmu.record(token),
                Side::C { pmu, .. } => pmu.record(token),
            }
        }
    }
    fn pmu_finished(&mut self) {
        if self.platform == Platform::A2a3 {
            self.end();
        }
    }
}

/// What a host had in the end.
struct Drained {
    files: BTreeMap<String, Vec<u8>>,
    streams: Vec<StreamReport>,
}

/// Runs `workload` on a board of one block.
fn drained(target: Target, workload: &str, glue: Option<&'static Glue>, threads: bool) -> Drained {
    let program = Arc::new(workloads::build(workload, &WorkloadOptions::default()).expect("a workload"));
    let memory = ProgramMemory::new(&program, Arc::new(HeapAlloc::default())).expect("memory");
    let config = LaunchConfig { blockdim: 1, aicpu_threads: 2, ..LaunchConfig::default() };
    let launch = Launch::new(&config, program, Arc::new(memory)).expect("it can be launched");

    let board = Board {
        platform: target.platform(),
        core_is_aic: vec![true, false, false],
        aicpu_threads: config.aicpu_threads,
    };
    let spec = SessionSpec {
        config: DfxConfig {
            chip_swimlane: Level::AicpuTiming,
            pmu: Some(EventType::PipeUtilization),
            ..DfxConfig::default()
        },
        board: board.clone(),
        memory: Arc::new(SimDevice::default()),
        transport: target.transport(),
    };
    let mut session = Session::configure(spec).expect("a session");
    session.start(if threads { Drive::Threads } else { Drive::Stepped }).expect("it was configured");

    let hz = target.geometry().clock_hz;
    let exec: Arc<dyn Exec> =
        if threads { Arc::new(ThreadsExec::with_hz(hz)) } else { Arc::new(VirtualExec::new(hz)) };
    let clock = DeviceClock(Arc::clone(&exec));
    let registers = |_| SharedRegisters(Arc::new(SimRegisters::new(target.platform())));
    let recorders = Arc::new(Recorders {
        swimlane: Swimlane::new(clock.clone()),
        pmu: Pmu::new(clock.clone()),
        clock,
        registers: (0..board.cores()).map(registers).collect(),
        regions: (session.swimlane_region().expect("it is on"), session.pmu_region().expect("it is on")),
        target,
        glue,
    });
    let mut actors = launch.actors(&recorders);
    if !threads {
        let (host, device, me) = (session.stepper(), launch.probe(), ActorId::Host(0));
        actors.push(Actor::new(me, move |exec| {
            while let Some(done) = host.step() {
                exec.spend(me, Cost::Host(Duration::from_micros(2 + 5 * u64::from(done))));
                if done == 0 {
                    if device.device_done() {
                        return;
                    }
                    exec.park(me, Some(Duration::from_micros(100)));
                }
            }
        }));
    }
    let begun = exec.nanos();
    exec.run(actors).expect("they end");
    assert_eq!(launch.outcome(begun).status, LaunchStatus::Completed);

    session.stop(DeviceEnd::Completed).expect("it ran");
    session.reconcile().expect("it stopped");
    let dir = tempfile::tempdir().expect("a temporary directory");
    session.export(dir.path()).expect("there is room");
    Drained { files: contents(dir.path()), streams: session.streams().to_vec() }
}

fn assert_whole(what: &str, drained: &Drained) {
    for stream in &drained.streams {
        assert!(stream.conserved(), "{what}: {stream:?}");
        assert_eq!(stream.produced, Some(stream.collected), "{what}: {stream:?}");
        assert_eq!(stream.recovered, 0, "{what}: {stream:?}");
    }
}

/// On the virtual clock two runs are the same to the byte, unless the recorder makes the difference.
#[test]
fn a_host_drained_from_cores_in_c_has_the_same_artifacts() {
    for target in PLATFORMS {
        for workload in ["mixed", "spmd", "flood:5000"] {
            let what = format!("{workload} on {}", target.name());
            let expected = drained(target, workload, None, false);
            assert_whole(&what, &expected);
            let names: Vec<_> = expected.files.keys().map(String::as_str).collect();
            assert_eq!(names, ["chip_swimlane_records.json", "pmu.csv"], "{what}");
            let platform = if target.platform() == Platform::A5 { "A5" } else { "A2A3" };
            for glue in Glue::all(Flavor::Hooks, Some(platform)) {
                let got = drained(target, workload, Some(glue), false);
                assert_eq!(got.streams, expected.streams, "{what}: {glue:?}");
                for (name, bytes) in &expected.files {
                    assert!(got.files.get(name) == Some(bytes), "{what}: {name} of {glue:?} differs");
                }
                assert_eq!(got.files.len(), expected.files.len(), "{what}: {glue:?}");
            }
        }
    }
}

/// On real threads nothing is lost, late or torn either: every row is there, with its counters.
#[test]
fn a_host_drained_from_cores_in_c_on_real_threads_misses_nothing() {
    for (target, platform) in [(A2A3, "A2A3"), (A5, "A5")] {
        for glue in Glue::all(Flavor::Hooks, Some(platform)) {
            let what = format!("{}: {glue:?}", target.name());
            let run = drained(target, "flood:8000", Some(glue), true);
            assert_whole(&what, &run);
            let csv = String::from_utf8_lossy(&run.files["pmu.csv"]).into_owned();
            assert_eq!(csv.lines().count(), 1 + 8000, "{what}");
        }
    }
}
