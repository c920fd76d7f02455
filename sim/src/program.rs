//! What a simulated run executes: tensors, kernels, and the list of operations that the orchestrator walks.
//!
//! A [`Program`] is data. It is made by [`ProgramBuilder`](crate::builder::ProgramBuilder), which checks every call, and
//! by the `graph:` loader; the runtime only reads it. Dependencies are *not* in here (except those that a submit names
//! itself): the orchestrator derives them while it walks.

use crate::memory::KernelCtx;
use dfx_collector::abi::tensor::DataType;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A piece of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferId(pub u32);
/// A view of a buffer: the *value* that a kernel is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TensorId(pub u32);
/// A kernel of the program (its number is the `func_id` of the artifacts).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KernelId(pub u32);
/// A submit, counted from 0 in program order (the orchestrator's `submit_idx`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SubmitId(pub u32);

/// The subtask slots of a task, in the order of the ABI's kernel ids.
pub const SUBTASKS: usize = 3;
/// Subtask slot of the AIC core.
pub const AIC: usize = 0;
/// Subtask slot of the first AIV core.
pub const AIV0: usize = 1;
/// Subtask slot of the second AIV core.
pub const AIV1: usize = 2;

/// How a buffer's bytes start out.
#[derive(Clone)]
pub enum Init {
    /// All zero.
    Zero,
    /// These bytes, from the start; the rest zero.
    Bytes(Arc<[u8]>),
}

/// A buffer that the program uses.
#[derive(Clone)]
pub struct BufferDef {
    /// Size in bytes.
    pub bytes: u64,
    /// First content.
    pub init: Init,
    /// The submit that creates it; `None` for what the host made before the launch.
    pub creator: Option<SubmitId>,
}

/// A view: element `(i0, …)` lies at `start_offset + Σ i·stride` elements from the buffer's start.
#[derive(Clone, Debug)]
pub struct TensorDef {
    /// What messages call it.
    pub name: String,
    /// Whose memory.
    pub buffer: BufferId,
    /// Element type.
    pub dtype: DataType,
    /// 0 to 5 extents, in elements.
    pub shape: Vec<u32>,
    /// As many strides, in elements.
    pub strides: Vec<u32>,
    /// In elements.
    pub start_offset: u64,
    /// The value's version on its buffer.
    pub version: i32,
    /// Left out of dependency derivation.
    pub manual_dep: bool,
}

/// An argument of a submit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg {
    /// Read.
    In(TensorId),
    /// Created by this submit: its buffer's creator.
    Out(TensorId),
    /// Read and written.
    InOut(TensorId),
    /// Written; existed before.
    OutExisting(TensorId),
    /// A value: raw 64-bit slot and its type.
    Scalar(u64, DataType),
}

/// What a kernel does: reads and writes its arguments through the context.
pub type KernelFn = Arc<dyn Fn(&KernelCtx<'_>) + Send + Sync>;

/// A kernel.
#[derive(Clone)]
pub struct Kernel {
    /// Its name in the artifacts.
    pub name: String,
    /// How long it takes in virtual time (and in real time, when [`Program::pace`] says so).
    pub duration: Duration,
    /// Its arithmetic.
    pub run: KernelFn,
}

/// How a task's blocks and cores are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Shape {
    /// One AIC core per block.
    Aic,
    /// One AIV core per block.
    Aiv,
    /// More than one subtask: all three cores of a physical block are held per block.
    Mix,
    /// No kernel: never reaches a core.
    None,
}

/// A node of a graph task: a kernel launch inside it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Kernels by subtask slot.
    pub kernels: [Option<KernelId>; SUBTASKS],
    /// Earlier nodes of the same graph task that must have ended.
    pub deps: Vec<u32>,
}

/// One `submit` of the orchestrator.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Which.
    pub id: SubmitId,
    /// What messages and graphs call it.
    pub task_id: TaskIdRule,
    /// Kernels by subtask slot (AIC, AIV0, AIV1); all `None` for allocs, dummies and graph tasks.
    pub kernels: [Option<KernelId>; SUBTASKS],
    /// Blocks of an SPMD task; at least 1.
    pub block_num: u32,
    /// Arguments in slot order.
    pub args: Vec<Arg>,
    /// Explicit predecessors, in declaration order.
    pub deps: Vec<SubmitId>,
    /// An alloc: makes buffers, retires at once on the orchestrator, reaches no scheduler.
    pub alloc: bool,
    /// False: retires on the AICPU without running (`predicated_skip`).
    pub predicate: bool,
    /// May be written to a core before its producers ended (`early_dispatch`).
    pub early_dispatch: bool,
    /// All blocks must start together (`drain`).
    pub sync_start: bool,
    /// Completes by an event this long after its kernels ended (`async_poll`).
    pub async_after: Option<Duration>,
    /// A graph task's nodes; empty otherwise.
    pub nodes: Vec<Node>,
    /// This task's kernels take so long, instead of the kernels' own durations.
    pub duration: Option<Duration>,
    /// The arguments that a partial dump takes.
    pub marks: crate::marks::ArgMarks,
}

/// Which task id a submit gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskIdRule {
    /// The next of the current scope's ring.
    Next,
    /// This one (captured graphs keep their ids).
    Fixed(u64),
}

impl Submit {
    /// The cores it needs per block.
    pub fn shape(&self) -> Shape {
        match self.kernels {
            [None, None, None] => Shape::None,
            [Some(_), None, None] => Shape::Aic,
            [None, Some(_), None] | [None, None, Some(_)] => Shape::Aiv,
            _ => Shape::Mix,
        }
    }

    /// Core rows it gives: one per block and active subtask, and its nodes' when it is a graph task.
    pub fn core_rows(&self) -> u64 {
        if !self.predicate {
            return 0;
        }
        let active = |k: &[Option<KernelId>; SUBTASKS]| k.iter().flatten().count() as u64;
        active(&self.kernels) * u64::from(self.block_num)
            + self.nodes.iter().map(|n| active(&n.kernels)).sum::<u64>()
    }
}

/// One operation of the orchestrator.
#[derive(Clone, Debug)]
pub enum Op {
    /// Submit a task.
    Submit(Box<Submit>),
    /// Open a scope: nested scopes use the next ring. In a manual scope nothing but explicit deps is derived.
    ScopeBegin {
        /// Only explicit dependencies.
        manual: bool,
    },
    /// Close it.
    ScopeEnd,
}

/// Looks at the final memory; `Err` says what is wrong.
pub type Verify = Arc<dyn Fn(&crate::memory::ProgramMemory) -> Result<(), String> + Send + Sync>;

/// Bytes of heap of each ring, where a program does not say (as the captured runs had it).
pub const RING_HEAP: u64 = 256 << 20;

/// A whole program.
#[derive(Clone)]
pub struct Program {
    /// The workload's name.
    pub name: String,
    /// By [`BufferId`].
    pub buffers: Vec<BufferDef>,
    /// By [`TensorId`].
    pub tensors: Vec<TensorDef>,
    /// By [`KernelId`].
    pub kernels: Vec<Kernel>,
    /// In program order.
    pub ops: Vec<Op>,
    /// Bytes of heap of each ring, from which tasks' outputs come.
    pub ring_heap: u64,
    /// Whether real-time runs make kernels last their declared duration.
    pub pace: bool,
    /// Checks the results after the run.
    pub verify: Option<Verify>,
    /// What was marked for a partial dump, in the order of the calls.
    pub marks: Vec<crate::marks::Mark>,
}

impl Program {
    /// The submits in program order.
    pub fn submits(&self) -> impl Iterator<Item = &Submit> {
        self.ops.iter().filter_map(|op| match op {
            Op::Submit(submit) => Some(&**submit),
            _ => None,
        })
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({}, {} submits)", self.name, self.submits().count())
    }
}
