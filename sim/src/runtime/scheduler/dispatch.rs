//! `dispatch`: ready tasks to free cores; `early_dispatch`: tasks to cores ahead of their producers' end.

use super::super::board::Payload;
use super::super::queues::{Claim, lock};
use super::super::record::AicpuRecorder;
use super::super::shared::{SHAPES, queue_of};
use super::cores::{Core, Held};
use super::{Scheduler, Stamp};
use crate::exec::{ActorId, Cost};
use crate::program::{SUBTASKS, Shape, SubmitId};
use dfx_collector::abi::swimlane::{Level, SchedPhaseKind};
use std::sync::atomic::Ordering;

/// The queue of MIX tasks, which go first: they need the most room.
const MIX: usize = 2;
/// The order in which queues are served.
const ORDER: [usize; SHAPES] = [MIX, 0, 1];
/// Early candidates looked at in one step.
const EARLY_BATCH: u32 = 8;

/// A `dispatch` step under way.
#[derive(Default)]
struct Pass {
    /// Set at the first pop that hit.
    begun: Option<Stamp>,
    written: u32,
}

impl<A: AicpuRecorder> Scheduler<'_, A> {
    /// Idle cores first, for every shape; then second places. True if a task was written.
    pub(super) fn dispatch(&mut self) -> bool {
        if self.shared.drain.active() {
            self.cores.save_none();
            return false;
        }
        let mut pass = Pass::default();
        for queue in ORDER {
            self.places.clear();
            self.places.extend(self.cores.idle(queue));
            self.fill(queue, &mut pass);
            if queue == MIX {
                self.save_a_block();
            }
        }
        for queue in ORDER {
            let spare = self.ready_beyond_elsewhere(queue);
            self.places.clear();
            self.places.extend(self.cores.second(queue).into_iter().take(spare as usize));
            self.fill(queue, &mut pass);
        }
        if let Some(begun) = pass.begun {
            self.end(SchedPhaseKind::Dispatch, begun, pass.written);
            self.share_out();
        }
        pass.begun.is_some()
    }

    /// Fills `places` from queue `queue` while both last.
    fn fill(&mut self, queue: usize, pass: &mut Pass) {
        let mut next = 0;
        while next < self.places.len() && !self.dead {
            let room = (self.places.len() - next) as u32;
            let depths = self.depths();
            let shared = self.shared;
            let Some(claim) = shared.ready[queue].claim(room, &shared.plan, &shared.states) else {
                self.pop_miss += 1;
                return;
            };
            self.pop_hit += 1;
            if pass.begun.is_none() {
                pass.begun = Some(self.begin_at(depths));
            }
            for block in claim.first_block..claim.first_block + claim.blocks {
                pass.written += self.place(claim.unit, block, self.places[next]);
                next += 1;
            }
        }
    }

    /// Blocks in queue `queue` that other schedulers' idle places cannot take.
    fn ready_beyond_elsewhere(&self, queue: usize) -> u32 {
        self.shared.ready[queue].blocks().saturating_sub(self.shared.room_elsewhere(queue, self.number))
    }

    /// MIX tasks that find no idle block would starve behind single-core tasks: one block is let run empty for them.
    fn save_a_block(&mut self) {
        if self.shared.ready[MIX].entries() == 0 || !self.cores.idle(MIX).is_empty() {
            self.cores.save_none();
        } else {
            self.cores.save_a_block();
        }
    }

    /// Wakes sleeping schedulers that can take what is left in the queues.
    fn share_out(&self) {
        for queue in ORDER {
            let blocks = self.shared.ready[queue].blocks();
            if blocks > 0 {
                self.shared.wake_for(self.exec, queue, blocks, Some(self.number));
            }
        }
    }

    /// Tells the others how much room is here.
    pub(super) fn publish_room(&self) {
        let room = std::array::from_fn(|queue| self.cores.idle(queue).len());
        let second = std::array::from_fn(|queue| self.cores.second(queue).len());
        self.shared.seats[self.number as usize].publish(room, second);
    }

    /// Whether a dispatch step would find something to write.
    pub(super) fn can_dispatch(&self) -> bool {
        let has_place = |queue: usize| {
            self.shared.ready[queue].entries() > 0
                && (!self.cores.idle(queue).is_empty()
                    || !self.cores.second(queue).is_empty() && self.ready_beyond_elsewhere(queue) > 0)
        };
        !self.shared.drain.active() && (0..SHAPES).any(has_place)
    }

    /// Writes block `block` of `unit` to `place`: a core, or the first core of a block for a MIX unit. Returns the register writes.
    pub(super) fn place(&mut self, unit: u32, block: u32, place: usize) -> u32 {
        let facts = self.shared.plan.unit(unit);
        if facts.shape != Shape::Mix {
            let subtask = facts.subtasks.trailing_zeros() as u8;
            return self.write(place, Payload { unit, block, subtask, gated: false });
        }
        self.cores.hold_block(place, facts.subtasks.count_ones());
        let mut written = 0;
        for subtask in (0..SUBTASKS).filter(|subtask| facts.subtasks & 1 << subtask != 0) {
            let payload = Payload { unit, block, subtask: subtask as u8, gated: false };
            written += self.write(place + subtask, payload);
        }
        written
    }

    /// Writes to core `index`'s registers.
    fn write(&mut self, index: usize, payload: Payload) -> u32 {
        if self.shared.faults.aicpu_dies == Some(SubmitId(self.shared.plan.unit(payload.unit).submit)) {
            self.dead = true;
            return 0;
        }
        // At most one dispatch of a core is not acknowledged: buffer rotation is correct because of it.
        debug_assert!(self.cores.takes(index), "two unacknowledged dispatches: {:?}", self.cores.list[index]);
        let core = &mut self.cores.list[index];
        let id = core.id;
        let (token, turn) = core.next();
        if self.level >= Level::AicoreTiming {
            self.recorder.on_dispatch(id, token);
        }
        let dispatch = if self.level >= Level::AicpuTiming { self.exec.now_aicpu() } else { 0 };
        let Payload { unit, subtask, gated, .. } = payload;
        let held = Held { unit, subtask, token, dispatch, acknowledged: false, gated };
        self.cores.put(index, held);
        self.exec.spend(self.me, Cost::Dispatch);
        self.shared.board.registers(id).write(turn, payload, token);
        self.exec.wake(ActorId::Core(id));
        self.shared.control.moved();
        1
    }

    /// Writes tasks whose producers are all under way to cores with a free place, behind their doorbells. Ready tasks of
    /// the same shape have precedence.
    pub(super) fn early_dispatch(&mut self) -> bool {
        let mut begun = None;
        let mut written = 0;
        for _ in 0..EARLY_BATCH {
            let Some(queue) = self.early_queue() else { break };
            let Some(unit) = self.shared.early.queues[queue].pop() else { break };
            if begun.is_none() {
                begun = Some(self.begin());
            }
            written += self.write_early(unit, queue);
        }
        if let Some(begun) = begun.filter(|_| written > 0) {
            self.end(SchedPhaseKind::EarlyDispatch, begun, written);
        }
        written > 0
    }

    /// A queue with an early candidate and a place for it here.
    fn early_queue(&self) -> Option<usize> {
        if self.shared.drain.active() || self.dead {
            return None;
        }
        (0..2).find(|&queue| {
            self.shared.early.queues[queue].len() > 0
                && self.shared.ready[queue].entries() == 0
                && self.early_place(queue).is_some()
        })
    }

    fn early_place(&self, queue: usize) -> Option<usize> {
        self.cores.idle(queue).first().or_else(|| self.cores.second(queue).first())
    }

    /// Whether an early-dispatch step would find something to write.
    pub(super) fn can_dispatch_early(&self) -> bool {
        self.shared.plan.early && self.early_queue().is_some()
    }

    fn write_early(&mut self, unit: u32, queue: usize) -> u32 {
        let facts = self.shared.plan.unit(unit);
        debug_assert_eq!(queue_of(facts.shape), queue);
        let subtask = facts.subtasks.trailing_zeros() as u8;
        let mut written = 0;
        while let Some(index) = self.early_place(queue) {
            let Some(claim) = self.claim_early(unit, &self.cores.list[index]) else { return written };
            let payload = Payload { unit, block: claim.first_block, subtask, gated: true };
            written += self.write(index, payload);
            if self.dead {
                return written;
            }
        }
        if self.early_left(unit) {
            self.shared.early.queues[queue].push(unit);
            self.shared.wake_for(self.exec, queue, 1, Some(self.number));
        }
        written
    }

    /// Claims one block of `unit` for `core`, unless its door is open (it is in a ready queue then) or none is left.
    fn claim_early(&self, unit: u32, core: &Core) -> Option<Claim> {
        let mut door = lock(&self.shared.early.tasks.get(&unit)?.door);
        let next = &self.shared.states[unit as usize].next_block;
        let first_block = next.load(Ordering::Relaxed);
        if door.open || first_block == self.shared.plan.unit(unit).blocks {
            return None;
        }
        next.store(first_block + 1, Ordering::Relaxed);
        door.waiting.push((core.id, core.coming_token()));
        Some(Claim { unit, first_block, blocks: 1 })
    }

    fn early_left(&self, unit: u32) -> bool {
        let Some(task) = self.shared.early.tasks.get(&unit) else { return false };
        let door = lock(&task.door);
        let claimed = self.shared.states[unit as usize].next_block.load(Ordering::Relaxed);
        !door.open && claimed < self.shared.plan.unit(unit).blocks
    }
}
