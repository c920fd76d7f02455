//! The device memory of one run, and what a kernel sees of it.
//!
//! Every buffer of the program is one block from a [`DeviceAlloc`]; its address is a real one, so that the *device side*
//! (kernels, the args dump) may dereference it. Kernels reach elements only through [`TensorView`], which checks bounds
//! and uses relaxed atomics: a wrong schedule gives wrong numbers, never undefined behaviour. So that atomics of
//! different widths never meet on one byte, a block is accessed in *cells* as wide as the narrowest element type that
//! the program uses on it; a wider element is composed of several cells (and may tear, which is a wrong number too).
//!
//! What the host made exists from the start; a created buffer gets its block when it is first asked for (or by
//! [`ProgramMemory::ensure`]). A block that could not be had reads as zero, swallows writes, and makes
//! [`ProgramMemory::verify`] fail with the allocator's message.

mod alloc;
#[cfg(test)]
mod tests;
mod view;

pub use alloc::{BLOCK_ALIGN, DeviceAlloc, HeapAlloc};
pub use view::TensorView;

use crate::builder::BuildError;
use crate::program::{
    Arg, BufferDef, BufferId, Init, KernelId, Program, SUBTASKS, Submit, TensorDef, TensorId,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use view::{Cells, width};

/// One buffer's memory.
struct Block {
    addr: u64,
    bytes: u64,
    cell: usize,
}

impl Block {
    fn cells(&self) -> Cells<'_> {
        let (addr, len) = (self.addr as usize, self.bytes as usize / self.cell);
        macro_rules! slice {
            ($atomic:ty) => {
                // SAFETY: the block has `bytes` readable and writable bytes, aligned to 64, until it is freed, which the
                // owning `ProgramMemory` does only when it is dropped; everybody else reaches it through these atomics,
                // always of this width.
                unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<$atomic>(addr), len) }
            };
        }
        match self.cell {
            1 => Cells::U8(slice!(AtomicU8)),
            2 => Cells::U16(slice!(AtomicU16)),
            4 => Cells::U32(slice!(AtomicU32)),
            _ => Cells::U64(slice!(AtomicU64)),
        }
    }
}

/// A buffer: what it is to be, and its block once it has one.
struct Slot {
    bytes: u64,
    cell: usize,
    init: Init,
    block: OnceLock<Result<Block, String>>,
}

/// The tensors' memory of one run. Given back when dropped.
pub struct ProgramMemory {
    slots: Vec<Slot>,
    alloc: Arc<dyn DeviceAlloc>,
}

impl ProgramMemory {
    /// Memory for `program`: allocates and fills what the host made; what tasks create comes when it is needed.
    pub fn new(program: &Program, alloc: Arc<dyn DeviceAlloc>) -> Result<Self, String> {
        let mut cells = vec![8; program.buffers.len()];
        for tensor in &program.tensors {
            if let Some(cell) = cells.get_mut(tensor.buffer.0 as usize) {
                *cell = width(tensor.dtype).min(*cell);
            }
        }
        let slot = |(def, cell): (&BufferDef, usize)| Slot {
            bytes: def.bytes,
            cell,
            init: def.init.clone(),
            block: OnceLock::new(),
        };
        let slots = program.buffers.iter().zip(cells).map(slot).collect();
        let memory = Self { slots, alloc };
        for (id, def) in program.buffers.iter().enumerate() {
            if def.creator.is_none() {
                memory.ensure(BufferId(id as u32))?;
            }
        }
        Ok(memory)
    }

    /// The buffer's device address, allocated now if need be.
    pub fn ensure(&self, id: BufferId) -> Result<u64, String> {
        let slot =
            self.slots.get(id.0 as usize).ok_or_else(|| format!("the program has no buffer {}", id.0))?;
        let block = slot.block.get_or_init(|| {
            let addr = self
                .alloc
                .alloc(slot.bytes, BLOCK_ALIGN)
                .map_err(|cause| format!("buffer {} of the program: {cause}", id.0))?;
            let block = Block { addr, bytes: slot.bytes, cell: slot.cell };
            if let Init::Bytes(bytes) = &slot.init {
                let cells = block.cells();
                let width = cells.width();
                for (i, chunk) in bytes.chunks_exact(width).take(slot.bytes as usize / width).enumerate() {
                    cells.store(i, chunk.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)));
                }
            }
            Ok(block)
        });
        block.as_ref().map(|block| block.addr).map_err(Clone::clone)
    }

    /// The buffer's device address, allocated now if need be; 0 when it cannot be had (see [`verify`](Self::verify)).
    pub fn address(&self, id: BufferId) -> u64 {
        self.ensure(id).unwrap_or(0)
    }

    /// The buffer's size in bytes; 0 for an unknown one.
    pub fn bytes(&self, id: BufferId) -> u64 {
        self.slots.get(id.0 as usize).map_or(0, |slot| slot.bytes)
    }

    /// The tensor's elements.
    ///
    /// # Panics
    ///
    /// If `program` has no such tensor.
    pub fn view<'a>(&'a self, program: &'a Program, tensor: TensorId) -> TensorView<'a> {
        self.tensor(&program.tensors[tensor.0 as usize])
    }

    /// The elements that a tensor of this description has.
    pub fn tensor<'a>(&'a self, def: &'a TensorDef) -> TensorView<'a> {
        let block = match self.ensure(def.buffer) {
            Ok(_) => self.slots[def.buffer.0 as usize].block.get().and_then(|block| block.as_ref().ok()),
            Err(_) => None,
        };
        TensorView { cells: block.map(Block::cells), def }
    }

    /// Runs the kernel of one block of one subtask of `submit`; nothing if that slot has none.
    pub fn run_kernel(&self, program: &Program, submit: &Submit, subtask: usize, block_idx: u32) {
        let block_num = submit.block_num;
        self.run(KernelCtx { memory: self, program, submit, node: None, subtask, block_idx, block_num });
    }

    /// Runs the kernel of one subtask of a graph task's node; nothing if that slot has none.
    pub fn run_node(&self, program: &Program, submit: &Submit, node: usize, subtask: usize) {
        let node = Some(node);
        self.run(KernelCtx { memory: self, program, submit, node, subtask, block_idx: 0, block_num: 1 });
    }

    fn run(&self, ctx: KernelCtx<'_>) {
        if let Some(kernel) = ctx.kernels()[ctx.subtask] {
            (ctx.program.kernels[kernel.0 as usize].run)(&ctx);
        }
    }

    /// Whether every block could be had and the results are what the program says they should be.
    pub fn verify(&self, program: &Program) -> Result<(), String> {
        if let Some(cause) = self.slots.iter().find_map(|slot| slot.block.get()?.as_ref().err()) {
            return Err(cause.clone());
        }
        program.verify.as_ref().map_or(Ok(()), |verify| verify(self))
    }
}

impl Drop for ProgramMemory {
    fn drop(&mut self) {
        for slot in &self.slots {
            if let Some(Ok(block)) = slot.block.get() {
                // SAFETY: the block is of this allocator's `alloc`, freed only here, and every view borrowed `self`.
                unsafe { self.alloc.free(block.addr, block.bytes) };
            }
        }
    }
}

/// What a kernel is given: one block of one subtask of a task, or a node of a graph task.
pub struct KernelCtx<'a> {
    memory: &'a ProgramMemory,
    program: &'a Program,
    submit: &'a Submit,
    node: Option<usize>,
    /// Its subtask slot.
    pub subtask: usize,
    /// Which block.
    pub block_idx: u32,
    /// Of how many.
    pub block_num: u32,
}

impl<'a> KernelCtx<'a> {
    fn kernels(&self) -> &'a [Option<KernelId>; SUBTASKS] {
        self.node.map_or(&self.submit.kernels, |node| &self.submit.nodes[node].kernels)
    }

    /// The node's number when a graph task runs.
    pub fn node(&self) -> Option<usize> {
        self.node
    }

    /// The task's `i`-th tensor argument.
    ///
    /// # Panics
    ///
    /// If the task has fewer.
    pub fn tensor(&self, i: usize) -> TensorView<'a> {
        let tensors = self.submit.args.iter().filter_map(|arg| match arg {
            Arg::In(id) | Arg::Out(id) | Arg::InOut(id) | Arg::OutExisting(id) => Some(*id),
            Arg::Scalar(..) => None,
        });
        let Some(id) = tensors.clone().nth(i) else {
            panic!("tensor argument {i} of a task with {}", tensors.count());
        };
        self.memory.view(self.program, id)
    }

    /// Not here: what is dumped is the orchestration's choice, and a kernel that marks is refused.
    pub fn dump_tag(&self, tensor: &TensorView<'_>) -> Result<(), BuildError> {
        let _ = tensor;
        let kernel = self.kernels()[self.subtask].map(|id| self.program.kernels[id.0 as usize].name.clone());
        Err(BuildError::MarkInKernel { kernel: kernel.unwrap_or_default() })
    }

    /// The raw slot of the task's `i`-th scalar argument.
    ///
    /// # Panics
    ///
    /// If the task has fewer.
    pub fn scalar(&self, i: usize) -> u64 {
        let scalars = self.submit.args.iter().filter_map(|arg| match arg {
            Arg::Scalar(raw, _) => Some(*raw),
            _ => None,
        });
        let Some(raw) = scalars.clone().nth(i) else {
            panic!("scalar argument {i} of a task with {}", scalars.count());
        };
        raw
    }

    /// The `i`-th scalar argument as a `Float32`.
    pub fn scalar_f32(&self, i: usize) -> f32 {
        f32::from_bits(self.scalar(i) as u32)
    }

    /// This block's share of `n` items: the blocks' shares are disjoint, in order, and cover all.
    pub fn share(&self, n: usize) -> Range<usize> {
        share(n, self.block_idx as usize, self.block_num as usize)
    }
}

/// Part `part` of `parts` nearly equal parts of `0..n`.
pub fn share(n: usize, part: usize, parts: usize) -> Range<usize> {
    let cut = |part: usize| (n as u128 * part as u128 / parts.max(1) as u128) as usize;
    cut(part)..cut(part + 1)
}
