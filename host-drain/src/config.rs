//! What a session is asked to do, validated before any device work.

use crate::dump::{self, DumpBudget};
use dfx_collector::abi::args_dump::{self, Level as DumpLevel};
use dfx_collector::abi::pmu::{self, EventType};
use dfx_collector::abi::swimlane::{self, Level};
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::abi::{dep_gen, scope_stats};
use dfx_collector::stall::Budget;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A value that cannot be had: names the field, the value and what is accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {value} is not accepted, expected {expected}")]
pub struct ConfigError {
    /// The field or switch.
    pub field: &'static str,
    /// What was given.
    pub value: String,
    /// What is accepted, and where it helps, what to do.
    pub expected: String,
}

impl ConfigError {
    /// An error about `field`.
    pub fn new(field: &'static str, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        ConfigError { field, value: value.to_string(), expected: expected.into() }
    }
}

/// What happens when the host cannot keep up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Backpressure {
    /// The lane that has no room waits, within the stall budget.
    #[default]
    Lane,
    /// All lanes wait together until the host has emptied and refilled everything (the reference's freeze).
    Global,
    /// As `lane`, but a wait lasts up to 30 s whatever the timeouts are (the reference's waits).
    Block,
    /// Nobody waits; what finds no room is counted as dropped.
    Drop,
}

impl FromStr for Backpressure {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Ok(match text {
            "lane" => Backpressure::Lane,
            "global" => Backpressure::Global,
            "block" => Backpressure::Block,
            "drop" => Backpressure::Drop,
            _ => return Err(ConfigError::new("backpressure", text, "lane, global, block or drop")),
        })
    }
}

/// How the host reaches device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TransportKind {
    /// Device memory is mapped into the host (a2a3).
    Svm,
    /// The host may only copy ranges (a5).
    Copy,
}

/// The smallest arena that is worth having, in bytes.
const MIN_ARENA_BYTES: u64 = 4096;
/// The largest arena, in bytes: more than a board has, and far from where sums of sizes would overflow.
const MAX_ARENA_BYTES: u64 = 1 << 40;
/// The most buffers of a lane: the host's own tables of them must fit into its memory.
const MAX_BUFFERS: u32 = 1 << 16;

/// How many buffers the host makes for each lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSizes {
    /// Per core: AICPU task records.
    pub task: u32,
    /// Per core: AICore records.
    pub core: u32,
    /// Per scheduler thread: phases.
    pub sched: u32,
    /// For the orchestrator: submits.
    pub orch: u32,
    /// For dep_gen: submits with their arguments.
    pub dep_gen: u32,
    /// Per core: PMU records.
    pub pmu: u32,
    /// For scope statistics: samples.
    pub scope_stats: u32,
    /// Per AICPU thread: dumped arguments.
    pub dump: u32,
}

impl Default for PoolSizes {
    fn default() -> Self {
        PoolSizes {
            task: swimlane::TASK_BUFFERS as u32,
            core: swimlane::CORE_BUFFERS as u32,
            sched: swimlane::SCHED_BUFFERS as u32,
            orch: swimlane::ORCH_BUFFERS as u32,
            dep_gen: dep_gen::BUFFERS as u32,
            pmu: pmu::BUFFERS as u32,
            scope_stats: scope_stats::BUFFERS as u32,
            dump: args_dump::BUFFERS as u32,
        }
    }
}

impl PoolSizes {
    /// The same number of buffers for every lane.
    pub const fn all(buffers: u32) -> Self {
        PoolSizes {
            task: buffers,
            core: buffers,
            sched: buffers,
            orch: buffers,
            dep_gen: buffers,
            pmu: buffers,
            scope_stats: buffers,
            dump: buffers,
        }
    }
}

/// The runtime's own timeouts, which no wait of ours may outlast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// STARS op-execute timeout, from the launch.
    pub op_execute: Duration,
    /// Scheduler no-progress timeout.
    pub scheduler: Duration,
    /// Stream-sync timeout, from the launch.
    pub stream_sync: Duration,
}

impl Default for Timeouts {
    /// The platform's: 45 s, 10 s, 50 s.
    fn default() -> Self {
        Timeouts {
            op_execute: Duration::from_secs(45),
            scheduler: Duration::from_secs(10),
            stream_sync: Duration::from_secs(50),
        }
    }
}

/// The switches of one run and how its host half works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DfxConfig {
    /// The chip swimlane's level.
    pub chip_swimlane: Level,
    /// Whether submits are captured for the dependency graph.
    pub dep_gen: bool,
    /// Which PMU events are counted, if any.
    pub pmu: Option<EventType>,
    /// Whether scopes are sampled.
    pub scope_stats: bool,
    /// How much the args dump records.
    pub dump_args: DumpLevel,
    /// The rate that the drain of dumped payload keeps to.
    pub dump_budget: DumpBudget,
    /// Whether a tensor that has not changed since it was last dumped is sent only once (at level 2).
    pub dump_dedup: bool,
    /// A thread's arena for dumped payload, in bytes.
    pub dump_arena_bytes: u64,
    /// What happens when the host cannot keep up.
    pub backpressure: Backpressure,
    /// Buffers per lane.
    pub pools: PoolSizes,
    /// What no wait may outlast.
    pub timeouts: Timeouts,
}

impl Default for DfxConfig {
    /// Every switch off; pools, arenas and timeouts as the platform has them.
    fn default() -> Self {
        DfxConfig {
            chip_swimlane: Level::Disabled,
            dep_gen: false,
            pmu: None,
            scope_stats: false,
            dump_args: DumpLevel::Off,
            dump_budget: DumpBudget::Auto,
            dump_dedup: true,
            dump_arena_bytes: args_dump::ARENA_BYTES,
            backpressure: Backpressure::default(),
            pools: PoolSizes::default(),
            timeouts: Timeouts::default(),
        }
    }
}

impl DfxConfig {
    /// The chip swimlane's level from its number.
    ///
    /// # Errors
    /// When it is none of 0..=4.
    pub fn swimlane_level(level: i64) -> Result<Level, ConfigError> {
        u32::try_from(level).ok().and_then(Level::from_raw).ok_or_else(|| {
            ConfigError::new("enable_chip_swimlane", level, "a level from 0 (off) to 4 (orchestrator phases)")
        })
    }

    /// The args dump's level from its number.
    ///
    /// # Errors
    /// When it is none of 0..=3.
    pub fn dump_level(level: i64) -> Result<DumpLevel, ConfigError> {
        u32::try_from(level).ok().and_then(DumpLevel::from_raw).ok_or_else(|| {
            ConfigError::new(
                "enable_dump_args",
                level,
                "a level from 0 (off) to 3 (everything, payload of what is marked)",
            )
        })
    }

    /// Checks the number of buffers for a lane that needs `least` to rotate.
    ///
    /// # Errors
    /// When there are too few or too many; the error names `field`.
    pub fn check_buffers(field: &'static str, buffers: u32, least: u32) -> Result<(), ConfigError> {
        if (least..=MAX_BUFFERS).contains(&buffers) {
            return Ok(());
        }
        let expected = format!("at least {least} for each lane, at most {MAX_BUFFERS}");
        Err(ConfigError::new(field, buffers, expected))
    }

    /// Checks the size of a thread's arena, in bytes.
    ///
    /// # Errors
    /// When it is too small, too large, or not whole cache lines.
    pub fn check_arena(bytes: u64) -> Result<(), ConfigError> {
        if (MIN_ARENA_BYTES..=MAX_ARENA_BYTES).contains(&bytes) && bytes.is_multiple_of(64) {
            return Ok(());
        }
        let expected = format!("a multiple of 64, at least {MIN_ARENA_BYTES}, at most {MAX_ARENA_BYTES}");
        Err(ConfigError::new("dump_arena_bytes", bytes, expected))
    }

    /// Checks that every lane that is on can rotate with the buffers it gets, and that sizes are such as can be had.
    ///
    /// # Errors
    /// When a lane cannot: it would wait for a buffer that never comes and drop what follows. When a size is out of bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let PoolSizes { task, core, sched, orch, dep_gen, pmu, scope_stats, dump: args } = self.pools;
        let level = self.chip_swimlane;
        for (field, buffers, least, on) in [
            // A core's full buffer is published only when its successor is active.
            ("pools.core", core, 2, level >= Level::AicoreTiming),
            ("pools.task", task, 1, level >= Level::AicpuTiming),
            ("pools.sched", sched, 1, level >= Level::SchedPhases),
            ("pools.orch", orch, 1, level >= Level::OrchPhases),
            ("pools.dep_gen", dep_gen, 1, self.dep_gen),
            ("pools.pmu", pmu, 1, self.pmu.is_some()),
            ("pools.scope_stats", scope_stats, 1, self.scope_stats),
            ("pools.dump", args, 1, self.dumps()),
        ] {
            if on {
                Self::check_buffers(field, buffers, least)?;
            }
        }
        if self.dumps() {
            Self::check_arena(self.dump_arena_bytes)?;
        }
        if self.dumps() && self.dump_budget == DumpBudget::Rate(0) {
            return Err(ConfigError::new("dump_budget", self.dump_budget, dump::budget::ACCEPTED));
        }
        Ok(())
    }

    /// Whether arguments are dumped.
    pub fn dumps(&self) -> bool {
        self.dump_args != DumpLevel::Off
    }

    /// The same with every switch off.
    #[must_use]
    pub fn without_switches(self) -> Self {
        DfxConfig {
            chip_swimlane: Level::Disabled,
            dep_gen: false,
            pmu: None,
            scope_stats: false,
            dump_args: DumpLevel::Off,
            ..self
        }
    }

    /// Whether any switch is on.
    pub fn any(&self) -> bool {
        self.chip_swimlane != Level::Disabled
            || self.dep_gen
            || self.pmu.is_some()
            || self.scope_stats
            || self.dumps()
    }

    /// The PMU event type from its number, and whether it had to be replaced: an unknown one that is not 0 becomes
    /// `PIPE_UTILIZATION`.
    pub fn pmu_event(number: u32) -> (Option<EventType>, bool) {
        match (number, EventType::from_raw(number)) {
            (0, _) => (None, false),
            (_, Some(event)) => (Some(event), false),
            (_, None) => (Some(EventType::PipeUtilization), true),
        }
    }

    /// What the device is told about waiting.
    pub fn stall_budget(&self) -> Budget {
        let ms = |d: Duration| d.as_millis().min(u128::from(u64::MAX)) as u64;
        let fitting = Budget::within(ms(self.timeouts.scheduler), ms(self.timeouts.op_execute));
        match self.backpressure {
            Backpressure::Drop => Budget { wait_ms: 0, ..fitting },
            Backpressure::Block => Budget { wait_ms: 30_000, total_ms: u16::MAX },
            Backpressure::Lane | Backpressure::Global => fitting,
        }
    }
}

/// The board that a session records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Board {
    /// Which platform.
    pub platform: Platform,
    /// Cores in use, in core order: `true` for AIC, `false` for AIV.
    pub core_is_aic: Vec<bool>,
    /// AICPU threads in use; the last one orchestrates.
    pub aicpu_threads: u32,
}

impl Board {
    /// Cores in use.
    pub fn cores(&self) -> u32 {
        self.core_is_aic.len() as u32
    }

    /// The platform's numbers.
    pub fn geometry(&self) -> &'static Geometry {
        Geometry::of(self.platform)
    }

    /// Checks the counts against the platform.
    ///
    /// # Errors
    /// When there is no core, or more cores or threads than the platform has.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let geometry = self.geometry();
        if self.cores() == 0 || self.cores() > geometry.max_cores {
            return Err(ConfigError::new("cores", self.cores(), format!("1 to {}", geometry.max_cores)));
        }
        if self.aicpu_threads == 0 || self.aicpu_threads > geometry.max_threads {
            return Err(ConfigError::new(
                "aicpu_threads",
                self.aicpu_threads,
                format!("1 to {}", geometry.max_threads),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: DfxConfig) -> String {
        config.validate().expect_err("out of bounds").to_string()
    }

    #[test]
    fn sizes_that_cannot_be_had_are_refused_and_the_largest_and_smallest_are_not() {
        let on = DfxConfig { dump_args: DumpLevel::Full, ..DfxConfig::default() };
        for arena in [MIN_ARENA_BYTES, MAX_ARENA_BYTES] {
            DfxConfig { dump_arena_bytes: arena, ..on.clone() }.validate().unwrap();
        }
        for arena in [MIN_ARENA_BYTES - 64, MIN_ARENA_BYTES + 1, MAX_ARENA_BYTES + 64, u64::MAX - 63] {
            let message = refused(DfxConfig { dump_arena_bytes: arena, ..on.clone() });
            assert!(message.contains(&format!("dump_arena_bytes: {arena} ")), "{message}");
        }
        let buffers = |dump| DfxConfig { pools: PoolSizes { dump, ..PoolSizes::default() }, ..on.clone() };
        for most in [1, MAX_BUFFERS] {
            buffers(most).validate().unwrap();
        }
        for none in [0, MAX_BUFFERS + 1, u32::MAX] {
            let message = refused(buffers(none));
            assert!(message.contains(&format!("pools.dump: {none} ")), "{message}");
        }
    }
}
