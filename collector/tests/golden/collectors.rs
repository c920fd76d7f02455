//! The calls, made to the collectors.

use super::tensors::{self, Dump};
use dfx_collector::abi::args_dump::Info;
use dfx_collector::abi::swimlane::SchedPhaseKind;
use dfx_collector::abi::tensor::Tensor;
use dfx_collector::abi::{DeviceAddr, Geometry, Platform};
use dfx_collector::args_dump::ArgsDump;
use dfx_collector::clock::Clock;
use dfx_collector::dep_gen::{DepGen, Submit};
use dfx_collector::pmu::{Mmio, Pmu};
use dfx_collector::scope_stats::{Sample, ScopeStats};
use dfx_collector::swimlane::{SchedPhase, Swimlane};
use std::ffi::CStr;
use std::sync::Arc;

/// Both.
pub(crate) const PLATFORM: Option<Platform> = None;

/// Nothing waits here.
pub(crate) struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> u64 {
        1
    }
    fn relax(&self) {}
}

/// The five collectors. In each method: one thread calls, and what the caller passes lives as long as it is used.
pub(crate) struct Device {
    swimlane: Arc<Swimlane<NoClock>>, // points into itself once launched: a `Box` must not move then
    dump: Dump<NoClock>,
    dep_gen: DepGen<NoClock>,
    pmu: Box<Pmu<NoClock, Mmio>>,
    scopes: Box<ScopeStats<NoClock>>,
}

impl Device {
    pub(crate) fn new() -> Device {
        Device {
            swimlane: Arc::new(Swimlane::new(NoClock)),
            dump: ArgsDump::new(NoClock, tensors::tables()),
            dep_gen: DepGen::new(NoClock),
            pmu: Box::new(Pmu::new(NoClock)),
            scopes: Box::new(ScopeStats::new(NoClock)),
        }
    }

    pub(crate) fn swimlane_init(
        &self,
        geometry: &'static Geometry,
        base: DeviceAddr,
        table: DeviceAddr,
        cores: u32,
        orchestrator: u32,
    ) {
        // SAFETY: see the type.
        unsafe {
            self.swimlane.init(geometry, base, table, cores, None).expect("a region");
            self.swimlane.set_orch_thread(orchestrator);
            self.swimlane.init_phases(1, 1);
            self.swimlane.init_core_assignments(cores);
        }
    }

    pub(crate) fn on_dispatch(&self, core: u32, thread: u32, token: u32) {
        // SAFETY: see the type.
        unsafe { self.swimlane.on_dispatch(core, thread, token) }
    }

    pub(crate) fn on_ack(&self, core: u32, thread: u32, token: u32) {
        // SAFETY: see the type.
        unsafe { self.swimlane.on_ack(core, thread, token) }
    }

    pub(crate) fn complete_task(
        &self,
        core: u32,
        thread: u32,
        token: u32,
        dispatch: u64,
        finish: u64,
    ) -> i32 {
        // SAFETY: see the type.
        unsafe { self.swimlane.complete_task_status(core, thread, token, dispatch, finish) }
    }

    pub(crate) fn sched_phase(
        &self,
        thread: u32,
        kind: u32,
        at: u64,
        n: u32,
        depth_start: [i16; 3],
        depth_end: Option<[i16; 3]>,
    ) {
        let phase = SchedPhase {
            kind: SchedPhaseKind::from_raw(kind).expect("a kind"),
            start: at,
            end: at + 1,
            loop_iter: n,
            tasks: n + 1,
            pop_hit: n + 2,
            pop_miss: n + 3,
            depth_start,
            depth_end: depth_end.unwrap_or_default(),
        };
        // SAFETY: see the type.
        unsafe { self.swimlane.record_sched_phase(thread, &phase) }
    }

    pub(crate) fn dummy_task(&self, thread: u32, at: u64, n: u32, task: u64) {
        // SAFETY: see the type.
        unsafe { self.swimlane.record_dummy_task(thread, at, n, task) }
    }

    pub(crate) fn orch_submit(&self, start: u64, end: u64, task: u64, n: u32) {
        // SAFETY: see the type.
        unsafe { self.swimlane.record_orch_phase(start, end, task, n) }
    }

    pub(crate) fn swimlane_flush(&self, thread: u32, cores: &[u32]) {
        // SAFETY: see the type.
        unsafe {
            self.swimlane.flush(thread, cores);
            self.swimlane.flush_sched_phases(thread);
            self.swimlane.flush_orch_phases();
        }
    }

    pub(crate) fn dump_init(&self, geometry: &'static Geometry, base: DeviceAddr, threads: u32) {
        // SAFETY: see the type.
        unsafe {
            self.dump.set_enabled(true);
            self.dump.init(geometry, base, threads, None).expect("a region");
        }
    }

    pub(crate) fn dump_record(&self, thread: u32, info: &Info) -> bool {
        // SAFETY: see the type.
        unsafe { self.dump.record(thread, info) }
    }

    pub(crate) fn dump_flush(&self, thread: u32) {
        // SAFETY: see the type.
        unsafe { self.dump.flush(thread) }
    }

    pub(crate) fn dep_gen_init(&self, geometry: &'static Geometry, base: DeviceAddr, orchestrator: u32) {
        self.dep_gen.set_enabled(true);
        // SAFETY: see the type.
        unsafe { self.dep_gen.init(geometry, base, None) }.expect("a region");
        self.dep_gen.set_orch_thread(orchestrator);
    }

    #[allow(clippy::too_many_arguments)] // a submit's fields
    pub(crate) fn record_submit(
        &self,
        task_id: u64,
        flags: u32,
        tensors: &[*const Tensor],
        arg_types: &[u8],
        deps: &[u64],
        kernel_ids: &[i32; 3],
        block_num: i32,
    ) {
        let submit = Submit { task_id, flags, tensors, arg_types, deps, kernel_ids, block_num };
        // SAFETY: see the type.
        unsafe { self.dep_gen.record_submit(&submit) }
    }

    pub(crate) fn dep_gen_flush(&self) {
        // SAFETY: see the type.
        unsafe { self.dep_gen.flush() }
    }

    pub(crate) fn pmu_init(&self, geometry: &'static Geometry, base: DeviceAddr, bases: &[u64]) {
        // SAFETY: see the type.
        unsafe {
            let registers = |core: u32| Mmio::new(DeviceAddr(bases[core as usize]));
            self.pmu.init(geometry, base, bases.len() as u32, registers, None).expect("a region");
        }
    }

    pub(crate) fn pmu_record(
        &self,
        core: u32,
        thread: u32,
        token: u32,
        task: u64,
        func: u32,
        core_type: i32,
    ) {
        // SAFETY: see the type; the one that is not the platform's does nothing.
        unsafe {
            self.pmu.record_task(core, thread, task, func, core_type);
            self.pmu.complete_record(core, thread, token, task, func, core_type);
        }
    }

    pub(crate) fn pmu_flush(&self, thread: u32, cores: &[u32]) {
        // SAFETY: see the type.
        unsafe { self.pmu.flush(thread, cores) }
    }

    pub(crate) fn pmu_finalize(&self, cores: &[u32]) {
        // SAFETY: see the type.
        unsafe { self.pmu.finalize(cores) }
    }

    pub(crate) fn scope_init(&self, geometry: &'static Geometry, base: DeviceAddr, orchestrator: u32) {
        self.scopes.set_enabled(true);
        // SAFETY: see the type.
        unsafe { self.scopes.init(geometry, base, None) }.expect("a region");
        self.scopes.set_orch_thread(orchestrator);
    }

    pub(crate) fn scope_ring(&self, ring: i32, window: i32, heap: u64, dep_pool: i32) {
        // SAFETY: see the type.
        unsafe { self.scopes.set_ring_capacity(ring, window, heap, dep_pool) }
    }

    pub(crate) fn scope_site(&self, file: Option<&CStr>, line: i32) {
        let file = file.map_or(std::ptr::null(), |file| file.as_ptr().cast());
        // SAFETY: see the type.
        unsafe { self.scopes.set_pending_site(file, line) }
    }

    pub(crate) fn scope_end_or_begin(&self, begin: bool, of: [i32; 8]) {
        let [ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap] = of;
        let (heap_start, heap_end) = (heap_start as u64, heap_end as u64);
        let sample =
            Sample { ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap };
        // SAFETY: see the type.
        unsafe { if begin { self.scopes.begin(&sample) } else { self.scopes.end(&sample) } }
    }

    pub(crate) fn scope_wrap(&self, side: i32) {
        self.scopes.note_heap_wrap(side);
    }

    pub(crate) fn scope_flush(&self) {
        // SAFETY: see the type.
        unsafe { self.scopes.flush() }
    }
}
