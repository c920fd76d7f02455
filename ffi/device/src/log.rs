//! The runtime's log, for the drop-in. Its functions format by themselves, so that nothing here does.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

unsafe extern "C" {
    fn unified_log_error(func: *const c_char, format: *const c_char, ...);
    fn unified_log_warn(func: *const c_char, format: *const c_char, ...);
}

/// Logs an error of `func`. `format` has at most two conversions, both `%u`.
#[cold]
#[inline(never)]
pub(crate) fn error(func: &'static CStr, format: &'static CStr, [first, second]: [u32; 2]) {
    // SAFETY: printf's contract: strings that end, and an argument for each conversion.
    unsafe { unified_log_error(func.as_ptr(), format.as_ptr(), first, second) }
}

/// Logs a warning of `func`. `format` as for [`error`].
#[cold]
#[inline(never)]
pub(crate) fn warn(func: &'static CStr, format: &'static CStr, [first, second]: [u32; 2]) {
    // SAFETY: as above.
    unsafe { unified_log_warn(func.as_ptr(), format.as_ptr(), first, second) }
}

/// Says how many calls of a launch named a core or a thread that there is not: `misused` by now, of which `told` were said.
pub(crate) fn misuse(func: &'static CStr, told: &AtomicU32, misused: u32) {
    if told.load(Relaxed) != misused {
        told.store(misused, Relaxed);
        if misused != 0 {
            warn(
                func,
                c"%u calls with a core or a thread out of range so far; they recorded nothing",
                [misused, 0],
            );
        }
    }
}
