//! Named points where a test or a fault plan can stall, panic, or take away the disk.
//!
//! Without the feature `testpoints` a point compiles to nothing. With it, a session asks the plan that it was given, if
//! any; there is no global state, so that two sessions of one process have their own faults.

use std::fmt;
#[cfg(feature = "testpoints")]
use std::sync::Arc;

/// What can be made to go wrong in the host half.
pub trait TestPoints: Send + Sync {
    /// The session is at `point`: before each step of its workers (`service.step`, `collect.step`, `write.step`).
    fn hit(&self, point: &'static str) {
        let _ = point;
    }

    /// How many bytes fit into `file` before the disk is full; `None`: it never is.
    fn disk_room(&self, file: &str) -> Option<u64> {
        let _ = file;
        None
    }
}

/// A session's test points.
#[derive(Clone, Default)]
pub struct Points {
    #[cfg(feature = "testpoints")]
    plan: Option<Arc<dyn TestPoints>>,
}

impl fmt::Debug for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Points")
    }
}

impl Points {
    /// Points at which `plan` acts.
    #[cfg(feature = "testpoints")]
    pub fn new(plan: Arc<dyn TestPoints>) -> Self {
        Points { plan: Some(plan) }
    }

    /// Marks a point.
    #[inline(always)]
    pub(crate) fn hit(&self, point: &'static str) {
        #[cfg(feature = "testpoints")]
        if let Some(plan) = &self.plan {
            plan.hit(point);
        }
        let _ = point;
    }

    /// The room for `file`, if it is bounded.
    #[inline(always)]
    pub(crate) fn disk_room(&self, file: &str) -> Option<u64> {
        #[cfg(feature = "testpoints")]
        if let Some(plan) = &self.plan {
            return plan.disk_room(file);
        }
        let _ = file;
        None
    }
}
