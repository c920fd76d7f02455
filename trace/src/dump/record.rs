//! One captured argument, held in at most 128 bytes.

mod entry;

use super::dtype::Dtype;
use serde::{Serialize, Serializer};
use std::fmt;

/// Dimensions that an argument can have.
pub const MAX_DIMS: usize = 5;
/// Kernels that a record can name.
const MAX_FUNC_IDS: usize = 3;

/// How the task used the argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read.
    Input,
    /// Written.
    Output,
    /// Read, then written.
    Inout,
    /// Not one of these.
    Unknown,
}

impl Role {
    /// The manifest's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Output => "output",
            Role::Inout => "inout",
            Role::Unknown => "unknown",
        }
    }

    /// The word in file names.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Role::Input => "in",
            Role::Output => "out",
            _ => self.name(),
        }
    }
}

/// When it was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Before the task was dispatched.
    BeforeDispatch,
    /// After the task had completed.
    AfterCompletion,
    /// Not one of these.
    Unknown,
}

impl Stage {
    /// The manifest's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::BeforeDispatch => "before_dispatch",
            Stage::AfterCompletion => "after_completion",
            Stage::Unknown => "unknown",
        }
    }

    /// The word in tables and file names.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Stage::BeforeDispatch => "before",
            Stage::AfterCompletion => "after",
            Stage::Unknown => "unknown",
        }
    }
}

/// What it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A tensor, with its bytes in `args.bin` if they were captured.
    Tensor,
    /// A scalar, with its value in the manifest.
    Scalar,
    /// Not one of these.
    Unknown,
}

/// A scalar's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// Of an integer type.
    Int(i64),
    /// Of an unsigned type.
    Uint(u64),
    /// Of a floating type.
    Float(f64),
    /// Of the boolean type.
    Bool(bool),
}

impl Value {
    /// As a number; integers beyond 2^53 are rounded.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Int(value) => value as f64,
            Value::Uint(value) => value as f64,
            Value::Float(value) => value,
            Value::Bool(value) => f64::from(u8::from(value)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => value.fmt(f),
            Value::Uint(value) => value.fmt(f),
            Value::Float(value) if value.is_nan() => f.write_str("nan"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Value::Int(value) => serializer.serialize_i64(value),
            Value::Uint(value) => serializer.serialize_u64(value),
            Value::Float(value) => super::json::float(&value, serializer),
            Value::Bool(value) => serializer.serialize_bool(value),
        }
    }
}

/// How much of the argument's bytes there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// All of it; a scalar's value, or nothing because there is nothing.
    Complete,
    /// The first bytes only: it was larger than the device's arena.
    Truncated,
    /// None: it was given up so that the run could live.
    Shed,
    /// None: the device overwrote it before it was read.
    Overwritten,
    /// None was asked for (not marked).
    NotCaptured,
}

impl Payload {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Payload::Complete => "complete",
            Payload::Truncated => "cut short",
            Payload::Shed => "shed",
            Payload::Overwritten => "overwritten",
            Payload::NotCaptured => "not captured",
        }
    }
}

/// One captured argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Record {
    /// The task: `(ring << 32) | local`.
    pub task_id: u64,
    /// Where the view began in its buffer, in elements.
    pub start_offset: u64,
    /// Elements of the view (bytes, for packed FP4).
    pub numel: u64,
    /// Where the payload lies in `args.bin`. Several records may share it.
    pub bin_offset: u64,
    /// The payload in bytes.
    pub bin_size: u64,
    /// A scalar's value; `None` for tensors.
    pub value: Option<Value>,
    shape: [u32; MAX_DIMS],
    strides: [u32; MAX_DIMS],
    func_ids: [i32; MAX_FUNC_IDS],
    /// The argument's position.
    pub arg_index: u32,
    ndims: u8,
    func_count: u8,
    /// The type of its elements.
    pub dtype: Dtype,
    /// How the task used it.
    pub role: Role,
    /// When it was captured.
    pub stage: Stage,
    /// What it is.
    pub kind: Kind,
    /// Whether the payload is shorter than the view.
    pub truncated: bool,
    /// Whether the payload was lost on the device.
    pub overwritten: bool,
    /// Whether its elements lay without holes.
    pub is_contiguous: bool,
    /// Whether the mark that chose it could mean another argument.
    pub arg_index_ambiguous: bool,
}

const _: () = assert!(size_of::<Record>() <= 128);

impl Record {
    /// Elements per dimension.
    #[must_use]
    pub fn shape(&self) -> &[u32] {
        &self.shape[..self.ndims.into()]
    }

    /// Elements to step per dimension.
    #[must_use]
    pub fn strides(&self) -> &[u32] {
        &self.strides[..self.ndims.into()]
    }

    /// The task's kernels; -1 is one that is not known.
    #[must_use]
    pub fn func_ids(&self) -> &[i32] {
        &self.func_ids[..self.func_count.into()]
    }

    /// How much of its bytes there is.
    #[must_use]
    pub fn payload(&self) -> Payload {
        match (self.overwritten, self.truncated, self.bin_size) {
            (true, _, _) => Payload::Overwritten,
            (_, true, 0) => Payload::Shed,
            (_, true, _) => Payload::Truncated,
            (_, _, 0) if self.kind != Kind::Scalar && self.numel > 0 => Payload::NotCaptured,
            _ => Payload::Complete,
        }
    }

    /// Whether there are values to show: a scalar's, a payload's, or those of an empty tensor.
    #[must_use]
    pub fn has_values(&self) -> bool {
        matches!(self.payload(), Payload::Complete | Payload::Truncated)
    }

    /// Values per dimension: the shape, with the last dimension doubled where two values share a byte.
    #[must_use]
    pub fn value_shape(&self) -> Vec<u64> {
        let mut shape: Vec<u64> = self.shape().iter().map(|&n| n.into()).collect();
        let per_element = self.dtype.values_per_element();
        match shape.last_mut() {
            Some(last) => *last *= per_element,
            None if per_element > 1 => shape.push(per_element),
            None => {}
        }
        shape
    }

    /// Values that the payload holds.
    #[must_use]
    pub fn stored_values(&self) -> u64 {
        self.bin_size / self.dtype.bytes() * self.dtype.values_per_element()
    }

    /// The shape of what there is: of all values, or of the flat beginning that a payload cut short holds.
    #[must_use]
    pub fn stored_shape(&self) -> Vec<u64> {
        match self.payload() {
            Payload::Truncated => vec![self.stored_values()],
            _ => self.value_shape(),
        }
    }

    /// `t7` in ring 0, else `r2t7`.
    #[must_use]
    pub fn task_name(&self) -> String {
        task_name(self.task_id)
    }

    /// `task_0x0000000200000007_before_in0`: what files made of it are called.
    #[must_use]
    pub fn file_stem(&self) -> String {
        let (stage, role) = (self.stage.short(), self.role.short());
        format!("task_{:#018x}_{stage}_{role}{}", self.task_id, self.arg_index)
    }

    /// The argument in one line.
    #[must_use]
    pub fn title(&self) -> String {
        let (stage, role) = (self.stage.short(), self.role.short());
        let (dtype, shape) = (self.dtype.name(), self.shape());
        format!("{} {stage} {role}{}: {dtype} {shape:?}", self.task_name(), self.arg_index)
    }
}

/// `t7` in ring 0, else `r2t7`.
pub(super) fn task_name(task_id: u64) -> String {
    match (task_id >> 32 & 0xff, task_id as u32) {
        (0, local) => format!("t{local}"),
        (ring, local) => format!("r{ring}t{local}"),
    }
}
