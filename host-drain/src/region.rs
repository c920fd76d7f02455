//! How a region is made: planned by its feature, carved out of a few large blocks, laid out, and given its first buffers.
//!
//! Registrations are scarce on a board (the runtime cannot reliably give them back within a process), so the regions of
//! all features and all their buffers lie in as few blocks as possible.

use crate::lanes::{Lane, LaneTable, Spares};
use crate::ledger::Account;
use crate::memory::MemoryError;
use crate::report::{Feature, StreamKind};
use crate::tail::shown_in_groups;
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::layout::{BufferLayout, LaneLayout, QueueLayout};
use dfx_collector::abi::{DeviceAddr, Platform, peer};
use std::collections::VecDeque;

/// The largest block that is asked for, unless a single piece needs more.
const BLOCK_BYTES: u64 = 64 << 20;
/// Alignment of every piece: a group of eight 32-byte records is one stretch of cache lines.
const ALIGN: u64 = 256;

/// A region as its feature wants it.
#[derive(Clone, Debug)]
pub struct RegionPlan {
    /// Whose region.
    pub feature: Feature,
    /// Size of header and lane states in bytes.
    pub bytes: usize,
    /// Whose record layouts its buffers have.
    pub platform: Platform,
    /// Ready queues, freeze, peer word.
    pub queue: QueueLayout,
    /// Words of the header that are not 0: offset and value.
    pub words: Vec<(usize, u32)>,
    /// The lanes.
    pub lanes: Vec<LanePlan>,
    /// Zeroed memory beside the region, in bytes a piece.
    pub side: Vec<u64>,
    /// Memory beside the region whose content does not matter, in bytes a piece: it is not touched.
    pub arenas: Vec<u64>,
    /// What a ready entry's kind and index mean.
    pub streams: Streams,
}

/// A lane as its feature wants it.
#[derive(Clone, Copy, Debug)]
pub struct LanePlan {
    /// What it records.
    pub kind: StreamKind,
    /// Core, thread or instance.
    pub index: u32,
    /// Offset of its state in the region.
    pub state: usize,
    /// Where things lie in that state.
    pub layout: LaneLayout,
    /// Where things lie in its buffers.
    pub buffer: BufferLayout,
    /// How many buffers it has.
    pub buffers: u32,
    /// Whether buffers are zeroed before the device gets them.
    pub zeroed: bool,
    /// What else its state says.
    pub spares: Spares,
}

/// What the kind word of a ready entry means in a region.
#[derive(Clone, Copy, Debug)]
pub enum Streams {
    /// By number.
    ByKind(fn(u32) -> Option<StreamKind>),
    /// The region has one stream; the word is not written.
    Only(StreamKind),
}

impl Streams {
    /// The stream of an entry whose kind word is `raw`.
    pub fn of(self, raw: u32) -> Option<StreamKind> {
        match self {
            Streams::ByKind(by_kind) => by_kind(raw),
            Streams::Only(kind) => Some(kind),
        }
    }
}

/// A region that the device can be pointed at.
#[derive(Clone, Debug)]
pub struct Region {
    /// Whose.
    pub feature: Feature,
    /// Where the header is.
    pub base: DeviceAddr,
    /// Ready queues, freeze, peer word.
    pub queue: QueueLayout,
    /// Memory beside the region.
    pub side: Vec<DeviceAddr>,
    /// Memory that nobody has touched.
    pub arenas: Vec<DeviceAddr>,
    /// What a ready entry's kind and index mean.
    pub streams: Streams,
}

/// The room that a piece takes in a block.
fn room(piece: u64) -> Result<u64, TransportError> {
    piece.checked_next_multiple_of(ALIGN).ok_or_else(|| {
        let why = "no address space is so large".into();
        MemoryError { what: "an allocation", at: DeviceAddr::NULL, bytes: piece, why }.into()
    })
}

/// Carves pieces out of as few blocks as possible.
fn carve(transport: &dyn Transport, pieces: &[u64]) -> Result<Vec<DeviceAddr>, TransportError> {
    let mut places = Vec::with_capacity(pieces.len());
    let mut start = 0;
    while start < pieces.len() {
        let mut bytes = room(pieces[start])?;
        let mut end = start + 1;
        while end < pieces.len() {
            let Some(more) = bytes.checked_add(room(pieces[end])?).filter(|more| *more <= BLOCK_BYTES) else {
                break;
            };
            bytes = more;
            end += 1;
        }
        let mut at = transport.add_block(bytes)?;
        for &piece in &pieces[start..end] {
            places.push(at);
            at = at.offset(room(piece)?);
        }
        start = end;
    }
    Ok(places)
}

/// Makes the planned regions with all their lanes, and offers each lane its first buffers.
///
/// # Errors
/// When the platform refuses memory or a transfer. What was allocated is the transport's and goes with it.
pub fn make(
    transport: &dyn Transport,
    table: &mut LaneTable,
    plans: Vec<RegionPlan>,
) -> Result<Vec<Region>, TransportError> {
    let mut pieces = Vec::new();
    for plan in &plans {
        pieces.push(plan.bytes as u64);
        pieces.extend(&plan.side);
        pieces.extend(&plan.arenas);
        for lane in &plan.lanes {
            pieces.extend(std::iter::repeat_n(lane.buffer.bytes as u64, lane.buffers as usize));
        }
    }
    let mut places = carve(transport, &pieces)?.into_iter();
    plans.into_iter().map(|plan| make_one(transport, table, plan, &mut places)).collect()
}

fn make_one(
    transport: &dyn Transport,
    table: &mut LaneTable,
    plan: RegionPlan,
    places: &mut impl Iterator<Item = DeviceAddr>,
) -> Result<Region, TransportError> {
    let mut place = || places.next().unwrap_or(DeviceAddr::NULL);
    let base = place();
    transport.zero(base, plan.bytes as u64)?;
    let mut side = Vec::with_capacity(plan.side.len());
    for &bytes in &plan.side {
        side.push(place());
        transport.zero(side[side.len() - 1], bytes)?;
    }
    let arenas = plan.arenas.iter().map(|_| place()).collect();
    for &(offset, value) in &plan.words {
        transport.store_u32(base.offset(offset as u64), value)?;
    }
    transport.store_u32(base.offset(plan.queue.peer as u64), peer::with_host(0))?;
    for lane in &plan.lanes {
        let spare: VecDeque<_> = (0..lane.buffers).map(|_| place()).collect();
        if lane.zeroed || shown_in_groups(lane.kind) {
            for &buffer in &spare {
                transport.zero(buffer, lane.buffer.bytes as u64)?;
            }
        }
        let id = table.add(Lane {
            feature: plan.feature,
            kind: lane.kind,
            index: lane.index,
            state: base.offset(lane.state as u64),
            layout: lane.layout,
            buffer: lane.buffer,
            zeroed: lane.zeroed,
            spares: lane.spares,
            spare,
            offered: 0,
            thread: 0,
            platform: plan.platform,
            account: Account::default(),
        });
        table.offer(transport, id)?;
    }
    Ok(Region { feature: plan.feature, base, queue: plan.queue, side, arenas, streams: plan.streams })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_takes_whole_stretches_and_one_that_no_address_space_holds_is_refused() {
        assert_eq!(room(0), Ok(0));
        assert_eq!(room(1), Ok(ALIGN));
        assert_eq!(room(ALIGN), Ok(ALIGN));
        let refused = room(u64::MAX - 63).unwrap_err().to_string();
        assert!(refused.contains("an allocation of 18446744073709551552 bytes"), "{refused}");
    }
}
