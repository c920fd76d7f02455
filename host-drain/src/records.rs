//! What the host holds of a swimlane run until it is exported.
//!
//! One store per lane, one chunk per delivered buffer, each chunk exactly as long as the buffer was full. A delivery
//! costs one allocation and one copy of its own records, whatever was delivered before, so that the work is linear in
//! the records. Records that the shared memory pads are held without the pad.
//!
//! Promise: a lane yields its records in the order in which its producer wrote them, even if its buffers came out of
//! order (recovered after an abnormal end, or reordered in a ready queue): chunks are kept sorted by the buffer's
//! sequence number, and chunks of equal number in the order of their delivery.

use dfx_collector::abi::swimlane::{CoreRecord, OrchPhaseRecord, SchedPhaseRecord, TaskRecord};
use std::fmt;

/// An AICPU task record without its pad: 24 bytes instead of 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskRow {
    /// When the task was written to the core, in ticks.
    pub dispatch: u64,
    /// When AICPU saw it complete, in ticks.
    pub finish: u64,
    /// The token, the per-core dispatch number.
    pub token: u32,
}

impl From<&TaskRecord> for TaskRow {
    fn from(r: &TaskRecord) -> Self {
        TaskRow { dispatch: r.dispatch_time, finish: r.finish_time, token: r.reg_task_id }
    }
}

/// A scheduler phase record without its pad: 48 bytes instead of 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SchedRow {
    /// In ticks.
    pub start: u64,
    /// In ticks.
    pub end: u64,
    /// Which turn of the scheduler's loop.
    pub loop_iter: u32,
    /// The number of a [`SchedPhaseKind`](dfx_collector::abi::swimlane::SchedPhaseKind); kept as it came, known or not.
    pub kind: u32,
    /// Tasks handled (for `GraphPrepare`: nodes).
    pub tasks_processed: u32,
    /// For `Dispatch`: pop hits and misses. For the markers and `GraphPrepare`: the task id's low and high half.
    pub phase_data: [u32; 2],
    /// Ready-queue depths (AIC, AIV, MIX) at the start, in tasks.
    pub shared_at_start: [i16; 3],
    /// Ready-queue depths (AIC, AIV, MIX) at the end, in tasks.
    pub shared_at_end: [i16; 3],
}

impl SchedRow {
    /// The task id in [`phase_data`](Self::phase_data), for the kinds that carry one.
    #[must_use]
    pub const fn task_id(&self) -> u64 {
        (self.phase_data[1] as u64) << 32 | self.phase_data[0] as u64
    }
}

impl From<&SchedPhaseRecord> for SchedRow {
    fn from(r: &SchedPhaseRecord) -> Self {
        SchedRow {
            start: r.start_time,
            end: r.end_time,
            loop_iter: r.loop_iter,
            kind: r.kind,
            tasks_processed: r.tasks_processed,
            phase_data: r.phase_data,
            shared_at_start: r.shared_depth_at_start,
            shared_at_end: r.shared_depth_at_end,
        }
    }
}

const _: () = {
    assert!(size_of::<TaskRow>() == 24 && size_of::<CoreRecord>() == 32);
    assert!(size_of::<SchedRow>() == 48 && size_of::<OrchPhaseRecord>() == 32);
};

/// Which of the swimlane's four streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Stream {
    /// AICore start and end; a lane is a core.
    Core,
    /// AICPU dispatch and finish; a lane is a core.
    Task,
    /// Scheduler phases; a lane is an AICPU thread.
    Sched,
    /// Orchestrator submits; a lane is an AICPU thread (0 in practice).
    Orch,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stream::Core => "AICore task",
            Stream::Task => "AICPU task",
            Stream::Sched => "scheduler phase",
            Stream::Orch => "orchestrator phase",
        })
    }
}

/// A delivery named a lane that the run does not have. Nothing was kept of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{stream} buffer {seq} names lane {lane}, but the run has {lanes}: its {records} records are not kept; charge them to \
     the ledger as corrupt"
)]
pub struct NoSuchLane {
    /// Whose stream.
    pub stream: Stream,
    /// The lane named.
    pub lane: usize,
    /// Lanes that the stream has.
    pub lanes: usize,
    /// The buffer's sequence number.
    pub seq: u32,
    /// Records in the delivery.
    pub records: usize,
}

#[derive(Debug)]
struct Chunk<R> {
    seq: u32,
    rows: Box<[R]>,
}

#[derive(Debug)]
struct Lane<R> {
    chunks: Vec<Chunk<R>>,
    rows: u64,
}

impl<R> Lane<R> {
    const EMPTY: Self = Lane { chunks: Vec::new(), rows: 0 };

    fn insert(&mut self, seq: u32, rows: Box<[R]>) {
        if rows.is_empty() {
            return;
        }
        self.rows += rows.len() as u64;
        let chunk = Chunk { seq, rows };
        if self.chunks.last().is_none_or(|last| last.seq <= seq) {
            self.chunks.push(chunk);
        } else {
            let at = self.chunks.partition_point(|c| c.seq <= seq);
            self.chunks.insert(at, chunk);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &R> + '_ {
        self.chunks.iter().flat_map(|c| c.rows.iter())
    }
}

/// Chunks per lane, in the order of their buffers.
#[derive(Debug)]
pub(crate) struct Lanes<R>(Vec<Lane<R>>);

impl<R> Lanes<R> {
    pub(crate) fn new(lanes: usize) -> Self {
        Lanes((0..lanes).map(|_| Lane::EMPTY).collect())
    }

    fn push<'a, T: 'a>(
        &mut self,
        stream: Stream,
        lane: usize,
        seq: u32,
        records: &'a [T],
        row: impl Fn(&'a T) -> R,
    ) -> Result<(), NoSuchLane> {
        let lanes = self.0.len();
        let Some(store) = self.0.get_mut(lane) else {
            return Err(NoSuchLane { stream, lane, lanes, seq, records: records.len() });
        };
        store.insert(seq, records.iter().map(row).collect());
        Ok(())
    }

    /// Keeps a chunk; `false` when there is no such lane.
    pub(crate) fn insert(&mut self, lane: usize, seq: u32, rows: Box<[R]>) -> bool {
        self.0.get_mut(lane).map(|lane| lane.insert(seq, rows)).is_some()
    }

    /// The rows of all lanes, lane by lane.
    pub(crate) fn all(&self) -> impl Iterator<Item = &R> + '_ {
        self.0.iter().flat_map(Lane::iter)
    }

    fn iter(&self, lane: usize) -> impl Iterator<Item = &R> + '_ {
        self.0.get(lane).into_iter().flat_map(Lane::iter)
    }

    /// The rows of buffer `seq` of `lane`, if exactly one of that number was kept.
    fn buffer(&self, lane: usize, seq: u32) -> Option<&[R]> {
        let chunks = &self.0.get(lane)?.chunks;
        let first = chunks.partition_point(|c| c.seq < seq);
        let only = chunks.get(first).filter(|c| c.seq == seq)?;
        chunks.get(first + 1).is_none_or(|next| next.seq != seq).then_some(&only.rows)
    }

    fn rows(&self, lane: usize) -> u64 {
        self.0.get(lane).map_or(0, |l| l.rows)
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|l| l.rows).sum()
    }

    fn bytes(&self) -> usize {
        let chunk = |c: &Chunk<R>| size_of_val::<[R]>(&c.rows);
        let lane = |l: &Lane<R>| {
            l.chunks.iter().map(chunk).sum::<usize>() + l.chunks.capacity() * size_of::<Chunk<R>>()
        };
        self.0.iter().map(lane).sum::<usize>() + self.0.capacity() * size_of::<Lane<R>>()
    }
}

/// The records of one swimlane run, per lane.
#[derive(Debug)]
pub struct SwimlaneRecords {
    core: Lanes<CoreRecord>,
    task: Lanes<TaskRow>,
    sched: Lanes<SchedRow>,
    orch: Lanes<OrchPhaseRecord>,
}

impl SwimlaneRecords {
    /// An empty store for `cores` cores and `threads` AICPU threads.
    #[must_use]
    pub fn new(cores: usize, threads: usize) -> Self {
        SwimlaneRecords {
            core: Lanes::new(cores),
            task: Lanes::new(cores),
            sched: Lanes::new(threads),
            orch: Lanes::new(threads),
        }
    }

    /// Cores that the store has lanes for.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.core.0.len()
    }

    /// AICPU threads that the store has lanes for.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.sched.0.len()
    }

    /// Keeps the records of core buffer `seq` of core `core`.
    pub fn push_core(&mut self, core: usize, seq: u32, records: &[CoreRecord]) -> Result<(), NoSuchLane> {
        self.core.push(Stream::Core, core, seq, records, |r| *r)
    }

    /// Keeps the records of task buffer `seq` of core `core`.
    pub fn push_task(&mut self, core: usize, seq: u32, records: &[TaskRecord]) -> Result<(), NoSuchLane> {
        self.task.push(Stream::Task, core, seq, records, TaskRow::from)
    }

    /// Keeps the records of scheduler-phase buffer `seq` of AICPU thread `thread`.
    pub fn push_sched(
        &mut self,
        thread: usize,
        seq: u32,
        records: &[SchedPhaseRecord],
    ) -> Result<(), NoSuchLane> {
        self.sched.push(Stream::Sched, thread, seq, records, SchedRow::from)
    }

    /// Keeps the records of orchestrator buffer `seq` of lane `lane`.
    pub fn push_orch(
        &mut self,
        lane: usize,
        seq: u32,
        records: &[OrchPhaseRecord],
    ) -> Result<(), NoSuchLane> {
        self.orch.push(Stream::Orch, lane, seq, records, |r| *r)
    }

    /// The core rows of `core` in the order of their buffers; none for a core that there is not.
    pub fn core_rows(&self, core: usize) -> impl Iterator<Item = &CoreRecord> + '_ {
        self.core.iter(core)
    }

    /// The task rows of `core` in the order of their buffers.
    pub fn task_rows(&self, core: usize) -> impl Iterator<Item = &TaskRow> + '_ {
        self.task.iter(core)
    }

    /// The scheduler phases of `thread` in the order of their buffers.
    pub fn sched_rows(&self, thread: usize) -> impl Iterator<Item = &SchedRow> + '_ {
        self.sched.iter(thread)
    }

    /// The submits of orchestrator lane `lane` in the order of their buffers.
    pub fn orch_rows(&self, lane: usize) -> impl Iterator<Item = &OrchPhaseRecord> + '_ {
        self.orch.iter(lane)
    }

    /// The task rows of `core` from its buffer `seq`; `None` unless exactly one of that number was kept.
    pub(crate) fn task_buffer(&self, core: usize, seq: u32) -> Option<&[TaskRow]> {
        self.task.buffer(core, seq)
    }

    /// The scheduler phases of `thread` from its buffer `seq`, likewise.
    pub(crate) fn sched_buffer(&self, thread: usize, seq: u32) -> Option<&[SchedRow]> {
        self.sched.buffer(thread, seq)
    }

    /// The submits of orchestrator lane `lane` from its buffer `seq`, likewise.
    pub(crate) fn orch_buffer(&self, lane: usize, seq: u32) -> Option<&[OrchPhaseRecord]> {
        self.orch.buffer(lane, seq)
    }

    /// Rows held of one lane of a stream.
    #[must_use]
    pub fn lane_rows(&self, stream: Stream, lane: usize) -> u64 {
        match stream {
            Stream::Core => self.core.rows(lane),
            Stream::Task => self.task.rows(lane),
            Stream::Sched => self.sched.rows(lane),
            Stream::Orch => self.orch.rows(lane),
        }
    }

    /// Rows held of a stream, all lanes.
    #[must_use]
    pub fn rows(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Core => self.core.total(),
            Stream::Task => self.task.total(),
            Stream::Sched => self.sched.total(),
            Stream::Orch => self.orch.total(),
        }
    }

    /// Whether nothing is held at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        [Stream::Core, Stream::Task, Stream::Sched, Stream::Orch].into_iter().all(|s| self.rows(s) == 0)
    }

    /// Host memory that the store takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.core.bytes() + self.task.bytes() + self.sched.bytes() + self.orch.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(token: u32) -> CoreRecord {
        CoreRecord { start_time: 1, reg_task_id: token, ..CoreRecord::default() }
    }

    fn tokens(store: &SwimlaneRecords, lane: usize) -> Vec<u32> {
        store.core_rows(lane).map(|r| r.reg_task_id).collect()
    }

    #[test]
    fn buffers_that_come_out_of_order_are_put_in_place() {
        let mut store = SwimlaneRecords::new(2, 1);
        for seq in [2u32, 0, 3, 1] {
            store.push_core(1, seq, &[core(seq * 2), core(seq * 2 + 1)]).unwrap();
        }
        assert_eq!(tokens(&store, 1), (0..8).collect::<Vec<_>>());
        assert!(tokens(&store, 0).is_empty());
        assert_eq!((store.rows(Stream::Core), store.lane_rows(Stream::Core, 1)), (8, 8));
    }

    #[test]
    fn buffers_of_equal_number_stay_in_the_order_of_their_delivery() {
        let mut store = SwimlaneRecords::new(1, 1);
        for (seq, token) in [(5, 50), (7, 70), (5, 51), (7, 71), (5, 52)] {
            store.push_core(0, seq, &[core(token)]).unwrap();
        }
        assert_eq!(tokens(&store, 0), [50, 51, 52, 70, 71]);
    }

    #[test]
    fn a_lane_that_there_is_not_is_refused_and_named() {
        let mut store = SwimlaneRecords::new(2, 1);
        let error = store.push_core(2, 9, &[core(1)]).unwrap_err();
        assert_eq!(error, NoSuchLane { stream: Stream::Core, lane: 2, lanes: 2, seq: 9, records: 1 });
        assert!(error.to_string().contains("AICore task buffer 9 names lane 2, but the run has 2"));
        assert!(store.push_task(usize::MAX, 0, &[]).is_err());
        assert!(store.push_sched(1, 0, &[]).is_err());
        assert!(store.push_orch(1, 0, &[]).is_err());
        assert!(store.is_empty());
        assert_eq!(store.core_rows(99).count(), 0);
    }

    #[test]
    fn rows_take_no_more_memory_than_the_bars_allow() {
        let mut store = SwimlaneRecords::new(1, 1);
        let buffers = if cfg!(miri) { 3 } else { 100 };
        let n = buffers as usize * 1000;
        for seq in 0..buffers {
            store.push_task(0, seq, &[TaskRecord::default(); 1000]).unwrap();
        }
        assert!(store.memory_bytes() <= 40 * n, "{} B per task row", store.memory_bytes() / n);
        let mut store = SwimlaneRecords::new(1, 1);
        let phases = vec![SchedPhaseRecord::default(); 1000];
        for seq in 0..buffers {
            store.push_sched(0, seq, &phases).unwrap();
        }
        assert!(store.memory_bytes() <= 56 * n, "{} B per phase row", store.memory_bytes() / n);
    }

    #[test]
    fn the_store_may_change_threads() {
        fn send<T: Send>(_: T) {}
        send(SwimlaneRecords::new(0, 0));
    }

    #[test]
    fn a_phase_keeps_everything_but_its_pad() {
        let record = SchedPhaseRecord {
            start_time: u64::MAX,
            end_time: 1,
            loop_iter: 2,
            kind: 99,
            tasks_processed: 3,
            phase_data: [4, 5],
            shared_depth_at_start: [-1, 0, i16::MAX],
            shared_depth_at_end: [i16::MIN, 1, 2],
            _pad: [7; 4],
        };
        let mut store = SwimlaneRecords::new(0, 3);
        store.push_sched(2, 0, &[record]).unwrap();
        let row = *store.sched_rows(2).next().unwrap();
        assert_eq!((row.start, row.end, row.loop_iter, row.kind), (u64::MAX, 1, 2, 99));
        assert_eq!((row.tasks_processed, row.task_id()), (3, 5 << 32 | 4));
        assert_eq!((row.shared_at_start, row.shared_at_end), ([-1, 0, i16::MAX], [i16::MIN, 1, 2]));
    }
}
