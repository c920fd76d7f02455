//! Which output directory is meant when none is named.

use dfx_host_drain::artifact::ARTIFACT_NAMES;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The newest output directory below `base` (the working directory, as a rule): `dfx_outputs`,
/// `build_output/*/dfx_outputs` or `outputs/*`, whichever holds the artifact that was written last.
#[must_use]
pub fn newest_output_dir(base: &Path) -> Option<PathBuf> {
    let mut candidates = vec![base.join("dfx_outputs")];
    candidates.extend(entries(&base.join("build_output")).map(|run| run.join("dfx_outputs")));
    for case in entries(&base.join("outputs")) {
        candidates.push(case.join("dfx_outputs"));
        candidates.push(case);
    }
    let dated = candidates.into_iter().filter_map(|dir| Some((newest_artifact(&dir)?, dir)));
    // Equal times: the greater name, so that the answer does not hang on the order of a listing.
    dated.max().map(|(_, dir)| dir)
}

/// The output directory that `dir` means: itself if it holds artifacts, else its `dfx_outputs` if there is one.
pub(crate) fn output_dir(dir: &Path) -> Option<PathBuf> {
    if newest_artifact(dir).is_some() || dir.file_name().is_some_and(|name| name == "dfx_outputs") {
        return Some(dir.to_path_buf());
    }
    Some(dir.join("dfx_outputs")).filter(|inner| inner.is_dir())
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_dir())
}

/// When the artifact in `dir` that was written last was written.
fn newest_artifact(dir: &Path) -> Option<SystemTime> {
    ARTIFACT_NAMES.iter().filter_map(|name| fs::metadata(dir.join(name)).ok()?.modified().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn run(dir: &Path, seconds: u64) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("run.json"), "{}").unwrap();
        let file = fs::File::options().write(true).open(dir.join("run.json")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn the_newest_of_the_three_places_is_found() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        assert_eq!(newest_output_dir(base), None);
        fs::create_dir_all(base.join("dfx_outputs")).unwrap();
        assert_eq!(newest_output_dir(base), None, "an empty directory is no output");
        run(&base.join("outputs/case_1"), 10);
        assert_eq!(newest_output_dir(base), Some(base.join("outputs/case_1")));
        run(&base.join("build_output/a/dfx_outputs"), 30);
        run(&base.join("build_output/b/dfx_outputs"), 20);
        assert_eq!(newest_output_dir(base), Some(base.join("build_output/a/dfx_outputs")));
        run(&base.join("dfx_outputs"), 40);
        assert_eq!(newest_output_dir(base), Some(base.join("dfx_outputs")));
    }

    #[test]
    fn a_directory_means_itself_or_its_dfx_outputs() {
        let base = tempfile::tempdir().unwrap();
        assert_eq!(output_dir(base.path()), None);
        let inner = base.path().join("dfx_outputs");
        fs::create_dir(&inner).unwrap();
        assert_eq!(output_dir(base.path()), Some(inner.clone()));
        assert_eq!(output_dir(&inner), Some(inner.clone()));
        run(base.path(), 1);
        assert_eq!(output_dir(base.path()), Some(base.path().to_path_buf()));
    }
}
