//! What a session's steps work on, and who takes them: the session's own threads, or a caller.

use crate::collect::{Collector, Delivery};
use crate::dump::{Flow, Pen};
use crate::region::Region;
use crate::service::Service;
use crate::testpoint::Points;
use crate::workers::{Bell, LONG_NAP, SHORT_NAP, Step, Work};
use crossbeam_queue::SegQueue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that may be delivered and not yet kept before the drain waits.
const WAITING_BYTES: u64 = 64 << 20;

/// What is shared with the workers.
pub(super) struct Engine {
    pub(super) service: Mutex<Service>,
    pub(super) collector: Mutex<Collector>,
    pub(super) delivered: SegQueue<Delivery>,
    /// Bytes delivered and not yet kept.
    pub(super) waiting: AtomicU64,
    /// Buffers kept so far, for progress.
    pub(super) kept: AtomicU64,
    pub(super) regions: Vec<Region>,
    pub(super) points: Points,
    /// Whether a caller's step panicked.
    pub(super) dead: AtomicBool,
    /// How dumped payload fares.
    pub(super) flow: Arc<Flow>,
    /// Writes dumped payload, if arguments are dumped.
    pub(super) pen: Option<Arc<Pen>>,
    /// Whether the dump's budget no longer matters.
    pub(super) lifted: AtomicBool,
    pub(super) bells: Bells,
}

/// One for each worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Bells {
    pub(super) service: Arc<Bell>,
    pub(super) collect: Arc<Bell>,
    pub(super) write: Arc<Bell>,
}

/// Locks; a worker that panicked while it held the lock left data that is still the best there is.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    pub(super) fn step_service(&self) -> u32 {
        self.points.hit("service.step");
        // What is delivered is host memory: the drain waits for the collector rather than filling it up. The device then
        // feels its queues fill, which is what backpressure is for.
        if self.waiting.load(Ordering::Relaxed) > WAITING_BYTES {
            return 0;
        }
        let mut delivered = false;
        let work = lock(&self.service).step(&mut |delivery| {
            self.waiting.fetch_add(delivery.rows.bytes() as u64, Ordering::Relaxed);
            self.delivered.push(delivery);
            delivered = true;
        });
        if delivered {
            self.bells.collect.ring();
        }
        work
    }

    pub(super) fn step_collect(&self) -> u32 {
        self.points.hit("collect.step");
        let mut taken = 0;
        // Bounded, so that a stop is seen; the lock is taken once per step.
        let mut collector = lock(&self.collector);
        while taken < 64 {
            let Some(delivery) = self.delivered.pop() else { break };
            let bytes = delivery.rows.bytes() as u64;
            collector.take(delivery);
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            taken += 1;
        }
        self.kept.fetch_add(u64::from(taken), Ordering::Relaxed);
        let kept = !self.lifted.load(Ordering::Relaxed);
        taken + collector.dump().map_or(0, |dump| dump.step(kept))
    }

    fn step_write(&self) -> u32 {
        self.points.hit("write.step");
        self.pen.as_ref().map_or(0, |pen| pen.step())
    }

    /// What the session's threads do.
    pub(super) fn work(self: &Arc<Self>) -> Vec<Work> {
        let work = |name, bell: &Arc<Bell>, nap, step: fn(&Engine) -> u32| {
            let engine = Arc::clone(self);
            let step: Step = Box::new(move || step(&engine));
            Work { name, bell: Arc::clone(bell), nap, step }
        };
        let mut all = vec![
            work("service", &self.bells.service, SHORT_NAP, Engine::step_service),
            work("collect", &self.bells.collect, SHORT_NAP, Engine::step_collect),
        ];
        if self.pen.is_some() {
            all.push(work("write", &self.bells.write, LONG_NAP, Engine::step_write));
        }
        all
    }
}

/// A session's host steps, for whoever drives them ([`Drive::Stepped`](super::Drive::Stepped)).
#[derive(Clone)]
pub struct Stepper(pub(super) Option<Arc<Engine>>);

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stepper")
    }
}

impl Stepper {
    /// One step of draining, refilling and gate-tending, and one of keeping what was delivered. Returns how much there was
    /// to do; `None` once a step has panicked: the host is dead, and the session will say so.
    pub fn step(&self) -> Option<u32> {
        let Some(engine) = &self.0 else { return Some(0) };
        if engine.dead.load(Ordering::Relaxed) {
            return None;
        }
        let step = catch_unwind(AssertUnwindSafe(|| engine.step_service() + engine.step_collect()));
        engine.dead.store(step.is_err(), Ordering::Relaxed);
        step.ok()
    }

    /// Buffers kept so far.
    pub fn progress(&self) -> u64 {
        self.0.as_ref().map_or(0, |engine| engine.kept.load(Ordering::Relaxed))
    }

    /// How dumped payload fares. Whoever steps in virtual time goes on until the backlog is 0, for the budget to hold to
    /// the end.
    pub fn flow(&self) -> Option<&Flow> {
        self.0.as_ref().map(|engine| &*engine.flow)
    }
}
