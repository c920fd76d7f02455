//! The orchestrator: walks the program and submits its tasks.

use super::edges::Edges;
use super::plan::Kind;
use super::queues::lock;
use super::record::AicpuRecorder;
use super::shared::{IDLE, Shared};
use crate::exec::{ActorId, Cost, Exec};
use crate::fanin::Fanin;
use crate::program::{Op, Submit, SubmitId};
use dfx_collector::abi::swimlane::Level;
use std::sync::atomic::Ordering;

/// Walks the program to its end, or until the run is aborted.
pub(super) fn run<A: AicpuRecorder>(shared: &Shared, mut recorder: A, level: Level, exec: &dyn Exec) {
    let mut walk = Walk { shared, exec, me: shared.orchestrator(), edges: Vec::new() };
    let complete = walk.program(&mut recorder, level);
    if shared.control.killed() {
        return;
    }
    if shared.keep_edges {
        *lock(&shared.control.edges) = walk.edges;
    }
    if level >= Level::OrchPhases {
        recorder.flush_orch();
    }
    if complete {
        shared.control.orchestrated.store(true, Ordering::SeqCst);
        shared.check_finished(exec);
    }
}

struct Walk<'a> {
    shared: &'a Shared,
    exec: &'a dyn Exec,
    me: ActorId,
    edges: Vec<(SubmitId, SubmitId)>,
}

impl Walk<'_> {
    /// False if the run was aborted.
    fn program<A: AicpuRecorder>(&mut self, recorder: &mut A, level: Level) -> bool {
        let shared = self.shared;
        let program = &*shared.plan.program;
        let stamping = level >= Level::OrchPhases;
        let mut fanin = Fanin::new(program);
        let mut manual_scopes = Vec::new();
        let mut producers = Vec::new();
        for op in &program.ops {
            let submit = match op {
                Op::ScopeBegin { manual } => {
                    manual_scopes.push(*manual);
                    continue;
                }
                Op::ScopeEnd => {
                    manual_scopes.pop();
                    continue;
                }
                Op::Submit(submit) => submit,
            };
            let start = if stamping { self.exec.now_aicpu() } else { 0 };
            producers.clear();
            fanin.submit(submit, manual_scopes.last().copied().unwrap_or(false), &mut producers);
            if !self.submit(submit, &producers) {
                return false;
            }
            self.exec.spend(
                self.me,
                Cost::Submit { fan_in: producers.len() as u32, args: submit.args.len() as u32 },
            );
            if stamping {
                let task_id = shared.plan.unit(submit.id.0).task_id;
                recorder.orch_submit(start, self.exec.now_aicpu(), task_id, submit.id.0);
            }
            if shared.control.aborted() {
                return false;
            }
        }
        true
    }

    fn submit(&mut self, submit: &Submit, producers: &[SubmitId]) -> bool {
        let Shared { plan, states, edges, early, control, rings, .. } = self.shared;
        let number = submit.id.0;
        let unit = plan.unit(number);
        let state = &states[number as usize];
        if self.shared.keep_edges {
            self.edges.extend(producers.iter().map(|&producer| (producer, submit.id)));
        }
        if unit.kind == Kind::Alloc {
            self.retire_alloc(number);
            return true;
        }
        if !self.wait_for_window(usize::from(unit.ring)) {
            return false;
        }
        rings[usize::from(unit.ring)].in_flight.fetch_add(1, Ordering::SeqCst);
        control.submitted.fetch_add(1, Ordering::SeqCst);
        // The hold of 1 keeps it from becoming ready before every producer has been asked.
        state.fan_in.store(producers.len() as u32 + 1, Ordering::Relaxed);
        let early_task = if plan.early { early.tasks.get(&number) } else { None };
        if let Some(task) = early_task {
            task.unstarted.store(producers.len() as u32 + 1, Ordering::Relaxed);
        }
        let (mut ended, mut under_way) = (1, 1);
        for producer in producers {
            ended += u32::from(!edges.push(&states[producer.0 as usize].consumers, number));
            if early_task.is_some() {
                under_way += u32::from(!edges.push(&early.watchers[producer.0 as usize], number));
            }
        }
        if state.fan_in.fetch_sub(ended, Ordering::AcqRel) == ended {
            self.shared.make_ready(self.exec, number, None);
        } else if early_task.is_some() {
            self.shared.early_producers_less(self.exec, number, under_way);
        }
        true
    }

    /// An alloc makes nothing run: it has completed when it is submitted.
    fn retire_alloc(&self, number: u32) {
        let control = &self.shared.control;
        let mut nobody = Vec::new();
        self.shared.edges.take(&self.shared.states[number as usize].consumers, &mut nobody);
        if self.shared.plan.early {
            self.shared.edges.take(&self.shared.early.watchers[number as usize], &mut nobody);
        }
        debug_assert!(nobody.is_empty(), "a consumer was submitted before its producer");
        debug_assert!(Edges::taken(&self.shared.states[number as usize].consumers));
        control.submitted.fetch_add(1, Ordering::SeqCst);
        control.completed.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until ring `ring` has room for one more task. False if the run was aborted.
    fn wait_for_window(&self, ring: usize) -> bool {
        let Shared { control, rings, window, .. } = self.shared;
        let ring = &rings[ring];
        while ring.in_flight.load(Ordering::SeqCst) >= *window {
            if control.aborted() {
                return false;
            }
            ring.waited_for.store(true, Ordering::SeqCst);
            if ring.in_flight.load(Ordering::SeqCst) < *window {
                break;
            }
            self.exec.park(self.me, Some(IDLE));
        }
        ring.waited_for.store(false, Ordering::Relaxed);
        true
    }
}
