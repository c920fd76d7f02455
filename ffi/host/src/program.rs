//! What only the runtime's host knows of a program: the names of its kernels, what its cores are, and, where the host
//! orchestrates, its own submits, uploads and clock readings.

use crate::board;
use crate::config::text;
use crate::handle::{SESSIONS, dfx_session_h};
use crate::session::Opened;
use crate::status::{Failure, check_reserved, dfx_status_e, guard};
use dfx_host_drain::export::host::{
    AnchorSample, ClockAnchors, HostCapture, HostSubmit, HostUpload, UploadPhase,
};
use std::ffi::c_char;

/// One submit, made on the host.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_host_submit_t {
    /// The submitted task.
    pub task_id: u64,
    /// In ns of the host's monotonic clock.
    pub start_ns: u64,
    /// In ns of the host's monotonic clock.
    pub end_ns: u64,
    /// Counts submits from 0.
    pub submit_idx: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// What is uploaded to the device.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_upload_e {
    /// The whole graph.
    DFX_UPLOAD_GRAPH = 0,
    /// The shared-memory region.
    DFX_UPLOAD_SHARED_MEMORY = 1,
    /// The arena.
    DFX_UPLOAD_ARENA = 2,
}

/// One upload from host to device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_host_upload_t {
    /// A `dfx_upload_e`.
    pub phase: u32,
    /// Must be 0.
    pub reserved: u32,
    /// In ns of the host's monotonic clock.
    pub start_ns: u64,
    /// In ns of the host's monotonic clock.
    pub end_ns: u64,
    /// Bytes, where the phase counts them.
    pub detail: u64,
}

/// When both clocks are read.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_anchor_e {
    /// Before the host orchestrates.
    DFX_ANCHOR_BEFORE = 0,
    /// After the device has executed.
    DFX_ANCHOR_AFTER = 1,
}

/// A reading of both clocks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_anchor_t {
    /// A `dfx_anchor_e`.
    pub position: u32,
    /// Counts the readings at a position from 0.
    pub sample_idx: u32,
    /// Host time before the device's clock was read, in ns.
    pub host_before_ns: u64,
    /// Host time after it, in ns.
    pub host_after_ns: u64,
    /// The device's time stamp in its own unit; 0 if there is none.
    pub raw_device_timestamp: u64,
    /// The same in ticks of the counter; 0 if there is none.
    pub device_cycles: u64,
    /// The runtime's code, if the reading failed.
    pub error_code: i64,
    /// Where the reading failed; null if it did not. Read during the call only.
    pub error_stage: *const c_char,
}

/// The phases in the order of `dfx_upload_e`.
const PHASES: [UploadPhase; 3] = [UploadPhase::GraphUpload, UploadPhase::SharedMemory, UploadPhase::Arena];
/// The positions in the order of `dfx_anchor_e`.
const POSITIONS: [&str; 2] = ["pre_host_orchestration", "post_device_execution"];

fn before_export(
    session: dfx_session_h,
    step: &str,
    body: impl FnOnce(&mut Opened) -> Result<(), Failure>,
) -> dfx_status_e {
    guard(|| {
        SESSIONS.with(session, |opened| {
            opened.before_export(step)?;
            body(opened)
        })
    })
}

/// A caller's array.
///
/// # Safety
/// `first` is null or points to `count` elements that do not change meanwhile.
unsafe fn list<'a, T>(first: *const T, count: usize, what: &'static str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Failure::null(what));
    }
    let most = isize::MAX as usize / size_of::<T>();
    if count > most {
        return Err(Failure::invalid("count", count, &format!("the number of {what}, at most {most}")));
    }
    if !first.is_aligned() {
        let expected = format!("an address that is a multiple of {}", align_of::<T>());
        return Err(Failure::invalid(what, format!("{first:p}"), &expected));
    }
    // SAFETY: not null, aligned, no longer than an array can be, and the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Names a kernel by its callable id, for `name_map_<workload>.json`, which is written when the swimlane or dep_gen is
/// on. The string, in UTF-8, is copied; a second name replaces the first. Before the export. Calls on one session must
/// not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_name_callable(
    session: dfx_session_h,
    callable_id: u32,
    name: *const c_char,
) -> dfx_status_e {
    before_export(session, "dfx_session_name_callable", |opened| {
        // SAFETY: the caller's contract.
        let name = unsafe { text(name, "name") }?.to_owned();
        opened.names.callable_id_to_name.insert(callable_id, name);
        Ok(())
    })
}

/// Names what orchestrates; as `dfx_session_name_callable`.
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_name_orchestrator(
    session: dfx_session_h,
    name: *const c_char,
) -> dfx_status_e {
    before_export(session, "dfx_session_name_orchestrator", |opened| {
        // SAFETY: the caller's contract.
        opened.names.orchestrator_name = Some(unsafe { text(name, "name") }?.to_owned());
        Ok(())
    })
}

/// Says what the cores are, in place of what the board said: for a caller that learns it later. A `dfx_core_type_e` per
/// core, in core order. The array is copied. Before the export. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID` (also when `count` is not the number of cores),
/// `DFX_E_ORDER`.
///
/// # Safety
/// `core_types` is null or points to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_set_core_types(
    session: dfx_session_h,
    core_types: *const u8,
    count: usize,
) -> dfx_status_e {
    before_export(session, "dfx_session_set_core_types", |opened| {
        // SAFETY: the caller's contract.
        let core_is_aic = board::are_aic(unsafe { list(core_types, count, "core_types") }?)?;
        Ok(opened.session.set_core_types(core_is_aic)?)
    })
}

/// Adds submits that the host made itself to the swimlane's file (level 3 and more). The array is copied. Before the
/// export. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`; none is added then.
///
/// # Safety
/// `submits` is null or points to `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_add_host_submits(
    session: dfx_session_h,
    submits: *const dfx_host_submit_t,
    count: usize,
) -> dfx_status_e {
    before_export(session, "dfx_session_add_host_submits", |opened| {
        // SAFETY: the caller's contract.
        let submits = unsafe { list(submits, count, "submits") }?;
        submits.iter().try_for_each(|submit| check_reserved("submits.reserved", submit.reserved))?;
        opened.host.submits.extend(submits.iter().map(|submit| HostSubmit {
            submit_idx: submit.submit_idx,
            task_id: submit.task_id,
            start_ns: submit.start_ns,
            end_ns: submit.end_ns,
        }));
        Ok(())
    })
}

/// Adds uploads to the swimlane's file (level 3 and more); as `dfx_session_add_host_submits`.
///
/// Errors: as there.
///
/// # Safety
/// `uploads` is null or points to `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_add_host_uploads(
    session: dfx_session_h,
    uploads: *const dfx_host_upload_t,
    count: usize,
) -> dfx_status_e {
    before_export(session, "dfx_session_add_host_uploads", |opened| {
        // SAFETY: the caller's contract.
        let uploads = unsafe { list(uploads, count, "uploads") }?;
        let uploads = uploads.iter().map(|upload| {
            check_reserved("uploads.reserved", upload.reserved)?;
            let phase = PHASES.get(upload.phase as usize).copied();
            let phase =
                phase.ok_or_else(|| Failure::invalid("phase", upload.phase, "a dfx_upload_e, 0 to 2"))?;
            Ok(HostUpload { phase, start_ns: upload.start_ns, end_ns: upload.end_ns, detail: upload.detail })
        });
        let uploads: Vec<_> = uploads.collect::<Result<_, Failure>>()?;
        opened.host.uploads.extend(uploads);
        Ok(())
    })
}

/// Says how the host's own recording went: submits that there should be, submits recorded, records that the runtime's
/// pool took, and those that it had no room for. Before the export. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_session_set_host_capture(
    session: dfx_session_h,
    expected: u64,
    recorded: u64,
    pool: u64,
    dropped: u64,
) -> dfx_status_e {
    before_export(session, "dfx_session_set_host_capture", |opened| {
        opened.host.capture = Some(HostCapture {
            expected_records: expected,
            recorded_records: recorded,
            pool_records: pool,
            dropped_records: dropped,
        });
        Ok(())
    })
}

/// Says that the clocks of host and device are related by readings: who reads the device's (`sim_syscnt`, `acl_event`,
/// `unavailable`), in which unit (`syscnt_cycles`, `device_uptime_us`, `unknown`), and how many readings are meant at each
/// position. The strings, in UTF-8, are copied; readings that were added before stay. Before the export. Calls on one
/// session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
///
/// # Safety
/// `provider` and `unit` are null or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_set_anchors(
    session: dfx_session_h,
    provider: *const c_char,
    unit: *const c_char,
    samples_per_position: u32,
) -> dfx_status_e {
    before_export(session, "dfx_session_set_anchors", |opened| {
        // SAFETY: the caller's contract.
        let (provider, unit) = unsafe { (text(provider, "provider")?, text(unit, "unit")?) };
        let anchors = opened.host.anchors.get_or_insert_with(ClockAnchors::default);
        anchors.provider = provider.to_owned();
        anchors.raw_device_timestamp_unit = unit.to_owned();
        anchors.samples_per_position = samples_per_position;
        Ok(())
    })
}

/// Adds one reading of both clocks. The struct is copied. Before the export. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
///
/// # Safety
/// `anchor` is null or as its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_add_anchor(
    session: dfx_session_h,
    anchor: *const dfx_anchor_t,
) -> dfx_status_e {
    before_export(session, "dfx_session_add_anchor", |opened| {
        // SAFETY: the caller's contract.
        let anchor = unsafe { anchor.as_ref() }.ok_or_else(|| Failure::null("anchor"))?;
        let position = POSITIONS.get(anchor.position as usize).copied();
        let position = position
            .ok_or_else(|| Failure::invalid("position", anchor.position, "a dfx_anchor_e, 0 or 1"))?;
        let error = if anchor.error_stage.is_null() {
            None
        } else {
            // SAFETY: not null, and the caller's contract.
            Some((unsafe { text(anchor.error_stage, "error_stage") }?.to_owned(), anchor.error_code))
        };
        opened.host.anchors.get_or_insert_with(ClockAnchors::default).samples.push(AnchorSample {
            position: position.into(),
            sample_idx: anchor.sample_idx,
            host_before_ns: anchor.host_before_ns,
            raw_device_timestamp: Some(anchor.raw_device_timestamp).filter(|time| *time != 0),
            device_cycles: Some(anchor.device_cycles).filter(|time| *time != 0),
            host_after_ns: anchor.host_after_ns,
            error,
        });
        Ok(())
    })
}
