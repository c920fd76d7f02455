//! `pmu.csv`: one row per task, the same columns in header and rows for every event type.

use crate::artifact::{ArtifactError, ArtifactFile, ArtifactInfo};
use dfx_collector::abi::Platform;
use dfx_collector::abi::pmu::{COUNTERS_A5, EventType, RecordA2a3, RecordA5, counters};
use std::io::{self, Write};
use std::path::Path;

/// The artifact's name in the output directory.
pub const FILE_NAME: &str = "pmu.csv";

/// One task's counters, as the host holds them: 72 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PmuRow {
    /// The task.
    pub task_id: u64,
    /// Cycles in all.
    pub total_cycles: u64,
    /// The kernel.
    pub func_id: u32,
    /// The core.
    pub core: u16,
    /// The AICPU thread whose ready queue brought it.
    pub thread: u8,
    /// 0 AIC, 1 AIV.
    pub core_type: u8,
    /// The counters; those that the platform does not have are 0.
    pub counters: [u32; COUNTERS_A5],
}

impl PmuRow {
    /// The row of an a2a3 record.
    pub fn of_a2a3(record: &RecordA2a3, core: u32, thread: u32) -> Self {
        let mut row = PmuRow {
            task_id: record.task_id,
            total_cycles: record.pmu_total_cycles,
            func_id: record.func_id,
            core: core as u16,
            thread: thread as u8,
            core_type: record.core_type as u8,
            ..PmuRow::default()
        };
        row.counters[..record.pmu_counters.len()].copy_from_slice(&record.pmu_counters);
        row
    }

    /// The row of an a5 record.
    pub fn of_a5(record: &RecordA5, core: u32, thread: u32) -> Self {
        PmuRow {
            task_id: record.task_id,
            total_cycles: record.pmu_total_cycles,
            func_id: record.func_id,
            core: core as u16,
            thread: thread as u8,
            core_type: record.core_type as u8,
            counters: record.pmu_counters,
        }
    }
}

/// The counters' columns. A slot without a name counts nothing: it has none, in the header and in every row alike.
pub fn columns(platform: Platform, event: EventType) -> impl Iterator<Item = &'static str> {
    counters(platform, event).iter().map(|counter| counter.name).filter(|name| !name.is_empty())
}

/// Writes `rows` as `dir/pmu.csv`, complete or not at all; nothing when there are none. `room` bounds its bytes, for fault
/// plans.
///
/// # Errors
/// When the file cannot be written.
pub fn write_to_dir<'a>(
    dir: &Path,
    platform: Platform,
    event: EventType,
    rows: impl Iterator<Item = &'a PmuRow>,
    room: Option<u64>,
) -> Result<Option<ArtifactInfo>, ArtifactError> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(None);
    }
    let mut file = ArtifactFile::create(dir.join(FILE_NAME))?;
    if let Some(bytes) = room {
        file.inject_full_after(bytes);
    }
    match write(&mut file, platform, event, rows) {
        Ok(()) => Ok(Some(file.commit()?)),
        Err(error) => Err(ArtifactError::from_io(file.path(), error)),
    }
}

/// Writes the text to `out`.
///
/// # Errors
/// When `out` fails.
pub fn write<'a>(
    out: &mut impl Write,
    platform: Platform,
    event: EventType,
    rows: impl Iterator<Item = &'a PmuRow>,
) -> io::Result<()> {
    let table = counters(platform, event);
    let named: Vec<usize> = (0..table.len()).filter(|&slot| !table[slot].name.is_empty()).collect();
    let mut line = String::from("thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles");
    for name in columns(platform, event) {
        line.push(',');
        line.push_str(name);
    }
    line.push_str(",event_type\n");
    out.write_all(line.as_bytes())?;
    let mut number = itoa::Buffer::new();
    let mut field = |line: &mut Vec<u8>, value: u64| {
        line.extend_from_slice(number.format(value).as_bytes());
        line.push(b',');
    };
    let mut line = Vec::with_capacity(256);
    for row in rows {
        line.clear();
        field(&mut line, u64::from(row.thread));
        field(&mut line, u64::from(row.core));
        line.extend_from_slice(b"0x");
        line.extend(
            (0..16).rev().map(|digit| b"0123456789abcdef"[(row.task_id >> (4 * digit)) as usize & 15]),
        );
        line.push(b',');
        field(&mut line, u64::from(row.func_id));
        field(&mut line, u64::from(row.core_type));
        field(&mut line, row.total_cycles);
        for &slot in &named {
            field(&mut line, u64::from(row.counters.get(slot).copied().unwrap_or(0)));
        }
        field(&mut line, u64::from(event as u32));
        line.pop();
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_format_page_comes_out_as_it_stands_there() {
        let record = RecordA2a3 {
            task_id: 0x0000_0001_0000_0002,
            func_id: 9,
            core_type: 1,
            pmu_total_cycles: 500,
            pmu_counters: [1, 2, 3, 4, 5, 6, 7, 8],
            _pad: 0,
        };
        let row = PmuRow::of_a2a3(&record, 1, 0);
        let mut text = Vec::new();
        write(&mut text, Platform::A2a3, EventType::ResourceConflict, [row].iter()).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles,bankgroup_stall_cycles,bank_stall_cycles,\
             vec_resc_conflict_cycles,event_type\n0,1,0x0000000100000002,9,1,500,1,2,3,6\n"
        );
    }

    #[test]
    fn header_and_rows_have_the_same_columns_for_every_event_type_on_both_platforms() {
        for platform in [Platform::A2a3, Platform::A5] {
            for event in EventType::ALL {
                let mut text = Vec::new();
                write(&mut text, platform, event, [PmuRow::default(); 2].iter()).unwrap();
                let text = String::from_utf8(text).unwrap();
                let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
                assert_eq!(columns.len(), 3);
                assert!(columns.iter().all(|&n| n == columns[0]), "{platform:?} {event:?}: {columns:?}");
            }
        }
    }
}
