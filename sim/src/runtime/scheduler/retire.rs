//! What a scheduler does without cores: events polled, resources released, graph tasks unrolled, dummies retired.

use super::super::plan::Kind;
use super::super::record::AicpuRecorder;
use super::{NO_DEPTHS, Scheduler};
use crate::exec::Cost;
use dfx_collector::abi::swimlane::SchedPhaseKind;
use std::sync::atomic::Ordering;

/// Units retired in one step, so that cores do not wait for long.
const BATCH: u32 = 64;

impl<A: AicpuRecorder> Scheduler<'_, A> {
    /// Completes tasks whose event has become true.
    pub(super) fn async_poll(&mut self) -> bool {
        use super::Events;
        if self.shared.events.next() == Events::NEVER {
            return false;
        }
        let now = self.exec.nanos();
        let mut begun = None;
        let mut tasks = 0;
        while let Some(unit) = self.shared.events.pop_due(now) {
            if begun.is_none() {
                begun = Some(self.begin());
            }
            self.ended.push(unit);
            tasks += 1;
        }
        if let Some(begun) = begun {
            self.resolve(false);
            self.end(SchedPhaseKind::AsyncPoll, begun, tasks);
        }
        tasks > 0
    }

    /// Gives back the window places of finished tasks.
    pub(super) fn release(&mut self) -> bool {
        let tasks = self.release.iter().sum::<u32>();
        if tasks == 0 {
            return false;
        }
        let begun = self.begin().0;
        for (ring, tasks) in std::mem::take(&mut self.release).into_iter().enumerate() {
            if tasks > 0 {
                self.shared.give_back(self.exec, ring, tasks);
            }
        }
        self.exec.spend(self.me, Cost::Release { tasks });
        if self.recording_phases() {
            let end = self.exec.now_aicpu();
            self.record(SchedPhaseKind::Release, (begun, NO_DEPTHS), (end, NO_DEPTHS), tasks);
            self.last_end = Some((end, self.shared.depths()));
        }
        true
    }

    /// Makes the nodes of graph tasks that have become ready.
    pub(super) fn graph_prepare(&mut self) -> bool {
        let mut moved = false;
        while let Some(graph) = self.shared.graphs.pop() {
            let begun = self.begin().0;
            let facts = self.shared.plan.unit(graph);
            let submit = self.shared.plan.submit(graph);
            let first = facts.first_node;
            // Every edge before any node is made ready: none runs while it still gets consumers.
            for (node, def) in (first..).zip(&submit.nodes) {
                let state = &self.shared.states[node as usize];
                state.fan_in.store(def.deps.len() as u32, Ordering::Release);
                for dep in &def.deps {
                    self.shared.edges.push(&self.shared.states[(first + dep) as usize].consumers, node);
                }
            }
            for (node, def) in (first..).zip(&submit.nodes) {
                if def.deps.is_empty() {
                    self.shared.make_ready(self.exec, node, Some(self.number));
                }
            }
            self.exec.spend(self.me, Cost::GraphPrepare { nodes: facts.blocks });
            if self.recording_phases() {
                let end = self.exec.now_aicpu();
                self.recorder.graph_prepare(begun, end, self.iter, facts.task_id, facts.blocks);
                self.last_end = Some((end, self.shared.depths()));
            }
            moved = true;
        }
        moved
    }

    /// Retires tasks without a kernel and those whose predicate is false.
    pub(super) fn dummy(&mut self) -> bool {
        let mut begun = None;
        let mut tasks = 0;
        while tasks < BATCH
            && let Some(unit) = self.shared.retire.pop()
        {
            if begun.is_none() {
                begun = Some(self.begin());
            }
            let facts = self.shared.plan.unit(unit);
            if self.recording_phases() {
                let at = self.exec.now_aicpu();
                match facts.kind {
                    Kind::Skip => self.recorder.predicated_skip(at, self.iter, facts.task_id),
                    _ => self.recorder.dummy_task(at, self.iter, facts.task_id),
                }
            }
            self.exec.spend(self.me, Cost::Retire);
            self.unit_ended(unit);
            self.resolve(false);
            tasks += 1;
        }
        if let Some(begun) = begun {
            self.end(SchedPhaseKind::Dummy, begun, tasks);
        }
        tasks > 0
    }
}
