//! Why a launch records no arguments.

use super::FEATURE;
use crate::abi::args_dump::MAGIC;
use core::fmt;

/// Why nothing can be recorded into a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitError {
    /// No region was named.
    NoRegion,
    /// There is no args dump's region at the address.
    Magic {
        /// What is there instead of [`MAGIC`].
        found: u32,
    },
    /// More threads than the region or the platform has, or none.
    Threads {
        /// Asked for.
        wanted: u32,
        /// Possible.
        limit: u32,
    },
    /// The host asks for a level that does not exist.
    Level {
        /// Its number.
        found: u32,
    },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FEATURE}: ")?;
        match self {
            InitError::NoRegion => write!(f, "no region base was set")?,
            InitError::Magic { found } => {
                write!(f, "the region begins with {found:#x}, not {MAGIC:#x}: it is another's")?
            }
            InitError::Threads { wanted, limit } => {
                write!(f, "{wanted} threads asked for, the region has {limit}")?
            }
            InitError::Level { found } => write!(f, "level {found} asked for, there are 0 to 3")?,
        }
        write!(f, "; nothing is recorded")
    }
}

impl core::error::Error for InitError {}
