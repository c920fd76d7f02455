//! Which features a launch has on: bits of the word that a kernel gets (`dfx_flags`).

/// `SIMPLER_DFX_FLAG_NONE`: none.
pub const NONE: u32 = 0;
/// `SIMPLER_DFX_FLAG_DUMP_ARGS`: the args dump.
pub const DUMP_ARGS: u32 = 1;
/// `SIMPLER_DFX_FLAG_CHIP_SWIMLANE`: the chip swimlane.
pub const CHIP_SWIMLANE: u32 = 2;
/// `SIMPLER_DFX_FLAG_PMU`: the PMU.
pub const PMU: u32 = 4;
/// `SIMPLER_DFX_FLAG_DEP_GEN`: dep_gen.
pub const DEP_GEN: u32 = 8;
/// `SIMPLER_DFX_FLAG_SCOPE_STATS`: scope stats.
pub const SCOPE_STATS: u32 = 16;
