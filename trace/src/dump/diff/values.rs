//! The values of two records of one type and shape, compared.

use super::super::bin::BLOCK_BYTES;
use super::super::dtype::{Class, Dtype};
use super::super::record::{Kind, Record, Value};
use super::super::stats::Number;
use super::super::{Dump, DumpError};
use super::{Tolerance, ValueDifference};

/// What the comparison saw.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) compared: u64,
    pub(super) max_abs: f64,
    pub(super) max_rel: f64,
    differing: u64,
    both_nan: u64,
    /// Which value is the first that differs, and what is there.
    first: Option<(u64, Number, Number)>,
}

impl Seen {
    /// As a difference of `record`, if it is one.
    pub(super) fn difference(self, record: &Record) -> Option<ValueDifference> {
        let (first, first_a, first_b) = self.first?;
        Some(ValueDifference {
            compared: self.compared,
            differing: self.differing,
            both_nan: self.both_nan,
            first_index: multi_index(first, &record.value_shape()),
            first_a,
            first_b,
            max_abs: self.max_abs,
            max_rel: self.max_rel,
        })
    }

    fn add(&mut self, a: Number, b: Number, tolerance: &Tolerance) {
        let at = self.compared;
        self.compared += 1;
        let (distance, size, equal) = match (a, b) {
            (Number::Int(a), Number::Int(b)) => ((a - b).unsigned_abs() as f64, b as f64, a == b),
            _ => {
                let (a, b) = (a.as_f64(), b.as_f64());
                if a.is_nan() && b.is_nan() {
                    if !tolerance.equal_nan {
                        self.both_nan += 1;
                        self.differ(at, Number::Float(a), Number::Float(b));
                    }
                    return;
                }
                // Infinities of one sign are equal; their difference is no number.
                (if a == b { 0.0 } else { (a - b).abs() }, b, a == b)
            }
        };
        self.max_abs = self.max_abs.max(distance);
        if size.is_finite() && size != 0.0 && !distance.is_nan() {
            self.max_rel = self.max_rel.max(distance / size.abs());
        }
        // An infinite bound would make everything close to an infinity.
        let close = equal || size.is_finite() && distance <= tolerance.atol + tolerance.rtol * size.abs();
        if !close {
            self.differ(at, a, b);
        }
    }

    fn differ(&mut self, at: u64, a: Number, b: Number) {
        self.differing += 1;
        self.first.get_or_insert((at, a, b));
    }
}

/// Where value `flat` lies in `shape`.
fn multi_index(flat: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    let mut rest = flat;
    for (at, &size) in index.iter_mut().zip(shape).rev() {
        *at = rest % size.max(1);
        rest /= size.max(1);
    }
    index
}

/// Compares what both have: all values, or the beginning that the shorter payload holds.
pub(super) fn compare(
    a: &Dump,
    left: &Record,
    b: &Dump,
    right: &Record,
    tolerance: &Tolerance,
) -> Result<Seen, DumpError> {
    let mut seen = Seen::default();
    if left.kind == Kind::Scalar {
        if let (Some(x), Some(y)) = (left.value, right.value) {
            seen.add(number(x), number(y), tolerance);
        }
        return Ok(seen);
    }
    let dtype = left.dtype;
    let bytes = left.bin_size.min(right.bin_size);
    let bytes = bytes - bytes % dtype.bytes();
    let length = bytes.min(BLOCK_BYTES as u64) as usize;
    let (mut x, mut y) = (vec![0; length], vec![0; length]);
    let mut values = Values::default();
    let mut from = 0;
    while from < bytes {
        let length = (bytes - from).min(BLOCK_BYTES as u64) as usize;
        a.bin.read(left, from, &mut x[..length])?;
        b.bin.read(right, from, &mut y[..length])?;
        // The same bytes are the same values, unless one of them is NaN and NaN is not NaN.
        if x[..length] == y[..length] && (tolerance.equal_nan || dtype.class() != Class::Float) {
            seen.compared += length as u64 / dtype.bytes() * dtype.values_per_element();
        } else {
            values.add(dtype, &x[..length], &y[..length], tolerance, &mut seen);
        }
        from += length as u64;
    }
    Ok(seen)
}

fn number(value: Value) -> Number {
    match value {
        Value::Int(value) => Number::Int(value.into()),
        Value::Uint(value) => Number::Int(value.into()),
        Value::Bool(value) => Number::Int(value.into()),
        Value::Float(value) => Number::Float(value),
    }
}

/// Decoded blocks, kept for the next.
#[derive(Default)]
struct Values {
    floats: [Vec<f64>; 2],
    integers: [Vec<i128>; 2],
}

impl Values {
    fn add(&mut self, dtype: Dtype, x: &[u8], y: &[u8], tolerance: &Tolerance, seen: &mut Seen) {
        if dtype.class() == Class::Float {
            let [a, b] = &mut self.floats;
            a.clear();
            b.clear();
            dtype.decode(x, a);
            dtype.decode(y, b);
            a.iter().zip(b).for_each(|(&a, &mut b)| seen.add(Number::Float(a), Number::Float(b), tolerance));
        } else {
            let [a, b] = &mut self.integers;
            a.clear();
            b.clear();
            dtype.decode_exact(x, a);
            dtype.decode_exact(y, b);
            a.iter().zip(b).for_each(|(&a, &mut b)| seen.add(Number::Int(a), Number::Int(b), tolerance));
        }
    }
}
