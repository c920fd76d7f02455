//! Where the device's time stamps come from: a counter of the runtime's, or the processor's own, scaled to platform ticks.

use crate::state::GEOMETRY;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};
use dfx_collector::clock::Clock;

/// A counter, in ticks of the platform.
pub(crate) type Counter = unsafe extern "C" fn() -> u64;
/// What is called between two looks of a waiting collector.
pub(crate) type Relax = unsafe extern "C" fn();

static COUNTER: AtomicPtr<()> = AtomicPtr::new(null_mut());
static RELAX: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// The clock of all collectors. Read where something waits and once per init: never on a hot path.
pub(crate) struct DeviceClock;

impl Clock for DeviceClock {
    fn now(&self) -> u64 {
        let counter = COUNTER.load(Relaxed);
        if counter.is_null() {
            return 0;
        }
        // SAFETY: only `set` stores here, and it stores a `Counter`.
        unsafe { core::mem::transmute::<*mut (), Counter>(counter)() }
    }

    fn relax(&self) {
        let relax = RELAX.load(Relaxed);
        if relax.is_null() {
            core::hint::spin_loop();
        } else {
            // SAFETY: only `set` stores here, and it stores a `Relax`.
            unsafe { core::mem::transmute::<*mut (), Relax>(relax)() }
        }
    }
}

/// Sets the counter, and what a wait calls between two looks (a spin hint if nothing).
pub(crate) fn set(counter: Option<Counter>, relax: Option<Relax>) {
    COUNTER.store(counter.map_or(null_mut(), |f| f as *mut ()), Relaxed);
    RELAX.store(relax.map_or(null_mut(), |f| f as *mut ()), Relaxed);
}

/// Whether there is a counter. Without one no wait would end, so nothing may be initialised.
pub(crate) fn is_set() -> bool {
    !COUNTER.load(Relaxed).is_null()
}

/// Platform ticks per tick of the processor's counter, times 2³².
static SCALE: AtomicU64 = AtomicU64::new(0);

/// Takes the processor's own counter, which runs at `hz`, or at what the processor says if that is 0. `false`: it does not
/// say, and nothing has changed.
pub(crate) fn set_built_in(hz: u64, relax: Option<Relax>) -> bool {
    let hz = if hz == 0 { raw::hz() } else { hz };
    let Some(scale) = (GEOMETRY.clock_hz << 32).checked_div(hz) else { return false };
    SCALE.store(scale, Relaxed);
    set(Some(built_in), relax);
    true
}

/// The processor's counter in platform ticks: one multiplication and a shift.
extern "C" fn built_in() -> u64 {
    ((u128::from(raw::ticks()) * u128::from(SCALE.load(Relaxed))) >> 32) as u64
}

#[cfg(target_arch = "aarch64")]
mod raw {
    use core::arch::asm;

    /// `CNTVCT_EL0`.
    pub(super) fn ticks() -> u64 {
        let ticks: u64;
        // SAFETY: reads a counter; Linux lets user space do so.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    /// `CNTFRQ_EL0`.
    pub(super) fn hz() -> u64 {
        let hz: u64;
        // SAFETY: as above.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
        hz
    }
}

#[cfg(target_arch = "x86_64")]
mod raw {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    /// The time stamp counter.
    pub(super) fn ticks() -> u64 {
        // SAFETY: every x86-64 has it.
        unsafe { _rdtsc() }
    }

    /// Its rate by `CPUID`: leaf 0x15 (crystal × ratio), else the base frequency of leaf 0x16; 0 where neither tells.
    pub(super) fn hz() -> u64 {
        let last = __cpuid(0).eax;
        if last >= 0x15 {
            let leaf = __cpuid(0x15);
            let hz = (u64::from(leaf.ecx) * u64::from(leaf.ebx)).checked_div(u64::from(leaf.eax));
            if let Some(hz @ 1..) = hz {
                return hz;
            }
        }
        if last >= 0x16 { u64::from(__cpuid(0x16).eax & 0xFFFF) * 1_000_000 } else { 0 }
    }
}
