//! dep_gen: every submit, with its tensors and the dependencies it named.
#![allow(non_camel_case_types)] // the names are C's

use super::dfx_device_status_e::{self, *};
use super::list;
use crate::clock;
use crate::state::{DEP_GEN, GEOMETRY};
use core::ffi::c_void;
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::task::{NO_KERNEL, SUBTASK_SLOTS};
use dfx_collector::abi::tensor::{MAX_TENSOR_ARGS, Tensor};
use dfx_collector::dep_gen::Submit;

/// The submit was made in a manual scope: no dependency is inferred.
pub const DFX_SUBMIT_MANUAL_SCOPE: u32 = 1;
/// The task may be written to a core before its producers end.
pub const DFX_SUBMIT_EARLY_DISPATCH: u32 = 16;

/// One submit. All that it points to is read during the call and not kept.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_submit_t {
    /// The submitted task.
    pub task_id: u64,
    /// `DFX_SUBMIT_*` bits.
    pub flags: u32,
    /// Blocks of the task; less than 1 counts as 1.
    pub block_num: i32,
    /// Its tensors, at most 32: each points to the 128 bytes of the runtime's `ChipTensor`, at any alignment, or is null.
    pub tensors: *const *const c_void,
    /// How it uses each tensor, a number of the runtime's `TensorArgType` each.
    pub arg_types: *const u8,
    /// Entries of `tensors` and `arg_types`.
    pub tensor_count: u32,
    /// Entries of `deps`.
    pub dep_count: u32,
    /// The task ids that the caller named, in order.
    pub deps: *const u64,
    /// The kernels (AIC, AIV0, AIV1); -1 for none.
    pub kernel_ids: [i32; 3],
}

const _: () = assert!(SUBTASK_SLOTS == 3 && NO_KERNEL == -1);

/// Turns the recording of submits on or off: at once if dep_gen is initialised, or with the next init.
///
/// While the orchestrator records nothing.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dep_gen_set_enabled(enabled: bool) {
    DEP_GEN.set_enabled(enabled);
}

/// Whether submits are recorded. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dep_gen_recording() -> bool {
    DEP_GEN.recording()
}

/// Initialises for a launch on the region at `base`, a device address that the host gave out and that stays the host's;
/// `orch_thread` is the thread whose ready queue carries the buffers. Takes a buffer if one is there, waits for none. On an
/// error nothing is recorded.
///
/// # Safety
/// `base` is 0 or a dep_gen region of this platform that stays mapped for the launch; nothing else of dep_gen is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dep_gen_init(base: u64, orch_thread: u32) -> dfx_device_status_e {
    if !clock::is_set() {
        return DFX_DEVICE_NO_CLOCK;
    }
    // SAFETY: passed on.
    let outcome = unsafe { DEP_GEN.init(GEOMETRY, DeviceAddr(base), None) };
    DEP_GEN.set_orch_thread(orch_thread);
    if outcome.is_ok() { DFX_DEVICE_OK } else { DFX_DEVICE_NO_REGION }
}

/// Records one submit. More tensors than 32, or more dependencies than a buffer holds, are cut, and the record says so. It
/// waits for the host when there is no room, within the launch's budget; then the submit is dropped and counted.
///
/// # Safety
/// Called by the orchestrator's thread. `submit` is null or what its fields say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dep_gen_record(submit: *const dfx_submit_t) {
    if !DEP_GEN.recording() {
        return;
    }
    // SAFETY: the caller's contract.
    unsafe {
        let Some(submit) = submit.as_ref() else { return };
        let tensors = list(submit.tensors.cast::<*const Tensor>(), submit.tensor_count);
        let types = list(submit.arg_types, submit.tensor_count.min(MAX_TENSOR_ARGS as u32));
        DEP_GEN.record_submit_now(&Submit {
            task_id: submit.task_id,
            flags: submit.flags,
            tensors,
            arg_types: types,
            deps: list(submit.deps, submit.dep_count),
            kernel_ids: &submit.kernel_ids,
            block_num: submit.block_num,
        });
    }
}

/// Publishes what there is. What cannot be published stays where the host finds it. The last call of a launch.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dep_gen_flush() {
    // SAFETY: passed on.
    unsafe { DEP_GEN.flush() }
}

/// Makes the counts visible without publishing: before every abnormal exit.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dep_gen_sync() {
    // SAFETY: passed on.
    unsafe { DEP_GEN.sync() }
}

/// Publications for which there was no orchestrator thread, since the last init. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dep_gen_misused() -> u32 {
    DEP_GEN.misused()
}

/// Off, and without a region: nothing is recorded until it is enabled and initialised again. The region may go.
///
/// # Safety
/// Nothing else of dep_gen is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dep_gen_reset() {
    // SAFETY: passed on.
    unsafe { DEP_GEN.reset() }
}
