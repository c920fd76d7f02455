//! One captured argument, held in at most 128 bytes, and the strict reader of its entry in the manifest.

use super::dtype::{Class, Dtype};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Unexpected, Visitor};
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

/// As the manifest has it, key by key.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    task_id: TaskId,
    func_id: Few<i32, MAX_FUNC_IDS>,
    arg_index: u32,
    role: Role,
    stage: Stage,
    kind: Kind,
    dtype: Dtype,
    #[serde(default, deserialize_with = "given")]
    value: Option<RawValue>,
    is_contiguous: bool,
    shape: Few<u32, MAX_DIMS>,
    strides: Few<u32, MAX_DIMS>,
    start_offset: u64,
    numel: u64,
    #[serde(default)]
    arg_index_ambiguous: bool,
    bin_offset: u64,
    bin_size: u64,
    truncated: bool,
    overwritten: bool,
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Record::try_from(Entry::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl TryFrom<Entry> for Record {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        if entry.shape.len != entry.strides.len {
            return Err(format!(
                "{} strides for {} dimensions, expected as many",
                entry.strides.len, entry.shape.len
            ));
        }
        let shape = &entry.shape.items[..entry.shape.len.into()];
        let elements = shape.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim.into()));
        // A dimension of 0 makes 0 of whatever came before it.
        let elements = if shape.contains(&0) { Some(0) } else { elements };
        if elements != Some(entry.numel) {
            return Err(match elements {
                None => format!("shape {shape:?} has more elements than 64 bits can count"),
                Some(n) => format!("numel is {}, but shape {shape:?} has {n}", entry.numel),
            });
        }
        let value = match (entry.kind, entry.value) {
            (Kind::Scalar, Some(raw)) => Some(raw.of(entry.dtype)?),
            (Kind::Scalar, None) => return Err("a scalar without its value".into()),
            (_, Some(_)) => return Err("a value on what is no scalar".into()),
            (_, None) => None,
        };
        let record = Record {
            task_id: entry.task_id.0,
            start_offset: entry.start_offset,
            numel: entry.numel,
            bin_offset: entry.bin_offset,
            bin_size: entry.bin_size,
            value,
            shape: entry.shape.items,
            strides: entry.strides.items,
            func_ids: entry.func_id.items,
            arg_index: entry.arg_index,
            ndims: entry.shape.len,
            func_count: entry.func_id.len,
            dtype: entry.dtype,
            role: entry.role,
            stage: entry.stage,
            kind: entry.kind,
            truncated: entry.truncated,
            overwritten: entry.overwritten,
            is_contiguous: entry.is_contiguous,
            arg_index_ambiguous: entry.arg_index_ambiguous,
        };
        record.sizes_agree()?;
        Ok(record)
    }
}

impl Record {
    /// The payload is what the shape and the flags say.
    fn sizes_agree(&self) -> Result<(), String> {
        let Record { bin_size, numel, dtype, .. } = *self;
        if self.bin_offset.checked_add(bin_size).is_none() {
            let offset = self.bin_offset;
            return Err(format!("bin_offset {offset} and bin_size {bin_size} end beyond 64 bits"));
        }
        if bin_size == 0 || dtype.class() == Class::Opaque {
            return Ok(());
        }
        let whole = numel.checked_mul(dtype.bytes());
        let expected = match whole {
            _ if bin_size % dtype.bytes() != 0 && !self.truncated => false,
            // More than 64 bits can count is more than any file holds.
            None => self.truncated,
            Some(whole) if self.truncated => bin_size <= whole,
            Some(whole) => bin_size == whole,
        };
        if expected {
            return Ok(());
        }
        let name = dtype.name();
        Err(format!("bin_size is {bin_size}, but {numel} elements of {name} are {} bytes", match whole {
            Some(whole) => whole.to_string(),
            None => "more than 2^64".into(),
        }))
    }
}

/// `0x` and 16 digits.
struct TaskId(u64);

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = TaskId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a task id, \"0x\" and 16 hexadecimal digits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TaskId, E> {
                let digits = text.strip_prefix("0x").filter(|d| d.len() == 16);
                let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                let id = digits.and_then(|d| u64::from_str_radix(d, 16).ok());
                id.map(TaskId).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Up to `N` integers.
struct Few<T, const N: usize> {
    items: [T; N],
    len: u8,
}

impl<'de, T: Deserialize<'de> + Default + Copy, const N: usize> Deserialize<'de> for Few<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const N: usize>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Default + Copy, const N: usize> Visitor<'de> for Items<T, N> {
            type Value = Few<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {N} integers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut few = Few { items: [T::default(); N], len: 0 };
                while let Some(item) = seq.next_element()? {
                    let at = usize::from(few.len);
                    *few.items.get_mut(at).ok_or_else(|| de::Error::invalid_length(at + 1, &self))? = item;
                    few.len += 1;
                }
                Ok(few)
            }
        }
        deserializer.deserialize_seq(Items(std::marker::PhantomData))
    }
}

/// A key that may be `null`, which is a value then.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<RawValue>, D::Error> {
    RawValue::deserialize(value).map(Some)
}

/// What stands behind `value`.
enum RawValue {
    Int(i64),
    Uint(u64),
    Float(f64),
    Bool(bool),
}

impl RawValue {
    /// What it means for a scalar of type `dtype`.
    ///
    /// The reference writes halves and the small types as the unsigned bits of their slot, an integer; we write what
    /// they are. A float of such a type is told from its bits by its decimal point.
    fn of(self, dtype: Dtype) -> Result<Value, String> {
        let class = dtype.class();
        Ok(match (class, self) {
            (Class::Float, RawValue::Float(value)) => Value::Float(value),
            (Class::Float, RawValue::Uint(value)) if dtype == Dtype::Float32 => Value::Float(value as f64),
            (Class::Float, RawValue::Int(value)) if dtype == Dtype::Float32 => Value::Float(value as f64),
            (Class::Float, RawValue::Uint(bits)) => {
                let mut values = Vec::new();
                dtype.decode(&bits.to_le_bytes()[..dtype.bytes() as usize], &mut values);
                Value::Float(values[0])
            }
            (Class::Bool, RawValue::Bool(value)) => Value::Bool(value),
            (Class::Bool, RawValue::Uint(value)) => Value::Bool(value != 0),
            (Class::Int, RawValue::Uint(value)) => match dtype {
                Dtype::Int8 => Value::Int((value as i8).into()),
                Dtype::Int16 => Value::Int((value as i16).into()),
                Dtype::Int32 => Value::Int((value as i32).into()),
                Dtype::Int64 => Value::Int(value as i64),
                _ => Value::Uint(value),
            },
            (Class::Int, RawValue::Int(value)) => Value::Int(value),
            (Class::Opaque, RawValue::Uint(value)) => Value::Uint(value),
            _ => return Err(format!("a value that is none of {}", dtype.name())),
        })
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = RawValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, true, false, null, \"$Inf\" or \"-$Inf\"")
            }

            fn visit_u64<E>(self, value: u64) -> Result<RawValue, E> {
                Ok(RawValue::Uint(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<RawValue, E> {
                Ok(RawValue::Int(value))
            }

            fn visit_f64<E>(self, value: f64) -> Result<RawValue, E> {
                Ok(RawValue::Float(value))
            }

            fn visit_bool<E>(self, value: bool) -> Result<RawValue, E> {
                Ok(RawValue::Bool(value))
            }

            fn visit_unit<E>(self) -> Result<RawValue, E> {
                Ok(RawValue::Float(f64::NAN))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawValue, E> {
                match text {
                    "$Inf" => Ok(RawValue::Float(f64::INFINITY)),
                    "-$Inf" => Ok(RawValue::Float(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Any)
    }
}
