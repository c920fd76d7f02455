//! `scope_stats/scope_stats.jsonl`: a header line, then one line per end of a scope. Every line is valid JSON, whatever
//! the site's bytes are.

use crate::artifact::{ArtifactError, ArtifactFile, ArtifactInfo};
use dfx_collector::abi::scope_stats::{RINGS, Record};
use std::io::{self, Write};
use std::path::Path;

/// The artifact's name in the output directory.
pub const FILE_NAME: &str = "scope_stats/scope_stats.jsonl";

/// What the header line says besides the counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capacities {
    /// Whether the runtime met a fatal error.
    pub fatal: bool,
    /// Tasks that a ring's window holds.
    pub task_window: [i32; RINGS],
    /// A ring's heap in bytes.
    pub heap: [u64; RINGS],
    /// Entries of a ring's dependency pool.
    pub dep_pool: [i32; RINGS],
    /// Entries of the tensor map.
    pub tensormap: i32,
}

/// Writes the file, complete or not at all; also when there is no sample. `room` bounds its bytes, for fault plans.
///
/// # Errors
/// When the file cannot be written.
pub fn write_to_dir<'a>(
    dir: &Path,
    capacities: &Capacities,
    dropped: u64,
    total: u64,
    records: impl Iterator<Item = &'a Record>,
    room: Option<u64>,
) -> Result<ArtifactInfo, ArtifactError> {
    let mut file = ArtifactFile::create(dir.join(FILE_NAME))?;
    if let Some(bytes) = room {
        file.inject_full_after(bytes);
    }
    match write(&mut file, capacities, dropped, total, records) {
        Ok(()) => file.commit(),
        Err(error) => Err(ArtifactError::from_io(file.path(), error)),
    }
}

/// `[1, 2, 3, 4]`
fn list<T: ToString>(values: &[T]) -> String {
    let texts: Vec<String> = values.iter().map(T::to_string).collect();
    format!("[{}]", texts.join(", "))
}

/// Writes the text to `out`.
///
/// # Errors
/// When `out` fails.
pub fn write<'a>(
    out: &mut impl Write,
    capacities: &Capacities,
    dropped: u64,
    total: u64,
    records: impl Iterator<Item = &'a Record>,
) -> io::Result<()> {
    writeln!(
        out,
        "{{\"version\": 6, \"fatal\": {}, \"dropped\": {dropped}, \"total\": {total}, \"task_window_max\": {}, \
         \"heap_max\": {}, \"dep_pool_max\": {}, \"tensormap_max\": {}}}",
        capacities.fatal,
        list(&capacities.task_window),
        list(&capacities.heap),
        list(&capacities.dep_pool),
        capacities.tensormap
    )?;
    for record in records {
        let name = &record.site_file_basename;
        let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())];
        // Bytes that are no UTF-8 become replacement characters; quotes, backslashes and controls are escaped.
        let site = format!("{}:{}", String::from_utf8_lossy(name), record.site_line);
        let site = serde_json::to_string(&site).map_err(io::Error::from)?;
        writeln!(
            out,
            "{{\"site\": {site}, \"phase\": \"{}\", \"depth\": {}, \"ring\": {}, \"task_window_start\": {}, \
             \"task_window_end\": {}, \"heap_start\": {}, \"heap_end\": {}, \"dep_pool_start\": {}, \"dep_pool_end\": {}, \
             \"tensormap\": {}}}",
            if record.phase == 0 { "begin" } else { "end" },
            record.depth,
            record.ring_id,
            record.task_start,
            record.task_end,
            record.heap_start,
            record.heap_end,
            record.dep_pool_start,
            record.dep_pool_end,
            record.tensormap_used
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(site: &[u8]) -> Record {
        let mut record = Record { heap_start: 10, heap_end: 1029, site_line: 12, ..Record::default() };
        record.site_file_basename[..site.len()].copy_from_slice(site);
        (record.task_end, record.dep_pool_end, record.tensormap_used) = (1, 1, 3);
        record
    }

    #[test]
    fn the_example_of_the_format_page_comes_out_as_it_stands_there() {
        let capacities = Capacities {
            fatal: false,
            task_window: [16, 32, 64, 128],
            heap: [1024, 0, 0, 0],
            dep_pool: [8, 9, 10, 11],
            tensormap: 99,
        };
        let mut text = Vec::new();
        write(&mut text, &capacities, 0, 2, [record(b"foo.cpp")].iter()).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "{\"version\": 6, \"fatal\": false, \"dropped\": 0, \"total\": 2, \"task_window_max\": [16, 32, 64, 128], \
             \"heap_max\": [1024, 0, 0, 0], \"dep_pool_max\": [8, 9, 10, 11], \"tensormap_max\": 99}\n\
             {\"site\": \"foo.cpp:12\", \"phase\": \"begin\", \"depth\": 0, \"ring\": 0, \"task_window_start\": 0, \
             \"task_window_end\": 1, \"heap_start\": 10, \"heap_end\": 1029, \"dep_pool_start\": 0, \"dep_pool_end\": 1, \
             \"tensormap\": 3}\n"
        );
    }

    #[test]
    fn every_line_parses_whatever_the_site_holds() {
        let sites: [&[u8]; 5] = [b"a\"b\\c.cpp", b"new\nline.cpp", b"\xff\xfe.cpp", b"", &[b'x'; 32]];
        let records: Vec<Record> = sites.iter().map(|site| record(site)).collect();
        let mut text = Vec::new();
        write(&mut text, &Capacities::default(), 0, 5, records.iter()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), 6);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        }
    }
}
