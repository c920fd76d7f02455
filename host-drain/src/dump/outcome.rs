//! After the run: the rest is written, references are resolved, the account is closed, the two files get their names.

use super::records::{Store, mark};
use super::{BIN_NAME, Dump, Sink, manifest};
use crate::artifact::{ArtifactError, ArtifactFile, ArtifactInfo, DirectFile};
use crate::features::args_dump::Counted;
use crate::report::{DumpReport, Feature, Reason};
use dfx_collector::abi::args_dump::Level;
use std::path::Path;

/// How a dump ended.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// For `run.json`.
    pub report: DumpReport,
    /// What is missing that no lane's account and no count of the report shows.
    pub reasons: Vec<Reason>,
}

impl Dump {
    /// Writes everything that is left, whatever the budget, and resolves the references. The device is at rest.
    pub(crate) fn finish(&mut self) {
        (0..self.threads.len()).for_each(|thread| self.release(thread));
        while !self.is_done() {
            self.step(false);
        }
        if let Sink::Open(file) = &mut self.sink
            && let Err(error) = file.cut(self.filled)
        {
            self.fail(error);
        }
        for store in &mut self.stores {
            let (dangling, bytes) = store.resolve();
            self.dangling += dangling;
            self.lost += bytes;
        }
    }

    /// The account, against what the device counted per thread (`None`: it could not be read). After an `abnormal` end the
    /// device's counts are lower bounds.
    pub(crate) fn outcome(&self, counted: &[Option<Counted>], abnormal: bool) -> Outcome {
        let records =
            |what: u8| self.stores.iter().flat_map(Store::iter).filter(|held| held.is(what)).count() as u64;
        let mut report = DumpReport {
            payload_bytes_written: self.written(),
            drain_rate_bytes_per_s: self.meter.overall(),
            budget_bytes_per_s: self.ceiling,
            truncated: records(mark::TRUNCATED),
            overwritten: records(mark::OVERWRITTEN),
            ..DumpReport::default()
        };
        let mut missing = 0;
        let mut at_odds = 0;
        for (thread, counted) in self.threads.iter().zip(counted) {
            let counted = counted.unwrap_or_default();
            report.payload_bytes_shed += counted.shed;
            report.payload_bytes_deduplicated += thread.referred;
            let payload = counted.payload.max(thread.carried);
            report.payload_bytes_produced += payload + counted.shed + thread.referred;
            missing += payload - thread.carried;
            // The shed bytes are the device's word alone: records that were shed without it are not overlooked.
            at_odds += u64::from(!abnormal && u64::from(counted.shed_records) < thread.shed);
        }
        // A file that could not be written has nothing of what it once had.
        let carried = self.threads.iter().map(|thread| thread.carried).sum::<u64>();
        let lost = if matches!(self.sink, Sink::Failed(_)) { carried } else { self.lost } + missing;
        let mut outcome = Outcome { report, reasons: Vec::new() };
        outcome.note(
            "shed_uncounted",
            at_odds,
            "threads have more shed payloads than the device counted: this is a defect of the collection, please report it \
             with this file",
        );
        outcome.note(
            "payload_lost",
            lost,
            "payload bytes did not reach the file, because a copy failed, a buffer was lost, a record could not be \
             believed, or the file could not be written; their records show as truncated. Look at the other reasons and the \
             log (-v), then run again",
        );
        outcome.note(
            "references_dangling",
            self.dangling,
            "arguments name the payload of an earlier one that was lost; their records show as truncated. Look at the other \
             reasons, or run again with --no-dump-dedup",
        );
        outcome
    }

    /// Writes `args_dump/args_dump.json` and gives both files their names; neither, if there is no record. `dropped`: what
    /// the device had no room for or was lost; `room`: bytes of the manifest that fit on the disk, for fault plans.
    ///
    /// # Errors
    /// When one of them could not be written: then neither is there.
    pub(crate) fn export(
        &mut self,
        dir: &Path,
        dropped: u64,
        room: Option<u64>,
    ) -> Result<Vec<ArtifactInfo>, ArtifactError> {
        if self.stores.iter().all(|store| store.len() == 0) {
            return Ok(Vec::new());
        }
        let bin = match std::mem::replace(&mut self.sink, Sink::Closed) {
            Sink::Failed(error) => return Err(error),
            Sink::Open(file) => Some(file),
            Sink::Closed if self.level == Level::Hybrid => None,
            Sink::Closed => Some(DirectFile::create(dir.join(BIN_NAME), self.room)?),
        };
        let mut text = ArtifactFile::create(dir.join(manifest::FILE_NAME))?;
        if let Some(bytes) = room {
            text.inject_full_after(bytes);
        }
        let head = manifest::Head { level: self.level, dropped, bin: bin.is_some() };
        manifest::write(&mut text, head, &self.stores)
            .map_err(|error| ArtifactError::from_io(&dir.join(manifest::FILE_NAME), error))?;
        // The payload first: a manifest vouches for it.
        let bin = bin.map(DirectFile::commit).transpose()?;
        let manifest = text.commit().inspect_err(|_| {
            if let Some(bin) = &bin {
                let _ = std::fs::remove_file(&bin.path);
            }
        })?;
        Ok(std::iter::once(manifest).chain(bin).collect())
    }
}

impl Outcome {
    fn note(&mut self, code: &str, count: u64, what: &str) {
        if count > 0 {
            self.reasons.push(Reason {
                code: code.into(),
                feature: Some(Feature::DumpArgs),
                lane: None,
                count,
                message: format!("{count} {what}"),
            });
        }
    }
}
