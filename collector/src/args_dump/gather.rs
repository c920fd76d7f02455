//! A tensor's logical bytes, from wherever they lie, one behind the other.
//!
//! A view is first brought to its simplest form: dimensions of one element go, neighbours that abut become one, and an
//! innermost run of 2, 4 or 8 bytes becomes the element. What is left is one copy, rows of runs, a transpose (done in
//! tiles, so that every cache line is used whole), or single elements in steps.

use crate::abi::args_dump::Info;
use crate::abi::tensor::{DataType, MAX_DIMS};
use core::ptr;

/// One dimension: elements, and bytes from one to the next where they lie and where they go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Dim {
    n: usize,
    from: usize,
    to: usize,
}

impl Dim {
    const ONE: Dim = Dim { n: 1, from: 0, to: 0 };
}

/// Elements of a view whose every stride is what the dimensions within it make: they lie without holes, in order. Not all
/// such views look like that, but nearly all do.
#[inline(always)]
pub(super) fn packed(info: &Info) -> Option<u64> {
    let mut dim = info.ndims as usize;
    let mut elements = 1;
    while dim > 0 {
        dim -= 1;
        let stride = u64::from(*info.strides.get(dim)?);
        if stride != elements {
            return None;
        }
        // A stride that is as expected has at most 32 bits: the product has room.
        elements = stride * u64::from(*info.shapes.get(dim)?);
    }
    Some(elements)
}

/// What a record's payload is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// The first element.
    first: *const u8,
    /// The payload in bytes; the largest number when it is more than an address space holds.
    pub(super) bytes: u64,
    /// How the elements lie, unless without holes, in order.
    strided: Option<Strided>,
}

/// Elements of `size` bytes.
#[derive(Clone, Copy, Debug)]
struct Strided {
    size: usize,
    /// Innermost first.
    dims: [Dim; MAX_DIMS],
}

impl View {
    /// The tensor that `info` describes. Five dimensions at most; an element of no known type has no bytes.
    #[inline(always)]
    pub(super) fn of(info: &Info) -> View {
        let size = DataType::bytes_of(info.dtype);
        let start = info.start_offset.wrapping_mul(size);
        let first = info.buffer_addr.wrapping_add(start) as *const u8;
        match packed(info) {
            Some(elements) => View { first, bytes: elements.saturating_mul(size), strided: None },
            None => View::unpacked(info, first, size as usize),
        }
    }

    #[inline(never)]
    fn unpacked(info: &Info, first: *const u8, size: usize) -> View {
        let mut bytes = size as u64;
        let mut dims = [Dim::ONE; MAX_DIMS];
        let mut used = 0;
        for (shape, stride) in
            info.shapes.iter().zip(&info.strides).take((info.ndims as usize).min(MAX_DIMS)).rev()
        {
            let (n, from) = (*shape as usize, (*stride as usize).wrapping_mul(size));
            let to = bytes as usize;
            bytes = bytes.saturating_mul(u64::from(*shape));
            if n == 1 {
                continue;
            }
            if let Some(inner) = dims.get_mut(usize::wrapping_sub(used, 1))
                && inner.n.wrapping_mul(inner.from) == from
            {
                inner.n = inner.n.wrapping_mul(n);
            } else if let Some(next) = dims.get_mut(used) {
                *next = Dim { n, from, to };
                used += 1;
            }
        }
        let dense = used == 0 || (used == 1 && dims[0].from == size) || bytes == 0;
        View { first, bytes, strided: if dense { None } else { Some(Strided { size, dims }.widened()) } }
    }

    /// Whether the elements lie without holes, in order.
    pub(super) fn is_dense(&self) -> bool {
        self.strided.is_none()
    }

    /// Where the first element lies.
    pub(super) fn first(&self) -> *const u8 {
        self.first
    }

    /// Copies the first `limit` bytes of the payload to `to`.
    ///
    /// # Safety
    /// The tensor may be read, `limit` is at most its bytes, and as many may be written at `to`; the two do not overlap.
    pub(super) unsafe fn copy(&self, to: *mut u8, limit: u64) {
        // SAFETY: the caller's contract.
        unsafe {
            match &self.strided {
                None => ptr::copy_nonoverlapping(self.first, to, limit as usize),
                Some(strided) if limit == self.bytes => gather(strided.size, strided.dims, self.first, to),
                Some(strided) => strided.copy_part(self.first, to, limit as usize),
            }
        }
    }
}

impl Strided {
    /// Makes a short innermost run the element.
    fn widened(self) -> Strided {
        let [inner, a, b, c, d] = self.dims;
        let run = inner.n.wrapping_mul(self.size);
        if inner.from == self.size && matches!(run, 2 | 4 | 8) {
            return Strided { size: run, dims: [a, b, c, d, Dim::ONE] };
        }
        self
    }

    /// Whole slices of the outermost dimension, then of the next within the slice that is cut, and so on.
    ///
    /// # Safety
    /// As [`View::copy`].
    #[cold]
    unsafe fn copy_part(&self, mut from: *const u8, mut to: *mut u8, mut left: usize) {
        let mut dims = self.dims;
        for at in (0..MAX_DIMS).rev() {
            let Some(dim) = dims.get_mut(at) else { break };
            let whole = *dim;
            // A dimension of one element has no bytes from one to the next.
            let Some(slices) = left.checked_div(whole.to) else { continue };
            dim.n = slices.min(whole.n);
            let done = dim.n * whole.to;
            // SAFETY: a part of the tensor, and of what may be written (the caller's contract).
            unsafe {
                if dim.n > 0 {
                    gather(self.size, dims, from, to);
                }
                from = from.wrapping_add(slices.min(whole.n) * whole.from);
                to = to.add(done);
            }
            left -= done;
            if let Some(dim) = dims.get_mut(at) {
                *dim = Dim::ONE;
            }
        }
        // SAFETY: less than an element is left, and it is the next one.
        unsafe { ptr::copy_nonoverlapping(from, to, left) }
    }
}

/// # Safety
/// `dims` of elements of `size` bytes may be read from `from` on and written from `to` on.
unsafe fn gather(size: usize, dims: [Dim; MAX_DIMS], from: *const u8, to: *mut u8) {
    // SAFETY: the caller's contract.
    unsafe {
        if dims[0].from == size {
            return runs(dims, dims[0].n * size, from, to);
        }
        match size {
            1 => elements::<u8>(dims, from, to),
            2 => elements::<u16>(dims, from, to),
            4 => elements::<u32>(dims, from, to),
            _ => elements::<u64>(dims, from, to),
        }
    }
}

/// Calls `each` for every index of the three outer dimensions.
///
/// # Safety
/// All of it may be read from `from` on and written from `to` on.
#[inline(always)]
unsafe fn outer([a, b, c]: [Dim; 3], from: *const u8, to: *mut u8, mut each: impl FnMut(*const u8, *mut u8)) {
    for k in 0..c.n {
        for j in 0..b.n {
            let mut at = (from.wrapping_add(k * c.from + j * b.from), to.wrapping_add(k * c.to + j * b.to));
            for _ in 0..a.n {
                each(at.0, at.1);
                at = (at.0.wrapping_add(a.from), at.1.wrapping_add(a.to));
            }
        }
    }
}

/// Rows of `run` bytes.
///
/// # Safety
/// As [`gather`].
unsafe fn runs([_, rows, a, b, c]: [Dim; MAX_DIMS], run: usize, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's contract.
    unsafe {
        outer([a, b, c], from, to, |mut from, mut to| {
            if run > 64 {
                for _ in 0..rows.n {
                    ptr::copy_nonoverlapping(from, to, run);
                    (from, to) = (from.wrapping_add(rows.from), to.wrapping_add(rows.to));
                }
            } else {
                for _ in 0..rows.n {
                    short(from, to, run);
                    (from, to) = (from.wrapping_add(rows.from), to.wrapping_add(rows.to));
                }
            }
        });
    }
}

/// Copies at most 64 bytes, without a call: from both ends, with an overlap.
///
/// # Safety
/// `len` bytes may be read and written.
#[inline(always)]
unsafe fn short(from: *const u8, to: *mut u8, len: usize) {
    #[inline(always)]
    unsafe fn ends<T: Copy>(from: *const u8, to: *mut u8, len: usize) {
        let last = len - size_of::<T>();
        // SAFETY: there are as many bytes as a `T` has (the caller's contract).
        unsafe {
            let (head, tail) =
                (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
            to.cast::<T>().write_unaligned(head);
            to.add(last).cast::<T>().write_unaligned(tail);
        }
    }
    // SAFETY: the caller's contract, and the lengths that are asked for.
    unsafe {
        match len {
            32.. => ends::<[u128; 2]>(from, to, len),
            16.. => ends::<u128>(from, to, len),
            8.. => ends::<u64>(from, to, len),
            4.. => ends::<u32>(from, to, len),
            2.. => ends::<u16>(from, to, len),
            1 => to.write(from.read()),
            0 => (),
        }
    }
}

/// Elements of which no two lie side by side in the innermost dimension.
///
/// # Safety
/// As [`gather`].
unsafe fn elements<T: Copy>(dims: [Dim; MAX_DIMS], from: *const u8, to: *mut u8) {
    let [inner, a, b, c, d] = dims;
    let unit = size_of::<T>();
    // The dimension along which elements lie side by side, if there is one, and the others.
    let [rows, rest @ ..] = if a.from == unit {
        [a, b, c, d]
    } else if b.from == unit {
        [b, a, c, d]
    } else if c.from == unit {
        [c, a, b, d]
    } else if d.from == unit {
        [d, a, b, c]
    } else {
        // SAFETY: the caller's contract.
        return unsafe { lines::<T>(&dims, from, to) };
    };
    // SAFETY: the caller's contract.
    unsafe { transposes::<T>(&[inner, rows], &rest, from, to) }
}

/// One line after the other. Apart, as is [`transposes`]: otherwise there is a copy of it for each way that leads here.
///
/// # Safety
/// As [`gather`].
#[inline(never)]
unsafe fn lines<T: Copy>(&[inner, a, b, c, d]: &[Dim; MAX_DIMS], from: *const u8, to: *mut u8) {
    // SAFETY: the caller's contract.
    unsafe {
        outer([b, c, d], from, to, |mut from, mut to| {
            for _ in 0..a.n {
                line::<T>(inner, from, to);
                (from, to) = (from.wrapping_add(a.from), to.wrapping_add(a.to));
            }
        });
    }
}

/// One transpose after the other.
///
/// # Safety
/// As [`gather`].
#[inline(never)]
unsafe fn transposes<T: Copy>(&[inner, rows]: &[Dim; 2], rest: &[Dim; 3], from: *const u8, to: *mut u8) {
    // SAFETY: the caller's contract.
    unsafe { outer(*rest, from, to, |from, to| transpose::<T>(rows, inner, from, to)) }
}

/// One element after the other.
///
/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn line<T: Copy>(dim: Dim, from: *const u8, to: *mut u8) {
    let (mut from, mut to, step) = (from, to.cast::<T>(), dim.from);
    // SAFETY: the caller's contract.
    unsafe {
        for _ in 0..dim.n / 8 {
            for i in 0..8 {
                to.add(i).write_unaligned(from.wrapping_add(i * step).cast::<T>().read_unaligned());
            }
            (from, to) = (from.wrapping_add(8 * step), to.add(8));
        }
        for i in 0..dim.n % 8 {
            to.add(i).write_unaligned(from.wrapping_add(i * step).cast::<T>().read_unaligned());
        }
    }
}

/// Rows that lie as columns: elements of one row are `columns.from` apart, those of one column side by side.
///
/// # Safety
/// As [`gather`].
unsafe fn transpose<T: Copy>(rows: Dim, columns: Dim, from: *const u8, to: *mut u8) {
    const SIDE: usize = 8;
    let unit = size_of::<T>();
    let (mut from, mut to) = (from, to);
    // SAFETY: the caller's contract.
    unsafe {
        for _ in 0..rows.n / SIDE {
            let (mut column, mut at) = (from, to);
            for _ in 0..columns.n / SIDE {
                tile::<T>(column, columns.from, at, rows.to);
                (column, at) = (column.wrapping_add(SIDE * columns.from), at.wrapping_add(SIDE * unit));
            }
            for _ in 0..columns.n % SIDE {
                let side = column.cast::<[T; SIDE]>().read_unaligned();
                let mut row = at;
                for element in side {
                    row.cast::<T>().write_unaligned(element);
                    row = row.wrapping_add(rows.to);
                }
                (column, at) = (column.wrapping_add(columns.from), at.wrapping_add(unit));
            }
            (from, to) = (from.wrapping_add(SIDE * unit), to.wrapping_add(SIDE * rows.to));
        }
        let one = [columns, Dim::ONE, Dim::ONE, Dim::ONE, Dim::ONE];
        for _ in 0..rows.n % SIDE {
            lines::<T>(&one, from, to);
            (from, to) = (from.wrapping_add(unit), to.wrapping_add(rows.to));
        }
    }
}

/// Eight columns of eight elements, `from_step` apart, as eight rows, `to_step` apart.
///
/// # Safety
/// As [`gather`].
#[inline(never)]
unsafe fn tile<T: Copy>(from: *const u8, from_step: usize, to: *mut u8, to_step: usize) {
    let (mut from, mut to) = (from, to);
    let [second, third, fifth] = [1, 2, 4].map(|n| n * from_step);
    // SAFETY: the caller's contract.
    unsafe {
        for _ in 0..8 {
            // Written out: a device library is built for size, and this is most of a transpose.
            let (at, row) = (|offset| from.wrapping_add(offset).cast::<T>(), to.cast::<T>());
            row.write_unaligned(at(0).read_unaligned());
            row.add(1).write_unaligned(at(second).read_unaligned());
            row.add(2).write_unaligned(at(third).read_unaligned());
            row.add(3).write_unaligned(at(second + third).read_unaligned());
            row.add(4).write_unaligned(at(fifth).read_unaligned());
            row.add(5).write_unaligned(at(fifth + second).read_unaligned());
            row.add(6).write_unaligned(at(fifth + third).read_unaligned());
            row.add(7).write_unaligned(at(fifth + third + second).read_unaligned());
            (from, to) = (from.wrapping_add(size_of::<T>()), to.wrapping_add(to_step));
        }
    }
}
