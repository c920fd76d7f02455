//! The scope statistics' region: one stream, and the capacities that the device writes into its header.

use crate::config::{Board, DfxConfig};
use crate::export::scope_stats::Capacities;
use crate::lanes::Spares;
use crate::region::{LanePlan, Region, RegionPlan, Streams};
use crate::report::{Feature, StreamKind};
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::layout::{BufferLayout, SCOPE_STATS_LANE, ScopeStatsLayout};
use dfx_collector::abi::scope_stats::RINGS;

/// What is planned for a run of `config` on `board`.
pub fn plan(config: &DfxConfig, board: &Board) -> Option<RegionPlan> {
    let layout = ScopeStatsLayout::of(board.platform);
    config.scope_stats.then(|| RegionPlan {
        feature: Feature::ScopeStats,
        bytes: layout.bytes(),
        platform: board.platform,
        queue: layout.queue,
        words: vec![(layout.num_instances, 1), (layout.stall_budget(), config.stall_budget().to_word())],
        lanes: vec![LanePlan {
            kind: StreamKind::ScopeSample,
            index: 0,
            state: layout.lane(),
            layout: SCOPE_STATS_LANE,
            buffer: BufferLayout::scope_stats(),
            buffers: config.pools.scope_stats,
            zeroed: false,
            spares: Spares::default(),
        }],
        side: Vec::new(),
        arenas: Vec::new(),
        streams: Streams::Only(StreamKind::ScopeSample),
    })
}

/// What the device wrote into the header.
///
/// # Errors
/// When the transport fails.
pub fn capacities(
    transport: &dyn Transport,
    region: &Region,
    board: &Board,
) -> Result<Capacities, TransportError> {
    let layout = ScopeStatsLayout::of(board.platform);
    let word = |offset: usize| transport.load_u32(region.base.offset(offset as u64)).map(|word| word as i32);
    let mut capacities = Capacities { fatal: word(layout.fatal_latched)? != 0, ..Capacities::default() };
    capacities.tensormap = word(layout.tensormap_cap)?;
    for ring in 0..RINGS {
        capacities.task_window[ring] = word(layout.task_window_cap + 4 * ring)?;
        capacities.dep_pool[ring] = word(layout.dep_pool_cap + 4 * ring)?;
        capacities.heap[ring] =
            transport.load_u64(region.base.offset((layout.heap_cap + 8 * ring) as u64))?;
    }
    Ok(capacities)
}
