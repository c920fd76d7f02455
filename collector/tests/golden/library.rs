//! The same calls, made to the device library through its C functions. It was built for one platform, which it says.

use dfx_collector::abi::args_dump::Info;
use dfx_collector::abi::tensor::Tensor;
use dfx_collector::abi::{DeviceAddr, Geometry, Platform};
use std::ffi::{CStr, c_char};

/// The library's.
pub(crate) const PLATFORM: Option<Platform> =
    Some(if cfg!(device_library_a5) { Platform::A5 } else { Platform::A2a3 });

#[repr(C)]
struct Submit {
    task_id: u64,
    flags: u32,
    block_num: i32,
    tensors: *const *const Tensor,
    arg_types: *const u8,
    tensor_count: u32,
    dep_count: u32,
    deps: *const u64,
    kernel_ids: [i32; 3],
}

#[repr(C)]
struct Sample {
    heap_start: u64,
    heap_end: u64,
    ring: i32,
    task_start: i32,
    task_end: i32,
    dep_start: i32,
    dep_end: i32,
    tensormap: i32,
}

unsafe extern "C" {
    fn dfx_device_abi_check(version: u32, platform: u32) -> bool;
    fn dfx_device_set_clock(
        counter: Option<unsafe extern "C" fn() -> u64>,
        relax: Option<unsafe extern "C" fn()>,
    );
    fn dfx_swimlane_init(base: u64, table: u64, cores: u32) -> i32;
    fn dfx_swimlane_init_phases(sched_threads: u32, orch_thread: u32, cores: u32);
    fn dfx_swimlane_on_dispatch(core: u32, thread: u32, token: u32);
    fn dfx_swimlane_on_ack(core: u32, thread: u32, token: u32);
    fn dfx_swimlane_complete_task(core: u32, thread: u32, token: u32, dispatch: u64, finish: u64) -> i32;
    fn dfx_swimlane_sched_phase(
        thread: u32,
        kind: u32,
        start: u64,
        end: u64,
        loop_iter: u32,
        tasks: u32,
        pop_hit: u32,
        pop_miss: u32,
        depth_start: *const i16,
        depth_end: *const i16,
    );
    fn dfx_swimlane_dummy_task(thread: u32, at: u64, n: u32, task: u64);
    fn dfx_swimlane_orch_submit(start: u64, end: u64, task: u64, n: u32);
    fn dfx_swimlane_flush(thread: u32, cores: *const u32, n: u32, orchestrator: bool);
    fn dfx_dump_set_enabled(enabled: bool);
    fn dfx_dump_init(base: u64, threads: u32) -> i32;
    fn dfx_dump_record(thread: u32, info: *const Info) -> bool;
    fn dfx_dump_flush(thread: u32);
    fn dfx_dep_gen_set_enabled(enabled: bool);
    fn dfx_dep_gen_init(base: u64, orch_thread: u32) -> i32;
    fn dfx_dep_gen_record(submit: *const Submit);
    fn dfx_dep_gen_flush();
    fn dfx_pmu_init(base: u64, bases: *const u64, cores: u32) -> i32;
    fn dfx_pmu_record(core: u32, thread: u32, token: u32, task: u64, func: u32, core_type: i32);
    fn dfx_pmu_flush(thread: u32, cores: *const u32, n: u32);
    fn dfx_pmu_finalize(cores: *const u32, n: u32);
    fn dfx_scope_set_enabled(enabled: bool);
    fn dfx_scope_init(base: u64, orch_thread: u32) -> i32;
    fn dfx_scope_set_ring_capacity(ring: i32, window: i32, heap: u64, dep_pool: i32);
    fn dfx_scope_set_site(file: *const c_char, line: i32);
    fn dfx_scope_begin(sample: *const Sample);
    fn dfx_scope_end(sample: *const Sample);
    fn dfx_scope_note_heap_wrap(side: u32);
    fn dfx_scope_flush();
}

unsafe extern "C" fn one() -> u64 {
    1
}

/// The library. In each method: one thread calls, and what the caller passes lives as long as it is used.
pub(crate) struct Device;

impl Device {
    pub(crate) fn new() -> Device {
        // SAFETY: see the type.
        unsafe {
            assert!(dfx_device_abi_check(1, u32::from(cfg!(device_library_a5))));
            dfx_device_set_clock(Some(one), None);
        }
        Device
    }

    pub(crate) fn swimlane_init(
        &self,
        _geometry: &'static Geometry,
        base: DeviceAddr,
        table: DeviceAddr,
        cores: u32,
        orchestrator: u32,
    ) {
        // SAFETY: see the type.
        unsafe {
            assert_eq!(dfx_swimlane_init(base.0, table.0, cores), 0);
            dfx_swimlane_init_phases(1, orchestrator, cores);
        }
    }

    pub(crate) fn on_dispatch(&self, core: u32, thread: u32, token: u32) {
        // SAFETY: see the type.
        unsafe { dfx_swimlane_on_dispatch(core, thread, token) }
    }

    pub(crate) fn on_ack(&self, core: u32, thread: u32, token: u32) {
        // SAFETY: see the type.
        unsafe { dfx_swimlane_on_ack(core, thread, token) }
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
        unsafe { dfx_swimlane_complete_task(core, thread, token, dispatch, finish) }
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
        let end = depth_end.as_ref().map_or(std::ptr::null(), |depth| depth.as_ptr());
        // SAFETY: see the type.
        unsafe {
            dfx_swimlane_sched_phase(
                thread,
                kind,
                at,
                at + 1,
                n,
                n + 1,
                n + 2,
                n + 3,
                depth_start.as_ptr(),
                end,
            )
        }
    }

    pub(crate) fn dummy_task(&self, thread: u32, at: u64, n: u32, task: u64) {
        // SAFETY: see the type.
        unsafe { dfx_swimlane_dummy_task(thread, at, n, task) }
    }

    pub(crate) fn orch_submit(&self, start: u64, end: u64, task: u64, n: u32) {
        // SAFETY: see the type.
        unsafe { dfx_swimlane_orch_submit(start, end, task, n) }
    }

    pub(crate) fn swimlane_flush(&self, thread: u32, cores: &[u32]) {
        // SAFETY: see the type.
        unsafe { dfx_swimlane_flush(thread, cores.as_ptr(), cores.len() as u32, true) }
    }

    pub(crate) fn dump_init(&self, _geometry: &'static Geometry, base: DeviceAddr, threads: u32) {
        // SAFETY: see the type.
        unsafe {
            dfx_dump_set_enabled(true);
            assert_eq!(dfx_dump_init(base.0, threads), 0);
        }
    }

    pub(crate) fn dump_record(&self, thread: u32, info: &Info) -> bool {
        // SAFETY: see the type.
        unsafe { dfx_dump_record(thread, info) }
    }

    pub(crate) fn dump_flush(&self, thread: u32) {
        // SAFETY: see the type.
        unsafe { dfx_dump_flush(thread) }
    }

    pub(crate) fn dep_gen_init(&self, _geometry: &'static Geometry, base: DeviceAddr, orchestrator: u32) {
        // SAFETY: see the type.
        unsafe {
            dfx_dep_gen_set_enabled(true);
            assert_eq!(dfx_dep_gen_init(base.0, orchestrator), 0);
        }
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
        let submit = Submit {
            task_id,
            flags,
            block_num,
            tensors: tensors.as_ptr(),
            arg_types: arg_types.as_ptr(),
            tensor_count: tensors.len() as u32,
            dep_count: deps.len() as u32,
            deps: deps.as_ptr(),
            kernel_ids: *kernel_ids,
        };
        // SAFETY: see the type.
        unsafe { dfx_dep_gen_record(&submit) }
    }

    pub(crate) fn dep_gen_flush(&self) {
        // SAFETY: see the type.
        unsafe { dfx_dep_gen_flush() }
    }

    pub(crate) fn pmu_init(&self, _geometry: &'static Geometry, base: DeviceAddr, bases: &[u64]) {
        // SAFETY: see the type.
        unsafe { assert_eq!(dfx_pmu_init(base.0, bases.as_ptr(), bases.len() as u32), 0) }
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
        // SAFETY: see the type.
        unsafe { dfx_pmu_record(core, thread, token, task, func, core_type) }
    }

    pub(crate) fn pmu_flush(&self, thread: u32, cores: &[u32]) {
        // SAFETY: see the type.
        unsafe { dfx_pmu_flush(thread, cores.as_ptr(), cores.len() as u32) }
    }

    pub(crate) fn pmu_finalize(&self, cores: &[u32]) {
        // SAFETY: see the type.
        unsafe { dfx_pmu_finalize(cores.as_ptr(), cores.len() as u32) }
    }

    pub(crate) fn scope_init(&self, _geometry: &'static Geometry, base: DeviceAddr, orchestrator: u32) {
        // SAFETY: see the type.
        unsafe {
            dfx_scope_set_enabled(true);
            assert_eq!(dfx_scope_init(base.0, orchestrator), 0);
        }
    }

    pub(crate) fn scope_ring(&self, ring: i32, window: i32, heap: u64, dep_pool: i32) {
        // SAFETY: see the type.
        unsafe { dfx_scope_set_ring_capacity(ring, window, heap, dep_pool) }
    }

    pub(crate) fn scope_site(&self, file: Option<&CStr>, line: i32) {
        // SAFETY: see the type.
        unsafe { dfx_scope_set_site(file.map_or(std::ptr::null(), CStr::as_ptr), line) }
    }

    pub(crate) fn scope_end_or_begin(&self, begin: bool, of: [i32; 8]) {
        let [ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap] = of;
        let (heap_start, heap_end) = (heap_start as u64, heap_end as u64);
        let sample =
            Sample { heap_start, heap_end, ring, task_start, task_end, dep_start, dep_end, tensormap };
        // SAFETY: see the type.
        unsafe { if begin { dfx_scope_begin(&sample) } else { dfx_scope_end(&sample) } }
    }

    pub(crate) fn scope_wrap(&self, side: i32) {
        // SAFETY: see the type.
        unsafe { dfx_scope_note_heap_wrap(side as u32) }
    }

    pub(crate) fn scope_flush(&self) {
        // SAFETY: see the type.
        unsafe { dfx_scope_flush() }
    }
}
