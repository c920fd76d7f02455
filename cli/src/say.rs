//! Printing that survives a reader who has left: `dfx check | head -1` ends as if everything had been read. These macros
//! stand in for the standard ones of the same name, which panic.

use std::io::{ErrorKind, Result, Write};

/// What becomes of a line that could not be printed. A closed pipe is the reader's choice; anything else (a full disk) is
/// an error, and said if that is still possible.
pub(crate) fn printed(stream: &str, outcome: Result<()>) {
    if let Err(error) = outcome
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = writeln!(
            std::io::stderr(),
            "error: cannot write to {stream}: {error}; give it room or another place"
        );
        std::process::exit(1);
    }
}

macro_rules! println {
    ($($text:tt)*) => {
        $crate::say::printed("stdout", std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*))))
    };
}

macro_rules! eprintln {
    ($($text:tt)*) => {
        $crate::say::printed("stderr", std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*))))
    };
}
