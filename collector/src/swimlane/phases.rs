//! Scheduler phases and orchestrator submits. Hot and cold paths are apart as in [`tasks`](super::tasks).

use super::{NO_THREAD, SchedPhase, Swimlane};
use crate::abi::swimlane::{SchedPhaseKind, SchedPhaseRecord};
use crate::clock::Clock;
use crate::fence;
use crate::sync::Ordering::Relaxed;

impl<C: Clock> Swimlane<C> {
    /// Records a scheduler phase of `thread` (level ≥ 3).
    ///
    /// # Safety
    /// One caller per thread at a time (see the type).
    #[inline]
    pub unsafe fn record_sched_phase(&self, thread: u32, phase: &SchedPhase) {
        // SAFETY: passed on.
        unsafe { self.record_sched_phase_with(thread, || *phase) }
    }

    /// [`record_sched_phase`](Self::record_sched_phase) for a caller that has yet to put the phase together: it is asked
    /// for only when it will be recorded.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn record_sched_phase_with(&self, thread: u32, phase: impl FnOnce() -> SchedPhase) {
        let record = move || {
            let phase = phase();
            SchedPhaseRecord {
                start_time: phase.start,
                end_time: phase.end,
                loop_iter: phase.loop_iter,
                kind: phase.kind as u32,
                tasks_processed: phase.tasks,
                phase_data: [phase.pop_hit, phase.pop_miss],
                shared_depth_at_start: phase.depth_start,
                shared_depth_at_end: phase.depth_end,
                _pad: [0; 4],
            }
        };
        // SAFETY: passed on.
        unsafe { self.push_sched(thread, record) }
    }

    /// Marks that a task without a kernel retired on `thread` at tick `at` (level ≥ 3).
    ///
    /// # Safety
    /// One caller per thread at a time (see the type).
    pub unsafe fn record_dummy_task(&self, thread: u32, at: u64, loop_iter: u32, task_id: u64) {
        // SAFETY: passed on.
        unsafe {
            self.push_sched(thread, || marker(SchedPhaseKind::DummyTask, at, at, loop_iter, task_id, 1))
        }
    }

    /// Marks that a task whose predicate was false retired on `thread` at tick `at` (level ≥ 3).
    ///
    /// # Safety
    /// One caller per thread at a time (see the type).
    pub unsafe fn record_predicated_skip(&self, thread: u32, at: u64, loop_iter: u32, task_id: u64) {
        // SAFETY: passed on.
        unsafe {
            self.push_sched(thread, || marker(SchedPhaseKind::PredicatedSkip, at, at, loop_iter, task_id, 1))
        }
    }

    /// Records that `thread` made the `nodes` nodes of graph task `task_id` (ticks; level ≥ 3).
    ///
    /// # Safety
    /// One caller per thread at a time (see the type).
    pub unsafe fn record_graph_prepare(
        &self,
        thread: u32,
        start: u64,
        end: u64,
        loop_iter: u32,
        task_id: u64,
        nodes: u32,
    ) {
        // SAFETY: passed on.
        unsafe {
            self.push_sched(thread, || {
                marker(SchedPhaseKind::GraphPrepare, start, end, loop_iter, task_id, nodes)
            })
        }
    }

    /// # Safety
    /// One caller per thread at a time.
    #[inline(always)]
    unsafe fn push_sched(&self, thread: u32, record: impl FnOnce() -> SchedPhaseRecord) {
        if thread >= self.open(&self.sched_threads) {
            return Self::no_phase_lane(thread, self);
        }
        // SAFETY: what is open is in range, one caller, and the slot is the lane's; the padding stays unwritten. The
        // references cover the phase lane alone, not the thread's queue. The end, which says that the record is whole (see
        // `record_lane`), comes last.
        unsafe {
            let lane = &raw mut (*self.thread(thread)).sched;
            let row = (*lane).next();
            let record = record();
            (&raw mut (*row).start_time).write(record.start_time);
            (&raw mut (*row).loop_iter).write(record.loop_iter);
            (&raw mut (*row).kind).write(record.kind);
            (&raw mut (*row).tasks_processed).write(record.tasks_processed);
            (&raw mut (*row).phase_data[0]).write(record.phase_data[0]);
            (&raw mut (*row).phase_data[1]).write(record.phase_data[1]);
            (&raw mut (*row).shared_depth_at_start).write(record.shared_depth_at_start);
            (&raw mut (*row).shared_depth_at_end).write(record.shared_depth_at_end);
            fence::in_order();
            (&raw mut (*row).end_time).write(record.end_time);
            if !(*lane).advance(row) {
                Self::sched_group(thread, self);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn sched_group(thread: u32, this: &Self) {
        // SAFETY: open and in range, one caller; the lane and the queue are apart.
        unsafe {
            let state = this.thread(thread);
            if (*state).sched.went_aside(&raw mut (*state).dry) {
                Self::sched_dry(thread, this)
            } else if (*state).sched.group() {
                Self::sched_close(thread, this)
            }
        }
    }

    /// The record that was just written found no buffer: it is in `dry`.
    #[cold]
    #[inline(never)]
    unsafe fn sched_dry(thread: u32, this: &Self) {
        // SAFETY: as above.
        unsafe {
            let state = this.thread(thread);
            let record = (*state).dry;
            if (*state).sched.reopen(this.port(thread)) {
                this.push_sched(thread, || record);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn sched_close(thread: u32, this: &Self) {
        // SAFETY: as above.
        unsafe {
            let state = this.thread(thread);
            (*state).sched.close(this.port(thread));
            (*state).sched.park(&raw mut (*state).dry);
        }
    }

    /// Counts a thread number that no thread of the platform has. A thread without a lane is no mistake: its level or
    /// its role leaves it without.
    #[cold]
    #[inline(never)]
    pub(super) fn no_phase_lane(thread: u32, this: &Self) {
        if this.open(&this.sched_threads) == 0 {
            return;
        }
        // SAFETY: only `init` writes the cell, while nothing else runs.
        let threads = unsafe { (*this.launch.get()).layout.queue.threads };
        if thread >= threads {
            this.misuse();
        }
    }

    /// Names the AICPU thread that orchestrates; its ready queue carries the orchestrator's buffers.
    pub fn set_orch_thread(&self, thread: u32) {
        self.orch_thread.store(thread, Relaxed);
    }

    /// Records one submit of the orchestrator (ticks; level ≥ 4).
    ///
    /// # Safety
    /// Called by the orchestrator thread only.
    #[inline]
    pub unsafe fn record_orch_phase(&self, start: u64, end: u64, task_id: u64, submit_idx: u32) {
        // SAFETY: only the orchestrator comes here; a closed lane has no slot, and a slot is the lane's. The end comes
        // last, as above.
        unsafe {
            let lane = self.orch.get();
            let row = (*lane).next();
            if row.is_null() {
                return Self::orch_first(start, end, task_id, submit_idx, self);
            }
            (&raw mut (*row).start_time).write(start);
            (&raw mut (*row).task_id).write(task_id);
            (&raw mut (*row).submit_idx).write(submit_idx);
            fence::in_order();
            (&raw mut (*row).end_time).write(end);
            if !(*lane).advance(row) {
                Self::orch_group(self);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn orch_first(start: u64, end: u64, task_id: u64, submit_idx: u32, this: &Self) {
        if this.open(&this.orch_open) != 0 && this.orch_thread.load(Relaxed) != NO_THREAD {
            // SAFETY: open, and only the orchestrator comes here.
            unsafe { Self::orch_dry(start, end, task_id, submit_idx, this) }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn orch_dry(start: u64, end: u64, task_id: u64, submit_idx: u32, this: &Self) {
        // SAFETY: as above.
        unsafe {
            if (*this.orch.get()).reopen(this.port(this.orch_thread.load(Relaxed))) {
                this.record_orch_phase(start, end, task_id, submit_idx);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn orch_group(this: &Self) {
        // SAFETY: as above.
        if unsafe { (*this.orch.get()).group() } {
            // SAFETY: as above.
            unsafe { Self::orch_close(this) }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn orch_close(this: &Self) {
        // SAFETY: as above.
        unsafe { (*this.orch.get()).close(this.port(this.orch_thread.load(Relaxed))) }
    }
}

fn marker(
    kind: SchedPhaseKind,
    start: u64,
    end: u64,
    loop_iter: u32,
    task_id: u64,
    tasks: u32,
) -> SchedPhaseRecord {
    SchedPhaseRecord {
        start_time: start,
        end_time: end,
        loop_iter,
        kind: kind as u32,
        tasks_processed: tasks,
        phase_data: [task_id as u32, (task_id >> 32) as u32],
        ..Default::default()
    }
}
