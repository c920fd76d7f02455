//! The host's threads: two, whatever the number of cores, lanes and features.
//!
//! *service* drains ready queues, refills free queues and tends the gate; *collect* checks and keeps what was delivered.
//! Each loops over a `step()` and sleeps briefly when there was nothing to do. A panic in one is caught by its join: the
//! session goes on with what it has and says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a worker that found nothing sleeps. Shared memory has no bell: this bounds how late a full buffer is seen.
const NAP: Duration = Duration::from_micros(200);
/// Idle steps before the first nap: a burst is followed closely.
const EAGER: u32 = 4;

/// A worker's step: how much it found to do.
pub type Step = Box<dyn FnMut() -> u32 + Send>;

/// Threads that loop over steps until they are stopped.
#[derive(Debug)]
pub struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<()>)>,
}

impl Workers {
    /// Starts one thread per step.
    ///
    /// # Errors
    /// When the system refuses a thread; those already started are stopped.
    pub fn start(steps: Vec<(&'static str, Step)>) -> std::io::Result<Workers> {
        let mut workers = Workers { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for (name, mut step) in steps {
            let stop = Arc::clone(&workers.stop);
            let body = move || {
                let mut idle = 0;
                // The flag orders nothing: what a stopped worker left is drained by whoever joined it.
                while !stop.load(Ordering::Relaxed) {
                    if step() > 0 {
                        idle = 0;
                    } else if idle < EAGER {
                        idle += 1;
                        thread::yield_now();
                    } else {
                        thread::park_timeout(NAP);
                    }
                }
            };
            match thread::Builder::new().name(format!("dfx-{name}")).spawn(body) {
                Ok(thread) => workers.threads.push((name, thread)),
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
        for (_, thread) in &self.threads {
            thread.thread().unpark();
        }
        self.threads.drain(..).filter_map(|(name, thread)| thread.join().is_err().then_some(name)).collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}
