//! Actors as coroutines on a virtual clock: one thread, discrete events, the same code as on real threads.
//!
//! Every actor has its place in an event queue ordered by time and, among equals, by when the event was made. The actor
//! at the front runs until it takes time (`spend`, `relax`) or waits (`park`); then the next event is due. So a run is a
//! function of the program and the seed, however long it takes and whatever else the machine does: a million tasks on 108
//! cores need no 108 threads, and 45 seconds of a timeout pass in no time.

use super::{Actor, ActorId, Cost, Exec, RunError};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time at which a run begins, in ns: not 0, which in a record means that it is not there.
const BEGIN: u64 = 1_000_000_000;
/// One look of a waiting collector at its word, in ns.
const RELAX: u64 = 1_000;

/// What work costs on the virtual clock, in ns: the order of magnitude that the captured runs show.
fn price(cost: Cost) -> u64 {
    match cost {
        Cost::Poll { cores } => 20 + 4 * u64::from(cores),
        Cost::Acknowledged => 20,
        Cost::Finished => 60,
        Cost::Resolve { consumers } => 20 + 15 * u64::from(consumers),
        Cost::Dispatch => 120,
        Cost::Retire => 60,
        Cost::Release { tasks } => 20 + 10 * u64::from(tasks),
        Cost::GraphPrepare { nodes } => 50 + 30 * u64::from(nodes),
        Cost::CoreTake => 80,
        Cost::CoreFinish => 40,
        Cost::Kernel(duration) | Cost::Host(duration) => duration.as_nanos() as u64,
        // An AICPU copies about 4 GB/s.
        Cost::DumpArg { bytes } => 60 + bytes / 4,
        Cost::Submit { fan_in, args } => 100 + 10 * u64::from(fan_in) + 10 * u64::from(args),
    }
}

/// An actor's turn: at `time`, after all turns of that time with a lower `order`. A turn whose `epoch` is not its seat's
/// any more (a timeout that a wake has overtaken) is passed over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Turn {
    time: u64,
    order: u64,
    seat: u32,
    epoch: u32,
}

/// Where one actor waits.
#[derive(Debug)]
struct Seat {
    id: ActorId,
    /// A wake that came before its park.
    token: bool,
    parked: bool,
    epoch: u32,
}

#[derive(Debug, Default)]
struct State {
    time: u64,
    order: u64,
    turns: BinaryHeap<Reverse<Turn>>,
    seats: Vec<Seat>,
    /// The seat of the actor that is running.
    current: u32,
    cores: Vec<u32>,
    aicpus: Vec<u32>,
    hosts: Vec<u32>,
    watchdog: Option<u32>,
    used: bool,
}

impl State {
    fn push(&mut self, time: u64, seat: u32) {
        let epoch = self.seats[seat as usize].epoch;
        self.order += 1;
        self.turns.push(Reverse(Turn { time, order: self.order, seat, epoch }));
    }

    fn seat_of(&self, id: ActorId) -> Option<u32> {
        match id {
            ActorId::Core(n) => self.cores.get(n as usize).copied(),
            ActorId::Aicpu(n) => self.aicpus.get(n as usize).copied(),
            ActorId::Host(n) => self.hosts.get(n as usize).copied(),
            ActorId::Watchdog => self.watchdog,
        }
        .filter(|&seat| seat != u32::MAX)
    }

    fn enter(&mut self, id: ActorId) {
        let seat = self.seats.len() as u32;
        self.seats.push(Seat { id, token: false, parked: false, epoch: 0 });
        let (list, n) = match id {
            ActorId::Core(n) => (&mut self.cores, n as usize),
            ActorId::Aicpu(n) => (&mut self.aicpus, n as usize),
            ActorId::Host(n) => (&mut self.hosts, n as usize),
            ActorId::Watchdog => {
                self.watchdog = Some(seat);
                return;
            }
        };
        if list.len() <= n {
            list.resize(n + 1, u32::MAX);
        }
        list[n] = seat;
    }

    /// The next turn that still counts.
    fn next(&mut self) -> Option<Turn> {
        while let Some(Reverse(turn)) = self.turns.pop() {
            if self.seats[turn.seat as usize].epoch == turn.epoch {
                return Some(turn);
            }
        }
        None
    }
}

/// The executor of virtual time; one per launch.
pub struct VirtualExec {
    hz: u64,
    state: Mutex<State>,
}

type Coro = Coroutine<(), (), ()>;

thread_local! {
    /// The yielder of the coroutine that is running on this thread.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
}

/// Lets the event loop go on; returns when it is this coroutine's turn again.
fn suspend() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "only an actor of a running virtual clock may wait on it");
    // SAFETY: `VirtualExec::run` set it at the start of the coroutine that is running, whose stack holds the yielder
    // until the coroutine ends; every suspended coroutine puts its own back below.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}

impl VirtualExec {
    /// A clock that begins at one second and whose counter ticks `hz` times a second.
    pub fn new(hz: u64) -> Self {
        VirtualExec { hz, state: Mutex::new(State { time: BEGIN, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caller is an actor of a running virtual clock, as opposed to whoever runs before or after.
    pub fn in_actor() -> bool {
        !YIELDER.get().is_null()
    }

    /// The counter now, in ticks.
    pub fn ticks(&self) -> u64 {
        (u128::from(self.state().time) * u128::from(self.hz) / 1_000_000_000) as u64
    }

    fn advance(&self, nanos: u64) {
        let mut state = self.state();
        let time = state.time + nanos;
        if state.turns.peek().is_none_or(|Reverse(turn)| turn.time > time) {
            // Nobody else is due before: no need to go through the queue.
            state.time = time;
            return;
        }
        let current = state.current;
        state.push(time, current);
        drop(state);
        suspend();
    }
}

impl Exec for VirtualExec {
    fn now_core(&self) -> u64 {
        self.ticks()
    }

    fn now_aicpu(&self) -> u64 {
        self.ticks()
    }

    fn nanos(&self) -> u64 {
        self.state().time
    }

    fn spend(&self, _me: ActorId, cost: Cost) {
        self.advance(price(cost));
    }

    fn park(&self, _me: ActorId, timeout: Option<Duration>) {
        let mut state = self.state();
        let current = state.current;
        let time = state.time;
        let seat = &mut state.seats[current as usize];
        if std::mem::take(&mut seat.token) {
            return;
        }
        seat.epoch = seat.epoch.wrapping_add(1);
        seat.parked = true;
        if let Some(timeout) = timeout {
            state.push(time.saturating_add(timeout.as_nanos() as u64), current);
        }
        drop(state);
        suspend();
        let mut state = self.state();
        let seat = &mut state.seats[current as usize];
        seat.parked = false;
        seat.token = false;
    }

    fn wake(&self, who: ActorId) {
        let mut state = self.state();
        let Some(place) = state.seat_of(who) else { return };
        let time = state.time;
        let seat = &mut state.seats[place as usize];
        if seat.parked && !seat.token {
            // The timeout, if there is one, is overtaken.
            seat.token = true;
            seat.epoch = seat.epoch.wrapping_add(1);
            state.push(time, place);
        } else {
            seat.token = true;
        }
    }

    fn relax(&self) {
        self.advance(RELAX);
    }

    fn run(self: Arc<Self>, actors: Vec<Actor>) -> Result<(), RunError> {
        let mut coroutines: Vec<Option<Coro>> = Vec::with_capacity(actors.len());
        {
            let mut state = self.state();
            if std::mem::replace(&mut state.used, true) {
                return Err(RunError::UsedUp);
            }
            for actor in &actors {
                state.enter(actor.id);
            }
            for seat in 0..actors.len() as u32 {
                let time = state.time;
                state.push(time, seat);
            }
        }
        for Actor { body, .. } in actors {
            let exec = Arc::clone(&self);
            coroutines.push(Some(Coro::new(move |yielder, ()| {
                YIELDER.set(yielder);
                body(&*exec);
            })));
        }
        let mut left = coroutines.len();
        while left > 0 {
            let turn = {
                let mut state = self.state();
                let Some(turn) = state.next() else {
                    let stuck =
                        state.seats.iter().zip(&coroutines).filter(|(_, c)| c.is_some()).map(|(s, _)| s.id);
                    return Err(RunError::Stuck { actors: stuck.collect() });
                };
                state.time = turn.time;
                state.current = turn.seat;
                turn
            };
            let slot = &mut coroutines[turn.seat as usize];
            if let Some(coroutine) = slot
                && let CoroutineResult::Return(()) = coroutine.resume(())
            {
                *slot = None;
                left -= 1;
                // Turns of an actor that has ended are passed over.
                let mut state = self.state();
                let seat = &mut state.seats[turn.seat as usize];
                seat.epoch = seat.epoch.wrapping_add(1);
                seat.parked = false;
            }
        }
        YIELDER.set(std::ptr::null());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn log() -> Arc<Mutex<Vec<(u64, u32)>>> {
        Arc::default()
    }

    #[test]
    fn actors_run_in_the_order_of_their_times() {
        let exec = Arc::new(VirtualExec::new(1_000_000_000));
        let seen = log();
        let actors = (0..3).map(|n| {
            let seen = Arc::clone(&seen);
            Actor::new(ActorId::Core(n), move |exec| {
                for _ in 0..3 {
                    exec.spend(ActorId::Core(n), Cost::Kernel(Duration::from_nanos(10 * u64::from(n + 1))));
                    seen.lock().unwrap().push((exec.nanos() - BEGIN, n));
                }
            })
        });
        exec.run(actors.collect()).unwrap();
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen, [(10, 0), (20, 1), (20, 0), (30, 2), (30, 0), (40, 1), (60, 2), (60, 1), (90, 2)]);
    }

    #[test]
    fn a_wake_before_the_park_counts_and_a_timeout_ends_it() {
        let exec = Arc::new(VirtualExec::new(50_000_000));
        let ends = log();
        let sleeper = {
            let ends = Arc::clone(&ends);
            Actor::new(ActorId::Aicpu(0), move |exec| {
                for n in 0..3 {
                    exec.park(ActorId::Aicpu(0), Some(Duration::from_micros(5)));
                    ends.lock().unwrap().push((exec.nanos() - BEGIN, n));
                }
            })
        };
        let waker = Actor::new(ActorId::Core(0), |exec| {
            exec.wake(ActorId::Aicpu(0));
            exec.wake(ActorId::Aicpu(0));
            exec.spend(ActorId::Core(0), Cost::Kernel(Duration::from_micros(2)));
            exec.wake(ActorId::Aicpu(0));
            exec.wake(ActorId::Aicpu(7));
        });
        exec.run(vec![waker, sleeper]).unwrap();
        assert_eq!(*ends.lock().unwrap(), [(0, 0), (2000, 1), (7000, 2)]);
    }

    #[test]
    fn actors_that_wait_for_one_another_are_named() {
        let exec = Arc::new(VirtualExec::new(50_000_000));
        let error = exec
            .run(vec![Actor::new(ActorId::Core(4), |exec| exec.park(ActorId::Core(4), None))])
            .unwrap_err();
        assert!(error.to_string().contains("Core(4)"), "{error}");
    }

    #[test]
    fn a_wait_in_a_collector_lets_the_others_run() {
        let exec = Arc::new(VirtualExec::new(50_000_000));
        let word = Arc::new(AtomicU32::new(0));
        let (theirs, ours) = (Arc::clone(&word), Arc::clone(&word));
        let host = Actor::new(ActorId::Host(0), move |exec| {
            exec.spend(ActorId::Host(0), Cost::Host(Duration::from_millis(3)));
            theirs.store(1, Ordering::Relaxed);
        });
        let device = Actor::new(ActorId::Aicpu(0), move |exec| {
            while ours.load(Ordering::Relaxed) == 0 {
                exec.relax();
            }
            assert!((3_000_000..3_002_000).contains(&(exec.nanos() - BEGIN)));
        });
        exec.run(vec![device, host]).unwrap();
    }
}
