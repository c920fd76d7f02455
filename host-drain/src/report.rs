//! `run.json`: what a run did, lane by lane, and whether what it left is complete.
//!
//! The compatible artifacts keep exactly the keys that their readers know; everything else that a person or a tool must
//! know about a run is here. Written last, so that a `run.json` vouches for every artifact it lists.

use crate::artifact::{ArtifactError, ArtifactFile, ArtifactInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::Path;

mod merge;

/// The report's name in the output directory.
pub const FILE_NAME: &str = "run.json";
/// The version of the report's keys.
pub const SCHEMA: u32 = 1;

/// Something that a run can record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Chip swimlane.
    ChipSwimlane,
    /// Dependency graph.
    DepGen,
    /// Argument dump.
    DumpArgs,
    /// Performance counters.
    Pmu,
    /// Scope statistics.
    ScopeStats,
}

/// What a stream's records are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    /// AICore start and end; the lane is a core.
    AicoreTask,
    /// AICPU dispatch and finish; the lane is a core.
    AicpuTask,
    /// Scheduler phases; the lane is an AICPU thread.
    SchedPhase,
    /// Orchestrator submits; the lane is an AICPU thread.
    OrchPhase,
    /// Submits of dep_gen.
    Submit,
    /// Dumped arguments; the lane is an AICPU thread.
    Arg,
    /// PMU rows; the lane is a core.
    PmuRow,
    /// Scope samples.
    ScopeSample,
}

impl StreamKind {
    /// The word for it in `run.json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            StreamKind::AicoreTask => "aicore_task",
            StreamKind::AicpuTask => "aicpu_task",
            StreamKind::SchedPhase => "sched_phase",
            StreamKind::OrchPhase => "orch_phase",
            StreamKind::Submit => "submit",
            StreamKind::Arg => "arg",
            StreamKind::PmuRow => "pmu_row",
            StreamKind::ScopeSample => "scope_sample",
        }
    }

    /// What a lane of such a stream is.
    const fn lane(self) -> &'static str {
        match self {
            StreamKind::AicoreTask | StreamKind::AicpuTask | StreamKind::PmuRow => "core",
            _ => "thread",
        }
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose code a half of the engine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// This project's.
    Ours,
    /// The existing runtime's.
    Reference,
}

/// The two halves that met in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Who recorded.
    pub device: Half,
    /// Who drained.
    pub host: Half,
}

/// One execution of the workload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// What it was for: `single`, `graph` or `timing`.
    pub kind: String,
    /// Its exit status; `null` if it was killed or never started.
    pub exit: Option<i32>,
    /// Why it was run, or why it failed.
    pub why: String,
}

/// The switches as they took effect; 0 or `false` is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levels {
    /// 0 to 4.
    pub chip_swimlane: u32,
    /// On or off.
    pub dep_gen: bool,
    /// 0 to 3.
    pub dump_args: u32,
    /// The event type.
    pub pmu: u32,
    /// On or off.
    pub scope_stats: bool,
}

/// The account of one lane of one stream, in records unless a field says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamReport {
    /// Whose stream.
    pub feature: Feature,
    /// What its records are.
    pub kind: StreamKind,
    /// The core or thread.
    pub lane: u32,
    /// What the device counted; `null` where the other half keeps no total.
    pub produced: Option<u64>,
    /// Unique records that the host has, recovered ones included.
    pub collected: u64,
    /// Records that the device had no room for.
    pub dropped: u64,
    /// Records that were produced but never reached the host whole.
    pub lost: u64,
    /// Of `collected`: those taken from buffers that the device never published.
    pub recovered: u64,
    /// Records that came again and were left out.
    pub duplicate: u64,
    /// Entries, counts or records that failed validation.
    pub corrupt: u64,
    /// Buffers delivered.
    pub buffers: u64,
    /// Buffers that the device filled and exchanged.
    pub rotations: u64,
    /// Times that the producer waited for a buffer.
    pub stalls: u64,
    /// PMU slots of another task (a5).
    pub mismatched: u64,
    /// Waited in all, in ns.
    pub stall_ns: u64,
    /// The longest wait, in ns.
    pub max_stall_ns: u64,
}

impl StreamReport {
    /// An account of nothing.
    #[must_use]
    pub const fn new(feature: Feature, kind: StreamKind, lane: u32) -> Self {
        StreamReport {
            feature,
            kind,
            lane,
            produced: None,
            collected: 0,
            dropped: 0,
            lost: 0,
            recovered: 0,
            duplicate: 0,
            corrupt: 0,
            buffers: 0,
            rotations: 0,
            stalls: 0,
            mismatched: 0,
            stall_ns: 0,
            max_stall_ns: 0,
        }
    }

    /// The ledger's invariant: what was produced is collected, dropped, lost or mismatched, and nothing else. True
    /// where the device keeps no total.
    #[must_use]
    pub fn conserved(&self) -> bool {
        self.produced.is_none_or(|produced| u128::from(produced) == self.accounted())
    }

    /// Records that have a fate.
    fn accounted(&self) -> u128 {
        [self.collected, self.dropped, self.lost, self.mismatched].into_iter().map(u128::from).sum()
    }
}

/// The argument dump's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpReport {
    /// In bytes.
    pub payload_bytes_produced: u64,
    /// In bytes: the length of `args.bin`, unless a transfer failed and left a hole in it.
    pub payload_bytes_written: u64,
    /// Given up near a deadline, in bytes.
    pub payload_bytes_shed: u64,
    /// Not sent again because the host had them, in bytes.
    pub payload_bytes_deduplicated: u64,
    /// At which the queue was really emptied, in bytes per second.
    pub drain_rate_bytes_per_s: u64,
    /// The ceiling that the drain kept to, in bytes per second; `null` if there was none.
    pub budget_bytes_per_s: Option<u64>,
    /// Arguments whose payload is cut short.
    pub truncated: u64,
    /// Arguments whose payload was overwritten before it was read.
    pub overwritten: u64,
}

/// Why a run is not complete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// A word for programs: `killed`, `dropped`, `lost`, `mismatched`, `corrupt`, `unbalanced`, `truncated`,
    /// `overwritten`, `shed`, or one that the session adds.
    pub code: String,
    /// Whose records; `null` if the whole run's.
    pub feature: Option<Feature>,
    /// The core or thread; `null` if it is not a lane's.
    pub lane: Option<u32>,
    /// How many records, or bytes where `message` says so.
    pub count: u64,
    /// What happened and what to do.
    pub message: String,
}

/// A finished artifact, as `run.json` lists it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactEntry {
    /// Relative to the output directory, with forward slashes.
    pub path: String,
    /// In bytes.
    pub bytes: u64,
    /// 64 lower-case hex digits.
    pub sha256: String,
}

impl ArtifactEntry {
    /// `info`, written below output directory `dir`.
    #[must_use]
    pub fn new(dir: &Path, info: &ArtifactInfo) -> Self {
        let relative = info.path.strip_prefix(dir).unwrap_or(&info.path);
        let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
        ArtifactEntry { path: parts.join("/"), bytes: info.bytes, sha256: info.sha256.clone() }
    }
}

/// The content of `run.json`, key by key in its order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name and version of what wrote it.
    pub tool: String,
    /// The pinned revision of the shared-memory ABI.
    pub abi: String,
    /// `a2a3`, `a2a3sim`, `a5` or `a5sim`.
    pub platform: String,
    /// `Ascend910B` or `Ascend950`.
    pub backend_type: String,
    /// `ONBOARD` or `SIM`.
    pub execution_mode: String,
    /// Whose halves met.
    pub peer: Peer,
    /// The executions of the workload.
    pub passes: Vec<Pass>,
    /// The switches as they took effect.
    pub levels: Levels,
    /// What was run.
    pub workload: String,
    /// RFC 3339.
    pub started_at: String,
    /// The whole command, in ns.
    pub wall_ns: u64,
    /// Launch to device completion, in ns.
    pub op_wall_ns: u64,
    /// Whether the device was stopped before it was done.
    pub killed: bool,
    /// Whether nothing is missing from the artifacts. Set by [`conclude`](Self::conclude).
    pub complete: bool,
    /// Why it is not complete.
    pub reasons: Vec<Reason>,
    /// The ledger.
    pub streams: Vec<StreamReport>,
    /// The argument dump's payload; `null` if it was off.
    pub dump: Option<DumpReport>,
    /// Odd records by kind: they are in the artifacts, but not what one would expect.
    pub anomalies: BTreeMap<String, u64>,
    /// The finished artifacts, this one excepted.
    pub artifacts: Vec<ArtifactEntry>,
}

impl RunReport {
    /// Sets [`complete`](Self::complete) and [`reasons`](Self::reasons) from the account and from `others`, reasons
    /// that the account does not show (an artifact that could not be written). Call it last.
    pub fn conclude(&mut self, others: Vec<Reason>) {
        // What befell the whole run first: it is mostly the cause of what befell its lanes.
        self.reasons = others;
        self.reasons.extend(judge(self.killed, &self.streams, self.dump.as_ref()));
        self.complete = self.reasons.is_empty();
    }

    /// Writes the report as `dir/run.json`, complete or not at all.
    pub fn write_to_dir(&self, dir: &Path) -> Result<ArtifactInfo, ArtifactError> {
        self.write_with_room(dir, None)
    }

    /// [`write_to_dir`](Self::write_to_dir) on a disk on which `room` bytes still fit, for fault plans.
    pub fn write_with_room(&self, dir: &Path, room: Option<u64>) -> Result<ArtifactInfo, ArtifactError> {
        let mut file = ArtifactFile::create(dir.join(FILE_NAME))?;
        if let Some(bytes) = room {
            file.inject_full_after(bytes);
        }
        let text = serde_json::to_writer_pretty(&mut file, self).map_err(std::io::Error::from);
        if let Err(error) = text.and_then(|()| file.write_all(b"\n")) {
            return Err(ArtifactError::from_io(file.path(), error));
        }
        file.commit()
    }

    /// Records of `kind` over all lanes, as `count` picks them.
    pub fn sum(&self, kind: StreamKind, count: impl Fn(&StreamReport) -> u64) -> u64 {
        self.streams.iter().filter(|s| s.kind == kind).map(count).sum()
    }
}

/// Why a run with this account is not complete; nothing if it is: exactly when it was not killed and nothing was
/// dropped, lost, mismatched, truncated, overwritten, shed or corrupt, and every account balances.
#[must_use]
pub fn judge(killed: bool, streams: &[StreamReport], dump: Option<&DumpReport>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if killed {
        reasons.push(Reason {
            code: "killed".into(),
            feature: None,
            lane: None,
            count: 1,
            message:
                "the run was stopped before the device was done: what is here ends where it was stopped; see \
                      passes for the cause, then run again"
                    .into(),
        });
    }
    streams.iter().for_each(|stream| judge_stream(stream, &mut reasons));
    if let Some(dump) = dump {
        judge_dump(dump, &mut reasons);
    }
    reasons
}

fn judge_stream(stream: &StreamReport, reasons: &mut Vec<Reason>) {
    let StreamReport { feature, kind, lane, produced, .. } = *stream;
    let place = format!("{kind} records of {} {lane}", kind.lane());
    let mut add = |code: &str, count: u64, what: String| {
        if count > 0 {
            let message = format!("{count} {what}");
            reasons.push(Reason {
                code: code.into(),
                feature: Some(feature),
                lane: Some(lane),
                count,
                message,
            });
        }
    };
    add(
        "dropped",
        stream.dropped,
        format!(
            "{place} were dropped on the device, which had no free buffer: record at a lower level, or let the lane wait \
             longer (--backpressure lane or block)"
        ),
    );
    add(
        "lost",
        stream.lost,
        format!(
            "{place} were produced but did not reach the host whole: the device ended early, a copy failed, or a queue \
             entry could not be believed; look at passes, the other reasons and the log (-v), then run again"
        ),
    );
    add(
        "mismatched",
        stream.mismatched,
        format!(
            "{place} belonged to another task and were not attributed: fewer tasks in flight per core (a lower --blockdim) \
             leave the counters time to be read"
        ),
    );
    add(
        "corrupt",
        stream.corrupt,
        format!(
            "{place} or their queue entries failed validation and were skipped: something else writes to the shared memory, \
             or the device half is of another revision (see abi and peer)"
        ),
    );
    if !stream.conserved() {
        let produced = u128::from(produced.unwrap_or(0));
        let count = produced.abs_diff(stream.accounted()).try_into().unwrap_or(u64::MAX);
        let accounted = stream.accounted();
        add(
            "unbalanced",
            count,
            format!(
                "{place} have no account: the device counted {produced}, the host knows the fate of {accounted}; this is a \
                 defect of the collection, please report it with this file"
            ),
        );
    }
}

fn judge_dump(dump: &DumpReport, reasons: &mut Vec<Reason>) {
    let mut add = |code: &str, count: u64, what: &str| {
        if count > 0 {
            reasons.push(Reason {
                code: code.into(),
                feature: Some(Feature::DumpArgs),
                lane: None,
                count,
                message: format!("{count} {what}"),
            });
        }
    };
    add(
        "shed",
        dump.payload_bytes_shed,
        "payload bytes were shed because the drain could not take them before the deadline: dump only what you need \
         (--dump-args=1 and --dump-tag NAME), or raise --dump-budget",
    );
    add(
        "truncated",
        dump.truncated,
        "arguments have their payload cut short, being larger than the arena or shed: dump only what you need \
         (--dump-args=1 and --dump-tag NAME), or a smaller view of it",
    );
    add(
        "overwritten",
        dump.overwritten,
        "arguments lost their payload before it was read: dump only what you need (--dump-args=1 and --dump-tag NAME)",
    );
}

#[cfg(test)]
mod tests;
