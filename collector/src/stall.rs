//! How long producers may wait, and when they stop believing in their host.
//!
//! A producer that finds no room waits for the host, but the device must never be killed by its own diagnostics. All
//! waits of one launch share this budget: a single wait ends after [`Budget::wait_ms`], and no wait goes on later than
//! [`Budget::total_ms`] after the launch began. Once a wait has expired, the host is latched as gone: later records do
//! not wait again until a lane that had to give up sees its host move.

use crate::clock::Clock;
use crate::sync::{AtomicU32, Ordering};

/// What the host grants: the word `stall_budget` of a region's header.
///
/// ```text
///  31               16 15                0
/// ┌───────────────────┬───────────────────┐
/// │ all waits end, ms │ one wait lasts, ms│
/// │ after launch      │ 0: never wait     │
/// └───────────────────┴───────────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The longest single wait in milliseconds; 0 means that a producer never waits (policy `drop`).
    pub wait_ms: u16,
    /// Milliseconds after the launch began at which every wait ends.
    pub total_ms: u16,
}

impl Budget {
    /// What a board allows when the host says nothing: the scheduler's no-progress timeout (10 s) and the op-execute
    /// timeout (45 s), each less two seconds.
    pub const DEFAULT: Budget = Budget { wait_ms: 8_000, total_ms: 43_000 };

    /// The budget that fits these timeouts (milliseconds): each less a margin of a fifth, at most 2 s; one wait is
    /// never longer than 30 s (`PLATFORM_PROF_TIMEOUT_SECONDS`).
    pub const fn within(no_progress_ms: u64, op_execute_ms: u64) -> Budget {
        const fn less(ms: u64, cap: u64) -> u16 {
            let margin = if ms / 5 < 2_000 { ms / 5 } else { 2_000 };
            let left = ms - margin;
            if left > cap { cap as u16 } else { left as u16 }
        }
        let wait_ms = less(no_progress_ms, 30_000);
        let total_ms = less(op_execute_ms, u16::MAX as u64);
        Budget { wait_ms: if wait_ms < total_ms { wait_ms } else { total_ms }, total_ms }
    }

    /// As the header's word.
    pub const fn to_word(self) -> u32 {
        self.wait_ms as u32 | ((self.total_ms as u32) << 16)
    }

    /// From the header's word.
    pub const fn from_word(word: u32) -> Budget {
        Budget { wait_ms: word as u16, total_ms: (word >> 16) as u16 }
    }
}

/// A launch's budget at work.
#[derive(Debug)]
pub struct Stall {
    wait: u64,
    total: u64,
    start: u64,
    /// 1 while the host is believed gone. A hint between threads that guards nothing else: relaxed.
    gone: AtomicU32,
}

/// One wait, as it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    /// Whether what was waited for came.
    pub ready: bool,
    /// How long it took, in ticks; 0 when there was nothing to wait for.
    pub ticks: u64,
}

impl Stall {
    /// A budget that allows no wait, for lanes before init.
    #[allow(clippy::declare_interior_mutable_const)] // a template, copied into each collector
    pub const NONE: Stall = Stall { wait: 0, total: 0, start: 0, gone: AtomicU32::new(0) };

    /// The budget of a launch that began at tick `start` of a counter of `clock_hz`.
    pub const fn new(budget: Budget, clock_hz: u64, start: u64) -> Stall {
        let per_ms = clock_hz / 1000;
        Stall {
            wait: budget.wait_ms as u64 * per_ms,
            total: budget.total_ms as u64 * per_ms,
            start,
            gone: AtomicU32::new(0),
        }
    }

    /// The longest single wait in ticks; 0 when there is to be none.
    pub(crate) const fn longest(&self) -> u64 {
        self.wait
    }

    /// How long a wait may last that begins at `now`, in ticks; 0 while the host is believed gone. For a wait with a way
    /// out of its own, which therefore does not latch the host as gone when it expires.
    pub(crate) fn left(&self, now: u64) -> u64 {
        if self.gone.load(Ordering::Relaxed) != 0 {
            return 0;
        }
        self.wait.min(self.total.saturating_sub(now.wrapping_sub(self.start)))
    }

    /// Waits until `ready` holds, `raise`s the matching flag first, and latches the host as gone if it never does.
    ///
    /// `starved` is the caller's memory of having given up before: such a caller that now finds its word changed knows
    /// that the host is alive, and says so for all.
    #[cold]
    #[inline(never)]
    pub fn wait<C: Clock>(
        &self,
        clock: &C,
        starved: &mut bool,
        raise: impl FnOnce(),
        mut ready: impl FnMut() -> bool,
    ) -> Waited {
        if ready() {
            if *starved {
                *starved = false;
                self.gone.store(0, Ordering::Relaxed);
            }
            return Waited { ready: true, ticks: 0 };
        }
        raise();
        if self.wait == 0 || self.gone.load(Ordering::Relaxed) != 0 {
            *starved = true;
            return Waited { ready: false, ticks: 0 };
        }
        let begin = clock.now();
        // A launch that seems to begin in the future (another thread's counter is a little ahead) has just begun.
        let since = begin.wrapping_sub(self.start);
        let since = if since > u64::MAX / 2 { 0 } else { since };
        let left = self.total.saturating_sub(since);
        let limit = self.wait.min(left);
        loop {
            clock.relax();
            let ticks = clock.now().wrapping_sub(begin);
            if ready() {
                *starved = false;
                return Waited { ready: true, ticks };
            }
            if ticks >= limit {
                *starved = true;
                self.gone.store(1, Ordering::Relaxed);
                return Waited { ready: false, ticks };
            }
        }
    }
}
