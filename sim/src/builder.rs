//! The small API that programs are written with. Every call is checked when it is made; what is wrong comes back as a
//! [`BuildError`] that names the call and says what to do instead.
//!
//! ```
//! # use dfx_sim::builder::{BuildError, ProgramBuilder};
//! # use std::time::Duration;
//! # fn main() -> Result<(), BuildError> {
//! let mut p = ProgramBuilder::new("double");
//! let x = p.host_f32("x", &[4], &[1.0, 2.0, 3.0, 4.0])?;
//! let y = p.tensor("y", dfx_collector::abi::tensor::DataType::Float32, &[4])?;
//! let double = p.kernel("double", Duration::from_micros(20), |ctx| {
//!     let (x, y) = (ctx.tensor(0), ctx.tensor(1));
//!     y.fill_in(0..y.len(), |i| 2.0 * x.f32(i));
//! });
//! p.submit().aiv(double).input(x).output(y).done()?;
//! let program = p.build()?;
//! assert_eq!(program.submits().count(), 1);
//! # Ok(())
//! # }
//! ```

mod error;
mod submit;
#[cfg(test)]
mod tests;

pub use error::BuildError;
use submit::Marked;
pub use submit::SubmitBuilder;

use crate::marks::{ArgMarks, Mark};
use crate::memory::{KernelCtx, ProgramMemory};
use crate::program::{
    Arg, BufferDef, BufferId, Init, Kernel, KernelId, Op, Program, SUBTASKS, Submit, SubmitId, TaskIdRule,
    TensorDef, TensorId,
};
use dfx_collector::abi::tensor::{DataType, MAX_DIMS};
use std::sync::Arc;
use std::time::Duration;

/// Most blocks of an SPMD task (16 bits in the dispatch payload).
pub const MAX_BLOCKS: u32 = 65_535;

/// Where a buffer comes from.
#[derive(Clone, Copy)]
enum Origin {
    Host,
    Nowhere,
    Submit(SubmitId),
}

/// Collects a [`Program`].
pub struct ProgramBuilder {
    program: Program,
    origins: Vec<Origin>,
    submits: u32,
    open_scopes: usize,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new(name: impl Into<String>) -> Self {
        let program = Program {
            name: name.into(),
            buffers: Vec::new(),
            tensors: Vec::new(),
            kernels: Vec::new(),
            ops: Vec::new(),
            pace: false,
            ring_heap: crate::program::RING_HEAP,
            verify: None,
            marks: Vec::new(),
        };
        Self { program, origins: Vec::new(), submits: 0, open_scopes: 0 }
    }

    /// Sets the bytes of heap of each ring.
    pub fn ring_heap(&mut self, bytes: u64) {
        self.program.ring_heap = bytes;
    }

    /// Makes kernels last their declared duration in real-time runs.
    pub fn pace(&mut self, pace: bool) {
        self.program.pace = pace;
    }

    /// A contiguous tensor that the host makes before the launch.
    pub fn host(
        &mut self,
        name: &str,
        dtype: DataType,
        shape: &[u32],
        init: Init,
    ) -> Result<TensorId, BuildError> {
        self.new_tensor(name, dtype, shape, init, Origin::Host)
    }

    /// A contiguous `Float32` tensor that the host makes, with its values.
    pub fn host_f32(&mut self, name: &str, shape: &[u32], values: &[f32]) -> Result<TensorId, BuildError> {
        let init = Init::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect());
        let numel: u64 = shape.iter().map(|&extent| u64::from(extent)).product();
        if numel != values.len() as u64 {
            let why = format!("{} values for shape {shape:?}, which takes {numel}", values.len());
            return Err(BuildError::BadShape { call: format!("host_f32(`{name}`)"), why });
        }
        self.host(name, DataType::Float32, shape, init)
    }

    /// A contiguous tensor that a submit will create (as its `output`, or by `alloc`).
    pub fn tensor(&mut self, name: &str, dtype: DataType, shape: &[u32]) -> Result<TensorId, BuildError> {
        self.new_tensor(name, dtype, shape, Init::Zero, Origin::Nowhere)
    }

    fn new_tensor(
        &mut self,
        name: &str,
        dtype: DataType,
        shape: &[u32],
        init: Init,
        origin: Origin,
    ) -> Result<TensorId, BuildError> {
        let call = || format!("tensor(`{name}`)");
        let numel = shape.iter().try_fold(1u64, |numel, &extent| numel.checked_mul(extent.into()));
        let bytes =
            numel.and_then(|numel| numel.checked_mul(dtype.bytes())).filter(|&b| b <= i64::MAX as u64);
        let Some(bytes) = bytes else {
            let why = format!("shape {shape:?} has more bytes than an address space");
            return Err(BuildError::BadShape { call: call(), why });
        };
        let mut strides = vec![1u32; shape.len()];
        for dim in (1..shape.len()).rev() {
            let stride = u64::from(strides[dim]) * u64::from(shape[dim].max(1));
            strides[dim - 1] = u32::try_from(stride).map_err(|_| BuildError::BadShape {
                call: call(),
                why: format!("shape {shape:?} needs a stride of {stride} elements, more than 32 bits"),
            })?;
        }
        let buffer = BufferId(self.program.buffers.len() as u32);
        let def = TensorDef {
            name: name.into(),
            buffer,
            dtype,
            shape: shape.to_vec(),
            strides,
            start_offset: 0,
            version: 0,
            manual_dep: false,
        };
        check_rank(&def, &call)?;
        self.program.buffers.push(BufferDef { bytes, init, creator: None });
        self.origins.push(origin);
        Ok(self.push_tensor(def))
    }

    fn push_tensor(&mut self, def: TensorDef) -> TensorId {
        self.program.tensors.push(def);
        TensorId(self.program.tensors.len() as u32 - 1)
    }

    /// Another view of a tensor's buffer; `offset` and `strides` are in elements, `offset` from the tensor's start.
    pub fn view(
        &mut self,
        of: TensorId,
        name: &str,
        shape: &[u32],
        strides: &[u32],
        offset: u64,
    ) -> Result<TensorId, BuildError> {
        let call = || format!("view(`{name}`)");
        let base = self.known(of, &call)?;
        let start_offset = base.start_offset.saturating_add(offset);
        let def = TensorDef {
            name: name.into(),
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            start_offset,
            ..base.clone()
        };
        check_rank(&def, &call)?;
        if strides.contains(&0) {
            let why = format!("strides {strides:?} hold a 0; every stride is at least 1");
            return Err(BuildError::BadShape { call: call(), why });
        }
        let elements = self.program.buffers[def.buffer.0 as usize].bytes / def.dtype.bytes();
        let end = def.end();
        if end > u128::from(elements) {
            let why = format!(
                "shape {shape:?}, strides {strides:?}, offset {start_offset} reach element {end} of a buffer of {elements}; \
                 keep the view within its buffer"
            );
            return Err(BuildError::BadShape { call: call(), why });
        }
        Ok(self.push_tensor(def))
    }

    /// The same view, left out of dependency derivation.
    pub fn manual_dep(&mut self, of: TensorId) -> Result<TensorId, BuildError> {
        let def = self.known(of, &|| "manual_dep".into())?.clone();
        Ok(self.push_tensor(TensorDef { manual_dep: true, ..def }))
    }

    fn known(&self, id: TensorId, call: &dyn Fn() -> String) -> Result<&TensorDef, BuildError> {
        let known = self.program.tensors.len();
        let unknown = || BuildError::UnknownTensor { call: call(), tensor: id.0, known };
        self.program.tensors.get(id.0 as usize).ok_or_else(unknown)
    }

    /// A kernel and how long it takes; kernels are numbered from 0.
    pub fn kernel(
        &mut self,
        name: impl Into<String>,
        duration: Duration,
        run: impl Fn(&KernelCtx<'_>) + Send + Sync + 'static,
    ) -> KernelId {
        self.program.kernels.push(Kernel { name: name.into(), duration, run: Arc::new(run) });
        KernelId(self.program.kernels.len() as u32 - 1)
    }

    /// Opens a scope: derived dependencies as outside.
    pub fn scope_begin(&mut self) {
        self.begin(false);
    }

    /// Opens a manual scope: its submits have explicit dependencies only.
    pub fn manual_scope_begin(&mut self) {
        self.begin(true);
    }

    fn begin(&mut self, manual: bool) {
        self.program.ops.push(Op::ScopeBegin { manual });
        self.open_scopes += 1;
    }

    /// Closes the innermost scope.
    pub fn scope_end(&mut self) -> Result<(), BuildError> {
        self.open_scopes = self.open_scopes.checked_sub(1).ok_or(BuildError::ScopeNotOpen)?;
        self.program.ops.push(Op::ScopeEnd);
        Ok(())
    }

    /// Starts a submit; nothing is submitted until [`SubmitBuilder::done`].
    pub fn submit(&mut self) -> SubmitBuilder<'_> {
        let submit = Submit {
            id: SubmitId(self.submits),
            task_id: TaskIdRule::Next,
            kernels: [None; SUBTASKS],
            block_num: 1,
            args: Vec::new(),
            deps: Vec::new(),
            alloc: false,
            predicate: true,
            early_dispatch: false,
            sync_start: false,
            async_after: None,
            nodes: Vec::new(),
            duration: None,
            marks: ArgMarks::NONE,
        };
        SubmitBuilder { builder: self, submit, plain: false, marked: Vec::new() }
    }

    /// Starts a plain call of `kernel` on an AIV core: as [`submit`](Self::submit), but it takes no `dumps`.
    pub fn call(&mut self, kernel: KernelId) -> SubmitBuilder<'_> {
        let submit = self.submit().aiv(kernel);
        SubmitBuilder { plain: true, ..submit }
    }

    /// Marks a value for a partial dump: every *later* submit that is given exactly this `TensorId` dumps it. A
    /// [rebound](Self::rebind) value or a [view](Self::view) is another value.
    pub fn dump_tag(&mut self, tensor: TensorId) -> Result<(), BuildError> {
        let name = self.known(tensor, &|| "dump_tag".into())?.name.clone();
        self.program.marks.push(Mark::tag(name, tensor));
        Ok(())
    }

    /// A new value of the same name on the same memory: what a kernel's result is once it is bound to the old name.
    pub fn rebind(&mut self, of: TensorId) -> Result<TensorId, BuildError> {
        let def = self.known(of, &|| "rebind".into())?.clone();
        Ok(self.push_tensor(TensorDef { version: def.version + 1, ..def }))
    }

    /// Makes the tensors' buffers, without a kernel.
    pub fn alloc(&mut self, tensors: &[TensorId]) -> Result<SubmitId, BuildError> {
        let mut submit = self.submit();
        submit.submit.alloc = true;
        submit.submit.args.extend(tensors.iter().map(|&tensor| Arg::Out(tensor)));
        submit.done()
    }

    /// Checks the results after a run.
    pub fn verify(&mut self, check: impl Fn(&ProgramMemory) -> Result<(), String> + Send + Sync + 'static) {
        self.program.verify = Some(Arc::new(check));
    }

    /// Checks the results after a run: these `Float32` tensors must hold exactly these values.
    ///
    /// # Panics
    ///
    /// If a tensor is not one of the program's.
    pub fn expect_f32(&mut self, expected: Vec<(TensorId, Vec<f32>)>) {
        let def = |id: TensorId| self.program.tensors[id.0 as usize].clone();
        let expected: Vec<_> = expected.into_iter().map(|(id, values)| (def(id), values)).collect();
        self.verify(move |memory| {
            for (def, expected) in &expected {
                let found = memory.tensor(def).read_to_vec_f32();
                let differs = |(found, expected): (&f32, &f32)| found.to_bits() != expected.to_bits();
                if let Some(i) = found.iter().zip(expected).position(differs) {
                    return Err(format!("`{}`[{i}] is {}, expected {}", def.name, found[i], expected[i]));
                }
            }
            Ok(())
        });
    }

    /// The program.
    pub fn build(self) -> Result<Program, BuildError> {
        match self.open_scopes {
            0 => Ok(self.program),
            open => Err(BuildError::ScopeNotClosed { open }),
        }
    }

    /// Takes a submit in, or says what is wrong with it.
    fn accept(&mut self, mut submit: Submit, marked: &[Marked]) -> Result<SubmitId, BuildError> {
        let call = || self.describe(&submit);
        submit::check_counts(&submit, &call)?;
        submit::check_nodes(&submit, &call)?;
        let known = self.program.kernels.len();
        let kernels =
            submit.kernels.iter().chain(submit.nodes.iter().flat_map(|node| &node.kernels)).flatten();
        if let Some(kernel) = kernels.copied().find(|kernel| kernel.0 as usize >= known) {
            return Err(BuildError::UnknownKernel { call: call(), kernel: kernel.0, known });
        }
        if let Some(dep) = submit.deps.iter().find(|dep| dep.0 >= submit.id.0) {
            return Err(BuildError::LateDep { call: call(), dep: dep.0 });
        }
        let mut created: Vec<BufferId> = Vec::new();
        for arg in &submit.args {
            let (Arg::In(id) | Arg::Out(id) | Arg::InOut(id) | Arg::OutExisting(id)) = *arg else { continue };
            let def = self.known(id, &call)?;
            let tensor = def.name.clone();
            let by = match self.origins[def.buffer.0 as usize] {
                Origin::Host => Some("the host".into()),
                Origin::Submit(submit) => Some(format!("submit {}", submit.0)),
                Origin::Nowhere => None,
            };
            let is_output = matches!(arg, Arg::Out(_));
            match by.or_else(|| (is_output && created.contains(&def.buffer)).then(&call)) {
                Some(by) if is_output => return Err(BuildError::CreatedTwice { call: call(), tensor, by }),
                None if !is_output => return Err(BuildError::NotCreated { call: call(), tensor }),
                None => created.push(def.buffer),
                Some(_) => {}
            }
        }
        for mark in marked {
            let what = match *mark {
                Marked::Tensor(id) if submit.arg_indices(id).next().is_none() => {
                    format!("`{}`", self.known(id, &call)?.name)
                }
                Marked::Scalar(n) if submit.scalar_index(n).is_none() => format!("scalar {n}"),
                _ => continue,
            };
            return Err(BuildError::MarkOfNoArgument { call: call(), what });
        }
        for mark in &mut self.program.marks {
            mark.apply(&mut submit);
        }
        for mark in marked {
            let mut mark = match *mark {
                Marked::Tensor(id) => Mark::tag(self.program.tensors[id.0 as usize].name.clone(), id),
                Marked::Scalar(n) => Mark::scalar(format!("scalar {n} of {}", self.describe(&submit)), n),
                Marked::Task => Mark::task(self.describe(&submit)),
            };
            mark.apply(&mut submit);
            // One that matched has nothing more to say.
            if !mark.matched() {
                mark.close();
                self.program.marks.push(mark);
            }
        }
        let id = submit.id;
        for buffer in created {
            self.origins[buffer.0 as usize] = Origin::Submit(id);
            self.program.buffers[buffer.0 as usize].creator = Some(id);
        }
        self.submits += 1;
        self.program.ops.push(Op::Submit(Box::new(submit)));
        Ok(id)
    }

    fn describe(&self, submit: &Submit) -> String {
        let name = |id: &KernelId| self.program.kernels.get(id.0 as usize).map_or("?", |k| k.name.as_str());
        let names: Vec<&str> = submit.kernels.iter().flatten().map(name).collect();
        let what = match names.is_empty() {
            false => names.join("+"),
            true if submit.alloc => "alloc".into(),
            true if !submit.nodes.is_empty() => "graph task".into(),
            true => "dummy".into(),
        };
        format!("submit {} ({what})", submit.id.0)
    }
}

impl TensorDef {
    /// One past the last element that the view reaches, counted from the buffer's start; its start when it is empty.
    pub fn end(&self) -> u128 {
        if self.shape.contains(&0) {
            return self.start_offset.into();
        }
        let last = |(&extent, &stride)| (u128::from(extent) - 1) * u128::from(stride);
        u128::from(self.start_offset) + self.shape.iter().zip(&self.strides).map(last).sum::<u128>() + 1
    }
}

fn check_rank(def: &TensorDef, call: &dyn Fn() -> String) -> Result<(), BuildError> {
    let (rank, strides) = (def.shape.len(), def.strides.len());
    let why = if rank > MAX_DIMS {
        format!("{rank} dimensions, accepted are 0 to {MAX_DIMS}")
    } else if rank != strides {
        format!("{strides} strides for {rank} dimensions; give one for each")
    } else {
        return Ok(());
    };
    Err(BuildError::BadShape { call: call(), why })
}
