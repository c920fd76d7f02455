//! What a lane has written beyond the count that it shows.
//!
//! Our device half shows the count of a buffer with every [`SYNC_EVERY`]th row, scheduler phase and submit. A launch that
//! never flushes (a hang, a kill, a runtime that calls no flush) so leaves up to a group of records per lane of which the
//! shared memory says nothing. They are in the buffer all the same, behind the count. What a core wrote is plain: its
//! buffers are zeroed before each use. In the others there may also be what an earlier use left. The host tells them apart
//! by what it knows of each slot:
//!
//! | the slot | a record of this use | not there |
//! |---|---|---|
//! | of a buffer that nobody has used, which the host zeroed | is not 0 | is 0 |
//! | held a record that the host took in an earlier use | differs from it | is it |
//! | anything else (a transfer failed, a count was wrong) | not looked at | |
//!
//! A record that does not belong to this use is never taken. One that does and looks like what the slot held before is
//! counted where it shows at all.
//!
//! The producer writes a record's end last. A record of which other fields are of this use, but not the end, is one over
//! which the device was stopped: it is counted as lost.

use crate::collect::Rows;
use crate::drain;
use crate::lanes::{LaneId, LaneTable};
use crate::records::{SchedRow, SwimlaneRecords, TaskRow};
use crate::report::StreamKind;
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::swimlane::OrchPhaseRecord;
use dfx_collector::swimlane::SYNC_EVERY;

/// The slots that may hold a record which no count shows.
const GROUP: usize = SYNC_EVERY;

/// Whether our device half shows the count of such a lane group by group.
pub fn shown_in_groups(kind: StreamKind) -> bool {
    use StreamKind::{AicoreTask, AicpuTask, OrchPhase, SchedPhase};
    matches!(kind, AicoreTask | AicpuTask | SchedPhase | OrchPhase)
}

/// What the host knows of a buffer's slots from before its current use. The default: nobody has used it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Former {
    /// The number of its last use.
    seq: u32,
    /// Slots that the host took then, and holds.
    taken: u32,
    /// Slots that any use may have written.
    written: u32,
}

impl Former {
    /// Use number `seq` is over; the host took `rows`.
    pub fn taken(&mut self, seq: u32, rows: u32) {
        *self = Former { seq, taken: rows, written: self.written.max(rows) };
    }

    /// Whether use number `seq` is over, and the host took what it left.
    pub fn took(&self, seq: u32) -> bool {
        self.taken > 0 && self.seq == seq
    }

    /// A use is over of which the host has nothing: any slot may hold anything.
    pub fn missed(&mut self) {
        *self = Former { seq: 0, taken: 0, written: u32::MAX };
    }
}

/// What a slot held before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before<R> {
    /// 0.
    Nothing,
    /// This.
    Row(R),
    /// What nobody knows.
    Unknown,
}

/// A record with an end.
trait Ended: Copy + PartialEq + Default {
    /// What its producer writes last.
    fn end(&self) -> u64;
}

impl Ended for TaskRow {
    fn end(&self) -> u64 {
        self.finish
    }
}

impl Ended for SchedRow {
    fn end(&self) -> u64 {
        self.end
    }
}

impl Ended for OrchPhaseRecord {
    fn end(&self) -> u64 {
        self.end_time
    }
}

/// What a slot behind the count holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    /// What was there before.
    Old,
    /// A whole record of this use.
    Whole,
    /// A record of this use whose last field is missing.
    Torn,
}

/// The records behind the count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Tail {
    /// Whole ones, from the count on.
    kept: usize,
    /// Behind those: begun, and not to be had.
    lost: usize,
}

impl Tail {
    /// Looks at `rows`, a buffer's records up to the end of the group in which its `count` lies.
    fn of<R: Ended>(rows: &[R], count: usize, before: impl Fn(usize) -> Before<R>) -> Tail {
        let behind = rows.get(count..).unwrap_or_default();
        let slots = behind.iter().zip(count..).map_while(|(row, at)| {
            let old = match before(at) {
                Before::Nothing => R::default(),
                Before::Row(old) => old,
                Before::Unknown => return None,
            };
            Some(match *row == old {
                true => Slot::Old,
                false if row.end() == old.end() => Slot::Torn,
                false => Slot::Whole,
            })
        });
        let slots: Vec<Slot> = slots.collect();
        let kept = slots.iter().take_while(|slot| **slot == Slot::Whole).count();
        let touched = slots.iter().rposition(|slot| *slot != Slot::Old).map_or(0, |last| last + 1);
        Tail { kept, lost: touched.saturating_sub(kept) }
    }
}

/// Copies the records of an active buffer of a device at rest to the host, those behind the count included. What there is
/// behind the count is noted in the lane's account.
///
/// # Errors
/// When the transport fails.
pub fn fetch(
    transport: &dyn Transport,
    table: &mut LaneTable,
    records: &SwimlaneRecords,
    id: LaneId,
    buffer: DeviceAddr,
) -> Result<Rows, TransportError> {
    let (layout, index) = (table.lane(id).buffer, table.lane(id).index as usize);
    let shown = transport.load_u32(buffer.offset(layout.count as u64))?;
    if shown >= layout.capacity {
        // Full, or what cannot be.
        return drain::fetch(transport, table, id, buffer, None);
    }
    let group = GROUP as u32;
    let until = (shown / group + 1).saturating_mul(group).min(layout.capacity);
    let mut rows = drain::fetch(transport, table, id, buffer, Some(until))?;
    let former = table.buffers.get(&buffer).map(|known| known.former).unwrap_or_default();
    let count = shown as usize;
    let tail = match &rows {
        Rows::Task(rows) => {
            let rows: Vec<_> = rows.iter().map(TaskRow::from).collect();
            Tail::of(&rows, count, before(former, records.task_buffer(index, former.seq)))
        }
        Rows::Sched(rows) => {
            let rows: Vec<_> = rows.iter().map(SchedRow::from).collect();
            Tail::of(&rows, count, before(former, records.sched_buffer(index, former.seq)))
        }
        Rows::Orch(rows) => Tail::of(rows, count, before(former, records.orch_buffer(index, former.seq))),
        // A core's: its buffers are zeroed before each use, and the collector takes what is there.
        _ => return Ok(rows),
    };
    rows.truncate(count + tail.kept);
    let account = &mut table.lane(id).account;
    account.unshown += (tail.kept + tail.lost) as u64;
    account.torn += tail.lost as u64;
    Ok(rows)
}

/// What each slot held, if `held` are the rows of the buffer's last use.
fn before<R: Copy>(former: Former, held: Option<&[R]>) -> impl Fn(usize) -> Before<R> {
    move |slot| {
        if slot >= former.written as usize {
            Before::Nothing
        } else if slot >= former.taken as usize {
            Before::Unknown
        } else {
            held.and_then(|rows| rows.get(slot)).map_or(Before::Unknown, |row| Before::Row(*row))
        }
    }
}

#[cfg(test)]
#[path = "tail/tests.rs"]
mod tests;
