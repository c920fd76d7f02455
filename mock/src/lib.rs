//! One mock device and one mock host, for the tests, models and benches of every crate.
//!
//! * [`region`]: a chip-swimlane region with its buffers in host memory, as a host would make it;
//! * [`host`]: the host's half of the protocol, written over the engine's own traits ([`LaneMem`] and [`QueueMem`]), so
//!   that a model runs the very same lines over its own cells;
//! * [`drain`]: a host that drains such a region, with knobs: slow, stopped, dead, with little room;
//! * [`clock`]: a scripted clock that counts its reads and runs the host while a producer waits;
//! * [`device`]: cores that follow the register protocol one step at a time, and the AICPU that drives them;
//! * [`rows`]: records that carry their lane and serial number in every field, so that a torn, foreign or repeated one
//!   shows.
//!
//! [`LaneMem`]: dfx_collector::lane::LaneMem
//! [`QueueMem`]: dfx_collector::lane::QueueMem

/// How often a test does something: `full`, or `slow` under an interpreter such as Miri.
pub const fn scaled(full: u32, slow: u32) -> u32 {
    if cfg!(miri) { slow } else { full }
}

pub mod clock;
pub mod device;
pub mod drain;
pub mod host;
pub mod region;
pub mod rows;
