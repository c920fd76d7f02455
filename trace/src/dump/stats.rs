//! Figures of one record's values.
//!
//! Sums are kept in binary64 and per block, and blocks are combined by their means and squared deviations (Chan, Golub,
//! LeVeque), so that a tensor of billions of values loses no digits that anybody would read. Least and greatest of 64-bit
//! integers are exact.

use super::dtype::{Class, Dtype};
use super::list::Row;
use super::record::{Kind, Record};
use super::{Dump, DumpError, each, json};
use serde::{Serialize, Serializer};
use std::fmt;

/// A value: of an integer type exactly, of another as binary64.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// Of an integer type.
    Int(i128),
    /// Of another.
    Float(f64),
}

impl Number {
    /// Integers beyond 2^53 are rounded.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Number::Int(value) => value.fmt(f),
            Number::Float(value) => {
                let mut text = Vec::new();
                super::text::general(&mut text, value, 6);
                f.pad(&String::from_utf8_lossy(&text))
            }
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Number::Int(value) => serializer.serialize_i128(*value),
            Number::Float(value) => json::float(value, serializer),
        }
    }
}

/// The figures. Least, greatest, mean and deviation are over the finite values.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Stats {
    /// Values.
    pub count: u64,
    /// Of these, not a number.
    pub nan: u64,
    /// Of these, positive infinity.
    pub pos_inf: u64,
    /// Of these, negative infinity.
    pub neg_inf: u64,
    /// Of these, zero of either sign.
    pub zeros: u64,
    /// `zeros` by `count`; `None` without values.
    pub zero_fraction: Option<f64>,
    /// The least finite value.
    pub min: Option<Number>,
    /// The greatest finite value.
    pub max: Option<Number>,
    /// The mean of the finite values.
    pub mean: Option<f64>,
    /// Their standard deviation, of the population.
    pub std: Option<f64>,
}

impl Stats {
    /// Infinite values.
    #[must_use]
    pub fn inf(&self) -> u64 {
        self.pos_inf + self.neg_inf
    }

    /// The figures and the record at `index` of `dump` as a JSON object.
    #[must_use]
    pub fn to_json(&self, dump: &Dump, index: usize) -> impl Serialize {
        #[derive(Serialize)]
        struct Full<'a> {
            #[serde(flatten)]
            row: Row<'a>,
            stats: Stats,
        }
        Full { row: Row::new(index, dump.record(index)), stats: self.clone() }
    }
}

/// The figures of the records at `selected`, in that order.
pub fn stats(dump: &Dump, selected: &[usize]) -> Result<Vec<Stats>, DumpError> {
    each::map(selected, |index| of_record(dump, dump.record(index)))
}

fn of_record(dump: &Dump, record: &Record) -> Result<Stats, DumpError> {
    let mut sum = Sum::default();
    if let (Kind::Scalar, Some(value)) = (record.kind, record.value) {
        sum.add(&[value.as_f64()]);
        let mut stats = sum.finish();
        let exact = match value {
            super::Value::Int(value) => Some(Number::Int(value.into())),
            super::Value::Uint(value) => Some(Number::Int(value.into())),
            super::Value::Bool(value) => Some(Number::Int(value.into())),
            super::Value::Float(_) => None,
        };
        if exact.is_some() {
            (stats.min, stats.max) = (exact, exact);
        }
        return Ok(stats);
    }
    let mut values = Vec::new();
    let mut exact = Exact::new(record.dtype);
    dump.bin.blocks(record, |_, bytes| {
        values.clear();
        record.dtype.decode(bytes, &mut values);
        sum.add(&values);
        exact.add(bytes);
        Ok(())
    })?;
    let mut stats = sum.finish();
    if record.dtype.class() != Class::Float {
        let whole = |number: Option<Number>| number.map(|n| Number::Int(n.as_f64() as i128));
        (stats.min, stats.max) = (exact.least.or(whole(stats.min)), exact.greatest.or(whole(stats.max)));
    }
    Ok(stats)
}

/// Least and greatest of the types that binary64 does not hold.
struct Exact {
    dtype: Option<Dtype>,
    values: Vec<i128>,
    least: Option<Number>,
    greatest: Option<Number>,
}

impl Exact {
    fn new(dtype: Dtype) -> Self {
        let wide = matches!(dtype, Dtype::Int64 | Dtype::Uint64).then_some(dtype);
        Exact { dtype: wide, values: Vec::new(), least: None, greatest: None }
    }

    fn add(&mut self, bytes: &[u8]) {
        let Some(dtype) = self.dtype else { return };
        self.values.clear();
        dtype.decode_exact(bytes, &mut self.values);
        let held = |number: Option<Number>| match number {
            Some(Number::Int(value)) => Some(value),
            _ => None,
        };
        let values = || self.values.iter().copied();
        self.least = values().chain(held(self.least)).min().map(Number::Int);
        self.greatest = values().chain(held(self.greatest)).max().map(Number::Int);
    }
}

/// The figures on their way.
#[derive(Default)]
struct Sum {
    stats: Stats,
    finite: u64,
    mean: f64,
    /// The sum of the squared deviations from the mean.
    squares: f64,
    least: f64,
    greatest: f64,
}

impl Sum {
    fn add(&mut self, values: &[f64]) {
        // Small parts: their plain sums lose next to nothing.
        values.chunks(4096).for_each(|part| self.add_part(part));
    }

    fn add_part(&mut self, part: &[f64]) {
        let stats = &mut self.stats;
        stats.count += part.len() as u64;
        let (mut count, mut sum) = (0u64, 0.0);
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for &value in part {
            if value.is_finite() {
                count += 1;
                sum += value;
                stats.zeros += u64::from(value == 0.0);
                least = least.min(value);
                greatest = greatest.max(value);
            } else if value.is_nan() {
                stats.nan += 1;
            } else if value > 0.0 {
                stats.pos_inf += 1;
            } else {
                stats.neg_inf += 1;
            }
        }
        if count == 0 {
            return;
        }
        let mean = sum / count as f64;
        let squares: f64 = part.iter().filter(|v| v.is_finite()).map(|v| (v - mean) * (v - mean)).sum();
        if self.finite == 0 {
            (self.least, self.greatest) = (least, greatest);
        }
        let (before, added) = (self.finite as f64, count as f64);
        let apart = mean - self.mean;
        self.mean += apart * (added / (before + added));
        self.squares += squares + apart * apart * (before * added / (before + added));
        self.finite += count;
        self.least = self.least.min(least);
        self.greatest = self.greatest.max(greatest);
    }

    fn finish(self) -> Stats {
        let mut stats = self.stats;
        stats.zero_fraction = (stats.count > 0).then(|| stats.zeros as f64 / stats.count as f64);
        if self.finite > 0 {
            stats.min = Some(Number::Float(self.least));
            stats.max = Some(Number::Float(self.greatest));
            stats.mean = Some(self.mean);
            stats.std = Some((self.squares / self.finite as f64).sqrt());
        }
        stats
    }
}
