//! A tensor's elements, reached through atomics.

use crate::program::TensorDef;
use dfx_collector::abi::tensor::DataType;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A block's bytes as atomics of its cell width (a trailing part of a cell is left out of reach).
#[derive(Clone, Copy)]
pub(super) enum Cells<'a> {
    U8(&'a [AtomicU8]),
    U16(&'a [AtomicU16]),
    U32(&'a [AtomicU32]),
    U64(&'a [AtomicU64]),
}

impl Cells<'_> {
    pub(super) fn width(self) -> usize {
        match self {
            Cells::U8(_) => 1,
            Cells::U16(_) => 2,
            Cells::U32(_) => 4,
            Cells::U64(_) => 8,
        }
    }

    fn load(self, cell: usize) -> u64 {
        match self {
            Cells::U8(cells) => cells[cell].load(Relaxed).into(),
            Cells::U16(cells) => cells[cell].load(Relaxed).into(),
            Cells::U32(cells) => cells[cell].load(Relaxed).into(),
            Cells::U64(cells) => cells[cell].load(Relaxed),
        }
    }

    pub(super) fn store(self, cell: usize, value: u64) {
        match self {
            Cells::U8(cells) => cells[cell].store(value as u8, Relaxed),
            Cells::U16(cells) => cells[cell].store(value as u16, Relaxed),
            Cells::U32(cells) => cells[cell].store(value as u32, Relaxed),
            Cells::U64(cells) => cells[cell].store(value, Relaxed),
        }
    }

    /// The little-endian value of `width` bytes at `byte` (both multiples of the cell's width).
    fn load_bits(self, byte: usize, width: usize) -> u64 {
        let cell = self.width();
        (0..width / cell).fold(0, |bits, i| bits | self.load(byte / cell + i) << (i * cell * 8))
    }

    fn store_bits(self, byte: usize, width: usize, bits: u64) {
        let cell = self.width();
        for i in 0..width / cell {
            self.store(byte / cell + i, bits >> (i * cell * 8));
        }
    }
}

/// Bytes of an element.
pub(super) fn width(dtype: DataType) -> usize {
    dtype.bytes() as usize
}

/// The elements of a tensor, row-major over its shape, wherever its strides put them.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    pub(super) cells: Option<Cells<'a>>,
    pub(super) def: &'a TensorDef,
}

impl<'a> TensorView<'a> {
    /// The tensor's description.
    pub fn def(&self) -> &'a TensorDef {
        self.def
    }

    /// Its extents.
    pub fn shape(&self) -> &'a [u32] {
        &self.def.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.def.shape.iter().map(|&extent| extent as usize).product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether neighbours in row-major order are neighbours in memory.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.def.shape.iter().zip(&self.def.strides).rev().all(|(&extent, &stride)| {
            let fits = extent == 1 || u64::from(stride) == expected;
            expected *= u64::from(extent);
            fits
        })
    }

    /// Elements from the buffer's start to the element with this row-major number.
    fn offset(&self, linear: usize) -> usize {
        assert!(linear < self.len(), "element {linear} of {} ({} elements)", self.def.name, self.len());
        let mut rest = linear;
        let mut offset = self.def.start_offset as usize;
        for (&extent, &stride) in self.def.shape.iter().zip(&self.def.strides).rev() {
            offset += rest % extent as usize * stride as usize;
            rest /= extent as usize;
        }
        offset
    }

    /// The row-major number of the element at `index`.
    ///
    /// # Panics
    ///
    /// If the index has another rank or leaves the shape.
    pub fn linear(&self, index: &[u32]) -> usize {
        let shape = &self.def.shape;
        let inside = index.len() == shape.len() && index.iter().zip(shape).all(|(i, extent)| i < extent);
        assert!(inside, "index {index:?} of {} (shape {shape:?})", self.def.name);
        index.iter().zip(shape).fold(0, |linear, (&i, &extent)| linear * extent as usize + i as usize)
    }

    /// The raw bits of the element with this row-major number (zero-extended).
    ///
    /// # Panics
    ///
    /// If there is no such element.
    pub fn bits(&self, linear: usize) -> u64 {
        let (offset, width) = (self.offset(linear), width(self.def.dtype));
        self.cells.map_or(0, |cells| cells.load_bits(offset * width, width))
    }

    /// Writes the raw bits of an element (the low ones, as many as the type has).
    ///
    /// # Panics
    ///
    /// If there is no such element.
    pub fn set_bits(&self, linear: usize, bits: u64) {
        let (offset, width) = (self.offset(linear), width(self.def.dtype));
        if let Some(cells) = self.cells {
            cells.store_bits(offset * width, width, bits);
        }
    }

    fn expect(&self, dtype: DataType) {
        let (name, is) = (&self.def.name, self.def.dtype);
        assert!(is == dtype, "tensor {name} is {is:?}, not {dtype:?}");
    }

    /// Element of a `Float32` tensor by row-major number.
    ///
    /// # Panics
    ///
    /// If the tensor has another type or no such element (all typed accessors do).
    pub fn f32(&self, linear: usize) -> f32 {
        self.expect(DataType::Float32);
        f32::from_bits(self.bits(linear) as u32)
    }

    /// Writes an element of a `Float32` tensor.
    pub fn set_f32(&self, linear: usize, value: f32) {
        self.expect(DataType::Float32);
        self.set_bits(linear, value.to_bits().into());
    }

    /// Element of a `Float32` tensor by index.
    pub fn at_f32(&self, index: &[u32]) -> f32 {
        self.f32(self.linear(index))
    }

    /// Writes an element of a `Float32` tensor by index.
    pub fn set_at_f32(&self, index: &[u32], value: f32) {
        self.set_f32(self.linear(index), value);
    }

    /// Element of an `Int32` tensor by row-major number.
    pub fn i32(&self, linear: usize) -> i32 {
        self.expect(DataType::Int32);
        self.bits(linear) as u32 as i32
    }

    /// Writes an element of an `Int32` tensor.
    pub fn set_i32(&self, linear: usize, value: i32) {
        self.expect(DataType::Int32);
        self.set_bits(linear, (value as u32).into());
    }

    /// Calls `f` with the row-major number and the place (in elements of the buffer) of each element of `range`.
    fn places(&self, range: Range<usize>, mut f: impl FnMut(usize, usize)) {
        if range.is_empty() {
            return;
        }
        assert!(range.end <= self.len(), "elements {range:?} of {} ({} elements)", self.def.name, self.len());
        let run =
            if self.is_contiguous() { self.len() } else { *self.def.shape.last().unwrap_or(&1) as usize };
        let stride = if self.is_contiguous() { 1 } else { *self.def.strides.last().unwrap_or(&1) as usize };
        let mut linear = range.start;
        while linear < range.end {
            let start = self.offset(linear);
            let count = (run - linear % run).min(range.end - linear);
            for i in 0..count {
                f(linear + i, start + i * stride);
            }
            linear += count;
        }
    }

    /// Calls `f` with each element of `range` (row-major numbers) of a `Float32` tensor.
    pub fn for_each_in(&self, range: Range<usize>, mut f: impl FnMut(usize, f32)) {
        self.expect(DataType::Float32);
        match self.cells {
            Some(Cells::U32(cells)) => {
                self.places(range, |i, place| f(i, f32::from_bits(cells[place].load(Relaxed))));
            }
            Some(cells) => {
                self.places(range, |i, place| f(i, f32::from_bits(cells.load_bits(place * 4, 4) as u32)));
            }
            None => self.places(range, |i, _| f(i, 0.0)),
        }
    }

    /// Calls `f` with each element of a `Float32` tensor.
    pub fn for_each(&self, f: impl FnMut(usize, f32)) {
        self.for_each_in(0..self.len(), f);
    }

    /// Writes `f(i)` to each element of `range` (row-major numbers) of a `Float32` tensor.
    pub fn fill_in(&self, range: Range<usize>, mut f: impl FnMut(usize) -> f32) {
        self.expect(DataType::Float32);
        match self.cells {
            Some(Cells::U32(cells)) => {
                self.places(range, |i, place| cells[place].store(f(i).to_bits(), Relaxed));
            }
            Some(cells) => {
                self.places(range, |i, place| cells.store_bits(place * 4, 4, f(i).to_bits().into()));
            }
            None => {}
        }
    }

    /// The elements of a `Float32` tensor in row-major order.
    pub fn read_to_vec_f32(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.len());
        self.for_each(|_, value| values.push(value));
        values
    }

    /// Writes a `Float32` tensor from row-major values.
    ///
    /// # Panics
    ///
    /// If there are fewer values than elements, or the tensor has another type.
    pub fn write_from_f32(&self, values: &[f32]) {
        self.fill_in(0..self.len(), |i| values[i]);
    }
}
