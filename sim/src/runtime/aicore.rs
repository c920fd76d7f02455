//! A core: takes tokens from its dispatch register, runs kernels, answers through its condition register.

use super::board::{EXIT, NO_TOKEN, Payload};
use super::record::{CoreRecorder, Recorder};
use super::shared::Shared;
use crate::exec::{ActorId, Cost, Exec};
use crate::pmu::Work;
use crate::program::SubmitId;
use dfx_collector::abi::swimlane::Level;
use dfx_collector::abi::token as abi_token;
use std::sync::Arc;
use std::time::Duration;

/// Runs core `core` until AICPU or the host ends it.
pub(super) fn run<R: Recorder>(shared: &Shared, recorder: &Arc<R>, core: u32, exec: &dyn Exec) {
    let me = ActorId::Core(core);
    let scheduler = ActorId::Aicpu(shared.board.owner(core));
    let registers = shared.board.registers(core);
    let recording = recorder.level() >= Level::AicoreTiming;
    let counting = recorder.switches().pmu;
    let mut lane = None;
    let mut last = NO_TOKEN;
    let mut turn = 0;
    while !shared.board.stopped() {
        let token = registers.dispatched();
        if token >= EXIT {
            return;
        }
        if token == last {
            exec.park(me, None);
            continue;
        }
        last = token;
        let receive = if recording { exec.now_core() } else { 0 };
        let payload = registers.payload(turn);
        turn = turn.wrapping_add(1);
        if payload.gated {
            while !registers.rung(token) {
                if shared.board.stopped() {
                    return;
                }
                exec.park(me, None);
            }
        }
        // Before the acknowledgement: AICPU may rotate this core's buffer only between acknowledgements.
        let mut own = (recording || counting).then(|| lane.get_or_insert_with(|| recorder.core(core)));
        let slot = own.as_mut().filter(|_| recording).map(|own| own.reserve());
        exec.spend(me, Cost::CoreTake);
        registers.answer(abi_token::ack(token));
        exec.wake(scheduler);
        if let Some(own) = own.as_mut().filter(|_| counting) {
            own.pmu_begin();
        }
        let begun = if counting { exec.nanos() } else { 0 };
        let start = if recording { exec.now_core() } else { 0 };
        if !run_kernel(shared, exec, me, &payload) {
            return;
        }
        let end = if recording { exec.now_core() } else { 0 };
        if let Some(own) = own.as_mut().filter(|_| counting) {
            own.pmu_ran(&work(shared, &payload, exec.nanos() - begun), token);
        }
        registers.answer(abi_token::fin(token));
        exec.wake(scheduler);
        if let Some(own) = own {
            if counting {
                own.pmu_finished();
            }
            if let Some(slot) = slot {
                own.commit(slot, start, end, shared.plan.unit(payload.unit).task_id, token, receive);
            }
        }
        exec.spend(me, Cost::CoreFinish);
    }
}

/// What the hardware saw of a kernel that took `nanos`.
fn work(shared: &Shared, payload: &Payload, nanos: u64) -> Work {
    let Payload { unit, block, subtask, .. } = *payload;
    let facts = shared.plan.unit(unit);
    let kernel = shared.plan.kernel_id(unit, usize::from(subtask));
    Work {
        task_id: facts.task_id,
        submit: facts.submit,
        func_id: kernel.map_or(u32::MAX, |kernel| kernel.0),
        block,
        nanos,
    }
}

/// False if the core was ended while it ran.
fn run_kernel(shared: &Shared, exec: &dyn Exec, me: ActorId, payload: &Payload) -> bool {
    let plan = &shared.plan;
    let unit = plan.unit(payload.unit);
    let subtask = usize::from(payload.subtask);
    if shared.faults.core_hang == Some(SubmitId(unit.submit)) {
        while !shared.board.stopped() {
            exec.park(me, None);
        }
        return false;
    }
    let duration = plan.duration(payload.unit, subtask);
    let due = if plan.program.pace { exec.nanos().saturating_add(nanos(duration)) } else { 0 };
    let submit = plan.submit(payload.unit);
    match unit.node() {
        None => shared.memory.run_kernel(&plan.program, submit, subtask, payload.block),
        Some(node) => shared.memory.run_node(&plan.program, submit, node, subtask),
    }
    if !plan.program.pace {
        exec.spend(me, Cost::Kernel(duration));
        return true;
    }
    loop {
        let left = due.saturating_sub(exec.nanos());
        if left == 0 {
            return true;
        }
        if shared.board.stopped() {
            return false;
        }
        // A wake for the next task only shortens this nap; its register is looked at after the kernel.
        exec.park(me, Some(Duration::from_nanos(left)));
    }
}

/// A duration in nanoseconds, the longest one if it does not fit.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
