//! The artifacts of a session, and how writing them can fail.

use super::engine::{Engine, lock};
use super::{Session, SessionError, State};
use crate::artifact::{ArtifactError, ArtifactInfo};
use crate::collect::Collector;
use crate::deps::{self, Variant};
use crate::export;
use crate::export::swimlane::{CoreKind, SwimlaneArtifact};
use crate::features;
use crate::reconcile::Graph;
use crate::report::{Feature, StreamKind, StreamReport};
use dfx_collector::abi::swimlane::Level;
use std::path::Path;

impl Session {
    /// Writes the artifacts into `dir`. A file is complete under its name, or not there.
    ///
    /// # Errors
    /// [`ExportError::Session`] unless reconciled, [`ExportError::Artifact`] when a file could not be written.
    pub fn export(&self, dir: &Path) -> Result<Vec<ArtifactInfo>, ExportError> {
        self.expect("export", &[State::Reconciled])?;
        let Some(engine) = &self.engine else { return Ok(Vec::new()) };
        let mut collector = lock(&engine.collector);
        let transport = lock(&engine.service).transport();
        let mut artifacts = Vec::new();
        let anchored = self.host.as_ref().is_some_and(|host| host.anchors.is_some());
        if self.config.chip_swimlane != Level::Disabled && (anchored || !collector.records().is_empty()) {
            artifacts.push(self.export_swimlane(engine, &collector, dir)?);
        }
        if self.closed.graph == Graph::Whole {
            // The account has just been compared with what was captured: this cannot refuse.
            if let Ok(submits) = collector.submits().finish(self.closed.captured) {
                let room = engine.points.disk_room(deps::FILE_NAME);
                artifacts
                    .push(deps::write_file(&dir.join(deps::FILE_NAME), submits, Variant::Device, room)?.0);
            }
        }
        if let Some(event) = self.config.pmu {
            let room = engine.points.disk_room(export::pmu::FILE_NAME);
            artifacts.extend(export::pmu::write_to_dir(
                dir,
                self.board.platform,
                event,
                collector.pmu_rows(),
                room,
            )?);
        }
        if let Some(region) = self.region(Feature::ScopeStats) {
            let capacities =
                features::scope_stats::capacities(&*transport, region, &self.board).unwrap_or_default();
            let sum = |count: fn(&StreamReport) -> u64| {
                self.closed.streams.iter().filter(|s| s.kind == StreamKind::ScopeSample).map(count).sum()
            };
            artifacts.push(export::scope_stats::write_to_dir(
                dir,
                &capacities,
                sum(|stream| stream.dropped + stream.lost),
                sum(|stream| stream.produced.unwrap_or(0)),
                collector.scope_samples(),
                engine.points.disk_room(export::scope_stats::FILE_NAME),
            )?);
        }
        match self.export_dump(engine, &mut collector, dir) {
            Ok(files) => artifacts.extend(files),
            // The largest file is the likeliest to fail: all others are there.
            Err(source) => return Err(ExportError::Dump { source, written: artifacts }),
        }
        Ok(artifacts)
    }

    fn export_swimlane(
        &self,
        engine: &Engine,
        collector: &Collector,
        dir: &Path,
    ) -> Result<ArtifactInfo, ArtifactError> {
        let core_types: Vec<CoreKind> = self
            .board
            .core_is_aic
            .iter()
            .map(|&aic| if aic { CoreKind::Aic } else { CoreKind::Aiv })
            .collect();
        let artifact = SwimlaneArtifact {
            level: self.config.chip_swimlane,
            clock_hz: self.board.geometry().clock_hz,
            core_types: &core_types,
            core_to_thread: self.closed.core_to_thread.as_deref(),
            max_threads: self.board.geometry().max_threads as usize,
            orch_lanes: self.closed.orch_lanes as usize,
            records: collector.records(),
            host: self.host.as_ref(),
        };
        let room = engine.points.disk_room(export::swimlane::FILE_NAME);
        Ok(artifact.write_to_dir(dir, room)?.0)
    }
}

/// An export that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Out of turn.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A file could not be written.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The dump's files could not be written; all others were.
    #[error("{source}")]
    Dump {
        /// Why.
        source: ArtifactError,
        /// The artifacts that are there.
        written: Vec<ArtifactInfo>,
    },
}

impl ExportError {
    /// The artifacts that were written all the same.
    pub fn written(&self) -> &[ArtifactInfo] {
        match self {
            ExportError::Dump { written, .. } => written,
            _ => &[],
        }
    }
}
