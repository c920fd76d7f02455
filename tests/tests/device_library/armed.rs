//! Regions of a session that nobody drains, for a look at what the library leaves in them.

use super::launch::{Host, Plan};
use super::memory::Memory;
use super::runtime::arm;
use dfx_collector::abi::Platform;
use dfx_collector::abi::dep_gen::SubmitRecord;
use dfx_collector::abi::layout::{BufferLayout, DEP_GEN_LANE, DepGenLayout, PMU_LANE_A2A3};
use dfx_collector::abi::pmu::RecordA2a3;
use dfx_host_drain::Session;
use dfx_tests::device_library::Library;
use std::sync::Arc;

/// A session that the device never sees, for its regions.
pub(crate) struct Armed {
    platform: Platform,
    memory: Arc<Memory>,
    pub(crate) session: Session,
    _dir: tempfile::TempDir,
}

impl Armed {
    /// All regions of `plan`, and the library told of them.
    pub(crate) fn new(library: &Library, plan: &Plan) -> Armed {
        let Host { memory, session, dir } = Host::new(library.platform, plan);
        arm(library, plan, &session);
        Armed { platform: library.platform, memory, session, _dir: dir }
    }

    /// Every byte of the session's memory.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        let read = |(at, bytes): (u64, u64)| {
            // SAFETY: the block is live, and nothing writes it meanwhile.
            unsafe { std::slice::from_raw_parts(at as *const u8, bytes as usize) }.to_vec()
        };
        self.memory.blocks().into_iter().map(read).collect()
    }

    fn word<T: Copy>(&self, at: u64) -> T {
        // SAFETY: in the session's memory, and nothing writes it meanwhile.
        unsafe { (at as *const T).read_unaligned() }
    }

    /// The records of dep_gen's active buffer.
    pub(crate) fn submits(&self) -> Vec<SubmitRecord> {
        let base = self.session.dep_gen_region().expect("it captures");
        let state = base.0 + DepGenLayout::of(self.platform).lane() as u64;
        let buffer: u64 = self.word(state + DEP_GEN_LANE.current_ptr as u64);
        let count: u32 = self.word(buffer + BufferLayout::dep_gen().count as u64);
        let records = buffer + BufferLayout::dep_gen().records as u64;
        let size = size_of::<SubmitRecord>() as u64;
        (0..u64::from(count)).map(|n| self.word(records + n * size)).collect()
    }

    /// The first record of the active buffer of `core` (a2a3).
    pub(crate) fn pmu_record(&self, core: u32) -> RecordA2a3 {
        let region = self.session.pmu_region().expect("it counts");
        let state = region.base.0 + region.layout.lane(core) as u64;
        let buffer: u64 = self.word(state + PMU_LANE_A2A3.current_ptr as u64);
        assert_eq!(self.word::<u32>(buffer + BufferLayout::pmu(self.platform).count as u64), 1);
        self.word(buffer + BufferLayout::pmu(self.platform).records as u64)
    }
}
