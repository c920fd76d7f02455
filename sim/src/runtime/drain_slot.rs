//! The slot through which all schedulers start a task's blocks together.

use super::queues::{Claim, lock};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Where a task whose blocks must start together gathers cores of all schedulers; one task at a time.
pub(crate) struct DrainSlot {
    state: Mutex<DrainState>,
    /// A task is gathering: nobody dispatches anything else.
    active: AtomicBool,
    /// Tasks behind it.
    waiting: AtomicU32,
    /// Counts changes that schedulers must look at.
    generation: AtomicU64,
}

#[derive(Default)]
struct DrainState {
    waiting: VecDeque<u32>,
    current: Option<Gathering>,
}

struct Gathering {
    unit: u32,
    /// Places (cores, or blocks of cores for MIX) that each scheduler holds empty.
    offered: Vec<u32>,
    /// Each scheduler's blocks, once there are places for all.
    assigned: Option<Vec<Claim>>,
    /// Schedulers that have not written theirs.
    unpublished: u32,
}

/// What a scheduler finds in the drain slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DrainTurn {
    /// This call settled who writes what: the others must look.
    pub settled: bool,
    /// Write these blocks now, then say [`DrainSlot::published`].
    pub publish: Option<Claim>,
}

impl DrainSlot {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            active: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            generation: AtomicU64::new(0),
        }
    }

    pub(crate) fn push(&self, unit: u32) {
        let mut state = lock(&self.state);
        state.waiting.push_back(unit);
        self.waiting.store(state.waiting.len() as u32, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// Whether there is anything in it.
    pub(crate) fn used(&self) -> bool {
        self.active() || self.waiting.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// The unit that gathers; the next one begins to if none does.
    pub(crate) fn current(&self, schedulers: u32) -> Option<u32> {
        let mut state = lock(&self.state);
        if state.current.is_none() {
            let unit = state.waiting.pop_front()?;
            self.waiting.store(state.waiting.len() as u32, Ordering::SeqCst);
            let offered = vec![0; schedulers as usize];
            state.current = Some(Gathering { unit, offered, assigned: None, unpublished: 0 });
            self.active.store(true, Ordering::SeqCst);
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
        state.current.as_ref().map(|current| current.unit)
    }

    /// Scheduler `me` holds `places` empty for `unit`, which needs `need` in all.
    pub(crate) fn offer(&self, me: u32, unit: u32, places: u32, need: u32) -> DrainTurn {
        let mut state = lock(&self.state);
        let Some(current) = state.current.as_mut().filter(|current| current.unit == unit) else {
            return DrainTurn::default();
        };
        let mut settled = false;
        if current.assigned.is_none() {
            current.offered[me as usize] = places;
            if current.offered.iter().sum::<u32>() >= need {
                let mut first_block = 0;
                let assign = |&offered: &u32| {
                    let blocks = offered.min(need - first_block);
                    let claim = Claim { unit, first_block, blocks };
                    first_block += blocks;
                    claim
                };
                let assigned: Vec<Claim> = current.offered.iter().map(assign).collect();
                current.unpublished = assigned.iter().filter(|claim| claim.blocks > 0).count() as u32;
                current.assigned = Some(assigned);
                settled = true;
                self.generation.fetch_add(1, Ordering::SeqCst);
            }
        }
        let mine = current.assigned.as_mut().map(|assigned| &mut assigned[me as usize]);
        let publish = mine.filter(|claim| claim.blocks > 0).map(|claim| {
            let taken = *claim;
            claim.blocks = 0;
            taken
        });
        DrainTurn { settled, publish }
    }

    /// A scheduler has written its blocks of `unit`. True if it was the last.
    pub(crate) fn published(&self, unit: u32) -> bool {
        let mut state = lock(&self.state);
        let Some(current) = state.current.as_mut().filter(|current| current.unit == unit) else {
            return false;
        };
        current.unpublished -= 1;
        if current.unpublished > 0 {
            return false;
        }
        state.current = None;
        self.active.store(false, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
        true
    }
}
