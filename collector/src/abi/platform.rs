//! What differs between the two platforms, as one value resolved on the cold path.

/// A platform whose shared-memory ABI is pinned here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Platform {
    /// Ascend910B.
    A2a3,
    /// Ascend950.
    A5,
}

/// Counts, depths and frequencies of a platform (`constants` of `abi/*.json`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Whose numbers these are.
    pub platform: Platform,
    /// `PLATFORM_MAX_BLOCKDIM`: blocks of one AIC and two AIV cores.
    pub max_blockdim: u32,
    /// `PLATFORM_MAX_CORES`.
    pub max_cores: u32,
    /// `PLATFORM_MAX_AICPU_THREADS`: scheduler threads and the orchestrator.
    pub max_threads: u32,
    /// `PLATFORM_DEFAULT_AICPU_THREAD_NUM`.
    pub default_threads: u32,
    /// `PLATFORM_PROF_SYS_CNT_FREQ`: the counter, in Hz.
    pub clock_hz: u64,
    /// `PLATFORM_PROF_READYQUEUE_SIZE`: swimlane ready-queue entries per thread.
    pub swimlane_ready_entries: u32,
    /// `PLATFORM_DUMP_READYQUEUE_SIZE`: args-dump ready-queue entries per thread.
    pub dump_ready_entries: u32,
    /// `PLATFORM_PMU_READYQUEUE_SIZE`: PMU ready-queue entries per thread.
    pub pmu_ready_entries: u32,
}

impl Geometry {
    /// The a2a3 platform (Ascend910B).
    pub const A2A3: Geometry = Geometry {
        platform: Platform::A2a3,
        max_blockdim: 24,
        max_cores: 72,
        max_threads: 4,
        default_threads: 4,
        clock_hz: 50_000_000,
        swimlane_ready_entries: 992,
        dump_ready_entries: 64,
        pmu_ready_entries: 144,
    };

    /// The a5 platform (Ascend950).
    pub const A5: Geometry = Geometry {
        platform: Platform::A5,
        max_blockdim: 36,
        max_cores: 108,
        max_threads: 5,
        default_threads: 5,
        clock_hz: 1_000_000_000,
        swimlane_ready_entries: 1456,
        dump_ready_entries: 80,
        pmu_ready_entries: 216,
    };

    /// The largest core count of any platform: the size of per-core tables.
    pub const ANY_MAX_CORES: usize = 108;
    /// The largest thread count of any platform: the size of per-thread tables.
    pub const ANY_MAX_THREADS: usize = 5;

    /// The geometry of `platform`.
    pub const fn of(platform: Platform) -> &'static Geometry {
        match platform {
            Platform::A2a3 => &Geometry::A2A3,
            Platform::A5 => &Geometry::A5,
        }
    }
}
