//! Sessions: one run's host half, step by step.

use crate::board::{self, dfx_board_t};
use crate::config::{Config, path};
use crate::handle::{CONFIGS, SESSIONS, dfx_config_h, dfx_session_h};
use crate::memory::{Callbacks, dfx_memory_t};
use crate::output;
use crate::status::{Failure, check_size, dfx_status_e, guard, put};
use crate::threads::{Factory, dfx_threads_t};
use dfx_host_drain::export::host::HostOrchestration;
use dfx_host_drain::export::names::NameMap;
use dfx_host_drain::report::RunReport;
use dfx_host_drain::workers::SystemThreads;
use dfx_host_drain::{DeviceEnd, Drive, DumpLevel, Session, SessionSpec, Target};
use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use time::OffsetDateTime;

/// What can be recorded, as bits: those of the runtime's own `enable_profiling_flag`.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_feature_e {
    /// Argument dump.
    DFX_FEATURE_DUMP_ARGS = 1,
    /// Chip swimlane.
    DFX_FEATURE_CHIP_SWIMLANE = 2,
    /// Hardware counters.
    DFX_FEATURE_PMU = 4,
    /// Dependency graph.
    DFX_FEATURE_DEP_GEN = 8,
    /// Scope statistics.
    DFX_FEATURE_SCOPE_STATS = 16,
}

/// How the device came to rest.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_end_e {
    /// It did everything and flushed.
    DFX_END_COMPLETED = 0,
    /// It hung, was killed, or gave up: what it never published is taken all the same.
    DFX_END_ABNORMAL = 1,
}

/// Where the device half finds its regions: device addresses, 0 for a feature that is off. They belong to the session
/// and are good until it is released or destroyed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_regions_t {
    /// `sizeof(dfx_regions_t)`, set by the caller.
    pub size: u32,
    /// Bits of `dfx_feature_e`: what is on.
    pub features: u32,
    /// The chip swimlane's region.
    pub swimlane_base: u64,
    /// One u64 per core, for the cores' recorders.
    pub swimlane_rotation_table: u64,
    /// The args dump's region.
    pub dump_base: u64,
    /// dep_gen's region.
    pub dep_gen_base: u64,
    /// The PMU's region.
    pub pmu_base: u64,
    /// a5: one u64 per core, the address of its ring; else 0.
    pub pmu_ring_table: u64,
    /// The scope statistics' region.
    pub scope_stats_base: u64,
}

/// How the drain goes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_progress_t {
    /// `sizeof(dfx_progress_t)`, set by the caller.
    pub size: u32,
    /// Set to 0.
    pub reserved: u32,
    /// Buffers of records kept so far.
    pub buffers: u64,
    /// Dumped payload read from the device so far, in bytes.
    pub dump_bytes_drained: u64,
    /// Dumped payload that the device has handed over and that is not in the file yet, in bytes.
    pub dump_bytes_waiting: u64,
    /// The drain's rate of late, in bytes per second; 0 while none was measured.
    pub dump_bytes_per_s: u64,
}

/// What a session handle stands for.
pub(crate) struct Opened {
    pub(crate) session: Session,
    pub(crate) target: Target,
    pub(crate) config: Config,
    pub(crate) host: HostOrchestration,
    pub(crate) names: NameMap,
    pub(crate) started_at: OffsetDateTime,
    pub(crate) created: Instant,
    pub(crate) op_wall_ns: u64,
    pub(crate) end: DeviceEnd,
    /// Whether the accounts are closed.
    pub(crate) closed: bool,
    /// This session's own report, once it is exported or released.
    pub(crate) report: Option<RunReport>,
    /// Whether everything was given back.
    pub(crate) released: bool,
    threads: Option<Factory>,
    started: Option<Instant>,
    /// The directory, once it is prepared.
    prepared: Option<PathBuf>,
}

impl Opened {
    /// Fails once the session has been started or released.
    pub(crate) fn before_start(&self, step: &str) -> Result<(), Failure> {
        self.before_release(step)?;
        if self.started.is_none() {
            return Ok(());
        }
        let message = format!("{step} was called after dfx_session_start: call it before");
        Err(Failure::new(dfx_status_e::DFX_E_ORDER, message))
    }

    /// Fails once the artifacts were written, or cannot be any more.
    pub(crate) fn before_export(&self, step: &str) -> Result<(), Failure> {
        self.before_release(step)?;
        if self.report.is_none() {
            return Ok(());
        }
        let message = format!("{step} was called after dfx_session_export: call it before, and export once");
        Err(Failure::new(dfx_status_e::DFX_E_ORDER, message))
    }

    fn before_release(&self, step: &str) -> Result<(), Failure> {
        if !self.released {
            return Ok(());
        }
        let message = format!("{step} was called after dfx_session_release: make another session");
        Err(Failure::new(dfx_status_e::DFX_E_ORDER, message))
    }

    fn prepare(&mut self, dir: &Path) -> Result<(), Failure> {
        if self.prepared.as_deref() != Some(dir) {
            output::prepare(dir, self.config.run.as_deref())?;
            self.prepared = Some(dir.into());
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Failure> {
        self.before_start("dfx_session_start")?;
        if let Some(dir) = self.config.output.clone().filter(|_| self.config.dfx.any()) {
            self.prepare(&dir)?;
            self.session.set_output(dir)?;
        }
        match &self.threads {
            Some(threads) => self.session.start_on(threads, Drive::Threads)?,
            None => self.session.start_on(&SystemThreads, Drive::Threads)?,
        }
        self.started = Some(Instant::now());
        Ok(())
    }

    fn export(&mut self, dir: Option<PathBuf>) -> Result<(), Failure> {
        self.before_export("dfx_session_export")?;
        let dumps = self.config.dfx.dump_args != DumpLevel::Off;
        let dir = match (dir, &self.config.output) {
            (Some(dir), Some(output)) if dumps && dir != *output => {
                let expected =
                    format!("{:?}, where dumped payload went while the device ran", output.display());
                return Err(Failure::invalid("dir", dir.display(), &expected));
            }
            (Some(dir), _) => dir,
            (None, Some(output)) => output.clone(),
            (None, None) if self.config.dfx.any() => {
                let expected = "a directory, here or by dfx_config_set_output";
                return Err(Failure::invalid("output", "none", expected));
            }
            (None, None) => PathBuf::new(),
        };
        self.reconciled("dfx_session_export")?;
        if !self.config.dfx.any() {
            self.report = Some(self.account(Vec::new(), Vec::new()));
            return Ok(());
        }
        if self.host != HostOrchestration::default() {
            self.session.set_host_orchestration(std::mem::take(&mut self.host))?;
        }
        self.prepare(&dir)?;
        let (report, failed) = self.write_artifacts(&dir);
        output::write(&dir, self.config.run.as_deref(), &report)?;
        self.report = Some(report);
        failed.map_or(Ok(()), Err)
    }
}

fn with(session: dfx_session_h, body: impl FnOnce(&mut Opened) -> Result<(), Failure>) -> dfx_status_e {
    guard(|| SESSIONS.with(session, body))
}

/// Makes a session: validates everything, allocates the shared memory of what `config` has on, and lays it out. With
/// nothing on there is no memory, no thread and no file, and every later step does nothing. The configuration is copied.
/// The session is the caller's, to be given to `dfx_session_destroy`.
///
/// Any thread; several may make sessions from one configuration at once. Calls on one session must not overlap; one that
/// does returns `DFX_E_BUSY`.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_ABI`, `DFX_E_INVALID`, `DFX_E_MEMORY`; nothing stays allocated then.
///
/// # Safety
/// `board`, `memory` and `out` are null or as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_create(
    config: dfx_config_h,
    board: *const dfx_board_t,
    memory: *const dfx_memory_t,
    out: *mut dfx_session_h,
) -> dfx_status_e {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let config = CONFIGS.copy(config)?;
        // SAFETY: the caller's contract.
        let (target, board) = unsafe { board::read(board) }?;
        let transport = config.transport.unwrap_or(target.transport());
        // SAFETY: the caller's contract.
        let memory = Arc::new(unsafe { Callbacks::read(memory, transport) }?);
        let session =
            Session::configure(SessionSpec { config: config.dfx.clone(), board, memory, transport })?;
        let stepper = session.stepper();
        let opened = Opened {
            session,
            target,
            config,
            host: HostOrchestration::default(),
            names: NameMap { level: 2, ..NameMap::default() },
            started_at: OffsetDateTime::now_utc(),
            created: Instant::now(),
            op_wall_ns: 0,
            end: DeviceEnd::Completed,
            closed: false,
            report: None,
            released: false,
            threads: None,
            started: None,
            prepared: None,
        };
        let handle = SESSIONS.insert(opened, stepper)?;
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", handle) }
    })
}

/// Sets the directory of the artifacts, in place of the configuration's. Before the start. Calls on one session must not
/// overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
///
/// # Safety
/// `dir` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_set_output(session: dfx_session_h, dir: *const c_char) -> dfx_status_e {
    with(session, |opened| {
        opened.before_start("dfx_session_set_output")?;
        // SAFETY: the caller's contract.
        opened.config.output = Some(unsafe { path(dir) }?);
        Ok(())
    })
}

/// Has the session's threads made by the caller; null: by the library, which is the default. Before the start. Calls on
/// one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ABI`, `DFX_E_ORDER`.
///
/// # Safety
/// `threads` is null or as its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_set_threads(
    session: dfx_session_h,
    threads: *const dfx_threads_t,
) -> dfx_status_e {
    with(session, |opened| {
        opened.before_start("dfx_session_set_threads")?;
        // SAFETY: the caller's contract.
        opened.threads = unsafe { Factory::read(threads) }?;
        Ok(())
    })
}

/// Fills `out` with where the device half finds its regions. `out->size` must be set. From the creation to the release.
/// Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ABI`; after the release every address is 0.
///
/// # Safety
/// `out` is null or points to a `dfx_regions_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_regions(
    session: dfx_session_h,
    out: *mut dfx_regions_t,
) -> dfx_status_e {
    with(session, |Opened { session, .. }| {
        // SAFETY: the caller's contract.
        let out = unsafe { out.as_mut() }.ok_or_else(|| Failure::null("out"))?;
        check_size::<dfx_regions_t>("out", out.size)?;
        let (swimlane, pmu) = (session.swimlane_region(), session.pmu_region());
        let dump = session.dump_region();
        let (dep_gen, scopes) = (session.dep_gen_region(), session.scope_stats_region());
        let bit = |on: bool, feature: dfx_feature_e| if on { feature as u32 } else { 0 };
        *out = dfx_regions_t {
            size: out.size,
            features: bit(dump.is_some(), dfx_feature_e::DFX_FEATURE_DUMP_ARGS)
                | bit(swimlane.is_some(), dfx_feature_e::DFX_FEATURE_CHIP_SWIMLANE)
                | bit(pmu.is_some(), dfx_feature_e::DFX_FEATURE_PMU)
                | bit(dep_gen.is_some(), dfx_feature_e::DFX_FEATURE_DEP_GEN)
                | bit(scopes.is_some(), dfx_feature_e::DFX_FEATURE_SCOPE_STATS),
            swimlane_base: swimlane.map_or(0, |region| region.base.0),
            swimlane_rotation_table: swimlane.map_or(0, |region| region.rotation_table.0),
            dump_base: dump.map_or(0, |region| region.base.0),
            dep_gen_base: dep_gen.map_or(0, |base| base.0),
            pmu_base: pmu.map_or(0, |region| region.base.0),
            pmu_ring_table: pmu.map_or(0, |region| region.ring_table.0),
            scope_stats_base: scopes.map_or(0, |base| base.0),
        };
        Ok(())
    })
}

/// Starts draining: after it the device may be launched. Makes the output directory and removes from it what an earlier
/// run left. Once. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`, `DFX_E_IO`, `DFX_E_THREAD`, and `DFX_E_INVALID`
/// when arguments are dumped and no output directory is set. After `DFX_E_IO` and `DFX_E_THREAD` the directory may have
/// been emptied; the start may be tried again.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_session_start(session: dfx_session_h) -> dfx_status_e {
    with(session, Opened::start)
}

/// Fills `out` with how the drain goes. `out->size` must be set. Any thread, any time, also while another call on the
/// session is under way, which it neither waits for nor disturbs.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_ABI`.
///
/// # Safety
/// `out` is null or points to a `dfx_progress_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_progress(
    session: dfx_session_h,
    out: *mut dfx_progress_t,
) -> dfx_status_e {
    guard(|| {
        let stepper = SESSIONS.beside(session)?;
        // SAFETY: the caller's contract.
        let out = unsafe { out.as_mut() }.ok_or_else(|| Failure::null("out"))?;
        check_size::<dfx_progress_t>("out", out.size)?;
        let flow = stepper.flow();
        *out = dfx_progress_t {
            size: out.size,
            reserved: 0,
            buffers: stepper.progress(),
            dump_bytes_drained: flow.map_or(0, |flow| flow.drained()),
            dump_bytes_waiting: flow.map_or(0, |flow| flow.backlog()),
            dump_bytes_per_s: flow.map_or(0, |flow| flow.rate()),
        };
        Ok(())
    })
}

/// Stops draining and takes everything that the device published. The device must be at rest: nothing writes its memory
/// any more. `end` is a `dfx_end_e`. May take as long as the dumped payload needs at its budget. Once. Calls on one
/// session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_session_stop(session: dfx_session_h, end: u32) -> dfx_status_e {
    with(session, |opened| {
        let end = match end {
            0 => DeviceEnd::Completed,
            1 => DeviceEnd::Abnormal,
            _ => return Err(Failure::invalid("end", end, "a dfx_end_e, 0 or 1")),
        };
        let op_wall_ns = opened.started.map_or(0, |started| started.elapsed().as_nanos() as u64);
        opened.session.stop(end)?;
        opened.op_wall_ns = op_wall_ns;
        opened.end = end;
        Ok(())
    })
}

/// Takes what the device never published, and closes every lane's account with the device's own totals. Once, after the
/// stop. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_session_reconcile(session: dfx_session_h) -> dfx_status_e {
    with(session, |opened| {
        opened.session.reconcile()?;
        opened.closed = true;
        Ok(())
    })
}

/// Writes the artifacts and then `run.json` into `dir`, or, if that is null, where the configuration or
/// `dfx_session_set_output` says. Where both are given and arguments are dumped, they must be the same. A file is complete
/// under its name, or not there. Whether anything is missing from them says `dfx_session_complete`. Once, after the
/// reconciliation. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`, and `DFX_E_IO`: then the other
/// artifacts are there, and `run.json`, if it could be written, says which is not.
///
/// # Safety
/// `dir` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_session_export(session: dfx_session_h, dir: *const c_char) -> dfx_status_e {
    with(session, |opened| {
        // SAFETY: the caller's contract.
        let dir = if dir.is_null() { None } else { Some(unsafe { path(dir) }?) };
        opened.export(dir)
    })
}

/// Gives everything back: threads, mappings, device memory; after it the memory's functions are not called any more. The
/// account stays readable. At any time, also twice; what was not exported is then lost. Calls on one session must not
/// overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_session_release(session: dfx_session_h) -> dfx_status_e {
    with(session, |opened| {
        opened.release();
        Ok(())
    })
}

/// Releases the session and ends its handle. At any time. Calls on one session must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`; the session is then still there.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_session_destroy(session: dfx_session_h) -> dfx_status_e {
    guard(|| Ok(SESSIONS.remove(session, Opened::release)?))
}
