//! Benchmarks of pto-dfx, side by side with peers: what the benches and the instruction counter share.

pub mod dump;
pub mod lanes;

use dfx_collector::abi::swimlane::Level;
use dfx_collector::clock::Clock;
use dfx_collector::swimlane::{CoreRecorder, Swimlane};
use dfx_mock::drain::MockHost;
use dfx_mock::region::{Region, Shape};
use std::sync::Arc;

/// A clock that costs nothing: the figures are without clock reads.
#[derive(Clone, Copy, Debug)]
pub struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> u64 {
        0
    }
    fn relax(&self) {}
}

/// A region at `level` with `cores` cores and its host, `swimlane` initialised on it. The host must be stepped often
/// enough that no lane runs dry.
pub fn launch(swimlane: &Swimlane<NoClock>, level: Level, cores: u32) -> (Arc<Region>, MockHost) {
    let shape = Shape { core_buffers: 4, task_buffers: 4, phase_buffers: 3, ..Shape::small(level, cores) };
    let region = Arc::new(Region::new(shape));
    let mut host = MockHost::new(&region);
    host.checks = false;
    host.refill();
    // SAFETY: the region outlives the launch (the caller holds it); nothing else uses `swimlane`.
    unsafe {
        let table = region.table.addr(0);
        swimlane.init(shape.geometry, region.base(), table, cores, Some(0)).expect("a region that fits");
        swimlane.init_phases(1, 1);
    }
    swimlane.set_orch_thread(1);
    (region, host)
}

/// The recorder of `core`.
pub fn recorder(region: &Region, core: u32) -> CoreRecorder {
    // SAFETY: AICPU filled the table; benches make one recorder per core.
    unsafe { CoreRecorder::attach(region.table_entry(core)) }.expect("an initialised region")
}
