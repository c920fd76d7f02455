//! One `run.json` of several sessions.
//!
//! A runtime may give each feature a session of its own, all of one launch and one output directory. Each writes its
//! report when it is done; what is in the file at the end speaks for all of them, as if one session had done it.

use super::{FILE_NAME, Half, RunReport};
use crate::artifact::ArtifactError;
use std::io;
use std::path::Path;

impl RunReport {
    /// The report in output directory `dir`; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read or is not a report.
    pub fn read_from_dir(dir: &Path) -> Result<Option<RunReport>, ArtifactError> {
        let path = dir.join(FILE_NAME);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| ArtifactError::unreadable(&path, error))?,
        };
        let report = serde_json::from_slice(&text).map_err(io::Error::from);
        report.map(Some).map_err(|error| ArtifactError::unreadable(&path, error))
    }

    /// Adds what `earlier`, the report of an earlier session of the same run, says. Both are concluded, and so is the
    /// result: it is complete if both are. Where both speak of one lane or one artifact, this report is the newer.
    pub fn merge(&mut self, earlier: RunReport) {
        let ours = std::mem::replace(self, earlier);
        self.tool = ours.tool;
        self.complete &= ours.complete;
        self.killed |= ours.killed;
        self.wall_ns = self.wall_ns.max(ours.wall_ns);
        self.op_wall_ns = self.op_wall_ns.max(ours.op_wall_ns);
        if ours.peer.device == Half::Reference {
            self.peer.device = Half::Reference;
        }
        extend(&mut self.passes, ours.passes, |a, b| a == b);
        extend(&mut self.reasons, ours.reasons, |a, b| a == b);
        extend(&mut self.streams, ours.streams, |a, b| {
            (a.feature, a.kind, a.lane) == (b.feature, b.kind, b.lane)
        });
        extend(&mut self.artifacts, ours.artifacts, |a, b| a.path == b.path);
        let (levels, more) = (&mut self.levels, ours.levels);
        levels.chip_swimlane = levels.chip_swimlane.max(more.chip_swimlane);
        levels.dump_args = levels.dump_args.max(more.dump_args);
        levels.pmu = levels.pmu.max(more.pmu);
        levels.dep_gen |= more.dep_gen;
        levels.scope_stats |= more.scope_stats;
        self.dump = ours.dump.or(self.dump);
        for (name, count) in ours.anomalies {
            *self.anomalies.entry(name).or_default() += count;
        }
    }
}

/// Puts each of `more` into `list`, in the place of the one that is the `same`.
fn extend<T>(list: &mut Vec<T>, more: Vec<T>, same: impl Fn(&T, &T) -> bool) {
    for new in more {
        match list.iter_mut().find(|old| same(old, &new)) {
            Some(old) => *old = new,
            None => list.push(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::super::{
        ArtifactEntry, DumpReport, Feature, Half, Levels, RunReport, StreamKind, StreamReport,
    };

    /// A session of its own for PMU, whose counters of one core were another task's.
    fn pmu() -> RunReport {
        let mut pmu = report();
        pmu.levels = Levels { pmu: 2, ..Levels::default() };
        pmu.streams = vec![StreamReport {
            produced: Some(4),
            collected: 3,
            mismatched: 1,
            ..StreamReport::new(Feature::Pmu, StreamKind::PmuRow, 3)
        }];
        pmu.artifacts = vec![ArtifactEntry { path: "pmu.csv".into(), bytes: 9, sha256: "11".into() }];
        pmu.dump = Some(DumpReport { truncated: 0, payload_bytes_produced: 5, ..DumpReport::default() });
        pmu.anomalies.insert("transport_retries".into(), 2);
        pmu.conclude(Vec::new());
        pmu
    }

    #[test]
    fn the_report_of_two_sessions_has_what_both_say_and_is_complete_only_if_both_are() {
        let mut swimlane = report();
        swimlane.anomalies.insert("transport_retries".into(), 1);
        swimlane.peer.device = Half::Reference;
        swimlane.conclude(Vec::new());
        assert!(swimlane.complete);
        let whole = swimlane.clone();

        let mut both = pmu();
        both.merge(swimlane);
        assert!(!both.complete);
        assert_eq!(both.reasons, pmu().reasons);
        assert_eq!(both.levels, Levels { chip_swimlane: 4, pmu: 2, ..Levels::default() });
        assert_eq!(both.streams.len(), 2);
        assert_eq!(both.artifacts, pmu().artifacts, "the newer of two accounts of a file");
        assert_eq!((both.dump, both.passes.len()), (pmu().dump, 1));
        assert_eq!(both.anomalies["transport_retries"], 3);
        assert_eq!(both.peer.device, Half::Reference);

        // The other way round nothing is forgotten either.
        let mut other = whole.clone();
        other.merge(pmu());
        assert_eq!((other.complete, &other.reasons, other.streams.len()), (false, &both.reasons, 2));
        // And two whole ones are whole.
        let mut again = whole.clone();
        again.merge(whole.clone());
        assert_eq!((again.complete, again.streams, again.reasons), (true, whole.streams, Vec::new()));
    }

    #[test]
    fn a_report_is_read_back_and_what_is_none_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(RunReport::read_from_dir(dir.path()).unwrap(), None);
        report().write_to_dir(dir.path()).unwrap();
        assert_eq!(RunReport::read_from_dir(dir.path()).unwrap(), Some(report()));
        std::fs::write(dir.path().join("run.json"), "{").unwrap();
        let error = RunReport::read_from_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains("run.json"), "{error}");
    }
}
