//! The host's threads: two, whatever the number of cores, lanes and features, and a third where payload is dumped.
//!
//! *service* drains ready queues, refills free queues and tends the gate; *collect* checks and keeps what was delivered;
//! *write* writes dumped payload, so that neither of the others waits for a write. Each loops over a `step()` and naps when
//! there was nothing to do, until somebody rings its bell: what comes from another thread of the host wakes it at once. A panic in one is caught in its thread: the
//! session goes on with what it has and says so. The threads come from [`Threads`], so that a runtime that must bind each
//! of its threads to a device, or counts them, can make them itself.

use crossbeam_utils::sync::{Parker, Unparker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The nap of a worker that looks into shared memory, or at a clock. These have no bell: this bounds how late a full buffer
/// is seen.
pub const SHORT_NAP: Duration = Duration::from_micros(200);
/// The nap of a worker that is rung for everything it does.
pub const LONG_NAP: Duration = Duration::from_millis(20);
/// Idle steps before the first nap: a burst is followed closely.
const EAGER: u32 = 4;

/// A worker's step: how much it found to do.
pub type Step = Box<dyn FnMut() -> u32 + Send>;
/// What a thread is to run, once.
pub type Body = Box<dyn FnOnce() + Send>;
/// Waits until a thread has ended.
pub type Join = Box<dyn FnOnce() + Send>;

/// Wakes a worker from its nap.
#[derive(Debug)]
pub struct Bell {
    /// For the worker alone.
    nap: Mutex<Parker>,
    wake: Unparker,
}

impl Default for Bell {
    fn default() -> Self {
        let nap = Parker::new();
        Bell { wake: nap.unparker().clone(), nap: Mutex::new(nap) }
    }
}

impl Bell {
    /// Ends the worker's nap, or the next one if it is awake.
    pub fn ring(&self) {
        self.wake.unpark();
    }

    fn wait(&self, longest: Duration) {
        self.nap.lock().unwrap_or_else(PoisonError::into_inner).park_timeout(longest);
    }
}

/// What a worker does.
pub struct Work {
    /// Its name; the thread's is this after `dfx-`.
    pub name: &'static str,
    /// Wakes it.
    pub bell: Arc<Bell>,
    /// How long it naps when it found nothing and nobody rings.
    pub nap: Duration,
    /// What it does over and over.
    pub step: Step,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where the host's threads come from.
pub trait Threads: Send + Sync {
    /// Runs `body` on a new thread called `name`.
    ///
    /// # Errors
    /// When there is none to be had.
    fn spawn(&self, name: &str, body: Body) -> std::io::Result<Join>;
}

/// The system's threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SystemThreads;

impl Threads for SystemThreads {
    fn spawn(&self, name: &str, body: Body) -> std::io::Result<Join> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(move || {
            // A body catches its own panics.
            let _ = thread.join();
        }))
    }
}

/// A thread that loops over its step.
struct Worker {
    name: &'static str,
    bell: Arc<Bell>,
    panicked: Arc<AtomicBool>,
    join: Join,
}

/// Threads that loop over steps until they are stopped.
pub struct Workers {
    stop: Arc<AtomicBool>,
    workers: Vec<Worker>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.workers.iter().map(|worker| worker.name)).finish()
    }
}

impl Workers {
    /// Starts one thread for each.
    ///
    /// # Errors
    /// When a thread is refused; those already started are stopped.
    pub fn start(threads: &dyn Threads, work: Vec<Work>) -> std::io::Result<Workers> {
        let mut workers = Workers { stop: Arc::new(AtomicBool::new(false)), workers: Vec::new() };
        for Work { name, bell, nap, step } in work {
            let stop = Arc::clone(&workers.stop);
            let panicked = Arc::new(AtomicBool::new(false));
            let (seen, woken) = (Arc::clone(&panicked), Arc::clone(&bell));
            let body: Body = Box::new(move || {
                // What it had in hand stays where it is: the session takes it at the end.
                if catch_unwind(AssertUnwindSafe(|| run(&stop, &woken, nap, step))).is_err() {
                    // Whoever joins this thread reads it afterwards: the join orders it.
                    seen.store(true, Ordering::Relaxed);
                }
            });
            match threads.spawn(&format!("dfx-{name}"), body) {
                Ok(join) => workers.workers.push(Worker { name, bell, panicked, join }),
                Err(error) => {
                    workers.stop();
                    return Err(error);
                }
            }
        }
        Ok(workers)
    }

    /// Stops and joins all threads. Returns the names of those that panicked.
    pub fn stop(&mut self) -> Vec<&'static str> {
        self.stop.store(true, Ordering::Relaxed);
        self.workers.iter().for_each(|worker| worker.bell.ring());
        let ended = self.workers.drain(..).filter_map(|worker| {
            (worker.join)();
            worker.panicked.load(Ordering::Relaxed).then_some(worker.name)
        });
        ended.collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(stop: &AtomicBool, bell: &Bell, nap: Duration, mut step: Step) {
    let mut idle = 0;
    // The flag orders nothing: what a stopped worker left is drained by whoever joined it.
    while !stop.load(Ordering::Relaxed) {
        if step() > 0 {
            idle = 0;
        } else if idle < EAGER {
            idle += 1;
            thread::yield_now();
        } else {
            bell.wait(nap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Gives `left` threads and no more.
    struct Few {
        left: AtomicU32,
        joined: Arc<AtomicU32>,
    }

    impl Threads for Few {
        fn spawn(&self, name: &str, body: Body) -> std::io::Result<Join> {
            if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
                return Err(std::io::ErrorKind::WouldBlock.into());
            }
            let join = SystemThreads.spawn(name, body)?;
            let joined = Arc::clone(&self.joined);
            Ok(Box::new(move || {
                join();
                joined.fetch_add(1, Ordering::Relaxed);
            }))
        }
    }

    fn work() -> Vec<Work> {
        let work = |name, step| Work { name, bell: Arc::default(), nap: SHORT_NAP, step };
        vec![work("one", Box::new(|| 0)), work("two", Box::new(|| panic!("on purpose")))]
    }

    #[test]
    fn a_panic_is_told_by_the_name_of_its_thread_and_all_are_joined() {
        let joined = Arc::new(AtomicU32::new(0));
        let few = Few { left: AtomicU32::new(2), joined: Arc::clone(&joined) };
        let mut workers = Workers::start(&few, work()).unwrap();
        while !workers.workers[1].panicked.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        assert_eq!(workers.stop(), ["two"]);
        assert_eq!(joined.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_refused_thread_ends_those_before_it() {
        let joined = Arc::new(AtomicU32::new(0));
        let few = Few { left: AtomicU32::new(1), joined: Arc::clone(&joined) };
        assert!(Workers::start(&few, work()).is_err());
        assert_eq!(joined.load(Ordering::Relaxed), 1);
    }
}
