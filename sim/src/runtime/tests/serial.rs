//! The same actors, one at a time, in an order drawn from a seed, on a clock that stands still while anybody can run. A
//! wake-up that is lost shows: the clock has to move to a sleeper's deadline.

use super::support::*;
use super::*;
use crate::exec::{Cost, Exec};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex};

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Runnable,
    Parked(Option<u64>),
    Done,
}

struct Turns {
    rng: SmallRng,
    now: u64,
    /// (what it does, whether a wake is stored)
    actors: BTreeMap<ActorId, (State, bool)>,
    current: Option<ActorId>,
}

impl Turns {
    /// Draws whose turn it is; moves the clock if nobody can run.
    fn pass_on(&mut self) {
        let runnable: Vec<ActorId> =
            self.actors.iter().filter(|(_, actor)| actor.0 == State::Runnable).map(|(&id, _)| id).collect();
        if !runnable.is_empty() {
            self.current = Some(runnable[self.rng.random_range(0..runnable.len())]);
            return;
        }
        let sleepers = self.actors.iter().filter_map(|(&id, actor)| match actor.0 {
            State::Parked(Some(until)) => Some((until, id)),
            _ => None,
        });
        let first = sleepers.min();
        if let Some((until, id)) = first {
            self.now = self.now.max(until);
            self.actors.insert(id, (State::Runnable, false));
        }
        self.current = first.map(|(_, id)| id);
        let left: Vec<_> = self.actors.iter().filter(|(_, actor)| actor.0 != State::Done).collect();
        assert!(first.is_some() || left.is_empty(), "nobody can run any more: {left:?}");
    }
}

struct SerialExec {
    turns: Mutex<Turns>,
    passed: Condvar,
    ticks: AtomicU64,
}

impl SerialExec {
    fn new(seed: u64) -> Arc<Self> {
        let rng = SmallRng::seed_from_u64(seed);
        let turns = Turns { rng, now: 0, actors: BTreeMap::new(), current: None };
        Arc::new(Self { turns: Mutex::new(turns), passed: Condvar::new(), ticks: AtomicU64::new(0) })
    }

    /// `me` goes on only when its turn comes again.
    fn give_turn(&self, me: ActorId, state: State) {
        let mut turns = lock(&self.turns);
        turns.actors.entry(me).and_modify(|actor| actor.0 = state);
        turns.pass_on();
        self.passed.notify_all();
        self.wait_for_turn(me, turns);
    }

    fn wait_for_turn(&self, me: ActorId, mut turns: std::sync::MutexGuard<'_, Turns>) {
        while turns.current != Some(me) && turns.actors[&me].0 != State::Done {
            turns = self.passed.wait(turns).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

impl Exec for SerialExec {
    fn now_core(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }
    fn now_aicpu(&self) -> u64 {
        self.now_core()
    }
    fn nanos(&self) -> u64 {
        lock(&self.turns).now
    }
    fn spend(&self, me: ActorId, _cost: Cost) {
        self.give_turn(me, State::Runnable);
    }
    fn park(&self, me: ActorId, timeout: Option<Duration>) {
        let mut turns = lock(&self.turns);
        let until = timeout.map(|timeout| turns.now + timeout.as_nanos() as u64);
        let token = turns.actors.get_mut(&me).map(|actor| std::mem::take(&mut actor.1));
        drop(turns);
        let state = if token == Some(true) { State::Runnable } else { State::Parked(until) };
        self.give_turn(me, state);
    }
    fn wake(&self, who: ActorId) {
        let mut turns = lock(&self.turns);
        if let Some(actor) = turns.actors.get_mut(&who) {
            *actor = match *actor {
                (State::Parked(_), _) => (State::Runnable, false),
                (state, _) => (state, true),
            };
        }
    }
    fn relax(&self) {
        // Only the actor whose turn it is runs.
        let current = lock(&self.turns).current;
        if let Some(me) = current {
            self.give_turn(me, State::Runnable);
        }
    }
    fn run(self: Arc<Self>, actors: Vec<Actor>) -> Result<(), RunError> {
        let mut turns = lock(&self.turns);
        turns.actors = actors.iter().map(|actor| (actor.id, (State::Runnable, false))).collect();
        turns.pass_on();
        drop(turns);
        std::thread::scope(|scope| {
            for Actor { id, body } in actors {
                let exec = &*self;
                scope.spawn(move || {
                    exec.wait_for_turn(id, lock(&exec.turns));
                    body(exec);
                    exec.give_turn(id, State::Done);
                });
            }
        });
        Ok(())
    }
}

/// Runs it; says how far the clock has moved.
fn run_serially(sketch: &Sketch, cfg: &LaunchConfig, level: Level, seed: u64) -> (Run, u64) {
    let program = Arc::new(sketch.program.clone());
    let memory = ProgramMemory::new(&program, Arc::new(crate::memory::HeapAlloc::default()));
    let recorder = Notebook::new(level);
    let exec = SerialExec::new(seed);
    let cfg = LaunchConfig { keep_edges: true, ..cfg.clone() };
    lock(&sketch.ran).clear();
    let memory = Arc::new(memory.expect("no buffers"));
    let outcome = launch(&cfg, Arc::clone(&program), memory, &recorder, exec.clone()).expect("launched");
    let notes = std::mem::take(&mut *lock(&recorder.notes));
    let ran = std::mem::take(&mut *lock(&sketch.ran));
    let now = exec.nanos();
    (Run { outcome, notes, reads: (0, 0), ran, program, level }, now)
}

#[test]
fn in_any_order_of_the_actors_nobody_sleeps_on_work() {
    for seed in 0..120 {
        let mut sketch = random_sketch(5_000 + seed, 30, 2);
        for op in &mut sketch.program.ops {
            if let crate::program::Op::Submit(submit) = op {
                submit.async_after = None;
            }
        }
        let limits = LaunchConfig { ring_window: 1 + seed as u32 % 12, ..cfg(2, 2 + seed as u32 % 4) };
        let (run, moved) = run_serially(&sketch, &limits, Level::OrchPhases, seed);
        run.assert_whole();
        assert_eq!(moved, 0, "seed {seed}: a sleeper had to be woken by its deadline");
    }
}

#[test]
fn the_same_order_gives_the_same_run() {
    let sketch = random_sketch(77, 40, 2);
    let runs = [0; 2].map(|_| run_serially(&sketch, &cfg(2, 4), Level::OrchPhases, 9));
    let [(a, a_moved), (b, b_moved)] = runs;
    assert_eq!(a_moved, b_moved);
    assert_eq!(a.notes.core_rows, b.notes.core_rows);
    assert_eq!(a.notes.aicpu_rows, b.notes.aicpu_rows);
    assert_eq!(a.notes.phases, b.notes.phases);
    assert_eq!(a.notes.submits, b.notes.submits);
}
