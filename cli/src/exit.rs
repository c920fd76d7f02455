//! Exit statuses: 0 done and complete, 1 failed or bad input, 2 usage (clap's), 3 done but incomplete.

use crate::style;
use std::process::ExitCode;

/// What a command came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    /// Everything is there.
    Complete,
    /// The command did its work, and something is missing from what was collected.
    Incomplete,
}

/// The process's exit status; an error is said in one line.
pub(crate) fn status(done: anyhow::Result<Done>, verbose: u8) -> ExitCode {
    match done {
        Ok(Done::Complete) => ExitCode::SUCCESS,
        Ok(Done::Incomplete) => ExitCode::from(3),
        Err(error) => {
            let text = if verbose > 0 { format!("{error:?}") } else { error.to_string() };
            eprintln!("{} {text}", style::bad("error:"));
            ExitCode::from(1)
        }
    }
}
