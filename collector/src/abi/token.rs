//! The words that AICPU and a core exchange through [`Reg::DataMainBase`](super::registers::Reg) and `Reg::Cond`.
//!
//! ```text
//!   31   30                            0
//!  ┌───────┬────────────────────────────┐
//!  │ state │ token                      │   what a core answers
//!  └───────┴────────────────────────────┘
//! ```

/// `TASK_ID_MASK`: the bits that hold the token.
pub const MASK: u32 = 0x7FFF_FFFF;
/// `TASK_STATE_MASK`: the bit that holds the state.
pub const STATE_MASK: u32 = 0x8000_0000;
/// `TASK_ACK_STATE`: the core has taken the task.
pub const STATE_ACK: u32 = 0;
/// `TASK_FIN_STATE`: the core has finished the task.
pub const STATE_FIN: u32 = 1;
/// `AICORE_IDLE_TASK_ID`: the token of a core that has nothing to do.
pub const CORE_IDLE: u32 = 0x7FFF_FFFF;
/// `AICORE_EXIT_TASK_ID`: the token of a core that has left its loop.
pub const CORE_EXITED: u32 = 0x7FFF_FFFE;
/// `AICPU_IDLE_TASK_ID`: the token that AICPU writes when it has nothing to dispatch.
pub const AICPU_IDLE: u32 = 0x7FFF_FFFD;
/// `AICORE_EXIT_SIGNAL`: what AICPU writes to make a core leave its loop.
pub const EXIT_SIGNAL: u32 = 0x7FFF_FFF0;
/// `AICORE_IDLE_VALUE`: the word of an idle core.
pub const IDLE_VALUE: u64 = fin(CORE_IDLE) as u64;
/// `AICORE_EXITED_VALUE`: the word of a core that has left its loop.
pub const EXITED_VALUE: u64 = fin(CORE_EXITED) as u64;
/// `AICORE_COREID_MASK`: the bits of a core's own id register that number it.
pub const CORE_ID_MASK: u32 = 0xFFF;
/// `AICPU_TASK_INVALID`: no task.
pub const TASK_INVALID: i32 = -1;

/// The word by which a core acknowledges `token`.
pub const fn ack(token: u32) -> u32 {
    token & MASK
}

/// The word by which a core finishes `token`.
pub const fn fin(token: u32) -> u32 {
    (token & MASK) | STATE_MASK
}

/// The token in a core's word.
pub const fn of(word: u32) -> u32 {
    word & MASK
}

/// The state in a core's word: [`STATE_ACK`] or [`STATE_FIN`].
pub const fn state(word: u32) -> u32 {
    word >> 31
}
