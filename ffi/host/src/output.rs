//! Output directories, and the `run.json` that the sessions of one run write together.

use crate::status::Failure;
use dfx_host_drain::artifact::prepare_output_dir;
use dfx_host_drain::report::RunReport;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The run that a directory was prepared for.
struct Prepared {
    run: Option<String>,
    /// Whether a session of that run has written its report.
    reported: bool,
}

/// By absolute path. Held while a report is written: the sessions of a run may end on several threads.
static DIRS: Mutex<BTreeMap<PathBuf, Prepared>> = Mutex::new(BTreeMap::new());

fn dirs() -> MutexGuard<'static, BTreeMap<PathBuf, Prepared>> {
    DIRS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.into())
}

/// Makes `dir` if it is missing, and takes away what an earlier run left; not what another session of `run` did.
pub(crate) fn prepare(dir: &Path, run: Option<&str>) -> Result<(), Failure> {
    // Told once the directories are let go: the log calls the caller back, which may prepare another.
    for stale in prepare_quietly(dir, run)? {
        tracing::debug!(path = %stale.display(), "removed what an earlier run left");
    }
    Ok(())
}

/// Returns what was taken away.
fn prepare_quietly(dir: &Path, run: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let mut dirs = dirs();
    let key = key(dir);
    let ours = |there: &Prepared| run.is_some() && there.run.as_deref() == run;
    if dirs.get(&key).is_some_and(ours) && dir.is_dir() {
        return Ok(Vec::new());
    }
    let stale = prepare_output_dir(dir)?;
    dirs.insert(key, Prepared { run: run.map(str::to_owned), reported: false });
    Ok(stale)
}

/// Writes `report` into `dir`, together with what earlier sessions of `run` said.
pub(crate) fn write(dir: &Path, run: Option<&str>, report: &RunReport) -> Result<(), Failure> {
    let mut dirs = dirs();
    let there = dirs.get_mut(&key(dir)).filter(|there| run.is_some() && there.run.as_deref() == run);
    let mut report = report.clone();
    match there {
        Some(there) => {
            if there.reported
                && let Some(earlier) = RunReport::read_from_dir(dir)?
            {
                report.merge(earlier);
            }
            report.write_to_dir(dir)?;
            there.reported = true;
        }
        None => drop(report.write_to_dir(dir)?),
    }
    Ok(())
}
