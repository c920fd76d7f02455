//! The chip swimlane's region: allocated, laid out, and filled with its first buffers.
//!
//! Registrations are scarce on a board (the runtime cannot reliably give them back within a process), so everything lies
//! in a few large blocks and buffers are carved out of them.

use crate::config::{Board, DfxConfig};
use crate::lanes::{Lane, LaneTable};
use crate::ledger::Account;
use crate::report::StreamKind;
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::layout::{BufferLayout, SWIMLANE_LANE, SwimlaneLayout};
use dfx_collector::abi::swimlane::{ActiveHead, BufferKind, Level};
use dfx_collector::abi::{DeviceAddr, peer};
use std::mem::offset_of;

/// The largest block that is asked for, unless a single piece needs more.
const BLOCK_BYTES: u64 = 64 << 20;
/// Alignment of every piece: a group of eight 32-byte records is one stretch of cache lines.
const ALIGN: u64 = 256;

/// The stream of a swimlane buffer kind.
pub const fn stream_of(kind: BufferKind) -> StreamKind {
    match kind {
        BufferKind::AicpuTask => StreamKind::AicpuTask,
        BufferKind::AicpuSchedPhase => StreamKind::SchedPhase,
        BufferKind::AicpuOrchPhase => StreamKind::OrchPhase,
        BufferKind::AicoreTask => StreamKind::AicoreTask,
    }
}

/// A region that the device can be pointed at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwimlaneRegion {
    /// Where the header is.
    pub base: DeviceAddr,
    /// The rotation table: one u64 per core, filled by AICPU's init.
    pub rotation_table: DeviceAddr,
    /// Where things lie.
    pub layout: SwimlaneLayout,
}

/// Carves pieces out of as few blocks as possible.
fn carve(transport: &dyn Transport, pieces: &[u64]) -> Result<Vec<DeviceAddr>, TransportError> {
    let mut places = Vec::with_capacity(pieces.len());
    let mut start = 0;
    while start < pieces.len() {
        let mut bytes = 0;
        let mut end = start;
        while end < pieces.len() && (end == start || bytes + pieces[end] <= BLOCK_BYTES) {
            bytes += pieces[end].next_multiple_of(ALIGN);
            end += 1;
        }
        let mut at = transport.add_block(bytes)?;
        for piece in &pieces[start..end] {
            places.push(at);
            at = at.offset(piece.next_multiple_of(ALIGN));
        }
        start = end;
    }
    Ok(places)
}

/// Makes the region for a run of `config` on `board`, with all its lanes, and offers each lane its first buffers.
///
/// # Errors
/// When the platform refuses memory or a transfer. What was allocated is the transport's and goes with it.
pub fn make(
    transport: &dyn Transport,
    table: &mut LaneTable,
    config: &DfxConfig,
    board: &Board,
) -> Result<SwimlaneRegion, TransportError> {
    let level = config.chip_swimlane;
    let layout = SwimlaneLayout::of(board.platform, board.cores());
    let mut kinds: Vec<(BufferKind, u32, u32)> = vec![(BufferKind::AicoreTask, board.cores(), config.pools.core)];
    if level >= Level::AicpuTiming {
        kinds.push((BufferKind::AicpuTask, board.cores(), config.pools.task));
    }
    if level >= Level::SchedPhases {
        kinds.push((BufferKind::AicpuSchedPhase, board.aicpu_threads, config.pools.sched));
    }
    if level >= Level::OrchPhases {
        kinds.push((BufferKind::AicpuOrchPhase, 1, config.pools.orch));
    }
    let mut pieces = vec![layout.bytes() as u64, 8 * u64::from(board.cores())];
    for &(kind, lanes, buffers) in &kinds {
        let bytes = BufferLayout::swimlane(kind).bytes as u64;
        pieces.extend(std::iter::repeat_n(bytes, lanes as usize * buffers as usize));
    }
    let places = carve(transport, &pieces)?;
    let (base, rotation_table) = (places[0], places[1]);

    transport.zero(base, pieces[0])?;
    transport.zero(rotation_table, pieces[1])?;
    transport.store_u32(base.offset(layout.num_cores as u64), board.cores())?;
    transport.store_u32(base.offset(layout.level as u64), level as u32)?;
    transport.store_u32(base.offset(layout.stall_budget as u64), config.stall_budget().to_word())?;
    transport.store_u32(base.offset(layout.queue.peer as u64), peer::with_host(0))?;

    let mut next = places[2..].iter().copied();
    for &(kind, lanes, buffers) in &kinds {
        for index in 0..lanes {
            let zeroed = kind == BufferKind::AicoreTask;
            let spare: std::collections::VecDeque<_> = next.by_ref().take(buffers as usize).collect();
            if zeroed {
                for &buffer in &spare {
                    transport.zero(buffer, BufferLayout::swimlane(kind).bytes as u64)?;
                }
            }
            let id = table.add(Lane {
                kind: stream_of(kind),
                index,
                state: base.offset(layout.pool(kind, index) as u64),
                layout: SWIMLANE_LANE,
                buffer: BufferLayout::swimlane(kind),
                zeroed,
                stash: zeroed.then_some((offset_of!(ActiveHead, stash_ptr), offset_of!(ActiveHead, stash_seq))),
                spare,
                offered: 0,
                account: Account::default(),
            });
            table.offer(transport, id)?;
        }
    }
    Ok(SwimlaneRegion { base, rotation_table, layout })
}
