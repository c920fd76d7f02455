//! How a submit is laid into slots.

use super::Submit;
use crate::abi::dep_gen::{
    MAX_EXPLICIT_DEPS, OVERFLOW_DEPS, OverflowRecord, SubmitRecord, TENSOR_BYTES, flags,
};
use crate::abi::tensor::{MAX_TENSOR_ARGS, Tensor};
use core::ptr;

/// What a caller may say in a submit's flags.
const CALLERS: u32 = flags::IN_MANUAL_SCOPE | flags::EARLY_DISPATCH;

/// Writes `submit`'s own record but for its arguments and dependencies, with `extra` flags. It says `deps`
/// dependencies; the functions below write what the counts promise.
///
/// # Safety
/// `slot` is the lane's to write.
#[inline(always)]
pub(super) unsafe fn write_head(slot: *mut SubmitRecord, submit: &Submit<'_>, deps: usize, extra: u32) {
    // SAFETY: the slot is the lane's (the caller's contract).
    unsafe {
        (&raw mut (*slot).task_id).write(submit.task_id);
        (&raw mut (*slot).flags).write(submit.flags & CALLERS | extra);
        (&raw mut (*slot).tensor_count).write(submit.tensors.len() as u16);
        (&raw mut (*slot).explicit_dep_count).write(deps as u16);
        (&raw mut (*slot).kernel_id).write(*submit.kernel_ids);
        (&raw mut (*slot).block_num).write(submit.block_num.max(1) as u32);
    }
}

/// Writes a record's arguments, as many as its count says: the live bytes of the arrays, and no others.
///
/// # Safety
/// [`write_head`] has written `slot`; its count is at most 32, and at most what may be read at `tensors` and `types`;
/// each tensor is null or points to 128 readable bytes.
#[inline(always)]
pub(super) unsafe fn write_args(slot: *mut SubmitRecord, tensors: *const *const Tensor, types: *const u8) {
    // SAFETY: the caller's contract.
    unsafe {
        let count = (*slot).tensor_count as usize;
        debug_assert!(count <= MAX_TENSOR_ARGS);
        let (to, to_types) = ((&raw mut (*slot).tensors).cast(), (&raw mut (*slot).arg_types).cast());
        Args { tensors, types, to, to_types }.copy_all(count);
    }
}

/// As many dependencies as [`write_few_deps`] writes: for so few, a call of `memcpy` takes too long.
pub(super) const FEW_DEPS: usize = 3;

/// Writes a record's dependencies, at most [`FEW_DEPS`].
///
/// # Safety
/// `slot` may be written; `count` words may be read at `deps`.
#[inline(always)]
pub(super) unsafe fn write_few_deps(slot: *mut SubmitRecord, deps: *const u64, count: usize) {
    // SAFETY: within both (the caller's contract).
    unsafe {
        let to = (&raw mut (*slot).explicit_deps).cast::<u64>();
        if count & 2 != 0 {
            copy::<[u64; 2]>(to, deps);
        }
        if count & 1 != 0 {
            copy::<u64>(to.add(count & 2), deps.add(count & 2));
        }
    }
}

/// Writes a record's dependencies, at most 64.
///
/// # Safety
/// `slot` may be written; `count` words may be read at `deps`.
#[inline(always)]
pub(super) unsafe fn write_deps(slot: *mut SubmitRecord, deps: *const u64, count: usize) {
    debug_assert!(count <= MAX_EXPLICIT_DEPS);
    // SAFETY: within both (the caller's contract).
    unsafe { ptr::copy_nonoverlapping(deps, (&raw mut (*slot).explicit_deps).cast(), count) }
}

/// # Safety
/// A `T` may be read at `from` and written at `to`, at any alignment; they do not overlap.
#[inline(always)]
unsafe fn copy<T: Copy>(to: *mut impl Sized, from: *const impl Sized) {
    // SAFETY: the caller's contract.
    unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) }
}

/// A tensor's bytes, at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Bytes([u128; TENSOR_BYTES / 16]);

/// Stands in for a tensor that is not there.
static NO_TENSOR: Bytes = Bytes([0; TENSOR_BYTES / 16]);

/// Where arguments come from and go to.
#[derive(Clone, Copy)]
struct Args {
    tensors: *const *const Tensor,
    types: *const u8,
    to: *mut Tensor,
    to_types: *mut u8,
}

impl Args {
    /// Copies arguments `i..i + N`.
    ///
    /// # Safety
    /// Each tensor is null or points to 128 readable bytes; the types may be read; all may be written where they go.
    #[inline(always)]
    unsafe fn copy<const N: usize>(self, i: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            copy::<[u8; N]>(self.to_types.add(i), self.types.add(i));
            for i in i..i + N {
                let tensor = self.tensors.add(i).read().cast::<Bytes>();
                let tensor = if tensor.is_null() { &raw const NO_TENSOR } else { tensor };
                copy::<Bytes>(self.to.add(i), tensor);
            }
        }
    }

    /// By fours, and then the rest.
    ///
    /// # Safety
    /// The first `count` arguments may be [copied](Self::copy).
    #[inline(always)]
    unsafe fn copy_all(self, count: usize) {
        let mut i = 0;
        // SAFETY: the caller's contract.
        unsafe {
            while i + 4 <= count {
                self.copy::<4>(i);
                i += 4;
            }
            while i < count {
                self.copy::<1>(i);
                i += 1;
            }
        }
    }
}

/// Writes `submit` with the slots of its chain behind it.
///
/// # Safety
/// `slot` and those behind it that the dependencies need are the lane's; the submit has at most 32 tensors, as many
/// argument types, and its tensors are null or point to 128 readable bytes.
pub(super) unsafe fn write_chain(slot: *mut SubmitRecord, submit: &Submit<'_>, extra: u32) {
    let (own, rest) = submit.deps.split_at_checked(MAX_EXPLICIT_DEPS).unwrap_or((submit.deps, &[]));
    let extra = if rest.is_empty() { extra } else { extra | flags::HAS_OVERFLOW };
    // SAFETY: the caller's contract.
    unsafe {
        write_head(slot, submit, own.len(), extra);
        write_args(slot, submit.tensors.as_ptr(), submit.arg_types.as_ptr());
        write_deps(slot, own.as_ptr(), own.len());
    }
    let mut overflow = slot.cast::<OverflowRecord>();
    let last = rest.len().div_ceil(OVERFLOW_DEPS).wrapping_sub(1);
    for (i, deps) in rest.chunks(OVERFLOW_DEPS).enumerate() {
        // SAFETY: a slot holds either sort of record, and there is one per chunk (the caller's contract).
        unsafe {
            overflow = overflow.add(1);
            (&raw mut (*overflow).task_id).write(submit.task_id);
            let tail = if i == last { flags::LAST_OVERFLOW } else { 0 };
            (&raw mut (*overflow).flags).write(flags::OVERFLOW | tail);
            (&raw mut (*overflow).dep_count).write(deps.len() as u16);
            (&raw mut (*overflow)._pad).write(0);
            ptr::copy_nonoverlapping(deps.as_ptr(), (&raw mut (*overflow).deps).cast(), deps.len());
        }
    }
}
