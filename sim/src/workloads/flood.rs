//! Independent submits back to back: nothing but the cost of submitting, dispatching and recording.

use crate::builder::{BuildError, ProgramBuilder};
use crate::program::Program;
use std::time::Duration;

pub(super) fn build(submits: u32) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new("flood");
    let nothing = p.kernel("flood", Duration::from_micros(2), |_| {});
    for _ in 0..submits {
        p.submit().aiv(nothing).done()?;
    }
    p.build()
}
