//! The chip swimlane: who ran what, when.
#![allow(non_camel_case_types)] // the names are C's

use super::dfx_device_status_e::{self, *};
use super::list;
use crate::clock;
use crate::state::{GEOMETRY, SWIMLANE, sched_phase_kind};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::swimlane::{InitError, SchedPhase};

/// Initialises the chip swimlane for a launch: reads the level from the header of the region at `base`, opens the lanes of
/// cores 0 to `cores` − 1, and writes each core's head into its entry of `rotation_table` (0: none). Takes the buffers that
/// are there, waits for none. What an earlier launch left is forgotten. On an error nothing is recorded.
///
/// Both are device addresses that the host gave out, and stay the host's. While nothing of the swimlane is running.
///
/// # Safety
/// `base` is 0 or a chip-swimlane region of this platform that stays mapped for the launch, `rotation_table` 0 or one u64
/// per core.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_init(
    base: u64,
    rotation_table: u64,
    cores: u32,
) -> dfx_device_status_e {
    if !clock::is_set() {
        return DFX_DEVICE_NO_CLOCK;
    }
    // SAFETY: passed on.
    match unsafe { SWIMLANE.init(GEOMETRY, DeviceAddr(base), DeviceAddr(rotation_table), cores, None) } {
        Ok(()) => DFX_DEVICE_OK,
        Err(InitError::NoRegion) => DFX_DEVICE_NO_REGION,
        Err(InitError::Cores { .. }) => DFX_DEVICE_TOO_MANY,
        Err(InitError::Level(_)) => DFX_DEVICE_BAD_LEVEL,
    }
}

/// Opens the phase lanes of threads 0 to `sched_threads` − 1 (level ≥ 3) and the orchestrator's lane (level 4), names the
/// orchestrator's thread, and forgets who owns the `cores` cores.
///
/// After `dfx_swimlane_init`, while nothing of the swimlane is running.
///
/// # Safety
/// As said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_init_phases(sched_threads: u32, orch_thread: u32, cores: u32) {
    SWIMLANE.set_orch_thread(orch_thread);
    // SAFETY: passed on.
    unsafe {
        SWIMLANE.init_phases(sched_threads, 1);
        SWIMLANE.init_core_assignments(cores);
    }
}

/// Says that `thread` owns the `n` cores (level ≥ 3). Numbers out of range are counted. After `dfx_swimlane_init_phases`.
///
/// # Safety
/// `cores` is null or points to `n` core numbers, which are not kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_assign_cores(thread: u32, cores: *const u32, n: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.write_core_assignments(thread, list(cores, n)) }
}

/// The level in force: 0 off, 1 cores' own times, 2 also AICPU's, 3 also scheduler phases, 4 also submits. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_swimlane_level() -> u32 {
    SWIMLANE.level() as u32
}

/// Whether anything is recorded: the test that a runtime makes before it reads a clock. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_swimlane_enabled() -> bool {
    SWIMLANE.enabled()
}

/// Before `token` is written to the dispatch register of `core` (level ≥ 1). It may wait for the host when a buffer is full.
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_on_dispatch(core: u32, thread: u32, token: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.on_dispatch(core, thread, token) }
}

/// On every matched ACK and FIN of `token` on `core` (level ≥ 1).
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_on_ack(core: u32, thread: u32, token: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.on_ack(core, thread, token) }
}

/// Records that AICPU dispatched `token` to `core` at `dispatch` and saw it complete at `finish`, in ticks (level ≥ 2).
/// Returns 0, or -1 when it was not recorded.
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
    unsafe { SWIMLANE.complete_task_status(core, thread, token, dispatch, finish) }
}

/// No depths were given.
static ZEROES: [i16; 3] = [0; 3];

/// Records a phase of the scheduler `thread`, in ticks (level ≥ 3). `kind`: 0 complete, 1 dispatch, 2 release, 4 dummy,
/// 5 early dispatch, 6 resolve, 8 drain, 9 drain prepare, 10 drain publish, 11 async poll; any other that does not exist is
/// not recorded. `depth_start` and `depth_end` are the ready queues' depths (AIC, AIV, MIX), three numbers each; null: zeroes.
///
/// # Safety
/// One caller per thread at a time; each depth pointer is null or points to three numbers, which are not kept.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // a record's fields
pub unsafe extern "C" fn dfx_swimlane_sched_phase(
    thread: u32,
    kind: u32,
    start: u64,
    end: u64,
    loop_iter: u32,
    tasks: u32,
    pop_hit: u32,
    pop_miss: u32,
    depth_start: *const i16,
    depth_end: *const i16,
) {
    let Some(kind) = sched_phase_kind(kind) else { return };
    let depth = |at: *const i16| {
        let at = if at.is_null() { ZEROES.as_ptr() } else { at };
        // SAFETY: three numbers lie there (the caller's contract).
        unsafe { at.cast::<[i16; 3]>().read() }
    };
    let phase = || SchedPhase {
        kind,
        start,
        end,
        loop_iter,
        tasks,
        pop_hit,
        pop_miss,
        depth_start: depth(depth_start),
        depth_end: depth(depth_end),
    };
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_sched_phase_with(thread, phase) }
}

/// Marks that a task without a kernel retired on `thread` at tick `at` (level ≥ 3).
///
/// # Safety
/// One caller per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_dummy_task(thread: u32, at: u64, loop_iter: u32, task: u64) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_dummy_task(thread, at, loop_iter, task) }
}

/// Marks that a task whose predicate was false retired on `thread` at tick `at` (level ≥ 3).
///
/// # Safety
/// One caller per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_predicated_skip(thread: u32, at: u64, loop_iter: u32, task: u64) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_predicated_skip(thread, at, loop_iter, task) }
}

/// Records that `thread` made the `nodes` nodes of graph task `task`, in ticks (level ≥ 3).
///
/// # Safety
/// One caller per thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_graph_prepare(
    thread: u32,
    start: u64,
    end: u64,
    loop_iter: u32,
    task: u64,
    nodes: u32,
) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_graph_prepare(thread, start, end, loop_iter, task, nodes) }
}

/// Records a submit of the orchestrator, in ticks (level ≥ 4).
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_orch_submit(start: u64, end: u64, task: u64, submit_idx: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_orch_phase(start, end, task, submit_idx) }
}

/// Publishes what `thread` and its `n` cores hold; with `orchestrator`, the submits, too. What cannot be published stays
/// where the host finds it. A thread's last call of a launch.
///
/// # Safety
/// Called by `thread`; `cores` is null or points to `n` core numbers, which are not kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_flush(thread: u32, cores: *const u32, n: u32, orchestrator: bool) {
    // SAFETY: passed on.
    unsafe {
        SWIMLANE.flush(thread, list(cores, n));
        SWIMLANE.flush_sched_phases(thread);
        if orchestrator {
            SWIMLANE.flush_orch_phases();
        }
    }
}

/// Makes the counts of `thread` and its `n` cores visible without publishing: before every abnormal exit, so that the host
/// recovers exactly what there is.
///
/// # Safety
/// Called by `thread`; `cores` is null or points to `n` core numbers, which are not kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_sync(thread: u32, cores: *const u32, n: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.sync(thread, list(cores, n)) }
}

/// Calls since the last init that named a core or a thread that there is not; they recorded nothing. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_swimlane_misused() -> u32 {
    SWIMLANE.misused()
}

/// Turns everything off: nothing is recorded until the next init. The region may go.
///
/// # Safety
/// Nothing else of the swimlane is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_swimlane_reset() {
    // SAFETY: passed on.
    unsafe { SWIMLANE.reset() }
}
