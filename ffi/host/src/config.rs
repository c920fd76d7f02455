//! Configurations: what a session is to record, and where to.

use crate::env;
use crate::handle::{CONFIGS, dfx_config_h};
use crate::status::{Failure, dfx_status_e, guard, put};
use dfx_host_drain::{Backpressure, DfxConfig, DumpBudget, TransportKind};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// What happens when the host cannot keep up.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_backpressure_e {
    /// The lane that has no room waits, within the stall budget (the default).
    DFX_BACKPRESSURE_LANE = 0,
    /// All lanes wait together until everything is emptied and refilled.
    DFX_BACKPRESSURE_GLOBAL = 1,
    /// As the first, but a wait lasts up to 30 s whatever the timeouts are.
    DFX_BACKPRESSURE_BLOCK = 2,
    /// Nobody waits; what finds no room is counted as dropped.
    DFX_BACKPRESSURE_DROP = 3,
}

/// What a lane records; also what `dfx_stream_t.kind` says.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_stream_e {
    /// AICore start and end; a lane per core.
    DFX_STREAM_AICORE_TASK = 0,
    /// AICPU dispatch and finish; a lane per core.
    DFX_STREAM_AICPU_TASK = 1,
    /// Scheduler phases; a lane per AICPU thread.
    DFX_STREAM_SCHED_PHASE = 2,
    /// Orchestrator submits; one lane.
    DFX_STREAM_ORCH_PHASE = 3,
    /// Submits of dep_gen; one lane.
    DFX_STREAM_SUBMIT = 4,
    /// Dumped arguments; a lane per AICPU thread.
    DFX_STREAM_ARG = 5,
    /// PMU rows; a lane per core.
    DFX_STREAM_PMU_ROW = 6,
    /// Scope samples; one lane.
    DFX_STREAM_SCOPE_SAMPLE = 7,
}

/// What a configuration handle stands for.
#[derive(Clone, Default)]
pub(crate) struct Config {
    pub(crate) dfx: DfxConfig,
    pub(crate) transport: Option<TransportKind>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) run: Option<String>,
    pub(crate) workload: String,
}

/// A caller's string.
///
/// # Safety
/// `text` is null or points to a string that ends with a NUL and does not change meanwhile.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &'static str) -> Result<&'a str, Failure> {
    // SAFETY: passed on.
    let bytes = unsafe { bytes(text, what) }?;
    std::str::from_utf8(bytes).map_err(|_| Failure::invalid(what, String::from_utf8_lossy(bytes), "UTF-8"))
}

/// A caller's path.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path(path: *const c_char) -> Result<PathBuf, Failure> {
    // SAFETY: passed on.
    let path = PathBuf::from(OsStr::from_bytes(unsafe { bytes(path, "output") }?));
    if path.as_os_str().is_empty() {
        return Err(Failure::invalid("output", "\"\"", "the name of a directory"));
    }
    Ok(path)
}

unsafe fn bytes<'a>(text: *const c_char, what: &'static str) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: not null; the callers' contracts.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

fn set(config: dfx_config_h, body: impl FnOnce(&mut Config) -> Result<(), Failure>) -> dfx_status_e {
    guard(|| CONFIGS.with(config, body))
}

/// Makes a configuration with every switch off, for `dfx_config_set_…` and `dfx_session_create`. It is the caller's, to
/// be given to `dfx_config_destroy`. Any thread.
///
/// Errors: `DFX_E_NULL`.
///
/// # Safety
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_config_create(out: *mut dfx_config_h) -> dfx_status_e {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let handle = CONFIGS.insert(Config::default(), ())?;
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", handle) }
    })
}

/// As `dfx_config_create`, with what the environment says: `DFX_OUTPUT_PREFIX`, `DFX_CHIP_SWIMLANE`, `DFX_DEP_GEN`,
/// `DFX_DUMP_ARGS`, `DFX_PMU` (whose event `SIMPLER_PMU_EVENT_TYPE` overrides), `DFX_SCOPE_STATS`, `DFX_DUMP_BUDGET`,
/// `DFX_BACKPRESSURE`; `DFX_LOG` sets the level of the log. What is unset or empty is left as it is. Any thread, but
/// nobody may change the environment meanwhile.
///
/// Errors: `DFX_E_NULL`, `DFX_E_INVALID` (the message names the variable); there is no configuration then.
///
/// # Safety
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_config_from_env(out: *mut dfx_config_h) -> dfx_status_e {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let config = env::config(&|name| std::env::var_os(name))?;
        let handle = CONFIGS.insert(config, ())?;
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", handle) }
    })
}

/// Ends a configuration. Sessions made from it stay. Any thread.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_destroy(config: dfx_config_h) -> dfx_status_e {
    guard(|| Ok(CONFIGS.remove(config, |_| ())?))
}

/// Sets the chip swimlane's level: 0 off, 1 AICore start and end, 2 and AICPU dispatch and finish, 3 and scheduler
/// phases, 4 and orchestrator submits. Any thread; calls on one configuration must not overlap.
///
/// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_chip_swimlane(config: dfx_config_h, level: i32) -> dfx_status_e {
    set(config, |config| {
        config.dfx.chip_swimlane = DfxConfig::swimlane_level(i64::from(level))?;
        Ok(())
    })
}

/// Sets whether submits are captured for the dependency graph. Threads and errors as `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_dep_gen(config: dfx_config_h, on: bool) -> dfx_status_e {
    set(config, |config| {
        config.dfx.dep_gen = on;
        Ok(())
    })
}

/// Sets how much of the arguments is dumped: 0 nothing, 1 what is marked, 2 everything, 3 all metadata and the payload
/// of what is marked. Threads and errors as `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_dump_args(config: dfx_config_h, level: i32) -> dfx_status_e {
    set(config, |config| {
        config.dfx.dump_args = DfxConfig::dump_level(i64::from(level))?;
        Ok(())
    })
}

/// Sets which hardware events are counted: 0 none, 1 arithmetic, 2 pipe utilization, 4 memory, 5 L0, 6 conflicts, 7 UB,
/// 8 L2. Another number counts as 2, and the log says so. Threads and errors as `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_pmu(config: dfx_config_h, event: u32) -> dfx_status_e {
    let (event_type, replaced) = DfxConfig::pmu_event(event);
    let status = set(config, |config| {
        config.dfx.pmu = event_type;
        Ok(())
    });
    // Not while the configuration is held: the log calls the caller back.
    if replaced && status == dfx_status_e::DFX_OK {
        return guard(|| {
            tracing::warn!(event, "there is no such PMU event type: 2 (PIPE_UTILIZATION) is counted");
            Ok(())
        });
    }
    status
}

/// Sets whether scopes are sampled. Threads and errors as `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_scope_stats(config: dfx_config_h, on: bool) -> dfx_status_e {
    set(config, |config| {
        config.dfx.scope_stats = on;
        Ok(())
    })
}

/// Sets the ceiling of the drain of dumped payload, in bytes per second; 0: none is set, the rate is only measured (the
/// default). Threads and errors as `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_dump_budget(config: dfx_config_h, bytes_per_s: u64) -> dfx_status_e {
    set(config, |config| {
        config.dfx.dump_budget =
            if bytes_per_s == 0 { DumpBudget::Auto } else { DumpBudget::Rate(bytes_per_s) };
        Ok(())
    })
}

/// Sets whether a tensor that has not changed since it was last dumped is sent only once (level 2; on by default).
/// Threads and errors as `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_dump_dedup(config: dfx_config_h, on: bool) -> dfx_status_e {
    set(config, |config| {
        config.dfx.dump_dedup = on;
        Ok(())
    })
}

/// Sets the size of each AICPU thread's arena for dumped payload, in bytes: a multiple of 64, at least 4096, at most 2^40.
/// Threads and errors as `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_dump_arena(config: dfx_config_h, bytes: u64) -> dfx_status_e {
    set(config, |config| {
        DfxConfig::check_arena(bytes)?;
        config.dfx.dump_arena_bytes = bytes;
        Ok(())
    })
}

/// Sets what happens when the host cannot keep up; `policy` is a `dfx_backpressure_e`. Threads and errors as
/// `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_backpressure(config: dfx_config_h, policy: u32) -> dfx_status_e {
    set(config, |config| {
        config.dfx.backpressure = match policy {
            0 => Backpressure::Lane,
            1 => Backpressure::Global,
            2 => Backpressure::Block,
            3 => Backpressure::Drop,
            _ => return Err(Failure::invalid("backpressure", policy, "a dfx_backpressure_e, 0 to 3")),
        };
        Ok(())
    })
}

/// Sets how many buffers each lane of `stream` (a `dfx_stream_e`) gets: at least 1, for AICore tasks at least 2, at most
/// 65,536. Threads and errors as `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_buffers(config: dfx_config_h, stream: u32, buffers: u32) -> dfx_status_e {
    set(config, |config| {
        let pools = &mut config.dfx.pools;
        let least = if stream == 0 { 2 } else { 1 };
        let pool = match stream {
            0 => &mut pools.core,
            1 => &mut pools.task,
            2 => &mut pools.sched,
            3 => &mut pools.orch,
            4 => &mut pools.dep_gen,
            5 => &mut pools.dump,
            6 => &mut pools.pmu,
            7 => &mut pools.scope_stats,
            _ => return Err(Failure::invalid("stream", stream, "a dfx_stream_e, 0 to 7")),
        };
        DfxConfig::check_buffers("buffers", buffers, least)?;
        *pool = buffers;
        Ok(())
    })
}

/// Sets the runtime's own timeouts, which no wait of the device for the host may outlast, in ms: that of an operator's
/// execution from its launch (45,000 unless set), and that after which a scheduler without progress gives up (10,000).
/// Threads and errors as `dfx_config_set_chip_swimlane`; 0 is not accepted.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_timeouts(
    config: dfx_config_h,
    op_execute_ms: u64,
    scheduler_ms: u64,
) -> dfx_status_e {
    set(config, |config| {
        for (field, ms) in [("op_execute_ms", op_execute_ms), ("scheduler_ms", scheduler_ms)] {
            if ms == 0 {
                return Err(Failure::invalid(field, ms, "milliseconds, more than 0"));
            }
        }
        config.dfx.timeouts.op_execute = Duration::from_millis(op_execute_ms);
        config.dfx.timeouts.scheduler = Duration::from_millis(scheduler_ms);
        Ok(())
    })
}

/// Sets how the host reaches device memory; `transport` is a `dfx_transport_e`. Threads and errors as
/// `dfx_config_set_chip_swimlane`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_config_set_transport(config: dfx_config_h, transport: u32) -> dfx_status_e {
    set(config, |config| {
        config.transport = match transport {
            0 => None,
            1 => Some(TransportKind::Svm),
            2 => Some(TransportKind::Copy),
            _ => return Err(Failure::invalid("transport", transport, "a dfx_transport_e, 0 to 2")),
        };
        Ok(())
    })
}

/// Sets the directory of the artifacts; it is made if missing when the session starts. The string is copied; on this
/// system a path is bytes, and need not be UTF-8. Threads and errors as `dfx_config_set_chip_swimlane`; an empty name is
/// not accepted.
///
/// # Safety
/// `dir` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_config_set_output(config: dfx_config_h, dir: *const c_char) -> dfx_status_e {
    set(config, |config| {
        // SAFETY: the caller's contract.
        config.output = Some(unsafe { path(dir) }?);
        Ok(())
    })
}

/// Names the run that the session is part of. Sessions of this process with the same run and the same output directory
/// (one per feature, say) make one `run.json`, which is complete if all of them are; without a name, or with null, each
/// session replaces what an earlier one left. Choose another name for each launch. The string is copied. Threads and
/// errors as `dfx_config_set_chip_swimlane`.
///
/// # Safety
/// `run` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_config_set_run(config: dfx_config_h, run: *const c_char) -> dfx_status_e {
    set(config, |config| {
        config.run = if run.is_null() {
            None
        } else {
            // SAFETY: not null, and the caller's contract.
            Some(unsafe { text(run, "run") }?.to_owned()).filter(|run| !run.is_empty())
        };
        Ok(())
    })
}

/// Sets what `run.json` says was run. The string, in UTF-8, is copied. Threads and errors as
/// `dfx_config_set_chip_swimlane`.
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_config_set_workload(config: dfx_config_h, name: *const c_char) -> dfx_status_e {
    set(config, |config| {
        // SAFETY: the caller's contract.
        config.workload = unsafe { text(name, "workload") }?.to_owned();
        Ok(())
    })
}
