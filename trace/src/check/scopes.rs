//! `scope_stats.jsonl`: every line parses, scopes close in the order in which they were opened, and nobody holds more
//! than there is.

use super::others::{Reader, lines};
use super::{Check, Severity};
use serde::Deserialize;

const NAME: &str = "scope_stats/scope_stats.jsonl";
/// The version of the lines' keys.
const VERSION: u32 = 6;
const RINGS: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
    fatal: bool,
    dropped: u64,
    total: u64,
    task_window_max: [i64; RINGS],
    heap_max: [u64; RINGS],
    dep_pool_max: [i64; RINGS],
    tensormap_max: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    site: String,
    phase: Phase,
    depth: u32,
    ring: i64,
    task_window_start: i64,
    task_window_end: i64,
    heap_start: u64,
    heap_end: u64,
    dep_pool_start: i64,
    dep_pool_end: i64,
    tensormap: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    Begin,
    End,
}

/// Scopes that are open.
#[derive(Default)]
struct Nesting {
    open: Vec<(String, i64)>,
    /// Ends that are not of the innermost scope, begins at another depth.
    odd: u64,
    /// The first of them, by line.
    example: u64,
    /// Samples in which a ring holds less than nothing or more than it has.
    beyond: u64,
}

impl Nesting {
    fn take(&mut self, number: u64, sample: Sample, header: &Header) {
        let depth = sample.depth as usize;
        let fits = match sample.phase {
            Phase::Begin => {
                let fits = depth == self.open.len();
                self.open.truncate(depth);
                self.open.push((sample.site.clone(), sample.ring));
                fits
            }
            Phase::End => {
                let fits = self.open.len() == depth + 1
                    && self
                        .open
                        .last()
                        .is_some_and(|(site, ring)| (site, *ring) == (&sample.site, sample.ring));
                self.open.truncate(depth);
                fits
            }
        };
        if !fits {
            self.odd += 1;
            self.example = if self.odd == 1 { number } else { self.example };
        }
        self.beyond += u64::from(!held(&sample, header));
    }
}

/// Whether what the ring holds is no less than nothing and no more than its capacity; 0 is none told.
fn held(sample: &Sample, header: &Header) -> bool {
    let within = |start: i64, end: i64, most: i64| start <= end && (most <= 0 || end - start <= most);
    let Some(ring) = usize::try_from(sample.ring).ok().filter(|ring| *ring < RINGS) else { return false };
    let heap = sample.heap_end.checked_sub(sample.heap_start);
    within(sample.task_window_start, sample.task_window_end, header.task_window_max[ring])
        && within(sample.dep_pool_start, sample.dep_pool_end, header.dep_pool_max[ring])
        && within(0, sample.tensormap, header.tensormap_max)
        && heap.is_some_and(|heap| header.heap_max[ring] == 0 || heap <= header.heap_max[ring])
}

impl Check<'_> {
    pub(super) fn scope_stats(&mut self, reader: &mut Reader) -> Result<(), String> {
        let mut header = None;
        let mut samples = 0;
        let mut nesting = Nesting::default();
        lines(reader, |number, line| {
            let Some(header) = &header else {
                header = Some(serde_json::from_str::<Header>(line).map_err(|error| error.to_string())?);
                return Ok(());
            };
            samples += 1;
            let sample = serde_json::from_str(line).map_err(|error| error.to_string())?;
            nesting.take(number, sample, header);
            Ok(())
        })?;
        self.counts.insert("scope_samples", samples);
        let Some(Header { version, fatal, dropped, total, .. }) = header else {
            return Err("the file is empty, expected a header".into());
        };
        if version != VERSION {
            self.error("version", NAME, format!("is of version {version}, this reader knows {VERSION}"));
        }
        if total != samples + dropped {
            let message = format!("has {samples} samples, its header says {total} and {dropped} dropped");
            self.error("row-count", NAME, message);
        }
        self.add_if(dropped, Severity::Error, "dropped", NAME, format!("{dropped} samples were dropped"));
        let message = "the runtime reported a fatal error while it recorded".to_owned();
        self.add_if(fatal.into(), Severity::Warning, "fatal", NAME, message);
        if dropped == 0 {
            let message = format!(
                "has {} samples that do not open or close the innermost scope, the first in line {}",
                nesting.odd, nesting.example
            );
            self.add_if(nesting.odd, Severity::Error, "nesting", NAME, message);
            let open = nesting.open.len() as u64;
            let message = format!("has {open} scopes that were never closed: the run ended inside them");
            self.add_if(open, Severity::Warning, "open-scope", NAME, message);
        }
        let message = format!(
            "has {} samples in which a ring holds less than nothing, or more than it has",
            nesting.beyond
        );
        self.add_if(nesting.beyond, Severity::Error, "capacity", NAME, message);
        Ok(())
    }
}
