//! The board: which cores there are, whose they are, and the registers through which AICPU and core talk.
//!
//! With B blocks, cores 0..B are AIC and B..3B AIV; block b is AIC b with AIV B + 2b and B + 2b + 1, and belongs to scheduler
//! b mod S.
//!
//! Per core there is a dispatch register (AICPU → core: the token of the task to run), a condition register (core → AICPU:
//! the token, acknowledged or finished), a doorbell (AICPU → core: a task that was written ahead of its producers'
//! end may go) and two payload slots, used in turn. A token names one dispatch of one core; tokens count up from 1.

use crate::program::{AIC, AIV0, AIV1, SUBTASKS};
use dfx_collector::abi::token;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// This value of the dispatch register, and any above it, ends the core; tokens stay below.
pub const EXIT: u32 = token::EXIT_SIGNAL;
/// The token that no task has.
pub(crate) const NO_TOKEN: u32 = 0;

/// The token after `token`.
pub const fn next_token(token: u32) -> u32 {
    if token + 1 >= EXIT { 1 } else { token + 1 }
}

/// What a core is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Payload {
    /// Unit (task or node) by number.
    pub unit: u32,
    /// Which block of it.
    pub block: u32,
    /// Which subtask slot.
    pub subtask: u8,
    /// Wait for the doorbell first.
    pub gated: bool,
}

/// A payload slot. Plain words: the dispatch register orders them.
#[derive(Default)]
struct PayloadSlot {
    unit: AtomicU32,
    block: AtomicU32,
    /// Subtask, and bit 8: gated.
    kind: AtomicU32,
}

/// One core's registers, on lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Registers {
    dispatch: AtomicU32,
    condition: AtomicU32,
    doorbell: AtomicU32,
    payload: [PayloadSlot; 2],
}

impl Registers {
    /// AICPU: hands over a task. `turn` counts this core's dispatches.
    pub(crate) fn write(&self, turn: u32, payload: Payload, token: u32) {
        let slot = &self.payload[turn as usize % 2];
        slot.unit.store(payload.unit, Ordering::Relaxed);
        slot.block.store(payload.block, Ordering::Relaxed);
        slot.kind.store(u32::from(payload.subtask) | u32::from(payload.gated) << 8, Ordering::Relaxed);
        // SYNC POINT: pairs with `dispatched`: the payload before the token.
        self.dispatch.store(token, Ordering::Release);
    }

    /// AICPU: no more tasks.
    pub(crate) fn write_exit(&self) {
        self.dispatch.store(EXIT, Ordering::Release);
    }

    /// Core: the dispatch register.
    pub(crate) fn dispatched(&self) -> u32 {
        self.dispatch.load(Ordering::Acquire)
    }

    /// Core: the payload of its `turn`-th task.
    pub(crate) fn payload(&self, turn: u32) -> Payload {
        let slot = &self.payload[turn as usize % 2];
        let kind = slot.kind.load(Ordering::Relaxed);
        Payload {
            unit: slot.unit.load(Ordering::Relaxed),
            block: slot.block.load(Ordering::Relaxed),
            subtask: kind as u8,
            gated: kind & 1 << 8 != 0,
        }
    }

    /// Core: acknowledges or finishes.
    pub(crate) fn answer(&self, condition: u32) {
        // SYNC POINT: pairs with `condition`: what the kernel wrote before its end.
        self.condition.store(condition, Ordering::Release);
    }

    /// AICPU: the condition register.
    pub(crate) fn condition(&self) -> u32 {
        self.condition.load(Ordering::Acquire)
    }

    /// AICPU: lets the gated task `token` go.
    pub(crate) fn ring(&self, token: u32) {
        // SYNC POINT: pairs with `rung`: what the producers wrote.
        self.doorbell.store(token, Ordering::Release);
    }

    /// Core: whether the gated task `token` may go.
    pub(crate) fn rung(&self, token: u32) -> bool {
        self.doorbell.load(Ordering::Acquire) == token
    }
}

/// All cores of a launch.
pub(crate) struct Board {
    blocks: u32,
    schedulers: u32,
    registers: Vec<Registers>,
    /// Cores end after the kernel they are running.
    stopped: AtomicBool,
}

impl Board {
    pub(crate) fn new(blocks: u32, schedulers: u32) -> Self {
        let registers = (0..3 * blocks).map(|_| Registers::default()).collect();
        Self { blocks, schedulers, registers, stopped: AtomicBool::new(false) }
    }

    pub(crate) fn cores(&self) -> u32 {
        3 * self.blocks
    }

    pub(crate) fn schedulers(&self) -> u32 {
        self.schedulers
    }

    pub(crate) fn registers(&self, core: u32) -> &Registers {
        &self.registers[core as usize]
    }

    /// The cores of block `block`, by subtask slot.
    pub(crate) fn block_cores(&self, block: u32) -> [u32; SUBTASKS] {
        let mut cores = [0; SUBTASKS];
        cores[AIC] = block;
        cores[AIV0] = self.blocks + 2 * block;
        cores[AIV1] = self.blocks + 2 * block + 1;
        cores
    }

    /// The scheduler that owns `core`.
    pub(crate) fn owner(&self, core: u32) -> u32 {
        let block = if core < self.blocks { core } else { (core - self.blocks) / 2 };
        block % self.schedulers
    }

    /// The blocks of scheduler `scheduler`, ascending.
    pub(crate) fn blocks_of(&self, scheduler: u32) -> impl Iterator<Item = u32> + use<> {
        (scheduler..self.blocks).step_by(self.schedulers as usize)
    }

    /// Makes the cores end whether or not AICPU tells them to.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_lie_and_belong_as_in_the_reference_samples() {
        let board = Board::new(8, 3);
        let owners: Vec<u32> = (0..board.cores()).map(|core| board.owner(core)).collect();
        let sample = [0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1];
        assert_eq!(owners, sample);
        for scheduler in 0..3 {
            for block in board.blocks_of(scheduler) {
                assert!(board.block_cores(block).iter().all(|&core| board.owner(core) == scheduler));
            }
        }
    }

    #[test]
    fn tokens_wrap_before_the_exit_signal_to_one() {
        assert_eq!(next_token(1), 2);
        assert_eq!(next_token(EXIT - 2), EXIT - 1);
        assert_eq!(next_token(EXIT - 1), 1);
    }
}
