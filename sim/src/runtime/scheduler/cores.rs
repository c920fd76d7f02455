//! What a scheduler knows of its cores.

use super::super::board::{Board, next_token};
use super::super::plan::Plan;
use super::super::{StuckState, StuckTask};
use crate::program::{SUBTASKS, SubmitId};

/// A dispatch that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub unit: u32,
    /// Which subtask slot of it.
    pub subtask: u8,
    pub token: u32,
    /// When it was written, in ticks; 0 below level 2.
    pub dispatch: u64,
    pub acknowledged: bool,
    /// Written ahead of its producers' end.
    pub gated: bool,
}

/// One core.
#[derive(Debug)]
pub(super) struct Core {
    pub id: u32,
    pub running: Option<Held>,
    /// Behind `running`; there only once that was acknowledged.
    pub pending: Option<Held>,
    token: u32,
    turn: u32,
}

impl Core {
    /// The next dispatch's token and turn.
    pub(super) fn next(&mut self) -> (u32, u32) {
        let next = (self.token, self.turn);
        self.token = next_token(self.token);
        self.turn = self.turn.wrapping_add(1);
        next
    }

    /// The token that the next dispatch will have.
    pub(super) fn coming_token(&self) -> u32 {
        self.token
    }
}

/// A set of a scheduler's cores, one bit each, by index in [`Cores`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CoreSet(u128);

impl CoreSet {
    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn first(self) -> Option<usize> {
        self.into_iter().next()
    }
}

impl IntoIterator for CoreSet {
    type Item = usize;
    type IntoIter = CoreBits;
    fn into_iter(self) -> CoreBits {
        CoreBits(self.0)
    }
}

/// The indices in a [`CoreSet`], ascending.
pub(super) struct CoreBits(u128);

impl Iterator for CoreBits {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        let index = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (index < u128::BITS).then_some(index as usize)
    }
}

/// Bits of all AIC cores: the first of each block.
const AICS: u128 = {
    let (mut bits, mut at) = (0, 0);
    while at < u128::BITS {
        bits |= 1 << at;
        at += SUBTASKS as u32;
    }
    bits
};

/// A scheduler's cores: block by block, AIC, AIV, AIV.
pub(super) struct Cores {
    pub list: Vec<Core>,
    ids: Vec<u32>,
    all: u128,
    /// Cores with a running task.
    busy: u128,
    /// Cores whose running task was acknowledged and that have nothing pending.
    second: u128,
    /// Cores of blocks that a MIX block holds.
    held: u128,
    /// By local block: rows of the MIX block on it that are still out.
    mix: Vec<u32>,
    /// Cores of a block that takes nothing new, so that it empties for a MIX task.
    saved: u128,
    /// No core gets a second task: on a2a3 a core's PMU counters are one set, which AICPU reads between a task's finish
    /// and the start of the next. A task pending behind it would start in between and be counted with it.
    single: bool,
}

/// Blocks that one scheduler can own.
pub(crate) const MAX_BLOCKS: u32 = u128::BITS / SUBTASKS as u32;

impl Cores {
    /// The units whose dispatch a core has acknowledged and not ended, in core order.
    pub(super) fn running_units(&self) -> Vec<u32> {
        let running = self.list.iter().filter_map(|core| core.running);
        running.filter(|held| held.acknowledged).map(|held| held.unit).collect()
    }

    pub(super) fn new(board: &Board, scheduler: u32, first_token: u32, single: bool) -> Self {
        let ids: Vec<u32> = board.blocks_of(scheduler).flat_map(|block| board.block_cores(block)).collect();
        let core = |&id| Core { id, running: None, pending: None, token: first_token, turn: 0 };
        let list: Vec<Core> = ids.iter().map(core).collect();
        let mix = vec![0; list.len() / SUBTASKS];
        let all = (0..list.len()).fold(0, |bits, index| bits | 1 << index);
        Self { list, ids, all, busy: 0, second: 0, held: 0, mix, saved: 0, single }
    }

    /// Their numbers on the board.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub(super) fn blocks(&self) -> usize {
        self.mix.len()
    }

    /// Cores with a running task.
    pub(super) fn busy(&self) -> CoreSet {
        CoreSet(self.busy)
    }

    fn of_queue(queue: usize) -> u128 {
        match queue {
            0 => AICS,
            1 => !AICS,
            _ => 0,
        }
    }

    /// Idle places for queue `queue` (0 AIC, 1 AIV, 2 MIX): cores; for MIX the first cores of idle blocks.
    pub(super) fn idle(&self, queue: usize) -> CoreSet {
        let idle = self.all & !self.busy & !self.held;
        CoreSet(match queue {
            2 => idle & idle >> 1 & idle >> 2 & AICS,
            _ => idle & !self.saved & Self::of_queue(queue),
        })
    }

    /// Cores of queue `queue` with room for a second task.
    pub(super) fn second(&self, queue: usize) -> CoreSet {
        CoreSet(self.second & !self.held & !self.saved & Self::of_queue(queue))
    }

    /// Whether core `index` may be written to: at most one of its dispatches is not acknowledged.
    pub(super) fn takes(&self, index: usize) -> bool {
        (!self.busy | self.second) & 1 << index != 0
    }

    /// A dispatch is written to core `index`.
    pub(super) fn put(&mut self, index: usize, held: Held) {
        let core = &mut self.list[index];
        match core.running {
            None => core.running = Some(held),
            Some(_) => core.pending = Some(held),
        }
        self.busy |= 1 << index;
        self.second &= !(1 << index);
    }

    /// The running task of core `index` is acknowledged; `None` if it was already.
    pub(super) fn acknowledge(&mut self, index: usize) -> Option<Held> {
        let core = &mut self.list[index];
        let running = core.running.as_mut().filter(|running| !running.acknowledged)?;
        running.acknowledged = true;
        if core.pending.is_none() && !self.single {
            self.second |= 1 << index;
        }
        Some(*running)
    }

    /// The running task of core `index` has ended; the pending one takes its place.
    pub(super) fn finish(&mut self, index: usize) -> Option<Held> {
        let core = &mut self.list[index];
        let ended = core.running.take()?;
        core.running = core.pending.take();
        self.second &= !(1 << index);
        if core.running.is_none() {
            self.busy &= !(1 << index);
        }
        let block = index / SUBTASKS;
        if self.mix[block] > 0 {
            self.mix[block] -= 1;
            if self.mix[block] == 0 {
                self.held &= !Self::of_block(block);
            }
        }
        Some(ended)
    }

    fn of_block(block: usize) -> u128 {
        0b111 << (block * SUBTASKS)
    }

    /// Holds the block of core `first`, which is idle, for the `rows` rows of a MIX block.
    pub(super) fn hold_block(&mut self, first: usize, rows: u32) {
        let block = first / SUBTASKS;
        debug_assert!(self.idle(2).0 & 1 << first != 0, "a MIX block on a block that is not idle");
        self.mix[block] = rows;
        self.held |= Self::of_block(block);
    }

    /// Lets the emptiest block run empty.
    pub(super) fn save_a_block(&mut self) {
        if self.saved == 0 {
            let busy = |block: &usize| (self.busy & Self::of_block(*block)).count_ones();
            self.saved = (0..self.blocks()).min_by_key(busy).map_or(0, Self::of_block);
        }
    }

    /// Lets every block take tasks again.
    pub(super) fn save_none(&mut self) {
        self.saved = 0;
    }

    /// What has not ended.
    pub(super) fn stuck(&self, thread: u32, plan: &Plan) -> Vec<StuckTask> {
        let describe = |core: &Core, held: Held| {
            let unit = plan.unit(held.unit);
            StuckTask {
                core: core.id,
                thread,
                task_id: unit.task_id,
                submit: SubmitId(unit.submit),
                node: unit.node().map(|node| node as u32),
                token: held.token,
                state: match held {
                    Held { acknowledged: true, .. } => StuckState::Running,
                    Held { gated: true, .. } => StuckState::Gated,
                    _ => StuckState::Unacknowledged,
                },
            }
        };
        let held = self.list.iter().flat_map(|core| {
            core.running.into_iter().chain(core.pending).map(move |held| describe(core, held))
        });
        held.collect()
    }
}
