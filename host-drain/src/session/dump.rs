//! What a session does for dumped arguments alone: where their payload goes, by which clock, and how it ends.

use super::engine::{Bells, Engine, lock};
use super::{Drive, Session, SessionError, State};
use crate::artifact::{ArtifactError, ArtifactInfo};
use crate::collect::Collector;
use crate::config::{Board, DfxConfig};
use crate::dump::{BIN_NAME, Dump, NowNs, Pen, Setup, manifest};
use crate::features;
use crate::features::args_dump::DumpRegion;
use crate::region::Region;
use crate::report::{DumpReport, Feature, StreamKind};
use crate::testpoint::Points;
use crate::transport::Transport;
use dfx_collector::abi::layout::ArgsDumpLayout;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Steps without progress after which a backlog of dumped payload is no longer paced: a second, if time passes at all.
const LINGER_STEPS: u32 = 5_000;

/// The host's half of the args dump, if there is a region of it.
pub(super) fn made(
    transport: &Arc<dyn Transport>,
    regions: &[Region],
    config: &DfxConfig,
    board: &Board,
    points: &Points,
    bells: &Bells,
) -> Option<Dump> {
    regions.iter().find(|region| region.feature == Feature::DumpArgs).map(|region| {
        let layout = ArgsDumpLayout::of(board.platform, board.aicpu_threads);
        let lane = |thread: usize| region.base.offset(layout.lane(thread as u32) as u64);
        Dump::new(Setup {
            transport: Arc::clone(transport),
            pen: Pen::new(Arc::clone(transport), Arc::clone(&bells.write), Arc::clone(&bells.collect)),
            level: config.dump_args,
            budget: config.dump_budget,
            arena_bytes: config.dump_arena_bytes,
            threads: region.arenas.iter().enumerate().map(|(thread, &arena)| (lane(thread), arena)).collect(),
            room: points.disk_room(BIN_NAME),
        })
    })
}

impl Engine {
    /// Whether the session's own thread writes dumped payload; otherwise whoever plans it does.
    pub(super) fn write_beside(&self, beside: bool) {
        if let Some(dump) = lock(&self.collector).dump() {
            dump.set_beside(beside);
        }
    }

    /// Writes the backlog of dumped payload at the pace of its budget, or lifts the budget.
    pub(super) fn linger(&self, drive: Drive) {
        let mut stuck = 0;
        while drive == Drive::Threads && self.flow.backlog() > 0 && stuck < LINGER_STEPS {
            let before = self.flow.drained();
            self.step_collect();
            stuck = if self.flow.drained() > before { 0 } else { stuck + 1 };
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        self.lifted.store(true, Ordering::Relaxed);
    }
}

impl Session {
    /// The args dump's region for the device, when it is on.
    pub fn dump_region(&self) -> Option<DumpRegion> {
        let region = self.region(Feature::DumpArgs)?;
        Some(features::args_dump::for_device(region, &self.board))
    }

    /// Says where the artifacts will be: dumped payload is written there while the device runs, under a temporary name.
    /// Before [`start`](Self::start), if arguments are dumped; the same directory as [`export`](Self::export)'s.
    ///
    /// # Errors
    /// [`SessionError::Order`] unless just configured.
    pub fn set_output(&mut self, dir: impl Into<PathBuf>) -> Result<(), SessionError> {
        self.expect("set_output", &[State::Configured])?;
        if let Some(engine) = &self.engine
            && let Some(dump) = lock(&engine.collector).dump()
        {
            dump.set_output(dir.into());
        }
        Ok(())
    }

    /// Gives the dump's budget another clock than the system's, for a caller that steps in virtual time.
    ///
    /// # Errors
    /// [`SessionError::Order`] unless just configured.
    pub fn set_clock(&mut self, now: NowNs) -> Result<(), SessionError> {
        self.expect("set_clock", &[State::Configured])?;
        if let Some(engine) = &self.engine
            && let Some(dump) = lock(&engine.collector).dump()
        {
            dump.set_clock(now);
        }
        Ok(())
    }

    /// The dumped payload's account, if arguments were dumped.
    pub fn dump(&self) -> Option<DumpReport> {
        self.closed.dump
    }

    /// The dump's two files.
    pub(super) fn export_dump(
        &self,
        engine: &Engine,
        collector: &mut Collector,
        dir: &Path,
    ) -> Result<Vec<ArtifactInfo>, ArtifactError> {
        let args = self.closed.streams.iter().filter(|stream| stream.kind == StreamKind::Arg);
        let dropped = args.map(|stream| stream.dropped + stream.lost).sum();
        let room = engine.points.disk_room(manifest::FILE_NAME);
        collector.dump().map_or(Ok(Vec::new()), |dump| dump.export(dir, dropped, room))
    }
}
