//! The collectors behind the runtime's recorders: the same functions, in the same order and with the same numbers, that a
//! C++ runtime calls through the C ABI.
//!
//! The collectors' contract is one caller per core and per thread number; here it holds because each AICPU actor owns its
//! one [`AicpuHooks`], each core its one [`CoreHooks`], and a core belongs to one scheduler for the whole launch.

use crate::exec::Exec;
use crate::faults::FaultPlan;
use crate::faults::device::DeviceFaults;
use crate::runtime::{AicpuRecorder, CoreRecorder as RuntimeCoreRecorder, Probe, Recorder, SchedPhase, Vanished};
use dfx_collector::abi::swimlane::Level;
use dfx_collector::abi::{DeviceAddr, Geometry};
use dfx_collector::clock::{Clock, Publish};
use dfx_collector::lane::Entry;
use dfx_collector::swimlane::{CoreRecorder, Slot, Swimlane, rotation_entry};
use dfx_host_drain::Board;
use dfx_host_drain::features::swimlane::SwimlaneRegion;
use std::sync::Arc;

/// The executor's counter as the collectors read it.
struct ExecClock {
    exec: Arc<dyn Exec>,
    launch: Probe,
    faults: DeviceFaults,
}

impl Clock for ExecClock {
    fn now(&self) -> u64 {
        self.exec.now_aicpu()
    }
    fn relax(&self) {
        self.exec.relax();
        if self.launch.killed() {
            // A killed thread vanishes where it stands, in the middle of the collector's wait.
            std::panic::resume_unwind(Box::new(Vanished));
        }
    }
    fn publish(&self, entry: &mut Entry) -> Publish {
        self.faults.publish(entry)
    }
}

/// The collectors of one launch.
pub struct Hooks {
    swimlane: Swimlane<ExecClock>,
    level: Level,
    region: Option<SwimlaneRegion>,
    geometry: &'static Geometry,
    cores: u32,
    aicpu_threads: u32,
    launch_start: u64,
}

impl Hooks {
    /// The collectors of a launch on `board`, recording at `level` into `region`. The
    /// launch begins at tick `launch_start`.
    pub fn new(
        exec: Arc<dyn Exec>,
        launch: Probe,
        board: &Board,
        level: Level,
        region: Option<SwimlaneRegion>,
        launch_start: u64,
        faults: &FaultPlan,
    ) -> Arc<Self> {
        let level = if region.is_some() { level } else { Level::Disabled };
        Arc::new(Hooks {
            swimlane: Swimlane::new(ExecClock { exec, launch, faults: DeviceFaults::new(faults) }),
            level,
            region,
            geometry: board.geometry(),
            cores: board.cores(),
            aicpu_threads: board.aicpu_threads,
            launch_start,
        })
    }

    fn rotation_table(&self) -> DeviceAddr {
        self.region.map_or(DeviceAddr::NULL, |region| region.rotation_table)
    }
}

impl Recorder for Hooks {
    type Aicpu = AicpuHooks;
    type Core = CoreHooks;

    fn level(&self) -> Level {
        self.level
    }

    fn aicpu(self: &Arc<Self>, thread: u32) -> AicpuHooks {
        AicpuHooks { hooks: Arc::clone(self), thread }
    }

    fn core(self: &Arc<Self>, core: u32) -> CoreHooks {
        CoreHooks { hooks: Arc::clone(self), core, recorder: None, tried: false }
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
        let Some(region) = self.hooks.region else { return };
        let hooks = &self.hooks;
        // SAFETY: the session made the region for this geometry, and it outlives the launch; nothing else runs yet.
        let outcome = unsafe {
            hooks.swimlane.init(
                hooks.geometry,
                region.base,
                region.rotation_table,
                hooks.cores,
                Some(hooks.launch_start),
            )
        };
        if let Err(error) = outcome {
            tracing::error!(%error, "the collector did not start");
            return;
        }
        hooks.swimlane.set_orch_thread(hooks.aicpu_threads - 1);
        // SAFETY: after init, nothing else runs yet.
        unsafe {
            hooks.swimlane.init_phases(sched_threads, 1);
            hooks.swimlane.init_core_assignments(hooks.cores);
        }
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
        unsafe { self.hooks.swimlane.record_graph_prepare(self.thread, start, end, loop_iter, task_id, nodes) }
    }

    fn orch_submit(&mut self, start: u64, end: u64, task_id: u64, submit_idx: u32) {
        // SAFETY: see the impl; only the orchestrator's actor submits.
        unsafe { self.hooks.swimlane.record_orch_phase(start, end, task_id, submit_idx) }
    }

    fn flush(&mut self, cores: &[u32]) {
        // SAFETY: see the impl.
        unsafe {
            self.hooks.swimlane.flush(self.thread, cores);
            self.hooks.swimlane.flush_sched_phases(self.thread);
        }
    }

    fn flush_orch(&mut self) {
        // SAFETY: see the impl; only the orchestrator's actor calls it.
        unsafe { self.hooks.swimlane.flush_orch_phases() }
    }

    fn sync(&mut self, cores: &[u32]) {
        // SAFETY: see the impl.
        unsafe { self.hooks.swimlane.sync(self.thread, cores) }
    }
}

/// One core's hooks.
pub struct CoreHooks {
    hooks: Arc<Hooks>,
    core: u32,
    recorder: Option<CoreRecorder>,
    tried: bool,
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
}

