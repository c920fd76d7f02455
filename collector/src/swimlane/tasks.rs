//! Dispatches, acknowledges and completions: what AICPU does for each task on a core.
//!
//! The hot functions hold nothing across a cold path: those take the same arguments in their places, and the collector
//! last, so that a call through a static collector is a jump.

use super::Swimlane;
use crate::clock::Clock;
use crate::fence;

impl<C: Clock> Swimlane<C> {
    /// Before `token` is written to `core`'s dispatch register (level ≥ 1). Rotates the core's buffer when it is full.
    ///
    /// # Safety
    /// One caller per core and per thread at a time (see the type).
    #[inline]
    pub unsafe fn on_dispatch(&self, core: u32, thread: u32, token: u32) {
        // SAFETY: what is open is in range, and the caller is the core's only one.
        if core < self.open(&self.core_cores) && !unsafe { (*self.core(core)).core.dispatch() } {
            // SAFETY: as above.
            unsafe { Self::dispatch_group(core, thread, token, self) }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn dispatch_group(core: u32, thread: u32, token: u32, this: &Self) {
        // SAFETY: open and in range, and the caller is the core's only one.
        if !unsafe { (*this.core(core)).core.grant() } {
            // SAFETY: as above.
            unsafe { Self::dispatch_boundary(core, thread, token, this) }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn dispatch_boundary(core: u32, thread: u32, token: u32, this: &Self) {
        // SAFETY: open and in range, and the caller is the core's only one.
        unsafe {
            let lane = &mut (*this.core(core)).core;
            if lane.rotate(token, this.port(thread)) {
                lane.grant();
            }
        }
    }

    /// On every matched ACK and FIN of `token` on `core` (level ≥ 1). Releases the buffer that waits for it.
    ///
    /// # Safety
    /// One caller per core and per thread at a time (see the type).
    #[inline]
    pub unsafe fn on_ack(&self, core: u32, thread: u32, token: u32) {
        // SAFETY: what is open is in range, and the caller is the core's only one.
        if core < self.open(&self.core_cores) && !unsafe { (*self.core(core)).core.ack(token) } {
            // SAFETY: as above.
            unsafe { Self::ack_gate(core, thread, self) }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn ack_gate(core: u32, thread: u32, this: &Self) {
        // SAFETY: open and in range, and the caller is the core's only one.
        unsafe { (*this.core(core)).core.ack_cold(this.port(thread)) }
    }

    /// Records that AICPU dispatched `token` to `core` at `dispatch` and saw it complete at `finish` (ticks; level ≥ 2).
    /// `false`: not recorded.
    ///
    /// # Safety
    /// One caller per core and per thread at a time (see the type).
    #[inline]
    pub unsafe fn complete_task(
        &self,
        core: u32,
        thread: u32,
        token: u32,
        dispatch: u64,
        finish: u64,
    ) -> bool {
        // SAFETY: passed on.
        unsafe { self.complete_task_status(core, thread, token, dispatch, finish) == 0 }
    }

    /// [`complete_task`](Self::complete_task) with the answer of the C symbol: 0, or -1 when it was not recorded.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn complete_task_status(
        &self,
        core: u32,
        thread: u32,
        token: u32,
        dispatch: u64,
        finish: u64,
    ) -> i32 {
        if core >= self.open(&self.task_cores) {
            return -1;
        }
        // SAFETY: what is open is in range, the caller is the core's only one, and the slot is the lane's; the padding
        // stays unwritten. The finish, which says that the record is whole (see `record_lane`), comes last.
        unsafe {
            let lane = &raw mut (*self.core(core)).task;
            let row = (*lane).next();
            if row.is_null() {
                return Self::task_first(core, thread, token, dispatch, finish, self);
            }
            (&raw mut (*row).dispatch_time).write(dispatch);
            (&raw mut (*row).reg_task_id).write(token);
            fence::in_order();
            (&raw mut (*row).finish_time).write(finish);
            if !(*lane).advance(row) {
                return Self::task_group(core, thread, self);
            }
        }
        0
    }

    #[cold]
    #[inline(never)]
    unsafe fn task_first(core: u32, thread: u32, token: u32, dispatch: u64, finish: u64, this: &Self) -> i32 {
        // SAFETY: open and in range, and the caller is the core's only one.
        unsafe {
            match (*this.core(core)).task.reopen(this.port(thread)) {
                true => this.complete_task_status(core, thread, token, dispatch, finish),
                false => -1,
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn task_group(core: u32, thread: u32, this: &Self) -> i32 {
        // SAFETY: as above.
        if unsafe { (*this.core(core)).task.group() } {
            // SAFETY: as above.
            return unsafe { Self::task_close(core, thread, this) };
        }
        0
    }

    #[cold]
    #[inline(never)]
    unsafe fn task_close(core: u32, thread: u32, this: &Self) -> i32 {
        // SAFETY: as above.
        unsafe { (*this.core(core)).task.close(this.port(thread)) };
        0
    }
}
