//! The device half as a static library: the collectors behind C functions, one value per process, as the AICPU library
//! that links them is loaded once per process.
//!
//! This is the skeleton that proves what the archive may need (`ci/nostd.sh`): no allocator, no unwinder, no `std`, and no
//! way to a panic from a function that records. The whole C ABI grows here.
//!
//! # Calling
//! Core and thread numbers are checked; what is off or not initialised is a no-op. Per core number and per thread number
//! one call may be under way at a time, and none during `dfx_swimlane_init`, `_init_phases` and `_reset`: the runtime's
//! own structure.
#![no_std]

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use dfx_collector::abi::swimlane::SchedPhaseKind;
use dfx_collector::abi::{DeviceAddr, Geometry};
use dfx_collector::clock::Clock;
use dfx_collector::swimlane::{SchedPhase, Swimlane};

#[cfg(dfx_platform = "a2a3")]
const GEOMETRY: &Geometry = &Geometry::A2A3;
#[cfg(dfx_platform = "a5")]
const GEOMETRY: &Geometry = &Geometry::A5;

/// A counter of the runtime: ticks of the platform.
type Counter = extern "C" fn() -> u64;
/// What a runtime calls between two looks of a waiting collector.
type Relax = extern "C" fn();

static COUNTER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static RELAX: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// The runtime's clock, read through the pointers that it set.
struct RuntimeClock;

impl Clock for RuntimeClock {
    fn now(&self) -> u64 {
        let counter = COUNTER.load(Relaxed);
        if counter.is_null() {
            return 0;
        }
        // SAFETY: only `dfx_device_set_clock` stores here, and it stores a `Counter`.
        unsafe { core::mem::transmute::<*mut (), Counter>(counter)() }
    }

    fn relax(&self) {
        let relax = RELAX.load(Relaxed);
        if relax.is_null() {
            core::hint::spin_loop();
        } else {
            // SAFETY: only `dfx_device_set_clock` stores here, and it stores a `Relax`.
            unsafe { core::mem::transmute::<*mut (), Relax>(relax)() }
        }
    }
}

static SWIMLANE: Swimlane<RuntimeClock> = Swimlane::new(RuntimeClock);

/// Sets the counter that time stamps of waits come from and, if not null, what is called between two looks of a wait.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_device_set_clock(counter: Option<Counter>, relax: Option<Relax>) {
    COUNTER.store(counter.map_or(core::ptr::null_mut(), |f| f as *mut ()), Relaxed);
    RELAX.store(relax.map_or(core::ptr::null_mut(), |f| f as *mut ()), Relaxed);
}

/// Initialises the chip swimlane for a launch on `cores` cores: `base` is the region's address, `rotation_table` that of
/// the cores' table (may be 0). Returns 0, or -1 when nothing will be recorded.
///
/// # Safety
/// `base` is 0 or a chip-swimlane region of this platform that stays mapped for the launch, `rotation_table` 0 or one u64
/// per core; nothing else of the chip swimlane is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_init(base: u64, rotation_table: u64, cores: u32) -> i32 {
    // SAFETY: passed on.
    let outcome =
        unsafe { SWIMLANE.init(GEOMETRY, DeviceAddr(base), DeviceAddr(rotation_table), cores, None) };
    if outcome.is_ok() { 0 } else { -1 }
}

/// Opens the phase lanes (level ≥ 3) and names the orchestrator's thread.
///
/// # Safety
/// After `dfx_swimlane_init`; nothing else of the chip swimlane is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_init_phases(sched_threads: u32, orch_thread: u32, cores: u32) {
    SWIMLANE.set_orch_thread(orch_thread);
    // SAFETY: passed on.
    unsafe {
        SWIMLANE.init_phases(sched_threads, 1);
        SWIMLANE.init_core_assignments(cores);
    }
}

/// The level in force, 0 to 4.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_swimlane_level() -> u32 {
    SWIMLANE.level() as u32
}

/// Before `token` is written to `core`'s dispatch register (level ≥ 1).
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_on_dispatch(core: u32, thread: u32, token: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.on_dispatch(core, thread, token) }
}

/// On every matched ACK and FIN (level ≥ 1).
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_on_ack(core: u32, thread: u32, token: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.on_ack(core, thread, token) }
}

/// Records dispatch and finish of a task, in ticks (level ≥ 2). Returns 0, or -1 when it was not recorded.
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_complete_task(
    core: u32,
    thread: u32,
    token: u32,
    dispatch: u64,
    finish: u64,
) -> i32 {
    // SAFETY: passed on.
    if unsafe { SWIMLANE.complete_task(core, thread, token, dispatch, finish) } { 0 } else { -1 }
}

/// Records a scheduler phase of `thread` (level ≥ 3). An unknown `kind` is not recorded; null depths are zeros.
///
/// # Safety
/// One caller per thread at a time; each depth pointer is null or points to three `i16`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // the runtime's own signature
pub unsafe extern "C" fn dfx_swimlane_sched_phase(
    thread: u32,
    kind: u32,
    start: u64,
    end: u64,
    loop_iter: u32,
    tasks: u32,
    pop_hit: u32,
    pop_miss: u32,
    depth_start: *const [i16; 3],
    depth_end: *const [i16; 3],
) {
    let Some(kind) = SchedPhaseKind::from_raw(kind) else { return };
    // SAFETY: the caller's contract.
    let depth = |at: *const [i16; 3]| if at.is_null() { [0; 3] } else { unsafe { at.read_unaligned() } };
    let (depth_start, depth_end) = (depth(depth_start), depth(depth_end));
    let phase = SchedPhase { kind, start, end, loop_iter, tasks, pop_hit, pop_miss, depth_start, depth_end };
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_sched_phase(thread, &phase) }
}

/// Records one submit of the orchestrator, in ticks (level ≥ 4).
///
/// # Safety
/// Called by the orchestrator thread only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_orch_submit(start: u64, end: u64, task_id: u64, submit_idx: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_orch_phase(start, end, task_id, submit_idx) }
}

/// Publishes what `thread` and its `n` cores hold; the orchestrator's thread publishes its submits.
///
/// # Safety
/// Called by `thread`; `cores` points to `n` core numbers (or `n` is 0).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_flush(thread: u32, cores: *const u32, n: u32, orchestrator: bool) {
    // SAFETY: the caller's contract.
    unsafe {
        let cores =
            if n == 0 || cores.is_null() { &[][..] } else { core::slice::from_raw_parts(cores, n as usize) };
        SWIMLANE.flush(thread, cores);
        SWIMLANE.flush_sched_phases(thread);
        if orchestrator {
            SWIMLANE.flush_orch_phases();
        }
    }
}

/// There is nothing to unwind to and nobody to tell: stop here. No recording function can come here (`ci/nostd.sh`).
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
