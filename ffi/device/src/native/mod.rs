//! The device half of `dfx.h`: `dfx_*`, one file per feature.
//!
//! The header is generated from these files one by one, so nothing in them is hidden behind a macro, and what a C reader
//! needs to know stands at each function: units, errors, who owns what, who may call when.

mod dep_gen;
mod device;
mod dump;
mod pmu;
mod scope;
mod swimlane;

pub use dep_gen::*;
pub use device::*;
pub use dump::*;
pub use pmu::*;
pub use scope::*;
pub use swimlane::*;

/// A list as C passes it; empty if it is null.
///
/// # Safety
/// `first` is null or points to `len` elements that nobody writes while the result is used.
unsafe fn list<'a, T>(first: *const T, len: u32) -> &'a [T] {
    if first.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { core::slice::from_raw_parts(first, len as usize) }
}
