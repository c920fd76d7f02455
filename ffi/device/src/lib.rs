//! The device half as a static library: the collectors behind C functions, one value per process, as the AICPU library
//! that links them is loaded once per process.
//!
//! | module | what it exports | for |
//! |---|---|---|
//! | `dropin` | the 73 names of `exports.txt`, C and C++-mangled | the reference runtime: links in place of its own collector objects |
//! | [`native`] | `dfx_*`, the device half of `dfx.h` | runtimes that are written against us |
//!
//! Both drive the same collectors ([`state`](self)), which live in `dfx-collector`: here is only what a name means, what it
//! remembers between launches, and where its clock, its log and its registers come from.
//!
//! `archive.sh` makes the library out of this crate: one relocatable object without an allocator, an unwinder, or `std`, and
//! without a way from a recording function to a panic (`ci/symbols.sh`, `ci/nostd.sh`). One object, because a runtime may
//! carry weak fallbacks for some of the names, and a weak definition does not pull a member out of an archive: what pulls
//! any of our names has them all.
//!
//! # Calling
//! Every function may be called at any time: what is off or not initialised is a no-op, a number out of range is counted.
//! Per core number and per thread number one call may be under way at a time, none while an init, a reset or a switch of
//! the same feature runs, and the orchestrator's functions belong to one thread: the runtime's own structure.
#![no_std]

mod clock;
mod dropin;
mod log;
mod mem;
pub mod native;
mod registers;
mod state;

/// There is nothing to unwind to and nobody to tell: stop here. No recording function can come here (`ci/nostd.sh`).
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
