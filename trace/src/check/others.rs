//! The artifacts of the other features: each parses, and its own counts agree.

use super::{Check, Severity};
use crate::digest::{self, Digested};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};

type Reader = BufReader<Digested>;

impl Check<'_> {
    pub(super) fn others(&mut self) {
        self.artifact("deps.json", Self::deps);
        self.artifact("args_dump/args_dump.json", Self::args_dump);
        self.artifact("pmu.csv", Self::pmu);
        self.artifact("scope_stats/scope_stats.jsonl", Self::scope_stats);
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

    fn deps(&mut self, reader: &mut Reader) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Deps {
            tasks: Vec<Task>,
            #[serde(rename = "tensors")]
            _tensors: Vec<IgnoredAny>,
            edges: Vec<Edge>,
        }
        #[derive(Deserialize)]
        struct Task {
            task_id: Id,
        }
        #[derive(Deserialize)]
        struct Edge {
            #[serde(rename = "pred")]
            _pred: Id,
            succ: Id,
        }
        /// A 64-bit id as a decimal string.
        #[derive(Deserialize)]
        #[serde(try_from = "String")]
        struct Id(u64);
        impl TryFrom<String> for Id {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse().map(Id).map_err(|_| format!("{text:?} is no id, expected 64 bits in decimal"))
            }
        }

        let deps: Deps = json(reader)?;
        self.counts.insert("deps_tasks", deps.tasks.len() as u64);
        self.counts.insert("deps_edges", deps.edges.len() as u64);
        let mut tasks: Vec<u64> = deps.tasks.iter().map(|task| task.task_id.0).collect();
        tasks.sort_unstable();
        let twice = tasks.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        self.add_if(
            twice,
            Severity::Error,
            "duplicate-task",
            "deps.json",
            format!("has {twice} tasks twice"),
        );
        let lost = deps.edges.iter().filter(|edge| tasks.binary_search(&edge.succ.0).is_err()).count() as u64;
        let message = format!("has {lost} edges to tasks that it does not have");
        self.add_if(lost, Severity::Error, "unknown-successor", "deps.json", message);
        self.deps_tasks = Some(tasks);
        Ok(())
    }

    fn args_dump(&mut self, reader: &mut Reader) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Manifest {
            total_args: u64,
            before_dispatch: u64,
            after_completion: u64,
            truncated_args: u64,
            dropped_records: u64,
            dropped_overwrite: u64,
            bin_file: Option<String>,
            args: Vec<Arg>,
        }
        #[derive(Deserialize)]
        struct Arg {
            bin_offset: u64,
            bin_size: u64,
        }

        const NAME: &str = "args_dump/args_dump.json";
        let manifest: Manifest = json(reader)?;
        let args = manifest.args.len() as u64;
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
        let end =
            manifest.args.iter().map(|arg| arg.bin_offset.saturating_add(arg.bin_size)).max().unwrap_or(0);
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

    fn pmu(&mut self, reader: &mut Reader) -> Result<(), String> {
        const HEAD: &str = "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles,";
        let mut columns = 0;
        let mut rows = 0;
        lines(reader, |number, line| {
            let found = line.split(',').count();
            if number == 1 {
                columns = found;
                let known = line.starts_with(HEAD) && line.ends_with(",event_type");
                return if known {
                    Ok(())
                } else {
                    Err(format!("the header is {line:?}, expected {HEAD}…,event_type"))
                };
            }
            rows += 1;
            if found != columns {
                return Err(format!("{found} columns, expected {columns}"));
            }
            let number = |field: &str| match field.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).is_ok(),
                None => field.parse::<u64>().is_ok(),
            };
            line.split(',')
                .find(|field| !number(field))
                .map_or(Ok(()), |f| Err(format!("{f:?}, expected a number")))
        })?;
        self.counts.insert("pmu_rows", rows);
        if columns == 0 { Err("the file is empty, expected a header".into()) } else { Ok(()) }
    }

    fn scope_stats(&mut self, reader: &mut Reader) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Header {
            fatal: bool,
            dropped: u64,
            total: u64,
        }

        const NAME: &str = "scope_stats/scope_stats.jsonl";
        let mut header = None;
        let mut samples = 0;
        lines(reader, |number, line| {
            if number == 1 {
                header = Some(serde_json::from_str::<Header>(line).map_err(|error| error.to_string())?);
                return Ok(());
            }
            samples += 1;
            let object: Result<BTreeMap<String, IgnoredAny>, _> = serde_json::from_str(line);
            object.map(|_| ()).map_err(|error| error.to_string())
        })?;
        self.counts.insert("scope_samples", samples);
        let Some(Header { fatal, dropped, total }) = header else {
            return Err("the file is empty, expected a header".into());
        };
        if total != samples {
            self.error("row-count", NAME, format!("has {samples} samples, its header says {total}"));
        }
        self.add_if(dropped, Severity::Error, "dropped", NAME, format!("{dropped} samples were dropped"));
        let message = "the runtime reported a fatal error while it recorded".to_owned();
        self.add_if(fatal.into(), Severity::Warning, "fatal", NAME, message);
        Ok(())
    }
}

/// One JSON value and nothing else.
fn json<T: for<'de> Deserialize<'de>>(reader: &mut Reader) -> Result<T, String> {
    serde_json::from_reader(reader).map_err(|error| error.to_string())
}

/// Calls `check` with each line and its number from 1; an error names the line.
fn lines(reader: &mut Reader, mut check: impl FnMut(u64, &str) -> Result<(), String>) -> Result<(), String> {
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
