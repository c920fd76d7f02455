//! Writers of the compatible artifacts, each in the exact text that its existing readers know.

pub mod host;
pub mod names;
pub mod pmu;
pub mod scope_stats;
pub mod swimlane;

mod text;

#[cfg(test)]
mod golden_tests;
