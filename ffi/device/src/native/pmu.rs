//! The PMU: each core's hardware counters, task by task.
#![allow(non_camel_case_types)] // the names are C's

use super::dfx_device_status_e::{self, *};
use super::list;
use crate::clock;
use crate::registers::{self, NativeRegisters};
use crate::state::{GEOMETRY, NATIVE_PMU};
use dfx_collector::abi::DeviceAddr;

/// Reads the 32-bit register at `offset` bytes from a core's register base; reading a counter clears it.
pub type dfx_register_read_f = Option<unsafe extern "C" fn(base: u64, offset: u32) -> u32>;

/// Writes the 32-bit register at `offset` bytes from a core's register base.
pub type dfx_register_write_f = Option<unsafe extern "C" fn(base: u64, offset: u32, value: u32)>;

/// Sets how registers are reached. Unless both are given they are memory at their base address.
///
/// While nothing of the PMU is running.
///
/// # Safety
/// The functions may be called for as long as the PMU records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_pmu_set_registers(read: dfx_register_read_f, write: dfx_register_write_f) {
    registers::set(read.zip(write));
}

/// Initialises the PMU for a launch on the region at `base`, a device address that the host gave out and that stays the
/// host's: reads the event type from its header, opens the lanes of cores 0 to `cores` − 1, and of each core that has a
/// register base (not 0) in `register_bases`, selects the events, clears the counters and turns them on. Takes the buffers
/// that are there, waits for none. On an error nothing is recorded.
///
/// # Safety
/// `base` is 0 or a PMU region of this platform that stays mapped for the launch; `register_bases` is null (no core has
/// registers) or points to `cores` bases, which stay valid for the launch; nothing else of the PMU is running, and no core
/// runs a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_pmu_init(
    base: u64,
    register_bases: *const u64,
    cores: u32,
) -> dfx_device_status_e {
    use dfx_collector::pmu::InitError;
    if !clock::is_set() {
        return DFX_DEVICE_NO_CLOCK;
    }
    // A count that will be refused must not be believed here.
    // SAFETY: the caller's contract.
    let bases = unsafe { list(register_bases, cores.min(GEOMETRY.max_cores)) };
    // SAFETY: as above.
    let registers = |core: u32| unsafe { NativeRegisters::new(*bases.get(core as usize)?) };
    // SAFETY: passed on.
    match unsafe { NATIVE_PMU.init(GEOMETRY, DeviceAddr(base), cores, registers, None) } {
        Ok(()) => DFX_DEVICE_OK,
        Err(InitError::NoRegion { .. }) => DFX_DEVICE_NO_REGION,
        Err(InitError::Cores { .. }) => DFX_DEVICE_TOO_MANY,
    }
}

/// Whether tasks are recorded. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_pmu_recording() -> bool {
    NATIVE_PMU.recording()
}

/// Records the task that has just finished on `core`: on a2a3 by reading the core's counters; on a5 from what the core left
/// in its ring for `token`, if that is there. `core_type`: 0 AIC, 1 AIV. A task without counters is counted. It waits for the
/// host when there is no room, within the launch's budget; then the record is dropped and counted.
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_pmu_record(
    core: u32,
    thread: u32,
    token: u32,
    task: u64,
    func_id: u32,
    core_type: i32,
) {
    #[cfg(dfx_platform = "a2a3")]
    // SAFETY: passed on.
    unsafe {
        _ = token;
        NATIVE_PMU.record_task(core, thread, task, func_id, core_type);
    }
    #[cfg(dfx_platform = "a5")]
    // SAFETY: passed on.
    unsafe {
        NATIVE_PMU.complete_record(core, thread, token, task, func_id, core_type);
    }
}

/// Publishes what the lanes of the `n` cores hold. What cannot be published stays where the host finds it.
///
/// # Safety
/// Called by `thread`, whose cores these are; `cores` is null or points to `n` core numbers, which are not kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_pmu_flush(thread: u32, cores: *const u32, n: u32) {
    // SAFETY: passed on.
    unsafe { NATIVE_PMU.flush(thread, list(cores, n)) }
}

/// Makes the counts of the `n` cores visible without publishing: before every abnormal exit.
///
/// # Safety
/// As `dfx_pmu_flush`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_pmu_sync(cores: *const u32, n: u32) {
    // SAFETY: passed on.
    unsafe { NATIVE_PMU.sync(list(cores, n)) }
}

/// Puts the control registers of the `n` cores back to what init found in them. The last call of a launch.
///
/// # Safety
/// Called by the thread whose cores these are, while their registers are still there; `cores` is null or points to `n` core
/// numbers, which are not kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_pmu_finalize(cores: *const u32, n: u32) {
    // SAFETY: passed on.
    unsafe { NATIVE_PMU.finalize(list(cores, n)) }
}

/// Calls since the last init that named a core or a thread that there is not; they recorded nothing. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_pmu_misused() -> u32 {
    NATIVE_PMU.misused()
}

/// Turns everything off: nothing is recorded until the next init. Registers are not touched. The region may go.
///
/// # Safety
/// Nothing else of the PMU is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_pmu_reset() {
    // SAFETY: passed on.
    unsafe { NATIVE_PMU.reset() }
}
