//! Calls one recording function many times through a C boundary, for `ci/callgrind.sh` to count its instructions.
//!
//! `hot FUNCTION CALLS LEVEL`: only what happens inside `hot_FUNCTION` is counted (callgrind toggles at it), so the
//! host's work and the loop are not.

use dfx_benches::{NoClock, launch, recorder};
use dfx_collector::abi::swimlane::{Level, SchedPhaseKind};
use dfx_collector::swimlane::{CoreRecorder, SchedPhase, Swimlane};
use std::hint::black_box;

static SWIMLANE: Swimlane<NoClock> = Swimlane::new(NoClock);

static ZEROES: [i16; 3] = [0; 3];

/// The test that a runtime makes before it calls.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn hot_guard() -> bool {
    SWIMLANE.enabled()
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_on_dispatch(core: i32, thread: i32, token: u32) {
    // SAFETY: one thread calls.
    unsafe { SWIMLANE.on_dispatch(core as u32, thread as u32, token) }
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_on_ack(core: i32, thread: i32, token: u32) {
    // SAFETY: one thread calls.
    unsafe { SWIMLANE.on_ack(core as u32, thread as u32, token) }
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_complete_task(
    core: i32,
    thread: i32,
    token: u32,
    dispatch: u64,
    finish: u64,
) -> i32 {
    // SAFETY: one thread calls.
    unsafe { SWIMLANE.complete_task_status(core as u32, thread as u32, token, dispatch, finish) }
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_sched_phase(
    thread: i32,
    kind: SchedPhaseKind,
    start: u64,
    end: u64,
    loop_iter: u32,
    tasks: u32,
    pop_hit: u32,
    pop_miss: u32,
    depth_start: Option<&[i16; 3]>,
    depth_end: Option<&[i16; 3]>,
) {
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
    // SAFETY: one thread calls.
    unsafe { SWIMLANE.record_sched_phase_with(thread as u32, phase) }
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_orch_phase(start: u64, end: u64, task: u64, index: u32) {
    // SAFETY: one thread calls.
    unsafe { SWIMLANE.record_orch_phase(start, end, task, index) }
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_core(
    core: &mut CoreRecorder,
    start: u64,
    end: u64,
    task: u64,
    token: u32,
    receive: u64,
) {
    let slot = core.reserve();
    // SAFETY: the slot is this core's next one.
    unsafe { CoreRecorder::commit(slot, start, end, task, token, receive) }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut arg = |what: &str| {
        args.next().unwrap_or_else(|| panic!("usage: hot FUNCTION CALLS LEVEL ({what} missing)"))
    };
    let function = arg("FUNCTION");
    let calls: u32 = arg("CALLS").parse().expect("a number of calls");
    let level = Level::from_raw(arg("LEVEL").parse().expect("a level")).expect("a level 0..=4");
    let (region, mut host) = launch(&SWIMLANE, level, 1);
    let mut core = recorder(&region, 0);
    let depths = [1i16, 2, 3];
    for n in 0..calls {
        let (token, at) = (black_box(n), black_box(u64::from(n)));
        // SAFETY: one thread calls; the core follows AICPU.
        unsafe {
            match function.as_str() {
                "guard" => _ = black_box(hot_guard()),
                "on_dispatch" => {
                    hot_on_dispatch(0, 0, token);
                    SWIMLANE.on_ack(0, 0, token);
                }
                "on_ack" => {
                    SWIMLANE.on_dispatch(0, 0, token);
                    hot_on_ack(0, 0, token);
                }
                "core" => {
                    SWIMLANE.on_dispatch(0, 0, token);
                    SWIMLANE.on_ack(0, 0, token);
                    hot_core(&mut core, at + 1, at + 2, at, token, at);
                }
                "complete_task" => _ = black_box(hot_complete_task(0, 0, token, at, at + 1)),
                "sched_phase" => {
                    hot_sched_phase(
                        0,
                        SchedPhaseKind::Dispatch,
                        at,
                        at + 1,
                        token,
                        1,
                        2,
                        3,
                        Some(&depths),
                        Some(&depths),
                    );
                }
                "orch_phase" => hot_orch_phase(at, at + 1, at, token),
                other => panic!("no function {other}"),
            }
        }
        if n % 512 == 511 {
            host.step(u32::MAX);
        }
    }
}
