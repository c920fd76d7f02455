//! One run's host half, from its configuration to its files.
//!
//! ```text
//! configure ─▶ start ─▶ (the device runs) ─▶ stop ─▶ reconcile ─▶ export, report ─▶ release
//! ```
//!
//! A process may have many sessions one after the other, with other levels, cores and threads: a session owns everything
//! it uses, and everything goes back when it is released or dropped. With no switch on there is no region, no thread and
//! no file, and every step is a no-op.

use crate::artifact::ArtifactInfo;
use crate::collect::Collector;
use crate::config::{Board, ConfigError, DfxConfig, TransportKind};
use crate::dump::Dump;
use crate::export::host::HostOrchestration;
use crate::features;
use crate::features::pmu::PmuRegion;
use crate::features::swimlane::SwimlaneRegion;
use crate::lanes::LaneTable;
use crate::memory::DeviceMemory;
use crate::reconcile::{Closed, close};
use crate::region::{self, Region};
use crate::report::{ArtifactEntry, Feature, Half, Levels, Reason, StreamReport};
use crate::service::Service;
use crate::testpoint::Points;
use crate::transport::{Copy, Svm, Transport, TransportError};
use crate::workers::{SystemThreads, Threads, Workers};
use crossbeam_queue::SegQueue;
use dfx_collector::abi::DeviceAddr;
use engine::{Bells, Engine, lock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

mod dump;
mod engine;
mod export;
mod program;

pub use engine::Stepper;
pub use export::ExportError;

/// What a session is made for.
pub struct SessionSpec {
    /// The switches.
    pub config: DfxConfig,
    /// The board.
    pub board: Board,
    /// The platform's memory.
    pub memory: Arc<dyn DeviceMemory>,
    /// How the host reaches it.
    pub transport: TransportKind,
}

/// Where the host's steps run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drive {
    /// On the session's own threads.
    Threads,
    /// Wherever the caller calls [`Stepper::step`].
    Stepped,
}

/// How the device came to rest. It must be at rest: nothing writes its memory any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceEnd {
    /// It did everything and flushed.
    Completed,
    /// It hung, was killed, or gave up: counts may not be published and buffers not flushed.
    Abnormal,
}

/// A step that a session could not take.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The configuration cannot be had.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The platform gave no memory, or no way to it.
    #[error(
        "the diagnostics' memory could not be set up: {0}; nothing is left allocated. Record at a lower level or with fewer buffers, or run without diagnostics"
    )]
    Memory(#[from] TransportError),
    /// The system gave no thread.
    #[error("the drain's threads could not be started: {0}; raise the limit of processes")]
    Threads(std::io::Error),
    /// A step out of turn.
    #[error(
        "{step} was called while the session was {state}; the order is configure, start, stop, reconcile, export, release"
    )]
    Order {
        /// The step.
        step: &'static str,
        /// Where the session was.
        state: &'static str,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Configured,
    Running,
    Stopped,
    Reconciled,
    Released,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            State::Configured => "configured",
            State::Running => "running",
            State::Stopped => "stopped",
            State::Reconciled => "reconciled",
            State::Released => "released",
        }
    }
}

/// One run's host half.
pub struct Session {
    config: DfxConfig,
    board: Board,
    state: State,
    engine: Option<Arc<Engine>>,
    workers: Option<Workers>,
    panicked: Vec<&'static str>,
    end: DeviceEnd,
    drive: Drive,
    closed: Closed,
    host: Option<HostOrchestration>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("state", &self.state)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Validates, allocates and lays out everything that the device will need.
    ///
    /// # Errors
    /// [`SessionError::Config`] and [`SessionError::Memory`]; nothing stays allocated then.
    pub fn configure(spec: SessionSpec) -> Result<Session, SessionError> {
        Session::configure_with(spec, |transport| transport, Points::default())
    }

    /// [`configure`](Self::configure) with faults: `wrap` may put itself around the transport, and `points` act.
    ///
    /// # Errors
    /// As [`configure`](Self::configure).
    pub fn configure_with(
        spec: SessionSpec,
        wrap: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>,
        points: Points,
    ) -> Result<Session, SessionError> {
        let SessionSpec { config, board, memory, transport } = spec;
        board.validate()?;
        config.validate()?;
        let plans = features::plans(&config, &board);
        let engine = if plans.is_empty() {
            None
        } else {
            let transport = wrap(match transport {
                TransportKind::Svm => Arc::new(Svm::new(memory)),
                TransportKind::Copy => Arc::new(Copy::new(memory)),
            });
            let mut table = LaneTable::default();
            let regions = region::make(&*transport, &mut table, plans)?;
            for region in regions.iter().filter(|region| region.feature == Feature::Pmu) {
                features::pmu::arm(&*transport, region, &board)?;
            }
            for region in regions.iter().filter(|region| region.feature == Feature::DumpArgs) {
                features::args_dump::arm(&*transport, region, &config, &board)?;
            }
            let bells = Bells::default();
            let dump = dump::made(&transport, &regions, &config, &board, &points, &bells);
            let index = table.lanes.iter().map(|lane| lane.index).collect();
            Some(Arc::new(Engine {
                flow: dump.as_ref().map(Dump::flow).unwrap_or_default(),
                pen: dump.as_ref().map(Dump::pen),
                lifted: AtomicBool::new(false),
                bells,
                collector: Mutex::new(
                    Collector::new(board.cores(), board.geometry().max_threads, index).with_dump(dump),
                ),
                service: Mutex::new(Service::new(transport, table, regions.clone(), config.backpressure)),
                delivered: SegQueue::new(),
                waiting: AtomicU64::new(0),
                kept: AtomicU64::new(0),
                regions,
                points,
                dead: AtomicBool::new(false),
            }))
        };
        Ok(Session {
            config,
            board,
            state: State::Configured,
            engine,
            workers: None,
            panicked: Vec::new(),
            end: DeviceEnd::Completed,
            drive: Drive::Threads,
            closed: Closed::default(),
            host: None,
        })
    }

    fn expect(&self, step: &'static str, states: &[State]) -> Result<(), SessionError> {
        if states.contains(&self.state) {
            Ok(())
        } else {
            Err(SessionError::Order { step, state: self.state.name() })
        }
    }

    fn region(&self, feature: Feature) -> Option<&Region> {
        self.engine.as_ref()?.regions.iter().find(|region| region.feature == feature)
    }

    /// The region for the device, when the chip swimlane is on.
    pub fn swimlane_region(&self) -> Option<SwimlaneRegion> {
        let region = self.region(Feature::ChipSwimlane)?;
        Some(features::swimlane::for_device(region, &self.board))
    }

    /// The PMU's region for the device, when it is on.
    pub fn pmu_region(&self) -> Option<PmuRegion> {
        let region = self.region(Feature::Pmu)?;
        Some(features::pmu::for_device(region, &self.board))
    }

    /// dep_gen's region for the device, when it is on.
    pub fn dep_gen_region(&self) -> Option<DeviceAddr> {
        self.region(Feature::DepGen).map(|region| region.base)
    }

    /// The scope statistics' region for the device, when they are on.
    pub fn scope_stats_region(&self) -> Option<DeviceAddr> {
        self.region(Feature::ScopeStats).map(|region| region.base)
    }

    /// The switches.
    pub fn config(&self) -> &DfxConfig {
        &self.config
    }

    /// Writes another level into the region's header than the session was configured for: a fault that a plan injects
    /// before the device initialises.
    ///
    /// # Errors
    /// When the transport fails, or [`SessionError::Order`] unless just configured.
    #[cfg(feature = "testpoints")]
    pub fn overwrite_level(&self, level: u32) -> Result<(), SessionError> {
        self.expect("overwrite_level", &[State::Configured])?;
        if let (Some(engine), Some(region)) = (&self.engine, self.swimlane_region()) {
            let at = region.base.offset(region.layout.level as u64);
            lock(&engine.service).transport().store_u32(at, level)?;
        }
        Ok(())
    }

    /// Starts draining.
    ///
    /// # Errors
    /// [`SessionError::Threads`], and [`SessionError::Order`] unless just configured.
    pub fn start(&mut self, drive: Drive) -> Result<(), SessionError> {
        self.start_on(&SystemThreads, drive)
    }

    /// [`start`](Self::start) with threads from `threads`, which are joined by [`stop`](Self::stop).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(&mut self, threads: &dyn Threads, drive: Drive) -> Result<(), SessionError> {
        self.expect("start", &[State::Configured])?;
        self.drive = drive;
        if let Some(engine) = &self.engine
            && lock(&engine.collector).dump().is_some_and(|dump| !dump.has_output())
        {
            let expected = "a directory, named by set_output before start: dumped payload is written while the device runs";
            return Err(ConfigError::new("output", "none", expected).into());
        }
        if let (Some(engine), Drive::Threads) = (&self.engine, drive) {
            engine.write_beside(true);
            let workers = Workers::start(threads, engine.work()).inspect_err(|_| engine.write_beside(false));
            self.workers = Some(workers.map_err(SessionError::Threads)?);
        }
        self.state = State::Running;
        Ok(())
    }

    /// The session's steps, for a caller that drives them.
    pub fn stepper(&self) -> Stepper {
        Stepper(self.engine.clone())
    }

    /// Stops draining, once the device is at rest, and takes everything that it published.
    ///
    /// # Errors
    /// [`SessionError::Order`] unless running.
    pub fn stop(&mut self, end: DeviceEnd) -> Result<(), SessionError> {
        self.expect("stop", &[State::Running])?;
        if let Some(mut workers) = self.workers.take() {
            self.panicked = workers.stop();
        }
        if let Some(engine) = &self.engine {
            engine.write_beside(false);
            if engine.dead.load(Ordering::Relaxed) {
                self.panicked.push("service");
            }
            // At rest: two idle steps in a row mean empty queues, unless a transfer keeps failing, which is bounded.
            let mut idle = 0;
            while idle < crate::drain::ATTEMPTS + 1 {
                idle = if engine.step_service() == 0 { idle + 1 } else { 0 };
                while engine.step_collect() > 0 {}
                let backlog = engine.flow.backlog();
                if idle > crate::drain::ATTEMPTS && backlog > 0 && !engine.lifted.load(Ordering::Relaxed) {
                    // What is left goes at the budget's pace, too, unless the time is the caller's and stands still now.
                    engine.linger(self.drive);
                    idle = 0;
                }
            }
        }
        self.end = end;
        self.state = State::Stopped;
        Ok(())
    }

    /// Takes what was never published, and closes every lane's account with the device's own totals.
    ///
    /// # Errors
    /// [`SessionError::Order`] unless stopped.
    pub fn reconcile(&mut self) -> Result<(), SessionError> {
        self.expect("reconcile", &[State::Stopped])?;
        if let Some(engine) = &self.engine {
            let mut service = lock(&engine.service);
            let mut collector = lock(&engine.collector);
            let abnormal = self.end == DeviceEnd::Abnormal || !self.panicked.is_empty();
            self.closed = close(&mut service, &mut collector, &self.board, &self.config, abnormal);
            for &name in &self.panicked {
                self.closed.reasons.push(Reason {
                    code: "host_thread_panicked".into(),
                    feature: None,
                    lane: None,
                    count: 1,
                    message: format!(
                        "the host thread {name:?} panicked: what it had not drained was taken at the end; see its message \
                         on stderr and report it"
                    ),
                });
            }
        }
        self.state = State::Reconciled;
        Ok(())
    }

    /// The ledger of all lanes that have something to say.
    pub fn streams(&self) -> &[StreamReport] {
        &self.closed.streams
    }

    /// Odd records by kind.
    pub fn anomalies(&self) -> &BTreeMap<String, u64> {
        &self.closed.anomalies
    }

    /// What is missing or wrong that no lane's account shows.
    pub fn reasons(&self) -> &[Reason] {
        &self.closed.reasons
    }

    /// Whose device half wrote into the regions.
    pub fn device_half(&self) -> Half {
        self.closed.device.unwrap_or(Half::Ours)
    }

    /// The switches as `run.json` lists them.
    pub fn levels(&self) -> Levels {
        Levels {
            chip_swimlane: self.config.chip_swimlane as u32,
            dep_gen: self.config.dep_gen,
            pmu: self.config.pmu.map_or(0, |event| event as u32),
            scope_stats: self.config.scope_stats,
            dump_args: self.config.dump_args as u32,
        }
    }

    /// Artifacts as `run.json` lists them.
    pub fn entries(dir: &Path, artifacts: &[ArtifactInfo]) -> Vec<ArtifactEntry> {
        artifacts.iter().map(|info| ArtifactEntry::new(dir, info)).collect()
    }

    /// Gives everything back: threads, mappings, memory.
    pub fn release(&mut self) {
        self.workers = None;
        if let Some(engine) = self.engine.take() {
            lock(&engine.service).transport().release();
        }
        self.state = State::Released;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.release();
    }
}
