//! The collectors behind the runtime's recorders: the same functions, in the same order and with the same numbers, that a
//! C++ runtime calls through the C ABI.
//!
//! The collectors' contract is one caller per core and per thread number; here it holds because each AICPU actor owns its
//! one [`AicpuHooks`], each core its one [`CoreHooks`], and a core belongs to one scheduler for the whole launch.

mod dump;

use crate::exec::Exec;
use crate::faults::FaultPlan;
use crate::faults::device::DeviceFaults;
use crate::pmu::{SharedRegisters, SimRegisters, Work};
use crate::runtime::{
    AicpuRecorder, Captured, CoreRecorder as RuntimeCoreRecorder, CountedTask, Probe, Recorder, RingCapacity,
    SchedPhase, Switches, TENSOR_MAP, Vanished,
};
use dfx_collector::abi::args_dump::{Info, Kind, Level as DumpLevel};
use dfx_collector::abi::scope_stats::{HeapSide, RINGS};
use dfx_collector::abi::swimlane::Level;
use dfx_collector::abi::tensor::{MAX_SCALAR_ARGS, MAX_TENSOR_ARGS, Tensor};
use dfx_collector::abi::{DeviceAddr, Geometry, Platform};
use dfx_collector::args_dump::{ArgsDump, MAX_SCALARS, Tables};
use dfx_collector::clock::{Clock, Publish};
use dfx_collector::dep_gen::{self, DepGen};
use dfx_collector::lane::Entry;
use dfx_collector::pmu::{Pmu, PmuRecorder};
use dfx_collector::scope_stats::{Sample, ScopeStats};
use dfx_collector::swimlane::{CoreRecorder, Slot, Swimlane, rotation_entry};
use dfx_host_drain::features::args_dump::DumpRegion;
use dfx_host_drain::features::pmu::PmuRegion;
use dfx_host_drain::features::swimlane::SwimlaneRegion;
use dfx_host_drain::{Board, Session};
use dump::{copied, new_tables, shed_bytes};
use std::ffi::CStr;
use std::sync::Arc;

/// The executor's counter as the collectors read it.
#[derive(Clone)]
struct ExecClock(Arc<ClockParts>);

struct ClockParts {
    exec: Arc<dyn Exec>,
    launch: Probe,
    faults: DeviceFaults,
}

impl Clock for ExecClock {
    fn now(&self) -> u64 {
        self.0.exec.now_aicpu()
    }
    fn relax(&self) {
        self.0.exec.relax();
        if self.0.launch.killed() {
            // A killed thread vanishes where it stands, in the middle of the collector's wait.
            std::panic::resume_unwind(Box::new(Vanished));
        }
    }
    fn publish(&self, entry: &mut Entry) -> Publish {
        self.0.faults.publish(entry)
    }
}

/// The regions of a session, as the device is given them.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceRegions {
    /// The chip swimlane's, and its level.
    pub swimlane: Option<(SwimlaneRegion, Level)>,
    /// The PMU's.
    pub pmu: Option<PmuRegion>,
    /// dep_gen's.
    pub dep_gen: Option<DeviceAddr>,
    /// The scope statistics'.
    pub scope_stats: Option<DeviceAddr>,
    /// The args dump's, its level, and a thread's arena in bytes.
    pub dump: Option<(DumpRegion, DumpLevel, u64)>,
}

impl DeviceRegions {
    /// What `session` made.
    pub fn of(session: &Session) -> Self {
        DeviceRegions {
            swimlane: session.swimlane_region().map(|region| (region, session.config().chip_swimlane)),
            pmu: session.pmu_region(),
            dep_gen: session.dep_gen_region(),
            scope_stats: session.scope_stats_region(),
            dump: session.dump_region().map(|region| {
                let config = session.config();
                (region, config.dump_args, config.dump_arena_bytes)
            }),
        }
    }
}

/// The collectors of one launch.
pub struct Hooks {
    swimlane: Swimlane<ExecClock>,
    dep_gen: DepGen<ExecClock>,
    scope_stats: ScopeStats<ExecClock>,
    pmu: Box<Pmu<ExecClock, SharedRegisters>>,
    /// None unless arguments are dumped: its tables are large.
    dump: Option<Box<ArgsDump<ExecClock, Box<Tables>>>>,
    /// By core; none unless the PMU is on.
    registers: Vec<SharedRegisters>,
    stale: Option<u32>,
    regions: DeviceRegions,
    geometry: &'static Geometry,
    cores: u32,
    aicpu_threads: u32,
    launch_start: u64,
}

impl Hooks {
    /// The collectors of a launch on `board`, recording into `regions`. The launch begins at tick `launch_start`.
    pub fn new(
        exec: Arc<dyn Exec>,
        launch: Probe,
        board: &Board,
        regions: DeviceRegions,
        launch_start: u64,
        faults: &FaultPlan,
    ) -> Arc<Self> {
        let clock = ExecClock(Arc::new(ClockParts { exec, launch, faults: DeviceFaults::new(faults) }));
        Arc::new(Hooks {
            swimlane: Swimlane::new(clock.clone()),
            dep_gen: DepGen::new(clock.clone()),
            scope_stats: ScopeStats::new(clock.clone()),
            pmu: Box::new(Pmu::new(clock.clone())),
            dump: regions.dump.map(|_| Box::new(ArgsDump::new(clock, new_tables()))),
            registers: if regions.pmu.is_some() { registers(board) } else { Vec::new() },
            stale: faults.stale_counters(),
            regions,
            geometry: board.geometry(),
            cores: board.cores(),
            aicpu_threads: board.aicpu_threads,
            launch_start,
        })
    }

    fn rotation_table(&self) -> DeviceAddr {
        self.regions.swimlane.map_or(DeviceAddr::NULL, |(region, _)| region.rotation_table)
    }

    /// The PMU from inside `core`.
    fn pmu_recorder(&self, core: u32) -> Option<PmuRecorder<SharedRegisters>> {
        let (region, registers) = (self.regions.pmu?, self.registers.get(core as usize)?.clone());
        Some(match self.geometry.platform {
            Platform::A2a3 => PmuRecorder::gates(Platform::A2a3, registers),
            Platform::A5 => {
                let entry = region.ring_table.offset(8 * u64::from(core)).0 as usize;
                // SAFETY: the session made the table, filled this core's entry and keeps ring and table through the
                // launch; each core asks once.
                unsafe { PmuRecorder::attach(registers, std::ptr::with_exposed_provenance(entry)) }
            }
        })
    }

    /// Starts the collectors that are on.
    ///
    /// # Safety
    /// No other function of a collector is running.
    unsafe fn init(&self, sched_threads: u32) {
        let (geometry, start) = (self.geometry, Some(self.launch_start));
        let orchestrator = self.aicpu_threads - 1;
        let told = |outcome: Result<(), String>| {
            if let Err(error) = outcome {
                tracing::error!(error, "a collector did not start");
            }
        };
        if let Some((region, _)) = self.regions.swimlane {
            // SAFETY: the session made the region for this geometry, and it outlives the launch; nothing else runs.
            unsafe {
                let outcome =
                    self.swimlane.init(geometry, region.base, region.rotation_table, self.cores, start);
                told(outcome.map_err(|error| error.to_string()));
                self.swimlane.set_orch_thread(orchestrator);
                self.swimlane.init_phases(sched_threads, 1);
                self.swimlane.init_core_assignments(self.cores);
            }
        }
        if let Some(region) = self.regions.pmu {
            let registers = |core| self.registers.get(core as usize).cloned();
            // SAFETY: as above; no core has been given a task.
            let outcome = unsafe { self.pmu.init(geometry, region.base, self.cores, registers, start) };
            told(outcome.map_err(|error| error.to_string()));
        }
        if let Some(base) = self.regions.dep_gen {
            self.dep_gen.set_enabled(true);
            self.dep_gen.set_orch_thread(orchestrator);
            // SAFETY: as above.
            told(unsafe { self.dep_gen.init(geometry, base, start) }.map_err(|error| error.to_string()));
        }
        if let Some(base) = self.regions.scope_stats {
            self.scope_stats.set_enabled(true);
            self.scope_stats.set_orch_thread(orchestrator);
            // SAFETY: as above.
            told(unsafe { self.scope_stats.init(geometry, base, start) }.map_err(|error| error.to_string()));
        }
        if let (Some((region, ..)), Some(dump)) = (self.regions.dump, &self.dump) {
            // SAFETY: as above.
            let outcome = unsafe {
                dump.set_enabled(true);
                dump.init(geometry, region.base, self.aicpu_threads, start)
            };
            told(outcome.map_err(|error| error.to_string()));
        }
    }
}

/// The register files of `board`'s cores.
fn registers(board: &Board) -> Vec<SharedRegisters> {
    let file = |_| SharedRegisters(Arc::new(SimRegisters::new(board.platform)));
    (0..board.cores()).map(file).collect()
}

impl Recorder for Hooks {
    type Aicpu = AicpuHooks;
    type Core = CoreHooks;

    fn level(&self) -> Level {
        self.regions.swimlane.map_or(Level::Disabled, |(_, level)| level)
    }

    fn switches(&self) -> Switches {
        Switches {
            dep_gen: self.regions.dep_gen.is_some(),
            scope_stats: self.regions.scope_stats.is_some(),
            pmu: self.regions.pmu.is_some(),
            dump: self.regions.dump.map_or(DumpLevel::Off, |(_, level, _)| level),
            single_issue: self.regions.pmu.is_some() && self.geometry.platform == Platform::A2a3,
        }
    }

    fn aicpu(self: &Arc<Self>, thread: u32) -> AicpuHooks {
        AicpuHooks { hooks: Arc::clone(self), thread }
    }

    fn core(self: &Arc<Self>, core: u32) -> CoreHooks {
        CoreHooks {
            hooks: Arc::clone(self),
            core,
            recorder: None,
            tried: false,
            pmu: self.pmu_recorder(core),
        }
    }
}

/// One AICPU thread's hooks.
pub struct AicpuHooks {
    hooks: Arc<Hooks>,
    thread: u32,
}

// SAFETY (of every `unsafe` below): the thread number is this value's own, and the cores named are this thread's own for
// the whole launch (`runtime::board`); `init` runs before any other call (`Recorder`'s contract).
impl AicpuRecorder for AicpuHooks {
    fn init(&mut self, sched_threads: u32) {
        // SAFETY: `Recorder`'s contract: nothing else runs yet.
        unsafe { self.hooks.init(sched_threads) }
    }

    fn assign_cores(&mut self, cores: &[u32]) {
        // SAFETY: see the impl.
        unsafe { self.hooks.swimlane.write_core_assignments(self.thread, cores) }
    }

    fn on_dispatch(&mut self, core: u32, token: u32) {
        // SAFETY: see the impl.
        unsafe { self.hooks.swimlane.on_dispatch(core, self.thread, token) }
    }

    fn on_ack(&mut self, core: u32, token: u32) {
        // SAFETY: see the impl.
        unsafe { self.hooks.swimlane.on_ack(core, self.thread, token) }
    }

    fn complete_task(&mut self, core: u32, token: u32, dispatch: u64, finish: u64) {
        // SAFETY: see the impl.
        unsafe { self.hooks.swimlane.complete_task(core, self.thread, token, dispatch, finish) };
    }

    fn sched_phase(&mut self, phase: &SchedPhase) {
        // SAFETY: see the impl.
        unsafe { self.hooks.swimlane.record_sched_phase(self.thread, phase) }
    }

    fn dummy_task(&mut self, at: u64, loop_iter: u32, task_id: u64) {
        // SAFETY: see the impl.
        unsafe { self.hooks.swimlane.record_dummy_task(self.thread, at, loop_iter, task_id) }
    }

    fn predicated_skip(&mut self, at: u64, loop_iter: u32, task_id: u64) {
        // SAFETY: see the impl.
        unsafe { self.hooks.swimlane.record_predicated_skip(self.thread, at, loop_iter, task_id) }
    }

    fn graph_prepare(&mut self, start: u64, end: u64, loop_iter: u32, task_id: u64, nodes: u32) {
        // SAFETY: see the impl.
        unsafe {
            self.hooks.swimlane.record_graph_prepare(self.thread, start, end, loop_iter, task_id, nodes)
        }
    }

    fn orch_submit(&mut self, start: u64, end: u64, task_id: u64, submit_idx: u32) {
        // SAFETY: see the impl; only the orchestrator's actor submits.
        unsafe { self.hooks.swimlane.record_orch_phase(start, end, task_id, submit_idx) }
    }

    fn pmu_record(&mut self, core: u32, token: u32, task: &CountedTask) {
        let CountedTask { task_id, func_id, core_type } = *task;
        let (pmu, thread, core_type) = (&self.hooks.pmu, self.thread, core_type as i32);
        // SAFETY: see the impl.
        unsafe {
            match self.hooks.geometry.platform {
                Platform::A2a3 => pmu.record_task(core, thread, task_id, func_id, core_type),
                Platform::A5 => pmu.complete_record(core, thread, token, task_id, func_id, core_type),
            }
        }
    }

    fn mark_task(&mut self, task_id: u64, mask: u64, ambiguous: u64) {
        if let Some(dump) = &self.hooks.dump {
            dump.set_task_mask(task_id, mask, ambiguous);
        }
    }

    fn scalar_dtypes(&mut self, task_id: u64, dtypes: &[u8]) {
        if let Some(dump) = &self.hooks.dump {
            dump.set_task_scalar_dtypes(task_id, dtypes);
        }
    }

    fn task_marks(&self, task_id: u64) -> (u64, u64) {
        self.hooks.dump.as_ref().map_or((0, 0), |dump| dump.task_masks(task_id))
    }

    fn task_scalar_dtypes(&self, task_id: u64, into: &mut [u8; MAX_SCALAR_ARGS]) {
        let mut all = [0; MAX_SCALARS];
        let known = self.hooks.dump.as_ref().and_then(|dump| dump.task_scalar_dtypes(task_id, &mut all));
        let known = known.unwrap_or(0).min(into.len());
        into[..known].copy_from_slice(&all[..known]);
    }

    fn dump_arg(&mut self, info: &Info) -> u64 {
        let (Some(dump), Some((region, _, arena))) = (&self.hooks.dump, self.hooks.regions.dump) else {
            return 0;
        };
        let shed = shed_bytes(&region, self.thread);
        // SAFETY: see the impl. The tensor's memory lives through the launch, and the builder kept the view within its
        // buffer; nobody writes it now, unless the program is wrong or a hang was declared: the bytes are whatever is there.
        let recorded = unsafe { dump.record(self.thread, info) };
        let brings = recorded && info.kind == Kind::Tensor as u8 && info.capture_payload != 0;
        if brings && shed_bytes(&region, self.thread) == shed { copied(info, arena) } else { 0 }
    }

    fn flush(&mut self, cores: &[u32]) {
        // SAFETY: see the impl.
        unsafe {
            if let Some(dump) = &self.hooks.dump {
                dump.flush(self.thread);
            }
            self.hooks.swimlane.flush(self.thread, cores);
            self.hooks.swimlane.flush_sched_phases(self.thread);
            if self.hooks.regions.pmu.is_some() {
                self.hooks.pmu.flush(self.thread, cores);
                self.hooks.pmu.finalize(cores);
            }
        }
    }

    fn capture(&mut self, submit: &Captured) {
        let tensors: heapless::Vec<*const Tensor, MAX_TENSOR_ARGS> = submit
            .tensors
            .iter()
            .take(MAX_TENSOR_ARGS)
            .map(|tensor| tensor.as_ref().map_or(std::ptr::null(), std::ptr::from_ref))
            .collect();
        let submit = dep_gen::Submit {
            task_id: submit.task_id,
            flags: submit.flags,
            tensors: &tensors,
            arg_types: &submit.arg_types,
            deps: &submit.deps,
            kernel_ids: &submit.kernel_ids,
            block_num: submit.block_num,
        };
        // SAFETY: only the orchestrator's actor captures; the tensors live in `submit`.
        unsafe { self.hooks.dep_gen.record_submit(&submit) }
    }

    fn ring_capacity(&mut self, capacity: &RingCapacity) {
        for ring in 0..RINGS as i32 {
            // SAFETY: only the orchestrator's actor calls it.
            unsafe {
                let RingCapacity { window, heap, dep_pool } = *capacity;
                self.hooks.scope_stats.set_ring_capacity(ring, window, heap, dep_pool);
            }
        }
        // SAFETY: as above.
        unsafe { self.hooks.scope_stats.set_tensormap_capacity(TENSOR_MAP) }
    }

    fn scope_begin(&mut self, site: Option<(&CStr, i32)>, sample: &Sample) {
        // SAFETY: only the orchestrator's actor calls it; the site lives until the begin, which takes it.
        unsafe {
            if let Some((file, line)) = site {
                self.hooks.scope_stats.set_pending_site(file.as_ptr().cast(), line);
            }
            self.hooks.scope_stats.begin(sample);
        }
    }

    fn scope_end(&mut self, sample: &Sample) {
        // SAFETY: only the orchestrator's actor calls it.
        unsafe { self.hooks.scope_stats.end(sample) }
    }

    fn heap_wrap(&mut self, side: HeapSide) {
        self.hooks.scope_stats.note_heap_wrap(side as i32);
    }

    fn flush_orch(&mut self) {
        // SAFETY: see the impl; only the orchestrator's actor calls it.
        unsafe {
            self.hooks.swimlane.flush_orch_phases();
            self.hooks.dep_gen.flush();
            self.hooks.scope_stats.flush();
        }
    }

    fn sync(&mut self, cores: &[u32]) {
        // SAFETY: see the impl.
        unsafe {
            self.hooks.swimlane.sync(self.thread, cores);
            self.hooks.pmu.sync(cores);
            if let Some(dump) = &self.hooks.dump {
                dump.sync(self.thread);
            }
            if self.thread == self.hooks.aicpu_threads - 1 {
                self.hooks.dep_gen.sync();
                self.hooks.scope_stats.sync();
            }
        }
    }
}

/// One core's hooks.
pub struct CoreHooks {
    hooks: Arc<Hooks>,
    core: u32,
    recorder: Option<CoreRecorder>,
    tried: bool,
    pmu: Option<PmuRecorder<SharedRegisters>>,
}

impl RuntimeCoreRecorder for CoreHooks {
    type Slot = Slot;

    fn reserve(&mut self) -> Slot {
        if !self.tried {
            self.tried = true;
            let table = self.hooks.rotation_table();
            if !table.is_null() {
                let entry = rotation_entry(table, self.core).0 as usize;
                // SAFETY: the table has an entry for this core; its token came after AICPU's init; one recorder per core.
                self.recorder = unsafe { CoreRecorder::attach(std::ptr::with_exposed_provenance(entry)) };
            }
        }
        self.recorder.as_mut().map_or(Slot::NONE, CoreRecorder::reserve)
    }

    fn commit(&mut self, slot: Slot, start: u64, end: u64, task_id: u64, token: u32, receive: u64) {
        // SAFETY: the slot was reserved for this token by this core, which commits it once, before its next acknowledge.
        unsafe { CoreRecorder::commit(slot, start, end, task_id, token, receive) }
    }

    fn pmu_begin(&mut self) {
        if let Some(pmu) = &self.pmu {
            pmu.begin();
        }
    }

    fn pmu_ran(&mut self, work: &Work, token: u32) {
        let Some(pmu) = &mut self.pmu else { return };
        self.hooks.registers[self.core as usize].0.run(work);
        if self.hooks.geometry.platform == Platform::A5 {
            pmu.end();
            // The same slot of the ring, but another task's.
            let stale = self.hooks.stale == Some(work.submit);
            pmu.record(if stale { token ^ 2 } else { token });
        }
    }

    fn pmu_finished(&mut self) {
        if let (Some(pmu), Platform::A2a3) = (&self.pmu, self.hooks.geometry.platform) {
            pmu.end();
        }
    }
}
