//! A core's registers, as the PMU needs them.

use crate::abi::DeviceAddr;
use crate::abi::registers::Registers;
use crate::sync::{AtomicU32, Ordering};

/// The registers of one core: memory-mapped on a board, simulated elsewhere. Offsets are bytes from the core's base, as
/// [`Registers`] lists them; an offset that the file lacks reads as 0 and ignores writes.
pub trait RegisterFile {
    /// Reads a register. Reading a counter clears it.
    fn read(&self, offset: u32) -> u32;
    /// Writes a register.
    fn write(&self, offset: u32, value: u32);
}

impl<T: RegisterFile + ?Sized> RegisterFile for &T {
    #[inline(always)]
    fn read(&self, offset: u32) -> u32 {
        (**self).read(offset)
    }
    #[inline(always)]
    fn write(&self, offset: u32, value: u32) {
        (**self).write(offset, value);
    }
}

/// Memory-mapped registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mmio(DeviceAddr);

impl Mmio {
    /// The registers at `base`; `None` when it is 0, as it is for a core that the runtime has no registers of.
    ///
    /// # Safety
    /// `base` is 0 or maps a core's registers, every offset of the platform's [`Registers`], for as long as this value
    /// is used.
    pub const unsafe fn new(base: DeviceAddr) -> Option<Mmio> {
        if base.is_null() { None } else { Some(Mmio(base)) }
    }

    #[inline(always)]
    const fn at(&self, offset: u32) -> *mut u32 {
        self.0.offset(offset as u64).0 as *mut u32
    }
}

impl RegisterFile for Mmio {
    #[inline(always)]
    fn read(&self, offset: u32) -> u32 {
        // SAFETY: `new`'s caller vouched for the mapping. Volatile: a read has effects.
        unsafe { self.at(offset).read_volatile() }
    }
    #[inline(always)]
    fn write(&self, offset: u32, value: u32) {
        // SAFETY: as above; device registers are written in order, after everything before.
        unsafe { AtomicU32::from_ptr(self.at(offset)) }.store(value, Ordering::Release);
    }
}

/// The first `N` counters' offsets, so that the hot path knows them at compile time.
pub(super) const fn counter_offsets<const N: usize>(registers: &Registers) -> [u32; N] {
    let (mut offsets, mut i) = ([0; N], 0);
    assert!(registers.pmu_counters.len() == N);
    while i < N {
        offsets[i] = registers.pmu_counters[i];
        i += 1;
    }
    offsets
}

/// Reads the cycle count, low half first.
#[inline(always)]
pub(super) fn total_cycles<R: RegisterFile>(registers: &R, offsets: [u32; 2]) -> u64 {
    let low = registers.read(offsets[0]);
    u64::from(low) | u64::from(registers.read(offsets[1])) << 32
}

/// Registers that turn the PMU on, at most; a5 has two.
const CONTROLS: usize = 2;

/// What the control registers held before [`program`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved([u32; CONTROLS]);

/// Selects what the counters count, clears them, counts from the first cycle to the last, and turns the PMU on.
pub(super) fn program<R: RegisterFile>(
    core: &R,
    registers: &Registers,
    events: impl Iterator<Item = u32>,
) -> Saved {
    for (&selector, event) in registers.pmu_selectors.iter().zip(events) {
        core.write(selector, event);
    }
    for &counter in registers.pmu_counters.iter().chain(&registers.pmu_total) {
        core.read(counter);
    }
    for offset in registers.pmu_start {
        core.write(offset, 0);
    }
    for offset in registers.pmu_stop {
        core.write(offset, u32::MAX);
    }
    let mut saved = Saved([0; CONTROLS]);
    for (control, saved) in registers.pmu_ctrl.iter().zip(&mut saved.0) {
        *saved = core.read(control.offset);
    }
    for control in registers.pmu_ctrl {
        core.write(control.offset, control.enable);
    }
    saved
}

/// Puts back what [`program`] found in the control registers.
pub(super) fn restore<R: RegisterFile>(core: &R, registers: &Registers, saved: Saved) {
    for (control, saved) in registers.pmu_ctrl.iter().zip(saved.0) {
        core.write(control.offset, saved);
    }
}

const _: () = assert!(Registers::A2A3.pmu_ctrl.len() <= CONTROLS && Registers::A5.pmu_ctrl.len() <= CONTROLS);
