//! The drop-in: the functions that the reference runtime expects of its own collectors, by the same names (`exports.txt`),
//! with the same meaning, over ours. What each means is written at the feature; what holds for all:
//!
//! * The clock is the runtime's (`get_sys_cnt_aicpu`), as are the log and the registers. Each init takes it again, whatever
//!   `dfx_device_set_clock` said before.
//! * A base is remembered by its setter and used by the next init; an init without one logs an error.
//! * What the setters of the orchestrator's thread said stays until it is said again, whatever the collectors forget at an
//!   init. A switch that is turned off lets go of the launch before: its region may be gone.
//! * Numbers come in as `int`: a negative one is out of range like any that is too large; a null list is empty.

mod args_dump;
mod dep_gen;
mod pmu;
mod scope_stats;
mod swimlane;

use crate::clock;

unsafe extern "C" {
    /// `uint64_t get_sys_cnt_aicpu()`: the platform's counter.
    #[link_name = "_Z17get_sys_cnt_aicpuv"]
    fn get_sys_cnt_aicpu() -> u64;
    #[cfg(not(feature = "onboard"))]
    fn sched_yield() -> core::ffi::c_int;
}

/// Takes the runtime's clock. Every init does.
fn start_clock() {
    clock::set(Some(get_sys_cnt_aicpu), Some(relax));
}

/// Between two looks of a wait: on a host's processors the other side needs one of them; on a board it has its own.
unsafe extern "C" fn relax() {
    core::hint::spin_loop();
    #[cfg(not(feature = "onboard"))]
    // SAFETY: it takes nothing and may always be called.
    unsafe {
        sched_yield();
    }
}

/// A list as C passes it; empty if it is null or its length is not positive.
///
/// # Safety
/// `first` is null or points to `len` elements that nobody writes while the result is used.
unsafe fn list<'a, T>(first: *const T, len: i32) -> &'a [T] {
    if first.is_null() || len <= 0 {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { core::slice::from_raw_parts(first, len as usize) }
}
