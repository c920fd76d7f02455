//! How an argument is laid into its record.

use super::Kind;
use crate::abi::args_dump::{FLAG_REFERENCE, FLAG_SHED, Info, MAX_FUNC_IDS, Record};
use crate::abi::tensor::{DataType, MAX_DIMS};

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

/// Writes the record of `info`.
///
/// # Safety
/// `slot` is the lane's to write.
#[inline(always)]
pub(super) unsafe fn write(slot: *mut Record, info: &Info, payload: Payload, dense: bool) {
    let tensor = info.kind != Kind::Scalar as u8;
    let flags = info.flags & !(FLAG_REFERENCE | FLAG_SHED) | payload.flags;
    // SAFETY: the caller's contract.
    unsafe {
        (&raw mut (*slot).task_id).write(info.task_id);
        (&raw mut (*slot).role).write(info.role);
        (&raw mut (*slot).stage).write(info.stage);
        (&raw mut (*slot).ndims).write(info.ndims.min(MAX_DIMS as u8));
        (&raw mut (*slot)._pad0).write(0);
        (&raw mut (*slot).arg_index).write(info.arg_index);
        (&raw mut (*slot).dtype).write(info.dtype);
        (&raw mut (*slot).truncated).write(u8::from(payload.truncated));
        (&raw mut (*slot).is_contiguous).write(u8::from(dense));
        (&raw mut (*slot)._pad1).write([0; 5]);
        (&raw mut (*slot).payload_offset).write(payload.offset);
        (&raw mut (*slot).payload_size).write(payload.size);
        (&raw mut (*slot).scalar_value).write(if tensor { 0 } else { info.scalar_value });
        (&raw mut (*slot).kind).write(info.kind);
        (&raw mut (*slot).flags).write(flags);
        // −1 becomes `NO_FUNC_ID`.
        (&raw mut (*slot).func_ids).write(info.func_ids.map(|id| id as u16));
        (&raw mut (*slot).func_count).write(info.func_count.clamp(0, MAX_FUNC_IDS as i32) as u8);
        (&raw mut (*slot)._pad2).write([0; 7]);
        (&raw mut (*slot).start_offset).write(info.start_offset);
        if info.ndims != 0 {
            // All of them: entries from `ndims` on mean nothing to anybody.
            (&raw mut (*slot).strides).write(info.strides);
            (&raw mut (*slot).shapes).write(info.shapes);
        }
    }
}

/// Whether the elements lie without holes, in order: dimensions of one element do not count, and nothing has no holes.
#[inline(always)]
pub(super) fn is_dense(info: &Info) -> bool {
    let (mut next, mut dense) = (1u64, true);
    for (shape, stride) in
        info.shapes.iter().zip(&info.strides).take((info.ndims as usize).min(MAX_DIMS)).rev()
    {
        dense &= u64::from(*stride) == next || *shape == 1;
        next = next.wrapping_mul(u64::from(*shape));
    }
    dense || next == 0 || DataType::bytes_of(info.dtype) == 0
}
