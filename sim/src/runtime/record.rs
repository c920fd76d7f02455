//! What the runtime calls to have itself recorded. The collectors sit behind these traits; a test sits there with a
//! notebook.
//!
//! Who calls what, and at which level, is the runtime's business: a level is a guard *before* the call, so that what is
//! off costs one branch. Level 1: [`AicpuRecorder::on_dispatch`], [`on_ack`](AicpuRecorder::on_ack), and the cores'
//! [`reserve`](CoreRecorder::reserve) and [`commit`](CoreRecorder::commit) with three counter reads of the core. Level 2:
//! one read per dispatch and one per finish, and [`complete_task`](AicpuRecorder::complete_task). Level 3: the scheduler's
//! phases. Level 4: the orchestrator's submits. At level 0 nothing but [`init`](AicpuRecorder::init) is called and no
//! counter is read.
//!
//! Any of these calls may wait for the host; the runtime holds no lock across them.

use super::capture::Captured;
use super::rings::{HeapSide, RingCapacity};
use crate::pmu::Work;
use dfx_collector::abi::args_dump::{Info, Level as DumpLevel};
use dfx_collector::abi::swimlane::Level;
use dfx_collector::abi::task::CoreType;
use dfx_collector::abi::tensor::MAX_SCALAR_ARGS;
use dfx_collector::scope_stats::Sample;
use std::sync::Arc;

pub use dfx_collector::swimlane::SchedPhase;

/// The features that have no level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switches {
    /// Submits are captured.
    pub dep_gen: bool,
    /// Scopes are sampled.
    pub scope_stats: bool,
    /// Kernels are counted.
    pub pmu: bool,
    /// Arguments are dumped.
    pub dump: DumpLevel,
    /// A core holds one task at a time: its counters are one set, and AICPU reads them between two tasks (PMU on a2a3).
    pub single_issue: bool,
}

/// A task that has ended on a core, as the PMU's row names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountedTask {
    /// The task, or the node of a graph task.
    pub task_id: u64,
    /// The kernel that ran on this core: each subtask of a MIX task has its own.
    pub func_id: u32,
    /// What the core is.
    pub core_type: CoreType,
}

/// The recorders of one launch.
pub trait Recorder: Send + Sync + 'static {
    /// An AICPU thread's own.
    type Aicpu: AicpuRecorder + 'static;
    /// A core's own.
    type Core: CoreRecorder + 'static;

    /// How much the chip swimlane records, for the whole launch.
    fn level(&self) -> Level;
    /// What else is recorded, for the whole launch.
    fn switches(&self) -> Switches {
        Switches::default()
    }
    /// The recorder of AICPU thread `thread`; called once for each, on that thread: for thread 0 first of all, for the
    /// others when thread 0's [`init`](AicpuRecorder::init) has run.
    fn aicpu(self: &Arc<Self>, thread: u32) -> Self::Aicpu;
    /// The recorder of core `core`, level ≥ 1 or with PMU; called on that core when its first task arrives (so `init` has run).
    fn core(self: &Arc<Self>, core: u32) -> Self::Core;
}

/// What an AICPU thread records.
pub trait AicpuRecorder {
    /// Once per launch, by AICPU thread 0, before any other call and before any task is dispatched.
    fn init(&mut self, sched_threads: u32);
    /// Each scheduler, once, level ≥ 3: these cores are its own.
    fn assign_cores(&mut self, cores: &[u32]);
    /// Before each write of a dispatch register, level ≥ 1.
    fn on_dispatch(&mut self, core: u32, token: u32);
    /// On each acknowledgement and each finish seen, level ≥ 1.
    fn on_ack(&mut self, core: u32, token: u32);
    /// On each finish, level ≥ 2: when it was dispatched and when its finish was seen, in ticks.
    fn complete_task(&mut self, core: u32, token: u32, dispatch: u64, finish: u64);
    /// A step did work; level ≥ 3.
    fn sched_phase(&mut self, phase: &SchedPhase);
    /// A task without a kernel retired; level ≥ 3.
    fn dummy_task(&mut self, at: u64, loop_iter: u32, task_id: u64);
    /// A task whose predicate is false retired; level ≥ 3.
    fn predicated_skip(&mut self, at: u64, loop_iter: u32, task_id: u64);
    /// A graph task's nodes were made; level ≥ 3.
    fn graph_prepare(&mut self, start: u64, end: u64, loop_iter: u32, task_id: u64, nodes: u32);
    /// The orchestrator submitted a task; level ≥ 4.
    fn orch_submit(&mut self, start: u64, end: u64, task_id: u64, submit_idx: u32);
    /// The orchestrator submitted a task; with dep_gen.
    fn capture(&mut self, submit: &Captured) {
        let _ = submit;
    }
    /// What the rings hold, once, before the first scope; with scope stats.
    fn ring_capacity(&mut self, capacity: &RingCapacity) {
        let _ = capacity;
    }
    /// A scope begins at `site` (a file and a line; `None` for the program itself); with scope stats.
    fn scope_begin(&mut self, site: Option<(&std::ffi::CStr, i32)>, sample: &Sample) {
        let _ = (site, sample);
    }
    /// The innermost scope ends; with scope stats.
    fn scope_end(&mut self, sample: &Sample) {
        let _ = sample;
    }
    /// A pointer of the current ring's heap passed its end; with scope stats.
    fn heap_wrap(&mut self, side: HeapSide) {
        let _ = side;
    }
    /// On each finish, before the core is given another task if the launch is [single issue](Switches::single_issue);
    /// with PMU.
    fn pmu_record(&mut self, core: u32, token: u32, task: &CountedTask) {
        let _ = (core, token, task);
    }
    /// The orchestrator submits a task of which these arguments are marked; at the dump's levels 1 and 3, before anybody
    /// learns of the task.
    fn mark_task(&mut self, task_id: u64, mask: u64, ambiguous: u64) {
        let _ = (task_id, mask, ambiguous);
    }
    /// The same for the types of its scalars.
    fn scalar_dtypes(&mut self, task_id: u64, dtypes: &[u8]) {
        let _ = (task_id, dtypes);
    }
    /// What [`mark_task`](Self::mark_task) said; 0 if it said nothing.
    fn task_marks(&self, task_id: u64) -> (u64, u64) {
        let _ = task_id;
        (0, 0)
    }
    /// What [`scalar_dtypes`](Self::scalar_dtypes) said; `into` stays as it is where it said nothing.
    fn task_scalar_dtypes(&self, task_id: u64, into: &mut [u8; MAX_SCALAR_ARGS]) {
        let _ = (task_id, into);
    }
    /// An argument to be dumped: a task's inputs before its first dispatch, its outputs after its completion. Returns the
    /// bytes that this copied.
    fn dump_arg(&mut self, info: &Info) -> u64 {
        let _ = info;
        0
    }
    /// At a scheduler's end, level ≥ 1, with PMU or args dump: its cores' lanes and its own.
    fn flush(&mut self, cores: &[u32]);
    /// At the orchestrator's end, if it recorded anything: level ≥ 4, dep_gen, scope stats.
    fn flush_orch(&mut self);
    /// On an abnormal end, before the flush, if anything is recorded: publish what is counted.
    fn sync(&mut self, cores: &[u32]);
}

/// What a core records; level ≥ 1, and with PMU.
///
/// The PMU's calls stand where `abi/symbols.md` §8 has them: [`pmu_begin`](Self::pmu_begin) after the acknowledgement,
/// [`pmu_ran`](Self::pmu_ran) before the finish, [`pmu_finished`](Self::pmu_finished) after it.
pub trait CoreRecorder {
    /// A place for a record.
    type Slot: Copy;
    /// Before the acknowledgement: takes the place of the coming record.
    fn reserve(&mut self) -> Self::Slot;
    /// After the finish: writes it. Times in ticks.
    fn commit(&mut self, slot: Self::Slot, start: u64, end: u64, task_id: u64, token: u32, receive: u64);
    /// Before the kernel: opens the counters.
    fn pmu_begin(&mut self) {}
    /// After the kernel: the hardware has counted `work`. On a5 shuts the counters and leaves them for AICPU.
    fn pmu_ran(&mut self, work: &Work, token: u32) {
        let _ = (work, token);
    }
    /// After the finish: on a2a3 shuts the counters.
    fn pmu_finished(&mut self) {}
}
