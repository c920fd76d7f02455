//! What each tensor held when it was last dumped, so that it need not be sent again.
//!
//! Content is compared by a 128-bit hash (XXH3, block by block). A dense tensor is hashed while it is copied, so each byte
//! comes from memory once. The table forgets: a tensor that it has no place for is sent again, nothing else.

use super::gather::View;
use crate::abi::args_dump::Info;
use core::slice;
use xxhash_rust::xxh3::xxh3_128;

/// Tensors that a thread remembers (few under Miri, which is to see them forgotten).
const PLACES: usize = if cfg!(miri) { 1 << 6 } else { 1 << 12 };
/// Places that a tensor may take.
const PROBES: usize = 4;
/// Bytes that are copied and hashed in turn: they stay in the first cache.
const BLOCK: usize = if cfg!(miri) { 512 } else { 8192 };

/// A payload that is whole and in the arena, or was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    /// Of the tensor's [`key`]; 0 when there is none.
    key: u64,
    hash: [u64; 2],
    /// Where the payload is, as its record says.
    pub(super) offset: u64,
    size: u64,
}

impl Seen {
    const NONE: Seen = Seen { key: 0, hash: [0; 2], offset: 0, size: 0 };

    pub(super) fn new(key: u64, hash: u128, offset: u64, size: u64) -> Seen {
        Seen { key, hash: [hash as u64, (hash >> 64) as u64], offset, size }
    }

    /// The payload in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether `hash` is that of the payload, and it has `size` bytes.
    pub(super) fn holds(&self, hash: u128, size: u64) -> bool {
        self.size == size && self.hash == [hash as u64, (hash >> 64) as u64]
    }
}

/// One thread's memory; all zero when it is empty.
pub(super) struct Table {
    places: [Seen; PLACES],
    used: bool,
}

impl Table {
    pub(super) const NEW: Table = Table { places: [Seen::NONE; PLACES], used: false };

    pub(super) fn clear(&mut self) {
        if self.used {
            self.places.fill(Seen::NONE);
            self.used = false;
        }
    }

    fn places(&mut self, key: u64) -> &mut [Seen] {
        let first = (key >> 32) as usize % (PLACES - PROBES);
        self.places.get_mut(first..first + PROBES).unwrap_or_default()
    }

    /// The last whole dump of the tensor with `key`.
    pub(super) fn find(&mut self, key: u64) -> Option<Seen> {
        self.places(key).iter().find(|seen| seen.key == key).copied()
    }

    /// Remembers `seen`, in place of what was known of the same tensor, or else in a free place, or else in the place of
    /// the oldest.
    pub(super) fn put(&mut self, seen: Seen) {
        self.used = true;
        let places = self.places(seen.key);
        let same = places.iter().position(|place| place.key == seen.key);
        let free = || places.iter().position(|place| place.key == 0);
        let oldest = || places.iter().enumerate().min_by_key(|(_, place)| place.offset).map(|(at, _)| at);
        if let Some(place) = same.or_else(free).or_else(oldest).and_then(|at| places.get_mut(at)) {
            *place = seen;
        }
    }
}

/// A number for the tensor that `info` describes: its address, start, shape, strides and type. Two tensors may share one;
/// then they only forget each other, because the content decides.
pub(super) fn key(info: &Info) -> u64 {
    let mix = |sum: u64, word: u64| {
        let sum = (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        sum ^ sum >> 32
    };
    let mut sum = mix(u64::from(info.dtype) << 8 | u64::from(info.ndims), info.buffer_addr);
    sum = mix(sum, info.start_offset);
    for (shape, stride) in info.shapes.iter().zip(&info.strides).take(info.ndims as usize) {
        sum = mix(sum, u64::from(*shape) << 32 | u64::from(*stride));
    }
    sum | 1
}

/// Copies the whole of `view` to `to`, and says what its hash is.
///
/// # Safety
/// As [`View::copy`], for all its bytes.
pub(super) unsafe fn copy(view: &View, to: *mut u8) -> u128 {
    let len = view.bytes as usize;
    // SAFETY: the caller's contract; what is hashed has just been written.
    unsafe {
        if !view.is_dense() {
            view.copy(to, view.bytes);
            return hash_of(slice::from_raw_parts(to, len));
        }
        let mut sum = 0;
        let mut at = 0;
        while at < len {
            let block = BLOCK.min(len - at);
            core::ptr::copy_nonoverlapping(view.first().add(at), to.add(at), block);
            sum = add(sum, slice::from_raw_parts(to.add(at), block));
            at += block;
        }
        sum
    }
}

/// The hash of a dense tensor, without a copy.
///
/// # Safety
/// `view` is dense, and may be read.
pub(super) unsafe fn hash(view: &View) -> u128 {
    // SAFETY: the caller's contract.
    hash_of(unsafe { slice::from_raw_parts(view.first(), view.bytes as usize) })
}

fn hash_of(bytes: &[u8]) -> u128 {
    bytes.chunks(BLOCK).fold(0, add)
}

/// The hash of what `sum` is the hash of, and of a further block. Nothing else hashes, and not as a stream: that is several
/// times the code, of which a device library has only so much.
#[inline(never)]
fn add(sum: u128, block: &[u8]) -> u128 {
    let block = xxh3_128(block);
    if sum == 0 {
        return block;
    }
    let mut both = [0; 32];
    let (first, second) = both.split_at_mut(16);
    first.copy_from_slice(&sum.to_le_bytes());
    second.copy_from_slice(&block.to_le_bytes());
    xxh3_128(&both)
}
