//! A submit: how it is written, and what can be said about it without knowing the program.

use super::{BuildError, MAX_BLOCKS, ProgramBuilder};
use crate::program::{AIC, AIV0, AIV1, Arg, KernelId, Node, SUBTASKS, Submit, SubmitId, TensorId};
use dfx_collector::abi::tensor::{DataType, MAX_SCALAR_ARGS, MAX_TENSOR_ARGS};
use std::time::Duration;

/// A submit in the making.
#[must_use = "nothing is submitted until `done` is called"]
pub struct SubmitBuilder<'b> {
    pub(super) builder: &'b mut ProgramBuilder,
    pub(super) submit: Submit,
    /// A plain call: it takes no `dumps`.
    pub(super) plain: bool,
    /// Marks for this launch only.
    pub(super) marked: Vec<Marked>,
}

/// What one launch is asked to dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Marked {
    /// A tensor argument.
    Tensor(TensorId),
    /// A scalar argument, counted among the scalars.
    Scalar(usize),
    /// All of them.
    Task,
}

impl SubmitBuilder<'_> {
    fn with(mut self, change: impl FnOnce(&mut Submit)) -> Self {
        change(&mut self.submit);
        self
    }

    /// The kernel of the AIC core.
    pub fn aic(self, kernel: KernelId) -> Self {
        self.with(|s| s.kernels[AIC] = Some(kernel))
    }

    /// The kernel of the first AIV core.
    pub fn aiv(self, kernel: KernelId) -> Self {
        self.with(|s| s.kernels[AIV0] = Some(kernel))
    }

    /// The kernel of the second AIV core.
    pub fn aiv1(self, kernel: KernelId) -> Self {
        self.with(|s| s.kernels[AIV1] = Some(kernel))
    }

    /// A tensor that it reads.
    pub fn input(self, tensor: TensorId) -> Self {
        self.with(|s| s.args.push(Arg::In(tensor)))
    }

    /// A tensor that it creates.
    pub fn output(self, tensor: TensorId) -> Self {
        self.with(|s| s.args.push(Arg::Out(tensor)))
    }

    /// A tensor that it reads and writes.
    pub fn inout(self, tensor: TensorId) -> Self {
        self.with(|s| s.args.push(Arg::InOut(tensor)))
    }

    /// A tensor that exists already and that it writes.
    pub fn output_existing(self, tensor: TensorId) -> Self {
        self.with(|s| s.args.push(Arg::OutExisting(tensor)))
    }

    /// A scalar: its raw slot and type.
    pub fn scalar(self, raw: u64, dtype: DataType) -> Self {
        self.with(|s| s.args.push(Arg::Scalar(raw, dtype)))
    }

    /// A `Float32` scalar.
    pub fn f32(self, value: f32) -> Self {
        self.scalar(value.to_bits().into(), DataType::Float32)
    }

    /// A `Uint32` scalar.
    pub fn u32(self, value: u32) -> Self {
        self.scalar(value.into(), DataType::Uint32)
    }

    /// Explicit predecessors.
    pub fn deps(self, deps: &[SubmitId]) -> Self {
        self.with(|s| s.deps.extend_from_slice(deps))
    }

    /// Number of blocks (SPMD).
    pub fn blocks(self, block_num: u32) -> Self {
        self.with(|s| s.block_num = block_num)
    }

    /// Whether it runs at all.
    pub fn predicate(self, predicate: bool) -> Self {
        self.with(|s| s.predicate = predicate)
    }

    /// May be written to a core before its producers ended.
    pub fn early_dispatch(self) -> Self {
        self.with(|s| s.early_dispatch = true)
    }

    /// All blocks start together.
    pub fn sync_start(self) -> Self {
        self.with(|s| s.sync_start = true)
    }

    /// Completes by an event, this long after its kernels ended.
    pub fn async_after(self, delay: Duration) -> Self {
        self.with(|s| s.async_after = Some(delay))
    }

    /// Its kernels take so long, instead of their own durations.
    pub fn duration(self, duration: Duration) -> Self {
        self.with(|s| s.duration = Some(duration))
    }

    /// Makes it a graph task with one node more; nodes are numbered from 0.
    pub fn node(self, kernels: [Option<KernelId>; SUBTASKS], deps: &[u32]) -> Self {
        self.with(|s| s.nodes.push(Node { kernels, deps: deps.to_vec() }))
    }

    /// Marks arguments for a partial dump, for this launch only.
    pub fn dumps(mut self, tensors: &[TensorId]) -> Self {
        self.marked.extend(tensors.iter().map(|&tensor| Marked::Tensor(tensor)));
        self
    }

    /// Marks the scalar `n`, as the kernel counts them, for this launch only. A scalar has nothing but its value by which it
    /// is known: where the submit is given another of the same value and type, the mark is ambiguous.
    pub fn dump_scalar(mut self, n: usize) -> Self {
        self.marked.push(Marked::Scalar(n));
        self
    }

    /// Marks every argument, scalars included, for this launch only.
    pub fn dump_task(mut self) -> Self {
        self.marked.push(Marked::Task);
        self
    }

    /// Submits it.
    pub fn done(self) -> Result<SubmitId, BuildError> {
        if self.plain && !self.marked.is_empty() {
            return Err(BuildError::DumpsOnPlainCall { call: self.builder.describe(&self.submit) });
        }
        self.builder.accept(self.submit, &self.marked)
    }
}

pub(super) fn check_counts(submit: &Submit, call: &dyn Fn() -> String) -> Result<(), BuildError> {
    let range = |what, value: u64, min: u64, max: u64| match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(BuildError::OutOfRange { call: call(), what, value, min, max }),
    };
    let is_scalar = |arg: &Arg| matches!(arg, Arg::Scalar(..));
    let scalars = submit.args.iter().filter(|arg| is_scalar(arg)).count();
    let tensors = submit.args.len() - scalars;
    range("block_num", submit.block_num.into(), 1, MAX_BLOCKS.into())?;
    range("the number of tensor arguments", tensors as u64, 0, MAX_TENSOR_ARGS as u64)?;
    range("the number of scalar arguments", scalars as u64, 0, MAX_SCALAR_ARGS as u64)?;
    match submit.args.iter().skip_while(|arg| !is_scalar(arg)).all(is_scalar) {
        true => Ok(()),
        false => Err(BuildError::TensorAfterScalar { call: call() }),
    }
}

pub(super) fn check_nodes(submit: &Submit, call: &dyn Fn() -> String) -> Result<(), BuildError> {
    if submit.nodes.is_empty() {
        return Ok(());
    }
    let bad = |why| Err(BuildError::BadGraphTask { call: call(), why });
    if submit.kernels.iter().any(Option::is_some) {
        return bad("it has a kernel beside its nodes");
    }
    if submit.block_num != 1 {
        return bad("it has more than one block");
    }
    for (node, def) in submit.nodes.iter().enumerate() {
        if def.kernels.iter().all(Option::is_none) {
            return bad("a node has no kernel");
        }
        if let Some(&dep) = def.deps.iter().find(|&&dep| dep as usize >= node) {
            return Err(BuildError::LateNodeDep { call: call(), node, dep });
        }
    }
    Ok(())
}
