//! The two-slot ring in which a core of a5 leaves its counters for AICPU, from both ends.
//!
//! ```text
//!  core:   id ← none │ counters, cycles │ id ← token        AICPU:  id = token? │ copy │ id = token still?
//! ```
//!
//! A slot is valid only while it names the token that AICPU asks for, before and after the copy: what an earlier launch
//! left, what belongs to another task, and what the core is just writing over is none of it. (A core of the reference's
//! does not take the id away first; then only a slot that was finished twice during the copy shows.)

use super::registers::{RegisterFile, counter_offsets, total_cycles};
use crate::abi::DeviceAddr;
use crate::abi::pmu::{AicoreRing, COUNTERS_A5, RING_SLOTS, RecordA5};
use crate::abi::registers::Registers;
use crate::fence;
use crate::sync::{AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};
use core::sync::atomic::fence as order;

const COUNTERS: [u32; COUNTERS_A5] = counter_offsets(&Registers::A5);

/// The id of a slot that holds nobody's counters: no token is this large.
const NOBODY: u64 = u64::MAX;

/// A core's ring, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring(*mut AicoreRing);

impl Ring {
    pub(super) const NONE: Ring = Ring(core::ptr::null_mut());

    /// The ring at `at`, which may be null.
    ///
    /// # Safety
    /// `at` is 0 or an [`AicoreRing`] that outlives every use of this value and is reached through it and its like only.
    pub(super) const unsafe fn new(at: DeviceAddr) -> Ring {
        Ring(at.0 as *mut AicoreRing)
    }

    pub(super) fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// # Safety
    /// There is a ring.
    #[inline(always)]
    unsafe fn slot(self, token: u32) -> *mut RecordA5 {
        // SAFETY: reduced to the ring's slots; no reference is made.
        unsafe { (&raw mut (*self.0).dual_issue_slots).cast::<RecordA5>().add(token as usize % RING_SLOTS) }
    }

    /// The id of `slot`.
    ///
    /// # Safety
    /// `slot` is one of a ring's.
    #[inline(always)]
    unsafe fn id<'a>(slot: *mut RecordA5) -> &'a AtomicU64 {
        // SAFETY: shared words of a ring are reached as atomics only.
        unsafe { AtomicU64::from_ptr(&raw mut (*slot).task_id) }
    }

    /// Forgets what is in the ring.
    pub(super) fn clear(self) {
        if !self.is_none() {
            for token in 0..RING_SLOTS as u32 {
                // SAFETY: there is a ring.
                unsafe { Self::id(self.slot(token)) }.store(NOBODY, Relaxed);
            }
        }
    }

    /// Whether the slot of `token` is that task's.
    ///
    /// # Safety
    /// There is a ring.
    pub(super) unsafe fn holds(self, token: u32) -> bool {
        // SAFETY: there is a ring.
        unsafe { Self::id(self.slot(token)).load(Relaxed) as u32 == token }
    }

    /// Copies what the core left for `token` into `row`, all but what AICPU knows better. `false`: the slot is not
    /// that task's, and the row is no record.
    ///
    /// # Safety
    /// There is a ring, and `row` may be written.
    #[inline(always)]
    pub(super) unsafe fn copy(self, token: u32, row: *mut RecordA5) -> bool {
        // SAFETY: the caller's contract; shared words are reached as atomics only.
        unsafe {
            let slot = self.slot(token);
            let id = Self::id(slot);
            // SYNC POINT: the core's `PmuRecorder::record` published the token after its counters.
            if fence::observe(id) as u32 != token {
                return false;
            }
            let cycles = AtomicU64::from_ptr(&raw mut (*slot).pmu_total_cycles).load(Relaxed);
            (&raw mut (*row).pmu_total_cycles).write(cycles);
            for i in 0..COUNTERS_A5 {
                let counter = AtomicU32::from_ptr(&raw mut (*slot).pmu_counters[i]).load(Relaxed);
                (&raw mut (*row).pmu_counters[i]).write(counter);
            }
            // What was copied was there before this look at the id.
            order(Ordering::Acquire);
            id.load(Relaxed) as u32 == token
        }
    }

    /// Reads the core's counters into the slot of `token`.
    ///
    /// # Safety
    /// There is a ring, and the caller is its only writer.
    #[inline(always)]
    pub(super) unsafe fn fill<R: RegisterFile>(self, token: u32, registers: &R) {
        // SAFETY: the caller's contract; shared words are reached as atomics only.
        unsafe {
            let slot = self.slot(token);
            let id = Self::id(slot);
            id.store(NOBODY, Relaxed);
            // Whoever sees one of the new counters sees that the id is gone.
            order(Ordering::Release);
            for (i, &offset) in COUNTERS.iter().enumerate() {
                AtomicU32::from_ptr(&raw mut (*slot).pmu_counters[i]).store(registers.read(offset), Relaxed);
            }
            let cycles = total_cycles(registers, Registers::A5.pmu_total);
            AtomicU64::from_ptr(&raw mut (*slot).pmu_total_cycles).store(cycles, Relaxed);
            // SYNC POINT: AICPU's `Pmu::complete_record` observes the id.
            fence::publish(id, u64::from(token));
        }
    }
}
