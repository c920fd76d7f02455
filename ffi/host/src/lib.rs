//! The host half of pto-dfx as C sees it: `dfx.h` is generated from these files, and from the device half's.
//!
//! Every exported function is thin: it checks what C gave it, does one thing with the engine ([`dfx_host_drain`]), and says
//! how that went. Four rules hold for all of them. Nothing unwinds into the caller (`status`). Handles are numbers that
//! are checked, never pointers that are followed (`handle`). A failed call has a message, kept for the thread that made
//! it. And what C may get wrong (null, a number out of range, a step out of turn, a handle that is gone) is an error, not
//! a crash.
//!
//! A caller that orders its steps, one session for all features or one for each:
//!
//! ```text
//! config_create ─▶ set_… ─▶ session_create ─▶ regions ─▶ start ─▶ (the device runs)
//!                                                                   │
//!            destroy ◀─ release ◀─ export ◀─ reconcile ◀─ stop ◀────┘
//! ```

#![allow(non_camel_case_types)] // the names are C's

mod account;
mod board;
mod config;
mod env;
mod handle;
mod log;
mod memory;
mod output;
mod program;
mod session;
mod status;
mod threads;

pub use account::*;
pub use board::*;
pub use config::*;
pub use handle::*;
pub use log::*;
pub use memory::*;
pub use program::*;
pub use session::*;
pub use status::*;
pub use threads::*;

// A handle is a slot and a generation in the bits of a pointer.
const _: () = assert!(usize::BITS == 64, "libdfx wants a 64-bit host");
