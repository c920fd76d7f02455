//! The strict reader of a record's entry in the manifest.

use super::super::dtype::{Class, Dtype};
use super::{Kind, MAX_DIMS, MAX_FUNC_IDS, Record, Role, Stage, Value};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Unexpected, Visitor};
use std::fmt;

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
        Err(format!(
            "bin_size is {bin_size}, but {numel} elements of {name} are {} bytes",
            match whole {
                Some(whole) => whole.to_string(),
                None => "more than 2^64".into(),
            }
        ))
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
