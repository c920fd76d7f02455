//! Publication and observation of shared words: the platform's barriers in one place.
//!
//! Rust's orderings cover the threads of one coherent machine. A host across PCIe, or an AICore whose cache is not
//! coherent, is outside them. So a word that hands something over is stored with [`publish`] and read with
//! [`observe`]: release / acquire, and on an onboard aarch64 build (feature `onboard`) a full-system `dsb st` /
//! `dsb ld` besides. Each use carries a `SYNC POINT` comment that names its other half.

use crate::sync::{Ordering, Word};

/// Stores `value` in `word` so that whoever [`observe`]s it also sees everything written before.
#[inline(always)]
pub fn publish<T, W: Word<T>>(word: &W, value: T) {
    barrier_store();
    word.store(value, Ordering::Release);
}

/// Loads `word`; what its writer wrote before [`publish`]ing the value is visible from here on.
#[inline(always)]
pub fn observe<T, W: Word<T>>(word: &W) -> T {
    let value = word.load(Ordering::Acquire);
    barrier_load();
    value
}

/// What was written before stays before what is written after, as one thread runs it: no instruction, only an order for
/// the compiler. For whoever looks when the writer has stopped, at whatever instruction: a device at rest.
#[inline(always)]
pub fn in_order() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

#[inline(always)]
fn barrier_store() {
    #[cfg(all(feature = "onboard", target_arch = "aarch64"))]
    // SAFETY: `dsb st` only orders memory accesses; it reads and writes no register and no memory of ours.
    unsafe {
        core::arch::asm!("dsb st", options(nostack, preserves_flags))
    }
}

#[inline(always)]
fn barrier_load() {
    #[cfg(all(feature = "onboard", target_arch = "aarch64"))]
    // SAFETY: `dsb ld` only orders memory accesses; it reads and writes no register and no memory of ours.
    unsafe {
        core::arch::asm!("dsb ld", options(nostack, preserves_flags))
    }
}
