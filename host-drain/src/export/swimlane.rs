//! The writer of `chip_swimlane_records.json`, byte for byte as the existing runtime writes it.
//!
//! The text is streamed: what is held is the records and one buffer. Nothing is decided here about what a row means;
//! odd rows are written as they are, except core rows that were never committed (start 0), which the format leaves out
//! and [`ExportCounts`] counts.

use super::host::HostOrchestration;
use super::text::{Digits, Text};
use crate::artifact::{ArtifactError, ArtifactFile, ArtifactInfo};
use crate::records::{SchedRow, Stream, SwimlaneRecords};
use dfx_collector::abi::swimlane::{CoreRecord, OrchPhaseRecord};
use std::io::{self, Write};
use std::path::Path;

// The words of the artifact that are the ABI's: a reader needs no other crate for them.
pub use dfx_collector::abi::swimlane::{Level, SchedPhaseKind};

/// The artifact's name in the output directory.
pub const FILE_NAME: &str = "chip_swimlane_records.json";

/// What a core computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CoreKind {
    /// Cube.
    Aic,
    /// Vector.
    Aiv,
}

impl CoreKind {
    /// The kind with the ABI's number `raw`; what is not AIC counts as AIV.
    #[must_use]
    pub const fn from_raw(raw: u32) -> CoreKind {
        if raw == 0 { CoreKind::Aic } else { CoreKind::Aiv }
    }

    /// The word for it in the artifacts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CoreKind::Aic => "aic",
            CoreKind::Aiv => "aiv",
        }
    }
}

/// The word for a scheduler phase's kind number in the artifact; `unknown` for a number that has none.
#[must_use]
pub const fn kind_name(kind: u32) -> &'static str {
    match SchedPhaseKind::from_raw(kind) {
        Some(SchedPhaseKind::Complete) => "complete",
        Some(SchedPhaseKind::Dispatch) => "dispatch",
        Some(SchedPhaseKind::Release) => "release",
        Some(SchedPhaseKind::Dummy) => "dummy",
        Some(SchedPhaseKind::EarlyDispatch) => "early_dispatch",
        Some(SchedPhaseKind::Resolve) => "resolve",
        Some(SchedPhaseKind::DummyTask) => "dummy_task",
        Some(SchedPhaseKind::Drain) => "drain",
        Some(SchedPhaseKind::DrainPrepare) => "drain_prepare",
        Some(SchedPhaseKind::DrainPublish) => "drain_publish",
        Some(SchedPhaseKind::AsyncPoll) => "async_poll",
        Some(SchedPhaseKind::PredicatedSkip) => "predicated_skip",
        Some(SchedPhaseKind::GraphPrepare) => "graph_prepare",
        None => "unknown",
    }
}

/// Whether a phase of this kind number carries pop hits and misses.
#[must_use]
pub const fn kind_has_pops(kind: u32) -> bool {
    kind == SchedPhaseKind::Dispatch as u32
}

/// Whether a phase of this kind number carries a task id.
#[must_use]
pub const fn kind_has_task(kind: u32) -> bool {
    kind == SchedPhaseKind::DummyTask as u32
        || kind == SchedPhaseKind::PredicatedSkip as u32
        || kind == SchedPhaseKind::GraphPrepare as u32
}

/// A swimlane run, ready to be written.
#[derive(Clone, Copy, Debug)]
pub struct SwimlaneArtifact<'a> {
    /// What was recorded. Decides which keys there are.
    pub level: Level,
    /// Ticks of the counter per second.
    pub clock_hz: u64,
    /// One per core of the run.
    pub core_types: &'a [CoreKind],
    /// Which AICPU thread owned each core, -1 for none; if the device published it (level 3 and up).
    pub core_to_thread: Option<&'a [i8]>,
    /// AICPU threads of the platform: as many scheduler lists are written.
    pub max_threads: usize,
    /// Orchestrator lanes that the device counted; 0 or too many are taken as `max_threads`.
    pub orch_lanes: usize,
    /// The records.
    pub records: &'a SwimlaneRecords,
    /// What the host recorded itself, if it was the orchestrator.
    pub host: Option<&'a HostOrchestration>,
}

/// How many rows were written, and which were not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExportCounts {
    /// Rows of `aicore_tasks`.
    pub core_rows: u64,
    /// Core rows left out because their start was 0: never committed.
    pub core_rows_uncommitted: u64,
    /// Rows of `aicpu_tasks`.
    pub task_rows: u64,
    /// Scheduler phases.
    pub sched_rows: u64,
    /// Orchestrator submits.
    pub orch_rows: u64,
    /// Scheduler phases and submits left out because the level has no key for them.
    pub rows_above_level: u64,
}

impl SwimlaneArtifact<'_> {
    /// Writes the artifact as `dir/chip_swimlane_records.json`, complete or not at all. `room` bounds its bytes, for
    /// fault plans.
    pub fn write_to_dir(
        &self,
        dir: &Path,
        room: Option<u64>,
    ) -> Result<(ArtifactInfo, ExportCounts), ArtifactError> {
        let mut file = ArtifactFile::create(dir.join(FILE_NAME))?;
        if let Some(bytes) = room {
            file.inject_full_after(bytes);
        }
        match self.write(&mut file) {
            Ok(counts) => Ok((file.commit()?, counts)),
            Err(error) => Err(ArtifactError::from_io(file.path(), error)),
        }
    }

    /// Writes the artifact's text to `out`, in pieces of at least 64 KiB but for the last. Does not flush `out`.
    pub fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<ExportCounts> {
        let mut counts = ExportCounts::default();
        let mut text = Text::new(out);
        self.write_metadata(&mut text)?;
        self.write_core_rows(&mut text, &mut counts)?;
        self.write_task_rows(&mut text, &mut counts)?;
        if self.level >= Level::SchedPhases {
            self.write_sched_rows(&mut text, &mut counts)?;
            self.write_orch_rows(&mut text, &mut counts)?;
            if let Some(host) = self.host {
                text.text(&host.phases())?;
            }
        } else {
            counts.rows_above_level = self.records.rows(Stream::Sched) + self.records.rows(Stream::Orch);
        }
        text.text("\n}\n")?;
        text.finish()?;
        Ok(counts)
    }

    fn write_metadata<W: Write + ?Sized>(&self, text: &mut Text<'_, W>) -> io::Result<()> {
        text.text(&format!(
            "{{\n  \"chip_swimlane_level\": {},\n  \"metadata\": {{\n    \"clock_freq_hz\": {},\n    \
             \"num_cores\": {},\n    \"core_types\": [{}]",
            self.level as u32,
            self.clock_hz,
            self.core_types.len(),
            joined(self.core_types, |kind| format!("\"{}\"", kind.name())),
        ))?;
        if let Some(host) = self.host {
            text.text(&host.metadata())?;
        }
        if let Some(map) = self.core_to_thread {
            text.text(&format!(",\n    \"core_to_thread\": [{}]", joined(map, ToString::to_string)))?;
        }
        text.text("\n  }")
    }

    fn write_core_rows<W: Write + ?Sized>(
        &self,
        text: &mut Text<'_, W>,
        counts: &mut ExportCounts,
    ) -> io::Result<()> {
        text.text(",\n  \"aicore_tasks\": [")?;
        for core in 0..self.records.cores() {
            let (mut tasks, mut starts, mut ends) = (Digits::default(), Digits::default(), Digits::default());
            let prefix = format!("    [{core}, ");
            for row in self.records.core_rows(core) {
                let CoreRecord { start_time, end_time, task_token_raw, .. } = *row;
                if start_time == 0 {
                    counts.core_rows_uncommitted += 1;
                    continue;
                }
                text.row()?;
                separate(text, &mut counts.core_rows);
                text.slice(prefix.as_bytes());
                text.large(task_token_raw, &mut tasks);
                text.fixed(b", ");
                text.number(row.reg_task_id);
                text.fixed(b", ");
                text.large(start_time, &mut starts);
                text.fixed(b", ");
                text.large(end_time, &mut ends);
                text.fixed(b", ");
                text.number(row.receive_to_start_cycles);
                text.fixed(b"]");
            }
        }
        text.text(if counts.core_rows == 0 { "]" } else { "\n  ]" })
    }

    fn write_task_rows<W: Write + ?Sized>(
        &self,
        text: &mut Text<'_, W>,
        counts: &mut ExportCounts,
    ) -> io::Result<()> {
        text.text(",\n  \"aicpu_tasks\": [")?;
        for core in 0..self.records.cores() {
            let (mut dispatches, mut finishes) = (Digits::default(), Digits::default());
            let prefix = format!("    [{core}, ");
            for row in self.records.task_rows(core) {
                text.row()?;
                separate(text, &mut counts.task_rows);
                text.slice(prefix.as_bytes());
                text.number(row.token);
                text.fixed(b", ");
                text.large(row.dispatch, &mut dispatches);
                text.fixed(b", ");
                text.large(row.finish, &mut finishes);
                text.fixed(b"]");
            }
        }
        text.text(if counts.task_rows == 0 { "]" } else { "\n  ]" })
    }

    fn write_sched_rows<W: Write + ?Sized>(
        &self,
        text: &mut Text<'_, W>,
        counts: &mut ExportCounts,
    ) -> io::Result<()> {
        text.text(",\n  \"aicpu_scheduler_phases\": [")?;
        for thread in 0..self.max_threads.max(self.used_lanes(Stream::Sched)) {
            text.text(if thread == 0 { "\n    [" } else { ",\n    [" })?;
            let mut digits = [Digits::default(), Digits::default(), Digits::default()];
            let mut rows = 0;
            for row in self.records.sched_rows(thread) {
                text.row()?;
                separate(text, &mut rows);
                write_phase(text, row, &mut digits);
            }
            text.text(if rows == 0 { "]" } else { "\n    ]" })?;
            counts.sched_rows += rows;
        }
        text.text("\n  ]")
    }

    fn write_orch_rows<W: Write + ?Sized>(
        &self,
        text: &mut Text<'_, W>,
        counts: &mut ExportCounts,
    ) -> io::Result<()> {
        if self.records.rows(Stream::Orch) == 0 {
            return Ok(());
        }
        text.text(",\n  \"aicpu_orchestrator_phases\": [")?;
        let counted = (1..=self.max_threads).contains(&self.orch_lanes);
        let lanes = if counted { self.orch_lanes } else { self.max_threads };
        for lane in 0..lanes.max(self.used_lanes(Stream::Orch)) {
            text.text(if lane == 0 { "\n    [" } else { ",\n    [" })?;
            let (mut tasks, mut starts, mut ends) = (Digits::default(), Digits::default(), Digits::default());
            let mut rows = 0;
            for row in self.records.orch_rows(lane) {
                let OrchPhaseRecord { start_time, end_time, task_id, submit_idx, .. } = *row;
                text.row()?;
                separate(text, &mut rows);
                text.fixed(b"      {\"submit_idx\": ");
                text.number(submit_idx);
                text.fixed(b", \"task_id\": ");
                text.large(task_id, &mut tasks);
                text.fixed(b", \"start_cycles\": ");
                text.large(start_time, &mut starts);
                text.fixed(b", \"end_cycles\": ");
                text.large(end_time, &mut ends);
                text.fixed(b"}");
            }
            text.text(if rows == 0 { "]" } else { "\n    ]" })?;
            counts.orch_rows += rows;
        }
        text.text("\n  ]")
    }

    /// One more than the last lane of `stream` that has a row: lists that must be there lest a row vanish.
    fn used_lanes(&self, stream: Stream) -> usize {
        let used = |lane: &usize| self.records.lane_rows(stream, *lane) > 0;
        (0..self.records.threads()).rev().find(used).map_or(0, |lane| lane + 1)
    }
}

/// Ends the row before, if there is one, and counts the next.
#[inline]
fn separate<W: Write + ?Sized>(text: &mut Text<'_, W>, rows: &mut u64) {
    if *rows == 0 {
        text.fixed(b"\n");
    } else {
        text.fixed(b",\n");
    }
    *rows += 1;
}

/// One scheduler phase; `digits` are those of starts, ends and task ids.
#[inline]
fn write_phase<W: Write + ?Sized>(text: &mut Text<'_, W>, row: &SchedRow, digits: &mut [Digits; 3]) {
    text.fixed(b"      {\"kind\": \"");
    text.slice(kind_name(row.kind).as_bytes());
    text.fixed(b"\", \"start_cycles\": ");
    text.large(row.start, &mut digits[0]);
    text.fixed(b", \"end_cycles\": ");
    text.large(row.end, &mut digits[1]);
    text.fixed(b", \"loop_iter\": ");
    text.number(row.loop_iter);
    text.fixed(b", \"tasks_processed\": ");
    text.number(row.tasks_processed);
    if kind_has_pops(row.kind) {
        text.fixed(b", \"pop_hit\": ");
        text.number(row.phase_data[0]);
        text.fixed(b", \"pop_miss\": ");
        text.number(row.phase_data[1]);
    } else if kind_has_task(row.kind) {
        text.fixed(b", \"task_id\": ");
        text.large(row.task_id(), &mut digits[2]);
    }
    text.fixed(b", \"shared_at_start\": [");
    write_depths(text, row.shared_at_start);
    text.fixed(b"], \"shared_at_end\": [");
    write_depths(text, row.shared_at_end);
    text.fixed(b"]}");
}

#[inline]
fn write_depths<W: Write + ?Sized>(text: &mut Text<'_, W>, depths: [i16; 3]) {
    text.signed(depths[0]);
    text.fixed(b",");
    text.signed(depths[1]);
    text.fixed(b",");
    text.signed(depths[2]);
}

fn joined<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}
