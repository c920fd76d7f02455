//! The chip swimlane's 23 names.
//!
//! Unlike the reference, where only the dispatch hook asks the switch: once it is turned off, nothing is recorded into the
//! region of an earlier launch and the level is 0. Phases are recorded from level 3 on, submits at level 4, whoever calls.

use super::{list, start_clock};
use crate::log;
use crate::state::{GEOMETRY, SWIMLANE, sched_phase_kind};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::swimlane::{InitError, SchedPhase};

static BASE: AtomicU64 = AtomicU64::new(0);
static ROTATION_TABLE: AtomicU64 = AtomicU64::new(0);
static ENABLED: AtomicBool = AtomicBool::new(false);
/// What the runtime said last; no thread has this number.
static ORCH_THREAD: AtomicU32 = AtomicU32::new(u32::MAX);
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Remembers the region; 0: none.
#[unsafe(no_mangle)]
extern "C" fn set_platform_chip_swimlane_base(base: u64) {
    BASE.store(base, Relaxed);
}

/// The region that was set.
#[unsafe(no_mangle)]
extern "C" fn get_platform_chip_swimlane_base() -> u64 {
    BASE.load(Relaxed)
}

/// Remembers the table of the cores' heads; 0: none.
#[unsafe(no_mangle)]
extern "C" fn set_platform_chip_swimlane_aicore_rotation_table(table: u64) {
    ROTATION_TABLE.store(table, Relaxed);
}

/// The table that was set.
#[unsafe(no_mangle)]
extern "C" fn get_platform_chip_swimlane_aicore_rotation_table() -> u64 {
    ROTATION_TABLE.load(Relaxed)
}

/// Remembers the switch. Turning it off ends what an earlier launch left open.
///
/// # Safety
/// No other function of the swimlane is running when the switch changes.
#[unsafe(no_mangle)]
unsafe extern "C" fn set_chip_swimlane_enabled(enabled: bool) {
    let was = ENABLED.load(Relaxed);
    ENABLED.store(enabled, Relaxed);
    if was && !enabled {
        // SAFETY: the caller's contract.
        unsafe { SWIMLANE.reset() }
    }
}

/// The switch.
#[unsafe(no_mangle)]
extern "C" fn is_chip_swimlane_enabled() -> bool {
    ENABLED.load(Relaxed)
}

/// The level that the last init read; 0 before, and after the switch was turned off.
#[unsafe(export_name = "_Z23get_chip_swimlane_levelv")]
extern "C" fn level() -> u32 {
    SWIMLANE.level() as u32
}

/// Initialises for a launch on `cores` cores: takes the level and first buffers, fills the rotation table.
///
/// # Safety
/// The base that was set is 0 or a region for at least the cores that its header names, the table 0 or as long; nothing
/// else of the swimlane is running.
#[unsafe(export_name = "_Z24chip_swimlane_aicpu_initi")]
unsafe extern "C" fn init(cores: i32) {
    const FUNC: &core::ffi::CStr = c"chip_swimlane_aicpu_init";
    start_clock();
    let (base, table) = (DeviceAddr(BASE.load(Relaxed)), DeviceAddr(ROTATION_TABLE.load(Relaxed)));
    TOLD.store(0, Relaxed);
    // SAFETY: the caller's contract. More cores than fit, and hence a negative number, are refused.
    let outcome = unsafe { SWIMLANE.init(GEOMETRY, base, table, cores as u32, None) };
    SWIMLANE.set_orch_thread(ORCH_THREAD.load(Relaxed));
    match outcome {
        Ok(()) => {}
        Err(InitError::NoRegion) => {
            log::error(FUNC, c"no region base was set; nothing is recorded", [0; 2]);
        }
        Err(InitError::Cores { wanted, limit }) => {
            log::error(FUNC, c"%u cores asked for, the region has %u; nothing is recorded", [wanted, limit]);
        }
        Err(InitError::Level(level)) => {
            log::error(
                FUNC,
                c"level %u in the region's header, expected 0 to 4; nothing is recorded",
                [level, 0],
            );
        }
    }
}

/// Opens the phase lanes (from level 3 on) of `sched_threads` threads, and the orchestrator's if `orch_threads` is not 0.
///
/// # Safety
/// After [`init`]; nothing else of the swimlane is running.
#[unsafe(export_name = "_Z30chip_swimlane_aicpu_init_phaseiii")]
unsafe extern "C" fn init_phase(_cores: i32, sched_threads: i32, orch_threads: i32) {
    if BASE.load(Relaxed) == 0 {
        const FUNC: &core::ffi::CStr = c"chip_swimlane_aicpu_init_phase";
        return log::error(FUNC, c"no region base was set; no phase is recorded", [0; 2]);
    }
    // SAFETY: the caller's contract.
    unsafe { SWIMLANE.init_phases(sched_threads.max(0) as u32, orch_threads.max(0) as u32) }
}

/// Before `token` is written to the dispatch register of `core`.
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(export_name = "_Z38chip_swimlane_aicpu_on_aicore_dispatchiij")]
unsafe extern "C" fn on_dispatch(core: i32, thread: i32, token: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.on_dispatch(core as u32, thread as u32, token) }
}

/// On every matched ACK and FIN of `token` on `core`.
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(export_name = "_Z33chip_swimlane_aicpu_on_aicore_ackiij")]
unsafe extern "C" fn on_ack(core: i32, thread: i32, token: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.on_ack(core as u32, thread as u32, token) }
}

/// Records a completed task: 0, or -1 when it was not recorded.
///
/// # Safety
/// One caller per core and per thread at a time.
#[unsafe(export_name = "_Z33chip_swimlane_aicpu_complete_taskiijmm")]
unsafe extern "C" fn complete_task(core: i32, thread: i32, token: u32, dispatch: u64, finish: u64) -> i32 {
    // SAFETY: passed on.
    unsafe { SWIMLANE.complete_task_status(core as u32, thread as u32, token, dispatch, finish) }
}

/// Publishes what the task and core lanes of the `n` cores hold.
///
/// # Safety
/// Called by `thread`; `cores` is null or points to `n` numbers.
#[unsafe(export_name = "_Z25chip_swimlane_aicpu_flushiPKii")]
unsafe extern "C" fn flush(thread: i32, cores: *const i32, n: i32) {
    // SAFETY: passed on; a negative number is one that is too large.
    unsafe { SWIMLANE.flush(thread as u32, list(cores.cast::<u32>(), n)) }
    log::misuse(c"chip_swimlane_aicpu_flush", &TOLD, SWIMLANE.misused());
}

/// No depths were given.
static ZEROES: [i16; 3] = [0; 3];

/// Records a scheduler phase. A kind that does not exist is not recorded; null depths are zeroes.
///
/// # Safety
/// One caller per thread at a time; each depth pointer is null or points to three numbers.
#[unsafe(export_name = "_Z38chip_swimlane_aicpu_record_sched_phasei26ChipSwimlaneSchedPhaseKindmmjjjjPKsS1_")]
unsafe extern "C" fn record_sched_phase(
    thread: i32,
    kind: u32,
    start: u64,
    end: u64,
    loop_iter: u32,
    tasks: u32,
    pop_hit: u32,
    pop_miss: u32,
    depth_start: Option<&[i16; 3]>,
    depth_end: Option<&[i16; 3]>,
) {
    let Some(kind) = sched_phase_kind(kind) else { return };
    let phase = || SchedPhase {
        kind,
        start,
        end,
        loop_iter,
        tasks,
        pop_hit,
        pop_miss,
        // A pointer to zeroes instead of a choice of values: the compiler then copies straight to the record.
        depth_start: *depth_start.unwrap_or(&ZEROES),
        depth_end: *depth_end.unwrap_or(&ZEROES),
    };
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_sched_phase_with(thread as u32, phase) }
}

/// Marks that a task without a kernel retired at tick `at`.
///
/// # Safety
/// One caller per thread at a time.
#[unsafe(export_name = "_Z37chip_swimlane_aicpu_record_dummy_taskimjm")]
unsafe extern "C" fn record_dummy_task(thread: i32, at: u64, loop_iter: u32, task: u64) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_dummy_task(thread as u32, at, loop_iter, task) }
}

/// Marks that a task whose predicate was false retired at tick `at`.
///
/// # Safety
/// One caller per thread at a time.
#[unsafe(export_name = "_Z42chip_swimlane_aicpu_record_predicated_skipimjm")]
unsafe extern "C" fn record_predicated_skip(thread: i32, at: u64, loop_iter: u32, task: u64) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_predicated_skip(thread as u32, at, loop_iter, task) }
}

/// Records that the `nodes` nodes of a graph task were made.
///
/// # Safety
/// One caller per thread at a time.
#[unsafe(export_name = "_Z40chip_swimlane_aicpu_record_graph_prepareimmjmj")]
unsafe extern "C" fn record_graph_prepare(
    thread: i32,
    start: u64,
    end: u64,
    loop_iter: u32,
    task: u64,
    nodes: u32,
) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_graph_prepare(thread as u32, start, end, loop_iter, task, nodes) }
}

/// Names the orchestrator's thread, for this launch and the next ones.
#[unsafe(export_name = "_Z39chip_swimlane_aicpu_set_orch_thread_idxi")]
extern "C" fn set_orch_thread(thread: i32) {
    ORCH_THREAD.store(thread as u32, Relaxed);
    SWIMLANE.set_orch_thread(thread as u32);
}

/// Records a submit. One of the five names for which the runtime has a weak fallback.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(export_name = "_Z37chip_swimlane_aicpu_record_orch_phasemmmj")]
unsafe extern "C" fn record_orch_phase(start: u64, end: u64, task: u64, submit_idx: u32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.record_orch_phase(start, end, task, submit_idx) }
}

/// Publishes the phases of `thread`.
///
/// # Safety
/// Called by `thread`.
#[unsafe(export_name = "_Z44chip_swimlane_aicpu_flush_sched_phase_bufferi")]
unsafe extern "C" fn flush_sched_phases(thread: i32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.flush_sched_phases(thread as u32) }
}

/// Publishes the submits, through the ready queue of the orchestrator's thread.
///
/// # Safety
/// Called by the orchestrator's thread.
#[unsafe(export_name = "_Z43chip_swimlane_aicpu_flush_orch_phase_bufferi")]
unsafe extern "C" fn flush_orch_phases(_thread: i32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.flush_orch_phases() }
}

/// Forgets which thread owns which core.
///
/// # Safety
/// After [`init_phase`], before any thread writes its assignments.
#[unsafe(export_name = "_Z41chip_swimlane_aicpu_init_core_assignmentsi")]
unsafe extern "C" fn init_core_assignments(total_cores: i32) {
    // SAFETY: passed on.
    unsafe { SWIMLANE.init_core_assignments(total_cores.max(0) as u32) }
}

/// Writes that `thread` owns the `n` cores.
///
/// # Safety
/// After [`init_core_assignments`]; `cores` is null or points to `n` numbers.
#[unsafe(export_name = "_Z53chip_swimlane_aicpu_write_core_assignments_for_threadiPKii")]
unsafe extern "C" fn write_core_assignments(thread: i32, cores: *const i32, n: i32) {
    // SAFETY: passed on; a negative number is one that is too large.
    unsafe { SWIMLANE.write_core_assignments(thread as u32, list(cores.cast::<u32>(), n)) }
}
