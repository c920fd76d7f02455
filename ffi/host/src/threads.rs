//! The caller's threads, for a session whose threads must be bound to a device or counted by the runtime.

use crate::status::{Failure, check_reserved, check_size};
use dfx_host_drain::workers::{Body, Join, Threads};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a new thread must call, once, with the `arg` that came with it. It returns when the session is stopped, and never
/// throws.
pub type dfx_thread_entry_f = unsafe extern "C" fn(arg: *mut c_void);
/// Starts a thread called `name` (valid during the call) that calls `entry(arg)`. Returns what `join` is given, not null,
/// or null if there is no thread; `entry` must then not be called.
pub type dfx_thread_spawn_f = Option<
    unsafe extern "C" fn(
        ctx: *mut c_void,
        name: *const c_char,
        entry: dfx_thread_entry_f,
        arg: *mut c_void,
    ) -> *mut c_void,
>;
/// Waits until that thread has ended, and frees what `spawn` returned.
pub type dfx_thread_join_f = Option<unsafe extern "C" fn(ctx: *mut c_void, thread: *mut c_void)>;

/// Where a session's threads (two, and a third if arguments are dumped) come from. The struct is read during the call
/// only; `ctx` and the functions are used from the start to the stop of the session, by the thread that makes those calls.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_threads_t {
    /// `sizeof(dfx_threads_t)`.
    pub size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Handed to both functions; the caller's.
    pub ctx: *mut c_void,
    /// Must be there.
    pub spawn: dfx_thread_spawn_f,
    /// Must be there.
    pub join: dfx_thread_join_f,
}

/// The caller's functions as the engine's threads.
#[derive(Clone, Copy)]
pub(crate) struct Factory {
    ctx: *mut c_void,
    spawn: unsafe extern "C" fn(*mut c_void, *const c_char, dfx_thread_entry_f, *mut c_void) -> *mut c_void,
    join: unsafe extern "C" fn(*mut c_void, *mut c_void),
}

// SAFETY: only the thread that starts or stops the session uses it (`dfx_threads_t`); calls on a session do not overlap.
unsafe impl Send for Factory {}
// SAFETY: as above.
unsafe impl Sync for Factory {}

impl Factory {
    /// Checks that both functions are there; null is no factory.
    ///
    /// # Safety
    /// `threads` is null or points to a `dfx_threads_t` that keeps its own promises.
    pub(crate) unsafe fn read(threads: *const dfx_threads_t) -> Result<Option<Factory>, Failure> {
        // SAFETY: the caller's contract.
        let Some(given) = (unsafe { threads.as_ref() }) else { return Ok(None) };
        check_size::<dfx_threads_t>("threads", given.size)?;
        check_reserved("threads.reserved", given.reserved)?;
        let spawn = given.spawn.ok_or_else(|| Failure::null("threads.spawn"))?;
        let join = given.join.ok_or_else(|| Failure::null("threads.join"))?;
        Ok(Some(Factory { ctx: given.ctx, spawn, join }))
    }
}

/// What threads are to do that have not begun, by number: the `arg` of `entry`. Like a handle it is never followed, so
/// that a second call of `entry`, or one for a thread that there is not, finds nothing.
struct Bodies {
    next: usize,
    waiting: BTreeMap<usize, Body>,
}

static BODIES: Mutex<Bodies> = Mutex::new(Bodies { next: 1, waiting: BTreeMap::new() });

fn bodies() -> MutexGuard<'static, Bodies> {
    BODIES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bodies {
    fn put(&mut self, body: Body) -> usize {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, body);
        number
    }
}

/// What a caller's thread calls.
unsafe extern "C" fn entry(arg: *mut c_void) {
    let body = bodies().waiting.remove(&arg.addr());
    if let Some(body) = body {
        // It catches its own panics.
        body();
    }
}

/// A thread of the caller's that has not been joined.
struct Started {
    factory: Factory,
    thread: *mut c_void,
}

// SAFETY: the pointer is only handed back to the caller's `join`.
unsafe impl Send for Started {}

impl Started {
    fn join(self) {
        // SAFETY: the caller's function, of what its `spawn` gave, once.
        unsafe { (self.factory.join)(self.factory.ctx, self.thread) }
    }
}

impl Threads for Factory {
    fn spawn(&self, name: &str, body: Body) -> std::io::Result<Join> {
        let name = CString::new(name).unwrap_or_default();
        let number = bodies().put(body);
        let arg = std::ptr::without_provenance_mut(number);
        // SAFETY: the caller's function; the name is valid, and the argument is for `entry` only.
        let thread = unsafe { (self.spawn)(self.ctx, name.as_ptr(), entry, arg) };
        if thread.is_null() {
            let unused = bodies().waiting.remove(&number);
            return Err(std::io::Error::other(match unused {
                Some(_) => "the spawn callback returned null",
                None => "the spawn callback returned null for a thread that had begun",
            }));
        }
        let started = Started { factory: *self, thread };
        Ok(Box::new(move || started.join()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    thread_local! {
        static ARG: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
    }

    /// Calls `entry` as often as `ctx` has it, and says that there is no thread.
    unsafe extern "C" fn calls_and_denies(
        ctx: *mut c_void,
        _: *const c_char,
        entry: dfx_thread_entry_f,
        arg: *mut c_void,
    ) -> *mut c_void {
        ARG.set(arg);
        // SAFETY: the argument that came with it.
        (0..ctx.addr()).for_each(|_| unsafe { entry(arg) });
        std::ptr::null_mut()
    }

    fn count(ran: &AtomicU32) {
        ran.fetch_add(1, Ordering::Relaxed);
    }

    unsafe extern "C" fn no_join(_: *mut c_void, _: *mut c_void) {}

    #[test]
    fn a_body_runs_once_at_most_whatever_the_spawn_callback_does() {
        for (calls, runs, said) in [(0, 0, "returned null"), (1, 1, "had begun"), (3, 1, "had begun")] {
            let ran = Arc::new(AtomicU32::new(0));
            let ctx = std::ptr::without_provenance_mut(calls);
            let factory = Factory { ctx, spawn: calls_and_denies, join: no_join };
            let body = Arc::clone(&ran);
            let refused = factory.spawn("x", Box::new(move || count(&body)));
            let error = refused.err().expect("there is no thread").to_string();
            assert!(error.contains(said), "{error}");
            // A late one finds nothing, and so does one with an argument of its own.
            for arg in [ARG.get(), std::ptr::null_mut(), ctx] {
                // SAFETY: any argument will do.
                unsafe { entry(arg) };
            }
            assert_eq!(ran.load(Ordering::Relaxed), runs);
            assert_eq!(Arc::strong_count(&ran), 1, "the body is gone");
        }
    }
}
