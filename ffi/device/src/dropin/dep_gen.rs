//! dep_gen's 9 names.

use super::{list, start_clock};
use crate::log;
use crate::state::{DEP_GEN, GEOMETRY};
use core::slice::from_raw_parts;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::dep_gen::flags;
use dfx_collector::abi::task::{NO_KERNEL, SUBTASK_SLOTS};
use dfx_collector::abi::tensor::{MAX_TENSOR_ARGS, Tensor};
use dfx_collector::dep_gen::Submit;

static BASE: AtomicU64 = AtomicU64::new(0);
/// What the runtime said last; no thread has this number.
static ORCH_THREAD: AtomicU32 = AtomicU32::new(NO_THREAD);
const NO_THREAD: u32 = u32::MAX;
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Remembers the region; 0: none.
#[unsafe(no_mangle)]
extern "C" fn set_platform_dep_gen_base(base: u64) {
    BASE.store(base, Relaxed);
}

/// The region that was set.
#[unsafe(no_mangle)]
extern "C" fn get_platform_dep_gen_base() -> u64 {
    BASE.load(Relaxed)
}

/// Turns the recording of submits on or off.
#[unsafe(no_mangle)]
extern "C" fn set_dep_gen_enabled(enabled: bool) {
    DEP_GEN.set_enabled(enabled);
}

/// The switch. One of the five names for which the runtime has a weak fallback.
#[unsafe(no_mangle)]
extern "C" fn is_dep_gen_enabled() -> bool {
    DEP_GEN.is_enabled()
}

/// Names the orchestrator's thread, until [`finalize`].
#[unsafe(export_name = "_Z33dep_gen_aicpu_set_orch_thread_idxi")]
extern "C" fn set_orch_thread(thread: i32) {
    ORCH_THREAD.store(thread as u32, Relaxed);
    DEP_GEN.set_orch_thread(thread as u32);
}

/// Initialises for a launch.
///
/// # Safety
/// The base that was set is 0 or a region of this platform; nothing else of dep_gen is running.
#[unsafe(export_name = "_Z18dep_gen_aicpu_initv")]
unsafe extern "C" fn init() {
    start_clock();
    TOLD.store(0, Relaxed);
    // SAFETY: the caller's contract.
    let outcome = unsafe { DEP_GEN.init(GEOMETRY, DeviceAddr(BASE.load(Relaxed)), None) };
    DEP_GEN.set_orch_thread(ORCH_THREAD.load(Relaxed));
    if outcome.is_err() {
        log::error(c"dep_gen_aicpu_init", c"no region base was set; no submit is recorded", [0; 2]);
    }
}

/// Records a submit. Odd counts are cut to what there can be; null lists are empty, a null tensor is one of zeroes, null
/// kernels are none. One of the five names for which the runtime has a weak fallback.
///
/// The switch in front, so that the call that records nothing touches nothing; the rest is a jump.
///
/// # Safety
/// Called by the orchestrator's thread. Each list is null or has what its count says; each tensor is null or 128 bytes.
#[unsafe(export_name = "_Z27dep_gen_aicpu_record_submitmbbiPKPKvPKhiPKmiPKi")]
unsafe extern "C" fn record_submit(
    task_id: u64,
    manual_scope: bool,
    early_dispatch: bool,
    tensor_count: i32,
    tensors: *const *const Tensor,
    arg_types: *const u8,
    dep_count: i32,
    deps: *const u64,
    block_num: i32,
    kernel_ids: *const [i32; SUBTASK_SLOTS],
) {
    if DEP_GEN.recording() {
        // SAFETY: passed on. The flags are put together here, where the values are still truth values.
        unsafe {
            submit(
                task_id,
                u32::from(manual_scope) * flags::IN_MANUAL_SCOPE,
                u32::from(early_dispatch) * flags::EARLY_DISPATCH,
                tensor_count,
                tensors,
                arg_types,
                dep_count,
                deps,
                block_num,
                kernel_ids,
            )
        }
    }
}

/// No kernels were given.
static NO_KERNELS: [i32; SUBTASK_SLOTS] = [NO_KERNEL; SUBTASK_SLOTS];

#[inline(never)]
unsafe extern "C" fn submit(
    task_id: u64,
    manual_scope: u32,
    early_dispatch: u32,
    tensor_count: i32,
    tensors: *const *const Tensor,
    arg_types: *const u8,
    dep_count: i32,
    deps: *const u64,
    block_num: i32,
    kernel_ids: *const [i32; SUBTASK_SLOTS],
) {
    let kernel_ids = if kernel_ids.is_null() { &raw const NO_KERNELS } else { kernel_ids };
    // What an odd count or a missing list means is no matter of the hot path.
    if tensor_count as u32 > MAX_TENSOR_ARGS as u32
        || tensors.is_null()
        || arg_types.is_null()
        || dep_count < 0
        || deps.is_null()
    {
        let flags = manual_scope | early_dispatch;
        // SAFETY: passed on.
        return unsafe {
            submit_odd(
                task_id,
                flags,
                tensor_count,
                tensors,
                arg_types,
                dep_count,
                deps,
                block_num,
                kernel_ids,
            )
        };
    }
    // SAFETY: the caller's contract: the lists are not null and have what the counts say, which are not negative.
    unsafe {
        DEP_GEN.record_submit_now(&Submit {
            task_id,
            flags: manual_scope | early_dispatch,
            tensors: from_raw_parts(tensors, tensor_count as u32 as usize),
            arg_types: from_raw_parts(arg_types, tensor_count as u32 as usize),
            deps: from_raw_parts(deps, dep_count as u32 as usize),
            kernel_ids: &*kernel_ids,
            block_num,
        });
    }
}

/// A submit with a count that cannot be, or without a list: the same with one that can, or an empty one.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)] // the runtime's own signature
unsafe fn submit_odd(
    task_id: u64,
    flags: u32,
    tensor_count: i32,
    tensors: *const *const Tensor,
    arg_types: *const u8,
    dep_count: i32,
    deps: *const u64,
    block_num: i32,
    kernel_ids: *const [i32; SUBTASK_SLOTS],
) {
    let tensor_count = if arg_types.is_null() { 0 } else { tensor_count.min(MAX_TENSOR_ARGS as i32) };
    // SAFETY: the caller's contract.
    unsafe {
        let tensors = list(tensors, tensor_count);
        let arg_types = list(arg_types, tensors.len() as i32);
        let deps = list(deps, dep_count);
        submit(
            task_id,
            flags,
            0,
            tensors.len() as i32,
            tensors.as_ptr(),
            arg_types.as_ptr(),
            deps.len() as i32,
            deps.as_ptr(),
            block_num,
            kernel_ids,
        );
    }
}

/// Publishes what there is.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(export_name = "_Z19dep_gen_aicpu_flushv")]
unsafe extern "C" fn flush() {
    // Off, the region may be an earlier launch's.
    if DEP_GEN.recording() {
        // SAFETY: passed on.
        unsafe { DEP_GEN.flush() }
    }
    log::misuse(c"dep_gen_aicpu_flush", &TOLD, DEP_GEN.misused());
}

/// Lets go of the region and forgets the orchestrator's thread. Shared memory is not touched.
///
/// # Safety
/// Nothing else of dep_gen is running.
#[unsafe(export_name = "_Z22dep_gen_aicpu_finalizev")]
unsafe extern "C" fn finalize() {
    ORCH_THREAD.store(NO_THREAD, Relaxed);
    // SAFETY: passed on.
    unsafe { DEP_GEN.finalize() }
}
