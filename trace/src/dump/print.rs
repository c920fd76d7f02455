//! Values for a person, as numpy prints an array: nested brackets, columns aligned, the middle of a large one left out.

use super::dtype::Dtype;
use super::list::Row;
use super::record::{Kind, Payload, Record};
use super::text::Texts;
use super::{Dump, DumpError};
use std::io::{self, Write};

/// How much is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// More values than this are summarised.
    pub threshold: u64,
    /// Values at each end of a dimension that a summary keeps.
    pub edge: u64,
    /// Characters of a line.
    pub width: usize,
}

impl Default for PrintOptions {
    fn default() -> Self {
        PrintOptions { threshold: 1000, edge: 3, width: 110 }
    }
}

/// Writes the record at `index`: a line that says which it is, and its values.
pub fn print_values(
    out: &mut dyn Write,
    dump: &Dump,
    index: usize,
    options: &PrintOptions,
) -> Result<(), DumpError> {
    let record = dump.record(index);
    let remark = match record.payload() {
        Payload::Complete => String::new(),
        Payload::Truncated => {
            let all = u128::from(record.numel) * u128::from(record.dtype.values_per_element());
            format!(", cut short: the first {} of {all} values", record.stored_values())
        }
        Payload::Shed => ", payload shed: the run could not afford it".into(),
        Payload::Overwritten => ", payload overwritten before it was read".into(),
        Payload::NotCaptured => ", no payload: it was not marked".into(),
    };
    let func = record.func_ids();
    let values = if !record.has_values() {
        Vec::new()
    } else if let (Kind::Scalar, Some(value)) = (record.kind, record.value) {
        value.to_string().into_bytes()
    } else {
        Page::new(dump, record, options)?.lay_out()
    };
    let mut write = || -> io::Result<()> {
        let bytes = match record.kind {
            Kind::Scalar => ", a scalar".into(),
            _ => format!(", {} bytes", record.bin_size),
        };
        writeln!(out, "# {} func {func:?}{bytes}{remark}", record.title())?;
        out.write_all(&values)?;
        if !values.is_empty() {
            out.write_all(b"\n")?;
        }
        Ok(())
    };
    write().map_err(said)
}

/// An error of whoever reads the output.
pub(super) fn said(source: io::Error) -> DumpError {
    DumpError::Io { path: "the output".into(), source }
}

/// The values that will be printed, and how.
struct Page<'a> {
    texts: Texts,
    shape: Vec<u64>,
    /// Values that each step of a dimension passes.
    steps: Vec<u64>,
    summarised: bool,
    options: &'a PrintOptions,
}

impl<'a> Page<'a> {
    fn new(dump: &Dump, record: &Record, options: &'a PrintOptions) -> Result<Self, DumpError> {
        let shape = record.stored_shape();
        let mut steps = vec![1u64; shape.len()];
        for dim in (1..shape.len()).rev() {
            // With a dimension of 0 nothing is read, and the product means nothing.
            steps[dim - 1] = steps[dim].saturating_mul(shape[dim]);
        }
        let summarised = record.stored_values() > options.threshold;
        let mut page = Page { texts: Texts::default(), shape, steps, summarised, options };
        if page.shape.contains(&0) {
            return Ok(page);
        }
        let mut texts = Texts::default();
        page.gather(0, 0, &mut |first, count| dump.values(record, first, count, &mut texts))?;
        page.texts = texts;
        Ok(page)
    }

    /// The parts of dimension `dim` that are shown: up to two ranges.
    fn parts(&self, dim: usize) -> Vec<std::ops::Range<u64>> {
        let (n, edge) = (self.shape[dim], self.options.edge.max(1));
        // Whole, written as one part.
        let whole = std::iter::once(0..n).collect();
        if self.summarised && n > edge.saturating_mul(2) { vec![0..edge, n - edge..n] } else { whole }
    }

    /// Calls `run` with each run of values that is shown, in order.
    fn gather(
        &self,
        dim: usize,
        base: u64,
        run: &mut dyn FnMut(u64, u64) -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        if self.shape.is_empty() {
            return run(0, 1);
        }
        for part in self.parts(dim) {
            if dim + 1 == self.shape.len() {
                run(base + part.start, part.end - part.start)?;
                continue;
            }
            for at in part {
                self.gather(dim + 1, base + at * self.steps[dim], run)?;
            }
        }
        Ok(())
    }

    fn lay_out(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.shape.contains(&0) {
            out.extend_from_slice(b"[]");
        } else if self.shape.is_empty() {
            out.extend(self.texts.iter().flatten());
        } else {
            let width = self.texts.widest();
            self.bracket(&mut out, 0, width, &mut self.texts.iter());
        }
        out
    }

    fn bracket(&self, out: &mut Vec<u8>, dim: usize, width: usize, texts: &mut dyn Iterator<Item = &[u8]>) {
        let pad = |out: &mut Vec<u8>, n: usize| out.resize(out.len() + n, b' ');
        let last = dim + 1 == self.shape.len();
        out.push(b'[');
        let mut column = dim + 1;
        let mut first = true;
        for (number, part) in self.parts(dim).into_iter().enumerate() {
            let gap = (number > 0).then_some(());
            let items = gap.map(|()| None).into_iter().chain(part.map(Some));
            for item in items {
                let length = if item.is_some() { width } else { 3 };
                if last {
                    if !first && column + 1 + length >= self.options.width {
                        out.push(b'\n');
                        pad(out, dim + 1);
                        column = dim + 1;
                    } else if !first {
                        out.push(b' ');
                        column += 1;
                    }
                    column += length;
                } else if !first {
                    out.resize(out.len() + self.shape.len() - 1 - dim, b'\n');
                    pad(out, dim + 1);
                }
                first = false;
                match item {
                    None => out.extend_from_slice(b"..."),
                    Some(_) if last => {
                        let text = texts.next().unwrap_or_default();
                        pad(out, width - text.len());
                        out.extend_from_slice(text);
                    }
                    Some(_) => self.bracket(out, dim + 1, width, texts),
                }
            }
        }
        out.push(b']');
    }
}

impl Dump {
    /// Adds `count` values of `record` from value `first` on to `texts`.
    fn values(&self, record: &Record, first: u64, count: u64, texts: &mut Texts) -> Result<(), DumpError> {
        let per_element = record.dtype.values_per_element();
        let (mut first, end) = (first, first + count);
        let mut block = Texts::default();
        while first < end {
            let element = first / per_element;
            let elements = (end.div_ceil(per_element) - element).min(super::BLOCK_BYTES as u64 / 8);
            let mut bytes = vec![0; (elements * record.dtype.bytes()) as usize];
            self.bin.read(record, element * record.dtype.bytes(), &mut bytes)?;
            block.clear();
            block.push(record.dtype, &bytes);
            let skip = first % per_element;
            let taken = (elements * per_element - skip).min(end - first);
            block.iter().skip(skip as usize).take(taken as usize).for_each(|text| texts.push_text(text));
            first += taken;
        }
        Ok(())
    }
}

/// Writes the record at `index` as a JSON object, with all its values, flat, or `null` where there are none.
pub fn write_values_json(out: &mut dyn Write, dump: &Dump, index: usize) -> Result<(), DumpError> {
    let record = dump.record(index);
    let mut head = serde_json::to_vec(&Row::new(index, record)).map_err(|error| said(error.into()))?;
    head.pop(); // its closing brace
    out.write_all(&head).map_err(said)?;
    out.write_all(b",\"values\":").map_err(said)?;
    if !record.has_values() || record.kind == Kind::Scalar {
        let scalar =
            serde_json::to_vec(&record.value.map(|value| [value])).map_err(|error| said(error.into()))?;
        out.write_all(&scalar).map_err(said)?;
    } else {
        out.write_all(b"[").map_err(said)?;
        let mut numbers = Vec::new();
        dump.bin.blocks(record, |from, bytes| {
            numbers.clear();
            json_numbers(record.dtype, bytes, from == 0, &mut numbers);
            out.write_all(&numbers).map_err(said)
        })?;
        out.write_all(b"]").map_err(said)?;
    }
    out.write_all(b"}").map_err(said)
}

/// Appends the values in `bytes`, exactly: floats by the shortest decimal that reads back the same.
fn json_numbers(dtype: Dtype, bytes: &[u8], mut first: bool, out: &mut Vec<u8>) {
    use super::dtype::Class;
    let mut separate = |out: &mut Vec<u8>| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
    };
    // Writing to memory does not fail.
    match dtype.class() {
        Class::Float => {
            let mut values = Vec::new();
            dtype.decode(bytes, &mut values);
            for value in values {
                separate(out);
                let _ = match value {
                    _ if value.is_nan() => out.write_all(b"null"),
                    _ if value == f64::INFINITY => out.write_all(b"\"$Inf\""),
                    _ if value == f64::NEG_INFINITY => out.write_all(b"\"-$Inf\""),
                    // All of them are binary32 or less.
                    _ => write!(out, "{:?}", value as f32),
                };
            }
        }
        class => {
            let mut values = Vec::new();
            dtype.decode_exact(bytes, &mut values);
            for value in values {
                separate(out);
                let _ = match class {
                    Class::Bool => write!(out, "{}", value != 0),
                    _ => write!(out, "{value}"),
                };
            }
        }
    }
}
