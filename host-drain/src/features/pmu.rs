//! The PMU's region: one stream per core; on a5 also the rings in which cores leave their counters.

use crate::config::{Board, DfxConfig};
use crate::lanes::Spares;
use crate::region::{LanePlan, Region, RegionPlan, Streams};
use crate::report::{Feature, StreamKind};
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::layout::{BufferLayout, PmuLayout};
use dfx_collector::abi::pmu::AicoreRing;
use dfx_collector::abi::{DeviceAddr, Platform};

/// The region as the device is given it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PmuRegion {
    /// Where the header is.
    pub base: DeviceAddr,
    /// a5: one u64 per core, the address of its ring; null on a2a3.
    pub ring_table: DeviceAddr,
    /// Where things lie.
    pub layout: PmuLayout,
}

/// What is planned for a run of `config` on `board`.
pub fn plan(config: &DfxConfig, board: &Board) -> Option<RegionPlan> {
    let event = config.pmu?;
    let layout = PmuLayout::of(board.platform, board.cores());
    let cores = u64::from(board.cores());
    Some(RegionPlan {
        feature: Feature::Pmu,
        bytes: layout.bytes(),
        platform: board.platform,
        queue: layout.queue,
        words: vec![
            (layout.num_cores, board.cores()),
            (layout.event_type, event as u32),
            (layout.stall_budget, config.stall_budget().to_word()),
        ],
        lanes: (0..board.cores())
            .map(|core| LanePlan {
                kind: StreamKind::PmuRow,
                index: core,
                state: layout.lane(core),
                layout: layout.state,
                buffer: BufferLayout::pmu(board.platform),
                buffers: config.pools.pmu,
                zeroed: false,
                spares: Spares { mismatched: layout.mismatched, stash: None },
            })
            .collect(),
        side: match board.platform {
            Platform::A2a3 => Vec::new(),
            Platform::A5 => vec![8 * cores, size_of::<AicoreRing>() as u64 * cores],
        },
        arenas: Vec::new(),
        streams: Streams::Only(StreamKind::PmuRow),
    })
}

/// Fills the ring table and tells each core's state where its ring is (a5).
///
/// # Errors
/// When the transport fails.
pub fn arm(transport: &dyn Transport, region: &Region, board: &Board) -> Result<(), TransportError> {
    let layout = PmuLayout::of(board.platform, board.cores());
    let (Some(ring_ptr), &[table, rings]) = (layout.ring_ptr, &region.side[..]) else { return Ok(()) };
    for core in 0..board.cores() {
        let ring = rings.offset(u64::from(core) * size_of::<AicoreRing>() as u64);
        transport.store_u64(table.offset(8 * u64::from(core)), ring.0)?;
        transport.store_u64(region.base.offset((layout.lane(core) + ring_ptr) as u64), ring.0)?;
    }
    Ok(())
}

/// The made region as the device is given it.
pub fn for_device(region: &Region, board: &Board) -> PmuRegion {
    PmuRegion {
        base: region.base,
        ring_table: region.side.first().copied().unwrap_or_default(),
        layout: PmuLayout::of(board.platform, board.cores()),
    }
}
