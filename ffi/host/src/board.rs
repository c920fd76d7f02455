//! The board that a session records, as a caller describes it.

use crate::status::{Failure, check_size, dfx_status_e, guard};
use dfx_host_drain::target::ExecutionMode;
use dfx_host_drain::{BackendType, Board, Target};

/// What runs the program.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_target_e {
    /// Ascend910B, the chip.
    DFX_TARGET_A2A3 = 0,
    /// Ascend910B, its simulator.
    DFX_TARGET_A2A3SIM = 1,
    /// Ascend950, the chip.
    DFX_TARGET_A5 = 2,
    /// Ascend950, its simulator.
    DFX_TARGET_A5SIM = 3,
}

/// What a core is.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_core_type_e {
    /// Cube core.
    DFX_CORE_AIC = 0,
    /// Vector core.
    DFX_CORE_AIV = 1,
}

/// A board. The caller's; it is read during the call only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_board_t {
    /// `sizeof(dfx_board_t)`.
    pub size: u32,
    /// A `dfx_target_e`.
    pub target: u32,
    /// Cores in use: 1 to `dfx_platform_t.max_cores`.
    pub cores: u32,
    /// AICPU threads in use, the orchestrator's included: 1 to `dfx_platform_t.max_threads`.
    pub aicpu_threads: u32,
    /// A `dfx_core_type_e` per core, in core order: `cores` of them.
    pub core_types: *const u8,
}

/// The numbers of a platform.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_platform_t {
    /// `sizeof(dfx_platform_t)`, set by the caller.
    pub size: u32,
    /// The most cores that a board has.
    pub max_cores: u32,
    /// The most AICPU threads that a board has.
    pub max_threads: u32,
    /// AICPU threads where nothing else is asked for.
    pub default_threads: u32,
    /// Ticks of the device's counter in a second.
    pub clock_hz: u64,
}

/// The target that a number stands for.
pub(crate) fn target(number: u32) -> Result<Target, Failure> {
    let (backend, mode) = match number {
        0 => (BackendType::Ascend910B, ExecutionMode::Onboard),
        1 => (BackendType::Ascend910B, ExecutionMode::Sim),
        2 => (BackendType::Ascend950, ExecutionMode::Onboard),
        3 => (BackendType::Ascend950, ExecutionMode::Sim),
        _ => return Err(Failure::invalid("target", number, "a dfx_target_e, 0 to 3")),
    };
    Ok(Target { backend, mode })
}

/// Which of the cores are AIC.
pub(crate) fn are_aic(core_types: &[u8]) -> Result<Vec<bool>, Failure> {
    if let Some(odd) = core_types.iter().find(|kind| **kind > 1) {
        return Err(Failure::invalid("core_types", odd, "a dfx_core_type_e: 0 (AIC) or 1 (AIV)"));
    }
    Ok(core_types.iter().map(|kind| *kind == 0).collect())
}

/// The board as the session wants it.
///
/// # Safety
/// `board` is null or points to a `dfx_board_t` whose `core_types` is null or points to `cores` bytes.
pub(crate) unsafe fn read(board: *const dfx_board_t) -> Result<(Target, Board), Failure> {
    // SAFETY: the caller's contract.
    let board = unsafe { board.as_ref() }.ok_or_else(|| Failure::null("board"))?;
    check_size::<dfx_board_t>("board", board.size)?;
    let target = target(board.target)?;
    if board.core_types.is_null() {
        return Err(Failure::null("board.core_types"));
    }
    // Before the array is looked at: a count that cannot be has no array.
    let max_cores = target.geometry().max_cores;
    if board.cores == 0 || board.cores > max_cores {
        return Err(Failure::invalid("cores", board.cores, &format!("1 to {max_cores}")));
    }
    // SAFETY: not null, and the caller's contract.
    let kinds = unsafe { std::slice::from_raw_parts(board.core_types, board.cores as usize) };
    let board = Board {
        platform: target.platform(),
        core_is_aic: are_aic(kinds)?,
        aicpu_threads: board.aicpu_threads,
    };
    board.validate()?;
    Ok((target, board))
}

/// Fills `out` with the numbers of the platform of `target` (a `dfx_target_e`). `out->size` must be set. Any thread, any
/// time.
///
/// Errors: `DFX_E_NULL`, `DFX_E_ABI`, `DFX_E_INVALID`.
///
/// # Safety
/// `out` is null or points to a `dfx_platform_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_platform_get(target: u32, out: *mut dfx_platform_t) -> dfx_status_e {
    guard(|| {
        // SAFETY: the caller's contract.
        let out = unsafe { out.as_mut() }.ok_or_else(|| Failure::null("out"))?;
        check_size::<dfx_platform_t>("out", out.size)?;
        let geometry = self::target(target)?.geometry();
        out.max_cores = geometry.max_cores;
        out.max_threads = geometry.max_threads;
        out.default_threads = geometry.default_threads;
        out.clock_hz = geometry.clock_hz;
        Ok(())
    })
}
