//! How long the runtime waits before it gives up: what our own waits must stay below.

use super::platform::{Geometry, Platform};

/// `PLATFORM_OP_EXECUTE_TIMEOUT_US`: the hardware watchdog kills an AICPU kernel after this time, in µs.
pub const OP_EXECUTE_US: u64 = 45_000_000;
/// `PLATFORM_ONBOARD_SCHEDULER_TIMEOUT_MS`: a scheduler that sees no progress for this time gives up, in ms.
pub const SCHEDULER_MS: u32 = 10_000;
/// `PLATFORM_STREAM_SYNC_TIMEOUT_MS`: the host stops waiting for a launch after this time, in ms.
pub const STREAM_SYNC_MS: u32 = 50_000;
/// `PLATFORM_PROF_TIMEOUT_SECONDS` and its likes for the args dump, the PMU, dep_gen and scope stats: the reference's
/// collectors stop waiting for the device after this time, in s.
pub const COLLECT_S: u32 = 30;
/// `PLATFORM_PROF_EMPTY_POLLS_CHECK_NUM` (a5): empty polls after which the reference's collector looks at its clock.
pub const EMPTY_POLLS: u32 = 1000;
/// A wait of the reference's device ends after this time, in s.
pub const BACKPRESSURE_S: u64 = 30;

/// `PLATFORM_DFX_BACKPRESSURE_TIMEOUT_CYCLES`: the same, in ticks.
pub const fn backpressure_ticks(platform: Platform) -> u64 {
    BACKPRESSURE_S * Geometry::of(platform).clock_hz
}
