//! The chip swimlane's region: four streams, the rotation table beside it, and the words of its header.

use crate::config::{Board, DfxConfig};
use crate::lanes::Spares;
use crate::reconcile::Closed;
use crate::region::{LanePlan, Region, RegionPlan, Streams};
use crate::report::{Feature, Reason, StreamKind};
use crate::transport::Transport;
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::layout::{BufferLayout, SWIMLANE_LANE, SwimlaneLayout};
use dfx_collector::abi::swimlane::{ActiveHead, BufferKind, Level};
use std::mem::offset_of;

/// The region as the device is given it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwimlaneRegion {
    /// Where the header is.
    pub base: DeviceAddr,
    /// The rotation table: one u64 per core, filled by AICPU's init.
    pub rotation_table: DeviceAddr,
    /// Where things lie.
    pub layout: SwimlaneLayout,
}

/// The stream of a swimlane buffer kind.
const fn stream_of(kind: BufferKind) -> StreamKind {
    match kind {
        BufferKind::AicpuTask => StreamKind::AicpuTask,
        BufferKind::AicpuSchedPhase => StreamKind::SchedPhase,
        BufferKind::AicpuOrchPhase => StreamKind::OrchPhase,
        BufferKind::AicoreTask => StreamKind::AicoreTask,
    }
}

/// What is planned for a run of `config` on `board`.
pub fn plan(config: &DfxConfig, board: &Board) -> RegionPlan {
    let level = config.chip_swimlane;
    let layout = SwimlaneLayout::of(board.platform, board.cores());
    let mut kinds: Vec<(BufferKind, u32, u32)> =
        vec![(BufferKind::AicoreTask, board.cores(), config.pools.core)];
    if level >= Level::AicpuTiming {
        kinds.push((BufferKind::AicpuTask, board.cores(), config.pools.task));
    }
    if level >= Level::SchedPhases {
        kinds.push((BufferKind::AicpuSchedPhase, board.aicpu_threads, config.pools.sched));
    }
    if level >= Level::OrchPhases {
        kinds.push((BufferKind::AicpuOrchPhase, 1, config.pools.orch));
    }
    let lane = |kind: BufferKind, index: u32, buffers: u32| LanePlan {
        kind: stream_of(kind),
        index,
        state: layout.pool(kind, index),
        layout: SWIMLANE_LANE,
        buffer: BufferLayout::swimlane(kind),
        buffers,
        // A core's missing row must show.
        zeroed: kind == BufferKind::AicoreTask,
        spares: Spares {
            stash: (kind == BufferKind::AicoreTask)
                .then_some((offset_of!(ActiveHead, stash_ptr), offset_of!(ActiveHead, stash_seq))),
            mismatched: None,
        },
    };
    RegionPlan {
        feature: Feature::ChipSwimlane,
        bytes: layout.bytes(),
        platform: board.platform,
        queue: layout.queue,
        words: vec![
            (layout.num_cores, board.cores()),
            (layout.level, level as u32),
            (layout.stall_budget, config.stall_budget().to_word()),
        ],
        lanes: kinds
            .iter()
            .flat_map(|&(kind, lanes, buffers)| (0..lanes).map(move |index| (kind, index, buffers)))
            .map(|(kind, index, buffers)| lane(kind, index, buffers))
            .collect(),
        side: vec![8 * u64::from(board.cores())],
        arenas: Vec::new(),
        streams: Streams::ByKind(|raw| BufferKind::from_raw(raw).map(stream_of)),
    }
}

/// The made region as the device is given it.
pub fn for_device(region: &Region, board: &Board) -> SwimlaneRegion {
    SwimlaneRegion {
        base: region.base,
        rotation_table: region.side.first().copied().unwrap_or_default(),
        layout: SwimlaneLayout::of(board.platform, board.cores()),
    }
}

/// Where values that cannot be come from.
const ELSE: &str = "something else writes to the shared memory, or the device half is of another revision";

/// What only this feature knows at the end: the level in force, and which thread owned which core.
pub fn close(
    transport: &dyn Transport,
    region: &Region,
    config: &DfxConfig,
    board: &Board,
    closed: &mut Closed,
) {
    let layout = SwimlaneLayout::of(board.platform, board.cores());
    let word = |offset: usize| transport.load_u32(region.base.offset(offset as u64));
    let reason = |code: &str, message: String| Reason {
        code: code.into(),
        feature: Some(Feature::ChipSwimlane),
        lane: None,
        count: 1,
        message,
    };
    let asked = config.chip_swimlane as u32;
    if let Ok(level) = word(layout.level)
        && level != asked
    {
        closed.reasons.push(reason(
            "level_mismatch",
            format!(
                "the region's header says level {level}, but {asked} was asked for: the device recorded at a level that \
                 the host was not prepared for; initialise the device after the host, once per launch"
            ),
        ));
    }
    if config.chip_swimlane < Level::SchedPhases {
        return;
    }
    closed.orch_lanes = word(layout.num_orch_threads).unwrap_or(0);
    let threads = board.geometry().max_threads;
    if closed.orch_lanes > threads {
        closed.reasons.push(reason(
            "corrupt",
            format!(
                "the device says that {} threads orchestrate, but the platform has {threads}: all of them are listed; {ELSE}",
                closed.orch_lanes
            ),
        ));
    }
    let Ok(cores) = word(layout.num_phase_cores) else { return };
    if cores == 0 {
        return;
    }
    let max = board.geometry().max_cores;
    if cores > max {
        closed.reasons.push(reason(
            "corrupt",
            format!(
                "the device says that {cores} cores have a thread, but the platform has {max}: core_to_thread is left \
                 out; {ELSE}"
            ),
        ));
        return;
    }
    let mut raw = vec![0; cores as usize];
    if transport.fetch(region.base.offset(layout.core_to_thread as u64), &mut raw).is_ok() {
        let mut map: Vec<i8> = raw.into_iter().map(|byte| byte as i8).collect();
        let odd = map.iter_mut().filter(|thread| !(-1..threads as i8).contains(*thread));
        let odd = odd.map(|thread| *thread = -1).count();
        closed.core_to_thread = Some(map);
        if odd > 0 {
            closed.reasons.push(reason(
                "corrupt",
                format!(
                    "{odd} cores have a thread that there is not, says the device: core_to_thread has -1 for them; {ELSE}"
                ),
            ));
        }
    }
}
