//! What became of every record: the session's account for its caller, and its report for `run.json`.

use crate::config::dfx_stream_e;
use crate::handle::{SESSIONS, dfx_session_h};
use crate::session::{Opened, dfx_feature_e};
use crate::status::{Failure, check_size, dfx_status_e, guard, put};
use dfx_collector::abi::REVISION;
use dfx_host_drain::report::{
    ArtifactEntry, Feature, Half, Pass, Peer, Reason, RunReport, SCHEMA, StreamKind, StreamReport,
};
use dfx_host_drain::{DeviceEnd, Session};
use std::ffi::c_char;
use std::path::Path;
use time::format_description::well_known::Rfc3339;

/// The account of one lane, in records unless a field says otherwise. If `has_total` is 1, `produced` is `collected` +
/// `dropped` + `lost` + `mismatched`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_stream_t {
    /// `sizeof(dfx_stream_t)`, set by the caller.
    pub size: u32,
    /// A `dfx_feature_e`.
    pub feature: u32,
    /// A `dfx_stream_e`.
    pub kind: u32,
    /// The core or thread.
    pub lane: u32,
    /// Whether the device half keeps a total: 0 or 1. If 0, `produced` is 0 and means nothing.
    pub has_total: u32,
    /// Set to 0.
    pub reserved: u32,
    /// What the device counted.
    pub produced: u64,
    /// Unique records that the host has, recovered ones included.
    pub collected: u64,
    /// Records that the device had no room for.
    pub dropped: u64,
    /// Records that were produced but never reached the host whole.
    pub lost: u64,
    /// a5 PMU: slots of another task.
    pub mismatched: u64,
    /// Of `collected`: those taken from buffers that the device never published.
    pub recovered: u64,
    /// Records that came again and were left out.
    pub duplicate: u64,
    /// Entries, counts or records that failed validation.
    pub corrupt: u64,
    /// Times that the producer waited for a buffer.
    pub stalls: u64,
    /// Waited in all, in ns.
    pub stall_ns: u64,
    /// The longest wait, in ns.
    pub max_stall_ns: u64,
}

const fn feature(feature: Feature) -> dfx_feature_e {
    match feature {
        Feature::ChipSwimlane => dfx_feature_e::DFX_FEATURE_CHIP_SWIMLANE,
        Feature::DepGen => dfx_feature_e::DFX_FEATURE_DEP_GEN,
        Feature::DumpArgs => dfx_feature_e::DFX_FEATURE_DUMP_ARGS,
        Feature::Pmu => dfx_feature_e::DFX_FEATURE_PMU,
        Feature::ScopeStats => dfx_feature_e::DFX_FEATURE_SCOPE_STATS,
    }
}

const fn kind(kind: StreamKind) -> dfx_stream_e {
    match kind {
        StreamKind::AicoreTask => dfx_stream_e::DFX_STREAM_AICORE_TASK,
        StreamKind::AicpuTask => dfx_stream_e::DFX_STREAM_AICPU_TASK,
        StreamKind::SchedPhase => dfx_stream_e::DFX_STREAM_SCHED_PHASE,
        StreamKind::OrchPhase => dfx_stream_e::DFX_STREAM_ORCH_PHASE,
        StreamKind::Submit => dfx_stream_e::DFX_STREAM_SUBMIT,
        StreamKind::Arg => dfx_stream_e::DFX_STREAM_ARG,
        StreamKind::PmuRow => dfx_stream_e::DFX_STREAM_PMU_ROW,
        StreamKind::ScopeSample => dfx_stream_e::DFX_STREAM_SCOPE_SAMPLE,
    }
}

fn lane(stream: &StreamReport, size: u32) -> dfx_stream_t {
    dfx_stream_t {
        size,
        feature: feature(stream.feature) as u32,
        kind: kind(stream.kind) as u32,
        lane: stream.lane,
        has_total: u32::from(stream.produced.is_some()),
        reserved: 0,
        produced: stream.produced.unwrap_or(0),
        collected: stream.collected,
        dropped: stream.dropped,
        lost: stream.lost,
        mismatched: stream.mismatched,
        recovered: stream.recovered,
        duplicate: stream.duplicate,
        corrupt: stream.corrupt,
        stalls: stream.stalls,
        stall_ns: stream.stall_ns,
        max_stall_ns: stream.max_stall_ns,
    }
}

impl Opened {
    /// Gives everything back that is the platform's.
    pub(crate) fn release(&mut self) {
        if self.report.is_none() && self.closed {
            // The account outlives the memory.
            self.report = Some(self.account(Vec::new(), Vec::new()));
        }
        self.session.release();
        self.released = true;
    }

    /// Fails unless the accounts are closed.
    pub(crate) fn reconciled(&self, step: &str) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let message =
            format!("{step} was called before dfx_session_reconcile: start, stop and reconcile first");
        Err(Failure::new(dfx_status_e::DFX_E_ORDER, message))
    }

    /// This session's own report, concluded.
    pub(crate) fn account(&self, artifacts: Vec<ArtifactEntry>, others: Vec<Reason>) -> RunReport {
        let completed = self.end == DeviceEnd::Completed;
        let why = if completed { "completed" } else { "the runtime says that the device did not complete" };
        let mut report = RunReport {
            schema: SCHEMA,
            tool: concat!("pto-dfx ", env!("CARGO_PKG_VERSION")).into(),
            abi: REVISION.into(),
            platform: self.target.name().into(),
            backend_type: self.target.backend.name().into(),
            execution_mode: self.target.mode.name().into(),
            peer: Peer { device: self.session.device_half(), host: Half::Ours },
            passes: vec![Pass { kind: "single".into(), exit: Some(i32::from(!completed)), why: why.into() }],
            levels: self.session.levels(),
            workload: self.config.workload.clone(),
            started_at: self.started_at.format(&Rfc3339).unwrap_or_default(),
            wall_ns: self.created.elapsed().as_nanos() as u64,
            op_wall_ns: self.op_wall_ns,
            killed: !completed,
            complete: false,
            reasons: Vec::new(),
            streams: self.session.streams().to_vec(),
            dump: self.session.dump(),
            anomalies: self.session.anomalies().clone(),
            artifacts,
        };
        let mut reasons = self.session.reasons().to_vec();
        reasons.extend(others);
        report.conclude(reasons);
        report
    }

    /// Writes all artifacts but `run.json`, which is returned; and the first failure, if there was one.
    pub(crate) fn write_artifacts(&self, dir: &Path) -> (RunReport, Option<Failure>) {
        let (mut written, mut failed) = match self.session.export(dir) {
            Ok(written) => (written, None),
            Err(error) => (error.written().to_vec(), Some(Failure::from(error))),
        };
        let levels = self.session.levels();
        if !self.names.is_empty() && (levels.chip_swimlane > 0 || levels.dep_gen) {
            match self.names.write_to_dir(dir, &self.label(dir)) {
                Ok(info) => written.push(info),
                Err(error) => failed = Some(failed.unwrap_or_else(|| error.into())),
            }
        }
        let others = failed.iter().map(|failure| Reason {
            code: "artifact_not_written".into(),
            feature: None,
            lane: None,
            count: 1,
            message: failure.message().to_owned(),
        });
        let others = others.collect();
        (self.account(Session::entries(dir, &written), others), failed)
    }

    /// What the program is called: its workload, or else its directory.
    fn label(&self, dir: &Path) -> String {
        if !self.config.workload.is_empty() {
            return self.config.workload.clone();
        }
        dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// The report as far as it is known.
    fn report(&self, step: &str) -> Result<RunReport, Failure> {
        if let Some(report) = &self.report {
            return Ok(report.clone());
        }
        self.reconciled(step)?;
        Ok(self.account(Vec::new(), Vec::new()))
    }
}

fn with(session: dfx_session_h, body: impl FnOnce(&mut Opened) -> Result<(), Failure>) -> dfx_status_e {
    guard(|| SESSIONS.with(session, body))
}

/// Copies `text` to the caller, with a NUL.
///
/// # Safety
/// `buffer` is null or has room for `capacity` bytes; `needed` is null or valid for a write.
unsafe fn give(text: &str, buffer: *mut c_char, capacity: usize, needed: *mut usize) -> Result<(), Failure> {
    let bytes = text.len() + 1;
    if !needed.is_null() {
        // SAFETY: the caller's contract.
        unsafe { needed.write(bytes) };
    } else if buffer.is_null() {
        return Err(Failure::null("buffer and needed"));
    }
    if buffer.is_null() {
        return Ok(());
    }
    if capacity < bytes {
        let message = format!("the buffer has {capacity} bytes, {bytes} are needed");
        return Err(Failure::new(dfx_status_e::DFX_E_SPACE, message));
    }
    // SAFETY: there is room, and the caller's memory does not overlap ours.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len()) };
    // SAFETY: as above.
    unsafe { buffer.add(text.len()).write(0) };
    Ok(())
}

/// Sets `*out` to whether nothing is missing from what this session collected and wrote: no record dropped, lost or
/// mismatched, no payload shed, cut or overwritten, no file failed. From the reconciliation on; after the export it
/// includes the files. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`.
///
/// # Safety
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_complete(session: dfx_session_h, out: *mut bool) -> dfx_status_e {
    with(session, |opened| {
        let complete = opened.report("dfx_session_complete")?.complete;
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", complete) }
    })
}

/// Sets `*out` to how many lanes have an account. From the reconciliation on; before it there are none. Calls on one
/// session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`.
///
/// # Safety
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_stream_count(session: dfx_session_h, out: *mut u32) -> dfx_status_e {
    with(session, |opened| {
        let count = opened.session.streams().len() as u32;
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", count) }
    })
}

/// Fills `out` with the account of lane number `index`, counted from 0. `out->size` must be set. From the reconciliation
/// on. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ABI`, `DFX_E_RANGE`.
///
/// # Safety
/// `out` is null or points to a `dfx_stream_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_stream(
    session: dfx_session_h,
    index: u32,
    out: *mut dfx_stream_t,
) -> dfx_status_e {
    with(session, |opened| {
        // SAFETY: the caller's contract.
        let out = unsafe { out.as_mut() }.ok_or_else(|| Failure::null("out"))?;
        check_size::<dfx_stream_t>("out", out.size)?;
        let streams = opened.session.streams();
        let stream = streams.get(index as usize).ok_or_else(|| beyond("stream", index, streams.len()))?;
        *out = lane(stream, out.size);
        Ok(())
    })
}

fn beyond(what: &str, index: u32, count: usize) -> Failure {
    Failure::new(dfx_status_e::DFX_E_RANGE, format!("there is no {what} {index}: there are {count}"))
}

/// Sets `*out` to how many reasons there are why the session is not complete. From the reconciliation on. Calls on one
/// session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`.
///
/// # Safety
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_reason_count(session: dfx_session_h, out: *mut u32) -> dfx_status_e {
    with(session, |opened| {
        let count = opened.report("dfx_session_reason_count")?.reasons.len() as u32;
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", count) }
    })
}

/// Copies reason number `index`, counted from 0, to `buffer`: a word, a colon, and a line for a person, in UTF-8, with a
/// NUL. `*needed` is set to the bytes that it takes, the NUL included; with a null `buffer` nothing else is done. Either
/// may be null, not both. From the reconciliation on. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`, `DFX_E_RANGE`, `DFX_E_SPACE`.
///
/// # Safety
/// `buffer` is null or has room for `capacity` bytes; `needed` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_reason(
    session: dfx_session_h,
    index: u32,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> dfx_status_e {
    with(session, |opened| {
        let reasons = opened.report("dfx_session_reason")?.reasons;
        let reason = reasons.get(index as usize).ok_or_else(|| beyond("reason", index, reasons.len()))?;
        let text = format!("{}: {}", reason.code, reason.message);
        // SAFETY: the caller's contract.
        unsafe { give(&text, buffer, capacity, needed) }
    })
}

/// Copies the session's own report to `buffer`: JSON with the keys of `run.json`, in UTF-8, with a NUL. `*needed` is set
/// to the bytes that it takes, the NUL included; with a null `buffer` nothing else is done. Either may be null, not both.
/// From the reconciliation on; the files are in it after the export. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`, `DFX_E_SPACE`. Before the export its times grow, and
/// with them it may; leave some room, or call it after.
///
/// # Safety
/// `buffer` is null or has room for `capacity` bytes; `needed` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_report(
    session: dfx_session_h,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> dfx_status_e {
    with(session, |opened| {
        let report = opened.report("dfx_session_report")?;
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::new(dfx_status_e::DFX_E_IO, error.to_string()))?;
        // SAFETY: the caller's contract.
        unsafe { give(&text, buffer, capacity, needed) }
    })
}
