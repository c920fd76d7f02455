//! What the cold paths of a collector's lanes need.

use super::InitError;
use super::mem::{RegionQueue, word};
use crate::abi::layout::QueueLayout;
use crate::abi::peer::{self, Peer};
use crate::abi::{DeviceAddr, Geometry};
use crate::clock::Clock;
use crate::lane::{Port, ReadyQueue};
use crate::stall::{Budget, Stall};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use core::cell::UnsafeCell;

const MAX_THREADS: usize = Geometry::ANY_MAX_THREADS;

/// No orchestrator thread was named. Out of every platform's range, as is any negative number that C passes.
pub(crate) const NO_THREAD: u32 = u32::MAX;

/// One thread's queue, on lines of its own.
#[repr(align(128))]
struct Queue(UnsafeCell<Option<ReadyQueue<RegionQueue>>>);

/// A collector's clock, stall budget and ready queues.
///
/// Per thread number, one caller at a time; none while [`attach`](Self::attach) or [`detach`](Self::detach) runs.
pub(crate) struct Ports<C> {
    clock: C,
    stall: UnsafeCell<Stall>,
    /// Calls with a core or thread out of range.
    misused: AtomicU32,
    queues: [Queue; MAX_THREADS],
}

impl<C> Ports<C> {
    /// Attached to no region.
    pub(crate) const fn new(clock: C) -> Self {
        Ports {
            clock,
            stall: UnsafeCell::new(Stall::NONE),
            misused: AtomicU32::new(0),
            queues: [const { Queue(UnsafeCell::new(None)) }; MAX_THREADS],
        }
    }

    /// Lets go of the region.
    ///
    /// # Safety
    /// Nothing else uses this value.
    pub(crate) unsafe fn detach(&self) {
        self.misused.store(0, Relaxed);
        for queue in &self.queues {
            // SAFETY: nothing else runs (the caller's contract).
            unsafe { *queue.0.get() = None };
        }
        // SAFETY: as above.
        unsafe { *self.stall.get() = Stall::NONE };
    }

    /// Counts a call that names what does not exist.
    #[cold]
    #[inline(never)]
    pub(crate) fn misuse(&self) {
        self.misused.store(self.misused.load(Relaxed).saturating_add(1), Relaxed);
    }

    /// Calls with a core or thread out of range.
    pub(crate) fn misused(&self) -> u32 {
        self.misused.load(Relaxed)
    }
}

impl<C: Clock> Ports<C> {
    /// Attaches to the region of `feature` at `base`: says in its peer word that this half is ours, and takes the stall
    /// budget from the word at `budget` if the host is ours, too.
    ///
    /// # Errors
    /// [`InitError::NoRegion`] when `base` is 0.
    ///
    /// # Safety
    /// `base` is 0 or such a region of `geometry`, whose queues lie as `layout` says, mapped until the next
    /// [`detach`](Self::detach); nothing else uses this value.
    pub(crate) unsafe fn attach(
        &self,
        feature: &'static str,
        geometry: &Geometry,
        base: DeviceAddr,
        layout: &QueueLayout,
        budget: usize,
        launch_start: Option<u64>,
    ) -> Result<(), InitError> {
        if base.is_null() {
            return Err(InitError::NoRegion { feature });
        }
        // SAFETY: the words lie in the region (the caller's contract).
        let (peers, granted) =
            unsafe { (word::<AtomicU32>(base, layout.peer), word::<AtomicU32>(base, budget)) };
        let both = peers.load(Relaxed);
        peers.store(peer::with_device(both), Relaxed);
        let budget = match Peer::host(both) {
            Peer::Ours(_) => Budget::from_word(granted.load(Relaxed)),
            Peer::Reference => Budget::DEFAULT,
        };
        let start = launch_start.unwrap_or_else(|| self.clock.now());
        // SAFETY: nothing else runs.
        unsafe { *self.stall.get() = Stall::new(budget, geometry.clock_hz, start) };
        for (thread, queue) in (0..layout.threads).zip(&self.queues) {
            // SAFETY: the queue lies in the header; nothing else runs.
            unsafe { *queue.0.get() = Some(ReadyQueue::new(RegionQueue::new(base, *layout, thread))) };
        }
        Ok(())
    }

    /// What the cold paths of the calling `thread` need. A thread that does not exist has no queue: its lanes can take
    /// buffers, but publish none.
    ///
    /// # Safety
    /// The caller is the only user of `thread`, and the result is gone before its next call.
    pub(crate) unsafe fn port(&self, thread: u32) -> Port<'_, RegionQueue, C> {
        let queue = match self.queues.get(thread as usize) {
            // SAFETY: one caller per thread number.
            Some(queue) => unsafe { (*queue.0.get()).as_mut() },
            None => None,
        };
        if queue.is_none() {
            self.misuse();
        }
        // SAFETY: written by `attach` and `detach` only, while nothing else runs.
        Port { queue, stall: unsafe { &*self.stall.get() }, clock: &self.clock }
    }
}
