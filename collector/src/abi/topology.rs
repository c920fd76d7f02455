//! How many cores and threads a platform has: what [`Geometry`] leaves out because only few need it.

use super::platform::{Geometry, Platform};
use super::swimlane;

/// `PLATFORM_CORES_PER_BLOCKDIM`, `PLATFORM_SUB_CORES_PER_AICORE`: cores of a block.
pub const CORES_PER_BLOCK: u32 = AIC_PER_BLOCK + AIV_PER_BLOCK;
/// `PLATFORM_AIC_CORES_PER_BLOCKDIM`: cube cores of a block.
pub const AIC_PER_BLOCK: u32 = 1;
/// `PLATFORM_AIV_CORES_PER_BLOCKDIM`: vector cores of a block.
pub const AIV_PER_BLOCK: u32 = 2;
/// `PLATFORM_PROF_READYQUEUE_BUFFERS_PER_THREAD`: phase buffers that the swimlane's ready queue allows for, per thread
/// and phase stream.
pub const PHASE_READY_BUFFERS: u32 = 16;

/// Cores and threads beyond [`Geometry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Topology {
    /// `PLATFORM_MAX_AICPU_THREADS_JUST_FOR_LAUNCH`: AICPU threads that a launch starts, spare ones included.
    pub launch_threads: u32,
    /// `PLATFORM_MAX_PHYSICAL_CORES`: blocks on the chip, used or not.
    pub physical_cores: u32,
    /// `PLATFORM_NUM_DIES`: dies of the chip.
    pub dies: u32,
}

impl Topology {
    /// The topology of `platform`.
    pub const fn of(platform: Platform) -> Topology {
        match platform {
            Platform::A2a3 => Topology { launch_threads: 6, physical_cores: 25, dies: 1 },
            Platform::A5 => Topology { launch_threads: 14, physical_cores: 36, dies: 2 },
        }
    }

    /// `PLATFORM_AICORE_PER_DIE`: blocks of a die.
    pub const fn cores_per_die(&self) -> u32 {
        self.physical_cores / self.dies
    }
}

const fn holds(g: &Geometry) -> bool {
    let per_core = (swimlane::TASK_BUFFERS + swimlane::CORE_BUFFERS) as u32;
    g.max_cores == g.max_blockdim * CORES_PER_BLOCK
        && g.swimlane_ready_entries == g.max_cores * per_core + 2 * g.max_threads * PHASE_READY_BUFFERS
        && g.dump_ready_entries == g.max_threads * 2 * super::args_dump::BUFFERS as u32
        && g.pmu_ready_entries == g.max_cores * super::pmu::BUFFERS as u32
}

const _: () = assert!(holds(&Geometry::A2A3) && holds(&Geometry::A5));
