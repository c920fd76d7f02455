//! The PMU's 8 names; the recording one differs by platform.
//!
//! None of them asks the switch, as in the reference: the runtime calls only while it is on. But turning it off lets go of
//! the launch before.

use super::{list, start_clock};
use crate::log;
use crate::registers::RuntimeRegisters;
use crate::state::{GEOMETRY, RUNTIME_PMU as PMU};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::pmu::InitError;

unsafe extern "C" {
    /// The address of the table of the physical cores' register bases.
    #[cfg_attr(dfx_platform = "a2a3", link_name = "get_platform_pmu_reg_addrs")]
    #[cfg_attr(dfx_platform = "a5", link_name = "get_platform_regs")]
    fn register_bases() -> u64;
}

static BASE: AtomicU64 = AtomicU64::new(0);
static ENABLED: AtomicBool = AtomicBool::new(false);
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Remembers the region; 0: none.
#[unsafe(no_mangle)]
extern "C" fn set_platform_pmu_base(base: u64) {
    BASE.store(base, Relaxed);
}

/// The region that was set.
#[unsafe(no_mangle)]
extern "C" fn get_platform_pmu_base() -> u64 {
    BASE.load(Relaxed)
}

/// Remembers the switch. Turning it off ends what an earlier launch left open.
///
/// # Safety
/// No other function of the PMU is running when the switch changes.
#[unsafe(no_mangle)]
unsafe extern "C" fn set_pmu_enabled(enabled: bool) {
    let was = ENABLED.load(Relaxed);
    ENABLED.store(enabled, Relaxed);
    if was && !enabled {
        // SAFETY: the caller's contract.
        unsafe { PMU.reset() }
    }
}

/// The switch.
#[unsafe(no_mangle)]
extern "C" fn is_pmu_enabled() -> bool {
    ENABLED.load(Relaxed)
}

/// Initialises for a launch on the `n` cores with these physical numbers: selects the events of the region's header, clears
/// the counters and turns them on. A core without registers is warned about.
///
/// # Safety
/// The base that was set is 0 or a region of this platform, `physical` is null or points to `n` numbers, each with an entry
/// in the runtime's table of register bases if there is one; nothing else of the PMU is running, and no core runs a task.
#[unsafe(export_name = "_Z14pmu_aicpu_initPKji")]
unsafe extern "C" fn init(physical: *const u32, n: i32) {
    const FUNC: &core::ffi::CStr = c"pmu_aicpu_init";
    start_clock();
    TOLD.store(0, Relaxed);
    let base = DeviceAddr(BASE.load(Relaxed));
    // A count that will be refused must not be believed here.
    let known = n.min(GEOMETRY.max_cores as i32);
    // SAFETY: it takes nothing and may always be called; the list is as the caller says.
    let (table, physical) = unsafe { (register_bases() as *const u64, list(physical, known)) };
    let mut without = 0;
    let registers = |core: u32| {
        let base = match physical.get(core as usize) {
            // SAFETY: the table has an entry for each physical number (the caller's contract).
            Some(number) if !table.is_null() => unsafe { table.add(*number as usize).read_unaligned() },
            _ => 0,
        };
        without += u32::from(base == 0);
        // SAFETY: the base is of the runtime's table.
        unsafe { RuntimeRegisters::new(base) }
    };
    if physical.is_empty() && n != 0 {
        // SAFETY: nothing else runs (the caller's contract).
        unsafe { PMU.reset() };
        return log::error(FUNC, c"no physical core numbers were given; nothing is recorded", [0; 2]);
    }
    // SAFETY: the caller's contract.
    match unsafe { PMU.init(GEOMETRY, base, n as u32, registers, None) } {
        Ok(()) if without == 0 => {}
        Ok(()) => {
            log::warn(
                FUNC,
                c"%u of %u cores have no register base; their counters are not read",
                [without, n as u32],
            );
        }
        Err(InitError::NoRegion { .. }) => {
            log::error(FUNC, c"no region base was set; nothing is recorded", [0; 2]);
        }
        Err(InitError::Cores { wanted, limit, .. }) => {
            log::error(FUNC, c"%u cores asked for, the region has %u; nothing is recorded", [wanted, limit]);
        }
    }
}

/// Records the task that has just finished on `core`, by reading the core's counters.
///
/// # Safety
/// One caller per core and per thread at a time.
#[cfg(dfx_platform = "a2a3")]
#[unsafe(export_name = "_Z21pmu_aicpu_record_taskiimj8CoreType")]
unsafe extern "C" fn record_task(core: i32, thread: i32, task: u64, func: u32, core_type: i32) {
    // SAFETY: passed on.
    unsafe { PMU.record_task(core as u32, thread as u32, task, func, core_type) }
}

/// Records the task that has just finished on `core` with `token`, if its counters are what the core left in its ring.
///
/// # Safety
/// One caller per core and per thread at a time.
#[cfg(dfx_platform = "a5")]
#[unsafe(export_name = "_Z25pmu_aicpu_complete_recordiijmj8CoreType")]
unsafe extern "C" fn complete_record(
    core: i32,
    thread: i32,
    token: u32,
    task: u64,
    func: u32,
    core_type: i32,
) {
    // SAFETY: passed on.
    unsafe { PMU.complete_record(core as u32, thread as u32, token, task, func, core_type) }
}

/// Publishes what the lanes of the `n` cores hold.
///
/// # Safety
/// Called by `thread`; `cores` is null or points to `n` numbers.
#[unsafe(export_name = "_Z23pmu_aicpu_flush_buffersiPKii")]
unsafe extern "C" fn flush(thread: i32, cores: *const i32, n: i32) {
    const FUNC: &core::ffi::CStr = c"pmu_aicpu_flush_buffers";
    if !PMU.recording() {
        return log::error(FUNC, c"the PMU is not initialised; there is nothing to publish", [0; 2]);
    }
    // SAFETY: passed on; a negative number is one that is too large.
    unsafe { PMU.flush(thread as u32, list(cores.cast::<u32>(), n)) }
    log::misuse(FUNC, &TOLD, PMU.misused());
}

/// Puts the control registers of the `n` cores back to what init found in them.
///
/// # Safety
/// Called by the thread whose cores these are, while their registers are still there; `cores` is null or points to `n`
/// numbers.
#[unsafe(export_name = "_Z18pmu_aicpu_finalizePKii")]
unsafe extern "C" fn finalize(cores: *const i32, n: i32) {
    // SAFETY: passed on.
    unsafe { PMU.finalize(list(cores.cast::<u32>(), n)) }
}
