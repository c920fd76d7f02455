//! The heap's offsets, unrolled to bytes that only grow.

use crate::abi::scope_stats::{HeapSide, RINGS};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// What the wraps of a ring's heap come to. The last ring stands for those that do not exist, and never wraps.
pub(super) struct Heap {
    caps: [AtomicU64; RINGS],
    /// Wraps by [`HeapSide`].
    wraps: [[AtomicU64; RINGS]; 2],
    /// Wraps × capacity, in bytes.
    bytes: [[AtomicU64; RINGS + 1]; 2],
}

impl Heap {
    pub(super) const fn new() -> Heap {
        Heap {
            caps: [const { AtomicU64::new(0) }; RINGS],
            wraps: [const { [const { AtomicU64::new(0) }; RINGS] }; 2],
            bytes: [const { [const { AtomicU64::new(0) }; RINGS + 1] }; 2],
        }
    }

    pub(super) fn reset(&self) {
        for word in self.caps.iter().chain(self.wraps.as_flattened()).chain(self.bytes.as_flattened()) {
            word.store(0, Relaxed);
        }
    }

    /// Sets a ring's capacity, if the ring exists.
    pub(super) fn resize(&self, ring: usize, bytes: u64) {
        let Some(cap) = self.caps.get(ring) else { return };
        cap.store(bytes, Relaxed);
        for (wraps, sum) in self.wraps.iter().zip(&self.bytes) {
            if let (Some(wraps), Some(sum)) = (wraps.get(ring), sum.get(ring)) {
                sum.store(wraps.load(Relaxed).wrapping_mul(bytes), Relaxed);
            }
        }
    }

    /// Counts a wrap, if the ring exists.
    pub(super) fn wrap(&self, side: HeapSide, ring: i32) {
        let Ok(ring) = usize::try_from(ring) else { return };
        let (wraps, bytes) = (&self.wraps[side as usize], &self.bytes[side as usize]);
        if let (Some(wraps), Some(bytes), Some(cap)) = (wraps.get(ring), bytes.get(ring), self.caps.get(ring))
        {
            wraps.fetch_add(1, Relaxed);
            bytes.fetch_add(cap.load(Relaxed), Relaxed);
        }
    }

    /// What to add to a pointer of that ring.
    #[inline(always)]
    pub(super) fn unroll(&self, side: HeapSide, ring: i32) -> u64 {
        let ring = (ring as u32).min(RINGS as u32) as usize;
        self.bytes[side as usize][ring].load(Relaxed)
    }
}
