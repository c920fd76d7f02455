//! The `.npy` format, version 1.0: a magic word, a Python literal that says type and shape, and the bytes in C order.

use super::Dump;
use super::dtype::{Class, Dtype};
use super::export::Failed;
use super::record::{Kind, Record};
use std::fs::File;
use std::io::Write;

/// The header and what follows it begin at multiples of this.
const ALIGN: usize = 64;

/// How a type's values are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// As they are.
    Bytes(&'static str),
    /// 0 or 1.
    Bools,
    /// Decoded to binary32.
    Floats,
}

impl Form {
    fn of(dtype: Dtype, raw: bool) -> Form {
        Form::Bytes(match dtype {
            Dtype::Float32 => "<f4",
            Dtype::Float16 => "<f2",
            Dtype::Int64 => "<i8",
            Dtype::Int32 => "<i4",
            Dtype::Int16 => "<i2",
            Dtype::Int8 => "|i1",
            Dtype::Uint64 => "<u8",
            Dtype::Uint32 => "<u4",
            Dtype::Uint16 => "<u2",
            Dtype::Uint8 | Dtype::Unknown => "|u1",
            Dtype::Bfloat16 if raw => "<u2",
            Dtype::Fp8E4m3fn | Dtype::Fp8E8m0 | Dtype::Fp4E2m1 if raw => "|u1",
            Dtype::Bool => return Form::Bools,
            Dtype::Bfloat16 | Dtype::Fp8E4m3fn | Dtype::Fp8E8m0 | Dtype::Fp4E2m1 => return Form::Floats,
        })
    }

    fn descr(self) -> &'static str {
        match self {
            Form::Bytes(descr) => descr,
            Form::Bools => "|b1",
            Form::Floats => "<f4",
        }
    }
}

/// The bytes before the values.
fn header(descr: &str, shape: &[u64]) -> Vec<u8> {
    let mut dims: String = shape.iter().map(|n| format!("{n}, ")).collect();
    // A tuple of one has a comma behind it, one of more need not.
    dims.truncate(dims.len().saturating_sub(if shape.len() == 1 { 1 } else { 2 }));
    let mut literal = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    let before = 10;
    let total = (before + literal.len() + 1).next_multiple_of(ALIGN);
    literal.extend(std::iter::repeat_n(' ', total - before - literal.len() - 1));
    literal.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    // At most five dimensions: two bytes hold its length.
    bytes.extend_from_slice(&(literal.len() as u16).to_le_bytes());
    bytes.extend_from_slice(literal.as_bytes());
    bytes
}

/// Writes `record`, which has values.
pub(super) fn write(dump: &Dump, record: &Record, raw: bool, file: &mut File) -> Result<(), Failed> {
    if let (Kind::Scalar, Some(value)) = (record.kind, record.value) {
        let (descr, bytes) = scalar(record.dtype, value);
        file.write_all(&header(descr, &[]))?;
        return Ok(file.write_all(&bytes)?);
    }
    let form = Form::of(record.dtype, raw);
    let packed = matches!(form, Form::Bytes(_)) && record.dtype.values_per_element() > 1;
    let shape = match (packed, record.truncated) {
        (false, _) => record.stored_shape(),
        (true, false) => record.shape().iter().map(|&n| n.into()).collect(),
        (true, true) => vec![record.bin_size],
    };
    file.write_all(&header(form.descr(), &shape))?;
    let (mut values, mut out) = (Vec::new(), Vec::new());
    // A payload cut short may end within an element.
    let usable = record.bin_size - record.bin_size % record.dtype.bytes();
    let mut failed = None;
    dump.bin.blocks(record, |from, bytes| {
        let bytes = &bytes[..bytes.len().min((usable - from.min(usable)) as usize)];
        out.clear();
        let bytes = match form {
            Form::Bytes(_) => bytes,
            Form::Bools => {
                out.extend(bytes.iter().map(|&b| u8::from(b != 0)));
                &out
            }
            Form::Floats => {
                values.clear();
                record.dtype.decode(bytes, &mut values);
                out.extend(values.iter().flat_map(|&v| (v as f32).to_le_bytes()));
                &out
            }
        };
        if failed.is_none() {
            failed = file.write_all(bytes).err();
        }
        Ok(())
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// A scalar's type and bytes. The halves become float32, like everything that only a conversion would fit.
fn scalar(dtype: Dtype, value: super::Value) -> (&'static str, Vec<u8>) {
    use super::Value;
    let form = match dtype.class() {
        Class::Float => Form::Floats,
        _ => Form::of(dtype, false),
    };
    let size = if dtype == Dtype::Unknown { 8 } else { dtype.bytes() as usize };
    match value {
        Value::Float(value) => (form.descr(), (value as f32).to_le_bytes().to_vec()),
        Value::Bool(value) => (form.descr(), vec![value.into()]),
        Value::Uint(value) if dtype == Dtype::Unknown => ("<u8", value.to_le_bytes().to_vec()),
        Value::Uint(value) => (form.descr(), value.to_le_bytes()[..size].to_vec()),
        Value::Int(value) => (form.descr(), value.to_le_bytes()[..size].to_vec()),
    }
}
