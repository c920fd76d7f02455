//! A runtime of one thread, its cores included, that calls the device library in the order in which the reference's does.

use super::launch::{Plan, TASKS_PER_DUMP, TASKS_PER_SCOPE};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::args_dump::{Info, Kind, Role, Stage};
use dfx_collector::abi::layout::PmuLayout;
use dfx_collector::abi::pmu::AicoreRing;
use dfx_collector::abi::tensor::{DataType, TaskId, Tensor};
use dfx_collector::swimlane::{CoreRecorder, rotation_entry};
use dfx_host_drain::Session;
use dfx_tests::device_library::{Library, PmuRecord};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The physical number of core 0; the others follow.
const PHYSICAL: u32 = 20;

/// Where the device finds things.
pub(crate) struct Regions {
    rotation_table: DeviceAddr,
    pmu: Option<(DeviceAddr, PmuLayout)>,
}

/// Tells the library its regions and switches, as the simulator's host does just before a launch.
pub(crate) fn arm(library: &Library, plan: &Plan, session: &Session) -> Regions {
    let call = &library.call;
    let swimlane = session.swimlane_region();
    let pmu = session.pmu_region();
    let (base, table) = swimlane.map_or((0, 0), |region| (region.base.0, region.rotation_table.0));
    // SAFETY: nothing else runs; the regions are the session's.
    unsafe {
        (call.set_dump_base)(session.dump_region().map_or(0, |region| region.base.0));
        (call.set_dump_enabled)(plan.dump > 0);
        (call.set_swimlane_base)(base);
        (call.set_rotation_table)(table);
        (call.set_swimlane_enabled)(plan.swimlane > 0);
        (call.set_pmu_base)(pmu.map_or(0, |region| region.base.0));
        (call.set_pmu_enabled)(plan.pmu);
        (call.set_dep_gen_base)(session.dep_gen_region().map_or(0, |base| base.0));
        (call.set_dep_gen_enabled)(plan.dep_gen);
        (call.set_scope_enabled)(plan.scopes);
        (call.set_scope_base)(session.scope_stats_region().map_or(0, |base| base.0));
        assert_eq!((call.swimlane_base)(), base);
        assert_eq!((call.rotation_table)(), table);
        assert_eq!((call.is_swimlane_enabled)(), plan.swimlane > 0);
        assert_eq!((call.is_dump_enabled)(), plan.dump > 0);
        assert_eq!((call.is_pmu_enabled)(), plan.pmu);
        assert_eq!((call.is_dep_gen_enabled)(), plan.dep_gen);
        assert_eq!((call.is_scope_enabled)(), plan.scopes);
        assert_eq!((call.dep_gen_base)(), session.dep_gen_region().map_or(0, |base| base.0));
        assert_eq!((call.pmu_base)() != 0, plan.pmu);
        assert_eq!((call.dump_base)() != 0, plan.dump > 0);
    }
    Regions { rotation_table: DeviceAddr(table), pmu: pmu.map(|region| (region.base, region.layout)) }
}

/// A tensor of 4 × 8 u16 that lies transposed.
pub(crate) struct Tensors {
    data: Vec<u16>,
    described: Box<Tensor>,
}

impl Tensors {
    const SHAPE: [u32; 2] = [4, 8];

    fn new() -> Tensors {
        let [rows, columns] = Self::SHAPE;
        let mut data = vec![0u16; 32];
        for row in 0..rows {
            for column in 0..columns {
                data[(column * rows + row) as usize] = (row * 100 + column) as u16;
            }
        }
        let owner_task_id = TaskId { raw: u64::MAX };
        Tensors { data, described: Box::new(Tensor { owner_task_id, ..Tensor::default() }) }
    }

    /// What a dump must have of it.
    pub(crate) fn row_major() -> Vec<u8> {
        let [rows, columns] = Self::SHAPE;
        let values = (0..rows).flat_map(|row| (0..columns).map(move |column| (row * 100 + column) as u16));
        values.flat_map(u16::to_le_bytes).collect()
    }

    fn info(&self, task: u64, kind: Kind) -> Info {
        let [rows, columns] = Self::SHAPE;
        Info {
            task_id: task,
            role: Role::Input as u8,
            stage: Stage::BeforeDispatch as u8,
            dtype: if kind == Kind::Tensor { DataType::Uint16 as u8 } else { DataType::Uint64 as u8 },
            ndims: if kind == Kind::Tensor { 2 } else { 0 },
            arg_index: u32::from(kind == Kind::Scalar),
            buffer_addr: self.data.as_ptr() as u64,
            scalar_value: task,
            func_ids: [3, -1, -1],
            func_count: 1,
            kind: kind as u8,
            shapes: [rows, columns, 0, 0, 0],
            strides: [1, rows, 0, 0, 0],
            ..Info::default()
        }
    }
}

/// The runtime and its cores, on one thread.
pub(crate) struct Device<'a> {
    library: &'a Library,
    plan: &'a Plan,
    regions: &'a Regions,
    cores: Vec<Option<CoreRecorder>>,
    rings: Vec<*mut AicoreRing>,
    tensors: Tensors,
}

impl<'a> Device<'a> {
    pub(crate) fn new(library: &'a Library, plan: &'a Plan, regions: &'a Regions) -> Self {
        Device { library, plan, regions, cores: Vec::new(), rings: Vec::new(), tensors: Tensors::new() }
    }

    /// # Safety
    /// The library is armed with the session's regions, and nothing else calls it.
    pub(crate) unsafe fn init(&mut self) {
        let (call, plan) = (&self.library.call, self.plan);
        let orchestrator = plan.orchestrator();
        // SAFETY: the caller's contract.
        unsafe {
            for core in 0..plan.cores {
                (self.library.stub.set_core)(PHYSICAL + core, true);
            }
            if plan.swimlane > 0 {
                (call.swimlane_init)(plan.cores as i32);
                assert_eq!((call.swimlane_level)(), plan.swimlane);
            }
            (call.swimlane_orch_thread)(orchestrator);
            if plan.swimlane >= 3 {
                (call.init_phase)(plan.cores as i32, plan.schedulers as i32, 1);
                (call.init_assignments)(plan.cores as i32);
                for thread in 0..plan.schedulers as i32 {
                    let cores = plan.cores_of(thread);
                    (call.write_assignments)(thread, cores.as_ptr(), cores.len() as i32);
                }
            }
            if plan.dump > 0 {
                (call.dump_init)(plan.schedulers as i32 + 1);
                assert_eq!((call.is_selective)(), plan.dump == 1);
                assert_eq!((call.should_load_masks)(), plan.dump & 1 == 1);
            }
            if plan.pmu {
                let physical: Vec<u32> = (0..plan.cores).map(|core| PHYSICAL + core).collect();
                (call.pmu_init)(physical.as_ptr(), plan.cores as i32);
            }
            (call.dep_gen_orch_thread)(orchestrator);
            if plan.dep_gen {
                (call.dep_gen_init)();
            }
            (call.scope_orch_thread)(orchestrator);
            (call.ring_capacity)(1, 100, 1 << 20, 50);
            (call.tensormap_capacity)(1000);

            let word = |at: DeviceAddr| AtomicU64::from_ptr(at.0 as *mut u64);
            for core in 0..plan.cores {
                self.cores.push(match plan.swimlane {
                    0 => None,
                    _ => {
                        let entry = rotation_entry(self.regions.rotation_table, core).0 as *const AtomicU64;
                        Some(CoreRecorder::attach(entry).expect("init has filled the table"))
                    }
                });
                if let Some((base, layout)) = &self.regions.pmu
                    && let Some(ring) = layout.ring_ptr
                {
                    let at = base.offset((layout.lane(core) + ring) as u64);
                    self.rings.push(word(at).load(Ordering::Relaxed) as *mut AicoreRing);
                }
            }
        }
    }

    /// One task from its submit to its end.
    ///
    /// # Safety
    /// As [`init`](Self::init).
    pub(crate) unsafe fn task(&mut self, task: u32) {
        let (call, plan) = (&self.library.call, self.plan);
        let (id, at) = (u64::from(task), 10 * u64::from(task) + 10);
        let core = task % plan.cores;
        let (thread, token) = (plan.thread_of(core), task / plan.cores);
        // SAFETY: the caller's contract.
        unsafe {
            self.submit(task, at);
            if plan.swimlane > 0 {
                (call.on_dispatch)(core as i32, thread, token);
            }
            let recorder = self.cores[core as usize].as_mut();
            let slot = recorder.map(CoreRecorder::reserve);
            if plan.swimlane > 0 {
                (call.on_ack)(core as i32, thread, token);
            }
            self.leave_counters(core, token);
            if let Some(slot) = slot {
                CoreRecorder::commit(slot, at + 2, at + 5, id, token, at + 1);
            }
            if plan.swimlane >= 2 {
                assert_eq!((call.complete_task)(core as i32, thread, token, at, at + 6), 0);
            }
            if plan.swimlane >= 3 {
                let depths = [1i16, 2, 3];
                (call.sched_phase)(thread, 1, at, at + 1, task, 1, 2, 3, depths.as_ptr(), null());
                (call.dummy_task)(thread, at, task, id);
                (call.predicated_skip)(thread, at, task, id);
                (call.graph_prepare)(thread, at, at + 1, task, id, 7);
            }
            if plan.pmu {
                let (core, func) = (core as i32, task % 5);
                match &self.library.pmu {
                    PmuRecord::A2a3(pmu) => (pmu.record)(core, thread, id, func, i32::from(core % 3 != 0)),
                    PmuRecord::A5(pmu) => {
                        (pmu.record)(core, thread, token, id, func, i32::from(core % 3 != 0))
                    }
                }
            }
            if plan.dump > 0 && task.is_multiple_of(TASKS_PER_DUMP) {
                self.dump(id, thread);
            }
        }
    }

    /// # Safety
    /// As [`init`](Self::init).
    unsafe fn submit(&self, task: u32, at: u64) {
        let (call, plan) = (&self.library.call, self.plan);
        let id = u64::from(task);
        let heap = u64::from(task) * 64;
        // SAFETY: the caller's contract.
        unsafe {
            if task.is_multiple_of(TASKS_PER_SCOPE) {
                (call.pending_site)(c"/somewhere/else/orch.cpp".as_ptr(), 42);
                (call.scope_begin)(1, 0, task as i32, heap, heap + 32, 0, 1, 3);
                if plan.scopes {
                    assert_eq!(self.library.scope_depth(), 0);
                }
                (call.note_heap_wrap)(0);
                (call.scope_end)(1, 0, task as i32, heap, heap + 32, 0, 1, 3);
                assert_eq!(self.library.scope_depth(), -1);
            }
            let tensor: *const Tensor = &*self.tensors.described;
            let tensors = [tensor.cast::<c_void>(), null()];
            let types = [0u8, 4];
            let deps = [id.wrapping_sub(1)];
            let kernels = [task as i32 % 5, -1, -1];
            (call.record_submit)(
                id,
                false,
                task.is_multiple_of(2),
                2,
                tensors.as_ptr(),
                types.as_ptr(),
                i32::from(task > 0),
                deps.as_ptr(),
                1,
                kernels.as_ptr(),
            );
            if plan.swimlane >= 4 {
                (call.orch_phase)(at, at + 1, id, task);
            }
        }
    }

    /// What a core of a5 leaves for AICPU.
    ///
    /// # Safety
    /// As [`init`](Self::init).
    unsafe fn leave_counters(&self, core: u32, token: u32) {
        let Some(ring) = self.rings.get(core as usize) else { return };
        // SAFETY: the ring is the session's, and reached as atomics.
        unsafe {
            let slot = &raw mut (**ring).dual_issue_slots[token as usize % 2];
            AtomicU32::from_ptr(&raw mut (*slot).pmu_counters[0]).store(token, Ordering::Relaxed);
            AtomicU64::from_ptr(&raw mut (*slot).task_id).store(u64::from(token), Ordering::Release);
        }
    }

    /// A tensor and a scalar, as far as they are wanted.
    ///
    /// # Safety
    /// As [`init`](Self::init).
    unsafe fn dump(&self, task: u64, thread: i32) {
        let call = &self.library.call;
        // SAFETY: the caller's contract.
        unsafe {
            if self.plan.dump == 1 && (task / u64::from(TASKS_PER_DUMP)).is_multiple_of(2) {
                (call.set_task_mask)(task, 1, 0);
            }
            let mut mask = 0;
            if (call.should_load_masks)() {
                (call.task_masks)(task, &mut mask, null_mut());
            }
            if !(call.should_dump_task)(mask) {
                return;
            }
            for (index, kind) in [(0, Kind::Tensor), (1, Kind::Scalar)] {
                if (call.should_dump_arg)(mask, index) {
                    assert_eq!((call.dump_record)(thread, &self.tensors.info(task, kind)), 0);
                }
            }
        }
    }

    /// The end of every thread.
    ///
    /// # Safety
    /// As [`init`](Self::init).
    pub(crate) unsafe fn finish(&self) {
        let (call, plan) = (&self.library.call, self.plan);
        if !plan.flush {
            return;
        }
        // SAFETY: the caller's contract.
        unsafe {
            for thread in 0..=plan.orchestrator() {
                let cores = plan.cores_of(thread);
                let (list, n) = (cores.as_ptr(), cores.len() as i32);
                (call.swimlane_flush)(thread, list, n);
                (call.flush_sched_phases)(thread);
                if plan.dump > 0 {
                    (call.dump_flush)(thread);
                }
                if plan.pmu {
                    (call.pmu_flush)(thread, list, n);
                    (call.pmu_finalize)(list, n);
                }
            }
            (call.flush_orch_phases)(plan.orchestrator());
            (call.dep_gen_flush)();
            (call.dep_gen_finalize)();
            (call.scope_flush)();
        }
    }
}
