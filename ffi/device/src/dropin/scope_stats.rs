//! The scope stats' 13 names, one of them a variable.
//!
//! There is no init among them: setting the base is it. Unlike the reference, scopes deeper than 64 are recorded.

use super::start_clock;
use crate::log;
use crate::state::{GEOMETRY, SCOPES};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::scope_stats::Sample;

/// How deep the innermost open scope is nested, from 0; -1 when there is none. The runtime may look at it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)] // the runtime's name
static scope_stats_depth: AtomicI32 = AtomicI32::new(-1);

/// What the runtime said last; no thread has this number.
static ORCH_THREAD: AtomicU32 = AtomicU32::new(u32::MAX);
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Turns the recording of samples on or off.
#[unsafe(no_mangle)]
extern "C" fn set_scope_stats_enabled(enabled: bool) {
    SCOPES.set_enabled(enabled);
}

/// The switch. One of the five names for which the runtime has a weak fallback.
#[unsafe(no_mangle)]
extern "C" fn is_scope_stats_enabled() -> bool {
    SCOPES.is_enabled()
}

/// Initialises for a launch on the region at `base`, or lets go of the last one if that is 0; no scope is open then.
///
/// # Safety
/// `base` is 0 or a region of this platform; nothing else of the scope stats is running.
#[unsafe(no_mangle)]
unsafe extern "C" fn set_platform_scope_stats_base(base: u64) {
    start_clock();
    TOLD.store(0, Relaxed);
    scope_stats_depth.store(-1, Relaxed);
    // SAFETY: the caller's contract. Without a region there is nothing to record into, and nothing to say.
    _ = unsafe { SCOPES.init(GEOMETRY, DeviceAddr(base), None) };
    SCOPES.set_orch_thread(ORCH_THREAD.load(Relaxed));
}

/// Names the orchestrator's thread, for this launch and the next ones.
#[unsafe(no_mangle)]
extern "C" fn scope_stats_aicpu_set_orch_thread_idx(thread: i32) {
    ORCH_THREAD.store(thread as u32, Relaxed);
    SCOPES.set_orch_thread(thread as u32);
}

/// Says where the next scope stands; it is remembered even while nothing is recorded.
///
/// # Safety
/// Called by the orchestrator's thread. `file` is null or a string that lives until the next begin.
#[unsafe(no_mangle)]
unsafe extern "C" fn scope_stats_set_pending_site(file: *const u8, line: i32) {
    // SAFETY: passed on.
    unsafe { SCOPES.set_pending_site(file, line) }
}

/// Records that a scope begins.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn scope_stats_begin(
    ring: i32,
    task_start: i32,
    task_end: i32,
    heap_start: u64,
    heap_end: u64,
    dep_start: i32,
    dep_end: i32,
    tensormap: i32,
) {
    if SCOPES.recording() {
        // SAFETY: passed on.
        unsafe { begin(ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap) }
    }
}

/// The rest of it: apart, so that the call that records nothing touches nothing.
#[inline(never)]
unsafe extern "C" fn begin(
    ring: i32,
    task_start: i32,
    task_end: i32,
    heap_start: u64,
    heap_end: u64,
    dep_start: i32,
    dep_end: i32,
    tensormap: i32,
) {
    let sample = Sample { ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap };
    // SAFETY: passed on.
    unsafe {
        scope_stats_depth.store(SCOPES.depth().wrapping_add(1), Relaxed);
        SCOPES.begin_now(&sample)
    }
}

/// Records that the innermost open scope ends; without one it is a no-op.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn scope_stats_end(
    ring: i32,
    task_start: i32,
    task_end: i32,
    heap_start: u64,
    heap_end: u64,
    dep_start: i32,
    dep_end: i32,
    tensormap: i32,
) {
    if SCOPES.recording() {
        // SAFETY: passed on.
        unsafe { end(ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap) }
    }
}

/// The rest of it, as above.
#[inline(never)]
unsafe extern "C" fn end(
    ring: i32,
    task_start: i32,
    task_end: i32,
    heap_start: u64,
    heap_end: u64,
    dep_start: i32,
    dep_end: i32,
    tensormap: i32,
) {
    let sample = Sample { ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap };
    // SAFETY: passed on.
    unsafe {
        let depth = SCOPES.depth();
        scope_stats_depth.store(depth - i32::from(depth >= 0), Relaxed);
        SCOPES.end_now(&sample)
    }
}

/// Says that the runtime has met a fatal error, and publishes what there is.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn scope_stats_on_fatal() {
    // SAFETY: passed on.
    unsafe { SCOPES.on_fatal() }
}

/// Tells a ring's capacities. It does not ask whether recording is on.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn scope_stats_set_ring_capacity(ring: i32, window: i32, heap: u64, dep_pool: i32) {
    // SAFETY: passed on.
    unsafe { SCOPES.set_ring_capacity(ring, window, heap, dep_pool) }
}

/// Tells the tensor map's capacity.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn scope_stats_set_tensormap_capacity(entries: i32) {
    // SAFETY: passed on.
    unsafe { SCOPES.set_tensormap_capacity(entries) }
}

/// Counts a wrap of the current scope's heap: side 0 is the allocation pointer, 1 the reclaim pointer. One of the five
/// names for which the runtime has a weak fallback.
#[unsafe(no_mangle)]
extern "C" fn scope_stats_note_heap_wrap(side: i32) {
    SCOPES.note_heap_wrap(side);
}

/// Publishes what there is.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn scope_stats_aicpu_flush_buffers() {
    // Off, the region may be an earlier launch's.
    if SCOPES.recording() {
        // SAFETY: passed on.
        unsafe { SCOPES.flush() }
    }
    log::misuse(c"scope_stats_aicpu_flush_buffers", &TOLD, SCOPES.misused());
}
