//! The artifacts of the other features, and the args dump's: it parses as `dfx dump` parses it, and its own counts agree.

use super::{Check, Severity};
use crate::digest::{self, Digested};
use crate::dump::Manifest;
use crate::records::Records;
use dfx_host_drain::report::{RunReport, StreamKind};
use serde::Deserialize;
use std::io::{self, BufRead, BufReader};

pub(super) type Reader = BufReader<Digested>;

impl Check<'_> {
    pub(super) fn others(&mut self) {
        self.artifact("deps.json", Self::deps);
        self.artifact("args_dump/args_dump.json", Self::args_dump);
        self.artifact("pmu.csv", Self::pmu);
        self.artifact("scope_stats/scope_stats.jsonl", Self::scope_stats);
    }

    /// What `run.json` and the core rows say of them.
    pub(super) fn others_of(&mut self, report: &RunReport, records: Option<&Records>) {
        self.pmu_of(report, records);
        for (name, count, kind) in [
            ("deps.json", "deps_tasks", StreamKind::Submit),
            ("args_dump/args_dump.json", "dump_args", StreamKind::Arg),
            ("scope_stats/scope_stats.jsonl", "scope_samples", StreamKind::ScopeSample),
        ] {
            let Some(&rows) = self.counts.get(count) else { continue };
            let collected = report.sum(kind, |stream| stream.collected);
            if rows != collected {
                let message = format!("has {rows} rows, run.json says {collected}");
                self.add(Severity::Error, "row-count", name, rows.abs_diff(collected), message);
            }
        }
    }

    /// Reads the artifact `name`, if it is there, with `read`, which tells what is wrong with the text.
    fn artifact(&mut self, name: &str, read: fn(&mut Self, &mut Reader) -> Result<(), String>) {
        let path = self.dir.join(name);
        if !path.exists() {
            return;
        }
        let result = digest::open(&path).and_then(|mut reader| {
            let invalid = read(self, &mut reader).err();
            Ok((invalid, digest::finish(reader)?))
        });
        match result {
            Err(error) => self.error("unreadable", name, format!("cannot be read: {error}")),
            Ok((invalid, identity)) => {
                self.identities.insert(name.into(), identity);
                if let Some(message) = invalid {
                    self.error("invalid", name, format!("is not valid: {message}"));
                }
            }
        }
    }

    fn args_dump(&mut self, reader: &mut Reader) -> Result<(), String> {
        const NAME: &str = "args_dump/args_dump.json";
        let manifest: Manifest = json(reader)?;
        let args = manifest.records.len() as u64;
        self.counts.insert("dump_args", args);
        let stages = manifest.before_dispatch.wrapping_add(manifest.after_completion);
        if manifest.total_args != args || stages != args {
            let message = format!(
                "lists {args} arguments, but counts {} in all and {stages} by stage",
                manifest.total_args
            );
            self.error("row-count", NAME, message);
        }
        let missing = [
            ("dropped", manifest.dropped_records, "arguments were dropped on the device"),
            ("overwritten", manifest.dropped_overwrite, "arguments lost their payload before it was read"),
            ("truncated", manifest.truncated_args, "arguments have their payload cut short"),
        ];
        for (code, count, what) in missing {
            self.add_if(count, Severity::Error, code, NAME, format!("{count} {what}"));
        }
        // The sum of the two fits: the manifest's reader has seen to it.
        let end =
            manifest.records.iter().map(|record| record.bin_offset + record.bin_size).max().unwrap_or(0);
        match &manifest.bin_file {
            None if end > 0 => self.error("missing", NAME, "names no payload file, but has payload".into()),
            None => {}
            Some(name) => {
                let bin = format!("args_dump/{name}");
                match std::fs::metadata(self.dir.join(&bin)) {
                    Err(error) => self.error("missing", &bin, format!("cannot be read: {error}")),
                    Ok(found) if found.len() < end => {
                        let message = format!("has {} bytes, the manifest names {end}", found.len());
                        self.error("size", &bin, message);
                    }
                    Ok(_) => {}
                }
            }
        }
        Ok(())
    }
}

/// One JSON value and nothing else.
pub(super) fn json<T: for<'de> Deserialize<'de>>(reader: &mut Reader) -> Result<T, String> {
    serde_json::from_reader(reader).map_err(|error| error.to_string())
}

/// Calls `check` with each line and its number from 1; an error names the line.
pub(super) fn lines(
    reader: &mut Reader,
    mut check: impl FnMut(u64, &str) -> Result<(), String>,
) -> Result<(), String> {
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        let n = reader.read_line(&mut line).map_err(|error: io::Error| format!("line {number}: {error}"))?;
        if n == 0 {
            break;
        }
        let Some(text) = line.strip_suffix('\n') else {
            return Err(format!("line {number} is cut short: it has no end"));
        };
        check(number, text).map_err(|message| format!("line {number}: {message}"))?;
    }
    Ok(())
}
