//! Tasks and the cores they run on.

use super::tensor::MAX_TENSOR_ARGS;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PTO2_SUBTASK_SLOT_COUNT`: kernels of a task.
pub const SUBTASK_SLOTS: usize = 3;
/// `PTO2_SUBTASK_MASK_AIC`: the task has a kernel in slot [`SubtaskSlot::Aic`].
pub const MASK_AIC: u8 = 1 << SubtaskSlot::Aic as u8;
/// `PTO2_SUBTASK_MASK_AIV0`: the task has a kernel in slot [`SubtaskSlot::Aiv0`].
pub const MASK_AIV0: u8 = 1 << SubtaskSlot::Aiv0 as u8;
/// `PTO2_SUBTASK_MASK_AIV1`: the task has a kernel in slot [`SubtaskSlot::Aiv1`].
pub const MASK_AIV1: u8 = 1 << SubtaskSlot::Aiv1 as u8;
/// `PTO2_NUM_RESOURCE_SHAPES`: shapes that need cores, all but [`ResourceShape::Dummy`].
pub const RESOURCE_SHAPES: usize = 3;
/// `INVALID_KERNEL_ID`: no kernel.
pub const NO_KERNEL: i32 = -1;

/// What a core is (`CoreType`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(i32)]
pub enum CoreType {
    /// Cube.
    Aic = 0,
    /// Vector.
    Aiv = 1,
}

impl CoreType {
    /// The type with number `raw`, if there is one.
    pub const fn from_raw(raw: i32) -> Option<CoreType> {
        Some(match raw {
            0 => CoreType::Aic,
            1 => CoreType::Aiv,
            _ => return None,
        })
    }
}

/// Which core of a block runs a kernel (`PTO2SubtaskSlot`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum SubtaskSlot {
    /// The cube core.
    Aic = 0,
    /// The first vector core.
    Aiv0 = 1,
    /// The second vector core.
    Aiv1 = 2,
}

impl SubtaskSlot {
    /// The slot with number `raw`, if there is one.
    pub const fn from_raw(raw: u8) -> Option<SubtaskSlot> {
        Some(match raw {
            0 => SubtaskSlot::Aic,
            1 => SubtaskSlot::Aiv0,
            2 => SubtaskSlot::Aiv1,
            _ => return None,
        })
    }
}

/// Which cores a task needs (`PTO2ResourceShape`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum ResourceShape {
    /// Cube cores.
    Aic = 0,
    /// Vector cores.
    Aiv = 1,
    /// Both.
    Mix = 2,
    /// None: the task has no kernel.
    Dummy = 3,
}

impl ResourceShape {
    /// The shape with number `raw`, if there is one.
    pub const fn from_raw(raw: u8) -> Option<ResourceShape> {
        Some(match raw {
            0 => ResourceShape::Aic,
            1 => ResourceShape::Aiv,
            2 => ResourceShape::Mix,
            3 => ResourceShape::Dummy,
            _ => return None,
        })
    }
}

/// A kernel's head (`CoreCallable`): the dump reads its signature to tell tensors from scalars. The kernel follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CoreCallable {
    /// An [`ArgDirection`](super::tensor::ArgDirection) per argument.
    pub signature: [i32; MAX_TENSOR_ARGS],
    /// Valid entries of `signature`.
    pub sig_count: i32,
    /// The kernel in bytes.
    pub binary_size: u32,
    /// Device address of the kernel.
    pub resolved_addr: u64,
    /// The kernel.
    pub storage: [u8; 0],
}

const _: () = assert!(size_of::<CoreCallable>() == 144);
