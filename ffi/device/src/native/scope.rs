//! The scope stats: how full the runtime's resources are when scopes begin and end.
#![allow(non_camel_case_types)] // the names are C's

use super::dfx_device_status_e::{self, *};
use crate::clock;
use crate::state::{GEOMETRY, SCOPES};
use core::ffi::c_char;
use dfx_collector::abi::DeviceAddr;
use dfx_collector::scope_stats::Sample;

/// The allocation pointer of a ring's heap, for `dfx_scope_note_heap_wrap`.
pub const DFX_HEAP_ALLOC: u32 = 0;
/// The reclaim pointer of a ring's heap, for `dfx_scope_note_heap_wrap`.
pub const DFX_HEAP_RECLAIM: u32 = 1;

/// The resources at one end of a scope.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_scope_sample_t {
    /// The heap's reclaim pointer, in bytes from the heap's start.
    pub heap_start: u64,
    /// The heap's allocation pointer, in bytes from the heap's start.
    pub heap_end: u64,
    /// The scope's ring, 0 to 3; any other is none.
    pub ring: i32,
    /// First task of the window.
    pub task_start: i32,
    /// One past its last.
    pub task_end: i32,
    /// First entry in use of the dependency pool.
    pub dep_start: i32,
    /// One past its last.
    pub dep_end: i32,
    /// Tensor-map entries in use.
    pub tensormap: i32,
}

impl dfx_scope_sample_t {
    fn sample(&self) -> Sample {
        Sample {
            ring: self.ring,
            task_start: self.task_start,
            task_end: self.task_end,
            heap_start: self.heap_start,
            heap_end: self.heap_end,
            dep_start: self.dep_start,
            dep_end: self.dep_end,
            tensormap: self.tensormap,
        }
    }
}

/// Turns the recording of samples on or off: at once if the scope stats are initialised, or with the next init.
///
/// While the orchestrator records nothing.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_scope_set_enabled(enabled: bool) {
    SCOPES.set_enabled(enabled);
}

/// Whether samples are recorded. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_scope_recording() -> bool {
    SCOPES.recording()
}

/// Initialises for a launch on the region at `base`, a device address that the host gave out and that stays the host's;
/// `orch_thread` is the thread whose ready queue carries the buffers. Takes a buffer if one is there, waits for none. On an
/// error nothing is recorded.
///
/// # Safety
/// `base` is 0 or a scope-stats region of this platform that stays mapped for the launch; nothing else of the scope stats is
/// running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_init(base: u64, orch_thread: u32) -> dfx_device_status_e {
    if !clock::is_set() {
        return DFX_DEVICE_NO_CLOCK;
    }
    // SAFETY: passed on.
    let outcome = unsafe { SCOPES.init(GEOMETRY, DeviceAddr(base), None) };
    SCOPES.set_orch_thread(orch_thread);
    if outcome.is_ok() { DFX_DEVICE_OK } else { DFX_DEVICE_NO_REGION }
}

/// Tells the capacities of `ring` (0 to 3): tasks of its window, bytes of its heap, entries of its dependency pool. After
/// init; for a ring that does not exist it does nothing.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_set_ring_capacity(ring: i32, window: i32, heap: u64, dep_pool: i32) {
    // SAFETY: passed on.
    unsafe { SCOPES.set_ring_capacity(ring, window, heap, dep_pool) }
}

/// Tells the tensor map's capacity in entries. After init.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_set_tensormap_capacity(entries: i32) {
    // SAFETY: passed on.
    unsafe { SCOPES.set_tensormap_capacity(entries) }
}

/// Says where the next scope stands: a file (31 bytes of its name are kept; null: unknown) and a line.
///
/// # Safety
/// Called by the orchestrator's thread. `file` is null or a string that lives until the next begin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_set_site(file: *const c_char, line: i32) {
    // SAFETY: passed on.
    unsafe { SCOPES.set_pending_site(file.cast::<u8>(), line) }
}

/// Records that a scope begins. It waits for the host when there is no room, within the launch's budget; then the sample is
/// dropped and counted.
///
/// # Safety
/// Called by the orchestrator's thread. `sample` is null (nothing is recorded) or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_begin(sample: *const dfx_scope_sample_t) {
    if SCOPES.recording() {
        // SAFETY: passed on.
        unsafe {
            if let Some(sample) = sample.as_ref() {
                SCOPES.begin_now(&sample.sample());
            }
        }
    }
}

/// Records that the innermost open scope ends; without one it is counted as misuse.
///
/// # Safety
/// As `dfx_scope_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_end(sample: *const dfx_scope_sample_t) {
    if SCOPES.recording() {
        // SAFETY: passed on.
        unsafe {
            if let Some(sample) = sample.as_ref() {
                SCOPES.end_now(&sample.sample());
            }
        }
    }
}

/// How deep the innermost open scope is nested, from 0; -1 when there is none.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_depth() -> i32 {
    // SAFETY: passed on.
    unsafe { SCOPES.depth() }
}

/// Counts a wrap of the current scope's heap: `DFX_HEAP_ALLOC` or `DFX_HEAP_RECLAIM`. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_scope_note_heap_wrap(side: u32) {
    SCOPES.note_heap_wrap(side as i32);
}

/// Says that the runtime has met a fatal error, and publishes what there is.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_on_fatal() {
    // SAFETY: passed on.
    unsafe { SCOPES.on_fatal() }
}

/// Publishes what there is. What cannot be published stays where the host finds it. The last call of a launch.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_flush() {
    // SAFETY: passed on.
    unsafe { SCOPES.flush() }
}

/// Makes the counts visible without publishing: before every abnormal exit.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_sync() {
    // SAFETY: passed on.
    unsafe { SCOPES.sync() }
}

/// Ends without a begin, and publications for which there was no orchestrator thread, since the last init. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_scope_misused() -> u32 {
    SCOPES.misused()
}

/// Off, and without a region: nothing is recorded until it is enabled and initialised again. The region may go.
///
/// # Safety
/// Nothing else of the scope stats is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_scope_reset() {
    // SAFETY: passed on.
    unsafe { SCOPES.reset() }
}
