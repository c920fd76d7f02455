//! How an argument is laid into its record.

use super::Kind;
use super::gather::packed;
use crate::abi::args_dump::{FLAG_REFERENCE, FLAG_SHED, Info, MAX_FUNC_IDS, Record};
use crate::abi::tensor::{DataType, MAX_DIMS};
use core::mem::offset_of;
use core::ptr;

/// What a record says of its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Payload {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) truncated: bool,
    /// [`FLAG_REFERENCE`], [`FLAG_SHED`], or 0.
    pub(super) flags: u8,
    /// Bytes that were shed.
    pub(super) lost: u64,
}

impl Payload {
    /// Nothing, and nothing was wanted.
    pub(super) const NONE: Payload = Payload { offset: 0, size: 0, truncated: false, flags: 0, lost: 0 };
}

/// What of an argument's description a record must not take over unseen.
#[derive(Clone, Copy)]
pub(super) struct Checked {
    ndims: u8,
    funcs: u8,
    /// 0 for tensors.
    scalar: u64,
}

impl Checked {
    /// Whatever `info` says, within bounds.
    pub(super) fn of(info: &Info) -> Checked {
        Checked {
            ndims: info.ndims.min(MAX_DIMS as u8),
            funcs: info.func_count.clamp(0, MAX_FUNC_IDS as i32) as u8,
            scalar: if info.kind == Kind::Scalar as u8 { info.scalar_value } else { 0 },
        }
    }

    /// A tensor that is within bounds and packed.
    #[inline(always)]
    pub(super) fn packed(info: &Info) -> Option<Checked> {
        packed(info)?;
        Some(Checked { ndims: info.ndims, funcs: Self::funcs(info)?, scalar: 0 })
    }

    /// A scalar that is within bounds.
    #[inline(always)]
    pub(super) fn scalar(info: &Info) -> Option<Checked> {
        if info.kind != Kind::Scalar as u8 || info.ndims != 0 {
            return None;
        }
        Some(Checked { ndims: 0, funcs: Self::funcs(info)?, scalar: info.scalar_value })
    }

    #[inline(always)]
    fn funcs(info: &Info) -> Option<u8> {
        if info.func_count as u32 > MAX_FUNC_IDS as u32 { None } else { Some(info.func_count as u8) }
    }
}

/// Writes the record of `info`; `dims`: with its shape and strides.
///
/// # Safety
/// `slot` is the lane's to write.
#[inline(always)]
pub(super) unsafe fn write(
    slot: *mut Record,
    info: &Info,
    checked: Checked,
    payload: Payload,
    dense: bool,
    dims: bool,
) {
    // Fields that lie side by side are read and written as one word, little-endian as both platforms are, and what has
    // another place in the record is written over it: field by field it costs twice as much.
    // SAFETY: the fields are plain bytes of `info`, side by side as the assertions below say; the pointer is to all of it
    // (one to a field may be used for that field only).
    let (head, tail) = unsafe {
        let bytes = ptr::from_ref(info).cast::<u8>();
        let (head, tail) = (bytes.add(offset_of!(Info, role)), bytes.add(offset_of!(Info, kind)));
        (head.cast::<u64>().read_unaligned(), tail.cast::<u16>().read_unaligned())
    };
    let mask = u16::from(FLAG_REFERENCE | FLAG_SHED) << 8;
    // SAFETY: the words are the record's fields, as the assertions below say; the slot is the lane's.
    unsafe {
        // One after the other, so that few of them are alive at a time.
        let word = slot.cast::<u64>();
        word.write(info.task_id);
        word.add(1).write(head);
        (&raw mut (*slot).ndims).cast::<u16>().write(u16::from(checked.ndims));
        word.add(2).write(u64::from(info.dtype) | u64::from(payload.truncated) << 8 | u64::from(dense) << 16);
        word.add(3).write(payload.offset);
        word.add(4).write(payload.size);
        word.add(5).write(checked.scalar);
        (&raw mut (*slot).kind).cast::<u16>().write(tail & !mask | u16::from(payload.flags) << 8);
        // −1 becomes `NO_FUNC_ID`.
        let [first, second, third] = info.func_ids;
        (&raw mut (*slot).func_ids).write([first as u16, second as u16, third as u16]);
        word.add(7).write(u64::from(checked.funcs));
        word.add(8).write(info.start_offset);
        if dims {
            // All of them: entries from `ndims` on mean nothing to anybody.
            (&raw mut (*slot).strides).write(info.strides);
            (&raw mut (*slot).shapes).write(info.shapes);
        }
    }
}

const _: () = {
    assert!(cfg!(target_endian = "little"));
    assert!(
        offset_of!(Record, role) == 8 && offset_of!(Record, stage) == 9 && offset_of!(Record, ndims) == 10
    );
    assert!(offset_of!(Record, arg_index) == 12 && offset_of!(Record, dtype) == 16);
    assert!(offset_of!(Record, truncated) == 17 && offset_of!(Record, is_contiguous) == 18);
    assert!(offset_of!(Record, payload_offset) == 24 && offset_of!(Record, payload_size) == 32);
    assert!(offset_of!(Record, scalar_value) == 40 && offset_of!(Record, kind) == 48);
    assert!(offset_of!(Record, flags) == 49 && offset_of!(Record, func_ids) == 50);
    assert!(offset_of!(Record, func_count) == 56 && offset_of!(Record, start_offset) == 64);
    assert!(offset_of!(Record, strides) == 72);
    assert!(offset_of!(Info, role) == 8 && offset_of!(Info, stage) == 9 && offset_of!(Info, dtype) == 10);
    assert!(offset_of!(Info, ndims) == 11 && offset_of!(Info, arg_index) == 12);
    assert!(offset_of!(Info, kind) + 1 == offset_of!(Info, flags));
};

/// Whether the elements lie without holes, in order, as far as strides tell: dimensions of one element do not count.
pub(super) fn is_dense(info: &Info) -> bool {
    let mut next = 1u64;
    let mut dims = (info.ndims as usize).min(MAX_DIMS);
    while dims > 0 {
        dims -= 1;
        let (Some(shape), Some(stride)) = (info.shapes.get(dims), info.strides.get(dims)) else { break };
        if u64::from(*stride) != next && *shape != 1 {
            return false;
        }
        next = next.wrapping_mul(u64::from(*shape));
    }
    true
}

/// Whether there are no elements, or they have no bytes: nothing has no holes.
pub(super) fn is_empty(info: &Info) -> bool {
    info.shapes.iter().take(info.ndims as usize).any(|shape| *shape == 0)
        || DataType::bytes_of(info.dtype) == 0
}
