//! The device side of pto-dfx: the shared-memory ABI and the producers that record into it.
//!
//! Runs on the AICPU (aarch64 Linux), in the simulator, and behind the C ABI. No `std`, no allocation, no lock, and
//! no panic on a record path. What is here, from the bottom up:
//!
//! * [`abi`]: the layouts, constants and enums of the five shared regions, the specification that compiles;
//! * [`sync`] and [`fence`]: the one way to shared words, so that models can take the place of memory;
//! * [`clock`]: where time stamps come from, and how a waiting producer gives way;
//! * [`stall`]: how long a producer may wait, and when it stops believing in its host;
//! * [`lane`]: the engine: free-queue pop, ready-queue push, rotation, accounting;
//! * [`swimlane`]: the chip swimlane's recorders for AICPU and AICore;
//! * [`dep_gen`]: every submit and the dependencies it named;
//! * [`pmu`]: the hardware counters, task by task;
//! * [`args_dump`]: what tasks were called with, as records and bytes;
//! * [`scope_stats`]: how full the runtime's resources are when scopes begin and end.
#![no_std]

pub mod abi;
pub mod args_dump;
pub mod clock;
pub mod dep_gen;
pub mod fence;
pub mod lane;
mod lanes;
pub mod pmu;
pub mod scope_stats;
pub mod stall;
pub mod swimlane;
pub mod sync;
