//! The directory that a run writes into: made, checked, and cleared of what an earlier run left.

use super::{create_temp, is_temp_name, remedy};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What every run may write, relative to its output directory; [`prepare_output_dir`] removes exactly these.
pub const ARTIFACT_NAMES: [&str; 8] = [
    "chip_swimlane_records.json",
    "run.json",
    "deps.json",
    "args_dump/args_dump.json",
    "args_dump/args.bin",
    "pmu.csv",
    "scope_stats/scope_stats.jsonl",
    "merged_swimlane.json",
];

/// Subdirectories of [`ARTIFACT_NAMES`]; removed when the removal of stale artifacts left them empty.
const ARTIFACT_DIRS: [&str; 2] = ["args_dump", "scope_stats"];

/// An output directory that a run cannot use. Says which, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OutputDirError {
    /// No path was given.
    #[error("the output directory is empty: name one, for example --work-dir build_output/my_run")]
    Empty,
    /// Something that is not a directory has the name, or one of its parents has.
    #[error("the output directory {} cannot be made: {} is a file; move it away or name another directory", path.display(), blocker.display())]
    NotADirectory {
        /// The directory asked for.
        path: PathBuf,
        /// What is in the way.
        blocker: PathBuf,
    },
    /// It could not be made.
    #[error("cannot make the output directory {}: {source}; {}", path.display(), remedy_to_make(source))]
    Create {
        /// The directory asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is there, but no file can be made in it.
    #[error("the output directory {} is not writable: {source}; {}", path.display(), remedy(source))]
    NotWritable {
        /// The directory asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of an earlier run could not be removed and would pose as this run's.
    #[error("cannot remove {} of an earlier run: {source}; remove it by hand or name another directory", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes `path` (and its parents) ready for a run: a writable directory without artifacts of an earlier run.
///
/// Removed are the files of [`ARTIFACT_NAMES`], temporary files of artifacts that were never finished, and the artifact
/// subdirectories if that left them empty. Nothing else is touched. Returns what was removed.
pub fn prepare_output_dir(path: &Path) -> Result<Vec<PathBuf>, OutputDirError> {
    if path.as_os_str().is_empty() {
        return Err(OutputDirError::Empty);
    }
    if let Some(blocker) = path.ancestors().find(|p| p.exists()).filter(|p| !p.is_dir()) {
        return Err(OutputDirError::NotADirectory { path: path.into(), blocker: blocker.into() });
    }
    fs::create_dir_all(path).map_err(|source| OutputDirError::Create { path: path.into(), source })?;
    let probe = create_temp(path, "probe");
    let probe = probe.map_err(|source| OutputDirError::NotWritable { path: path.into(), source })?;
    drop(probe.1);
    let stale = |path: PathBuf| move |source| OutputDirError::Stale { path, source };
    fs::remove_file(&probe.0).map_err(stale(probe.0))?;

    let mut removed = Vec::new();
    for file in ARTIFACT_NAMES.iter().map(|name| path.join(name)).chain(unfinished(path)) {
        match fs::remove_file(&file) {
            Ok(()) => removed.push(file),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(stale(file)(error)),
        }
    }
    for dir in ARTIFACT_DIRS.map(|dir| path.join(dir)) {
        if removed.iter().any(|file| file.starts_with(&dir)) {
            // Fails if something else is in it: that stays.
            let _ = fs::remove_dir(&dir);
        }
    }
    Ok(removed)
}

/// Temporary files of artifacts in output directory `path` that were never finished.
#[must_use]
pub fn unfinished(path: &Path) -> Vec<PathBuf> {
    let dirs = std::iter::once(path.to_path_buf()).chain(ARTIFACT_DIRS.map(|dir| path.join(dir)));
    let mut found: Vec<PathBuf> = dirs
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten())
        .filter(|entry| is_temp_name(&entry.file_name().to_string_lossy()))
        .filter(|entry| entry.file_type().is_ok_and(|t| t.is_file()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// What a person can do about `cause` when it keeps a directory from being made.
fn remedy_to_make(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::NotFound => "nothing can be made there: choose another output directory",
        _ => remedy(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::tests::{dir, names};
    use std::fs::File;

    #[test]
    fn an_output_directory_is_made_nested_and_cleared_of_stale_artifacts_only() {
        let dir = dir();
        let out = dir.path().join("a b/ü/dfx_outputs");
        assert_eq!(prepare_output_dir(&out).unwrap(), [] as [PathBuf; 0]);
        for name in ARTIFACT_NAMES {
            fs::create_dir_all(out.join(name).parent().unwrap()).unwrap();
            fs::write(out.join(name), "stale").unwrap();
        }
        for name in [".run.json.tmp-77-1", "args_dump/.args.bin.tmp-77-2", "mine.txt", "scope_stats/mine"] {
            fs::write(out.join(name), "x").unwrap();
        }
        assert_eq!(unfinished(&out).len(), 2);
        assert_eq!(prepare_output_dir(&out).unwrap().len(), ARTIFACT_NAMES.len() + 2);
        assert_eq!(names(&out), ["mine.txt", "scope_stats"]);
        assert_eq!(names(&out.join("scope_stats")), ["mine"]);
    }

    #[test]
    fn an_output_directory_that_cannot_be_used_is_named_with_the_remedy() {
        let text = |path: &Path| prepare_output_dir(path).unwrap_err().to_string();
        assert!(text(Path::new("")).contains("is empty: name one"));
        let dir = dir();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(text(&file).contains("is a file; move it away"));
        assert!(text(&file.join("deeper/down")).contains("file is a file; move it away"));
        fs::create_dir(dir.path().join("run.json")).unwrap();
        assert!(text(dir.path()).contains("remove it by hand"));
    }

    #[cfg(unix)]
    #[test]
    fn a_read_only_output_directory_is_named_with_the_remedy() {
        use std::os::unix::fs::PermissionsExt;
        let dir = dir();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
        // Root may write anywhere: then there is nothing to see here.
        if File::create(dir.path().join("probe")).is_err() {
            let error = prepare_output_dir(dir.path()).unwrap_err().to_string();
            assert!(
                error.contains("is not writable") && error.contains("make the directory writable"),
                "{error}"
            );
        }
    }
}
