//! Consumer lists: who waits for a task. Pushed to while the task runs, taken once when it ends, without a lock.
//!
//! A list's head is one word in the task's state. Its links live in one growing arena for all lists. Taking a list leaves
//! the mark [`Edges::TAKEN`], so that whoever comes later learns that there is nothing left to wait for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// log2 of the links in the first chunk; each later chunk is twice as large.
const FIRST: u32 = 10;

/// The arena of all lists' links.
pub(crate) struct Edges {
    next: AtomicU32,
    /// A link: consumer in the high half, next link in the low half.
    chunks: [OnceLock<Box<[AtomicU64]>>; (u32::BITS - FIRST) as usize + 1],
}

impl Edges {
    /// The head of a list that nobody has pushed to.
    pub(crate) const EMPTY: u32 = u32::MAX;
    /// The head of a list that was taken.
    pub(crate) const TAKEN: u32 = u32::MAX - 1;

    pub(crate) fn new() -> Self {
        Self { next: AtomicU32::new(0), chunks: std::array::from_fn(|_| OnceLock::new()) }
    }

    fn link(&self, index: u32) -> &AtomicU64 {
        // Chunk c holds 2^(FIRST+c) links from number 2^FIRST * (2^c - 1) on.
        let shifted = u64::from(index) + (1 << FIRST);
        let chunk = shifted.ilog2() - FIRST;
        let links = self.chunks[chunk as usize]
            .get_or_init(|| (0..1u64 << (FIRST + chunk)).map(|_| AtomicU64::new(0)).collect());
        &links[(shifted - (1 << (FIRST + chunk))) as usize]
    }

    /// Appends `consumer` to the list; false if the list was taken already.
    ///
    /// # Panics
    ///
    /// At 2^32 - 2 links in all.
    pub(crate) fn push(&self, head: &AtomicU32, consumer: u32) -> bool {
        let mut first = head.load(Ordering::Acquire);
        if first == Self::TAKEN {
            return false;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(index < Self::TAKEN, "more than {index} dependencies in one program");
        let link = self.link(index);
        loop {
            link.store(u64::from(consumer) << 32 | u64::from(first), Ordering::Relaxed);
            // SYNC POINT: pairs with the swap in `take`: the link before the head that names it.
            match head.compare_exchange_weak(first, index, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(Self::TAKEN) => return false,
                Err(changed) => first = changed,
            }
        }
    }

    /// Whether the list was taken.
    pub(crate) fn taken(head: &AtomicU32) -> bool {
        head.load(Ordering::Acquire) == Self::TAKEN
    }

    /// Takes the list, for good, and appends its consumers to `out` in the order in which they were pushed.
    pub(crate) fn take(&self, head: &AtomicU32, out: &mut Vec<u32>) {
        let mut index = head.swap(Self::TAKEN, Ordering::AcqRel);
        let from = out.len();
        while index != Self::EMPTY && index != Self::TAKEN {
            let link = self.link(index).load(Ordering::Relaxed);
            out.push((link >> 32) as u32);
            index = link as u32;
        }
        out[from..].reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_across_chunks_and_refuses_after_it_was_taken() {
        let edges = Edges::new();
        let head = AtomicU32::new(Edges::EMPTY);
        for consumer in 0..5_000 {
            assert!(edges.push(&head, consumer));
        }
        let mut out = Vec::new();
        edges.take(&head, &mut out);
        assert!(out.iter().copied().eq(0..5_000));
        assert!(!edges.push(&head, 7));
        edges.take(&head, &mut out);
        assert_eq!(out.len(), 5_000);
    }

    #[test]
    fn each_consumer_is_either_in_the_taken_list_or_was_refused() {
        for _ in 0..200 {
            let edges = Edges::new();
            let head = AtomicU32::new(Edges::EMPTY);
            let (accepted, taken) = std::thread::scope(|s| {
                let pusher = s.spawn(|| (0..100).filter(|&c| edges.push(&head, c)).count());
                let mut taken = Vec::new();
                edges.take(&head, &mut taken);
                (pusher.join().expect("the pusher ends"), taken)
            });
            assert_eq!(accepted, taken.len());
        }
    }
}
