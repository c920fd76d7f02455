//! A notebook in the collectors' place, and programs by hand.

use super::super::*;
use crate::exec::threads::{ScaledCounter, ThreadsExec, TickSource};
use crate::memory::HeapAlloc;
use crate::program::{Kernel, Node, Op, SUBTASKS, Submit, TaskIdRule};
use dfx_collector::abi::swimlane::{Level, SchedPhaseKind};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// A core's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CoreRow {
    pub core: u32,
    pub task_id: u64,
    pub token: u32,
    pub receive: u64,
    pub start: u64,
    pub end: u64,
}

/// An AICPU record of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AicpuRow {
    pub core: u32,
    pub token: u32,
    pub dispatch: u64,
    pub finish: u64,
}

/// A record of a thread's phase lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Step(SchedPhase),
    Dummy { at: u64, loop_iter: u32, task_id: u64 },
    Skip { at: u64, loop_iter: u32, task_id: u64 },
    Graph { start: u64, end: u64, loop_iter: u32, task_id: u64, nodes: u32 },
}

impl Phase {
    pub(super) fn kind(&self) -> SchedPhaseKind {
        match self {
            Phase::Step(phase) => phase.kind,
            Phase::Dummy { .. } => SchedPhaseKind::DummyTask,
            Phase::Skip { .. } => SchedPhaseKind::PredicatedSkip,
            Phase::Graph { .. } => SchedPhaseKind::GraphPrepare,
        }
    }

    pub(super) fn span(&self) -> (u64, u64) {
        match *self {
            Phase::Step(phase) => (phase.start, phase.end),
            Phase::Dummy { at, .. } | Phase::Skip { at, .. } => (at, at),
            Phase::Graph { start, end, .. } => (start, end),
        }
    }
}

/// Everything that was recorded.
#[derive(Default)]
pub(super) struct Notes {
    pub inits: Vec<u32>,
    pub assigned: HashMap<u32, Vec<u32>>,
    pub core_rows: Vec<CoreRow>,
    pub aicpu_rows: Vec<AicpuRow>,
    pub phases: HashMap<u32, Vec<Phase>>,
    pub submits: Vec<(u64, u64, u64, u32)>,
    pub dispatches: u64,
    pub acks: u64,
    /// By core: the dispatch that was not acknowledged.
    unacknowledged: HashMap<u32, u32>,
    pub flushed: Vec<u32>,
    pub synced: Vec<u32>,
    pub orch_flushes: u32,
}

/// The recorder.
pub(super) struct Notebook {
    level: Level,
    pub notes: Mutex<Notes>,
}

impl Notebook {
    pub(super) fn new(level: Level) -> Arc<Self> {
        Arc::new(Self { level, notes: Mutex::default() })
    }
}

pub(super) struct AicpuNotes(Arc<Notebook>, u32);
pub(super) struct CoreNotes(Arc<Notebook>, u32);

impl Recorder for Notebook {
    type Aicpu = AicpuNotes;
    type Core = CoreNotes;
    fn level(&self) -> Level {
        self.level
    }
    fn aicpu(self: &Arc<Self>, thread: u32) -> AicpuNotes {
        AicpuNotes(Arc::clone(self), thread)
    }
    fn core(self: &Arc<Self>, core: u32) -> CoreNotes {
        assert_eq!(lock(&self.notes).inits.len(), 1, "a core records before init");
        CoreNotes(Arc::clone(self), core)
    }
}

impl AicpuNotes {
    fn at_level(&self, level: Level) {
        assert!(self.0.level >= level, "called at level {:?}", self.0.level);
    }
    fn phase(&self, phase: Phase) {
        self.at_level(Level::SchedPhases);
        lock(&self.0.notes).phases.entry(self.1).or_default().push(phase);
    }
}

impl AicpuRecorder for AicpuNotes {
    fn init(&mut self, sched_threads: u32) {
        let mut notes = lock(&self.0.notes);
        assert_eq!((self.1, notes.dispatches), (0, 0), "init comes first, from thread 0");
        notes.inits.push(sched_threads);
    }
    fn assign_cores(&mut self, cores: &[u32]) {
        self.at_level(Level::SchedPhases);
        assert!(lock(&self.0.notes).assigned.insert(self.1, cores.to_vec()).is_none());
    }
    fn on_dispatch(&mut self, core: u32, token: u32) {
        self.at_level(Level::AicoreTiming);
        let mut notes = lock(&self.0.notes);
        notes.dispatches += 1;
        let before = notes.unacknowledged.insert(core, token);
        assert_eq!(before, None, "core {core}: {token} dispatched while another is not acknowledged");
    }
    fn on_ack(&mut self, core: u32, token: u32) {
        self.at_level(Level::AicoreTiming);
        let mut notes = lock(&self.0.notes);
        notes.acks += 1;
        if notes.unacknowledged.get(&core) == Some(&token) {
            notes.unacknowledged.remove(&core);
        }
    }
    fn complete_task(&mut self, core: u32, token: u32, dispatch: u64, finish: u64) {
        self.at_level(Level::AicpuTiming);
        lock(&self.0.notes).aicpu_rows.push(AicpuRow { core, token, dispatch, finish });
    }
    fn sched_phase(&mut self, phase: &SchedPhase) {
        self.phase(Phase::Step(*phase));
    }
    fn dummy_task(&mut self, at: u64, loop_iter: u32, task_id: u64) {
        self.phase(Phase::Dummy { at, loop_iter, task_id });
    }
    fn predicated_skip(&mut self, at: u64, loop_iter: u32, task_id: u64) {
        self.phase(Phase::Skip { at, loop_iter, task_id });
    }
    fn graph_prepare(&mut self, start: u64, end: u64, loop_iter: u32, task_id: u64, nodes: u32) {
        self.phase(Phase::Graph { start, end, loop_iter, task_id, nodes });
    }
    fn orch_submit(&mut self, start: u64, end: u64, task_id: u64, submit_idx: u32) {
        self.at_level(Level::OrchPhases);
        lock(&self.0.notes).submits.push((start, end, task_id, submit_idx));
    }
    fn flush(&mut self, cores: &[u32]) {
        self.at_level(Level::AicoreTiming);
        lock(&self.0.notes).flushed.extend(cores);
    }
    fn flush_orch(&mut self) {
        self.at_level(Level::OrchPhases);
        lock(&self.0.notes).orch_flushes += 1;
    }
    fn sync(&mut self, cores: &[u32]) {
        self.at_level(Level::AicoreTiming);
        lock(&self.0.notes).synced.extend(cores);
    }
}

impl CoreRecorder for CoreNotes {
    type Slot = u32;
    fn reserve(&mut self) -> u32 {
        assert!(self.0.level >= Level::AicoreTiming);
        self.1
    }
    fn commit(&mut self, core: u32, start: u64, end: u64, task_id: u64, token: u32, receive: u64) {
        assert_eq!(core, self.1);
        lock(&self.0.notes).core_rows.push(CoreRow { core, task_id, token, receive, start, end });
    }
}

/// One execution of a kernel: submit's first argument tag, node, subtask, block.
pub(super) type Execution = (u32, Option<usize>, usize, u32);

/// A program by hand. All kernels note that they ran.
pub(super) struct Sketch {
    pub program: Program,
    pub ran: Arc<Mutex<Vec<Execution>>>,
    submits: u32,
}

/// Kernels of an AIC, AIV, second-AIV task.
pub(super) const AIC_TASK: [bool; SUBTASKS] = [true, false, false];
pub(super) const AIV_TASK: [bool; SUBTASKS] = [false, true, false];
pub(super) const AIV1_TASK: [bool; SUBTASKS] = [false, false, true];
pub(super) const MIX_TASK: [bool; SUBTASKS] = [true, true, true];
pub(super) const MIX2_TASK: [bool; SUBTASKS] = [true, false, true];
pub(super) const NO_KERNEL: [bool; SUBTASKS] = [false; SUBTASKS];

impl Sketch {
    pub(super) fn new() -> Self {
        let ran: Arc<Mutex<Vec<Execution>>> = Arc::default();
        let notes = Arc::clone(&ran);
        let kernel = Kernel {
            name: "k".to_owned(),
            duration: Duration::ZERO,
            run: Arc::new(move |ctx| {
                lock(&notes).push((ctx.scalar(0) as u32, ctx.node(), ctx.subtask, ctx.block_idx));
            }),
        };
        let program = Program {
            name: "sketch".to_owned(),
            buffers: Vec::new(),
            tensors: Vec::new(),
            kernels: vec![kernel],
            ops: Vec::new(),
            pace: false,
            ring_heap: crate::program::RING_HEAP,
            verify: None,
            marks: Vec::new(),
        };
        Self { program, ran, submits: 0 }
    }

    /// Appends a task after `deps`.
    pub(super) fn task(&mut self, kernels: [bool; SUBTASKS], deps: &[u32]) -> &mut Submit {
        let id = SubmitId(self.submits);
        self.submits += 1;
        let scalar =
            crate::program::Arg::Scalar(u64::from(id.0), dfx_collector::abi::tensor::DataType::Int32);
        self.program.ops.push(Op::Submit(Box::new(Submit {
            id,
            task_id: TaskIdRule::Next,
            kernels: kernels.map(|on| on.then_some(KernelId(0))),
            block_num: 1,
            args: vec![scalar],
            deps: deps.iter().map(|&dep| SubmitId(dep)).collect(),
            alloc: false,
            predicate: true,
            early_dispatch: false,
            sync_start: false,
            async_after: None,
            nodes: Vec::new(),
            duration: None,
            marks: crate::marks::ArgMarks::NONE,
        })));
        match self.program.ops.last_mut() {
            Some(Op::Submit(submit)) => submit,
            _ => unreachable!("just pushed"),
        }
    }

    pub(super) fn scope(&mut self, manual: bool) {
        self.program.ops.push(Op::ScopeBegin { manual });
    }

    pub(super) fn end_scope(&mut self) {
        self.program.ops.push(Op::ScopeEnd);
    }

    /// Runs it and gives back what happened.
    pub(super) fn run(&self, cfg: &LaunchConfig, level: Level) -> Run {
        let program = Arc::new(self.program.clone());
        let memory = ProgramMemory::new(&program, Arc::new(HeapAlloc::default())).expect("no buffers");
        let [core_ticks, aicpu_ticks] = [(); 2].map(|()| CountedTicks::new());
        let exec = Arc::new(ThreadsExec::with_sides(core_ticks.clone(), aicpu_ticks.clone()));
        let recorder = Notebook::new(level);
        let cfg = LaunchConfig { keep_edges: true, ..cfg.clone() };
        lock(&self.ran).clear();
        let outcome =
            launch(&cfg, Arc::clone(&program), Arc::new(memory), &recorder, exec).expect("launched");
        let notes = std::mem::take(&mut *lock(&recorder.notes));
        let reads = (core_ticks.reads.load(Ordering::Relaxed), aicpu_ticks.reads.load(Ordering::Relaxed));
        Run { outcome, notes, reads, ran: std::mem::take(&mut *lock(&self.ran)), program, level }
    }
}

/// Nodes by kernels and dependencies.
pub(super) fn node(kernels: [bool; SUBTASKS], deps: &[u32]) -> Node {
    Node { kernels: kernels.map(|on| on.then_some(KernelId(0))), deps: deps.to_vec() }
}

/// The counter, counted.
pub(super) struct CountedTicks {
    counter: ScaledCounter,
    pub reads: AtomicU64,
}

impl CountedTicks {
    fn new() -> Arc<Self> {
        Arc::new(Self { counter: ScaledCounter::new(1_000_000_000), reads: AtomicU64::new(0) })
    }
}

impl TickSource for CountedTicks {
    fn ticks(&self) -> u64 {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.counter.ticks()
    }
}

/// What a run left.
pub(super) struct Run {
    pub outcome: LaunchOutcome,
    pub notes: Notes,
    /// Counter reads by cores and by AICPU threads.
    pub reads: (u64, u64),
    pub ran: Vec<Execution>,
    pub program: Arc<Program>,
    pub level: Level,
}

impl Run {
    /// The rows of each task id.
    pub(super) fn rows_by_task(&self) -> HashMap<u64, Vec<CoreRow>> {
        let mut rows: HashMap<u64, Vec<CoreRow>> = HashMap::new();
        for row in &self.notes.core_rows {
            rows.entry(row.task_id).or_default().push(*row);
        }
        rows
    }

    pub(super) fn task_id(&self, submit: u32) -> u64 {
        self.outcome.tasks[submit as usize].task_id
    }

    pub(super) fn phases(&self, kind: SchedPhaseKind) -> Vec<Phase> {
        let all = self.notes.phases.values().flatten();
        all.filter(|phase| phase.kind() == kind).copied().collect()
    }

    /// A complete run: every row once, joined, in order; nothing beyond the level.
    pub(super) fn assert_whole(&self) {
        let outcome = &self.outcome;
        assert_eq!(outcome.status, LaunchStatus::Completed);
        assert!(!outcome.killed && outcome.tasks.iter().all(|task| task.completed));
        let submits = self.program.submits().count() as u64;
        let rows: u64 = self.program.submits().map(Submit::core_rows).sum();
        assert_eq!((outcome.submitted, outcome.completed, outcome.core_rows), (submits, submits, rows));
        self.assert_each_kernel_ran_once();
        let notes = &self.notes;
        let on = |level: Level, count: u64| if self.level >= level { count } else { 0 };
        assert_eq!(notes.inits.len(), 1);
        assert_eq!(notes.core_rows.len() as u64, on(Level::AicoreTiming, rows));
        assert_eq!(notes.dispatches, on(Level::AicoreTiming, rows));
        assert_eq!(notes.aicpu_rows.len() as u64, on(Level::AicpuTiming, rows));
        assert_eq!(notes.submits.len() as u64, on(Level::OrchPhases, submits));
        assert_eq!(u64::from(notes.orch_flushes), on(Level::OrchPhases, 1));
        assert!(self.level < Level::AicoreTiming || notes.acks >= rows);
        assert!(notes.synced.is_empty());
        let mut flushed = notes.flushed.clone();
        flushed.sort_unstable();
        flushed.dedup();
        assert_eq!(flushed.len(), notes.flushed.len(), "each core is flushed once");
        if self.level >= Level::AicpuTiming {
            self.assert_joined();
        }
        if self.level >= Level::AicoreTiming {
            self.assert_order();
        }
        self.assert_phases_nest();
    }

    fn assert_each_kernel_ran_once(&self) {
        let mut expected = Vec::new();
        for submit in self.program.submits().filter(|submit| submit.predicate) {
            let active = |kernels: &[Option<KernelId>; SUBTASKS]| {
                let slots: Vec<usize> = (0..SUBTASKS).filter(|&slot| kernels[slot].is_some()).collect();
                slots
            };
            for block in 0..submit.block_num {
                expected.extend(active(&submit.kernels).iter().map(|&slot| (submit.id.0, None, slot, block)));
            }
            for (at, node) in submit.nodes.iter().enumerate() {
                expected.extend(active(&node.kernels).iter().map(|&slot| (submit.id.0, Some(at), slot, 0)));
            }
        }
        let mut ran = self.ran.clone();
        ran.sort_unstable();
        expected.sort_unstable();
        assert_eq!(ran, expected);
    }

    fn assert_joined(&self) {
        let cores: HashMap<(u32, u32), CoreRow> =
            self.notes.core_rows.iter().map(|row| ((row.core, row.token), *row)).collect();
        assert_eq!(cores.len(), self.notes.core_rows.len(), "(core, token) repeats");
        for row in &self.notes.aicpu_rows {
            let core = cores.get(&(row.core, row.token)).expect("an AICPU row without its core row");
            assert!(row.dispatch <= core.receive && core.receive <= core.start, "{row:?} {core:?}");
            assert!(core.start <= core.end && core.end <= row.finish, "{row:?} {core:?}");
        }
    }

    /// No task starts before its predecessors ended.
    fn assert_order(&self) {
        let rows = self.rows_by_task();
        for &(before, after) in &self.outcome.edges {
            let (before, after) = (self.task_id(before.0), self.task_id(after.0));
            let ended = rows.get(&before).into_iter().flatten().map(|row| row.end).max();
            let started = rows.get(&after).into_iter().flatten().map(|row| row.start).min();
            if let (Some(ended), Some(started)) = (ended, started) {
                assert!(ended <= started, "{after:#x} started at {started}, {before:#x} ended at {ended}");
            }
        }
    }

    /// On one thread's lane, steps contain each other or lie apart, and iterations count up.
    fn assert_phases_nest(&self) {
        for phases in self.notes.phases.values() {
            let mut spans: Vec<(u64, u64)> = phases.iter().map(Phase::span).collect();
            spans.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
            let mut open: Vec<u64> = Vec::new();
            for (start, end) in spans {
                assert!(start <= end);
                while open.last().is_some_and(|&outer| outer <= start) {
                    open.pop();
                }
                assert!(open.last().is_none_or(|&outer| end <= outer), "steps overlap");
                open.push(end);
            }
        }
    }
}
