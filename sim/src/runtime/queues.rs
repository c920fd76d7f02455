//! What schedulers share: the ready queues and their smaller relatives. Each is a deque behind a lock that is held for a
//! few instructions, with its size beside it, so that looking at an empty one takes no lock.

use super::edges::Edges;
use super::plan::Plan;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that outlives a panic of its holder (the run ends then anyway).
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks of one unit, given to a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub unit: u32,
    pub first_block: u32,
    pub blocks: u32,
}

/// Units that wait for cores of one shape. A unit leaves when its last block is claimed.
#[derive(Default)]
pub(crate) struct ReadyQueue {
    units: Mutex<VecDeque<u32>>,
    entries: AtomicU32,
    blocks: AtomicU32,
}

impl ReadyQueue {
    /// Appends a unit of which `blocks` blocks are unclaimed.
    pub(crate) fn push(&self, unit: u32, blocks: u32) {
        let mut units = lock(&self.units);
        units.push_back(unit);
        // SYNC POINT: pairs with the fence in `Seat::sit_idle`: the queue's size before the look at who is idle.
        self.entries.store(units.len() as u32, Ordering::SeqCst);
        self.blocks.fetch_add(blocks, Ordering::SeqCst);
    }

    /// Takes up to `room` blocks of the first unit.
    pub(crate) fn claim(&self, room: u32, plan: &Plan, states: &[UnitState]) -> Option<Claim> {
        if self.entries.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut units = lock(&self.units);
        let unit = *units.front()?;
        let next = &states[unit as usize].next_block;
        let first_block = next.load(Ordering::Relaxed);
        let left = plan.unit(unit).blocks - first_block;
        let blocks = left.min(room);
        next.store(first_block + blocks, Ordering::Relaxed);
        if blocks == left {
            units.pop_front();
            self.entries.store(units.len() as u32, Ordering::SeqCst);
        }
        self.blocks.fetch_sub(blocks, Ordering::SeqCst);
        Some(Claim { unit, first_block, blocks })
    }

    /// Units in it.
    pub(crate) fn entries(&self) -> u32 {
        self.entries.load(Ordering::SeqCst)
    }

    /// Unclaimed blocks of the units in it.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks.load(Ordering::SeqCst)
    }
}

/// Units in order, to be taken one by one.
#[derive(Default)]
pub(crate) struct Fifo {
    units: Mutex<VecDeque<u32>>,
    len: AtomicU32,
}

impl Fifo {
    pub(crate) fn push(&self, unit: u32) {
        let mut units = lock(&self.units);
        units.push_back(unit);
        self.len.store(units.len() as u32, Ordering::SeqCst);
    }

    pub(crate) fn pop(&self) -> Option<u32> {
        if self.len() == 0 {
            return None;
        }
        let mut units = lock(&self.units);
        let unit = units.pop_front();
        self.len.store(units.len() as u32, Ordering::SeqCst);
        unit
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::SeqCst)
    }
}

/// The changing part of a unit.
pub(crate) struct UnitState {
    /// Producers that have not completed; the orchestrator's own hold while it submits.
    pub fan_in: AtomicU32,
    /// Who waits for its completion ([`Edges`]).
    pub consumers: AtomicU32,
    /// Core rows (nodes, for a graph task) that have not ended.
    pub left: AtomicU32,
    /// Blocks claimed so far. Changed under the lock of the queue that the unit is in.
    pub next_block: AtomicU32,
}

impl UnitState {
    pub(crate) fn new(left: u32) -> Self {
        Self {
            fan_in: AtomicU32::new(0),
            consumers: AtomicU32::new(Edges::EMPTY),
            left: AtomicU32::new(left),
            next_block: AtomicU32::new(0),
        }
    }
}

/// Units that complete by an event: when it becomes true, in the executor's nanoseconds.
pub(crate) struct Events {
    waiting: Mutex<BinaryHeap<std::cmp::Reverse<(u64, u32)>>>,
    next: AtomicU64,
}

impl Events {
    /// No event.
    pub(crate) const NEVER: u64 = u64::MAX;

    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::default(), next: AtomicU64::new(Self::NEVER) }
    }

    pub(crate) fn push(&self, due: u64, unit: u32) {
        let mut waiting = lock(&self.waiting);
        waiting.push(std::cmp::Reverse((due, unit)));
        self.note_next(&waiting);
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Takes one that is due at `now`.
    pub(crate) fn pop_due(&self, now: u64) -> Option<u32> {
        if self.next() > now {
            return None;
        }
        let mut waiting = lock(&self.waiting);
        let due = waiting.peek().is_some_and(|first| first.0.0 <= now);
        let unit = if due { waiting.pop().map(|first| first.0.1) } else { None };
        self.note_next(&waiting);
        unit
    }

    fn note_next(&self, waiting: &BinaryHeap<std::cmp::Reverse<(u64, u32)>>) {
        self.next.store(waiting.peek().map_or(Self::NEVER, |first| first.0.0), Ordering::Release);
    }
}

/// Tasks that may be written to a core before their producers ended.
pub(crate) struct Early {
    /// By submit: who waits for its being under way ([`Edges`]).
    pub watchers: Vec<AtomicU32>,
    /// By submit: its core rows that no core has acknowledged.
    pub unacked: Vec<AtomicU32>,
    /// The tasks that go early.
    pub tasks: HashMap<u32, EarlyTask>,
    /// Candidates, by AIC and AIV.
    pub queues: [Fifo; 2],
}

/// One of them.
pub(crate) struct EarlyTask {
    /// Producers that are neither under way nor completed, and the orchestrator's hold.
    pub unstarted: AtomicU32,
    pub door: Mutex<Door>,
}

/// What holds a task that was written early.
#[derive(Default)]
pub(crate) struct Door {
    /// Its producers have completed.
    pub open: bool,
    /// Cores and tokens behind it.
    pub waiting: Vec<(u32, u32)>,
}

impl Early {
    pub(crate) fn new(plan: &Plan) -> Self {
        let submits = if plan.early { &plan.units()[..plan.submits() as usize] } else { &[] };
        let early = (0..submits.len() as u32).filter(|&unit| plan.goes_early(unit));
        Self {
            watchers: submits.iter().map(|_| AtomicU32::new(Edges::EMPTY)).collect(),
            unacked: submits.iter().map(|unit| AtomicU32::new(unit.rows())).collect(),
            tasks: early.map(|unit| (unit, EarlyTask::new())).collect(),
            queues: Default::default(),
        }
    }
}

impl EarlyTask {
    fn new() -> Self {
        Self { unstarted: AtomicU32::new(0), door: Mutex::default() }
    }
}
