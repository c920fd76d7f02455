//! Running the binary in a directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// What the binary said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    /// Exit status; `None` after a signal.
    pub(crate) status: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A directory to run in, which goes away in the end.
pub(crate) struct Place(TempDir);

impl Place {
    /// An empty one.
    pub(crate) fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path in it.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file in it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, text).expect("it can be written");
        path
    }

    /// `dfx`, to be run in it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dfx"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command.env_remove("DFX_LOG").env_remove("RUST_BACKTRACE");
        command
    }

    /// Runs `dfx` in it.
    pub(crate) fn dfx(&self, args: &[&str]) -> Said {
        self.command(args).output().expect("the binary starts").into()
    }

    /// Everything in it, as sorted paths relative to it.
    pub(crate) fn contents(&self) -> Vec<String> {
        let mut found = Vec::new();
        list(self.path(), self.path(), &mut found);
        found.sort();
        found
    }
}

fn list(root: &Path, dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        found.push(path.strip_prefix(root).expect("below it").to_string_lossy().into_owned());
        if path.is_dir() {
            list(root, &path, found);
        }
    }
}
