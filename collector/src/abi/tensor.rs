//! Tensors and arguments as the runtime describes them: what a submit carries and a dump explains.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `MAX_TENSOR_DIMS`, `PLATFORM_DUMP_MAX_DIMS`: dimensions of a tensor.
pub const MAX_DIMS: usize = 5;
/// `MAX_TENSOR_ARGS`, `CORE_MAX_TENSOR_ARGS`: tensor arguments of a task.
pub const MAX_TENSOR_ARGS: usize = 32;
/// `MAX_SCALAR_ARGS`, `CORE_MAX_SCALAR_ARGS`: scalar arguments of a task.
pub const MAX_SCALAR_ARGS: usize = 16;

/// The type of an element (`DataType`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum DataType {
    /// IEEE 754 binary32.
    Float32 = 0,
    /// IEEE 754 binary16.
    Float16 = 1,
    /// Signed, 32 bits.
    Int32 = 2,
    /// Signed, 16 bits.
    Int16 = 3,
    /// Signed, 8 bits.
    Int8 = 4,
    /// Unsigned, 8 bits.
    Uint8 = 5,
    /// The upper half of a binary32.
    Bfloat16 = 6,
    /// Signed, 64 bits.
    Int64 = 7,
    /// Unsigned, 64 bits.
    Uint64 = 8,
    /// Unsigned, 16 bits.
    Uint16 = 9,
    /// Unsigned, 32 bits.
    Uint32 = 10,
    /// A byte, 0 or 1.
    Bool = 11,
    /// 8 bits: 4 of exponent, 3 of mantissa, no infinities.
    Fp8E4m3fn = 12,
    /// 8 bits of exponent.
    Fp8E8m0 = 13,
    /// 4 bits: 2 of exponent, 1 of mantissa; counted as a byte.
    Fp4E2m1 = 14,
}

impl DataType {
    /// All types, by number; its length is `DATA_TYPE_NUM`.
    pub const ALL: [DataType; 15] = [
        DataType::Float32,
        DataType::Float16,
        DataType::Int32,
        DataType::Int16,
        DataType::Int8,
        DataType::Uint8,
        DataType::Bfloat16,
        DataType::Int64,
        DataType::Uint64,
        DataType::Uint16,
        DataType::Uint32,
        DataType::Bool,
        DataType::Fp8E4m3fn,
        DataType::Fp8E8m0,
        DataType::Fp4E2m1,
    ];

    /// The name for a number that no type has. Such an element counts as 0 bytes.
    pub const UNKNOWN: &'static str = "UNKNOWN";

    /// The type with number `raw`, if there is one.
    pub const fn from_raw(raw: u8) -> Option<DataType> {
        if (raw as usize) < Self::ALL.len() { Some(Self::ALL[raw as usize]) } else { None }
    }

    /// An element in bytes.
    pub const fn bytes(self) -> u64 {
        use DataType::*;
        match self {
            Int64 | Uint64 => 8,
            Float32 | Int32 | Uint32 => 4,
            Float16 | Bfloat16 | Int16 | Uint16 => 2,
            Int8 | Uint8 | Bool | Fp8E4m3fn | Fp8E8m0 | Fp4E2m1 => 1,
        }
    }

    /// The name that artifacts use.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Float32 => "FLOAT32",
            DataType::Float16 => "FLOAT16",
            DataType::Int32 => "INT32",
            DataType::Int16 => "INT16",
            DataType::Int8 => "INT8",
            DataType::Uint8 => "UINT8",
            DataType::Bfloat16 => "BFLOAT16",
            DataType::Int64 => "INT64",
            DataType::Uint64 => "UINT64",
            DataType::Uint16 => "UINT16",
            DataType::Uint32 => "UINT32",
            DataType::Bool => "BOOL",
            DataType::Fp8E4m3fn => "FP8E4M3FN",
            DataType::Fp8E8m0 => "FP8E8M0",
            DataType::Fp4E2m1 => "FP4E2M1",
        }
    }

    /// An element of the type with number `raw` in bytes; 0 when there is no such type.
    pub const fn bytes_of(raw: u8) -> u64 {
        match Self::from_raw(raw) {
            Some(dtype) => dtype.bytes(),
            None => 0,
        }
    }

    /// The name of the type with number `raw`, or [`UNKNOWN`](Self::UNKNOWN).
    pub const fn name_of(raw: u8) -> &'static str {
        match Self::from_raw(raw) {
            Some(dtype) => dtype.name(),
            None => Self::UNKNOWN,
        }
    }
}

/// How a submit uses a tensor (`TensorArgType`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(i32)]
pub enum TensorArgType {
    /// Reads it.
    Input = 0,
    /// Writes it; the runtime allocates it.
    Output = 1,
    /// Reads, then writes it.
    Inout = 2,
    /// Writes it; it exists already.
    OutputExisting = 3,
    /// Waits for the tensor's owner, but takes part in no dependency by overlap.
    NoDep = 4,
}

impl TensorArgType {
    /// The use with number `raw`, if there is one.
    pub const fn from_raw(raw: i32) -> Option<TensorArgType> {
        Some(match raw {
            0 => TensorArgType::Input,
            1 => TensorArgType::Output,
            2 => TensorArgType::Inout,
            3 => TensorArgType::OutputExisting,
            4 => TensorArgType::NoDep,
            _ => return None,
        })
    }
}

/// An argument in a kernel's signature (`ArgDirection`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(i32)]
pub enum ArgDirection {
    /// A value, not a tensor.
    Scalar = 0,
    /// A tensor that the kernel reads.
    In = 1,
    /// A tensor that the kernel writes.
    Out = 2,
    /// A tensor that the kernel reads, then writes.
    Inout = 3,
}

impl ArgDirection {
    /// The direction with number `raw`, if there is one.
    pub const fn from_raw(raw: i32) -> Option<ArgDirection> {
        Some(match raw {
            0 => ArgDirection::Scalar,
            1 => ArgDirection::In,
            2 => ArgDirection::Out,
            3 => ArgDirection::Inout,
            _ => return None,
        })
    }
}

/// Whose memory a tensor lies in (`AddressSpace`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum AddressSpace {
    /// The host's.
    Host = 0,
    /// The device's.
    Device = 1,
}

impl AddressSpace {
    /// The space with number `raw`, if there is one.
    pub const fn from_raw(raw: u8) -> Option<AddressSpace> {
        Some(match raw {
            0 => AddressSpace::Host,
            1 => AddressSpace::Device,
            _ => return None,
        })
    }
}

/// A task id as C++ passes it (`PTO2TaskId`); [`task_id`](super::task_id) takes it apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TaskId {
    /// `(ring << 32) | local`.
    pub raw: u64,
}

/// A block of memory (`PTOBufferHandle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct BufferHandle {
    /// Its device address.
    pub addr: u64,
    /// In bytes.
    pub size: u64,
}

/// A view of a buffer as a tensor (`ChipTensor`): two cache lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Tensor {
    /// The memory.
    pub buffer: BufferHandle,
    /// The task that makes it, or an invalid id.
    pub owner_task_id: TaskId,
    /// The view's first element, in elements from the buffer's start.
    pub start_offset: u64,
    /// Counts the versions of a buffer.
    pub version: i32,
    /// Valid entries of `shapes` and `strides`.
    pub ndims: u32,
    /// A [`DataType`].
    pub dtype: u8,
    /// Not 0: takes part in no inferred dependency.
    pub manual_dep: u8,
    /// Not 0: the elements lie without holes.
    pub is_contiguous: u8,
    /// An [`AddressSpace`].
    pub address_space: u8,
    /// In elements, per dimension.
    pub shapes: [u32; MAX_DIMS],
    /// The view's extent, in elements: one past its last, less `start_offset`. A cache of what the shape says.
    pub extent_elem_cache: u64,
    /// In elements, per dimension.
    pub strides: [u32; MAX_DIMS],
    /// Unused.
    pub _pad: [u32; 9],
}

const _: () = {
    assert!(size_of::<Tensor>() == 128 && align_of::<Tensor>() == 64);
    assert!(size_of::<BufferHandle>() == 16 && size_of::<TaskId>() == 8);
};
