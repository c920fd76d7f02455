//! How a submit is laid into slots.

use super::Submit;
use crate::abi::dep_gen::{MAX_EXPLICIT_DEPS, OVERFLOW_DEPS, OverflowRecord, SubmitRecord, TENSOR_BYTES, flags};
use crate::abi::tensor::{MAX_TENSOR_ARGS, Tensor};
use core::ptr;

/// What a caller may say in a submit's flags.
const CALLERS: u32 = flags::IN_MANUAL_SCOPE | flags::EARLY_DISPATCH;

/// Writes the live bytes of `submit`'s own record, with the first `deps` of its dependencies and `extra` flags.
///
/// # Safety
/// `slot` is the lane's to write; `deps` is at most the submit's and at most 64; the submit has at most 32 tensors, as
/// many argument types, and its tensors are null or point to 128 readable bytes.
#[inline(always)]
pub(super) unsafe fn write_submit(slot: *mut SubmitRecord, submit: &Submit<'_>, deps: usize, extra: u32) {
    let tensors = submit.tensors.len();
    debug_assert!(deps <= MAX_EXPLICIT_DEPS && deps <= submit.deps.len());
    debug_assert!(tensors <= MAX_TENSOR_ARGS && submit.arg_types.len() >= tensors);
    // SAFETY: the slot is the lane's, and the counts are within its arrays (the caller's contract).
    unsafe {
        (&raw mut (*slot).task_id).write(submit.task_id);
        (&raw mut (*slot).flags).write(submit.flags & CALLERS | extra);
        (&raw mut (*slot).tensor_count).write(tensors as u16);
        (&raw mut (*slot).explicit_dep_count).write(deps as u16);
        (&raw mut (*slot).kernel_id).write(submit.kernel_ids);
        (&raw mut (*slot).block_num).write(submit.block_num.max(1) as u32);
        copy_deps((&raw mut (*slot).explicit_deps).cast(), submit.deps.as_ptr(), deps);
        let (to, types) = ((&raw mut (*slot).tensors).cast(), (&raw mut (*slot).arg_types).cast());
        copy_args(to, types, submit.tensors.as_ptr(), submit.arg_types.as_ptr(), tensors);
    }
}

/// A loop instead of a call of `memcpy`: a submit names a handful of dependencies.
///
/// # Safety
/// `count` words may be read at `from` and written at `to`; they do not overlap.
#[inline(always)]
unsafe fn copy_deps(to: *mut u64, from: *const u64, count: usize) {
    let mut i = 0;
    while i < count {
        // SAFETY: within both (the caller's contract). Volatile, so that it stays a loop.
        unsafe { to.add(i).write_volatile(from.add(i).read()) };
        i += 1;
    }
}

/// A tensor's bytes, at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Bytes([u128; TENSOR_BYTES / 16]);

/// # Safety
/// `count` elements may be read at `tensors` and `from_types` and written at `to` and `to_types`; each tensor is null or
/// points to 128 readable bytes that lie elsewhere.
#[inline(always)]
unsafe fn copy_args(
    to: *mut Tensor,
    to_types: *mut u8,
    tensors: *const *const Tensor,
    from_types: *const u8,
    count: usize,
) {
    let mut i = 0;
    while i < count {
        // SAFETY: within all four (the caller's contract).
        unsafe {
            to_types.add(i).write_volatile(from_types.add(i).read());
            let tensor = tensors.add(i).read().cast::<Bytes>();
            let to = to.add(i).cast::<Bytes>();
            if tensor.is_null() {
                ptr::write_bytes(to, 0, 1);
            } else {
                *to = *tensor;
            }
        }
        i += 1;
    }
}

/// Writes `submit` with the slots of its chain behind it.
///
/// # Safety
/// As [`write_submit`], but for any number of dependencies: the slots from `slot` on that they need are the lane's.
pub(super) unsafe fn write_chain(slot: *mut SubmitRecord, submit: &Submit<'_>, extra: u32) {
    let (own, rest) = submit.deps.split_at_checked(MAX_EXPLICIT_DEPS).unwrap_or((submit.deps, &[]));
    let extra = if rest.is_empty() { extra } else { extra | flags::HAS_OVERFLOW };
    // SAFETY: the caller's contract.
    unsafe { write_submit(slot, submit, own.len(), extra) };
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
