//! Actors as operating-system threads on the real clock. A waiting actor is parked: 108 cores on 2 processors must not
//! spin.

use super::{Actor, ActorId, Cost, Exec, RunError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Stack of an actor's thread, in bytes. Kernels run on it.
const STACK: usize = 1 << 20;
/// How long a collector's wait sleeps between two looks. The kernel rounds it up to some 60 µs.
const RELAX: Duration = Duration::from_micros(20);

/// Where the platform's counter comes from.
pub trait TickSource: Send + Sync {
    /// The counter in platform ticks; never less than what any thread has read before.
    fn ticks(&self) -> u64;
}

/// The processor's time-stamp counter, scaled to the platform's frequency by one multiplication and one shift.
pub struct ScaledCounter {
    clock: quanta::Clock,
    /// Ticks per raw count, times 2^[`SHIFT`].
    factor: u64,
}

/// Fraction bits of [`ScaledCounter::factor`]: enough that a day's error is below a tick's rounding of the measured rate.
const SHIFT: u32 = 44;

impl ScaledCounter {
    /// A counter that ticks `hz` times a second. Measures the raw counter's rate once per process (up to 0.2 s).
    pub fn new(hz: u64) -> Self {
        let clock = quanta::Clock::new();
        // The rate from a long span, so that its rounding to whole nanoseconds does not count.
        const SPAN: u64 = 1 << 40;
        let nanos = u128::from(clock.delta_as_nanos(0, SPAN).max(1));
        let factor = ((nanos * u128::from(hz)) << SHIFT) / (u128::from(SPAN) * 1_000_000_000);
        Self { clock, factor: u64::try_from(factor).unwrap_or(u64::MAX) }
    }
}

/// Keeps the next read of the counter behind everything before it. Without it a processor may read the counter while the
/// load that gives the reading its meaning is still under way: a core would have received a task up to 45 ns (seen) before
/// the scheduler dispatched it.
#[inline(always)]
fn in_program_order() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 has SSE2.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; it changes no register and no memory.
    unsafe {
        std::arch::asm!("isb", options(nostack, preserves_flags));
    }
}

impl TickSource for ScaledCounter {
    #[inline]
    fn ticks(&self) -> u64 {
        in_program_order();
        ((u128::from(self.clock.raw()) * u128::from(self.factor)) >> SHIFT) as u64
    }
}

/// Where one actor parks.
#[derive(Default)]
struct Seat {
    /// A wake that has not been used up.
    token: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Seat {
    fn wake(&self) {
        // SYNC POINT: pairs with the swap in `park`. What the waker stored before is seen by the woken.
        if !self.token.swap(true, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn park(&self, timeout: Option<Duration>) {
        let deadline = timeout.map(|t| Instant::now() + t);
        // The thread's own token may be taken by a kernel that parks; ours may not: it decides.
        while !self.token.swap(false, Ordering::SeqCst) {
            match deadline {
                None => thread::park(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    thread::park_timeout(left);
                }
            }
        }
    }
}

/// The seats of a run's actors, by kind and number.
#[derive(Default)]
struct Seats {
    cores: Vec<Seat>,
    aicpus: Vec<Seat>,
    hosts: Vec<Seat>,
    watchdog: Seat,
}

impl Seats {
    fn for_actors(actors: &[Actor]) -> Self {
        let mut seats = Self::default();
        for actor in actors {
            let (of_kind, n) = match actor.id {
                ActorId::Core(n) => (&mut seats.cores, n),
                ActorId::Aicpu(n) => (&mut seats.aicpus, n),
                ActorId::Host(n) => (&mut seats.hosts, n),
                ActorId::Watchdog => continue,
            };
            if of_kind.len() <= n as usize {
                of_kind.resize_with(n as usize + 1, Seat::default);
            }
        }
        seats
    }

    fn get(&self, id: ActorId) -> Option<&Seat> {
        match id {
            ActorId::Core(n) => self.cores.get(n as usize),
            ActorId::Aicpu(n) => self.aicpus.get(n as usize),
            ActorId::Host(n) => self.hosts.get(n as usize),
            ActorId::Watchdog => Some(&self.watchdog),
        }
    }
}

/// Holds the threads back until all of them exist.
#[derive(Default)]
struct Gate {
    /// `Some(true)`: run; `Some(false)`: go home.
    open: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Gate {
    fn decide(&self, run: bool) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
        self.changed.notify_all();
    }

    fn pass(&self) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(run) = *open {
                return run;
            }
            open = self.changed.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The executor of real threads; one per launch.
pub struct ThreadsExec {
    core_ticks: Arc<dyn TickSource>,
    aicpu_ticks: Arc<dyn TickSource>,
    started: Instant,
    seats: OnceLock<Seats>,
}

impl ThreadsExec {
    /// An executor whose time-stamps come from `ticks`.
    pub fn new(ticks: Arc<dyn TickSource>) -> Self {
        Self::with_sides(Arc::clone(&ticks), ticks)
    }

    /// An executor whose cores and AICPU threads read a source each: two ways to one counter, told apart (and counted).
    pub fn with_sides(core_ticks: Arc<dyn TickSource>, aicpu_ticks: Arc<dyn TickSource>) -> Self {
        Self { core_ticks, aicpu_ticks, started: Instant::now(), seats: OnceLock::new() }
    }

    /// An executor whose counter is the processor's, scaled to `hz` ticks a second.
    pub fn with_hz(hz: u64) -> Self {
        Self::new(Arc::new(ScaledCounter::new(hz)))
    }

    fn seat(&self, id: ActorId) -> Option<&Seat> {
        self.seats.get().and_then(|seats| seats.get(id))
    }
}

impl Exec for ThreadsExec {
    #[inline]
    fn now_core(&self) -> u64 {
        self.core_ticks.ticks()
    }

    #[inline]
    fn now_aicpu(&self) -> u64 {
        self.aicpu_ticks.ticks()
    }

    fn nanos(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    #[inline]
    fn spend(&self, _me: ActorId, _cost: Cost) {}

    fn park(&self, me: ActorId, timeout: Option<Duration>) {
        match self.seat(me) {
            Some(seat) => seat.park(timeout),
            None => thread::sleep(timeout.unwrap_or(RELAX)),
        }
    }

    fn wake(&self, who: ActorId) {
        if let Some(seat) = self.seat(who) {
            seat.wake();
        }
    }

    fn relax(&self) {
        thread::sleep(RELAX);
    }

    fn run(self: Arc<Self>, actors: Vec<Actor>) -> Result<(), RunError> {
        self.seats.set(Seats::for_actors(&actors)).map_err(|_| RunError::UsedUp)?;
        let gate = Arc::new(Gate::default());
        let mut threads = Vec::with_capacity(actors.len());
        let mut refused = None;
        for Actor { id, body } in actors {
            let (exec, gate) = (Arc::clone(&self), Arc::clone(&gate));
            let spawned = thread::Builder::new().name(thread_name(id)).stack_size(STACK).spawn(move || {
                if gate.pass() {
                    body(&*exec);
                }
            });
            match spawned {
                Ok(handle) => {
                    if let Some(seat) = self.seat(id) {
                        // Set once: two actors of one name would share a seat, and the first keeps it.
                        let _ = seat.thread.set(handle.thread().clone());
                    }
                    threads.push(handle);
                }
                Err(source) => {
                    refused = Some(RunError::Spawn { actor: id, source });
                    break;
                }
            }
        }
        gate.decide(refused.is_none());
        let mut panic = None;
        for handle in threads {
            if let Err(payload) = handle.join() {
                panic.get_or_insert(payload);
            }
        }
        if let Some(payload) = panic {
            std::panic::resume_unwind(payload);
        }
        refused.map_or(Ok(()), Err)
    }
}

fn thread_name(id: ActorId) -> String {
    match id {
        ActorId::Core(n) => format!("core{n}"),
        ActorId::Aicpu(n) => format!("aicpu{n}"),
        ActorId::Host(n) => format!("host{n}"),
        ActorId::Watchdog => "watchdog".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_wake_before_the_park_counts_once() {
        let exec = Arc::new(ThreadsExec::with_hz(50_000_000));
        let woken = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&woken);
        let sleeper = Actor::new(ActorId::Core(0), move |exec| {
            exec.wake(ActorId::Core(0));
            exec.wake(ActorId::Core(0));
            exec.park(ActorId::Core(0), None);
            let before = exec.nanos();
            exec.park(ActorId::Core(0), Some(Duration::from_millis(5)));
            assert!(exec.nanos() - before >= 5_000_000, "the second token was used up with the first");
            seen.store(1, Ordering::Relaxed);
        });
        exec.run(vec![sleeper]).expect("it runs");
        assert_eq!(woken.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn two_actors_hand_a_ball_to_each_other_without_losing_it() {
        let exec = Arc::new(ThreadsExec::with_hz(1_000_000_000));
        let ball = Arc::new(AtomicU32::new(0));
        let player = |me: u32| {
            let ball = Arc::clone(&ball);
            Actor::new(ActorId::Aicpu(me), move |exec| {
                loop {
                    let n = ball.load(Ordering::Acquire);
                    if n >= 20_000 {
                        return exec.wake(ActorId::Aicpu(1 - me));
                    }
                    if n % 2 == me {
                        ball.store(n + 1, Ordering::Release);
                        exec.wake(ActorId::Aicpu(1 - me));
                    } else {
                        exec.park(ActorId::Aicpu(me), None);
                    }
                }
            })
        };
        exec.run(vec![player(0), player(1)]).expect("it runs");
        assert_eq!(ball.load(Ordering::Relaxed), 20_000);
    }

    #[test]
    fn the_counter_ticks_at_the_platforms_rate_and_never_backwards() {
        for hz in [50_000_000, 1_000_000_000] {
            let counter = ScaledCounter::new(hz);
            let (t0, begun) = (counter.ticks(), Instant::now());
            thread::sleep(Duration::from_millis(30));
            let (t1, real) = (counter.ticks(), begun.elapsed());
            let expected = real.as_secs_f64() * hz as f64;
            let seen = (t1 - t0) as f64;
            assert!((seen / expected - 1.0).abs() < 0.02, "{seen} ticks, expected {expected}");
            let mut last = t1;
            for _ in 0..10_000 {
                let now = counter.ticks();
                assert!(now >= last);
                last = now;
            }
        }
    }

    #[test]
    fn a_reading_is_never_less_than_one_that_another_thread_handed_over() {
        use std::sync::atomic::AtomicU64;
        const ROUNDS: u64 = 100_000;
        let counter = ScaledCounter::new(1_000_000_000);
        // Whose turn it is, and the reading that came with it.
        let (turn, reading) = (AtomicU64::new(0), AtomicU64::new(0));
        let player = |mine: u64| {
            let mut earlier = 0;
            for round in (mine..ROUNDS).step_by(2) {
                let mut looks = 0;
                while turn.load(Ordering::Acquire) != round {
                    // On one processor the other must be let in.
                    looks += 1;
                    if looks % 2_000 == 0 {
                        thread::yield_now();
                    }
                }
                let now = counter.ticks();
                earlier += u64::from(now < reading.load(Ordering::Relaxed));
                reading.store(counter.ticks(), Ordering::Relaxed);
                turn.store(round + 1, Ordering::Release);
            }
            earlier
        };
        let earlier = thread::scope(|scope| {
            let other = scope.spawn(|| player(1));
            player(0) + other.join().expect("it plays")
        });
        assert_eq!(earlier, 0, "readings before what was handed over, of {ROUNDS}");
    }

    #[test]
    fn an_executor_runs_once_and_says_so() {
        let exec = Arc::new(ThreadsExec::with_hz(50_000_000));
        Arc::clone(&exec).run(Vec::new()).expect("first");
        assert!(matches!(exec.run(Vec::new()), Err(RunError::UsedUp)));
    }
}
