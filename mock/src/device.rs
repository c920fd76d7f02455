//! Mock cores that follow the register protocol one step at a time, and the AICPU that drives them.

use crate::clock::ScriptClock;
use crate::drain::MockHost;
use crate::region::Region;
use crate::rows::{LaneKey, phase, scramble, stamp};
use dfx_collector::abi::swimlane::{BufferKind, Level};
use dfx_collector::abi::token;
use dfx_collector::swimlane::{CoreRecorder, InitError, Slot, Swimlane};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A core's two registers.
#[derive(Debug)]
pub struct Registers {
    main: AtomicU32,
    cond: AtomicU32,
}

impl Default for Registers {
    fn default() -> Self {
        Registers { main: AtomicU32::new(token::AICPU_IDLE), cond: AtomicU32::new(token::IDLE_VALUE as u32) }
    }
}

/// Where a core is in its loop.
#[derive(Clone, Copy, Debug)]
enum At {
    Idle,
    Reserved { token: u32, slot: Slot },
    Running { token: u32, slot: Slot },
    Finished { token: u32, slot: Slot },
}

/// A core: reserve → acknowledge → (kernel) → finish → commit, one step at a time.
#[derive(Debug)]
pub struct MockCore {
    core: u32,
    registers: Arc<Registers>,
    recorder: Option<CoreRecorder>,
    at: At,
    last: u32,
    serial: u32,
    /// Tasks for which there was no slot.
    pub refused: u32,
    /// Records written.
    pub committed: u32,
}

impl MockCore {
    /// One step. `false`: nothing to do.
    pub fn step(&mut self) -> bool {
        match self.at {
            At::Idle => {
                let token = self.registers.main.load(Ordering::Acquire);
                if token == token::AICPU_IDLE || token == self.last {
                    return false;
                }
                self.last = token;
                let slot = self.recorder.as_mut().map_or(Slot::NONE, CoreRecorder::reserve);
                self.refused += u32::from(!slot.is_some());
                self.at = At::Reserved { token, slot };
            }
            At::Reserved { token, slot } => {
                self.registers.cond.store(token::ack(token), Ordering::Release);
                self.at = At::Running { token, slot };
            }
            At::Running { token, slot } => {
                self.registers.cond.store(token::fin(token), Ordering::Release);
                self.at = At::Finished { token, slot };
            }
            At::Finished { token, slot } => {
                let start = stamp((BufferKind::AicoreTask, self.core), self.serial);
                let end = scramble(start);
                let receive = start.wrapping_sub(u64::from(self.serial % 1000));
                // SAFETY: reserved by this core's recorder, and AICPU was not shown a later acknowledge.
                unsafe { CoreRecorder::commit(slot, start, end, scramble(end), token, receive) };
                self.serial += 1;
                self.committed += u32::from(slot.is_some());
                self.at = At::Idle;
            }
        }
        true
    }

    /// Whether a task was dispatched to it for which it has reserved no slot yet.
    pub fn unreserved(&self) -> bool {
        let token = self.registers.main.load(Ordering::Relaxed);
        token != token::AICPU_IDLE && token != self.last
    }
}

/// The AICPU's view of one core.
#[derive(Debug)]
pub struct Driver {
    core: u32,
    thread: u32,
    level: Level,
    registers: Arc<Registers>,
    next: u32,
    unacknowledged: Option<u32>,
    running: VecDeque<u32>,
    /// The condition register when it was last looked at.
    seen: u32,
    /// Tasks dispatched.
    pub dispatched: u32,
    /// Tasks seen to complete.
    pub completed: u32,
}

impl Driver {
    /// Whether the core can be given a task: none unacknowledged, at most one running.
    pub fn ready(&self) -> bool {
        self.unacknowledged.is_none() && self.running.len() < 2
    }

    /// Sets the next token.
    pub fn set_token(&mut self, token: u32) {
        self.next = token;
    }

    /// The token that comes next.
    pub fn token(&self) -> u32 {
        self.next
    }

    /// Dispatches a task: the hook first, then the register.
    pub fn dispatch(&mut self, swimlane: &Swimlane<ScriptClock>) -> u32 {
        assert!(self.ready());
        let token = self.next;
        self.next = if token + 1 == token::EXIT_SIGNAL { 0 } else { token + 1 };
        if self.level >= Level::AicoreTiming {
            // SAFETY: the mock device is driven by one thread per core and thread number.
            unsafe { swimlane.on_dispatch(self.core, self.thread, token) };
        }
        self.unacknowledged = Some(token);
        self.running.push_back(token);
        self.dispatched += 1;
        self.registers.main.store(token, Ordering::Release);
        token
    }

    /// Looks at the core's condition register and handles what it shows. `false`: nothing new.
    pub fn poll(&mut self, swimlane: &Swimlane<ScriptClock>) -> bool {
        let word = self.registers.cond.load(Ordering::Acquire);
        if std::mem::replace(&mut self.seen, word) == word {
            return false;
        }
        let token = token::of(word);
        let Some(place) = self.running.iter().position(|&running| running == token) else { return false };
        let finished = token::state(word) == token::STATE_FIN;
        if self.unacknowledged == Some(token) {
            self.unacknowledged = None;
        } else if !finished && place == 0 {
            return false;
        }
        if self.level >= Level::AicoreTiming {
            // SAFETY: as above.
            unsafe { swimlane.on_ack(self.core, self.thread, token) };
        }
        // What ran before it is complete, even if its own FIN was missed.
        for _ in 0..place + usize::from(finished) {
            let done = self.running.pop_front().expect("counted");
            self.complete(swimlane, done);
        }
        true
    }

    fn complete(&mut self, swimlane: &Swimlane<ScriptClock>, token: u32) {
        let at = stamp((BufferKind::AicpuTask, self.core), self.completed);
        self.completed += 1;
        if self.level >= Level::AicpuTiming {
            // SAFETY: as above.
            unsafe { swimlane.complete_task(self.core, self.thread, token, at, scramble(at)) };
        }
    }
}

/// A whole device over a region: AICPU side, cores, counters of what was produced.
#[derive(Debug)]
pub struct Device {
    /// The collector under test. No `Box`: moving one claims what it points to, and a launched collector points into itself.
    pub swimlane: Arc<Swimlane<ScriptClock>>,
    /// Its clock.
    pub clock: ScriptClock,
    /// Cores by number.
    pub cores: Vec<MockCore>,
    /// AICPU's view of them.
    pub drivers: Vec<Driver>,
    /// Scheduler phases recorded, by thread.
    pub phases: Vec<u32>,
    /// Submits recorded.
    pub submits: u32,
}

impl Device {
    /// A collector that was not initialised.
    pub fn new(clock: ScriptClock) -> Self {
        let swimlane = Arc::new(Swimlane::new(clock.clone()));
        Device { swimlane, clock, cores: Vec::new(), drivers: Vec::new(), phases: Vec::new(), submits: 0 }
    }

    /// Initialises for a launch on `region`: the collector, its phases, and fresh cores.
    ///
    /// # Errors
    /// What the collector's init says.
    pub fn launch(&mut self, region: &Region) -> Result<(), InitError> {
        let shape = &region.shape;
        let table = region.table.addr(0);
        // SAFETY: the region was made for this geometry and outlives the launch; nothing else runs.
        unsafe {
            self.swimlane.init(shape.geometry, region.base(), table, shape.cores, Some(self.clock.peek()))?;
            self.swimlane.init_phases(shape.threads, 1);
        }
        self.swimlane.set_orch_thread(shape.threads);
        self.cores.clear();
        self.drivers.clear();
        for core in 0..shape.cores {
            let registers = Arc::new(Registers::default());
            // SAFETY: AICPU filled the table, and this is the core's only recorder.
            let recorder = unsafe { CoreRecorder::attach(region.table_entry(core)) };
            self.cores.push(MockCore {
                core,
                registers: Arc::clone(&registers),
                recorder: recorder.filter(|_| shape.level >= Level::AicoreTiming),
                at: At::Idle,
                last: token::AICPU_IDLE,
                serial: 0,
                refused: 0,
                committed: 0,
            });
            self.drivers.push(Driver {
                core,
                thread: core % shape.threads,
                level: shape.level,
                registers,
                next: 0,
                unacknowledged: None,
                running: VecDeque::new(),
                seen: token::IDLE_VALUE as u32,
                dispatched: 0,
                completed: 0,
            });
        }
        self.phases = vec![0; shape.threads as usize];
        self.submits = 0;
        Ok(())
    }

    /// Runs `tasks` tasks on `core`, each from dispatch to commit.
    pub fn run(&mut self, core: usize, tasks: u32) {
        for _ in 0..tasks {
            self.settle(core);
            self.drivers[core].dispatch(&self.swimlane);
        }
        self.settle(core);
    }

    /// Lets `core` finish what it has, and AICPU see it.
    pub fn settle(&mut self, core: usize) {
        while self.cores[core].step() {
            self.drivers[core].poll(&self.swimlane);
        }
        self.drivers[core].poll(&self.swimlane);
    }

    /// Records a scheduler phase on `thread`.
    pub fn phase(&mut self, thread: u32) {
        let serial = &mut self.phases[thread as usize];
        // SAFETY: one thread drives the mock.
        unsafe { self.swimlane.record_sched_phase(thread, &phase(thread, *serial)) };
        *serial += 1;
    }

    /// Records a submit.
    pub fn submit(&mut self) {
        let start = stamp((BufferKind::AicpuOrchPhase, 0), self.submits);
        let end = scramble(start);
        // SAFETY: one thread drives the mock.
        unsafe { self.swimlane.record_orch_phase(start, end, scramble(end), self.submits) };
        self.submits += 1;
    }

    /// The cores of `thread`.
    pub fn cores_of(&self, thread: u32) -> Vec<u32> {
        self.drivers.iter().filter(|driver| driver.thread == thread).map(|driver| driver.core).collect()
    }

    /// Flushes everything, thread by thread.
    pub fn flush(&self) {
        for thread in 0..self.phases.len() as u32 {
            // SAFETY: one thread drives the mock.
            unsafe {
                self.swimlane.flush(thread, &self.cores_of(thread));
                self.swimlane.flush_sched_phases(thread);
            }
        }
        // SAFETY: as above.
        unsafe { self.swimlane.flush_orch_phases() };
    }

    /// Makes all counts visible.
    pub fn sync(&self) {
        for thread in 0..=self.phases.len() as u32 {
            // SAFETY: one thread drives the mock.
            unsafe { self.swimlane.sync(thread, &self.cores_of(thread)) };
        }
    }

    /// What `lane` was given to record.
    pub fn produced(&self, lane: LaneKey) -> u32 {
        match lane.0 {
            BufferKind::AicoreTask => self.drivers[lane.1 as usize].dispatched,
            BufferKind::AicpuTask => self.drivers[lane.1 as usize].completed,
            BufferKind::AicpuSchedPhase => self.phases[lane.1 as usize],
            BufferKind::AicpuOrchPhase => self.submits,
        }
    }
}

/// A region, its host and its device, ready to run.
#[derive(Debug)]
pub struct Rig {
    /// The region.
    pub region: Arc<Region>,
    /// The host.
    pub host: Arc<std::sync::Mutex<MockHost>>,
    /// The device.
    pub device: Device,
}

impl Rig {
    /// A rig whose host has offered its buffers and whose device is initialised. The clock advances `step` ticks a read.
    pub fn new(shape: crate::region::Shape, step: u64) -> Rig {
        let mut rig = Rig::cold(shape, step);
        rig.host().refill();
        rig.device.launch(&rig.region).expect("a region that fits");
        rig
    }

    /// A rig whose host has offered nothing and whose device is not initialised.
    pub fn cold(shape: crate::region::Shape, step: u64) -> Rig {
        let region = Arc::new(Region::new(shape));
        let host = Arc::new(std::sync::Mutex::new(MockHost::new(&region)));
        Rig { region, host, device: Device::new(ScriptClock::new(1 << 32, step)) }
    }

    /// The host.
    pub fn host(&self) -> std::sync::MutexGuard<'_, MockHost> {
        self.host.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Lets the host take a step whenever a producer waits.
    pub fn help_while_waiting(&self) {
        let host = Arc::clone(&self.host);
        self.device.clock.on_relax(move || {
            host.lock().unwrap_or_else(std::sync::PoisonError::into_inner).step(1);
        });
    }

    /// The books, checked for conservation in every lane.
    pub fn finish(&self) -> Vec<crate::drain::Account> {
        let books = self.host().finish();
        for account in &books {
            account.assert_conserved(self.device.produced(account.key));
        }
        books
    }

    /// The books, checked that nothing is missing in any lane.
    pub fn finish_whole(&self) -> Vec<crate::drain::Account> {
        let books = self.host().finish();
        for account in &books {
            account.assert_whole(self.device.produced(account.key));
        }
        books
    }
}
