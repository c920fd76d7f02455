//! Records that say who wrote them: every field of a record is a function of its lane and serial number.

use dfx_collector::abi::swimlane::{
    BufferKind, CoreRecord, OrchPhaseRecord, SchedPhaseKind, SchedPhaseRecord, TaskRecord,
};
use dfx_collector::swimlane::SchedPhase;

/// A lane: what it records, and its core or thread.
pub type LaneKey = (BufferKind, u32);

/// The first time stamp of record `serial` of `lane`: never 0.
pub fn stamp(lane: LaneKey, serial: u32) -> u64 {
    (lane.0 as u64) << 56 | u64::from(lane.1) << 40 | (u64::from(serial) + 1)
}

/// The second one.
pub fn scramble(stamp: u64) -> u64 {
    stamp.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17)
}

/// The serial number in a stamp of `lane`, if it is one.
pub fn serial(lane: LaneKey, stamp: u64) -> Option<u32> {
    let serial = u32::try_from((stamp & 0xFF_FFFF_FFFF).checked_sub(1)?).ok()?;
    (self::stamp(lane, serial) == stamp).then_some(serial)
}

/// A record as the host read it.
pub trait Row: Copy {
    /// Its serial number in `lane`; `None`: torn or another lane's.
    fn check(&self, lane: LaneKey) -> Option<u32>;
    /// Whether anything was written here.
    fn present(&self) -> bool;
}

impl Row for CoreRecord {
    fn check(&self, lane: LaneKey) -> Option<u32> {
        let serial = serial(lane, self.start_time)?;
        let whole = self.end_time == scramble(self.start_time)
            && self.task_token_raw == scramble(self.end_time)
            && self.receive_to_start_cycles == serial % 1000;
        whole.then_some(serial)
    }
    fn present(&self) -> bool {
        self.start_time != 0
    }
}

impl Row for TaskRecord {
    fn check(&self, lane: LaneKey) -> Option<u32> {
        let serial = serial(lane, self.dispatch_time)?;
        (self.finish_time == scramble(self.dispatch_time)).then_some(serial)
    }
    fn present(&self) -> bool {
        true
    }
}

/// The scheduler phase number `serial` of `thread`.
pub fn phase(thread: u32, serial: u32) -> SchedPhase {
    let start = stamp((BufferKind::AicpuSchedPhase, thread), serial);
    SchedPhase {
        kind: SchedPhaseKind::ALL[serial as usize % SchedPhaseKind::ALL.len()],
        start,
        end: scramble(start),
        loop_iter: serial ^ 0x55,
        tasks: serial.wrapping_mul(3),
        pop_hit: serial.wrapping_mul(5),
        pop_miss: serial.wrapping_mul(7),
        depth_start: [serial as i16, 1, -1],
        depth_end: [2, serial as i16, -2],
    }
}

impl Row for SchedPhaseRecord {
    fn check(&self, lane: LaneKey) -> Option<u32> {
        let serial = serial(lane, self.start_time)?;
        let want = phase(lane.1, serial);
        let whole = self.end_time == want.end
            && self.loop_iter == want.loop_iter
            && self.kind == want.kind as u32
            && self.tasks_processed == want.tasks
            && self.phase_data == [want.pop_hit, want.pop_miss]
            && self.shared_depth_at_start == want.depth_start
            && self.shared_depth_at_end == want.depth_end;
        whole.then_some(serial)
    }
    fn present(&self) -> bool {
        true
    }
}

impl Row for OrchPhaseRecord {
    fn check(&self, lane: LaneKey) -> Option<u32> {
        let serial = serial(lane, self.start_time)?;
        let whole = self.end_time == scramble(self.start_time)
            && self.task_id == scramble(self.end_time)
            && self.submit_idx == serial;
        whole.then_some(serial)
    }
    fn present(&self) -> bool {
        true
    }
}
