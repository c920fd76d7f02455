//! `complete`: looks at the cores' condition registers; `resolve`: what their ends make possible.

use super::super::plan::Kind;
use super::super::record::{AicpuRecorder, CountedTask};
use super::cores::Held;
use super::{NO_DEPTHS, Scheduler, Stamp, nanos};
use crate::exec::Cost;
use crate::program::AIC;
use dfx_collector::abi::args_dump::Stage;
use dfx_collector::abi::swimlane::{Level, SchedPhaseKind};
use dfx_collector::abi::task::CoreType;
use dfx_collector::abi::token as abi_token;
use std::sync::atomic::Ordering;

/// A `complete` step under way.
#[derive(Default)]
struct Pass {
    /// Set at the first finish.
    begun: Option<Stamp>,
    finishes: u32,
    acknowledged: u32,
}

/// What completing units came to.
#[derive(Default)]
pub(super) struct Resolved {
    /// Consumers visited.
    pub consumers: u32,
    /// When the first was found, in ticks, if asked for.
    pub start: u64,
    stamped: bool,
}

impl<A: AicpuRecorder> Scheduler<'_, A> {
    /// True if a core acknowledged or finished.
    pub(super) fn complete(&mut self) -> bool {
        let mut pass = Pass::default();
        self.exec.spend(self.me, Cost::Poll { cores: self.cores.busy().len() });
        for index in self.cores.busy() {
            self.poll(index, &mut pass);
        }
        if let Some(begun) = pass.begun {
            let resolved = self.resolve(self.recording_phases());
            if resolved.stamped && resolved.consumers > 0 {
                let end = self.exec.now_aicpu();
                let (start, consumers) = (resolved.start, resolved.consumers);
                self.record(SchedPhaseKind::Resolve, (start, NO_DEPTHS), (end, NO_DEPTHS), consumers);
            }
            self.end(SchedPhaseKind::Complete, begun, pass.finishes);
        }
        pass.finishes + pass.acknowledged > 0
    }

    fn poll(&mut self, index: usize, pass: &mut Pass) {
        let core = &self.cores.list[index];
        let Some(running) = core.running else { return };
        let condition = self.shared.board.registers(core.id).condition();
        let token = abi_token::of(condition);
        if core.pending.is_some_and(|pending| pending.token == token) {
            // The core is past the first: its finish was overwritten by the second's answer.
            self.finished(index, pass);
        } else if token != running.token {
            return;
        }
        let finished = abi_token::state(condition) == abi_token::STATE_FIN;
        self.acknowledged(index, pass, !finished);
        if finished {
            self.finished(index, pass);
        }
    }

    /// The running task of core `index` was acknowledged. `alone`: the answer is no finish at the same time.
    fn acknowledged(&mut self, index: usize, pass: &mut Pass, alone: bool) {
        let Some(Held { unit, token, .. }) = self.cores.acknowledge(index) else { return };
        let id = self.cores.list[index].id;
        pass.acknowledged += 1;
        if alone {
            self.exec.spend(self.me, Cost::Acknowledged);
            if self.level >= Level::AicoreTiming {
                self.recorder.on_ack(id, token);
            }
        }
        if self.shared.plan.early
            && let Some(unacked) = self.shared.early.unacked.get(unit as usize)
            && unacked.fetch_sub(1, Ordering::AcqRel) == 1
        {
            self.shared.under_way(self.exec, unit, &mut self.consumers);
        }
    }

    /// The running task of core `index` has ended.
    fn finished(&mut self, index: usize, pass: &mut Pass) {
        if pass.begun.is_none() {
            pass.begun = Some(self.begin());
        }
        let Some(held) = self.cores.finish(index) else { return };
        let id = self.cores.list[index].id;
        debug_assert!(held.acknowledged, "a finish without an acknowledgement");
        if self.level >= Level::AicoreTiming {
            self.recorder.on_ack(id, held.token);
        }
        if self.level >= Level::AicpuTiming {
            let finish = self.exec.now_aicpu();
            self.recorder.complete_task(id, held.token, held.dispatch, finish);
        }
        if self.pmu {
            let plan = &self.shared.plan;
            let kernel = plan.kernel_id(held.unit, usize::from(held.subtask));
            let task = CountedTask {
                task_id: plan.unit(held.unit).task_id,
                func_id: kernel.map_or(u32::MAX, |kernel| kernel.0),
                core_type: if usize::from(held.subtask) == AIC { CoreType::Aic } else { CoreType::Aiv },
            };
            self.recorder.pmu_record(id, held.token, &task);
        }
        self.exec.spend(self.me, Cost::Finished);
        pass.finishes += 1;
        let control = &self.shared.control;
        control.rows.fetch_add(1, Ordering::Relaxed);
        control.moved();
        if self.shared.states[held.unit as usize].left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.unit_ended(held.unit);
        }
    }

    /// All of `unit` has ended: it completes now, or by an event later.
    pub(super) fn unit_ended(&mut self, unit: u32) {
        let is_node = self.shared.plan.unit(unit).node().is_some();
        match self.shared.plan.submit(unit).async_after.filter(|_| !is_node) {
            Some(after) => {
                let due = self.exec.nanos().saturating_add(nanos(after));
                self.shared.events.push(due, unit);
            }
            None => self.ended.push(unit),
        }
    }

    /// Completes the units that have ended: makes ready whoever waited for nothing else. `stamped`: the caller records
    /// it as a step of its own.
    pub(super) fn resolve(&mut self, stamped: bool) -> Resolved {
        let mut resolved = Resolved { stamped, ..Resolved::default() };
        let mut next = 0;
        while next < self.ended.len() {
            self.complete_unit(self.ended[next], &mut resolved);
            next += 1;
        }
        self.ended.clear();
        if resolved.consumers > 0 {
            self.exec.spend(self.me, Cost::Resolve { consumers: resolved.consumers });
        }
        resolved
    }

    fn complete_unit(&mut self, number: u32, resolved: &mut Resolved) {
        let shared = self.shared;
        let unit = shared.plan.unit(number);
        if unit.node().is_some() {
            let graph = unit.submit;
            if shared.states[graph as usize].left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.unit_ended(graph);
            }
        }
        if self.dumps() && unit.node().is_none() && shared.plan.submit(number).is_dumped() {
            self.dump_args(number, Stage::AfterCompletion);
        }
        self.consumers.clear();
        shared.edges.take(&shared.states[number as usize].consumers, &mut self.consumers);
        if resolved.stamped && resolved.consumers == 0 && !self.consumers.is_empty() {
            resolved.start = self.exec.now_aicpu();
        }
        resolved.consumers += self.consumers.len() as u32;
        for &consumer in &self.consumers {
            if shared.states[consumer as usize].fan_in.fetch_sub(1, Ordering::AcqRel) == 1 {
                shared.make_ready(self.exec, consumer, Some(self.number));
            }
        }
        if unit.node().is_none() {
            if shared.plan.early {
                shared.under_way(self.exec, number, &mut self.consumers);
            }
            debug_assert!(unit.kind != Kind::Alloc, "allocs retire on the orchestrator");
            self.release[usize::from(unit.ring)] += 1;
            shared.control.moved();
            shared.control.completed.fetch_add(1, Ordering::SeqCst);
            shared.check_finished(self.exec);
        }
    }
}
