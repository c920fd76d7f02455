//! The args dump's 20 names.
//!
//! Unlike the reference: a region is recognised by its magic number, a payload that finds no room is shed instead of its
//! record being dropped, and an argument is recorded only while the dump is switched on.

use super::start_clock;
use crate::log;
use crate::state::{DUMP, GEOMETRY};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::args_dump::{Info, Role, Stage};
use dfx_collector::abi::task::CoreCallable;
use dfx_collector::abi::tensor::ArgDirection;
use dfx_collector::args_dump::{InitError, MAX_SCALARS, is_dumped_at, role_of};

static BASE: AtomicU64 = AtomicU64::new(0);
static MISMATCH_TOLD: AtomicBool = AtomicBool::new(false);
static MARKS_TOLD: AtomicU32 = AtomicU32::new(0);
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Remembers the region; 0: none.
#[unsafe(no_mangle)]
extern "C" fn set_platform_dump_base(base: u64) {
    BASE.store(base, Relaxed);
}

/// The region that was set.
#[unsafe(no_mangle)]
extern "C" fn get_platform_dump_base() -> u64 {
    BASE.load(Relaxed)
}

/// Turns the dump on or off, forgets all marks, and the level until the next init.
///
/// # Safety
/// No other function of the dump is running.
#[unsafe(no_mangle)]
unsafe extern "C" fn set_dump_args_enabled(enabled: bool) {
    MARKS_TOLD.store(0, Relaxed);
    // SAFETY: passed on.
    unsafe { if enabled { DUMP.set_enabled(true) } else { DUMP.reset() } }
}

/// The switch.
#[unsafe(no_mangle)]
extern "C" fn is_dump_args_enabled() -> bool {
    DUMP.is_enabled()
}

/// Whether only marked arguments are recorded (level 1).
#[unsafe(no_mangle)]
extern "C" fn is_dump_args_selective_mode() -> bool {
    DUMP.is_selective()
}

/// Whether marks matter (levels 1 and 3).
#[unsafe(no_mangle)]
extern "C" fn should_load_dump_args_task_masks() -> bool {
    DUMP.should_load_task_masks()
}

/// Marks arguments of `task`. Without room the mark is counted and the first such one logged.
#[unsafe(no_mangle)]
extern "C" fn set_dump_args_task_mask(task: u64, mask: u64, flags: u64) {
    DUMP.set_task_mask(task, mask, flags);
    tell_lost_marks(c"set_dump_args_task_mask");
}

/// The mask and flags of `task`, 0 when it has none. Either output may be null.
///
/// # Safety
/// Each output is null or may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn get_dump_args_task_masks(task: u64, mask: Option<&mut u64>, flags: Option<&mut u64>) {
    let found = DUMP.task_masks(task);
    if let Some(mask) = mask {
        *mask = found.0;
    }
    if let Some(flags) = flags {
        *flags = found.1;
    }
}

/// Keeps the types of the `n` scalars of `task`. None are ignored, more than 32 an error.
///
/// # Safety
/// `dtypes` is null or points to `n` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn set_dump_args_task_scalar_dtypes(task: u64, n: u32, dtypes: *const u8) {
    const FUNC: &core::ffi::CStr = c"set_dump_args_task_scalar_dtypes";
    if n == 0 || dtypes.is_null() {
        return;
    }
    if n as usize > MAX_SCALARS {
        return log::error(
            FUNC,
            c"%u scalars in a task, at most %u can have types; they have none",
            [n, MAX_SCALARS as u32],
        );
    }
    // SAFETY: the caller's contract.
    DUMP.set_task_scalar_dtypes(task, unsafe { core::slice::from_raw_parts(dtypes, n as usize) });
    tell_lost_marks(FUNC);
}

/// Logs that marks were lost, once per switch.
fn tell_lost_marks(func: &'static core::ffi::CStr) {
    let lost = DUMP.lost_marks();
    if lost != 0 && MARKS_TOLD.load(Relaxed) == 0 {
        MARKS_TOLD.store(lost, Relaxed);
        log::error(
            func,
            c"the table of marked tasks is full; this mark is lost, and so may be later ones",
            [0; 2],
        );
    }
}

/// Copies the types of the scalars of `task`: whether they are known. Either output may be null.
///
/// # Safety
/// `n` is null or may be written, `dtypes` is null or has room for as many bytes as were set.
#[unsafe(no_mangle)]
unsafe extern "C" fn get_dump_args_task_scalar_dtypes(
    task: u64,
    n: Option<&mut u32>,
    dtypes: *mut u8,
) -> bool {
    let mut found = [0; MAX_SCALARS];
    let len = DUMP.task_scalar_dtypes(task, &mut found);
    if let Some(n) = n {
        *n = len.unwrap_or(0) as u32;
    }
    let Some(len) = len else { return false };
    if !dtypes.is_null() {
        // SAFETY: no more than was set, for which the caller has room.
        unsafe { core::ptr::copy_nonoverlapping(found.as_ptr(), dtypes, len.min(MAX_SCALARS)) };
    }
    true
}

/// The role of an argument of that direction: whether it has one. A scalar, and what does not exist, has none.
///
/// # Safety
/// `role` is null or may be written.
#[unsafe(export_name = "_Z32get_dump_arg_role_from_direction12ArgDirectionP12ArgsDumpRole")]
unsafe extern "C" fn role_from_direction(direction: i32, role: Option<&mut u8>) -> bool {
    let Some(found) = ArgDirection::from_raw(direction).and_then(role_of) else { return false };
    if let Some(role) = role {
        *role = found as u8;
    }
    true
}

/// How many arguments of a kernel's signature are tensors.
#[unsafe(export_name = "_Z26count_callable_tensor_argsRK8CallableIvLi32ELi0EE")]
extern "C" fn count_callable_tensor_args(callable: &CoreCallable) -> i32 {
    let arguments = callable.signature.iter().take(callable.sig_count.max(0) as usize);
    arguments.filter(|direction| **direction != ArgDirection::Scalar as i32).count() as i32
}

/// Whether an argument of that role is recorded at that stage.
#[unsafe(export_name = "_Z24should_dump_arg_at_stage12ArgsDumpRole13ArgsDumpStage")]
extern "C" fn should_dump_arg_at_stage(role: u8, stage: u8) -> bool {
    match (Role::from_raw(role), Stage::from_raw(stage)) {
        (Some(role), Some(stage)) => is_dumped_at(role, stage),
        _ => false,
    }
}

/// Whether any argument of a task of that mask (what [`get_dump_args_task_masks`] gives, or the task's own metadata) is
/// recorded.
#[unsafe(export_name = "_Z16should_dump_taskm")]
extern "C" fn should_dump_task(mask: u64) -> bool {
    !DUMP.is_selective() || mask != 0
}

/// Whether argument `index` of a task of that mask is recorded.
#[unsafe(export_name = "_Z15should_dump_argmi")]
extern "C" fn should_dump_arg(mask: u64, index: i32) -> bool {
    !DUMP.is_selective() || has_dump_arg_flag(mask, index)
}

/// Whether bit `index` of a mask, or of the flags beside it, is set, at any level. There is none beyond 63.
#[unsafe(export_name = "_Z17has_dump_arg_flagmi")]
extern "C" fn has_dump_arg_flag(mask: u64, index: i32) -> bool {
    (0..64).contains(&index) && (mask >> index) & 1 != 0
}

/// Whether the caller is the first of the process to find a signature and a payload that do not fit.
#[unsafe(export_name = "_Z33try_log_dump_args_layout_mismatchv")]
extern "C" fn try_log_layout_mismatch() -> bool {
    !MISMATCH_TOLD.load(Relaxed) && !MISMATCH_TOLD.swap(true, Relaxed)
}

/// Initialises for a launch of `threads` threads.
///
/// # Safety
/// The base that was set is 0 or a region of this platform; nothing else of the dump is running.
#[unsafe(export_name = "_Z14dump_args_initi")]
unsafe extern "C" fn init(threads: i32) {
    const FUNC: &core::ffi::CStr = c"dump_args_init";
    start_clock();
    TOLD.store(0, Relaxed);
    // SAFETY: the caller's contract. More threads than there are, and hence a negative number, are refused.
    match unsafe { DUMP.init(GEOMETRY, DeviceAddr(BASE.load(Relaxed)), threads as u32, None) } {
        Ok(()) => {}
        Err(InitError::NoRegion) => {
            log::error(FUNC, c"no region base was set; nothing is recorded", [0; 2]);
        }
        Err(InitError::Magic { found }) => {
            log::error(
                FUNC,
                c"the region begins with 0x%x: it is another's; nothing is recorded",
                [found, 0],
            );
        }
        Err(InitError::Threads { wanted, limit }) => {
            log::error(
                FUNC,
                c"%u threads asked for, the region has %u; nothing is recorded",
                [wanted, limit],
            );
        }
        Err(InitError::Level { found }) => {
            log::error(
                FUNC,
                c"level %u in the region's header, expected 0 to 3; nothing is recorded",
                [found, 0],
            );
        }
    }
}

/// Records an argument: 0, or -1 when it was not recorded.
///
/// # Safety
/// Called by `thread`. A tensor that brings its payload may be read.
#[unsafe(export_name = "_Z15dump_arg_recordiRK12ArgsDumpInfo")]
unsafe extern "C" fn record(thread: i32, info: &Info) -> i32 {
    // SAFETY: passed on.
    unsafe { DUMP.record_status(thread as u32, info) }
}

/// Publishes what `thread` holds.
///
/// # Safety
/// Called by `thread`.
#[unsafe(export_name = "_Z15dump_args_flushi")]
unsafe extern "C" fn flush(thread: i32) {
    // SAFETY: passed on.
    unsafe { DUMP.flush(thread as u32) }
    log::misuse(c"dump_args_flush", &TOLD, DUMP.misused());
}
