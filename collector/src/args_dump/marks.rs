//! Which arguments of which tasks are marked, and what type their scalars have.
//!
//! Two static tables by task id, with open addressing from the low bits of the id. An entry is never moved or removed
//! while the dump is on, so readers need no lock: whoever finds a key finds what was stored before it (a map of `heapless`
//! is for one owner at a time: the orchestrator's marks beside the schedulers' look-ups would take a lock). All tables are
//! zero when they are empty, so that they cost an image nothing: keys are stored inverted, and no task has the id
//! whose inverse is zero.

use crate::fence;
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Entries of a table (`1 << 15`, as in the reference; few under Miri, which is to see full ones).
pub(super) const CAPACITY: usize = if cfg!(miri) { 1 << 7 } else { 1 << 15 };
/// Scalars whose types are kept per task.
pub const MAX_SCALARS: usize = 32;
const WORDS: usize = MAX_SCALARS / 8;

/// The tables. Setters belong to one thread at a time; getters may run beside them, from any thread.
pub(super) struct Marks {
    masks: Table<2>,
    dtypes: Table<{ 1 + WORDS }>,
    lost: AtomicU32,
}

struct Table<const W: usize> {
    entries: [Entry<W>; CAPACITY],
    used: AtomicU32,
    /// How far from its place the farthest entry is.
    reach: AtomicU32,
}

struct Entry<const W: usize> {
    /// The task's id, inverted; 0 when there is none.
    key: AtomicU64,
    value: [AtomicU64; W],
}

impl Marks {
    /// Without a mark: all zero.
    #[allow(clippy::declare_interior_mutable_const)] // a template for a static
    pub(super) const NEW: Marks = Marks { masks: Table::NEW, dtypes: Table::NEW, lost: AtomicU32::new(0) };

    /// Forgets everything.
    pub(super) fn clear(&self) {
        self.masks.clear();
        self.dtypes.clear();
        self.lost.store(0, Relaxed);
    }

    /// Marks for which there was no room.
    pub(super) fn lost(&self) -> u32 {
        self.lost.load(Relaxed)
    }

    /// A mask of 0 is ignored. `false`: there was no room.
    pub(super) fn set_masks(&self, task: u64, mask: u64, flags: u64) -> bool {
        mask == 0 || self.kept(self.masks.set(task, [mask, flags]))
    }

    pub(super) fn masks(&self, task: u64) -> (u64, u64) {
        match self.masks.find(task) {
            Some([mask, flags]) => (mask.load(Relaxed), flags.load(Relaxed)),
            None => (0, 0),
        }
    }

    /// No types, or more than are kept, are ignored. `false`: there was no room.
    pub(super) fn set_dtypes(&self, task: u64, dtypes: &[u8]) -> bool {
        if dtypes.is_empty() || dtypes.len() > MAX_SCALARS {
            return true;
        }
        let mut words = [0; 1 + WORDS];
        let (len, bytes) = words.split_at_mut(1);
        len.fill(dtypes.len() as u64);
        for (word, eight) in bytes.iter_mut().zip(dtypes.chunks(8)) {
            *word = eight.iter().rev().fold(0, |word, dtype| word << 8 | u64::from(*dtype));
        }
        self.kept(self.dtypes.set(task, words))
    }

    pub(super) fn dtypes(&self, task: u64, into: &mut [u8; MAX_SCALARS]) -> Option<usize> {
        let [len, words @ ..] = self.dtypes.find(task)?;
        let len = len.load(Relaxed) as usize;
        for (eight, word) in into.chunks_mut(8).zip(words) {
            let bytes = word.load(Relaxed).to_le_bytes();
            for (byte, dtype) in eight.iter_mut().zip(bytes) {
                *byte = dtype;
            }
        }
        if let Some(rest) = into.get_mut(len..) {
            rest.fill(0);
        }
        Some(len)
    }

    fn kept(&self, kept: bool) -> bool {
        if !kept {
            self.lost.store(self.lost.load(Relaxed).saturating_add(1), Relaxed);
        }
        kept
    }
}

impl<const W: usize> Table<W> {
    #[allow(clippy::declare_interior_mutable_const)] // as above
    const NEW: Table<W> = Table {
        entries: [const { Entry { key: AtomicU64::new(0), value: [const { AtomicU64::new(0) }; W] } };
            CAPACITY],
        used: AtomicU32::new(0),
        reach: AtomicU32::new(0),
    };

    fn clear(&self) {
        if self.used.load(Relaxed) == 0 {
            return;
        }
        for entry in &self.entries {
            entry.key.store(0, Relaxed);
        }
        self.used.store(0, Relaxed);
        self.reach.store(0, Relaxed);
    }

    fn entry(&self, task: u64, distance: u32) -> Option<&Entry<W>> {
        let place = (task ^ task >> 32) as usize + distance as usize;
        self.entries.get(place % CAPACITY)
    }

    fn find(&self, task: u64) -> Option<&[AtomicU64; W]> {
        let mut distance = 0;
        loop {
            let entry = self.entry(task, distance)?;
            // SYNC POINT: `set` stored the value before the key.
            let key = fence::observe(&entry.key);
            if key == !task && key != 0 {
                return Some(&entry.value);
            }
            if key == 0 || distance >= self.reach.load(Relaxed) {
                return None;
            }
            distance += 1;
        }
    }

    fn set(&self, task: u64, value: [u64; W]) -> bool {
        if task == u64::MAX {
            return true;
        }
        if let Some(words) = self.find(task) {
            write(words, value);
            return true;
        }
        if self.used.load(Relaxed) as usize == CAPACITY {
            return false;
        }
        for distance in 0..CAPACITY as u32 {
            let Some(entry) = self.entry(task, distance) else { break };
            if entry.key.load(Relaxed) != 0 {
                continue;
            }
            write(&entry.value, value);
            self.reach.store(self.reach.load(Relaxed).max(distance), Relaxed);
            self.used.store(self.used.load(Relaxed) + 1, Relaxed);
            // SYNC POINT: `find` observes the key and then reads the value.
            fence::publish(&entry.key, !task);
            return true;
        }
        false
    }
}

fn write<const W: usize>(words: &[AtomicU64; W], value: [u64; W]) {
    for (word, value) in words.iter().zip(value) {
        word.store(value, Relaxed);
    }
}
