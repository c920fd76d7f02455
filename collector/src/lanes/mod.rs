//! What dep_gen, the PMU and the scope stats have in common: lanes whose state has its free queue in front, ready
//! entries that carry an index only, and records that AICPU writes itself.
//!
//! [`BufferLane`] is one stream of records over ABI memory; [`Ports`] is what its cold paths need: the ready queues of
//! all threads, the launch's stall budget, the clock. Where things lie comes from [`crate::abi::layout`], so that the
//! hot path, which only follows cached pointers, is the same for both platforms.

mod buffer_lane;
mod mem;
mod ports;

pub(crate) use buffer_lane::BufferLane;
pub(crate) use mem::{RegionQueue, StateMem, word};
pub(crate) use ports::{NO_THREAD, Ports};

use core::fmt;

/// Why a region cannot be recorded into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitError {
    /// No region was named.
    NoRegion {
        /// Whose.
        feature: &'static str,
    },
    /// More cores than the region or the platform has.
    Cores {
        /// Whose region.
        feature: &'static str,
        /// Asked for.
        wanted: u32,
        /// Possible.
        limit: u32,
    },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::NoRegion { feature } => {
                write!(f, "{feature}: no region base was set; nothing is recorded")
            }
            InitError::Cores { feature, wanted, limit } => {
                write!(f, "{feature}: {wanted} cores asked for, the region has {limit}; nothing is recorded")
            }
        }
    }
}

impl core::error::Error for InitError {}
