//! dep_gen's region: one stream of submits and their overflow slots.

use crate::config::{Board, DfxConfig};
use crate::lanes::Spares;
use crate::region::{LanePlan, Region, RegionPlan, Streams};
use crate::report::{Feature, StreamKind};
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::layout::{BufferLayout, DEP_GEN_LANE, DepGenLayout};

/// What is planned for a run of `config` on `board`.
pub fn plan(config: &DfxConfig, board: &Board) -> Option<RegionPlan> {
    let layout = DepGenLayout::of(board.platform);
    config.dep_gen.then(|| RegionPlan {
        feature: Feature::DepGen,
        bytes: layout.bytes(),
        platform: board.platform,
        queue: layout.queue,
        words: vec![(layout.num_instances, 1), (layout.stall_budget(), config.stall_budget().to_word())],
        lanes: vec![LanePlan {
            kind: StreamKind::Submit,
            index: 0,
            state: layout.lane(),
            layout: DEP_GEN_LANE,
            buffer: BufferLayout::dep_gen(),
            buffers: config.pools.dep_gen,
            zeroed: false,
            spares: Spares::default(),
        }],
        side: Vec::new(),
        arenas: Vec::new(),
        streams: Streams::Only(StreamKind::Submit),
    })
}

/// Overflow slots that the device counted.
///
/// # Errors
/// When the transport fails.
pub fn overflow_total(
    transport: &dyn Transport,
    region: &Region,
    board: &Board,
) -> Result<u32, TransportError> {
    let layout = DepGenLayout::of(board.platform);
    transport.load_u32(region.base.offset((layout.lane() + DepGenLayout::OVERFLOW_TOTAL) as u64))
}

/// Submits that our device half cut short: more tensors than a record holds, or a chain longer than a buffer.
///
/// # Errors
/// When the transport fails.
pub fn truncated_total(
    transport: &dyn Transport,
    region: &Region,
    board: &Board,
) -> Result<u32, TransportError> {
    let layout = DepGenLayout::of(board.platform);
    transport.load_u32(region.base.offset((layout.lane() + DepGenLayout::TRUNCATED) as u64))
}
