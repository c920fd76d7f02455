//! A clock that a test scripts: it counts, it moves only when it is read, and it lets the host run while a producer waits.

use dfx_collector::clock::Clock;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

type Hook = Box<dyn FnMut() + Send>;

#[derive(Default)]
struct State {
    now: AtomicU64,
    step: AtomicU64,
    reads: AtomicU64,
    relaxes: AtomicU64,
    hook: Mutex<Option<Hook>>,
}

/// A counter that advances by a fixed step at each read.
#[derive(Clone, Default)]
pub struct ScriptClock(Arc<State>);

impl fmt::Debug for ScriptClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptClock")
            .field("now", &self.0.now)
            .field("reads", &self.0.reads)
            .finish_non_exhaustive()
    }
}

impl ScriptClock {
    /// A clock at `now` that advances by `step` ticks per read.
    pub fn new(now: u64, step: u64) -> Self {
        let clock = ScriptClock::default();
        clock.set(now);
        clock.0.step.store(step, Relaxed);
        clock
    }

    /// Sets the counter.
    pub fn set(&self, now: u64) {
        self.0.now.store(now, Relaxed);
    }

    /// The counter, without a read that counts.
    pub fn peek(&self) -> u64 {
        self.0.now.load(Relaxed)
    }

    /// Reads so far.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Relaxed)
    }

    /// How often a waiting producer gave way.
    pub fn relaxes(&self) -> u64 {
        self.0.relaxes.load(Relaxed)
    }

    /// Runs `hook` each time a waiting producer gives way.
    pub fn on_relax(&self, hook: impl FnMut() + Send + 'static) {
        *self.0.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(hook));
    }

    /// Lets nothing run any more.
    pub fn no_hook(&self) {
        *self.0.hook.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Clock for ScriptClock {
    fn now(&self) -> u64 {
        self.0.reads.fetch_add(1, Relaxed);
        self.0.now.fetch_add(self.0.step.load(Relaxed), Relaxed)
    }

    fn relax(&self) {
        self.0.relaxes.fetch_add(1, Relaxed);
        if let Some(hook) = self.0.hook.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            hook();
        }
        std::thread::yield_now();
    }
}
