//! One step of the host's work on a region: look, drain, refill, and tend the gate.
//!
//! Everything that the host does while the device runs is a `step()` that returns how much it found to do. Threads loop
//! over it ([`workers`](crate::workers)); a virtual clock calls it as an event. Nothing here waits.

use crate::collect::Delivery;
use crate::config::Backpressure;
use crate::drain::{self, Drain};
use crate::gate::{Contended, Gate};
use crate::lanes::{LaneId, LaneTable, Place};
use crate::region::SwimlaneRegion;
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::BackpressureHeader;
use dfx_collector::abi::DeviceAddr;
use std::mem::offset_of;
use std::sync::Arc;

/// Steps between two looks at lanes that did not publish: a lane whose free queue was full when its last buffer came
/// back still has spare ones with the host.
const LOOK_EVERY: u32 = 16;

/// The host's work on one region.
pub struct Service {
    transport: Arc<dyn Transport>,
    /// Lanes and buffers.
    pub table: LaneTable,
    drain: Drain,
    gate: Gate,
    region: SwimlaneRegion,
    /// Words from the queue heads to the end of the backpressure header, read at once.
    words: Vec<u32>,
    steps: u32,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("drain", &self.drain).field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Service {
    /// The service of `region`.
    pub fn new(
        transport: Arc<dyn Transport>,
        table: LaneTable,
        region: SwimlaneRegion,
        policy: Backpressure,
    ) -> Self {
        let queue = region.layout.queue;
        let words = (queue.backpressure + size_of::<BackpressureHeader>() - queue.heads) / 4;
        Service {
            drain: Drain::new(region.base, queue),
            gate: Gate::new(policy, region.base.offset(queue.backpressure as u64)),
            words: vec![0; words],
            steps: 0,
            transport,
            table,
            region,
        }
    }

    /// Drains what is ready, refills what is dry, tends the gate. Returns how much there was to do; 0 is idle.
    pub fn step(&mut self, deliver: &mut dyn FnMut(Delivery)) -> u32 {
        let queue = self.region.layout.queue;
        self.steps = self.steps.wrapping_add(1);
        // SYNC POINT: acquire of every tail (`ReadyQueue::push`): the entries before it are whole.
        if let Err(error) = self.transport.load_words(self.region.base.offset(queue.heads as u64), &mut self.words) {
            self.drain.strays.transport_errors += 1;
            tracing::debug!(%error, "the ready queues could not be looked at; trying again");
            return 0;
        }
        let at = |offset: usize| (offset - queue.heads) / 4;
        let tails = self.words[at(queue.tails)..][..queue.threads as usize].to_vec();
        let raised = |field: usize| self.words[at(queue.backpressure + field)] != 0;
        let contended = Contended {
            ready: raised(offset_of!(BackpressureHeader, rq_contended)),
            free: raised(offset_of!(BackpressureHeader, fq_contended)),
        };
        let mut done = 0;
        let gate = self.gate.step(&*self.transport, contended);
        self.note(gate);
        done += self.drain.step(&*self.transport, &mut self.table, &tails, deliver);
        let returned = std::mem::take(&mut self.drain.returned);
        if self.gate.frozen() {
            if self.drain.empty(&tails) && self.refill_all() == 0 {
                let released = self.gate.release(&*self.transport);
                self.note(released);
                done += 1;
            }
        } else if contended.free || self.steps.is_multiple_of(LOOK_EVERY) {
            done += self.refill_all();
        } else {
            done += returned.iter().map(|&lane| self.refill(lane)).sum::<u32>();
        }
        done
    }

    fn note(&mut self, outcome: Result<(), TransportError>) {
        if let Err(error) = outcome {
            self.drain.strays.transport_errors += 1;
            tracing::debug!(%error, "the freeze could not be tended; trying again");
        }
    }

    fn refill(&mut self, lane: LaneId) -> u32 {
        self.table.offer(&*self.transport, lane).unwrap_or_else(|error| {
            self.drain.strays.transport_errors += 1;
            tracing::debug!(?lane, %error, "a lane could not be refilled; trying again");
            0
        })
    }

    fn refill_all(&mut self) -> u32 {
        (0..self.table.lanes.len() as u32).map(|lane| self.refill(LaneId(lane))).sum()
    }

    /// What belongs to no lane.
    pub fn strays(&self) -> drain::Strays {
        self.drain.strays
    }

    /// How often all lanes were frozen.
    pub fn freezes(&self) -> u64 {
        self.gate.freezes
    }

    /// The region.
    pub fn region(&self) -> &SwimlaneRegion {
        &self.region
    }

    /// The transport.
    pub fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.transport)
    }

    /// Once the device is at rest: decodes the buffers that waited for it, then those that it never published.
    ///
    /// After an `abnormal` end a core may have written more rows than were counted: all of its buffer is looked at.
    /// Returns the lanes that had un-published records.
    pub fn finish(&mut self, abnormal: bool, deliver: &mut dyn FnMut(Delivery)) -> Vec<LaneId> {
        for late in std::mem::take(&mut self.drain.late) {
            self.deliver_at_rest(late.lane, late.buffer, late.seq, None, false, deliver);
        }
        let mut unpublished = Vec::new();
        for id in (0..self.table.lanes.len() as u32).map(LaneId) {
            let lane = self.table.lane(id);
            let (state, layout, stash, capacity) = (lane.state, lane.layout, lane.stash, lane.buffer.capacity);
            let mut left = Vec::new();
            if let Some((ptr, seq)) = stash {
                left.push((ptr, seq, Some(capacity)));
            }
            left.push((layout.current_ptr, layout.current_seq, None));
            for (ptr, seq, rows) in left {
                let word = |offset: usize| state.offset(offset as u64);
                let read = self
                    .transport
                    .load_u64(word(ptr))
                    .and_then(|ptr| Ok((DeviceAddr(ptr), self.transport.load_u32(word(seq))?)));
                let Ok((buffer, seq)) = read else {
                    self.drain.strays.transport_errors += 1;
                    continue;
                };
                if buffer.is_null() {
                    continue;
                }
                match self.table.buffers.get(&buffer) {
                    Some(known) if known.lane == id && known.place == Place::Device => {
                        let rows = rows.or_else(|| stash.filter(|_| abnormal).map(|_| capacity));
                        if self.deliver_at_rest(id, buffer, seq, rows, true, deliver) > 0 {
                            unpublished.push(id);
                        }
                    }
                    Some(_) => {}
                    None => {
                        self.table.lane(id).account.corrupt += 1;
                        tracing::warn!(?id, %buffer, "an active buffer is not one of this session's; it is passed over");
                    }
                }
            }
        }
        unpublished
    }

    /// Fetches and delivers a buffer of a device at rest. Returns the rows that it had.
    fn deliver_at_rest(
        &mut self,
        lane: LaneId,
        buffer: DeviceAddr,
        seq: u32,
        rows: Option<u32>,
        recovered: bool,
        deliver: &mut dyn FnMut(Delivery),
    ) -> usize {
        let mut last = None;
        for _ in 0..3 {
            match drain::fetch(&*self.transport, &mut self.table, lane, buffer, rows) {
                Ok(rows) => {
                    let count = rows.present();
                    if count > 0 {
                        self.table.lane(lane).account.buffers += 1;
                        deliver(Delivery { lane, seq, rows, recovered });
                    }
                    self.table.place(buffer, Place::Spare);
                    return count;
                }
                Err(error) => last = Some(error),
            }
        }
        if let Some(error) = last {
            self.drain.strays.transport_errors += 1;
            self.table.lane(lane).account.transfer_lost += 1;
            tracing::warn!(?lane, %buffer, %error, "a buffer could not be transferred; its records are lost");
        }
        0
    }
}
