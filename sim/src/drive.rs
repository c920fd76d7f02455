//! How a run is driven: on real threads, or on the virtual clock, where the host's workers are actors too.

use crate::device::SimDevice;
use crate::exec::threads::{ScaledCounter, ThreadsExec, TickSource};
use crate::exec::virtual_time::VirtualExec;
use crate::exec::{Actor, ActorId, Cost, Exec};
use crate::faults::host::Sleep;
use crate::run::Progress;
use crate::runtime::{Faults, Launch, LaunchError, LaunchOutcome, Recorder};
use dfx_host_drain::dump::Flow;
use dfx_host_drain::{ConfigError, Stepper, Target};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use time::OffsetDateTime;

/// Where the three sides of a run read the platform's counter.
#[derive(Clone)]
pub struct Clocks {
    /// The host, once, at the launch.
    pub host: Arc<dyn TickSource>,
    /// The cores.
    pub cores: Arc<dyn TickSource>,
    /// The AICPU threads.
    pub aicpus: Arc<dyn TickSource>,
}

impl Clocks {
    /// One counter for all.
    pub fn one(ticks: Arc<dyn TickSource>) -> Self {
        Clocks { host: Arc::clone(&ticks), cores: Arc::clone(&ticks), aicpus: ticks }
    }
}

/// How eagerly the host works while the device runs. What it left is taken at the end, whatever this says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HostPace {
    /// On the session's own threads, as fast as they can.
    #[default]
    Threads,
    /// One step so often: a slow host.
    Every(Duration),
    /// Not at all: a dead host.
    Never,
}

/// Is told how dumped payload fares, with the time in ns, after each of the host's steps on the virtual clock.
pub type FlowWatch = Arc<dyn Fn(u64, &Flow) + Send + Sync>;

/// What a run runs on; tests bring their own.
#[derive(Clone)]
pub struct Rig {
    /// The counter.
    pub clocks: Clocks,
    /// The diagnostics' memory.
    pub device: Arc<SimDevice>,
    /// The host's speed.
    pub pace: HostPace,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// Whether the outcome lists the dependencies that the orchestrator declared.
    pub keep_edges: bool,
    /// Who watches the dump's payload.
    pub flow_watch: Option<FlowWatch>,
}

impl Rig {
    /// The real clock, memory of its own, an eager host, no faults, no edges.
    pub fn new(target: Target) -> Self {
        Rig {
            clocks: Clocks::one(Arc::new(ScaledCounter::new(target.geometry().clock_hz))),
            device: Arc::default(),
            pace: HostPace::default(),
            faults: Faults::default(),
            keep_edges: false,
            flow_watch: None,
        }
    }
}

/// What makes time pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockKind {
    /// Real threads on the real clock.
    #[default]
    Threads,
    /// Discrete events on one thread: the same seed gives the same bytes.
    Virtual,
}

impl FromStr for ClockKind {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "threads" => Ok(ClockKind::Threads),
            "virtual" => Ok(ClockKind::Virtual),
            _ => Err(ConfigError::new("clock", text, "threads or virtual")),
        }
    }
}

/// How long an idle host worker sleeps on the virtual clock.
const NAP: Duration = Duration::from_micros(100);
/// What a look at the queues and a delivered buffer cost the host on the virtual clock.
const LOOK: Duration = Duration::from_micros(2);
const BUFFER: Duration = Duration::from_micros(5);

/// A run's driver.
pub(crate) enum Drive {
    /// Actors as threads.
    Threads {
        /// The executor.
        exec: Arc<ThreadsExec>,
        /// When the command began.
        begun: Instant,
        /// The same, for people.
        started_at: OffsetDateTime,
    },
    /// Actors as coroutines.
    Virtual {
        /// The executor.
        exec: Arc<VirtualExec>,
        /// Its time at the beginning, in ns.
        begun: u64,
    },
}

impl Drive {
    /// The driver of `kind`; `clocks` are read by real threads.
    pub(crate) fn new(kind: ClockKind, hz: u64, clocks: &Clocks) -> Self {
        match kind {
            ClockKind::Threads => Drive::Threads {
                exec: Arc::new(ThreadsExec::with_sides(
                    Arc::clone(&clocks.cores),
                    Arc::clone(&clocks.aicpus),
                )),
                begun: Instant::now(),
                started_at: OffsetDateTime::now_utc(),
            },
            ClockKind::Virtual => {
                let exec = Arc::new(VirtualExec::new(hz));
                Drive::Virtual { begun: exec.nanos(), exec }
            }
        }
    }

    /// The executor.
    pub(crate) fn exec(&self) -> Arc<dyn Exec> {
        match self {
            Drive::Threads { exec, .. } => exec.clone(),
            Drive::Virtual { exec, .. } => exec.clone(),
        }
    }

    /// How the host's worker sleeps when a fault plan stalls it.
    pub(crate) fn sleeper(&self) -> Sleep {
        match self {
            Drive::Threads { .. } => Box::new(std::thread::sleep),
            Drive::Virtual { exec, .. } => {
                let exec = Arc::clone(exec);
                Box::new(move |time| {
                    if VirtualExec::in_actor() {
                        exec.spend(ActorId::Host(0), Cost::Host(time));
                    }
                })
            }
        }
    }

    /// The counter at the launch, in ticks.
    pub(crate) fn launch_start(&self, clocks: &Clocks) -> u64 {
        match self {
            Drive::Threads { .. } => clocks.host.ticks(),
            Drive::Virtual { exec, .. } => exec.ticks(),
        }
    }

    /// When the command began; the epoch in virtual time.
    pub(crate) fn started_at(&self) -> OffsetDateTime {
        match self {
            Drive::Threads { started_at, .. } => *started_at,
            Drive::Virtual { .. } => OffsetDateTime::UNIX_EPOCH,
        }
    }

    /// The command's time so far, in ns.
    pub(crate) fn wall_ns(&self) -> u64 {
        match self {
            Drive::Threads { begun, .. } => begun.elapsed().as_nanos() as u64,
            Drive::Virtual { exec, begun } => exec.nanos() - begun,
        }
    }

    /// Runs the launch. The host's steps run on the session's own threads, or as the rig's pace says; the process is killed
    /// after `kill`; `watch` is called about ten times a second.
    pub(crate) fn execute<R: Recorder>(
        &self,
        launch: &Launch,
        recorder: &Arc<R>,
        host: &Stepper,
        Rig { pace, flow_watch, .. }: &Rig,
        kill: Option<Duration>,
        watch: &(dyn Fn(Progress) + Sync),
    ) -> Result<LaunchOutcome, LaunchError> {
        let exec = self.exec();
        let begun = exec.nanos();
        let pace = *pace;
        let look = || watch(Progress::of(host));
        let step = || {
            host.step();
        };
        let mut chores: Vec<(Duration, &(dyn Fn() + Sync))> = vec![(Duration::from_millis(100), &look)];
        let mut actors = launch.actors(recorder);
        match self {
            Drive::Threads { .. } => {
                if let HostPace::Every(pause) = pace {
                    chores.push((pause, &step));
                }
                if let Some(after) = kill {
                    std::thread::spawn(move || {
                        std::thread::sleep(after);
                        die();
                    });
                }
            }
            Drive::Virtual { .. } => {
                actors.extend(host_actor(launch, host, pace, flow_watch.clone()));
                if let Some(after) = kill {
                    actors.push(Actor::new(ActorId::Host(1), move |exec| {
                        exec.park(ActorId::Host(1), Some(after));
                        die();
                    }));
                }
            }
        }
        meanwhile(&chores, || exec.run(actors))?;
        Ok(launch.outcome(begun))
    }
}

/// The host's workers as an actor that ends when the device has ended and nothing is left to do.
fn host_actor(
    launch: &Launch,
    host: &Stepper,
    pace: HostPace,
    flow_watch: Option<FlowWatch>,
) -> Option<Actor> {
    let nap = match pace {
        HostPace::Threads => NAP,
        HostPace::Every(pause) => pause,
        HostPace::Never => return None,
    };
    let me = ActorId::Host(0);
    let (launch, host) = (launch.probe(), host.clone());
    let mut linger = Linger::default();
    Some(Actor::new(me, move |exec| {
        while let Some(done) = host.step() {
            exec.spend(me, Cost::Host(LOOK + BUFFER * done));
            if let (Some(watch), Some(flow)) = (&flow_watch, host.flow()) {
                watch(exec.nanos(), flow);
            }
            if done == 0 || pace != HostPace::Threads {
                if done == 0 && launch.device_done() && !linger.goes_on(&host) {
                    return;
                }
                exec.park(me, Some(nap));
            }
        }
    }))
}

/// Looks without progress after which a backlog of dumped payload is given to the session as it is.
const STUCK: u32 = 50_000;

/// The time after the device's end, in which the backlog of dumped payload is written at its pace.
#[derive(Default)]
struct Linger {
    drained: u64,
    stuck: u32,
}

impl Linger {
    fn goes_on(&mut self, host: &Stepper) -> bool {
        let Some(flow) = host.flow().filter(|flow| flow.backlog() > 0) else { return false };
        self.stuck = if flow.drained() == self.drained { self.stuck + 1 } else { 0 };
        self.drained = flow.drained();
        self.stuck < STUCK
    }
}

/// Runs `work`, and meanwhile each of `chores` on a thread of its own, so often.
fn meanwhile<T>(chores: &[(Duration, &(dyn Fn() + Sync))], work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let stops: Vec<_> = chores
            .iter()
            .map(|&(pause, chore)| {
                let (stop, stopped) = channel::<()>();
                scope.spawn(move || {
                    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                        chore();
                    }
                });
                stop
            })
            .collect();
        let outcome = work();
        drop(stops);
        outcome
    })
}

/// Ends this process as an operator's `kill -9` would.
fn die() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}
