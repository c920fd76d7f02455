//! The collectors of this process. They outlive a launch, as the library does: an init forgets what the last launch left.

use crate::clock::DeviceClock;
use crate::registers::{NativeRegisters, RuntimeRegisters};
use dfx_collector::abi::Geometry;
use dfx_collector::abi::swimlane::SchedPhaseKind;
use dfx_collector::args_dump::{ArgsDump, Tables};
use dfx_collector::dep_gen::DepGen;
use dfx_collector::pmu::Pmu;
use dfx_collector::scope_stats::ScopeStats;
use dfx_collector::swimlane::Swimlane;

#[cfg(dfx_platform = "a2a3")]
pub(crate) const GEOMETRY: &Geometry = &Geometry::A2A3;
#[cfg(dfx_platform = "a5")]
pub(crate) const GEOMETRY: &Geometry = &Geometry::A5;

pub(crate) static SWIMLANE: Swimlane<DeviceClock> = Swimlane::new(DeviceClock);
pub(crate) static DUMP: ArgsDump<DeviceClock> = ArgsDump::new(DeviceClock, &TABLES);
pub(crate) static DEP_GEN: DepGen<DeviceClock> = DepGen::new(DeviceClock);
pub(crate) static SCOPES: ScopeStats<DeviceClock> = ScopeStats::new(DeviceClock);
/// The PMU of the drop-in, which reaches registers through the runtime.
pub(crate) static RUNTIME_PMU: Pmu<DeviceClock, RuntimeRegisters> = Pmu::new(DeviceClock);
/// The PMU of the `dfx_*` functions: of its own, as its registers are reached another way.
pub(crate) static NATIVE_PMU: Pmu<DeviceClock, NativeRegisters> = Pmu::new(DeviceClock);

/// Zeroes: they take no room in the image, and memory only where a mark is set.
static TABLES: Tables = Tables::NEW;

/// The kinds that there are, a bit each.
const SCHED_KINDS: u32 = {
    let (mut set, mut i) = (0, 0);
    while i < SchedPhaseKind::ALL.len() {
        set |= 1 << SchedPhaseKind::ALL[i] as u32;
        i += 1;
    }
    set
};

/// The kind with number `raw`, if there is one: in two comparisons.
#[inline(always)]
pub(crate) fn sched_phase_kind(raw: u32) -> Option<SchedPhaseKind> {
    if raw >= u32::BITS || SCHED_KINDS >> raw & 1 == 0 {
        return None;
    }
    // SAFETY: `SCHED_KINDS` has the numbers of the kinds and no other.
    Some(unsafe { core::mem::transmute::<u32, SchedPhaseKind>(raw) })
}
