//! The watchdog: STARS, which kills AICPU threads that take too long, and the host's own patience.
//!
//! The third guard, a scheduler that sees no progress, is the schedulers' own.

use super::LaunchStatus;
use super::aicore::nanos;
use super::shared::Shared;
use crate::exec::{ActorId, Exec};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Runs the watchdog until the AICPU threads are gone; then stops the cores.
pub(super) fn watch(shared: &Shared, exec: &dyn Exec) {
    let control = &shared.control;
    let begun = exec.nanos();
    let mut deadlines = [
        (nanos(shared.op_timeout), LaunchStatus::OpTimeout { after: shared.op_timeout }),
        (nanos(shared.stream_sync_timeout), LaunchStatus::Abandoned { after: shared.stream_sync_timeout }),
    ];
    deadlines.sort_by_key(|deadline| deadline.0);
    let mut deadlines = deadlines.into_iter().peekable();
    while control.aicpus_left.load(Ordering::SeqCst) > 0 {
        let past = exec.nanos() - begun;
        if let Some((_, status)) = deadlines.next_if(|deadline| deadline.0 <= past) {
            control.fail(status);
            shared.kill(exec);
            continue;
        }
        let left = deadlines.peek().map(|deadline| Duration::from_nanos(deadline.0 - past));
        exec.park(ActorId::Watchdog, left);
    }
    shared.stop_cores(exec);
}
