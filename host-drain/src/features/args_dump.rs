//! The args dump's region: one stream and one arena per AICPU thread.

use crate::config::{Board, DfxConfig};
use crate::lanes::Spares;
use crate::reconcile::Closed;
use crate::region::{LanePlan, Region, RegionPlan, Streams};
use crate::report::{Feature, Reason, StreamKind};
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::args_dump::{Level, MAGIC, OPTION_DEDUP};
use dfx_collector::abi::layout::{ARENA, ARGS_DUMP_LANE, ArgsDumpLayout, BufferLayout};

/// The region as the device is given it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DumpRegion {
    /// Where the header is.
    pub base: DeviceAddr,
    /// Where things lie.
    pub layout: ArgsDumpLayout,
}

/// What is planned for a run of `config` on `board`.
pub fn plan(config: &DfxConfig, board: &Board) -> Option<RegionPlan> {
    let threads = board.aicpu_threads;
    let layout = ArgsDumpLayout::of(board.platform, threads);
    let arena = config.dump_arena_bytes;
    let buffer = BufferLayout::args_dump();
    let options = if config.dump_dedup && config.dump_args == Level::Full { OPTION_DEDUP } else { 0 };
    config.dumps().then(|| RegionPlan {
        feature: Feature::DumpArgs,
        bytes: layout.bytes(),
        platform: board.platform,
        queue: layout.queue,
        words: vec![
            (layout.num_threads, threads),
            (layout.records_per_buffer, buffer.capacity),
            (layout.arena_size, arena as u32),
            (layout.arena_size + 4, (arena >> 32) as u32),
            (layout.magic, MAGIC),
            (layout.level, config.dump_args as u32),
            (layout.stall_budget, config.stall_budget().to_word()),
            (layout.options, options),
        ],
        lanes: (0..threads)
            .map(|thread| LanePlan {
                kind: StreamKind::Arg,
                index: thread,
                state: layout.lane(thread),
                layout: ARGS_DUMP_LANE,
                buffer,
                buffers: config.pools.dump,
                zeroed: false,
                spares: Spares::default(),
            })
            .collect(),
        side: Vec::new(),
        arenas: vec![arena; threads as usize],
        streams: Streams::Only(StreamKind::Arg),
    })
}

/// Tells each thread's state where its arena is.
///
/// # Errors
/// When the transport fails.
pub fn arm(
    transport: &dyn Transport,
    region: &Region,
    config: &DfxConfig,
    board: &Board,
) -> Result<(), TransportError> {
    let layout = ArgsDumpLayout::of(board.platform, board.aicpu_threads);
    for (thread, arena) in region.arenas.iter().enumerate() {
        let lane = region.base.offset(layout.lane(thread as u32) as u64);
        transport.store_u64(lane.offset(ARENA.base as u64), arena.0)?;
        transport.store_u64(lane.offset(ARENA.size as u64), config.dump_arena_bytes)?;
    }
    Ok(())
}

/// The made region as the device is given it.
pub fn for_device(region: &Region, board: &Board) -> DumpRegion {
    DumpRegion { base: region.base, layout: ArgsDumpLayout::of(board.platform, board.aicpu_threads) }
}

/// A thread's payload as the device counted it, in bytes unless a field says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// In the arena.
    pub payload: u64,
    /// Given up.
    pub shed: u64,
    /// Not sent again.
    pub saved: u64,
    /// Records whose payload was given up.
    pub shed_records: u32,
}

/// What the device counted for `thread`.
///
/// # Errors
/// When the transport fails.
pub fn counted(
    transport: &dyn Transport,
    region: &Region,
    board: &Board,
    thread: u32,
) -> Result<Counted, TransportError> {
    let layout = ArgsDumpLayout::of(board.platform, board.aicpu_threads);
    let at = |offset: usize| region.base.offset((layout.lane(thread) + offset) as u64);
    Ok(Counted {
        payload: transport.load_u64(at(ARENA.payload_bytes))?,
        shed: transport.load_u64(at(ARENA.shed_bytes))?,
        saved: transport.load_u64(at(ARENA.saved_bytes))?,
        shed_records: transport.load_u32(at(ARENA.shed_records))?,
    })
}

/// What only this feature knows of its header at the end: the level in force, and marks for which there was no room.
pub fn close(
    transport: &dyn Transport,
    region: &Region,
    config: &DfxConfig,
    board: &Board,
    closed: &mut Closed,
) {
    let layout = ArgsDumpLayout::of(board.platform, board.aicpu_threads);
    let word = |offset: usize| transport.load_u32(region.base.offset(offset as u64));
    let mut reason = |code: &str, count: u64, message: String| {
        closed.reasons.push(Reason {
            code: code.into(),
            feature: Some(Feature::DumpArgs),
            lane: None,
            count,
            message,
        });
    };
    let asked = config.dump_args as u32;
    if let Ok(level) = word(layout.level)
        && level != asked
    {
        reason(
            "level_mismatch",
            1,
            format!(
                "the region's header says level {level}, but {asked} was asked for: the device recorded at a level that \
                 the host was not prepared for; initialise the device after the host, once per launch"
            ),
        );
    }
    if let Ok(lost) = word(layout.lost_marks)
        && lost > 0
        && matches!(config.dump_args, Level::Partial | Level::Hybrid)
    {
        reason(
            "marks_lost",
            u64::from(lost),
            format!(
                "{lost} marks found no room in the device's table: arguments that they name may be missing; mark fewer \
                 tasks, or dump everything (--dump-args=2)"
            ),
        );
    }
}
