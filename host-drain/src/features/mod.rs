//! What each feature adds to the engine: its region's plan, and what only it knows at the end.

pub mod args_dump;
pub mod dep_gen;
pub mod pmu;
pub mod scope_stats;
pub mod swimlane;

use crate::config::{Board, DfxConfig};
use crate::region::RegionPlan;
use dfx_collector::abi::swimlane::Level;

/// The regions of every feature that is on.
pub fn plans(config: &DfxConfig, board: &Board) -> Vec<RegionPlan> {
    let swimlane = (config.chip_swimlane != Level::Disabled).then(|| swimlane::plan(config, board));
    let others = [
        dep_gen::plan(config, board),
        pmu::plan(config, board),
        scope_stats::plan(config, board),
        args_dump::plan(config, board),
    ];
    swimlane.into_iter().chain(others.into_iter().flatten()).collect()
}
