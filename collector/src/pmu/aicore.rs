//! The AICore's own part: it opens and shuts the counters around a kernel, and on a5 leaves them for AICPU.

use super::registers::RegisterFile;
use super::ring::Ring;
use crate::abi::DeviceAddr;
use crate::abi::Platform;
use crate::abi::registers::Registers;
use crate::sync::{AtomicU64, Ordering};

/// The bit of the core's control word that lets its counters count.
const GATE: u32 = 1;

/// One core's PMU, from inside.
#[derive(Debug)]
pub struct PmuRecorder<R> {
    registers: R,
    ctrl: u32,
    ring: Ring,
}

// SAFETY: the ring is the core's, whichever thread plays it; AICPU reads it through atomics.
unsafe impl<R: Send> Send for PmuRecorder<R> {}

impl<R: RegisterFile> PmuRecorder<R> {
    /// A core that only opens and shuts its counters: AICPU reads them (a2a3), or nobody does.
    pub const fn gates(platform: Platform, registers: R) -> Self {
        PmuRecorder { registers, ctrl: Registers::of(platform).ctrl, ring: Ring::NONE }
    }

    /// A core of a5 that also records into the ring at `ring`; none if that is null.
    ///
    /// # Safety
    /// `ring` is 0 or this core's [`AicoreRing`](crate::abi::pmu::AicoreRing), which outlives the recorder; no other
    /// recorder exists for this core.
    pub const unsafe fn new(registers: R, ring: DeviceAddr) -> Self {
        // SAFETY: the caller vouched for the ring.
        PmuRecorder { registers, ctrl: Registers::A5.ctrl, ring: unsafe { Ring::new(ring) } }
    }

    /// A core of a5 whose entry of the ring table is `entry`.
    ///
    /// # Safety
    /// `entry` points to the core's u64 of the ring table, which the host has filled; further as [`new`](Self::new).
    pub unsafe fn attach(registers: R, entry: *const AtomicU64) -> Self {
        // SAFETY: the caller vouched for the entry and for the ring that it names.
        unsafe { Self::new(registers, DeviceAddr((*entry).load(Ordering::Acquire))) }
    }

    /// Before a kernel starts: lets the counters count.
    #[inline(always)]
    pub fn begin(&self) {
        self.registers.write(self.ctrl, self.registers.read(self.ctrl) | GATE);
    }

    /// After it has ended: stops them.
    #[inline(always)]
    pub fn end(&self) {
        self.registers.write(self.ctrl, self.registers.read(self.ctrl) & !GATE);
    }

    /// Leaves the counters of the task with `token` for AICPU, which may be shown the FIN after this (a5; elsewhere it
    /// does nothing).
    #[inline(always)]
    pub fn record(&mut self, token: u32) {
        if !self.ring.is_none() {
            // SAFETY: there is a ring, and this is the core's only recorder.
            unsafe { self.ring.fill(token, &self.registers) }
        }
    }
}
