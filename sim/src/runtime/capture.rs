//! How the orchestrator describes a submit to dep_gen: its arguments as the runtime's own tensors.
//!
//! Addresses are those of the program's memory map, which lays buffers out in their order: a captured graph does not
//! change with where the heap happens to be.

use super::plan::Plan;
use crate::program::{Arg, Program, Submit, TensorDef};
use dfx_collector::abi::dep_gen::flags;
use dfx_collector::abi::task_id;
use dfx_collector::abi::tensor::{BufferHandle, TaskId, Tensor, TensorArgType};

/// Where the first buffer of the memory map lies.
const MAP_BASE: u64 = 0x1000_0000;
/// Alignment of a buffer in the memory map, in bytes.
const MAP_ALIGN: u64 = 512;

/// A submit as dep_gen takes it.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// The task.
    pub task_id: u64,
    /// `dep_gen::flags` that the runtime sets.
    pub flags: u32,
    /// The tensor arguments; `None` for one that the task itself creates.
    pub tensors: Vec<Option<Tensor>>,
    /// The type of each.
    pub arg_types: Vec<u8>,
    /// The task ids that the program named.
    pub deps: Vec<u64>,
    /// The kernel per subtask slot; −1 for none.
    pub kernel_ids: [i32; 3],
    /// Blocks of the task.
    pub block_num: i32,
}

/// The program's memory map.
pub(super) struct Capture<'a> {
    plan: &'a Plan,
    addresses: Vec<u64>,
    submit: Captured,
}

impl<'a> Capture<'a> {
    /// Lays the buffers of `plan`'s program out.
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut next = MAP_BASE;
        let addresses = plan.program.buffers.iter().map(|buffer| {
            let at = next;
            next += buffer.bytes.max(1).next_multiple_of(MAP_ALIGN);
            at
        });
        Capture { addresses: addresses.collect(), plan, submit: Captured::default() }
    }

    /// Describes `submit`.
    pub(super) fn submit(&mut self, submit: &Submit, manual_scope: bool) -> &Captured {
        let plan = self.plan;
        let id = |number: u32| plan.unit(number).task_id;
        let mut captured = std::mem::take(&mut self.submit);
        captured.task_id = id(submit.id.0);
        captured.flags = if manual_scope { flags::IN_MANUAL_SCOPE } else { 0 };
        captured.flags |= if submit.early_dispatch { flags::EARLY_DISPATCH } else { 0 };
        captured.tensors.clear();
        captured.arg_types.clear();
        for arg in &submit.args {
            let (tensor, arg_type) = match *arg {
                Arg::In(tensor) => (Some(tensor), TensorArgType::Input),
                Arg::Out(_) => (None, TensorArgType::Output),
                Arg::InOut(tensor) => (Some(tensor), TensorArgType::Inout),
                Arg::OutExisting(tensor) => (Some(tensor), TensorArgType::OutputExisting),
                Arg::Scalar(..) => continue,
            };
            captured.arg_types.push(arg_type as u8);
            captured.tensors.push(tensor.map(|tensor| self.tensor(&plan.program.tensors[tensor.0 as usize])));
        }
        captured.deps.clear();
        captured.deps.extend(submit.deps.iter().map(|dep| id(dep.0)));
        captured.kernel_ids = submit.kernels.map(|kernel| kernel.map_or(-1, |kernel| kernel.0 as i32));
        captured.block_num = submit.block_num as i32;
        self.submit = captured;
        &self.submit
    }

    fn tensor(&self, def: &TensorDef) -> Tensor {
        let program: &Program = &self.plan.program;
        let buffer = &program.buffers[def.buffer.0 as usize];
        let owner = buffer.creator.map_or(task_id::INVALID, |creator| self.plan.unit(creator.0).task_id);
        let mut tensor = Tensor {
            buffer: BufferHandle { addr: self.addresses[def.buffer.0 as usize], size: buffer.bytes },
            owner_task_id: TaskId { raw: owner },
            start_offset: def.start_offset,
            version: def.version,
            ndims: def.shape.len() as u32,
            dtype: def.dtype as u8,
            manual_dep: u8::from(def.manual_dep),
            is_contiguous: u8::from(contiguous(def)),
            address_space: 1,
            extent_elem_cache: extent(def),
            ..Tensor::default()
        };
        tensor.shapes[..def.shape.len()].copy_from_slice(&def.shape);
        tensor.strides[..def.strides.len()].copy_from_slice(&def.strides);
        tensor
    }
}

/// Whether the elements lie in row-major order without holes.
fn contiguous(def: &TensorDef) -> bool {
    let mut expected = 1u64;
    def.shape.iter().zip(&def.strides).rev().all(|(&extent, &stride)| {
        let fits = extent == 1 || u64::from(stride) == expected;
        expected *= u64::from(extent);
        fits
    })
}

/// Elements from the first of the view to one past its last.
fn extent(def: &TensorDef) -> u64 {
    if def.shape.contains(&0) {
        return 0;
    }
    1 + def
        .shape
        .iter()
        .zip(&def.strides)
        .map(|(&n, &stride)| u64::from(n - 1) * u64::from(stride))
        .sum::<u64>()
}
