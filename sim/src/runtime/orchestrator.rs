//! The orchestrator: walks the program and submits its tasks.

use super::capture::Capture;
use super::dump;
use super::edges::Edges;
use super::plan::{Kind, RINGS};
use super::queues::lock;
use super::record::{AicpuRecorder, Switches};
use super::rings::Rings;
use super::shared::{IDLE, Shared};
use crate::exec::{ActorId, Cost, Exec};
use crate::fanin::Fanin;
use crate::program::{Op, Submit, SubmitId};
use dfx_collector::abi::swimlane::Level;
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the orchestrator naps while its heap is full.
const ROOM: Duration = Duration::from_micros(50);

/// Walks the program to its end, or until the run is aborted.
pub(super) fn run<A: AicpuRecorder>(
    shared: &Shared,
    recorder: A,
    (level, switches): (Level, Switches),
    exec: &dyn Exec,
) {
    let rings = Rings::new(shared, shared.plan.program.ring_heap);
    let mut walk =
        Walk { shared, exec, me: shared.orchestrator(), recorder, switches, rings, edges: Vec::new() };
    let complete = walk.program(level);
    if shared.control.killed() {
        return;
    }
    if shared.keep_edges {
        *lock(&shared.control.edges) = walk.edges;
    }
    if level >= Level::OrchPhases || switches.dep_gen || switches.scope_stats {
        if !complete {
            walk.recorder.sync(&[]);
        }
        walk.recorder.flush_orch();
    }
    if complete {
        shared.control.orchestrated.store(true, Ordering::SeqCst);
        shared.check_finished(exec);
    }
}

struct Walk<'a, A> {
    shared: &'a Shared,
    exec: &'a dyn Exec,
    me: ActorId,
    recorder: A,
    switches: Switches,
    rings: Rings<'a>,
    edges: Vec<(SubmitId, SubmitId)>,
}

impl<A: AicpuRecorder> Walk<'_, A> {
    /// False if the run was aborted.
    fn program(&mut self, level: Level) -> bool {
        let shared = self.shared;
        let program = &*shared.plan.program;
        let stamping = level >= Level::OrchPhases;
        let mut fanin = Fanin::new(program);
        let mut capture = self.switches.dep_gen.then(|| Capture::new(&shared.plan));
        // A scope's site is the program's operation that opened it, as a line of the workload.
        let site = CString::new(program.name.as_bytes()).unwrap_or_default();
        let mut manual_scopes = Vec::new();
        let mut producers = Vec::new();
        if self.switches.scope_stats {
            self.recorder.ring_capacity(&self.rings.capacity());
            self.scope(0, None, true);
        }
        for (at, op) in program.ops.iter().enumerate() {
            let submit = match op {
                Op::ScopeBegin { manual } => {
                    manual_scopes.push(*manual);
                    self.scope(manual_scopes.len(), Some((&site, at as i32 + 1)), true);
                    continue;
                }
                Op::ScopeEnd => {
                    self.scope(manual_scopes.len(), None, false);
                    manual_scopes.pop();
                    continue;
                }
                Op::Submit(submit) => submit,
            };
            let manual = manual_scopes.last().copied().unwrap_or(false);
            let start = if stamping { self.exec.now_aicpu() } else { 0 };
            producers.clear();
            fanin.submit(submit, manual, &mut producers);
            if self.switches.scope_stats && !self.occupy(manual_scopes.len(), submit, producers.len()) {
                return false;
            }
            self.rings.tensormap = fanin.live() as i32;
            if !self.submit(submit, &producers) {
                return false;
            }
            self.exec.spend(
                self.me,
                Cost::Submit { fan_in: producers.len() as u32, args: submit.args.len() as u32 },
            );
            if let Some(capture) = capture.as_mut().filter(|_| !submit.alloc) {
                self.recorder.capture(capture.submit(submit, manual));
            }
            if stamping {
                let task_id = shared.plan.unit(submit.id.0).task_id;
                let end = self.exec.now_aicpu();
                self.recorder.orch_submit(start, end, task_id, submit.id.0);
            }
            if shared.control.aborted() {
                return false;
            }
        }
        self.scope(0, None, false);
        true
    }

    /// A scope at nesting `depth` (0 is the program itself) begins or ends.
    fn scope(&mut self, depth: usize, site: Option<(&CStr, i32)>, begins: bool) {
        if !self.switches.scope_stats {
            return;
        }
        let ring = depth.min(RINGS - 1);
        if begins {
            // Before the scope is open, so that wraps of an outer ring are not charged to this one.
            self.recorder.scope_begin(site, &self.rings.state(ring));
        } else {
            let recorder = &mut self.recorder;
            self.rings.reclaim(ring, |side| recorder.heap_wrap(side));
            self.recorder.scope_end(&self.rings.state(ring));
        }
    }

    /// `submit` takes its places in the ring of nesting `depth`, when there is room for its outputs. False if the run was
    /// aborted.
    fn occupy(&mut self, depth: usize, submit: &Submit, deps: usize) -> bool {
        let ring = depth.min(RINGS - 1);
        let bytes = self.rings.bytes_of(submit);
        loop {
            let recorder = &mut self.recorder;
            self.rings.reclaim(ring, |side| recorder.heap_wrap(side));
            if self.rings.fits(ring, bytes) {
                self.rings.take(ring, submit, bytes, deps, |side| recorder.heap_wrap(side));
                return true;
            }
            if self.shared.control.aborted() {
                return false;
            }
            self.exec.park(self.me, Some(ROOM));
        }
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
        dump::mark(&mut self.recorder, self.switches.dump, unit.task_id, submit);
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
