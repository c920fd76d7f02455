//! Views of buffers, and how two of them on one buffer meet.
//!
//! A *view* is what a tensor argument says: a buffer, a start and a shape under strides. Two measures tell views apart:
//! their *spans*, the 1-D ranges from the first element to the last, and, for views of the same array, their *boxes*,
//! the ranges of indices in each dimension. Where neither proves that they are apart, they are taken to meet.

use super::intern::{Fold, Key};
use dfx_collector::abi::tensor::{DataType, MAX_DIMS, Tensor};

/// What a view has apart from where it starts. Dimensions beyond `ndims` are zero, so that equal layouts are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) buffer_bytes: u64,
    /// In elements; 0 when the view has none.
    extent: u64,
    shape: [u32; MAX_DIMS],
    strides: [u32; MAX_DIMS],
    pub(super) dtype: u8,
    ndims: u8,
    /// The strides are those of an array: the innermost is 1 and each is a multiple of the next.
    array: bool,
}

impl Layout {
    /// The layout of `tensor`, whose `ndims` were checked.
    pub(super) fn of(tensor: &Tensor) -> Self {
        let ndims = tensor.ndims as usize;
        let (mut shape, mut strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
        shape[..ndims].copy_from_slice(&tensor.shapes[..ndims]);
        strides[..ndims].copy_from_slice(&tensor.strides[..ndims]);
        let extent = if shape[..ndims].contains(&0) {
            0
        } else if tensor.is_contiguous != 0 {
            shape[..ndims].iter().fold(1u64, |product, &n| product.saturating_mul(n.into()))
        } else {
            tensor.extent_elem_cache
        };
        let nested = strides[..ndims].windows(2).all(|pair| pair[1] != 0 && pair[0].is_multiple_of(pair[1]));
        let array = ndims > 0 && strides[ndims - 1] == 1 && strides[0] != 0 && nested;
        let buffer_bytes = tensor.buffer.size;
        Layout { buffer_bytes, extent, shape, strides, dtype: tensor.dtype, ndims: ndims as u8, array }
    }

    pub(super) fn shape(&self) -> &[u32] {
        &self.shape[..usize::from(self.ndims)]
    }

    pub(super) fn strides(&self) -> &[u32] {
        &self.strides[..usize::from(self.ndims)]
    }

    /// Elements of the buffer; 0 for a type of unknown size.
    pub(super) fn buffer_numel(&self) -> u64 {
        self.buffer_bytes.checked_div(DataType::bytes_of(self.dtype)).unwrap_or(0)
    }

    /// The array whose boxes views with this layout are, if they can be.
    pub(super) fn array(&self) -> Option<ArrayKey> {
        self.array.then_some(ArrayKey { dtype: self.dtype, ndims: self.ndims, strides: self.strides })
    }
}

impl Key for Layout {
    fn fold(&self, hash: Fold) -> Fold {
        let dims = self.shape().iter().zip(self.strides());
        dims.fold(
            hash.word(self.buffer_bytes)
                .word(self.extent)
                .word(u64::from(self.dtype) << 8 | u64::from(self.ndims)),
            |hash, (&n, &stride)| hash.word(u64::from(n) << 32 | u64::from(stride)),
        )
    }
}

/// Views with the same key can be compared box by box.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ArrayKey {
    dtype: u8,
    pub(super) ndims: u8,
    strides: [u32; MAX_DIMS],
}

/// A range of numbers with its last, so that no sum overflows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Range {
    /// Contains nothing, and adds nothing to a union.
    pub(super) const EMPTY: Range = Range { first: u64::MAX, last: 0 };

    fn new(first: u64, len: u64) -> Range {
        match len {
            0 => Range::EMPTY,
            _ => Range { first, last: first.saturating_add(len - 1) },
        }
    }

    pub(super) fn meets(&self, other: &Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn contains(&self, other: &Range) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    pub(super) fn union(&self, other: &Range) -> Range {
        Range { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// Indices per dimension.
pub(super) type Ranges = [Range; MAX_DIMS];

/// A view on a known buffer.
#[derive(Clone, Copy)]
pub(super) struct Region<'a> {
    pub(super) layout: &'a Layout,
    pub(super) start: u64,
    pub(super) version: i32,
}

impl Region<'_> {
    /// From the first element to the last.
    pub(super) fn span(&self) -> Range {
        Range::new(self.start, self.layout.extent)
    }

    /// The view as a box of its array; `None` if it is empty, its strides are not an array's, or it leaves the array in
    /// a dimension other than the outermost (how long that is depends on who asks).
    pub(super) fn boxed(&self) -> Option<Ranges> {
        if !self.layout.array || self.layout.extent == 0 {
            return None;
        }
        let mut ranges = [Range::EMPTY; MAX_DIMS];
        let (mut rest, mut outer) = (self.start, 0);
        let dims = self.layout.shape().iter().zip(self.layout.strides());
        for (range, (&n, &stride)) in ranges.iter_mut().zip(dims) {
            *range = Range::new(rest / u64::from(stride), n.into());
            if outer != 0 && range.last >= u64::from(outer / stride) {
                return None;
            }
            rest %= u64::from(stride);
            outer = stride;
        }
        (rest == 0).then_some(ranges)
    }
}

/// How a consumer's view meets an earlier write on the same buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Overlap {
    /// It contains all of it.
    Covered,
    /// It shares some of it, or it cannot be told.
    Other,
}

impl Overlap {
    /// The word for it in `deps.json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Overlap::Covered => "covered",
            Overlap::Other => "other",
        }
    }
}

/// A consumer's view, ready to be compared with many writes.
pub(super) struct Probe<'a> {
    pub(super) region: Region<'a>,
    pub(super) span: Range,
    /// As a box of its whole array.
    pub(super) boxed: Option<Ranges>,
    /// The array's length in the outermost dimension.
    pub(super) outer: u64,
}

impl<'a> Probe<'a> {
    pub(super) fn new(region: Region<'a>) -> Self {
        let span = region.span();
        let stride = u64::from(region.layout.strides[0]);
        let elements = region.layout.buffer_numel();
        let outer = elements.checked_div(stride).unwrap_or(0);
        let whole = elements.checked_rem(stride) == Some(0);
        let boxed = region.boxed().filter(|b| whole && b[0].last < outer);
        Probe { region, span, boxed, outer }
    }

    /// How it meets `write`; `None` if they are certainly apart.
    pub(super) fn overlap(&self, write: &Region<'_>) -> Option<Overlap> {
        if self.region.version > write.version {
            return Some(Overlap::Other);
        }
        if !self.span.meets(&write.span()) {
            return None;
        }
        let own = self.boxed.as_ref().filter(|_| self.region.layout.array() == write.layout.array());
        let boxes = own.zip(write.boxed()).filter(|(_, write)| write[0].last < self.outer);
        let Some((own, write)) = boxes else {
            return Some(Overlap::Other);
        };
        let mut dims = own.iter().zip(&write).take(usize::from(self.region.layout.ndims));
        if dims.clone().any(|(own, write)| !own.meets(write)) {
            return None;
        }
        Some(if dims.all(|(own, write)| own.contains(write)) { Overlap::Covered } else { Overlap::Other })
    }
}
