//! The drain: peek at a ready entry, deliver its buffer, acknowledge.
//!
//! Only when the buffer's records are with the host is the ready queue's head advanced. A transfer that fails is tried
//! again with the next steps, a bounded number of times, and then charged to the lane; the buffer goes back to its lane
//! either way. Whatever an entry says is checked before it is used.

use crate::collect::{Delivery, Rows};
use crate::lanes::{LaneId, LaneTable, Place};
use crate::region::{Region, Streams};
use crate::tail::Former;
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::layout::QueueLayout;
use dfx_collector::abi::swimlane::{ENTRY_FLUSHED, ReadyEntry};
use std::mem::offset_of;

/// Steps in which a transfer is tried before it is given up.
pub(crate) const ATTEMPTS: u32 = 5;
/// Entries of one queue handled in one step, so that no thread's lanes starve behind another's.
const PER_STEP: u32 = 32;

/// A ready entry as read.
#[derive(Clone, Copy, Debug)]
struct Peeked {
    index: u32,
    kind: u32,
    buffer: DeviceAddr,
    seq: u32,
    flags: u32,
}

/// A buffer that waits for the device to come to rest.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// Whose.
    pub lane: LaneId,
    /// Which.
    pub buffer: DeviceAddr,
    /// Its number in the lane.
    pub seq: u32,
}

/// One thread's ready queue as the host sees it.
#[derive(Debug, Default)]
struct Queue {
    head: u32,
    /// The head as the device knows it.
    acknowledged: u32,
    attempts: u32,
    last_bad_tail: Option<u32>,
}

/// What the drain could not charge to a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Strays {
    /// Ready-queue tails outside the queue.
    pub bad_tails: u64,
    /// Entries of an unknown kind, core or thread.
    pub unknown_lanes: u64,
    /// Entries whose buffer is not one of the session's.
    pub foreign_pointers: u64,
    /// Steps in which the transport failed.
    pub transport_errors: u64,
}

impl Strays {
    /// Values from shared memory that could not be.
    pub fn corrupt(&self) -> u64 {
        self.bad_tails + self.unknown_lanes + self.foreign_pointers
    }
}

/// The drain of one region.
#[derive(Debug)]
pub struct Drain {
    base: DeviceAddr,
    layout: QueueLayout,
    streams: Streams,
    queues: Vec<Queue>,
    /// Buffers to be decoded at rest.
    pub late: Vec<Late>,
    /// What belongs to no lane.
    pub strays: Strays,
    /// Lanes whose buffers came back since the last look.
    pub returned: Vec<LaneId>,
}

impl Drain {
    /// The drain of `region`.
    pub fn new(region: &Region) -> Self {
        let (base, layout, streams) = (region.base, region.queue, region.streams);
        let queues = (0..layout.threads).map(|_| Queue::default()).collect();
        Drain {
            base,
            layout,
            streams,
            queues,
            late: Vec::new(),
            strays: Strays::default(),
            returned: Vec::new(),
        }
    }

    /// Whether every queue was empty when last looked at, given the `tails` read then.
    pub fn empty(&self, tails: &[u32]) -> bool {
        self.queues.iter().zip(tails).all(|(queue, &tail)| queue.head == tail || tail >= self.layout.entries)
    }

    /// One pass over the queues, whose tails were just read. Returns the entries handled.
    pub fn step(
        &mut self,
        transport: &dyn Transport,
        table: &mut LaneTable,
        tails: &[u32],
        deliver: &mut dyn FnMut(Delivery),
    ) -> u32 {
        let mut handled = 0;
        for (thread, &tail) in tails.iter().enumerate().take(self.queues.len()) {
            if tail >= self.layout.entries {
                if self.queues[thread].last_bad_tail != Some(tail) {
                    self.queues[thread].last_bad_tail = Some(tail);
                    self.strays.bad_tails += 1;
                }
                continue;
            }
            let mut here = 0;
            while self.queues[thread].head != tail && here < PER_STEP {
                match self.entry(transport, table, thread, deliver) {
                    Ok(true) => here += 1,
                    Ok(false) => break,
                    Err(error) => {
                        self.strays.transport_errors += 1;
                        tracing::debug!(thread, %error, "a ready entry could not be read; trying again");
                        break;
                    }
                }
            }
            handled += here;
            if let Err(error) = self.acknowledge(transport, thread) {
                self.strays.transport_errors += 1;
                tracing::debug!(thread, %error, "a ready queue could not be acknowledged; trying again");
            }
        }
        handled
    }

    /// Handles the entry at the head. `false`: its transfer failed and is to be tried again.
    fn entry(
        &mut self,
        transport: &dyn Transport,
        table: &mut LaneTable,
        thread: usize,
        deliver: &mut dyn FnMut(Delivery),
    ) -> Result<bool, TransportError> {
        let entry = self.peek(transport, thread)?;
        let Some((lane, buffer)) = self.resolve(table, &entry) else {
            self.advance(thread);
            return Ok(true);
        };
        // Only a core's buffer can have a writer that is not the one who published it.
        if table.lane(lane).spares.stash.is_some() && entry.flags & ENTRY_FLUSHED != 0 {
            table.place(buffer, Place::Late);
            self.late.push(Late { lane, buffer, seq: entry.seq });
            self.advance(thread);
            return Ok(true);
        }
        match fetch(transport, table, lane, buffer, None) {
            Ok(rows) => {
                if rows.len() == table.lane(lane).buffer.capacity as usize {
                    table.lane(lane).account.rotations += 1;
                }
                table.lane(lane).thread = thread as u32;
                table.former(buffer, |former| former.taken(entry.seq, rows.len() as u32));
                deliver(Delivery { lane, seq: entry.seq, rows, thread: thread as u32, recovered: false });
            }
            Err(error) => {
                self.queues[thread].attempts += 1;
                if self.queues[thread].attempts < ATTEMPTS {
                    return Err(error);
                }
                table.lane(lane).account.transfer_lost += 1;
                table.former(buffer, Former::missed);
                tracing::warn!(lane = ?lane, %buffer, %error, "a buffer could not be transferred; its records are lost");
            }
        }
        table.lane(lane).account.buffers += 1;
        table.recycle(transport, lane, buffer);
        self.returned.push(lane);
        self.advance(thread);
        Ok(true)
    }

    fn peek(&self, transport: &dyn Transport, thread: usize) -> Result<Peeked, TransportError> {
        // SYNC POINT: the tail was loaded with acquire (`Service::step`), after the device had published it
        // (`ReadyQueue::push`): the entry and its buffer are visible, and the host's.
        let at = self.base.offset(self.layout.entry(thread as u32, self.queues[thread].head) as u64);
        let mut words = [0; 6];
        transport.load_words(at, &mut words)?;
        let word = |offset: usize| words[offset / 4];
        let ptr = offset_of!(ReadyEntry, buffer_ptr);
        Ok(Peeked {
            index: word(offset_of!(ReadyEntry, core_index)),
            kind: word(offset_of!(ReadyEntry, kind)),
            buffer: DeviceAddr(u64::from(word(ptr)) | u64::from(word(ptr + 4)) << 32),
            seq: word(offset_of!(ReadyEntry, buffer_seq)),
            flags: word(offset_of!(ReadyEntry, flags)),
        })
    }

    /// The lane and buffer that an entry means, if it means one that is with the device.
    fn resolve(&mut self, table: &mut LaneTable, entry: &Peeked) -> Option<(LaneId, DeviceAddr)> {
        let kind = self.streams.of(entry.kind);
        let Some(lane) = kind.and_then(|kind| table.find(kind, entry.index)) else {
            self.strays.unknown_lanes += 1;
            tracing::warn!(?entry, "a ready entry names no lane of this run; it is passed over");
            return None;
        };
        let Some(buffer) = table.buffers.get(&entry.buffer).copied() else {
            self.strays.foreign_pointers += 1;
            tracing::warn!(?entry, "a ready entry's buffer is not one of this session's; it is passed over");
            return None;
        };
        if buffer.lane != lane {
            table.lane(lane).account.corrupt += 1;
            tracing::warn!(?entry, "a ready entry's buffer belongs to another lane; it is passed over");
            return None;
        }
        if buffer.place != Place::Device {
            // Published twice: its records were taken the first time.
            table.lane(lane).account.duplicate += 1;
            return None;
        }
        Some((lane, entry.buffer))
    }

    fn advance(&mut self, thread: usize) {
        let queue = &mut self.queues[thread];
        queue.attempts = 0;
        queue.head = if queue.head + 1 == self.layout.entries { 0 } else { queue.head + 1 };
    }

    /// Tells the device how far its queue was taken.
    fn acknowledge(&mut self, transport: &dyn Transport, thread: usize) -> Result<(), TransportError> {
        let queue = &mut self.queues[thread];
        if queue.acknowledged != queue.head {
            // SYNC POINT: the device observes the head (`ReadyQueue::push`) and then fills these entries again.
            transport.store_u32(self.base.offset((self.layout.heads + 4 * thread) as u64), queue.head)?;
            queue.acknowledged = queue.head;
        }
        Ok(())
    }
}

/// Copies the records of a buffer to the host: `rows` of them, or as many as its count says.
///
/// # Errors
/// When the transport fails.
pub fn fetch(
    transport: &dyn Transport,
    table: &mut LaneTable,
    id: LaneId,
    buffer: DeviceAddr,
    rows: Option<u32>,
) -> Result<Rows, TransportError> {
    let lane = table.lane(id);
    let layout = lane.buffer;
    let count = match rows {
        Some(rows) => rows,
        None => transport.load_u32(buffer.offset(layout.count as u64))?,
    };
    // Only a buffer that was zero before shows which of its rows are there; of another, nothing can be believed.
    let believed = if lane.zeroed { layout.capacity } else { 0 };
    let rows = if count > layout.capacity { believed } else { count };
    let fetched = Rows::fetch(lane.kind, rows, lane.platform, |bytes| {
        transport.fetch(buffer.offset(layout.records as u64), bytes)
    })?;
    if count > layout.capacity {
        lane.account.corrupt += 1;
        tracing::warn!(
            kind = lane.kind.name(),
            lane = lane.index,
            count,
            capacity = layout.capacity,
            believed,
            "a buffer's count is beyond its capacity"
        );
        table.former(buffer, Former::missed);
    }
    Ok(fetched)
}
