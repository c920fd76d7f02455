//! One step of the host's work: for every region look, drain, refill, and tend the gate.
//!
//! Everything that the host does while the device runs is a `step()` that returns how much it found to do. Threads loop
//! over it ([`workers`](crate::workers)); a virtual clock calls it as an event. Nothing here waits.

use crate::collect::Delivery;
use crate::config::Backpressure;
use crate::drain::{self, Drain};
use crate::gate::{Contended, Gate};
use crate::lanes::{LaneId, LaneTable, Place};
use crate::records::SwimlaneRecords;
use crate::region::Region;
use crate::report::Feature;
use crate::tail::{self, shown_in_groups};
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::BackpressureHeader;
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::peer::Peer;
use std::mem::offset_of;
use std::sync::Arc;

/// Steps between two looks at lanes that did not publish: a lane whose free queue was full when its last buffer came
/// back still has spare ones with the host.
const LOOK_EVERY: u32 = 16;

/// How much of a buffer of a device at rest is looked at.
#[derive(Clone, Copy)]
enum Extent<'a> {
    /// As many records as its count says.
    Shown,
    /// Every slot: of a buffer that was zero before, each says itself whether a record is there.
    Whole,
    /// Those that its count shows, and what lies behind them: these are the records that were taken before.
    Behind(&'a SwimlaneRecords),
}

/// One region at work.
#[derive(Debug)]
struct Bay {
    region: Region,
    drain: Drain,
    gate: Gate,
    /// Words from the queue heads to the end of the backpressure header, read at once.
    words: Vec<u32>,
    /// Its lanes, as a range of the table.
    lanes: std::ops::Range<u32>,
}

/// The host's work on all regions of a session.
pub struct Service {
    transport: Arc<dyn Transport>,
    /// Lanes and buffers.
    pub table: LaneTable,
    bays: Vec<Bay>,
    steps: u32,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("bays", &self.bays).finish_non_exhaustive()
    }
}

impl Service {
    /// The service of `regions`, whose lanes stand in `table` in the same order.
    pub fn new(
        transport: Arc<dyn Transport>,
        table: LaneTable,
        regions: Vec<Region>,
        policy: Backpressure,
    ) -> Self {
        let mut next = 0;
        let bays = regions
            .into_iter()
            .map(|region| {
                let queue = region.queue;
                let words = (queue.backpressure + size_of::<BackpressureHeader>() - queue.heads) / 4;
                let count = table.lanes.iter().filter(|lane| lane.feature == region.feature).count() as u32;
                let lanes = next..next + count;
                next = lanes.end;
                Bay {
                    drain: Drain::new(&region),
                    gate: Gate::new(policy, region.base.offset(queue.backpressure as u64)),
                    words: vec![0; words],
                    lanes,
                    region,
                }
            })
            .collect();
        Service { transport, table, bays, steps: 0 }
    }

    /// Drains what is ready, refills what is dry, tends the gates. Returns how much there was to do; 0 is idle.
    pub fn step(&mut self, deliver: &mut dyn FnMut(Delivery)) -> u32 {
        self.steps = self.steps.wrapping_add(1);
        let look = self.steps.is_multiple_of(LOOK_EVERY);
        let (transport, table) = (&*self.transport, &mut self.table);
        self.bays.iter_mut().map(|bay| bay.step(transport, table, look, deliver)).sum()
    }

    /// What belongs to no lane, by region.
    pub fn strays(&self) -> impl Iterator<Item = (Feature, drain::Strays)> + '_ {
        self.bays.iter().map(|bay| (bay.region.feature, bay.drain.strays))
    }

    /// How often all lanes of a region were frozen.
    pub fn freezes(&self) -> u64 {
        self.bays.iter().map(|bay| bay.gate.freezes).sum()
    }

    /// The region of `feature`.
    pub fn region(&self, feature: Feature) -> Option<&Region> {
        self.bays.iter().map(|bay| &bay.region).find(|region| region.feature == feature)
    }

    /// The regions.
    pub fn regions(&self) -> impl Iterator<Item = &Region> + '_ {
        self.bays.iter().map(|bay| &bay.region)
    }

    /// The transport.
    pub fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.transport)
    }

    /// Once the device is at rest: decodes the buffers that waited for it, then those that it never published.
    ///
    /// There may be more records in those than their counts show. Of our device half's lanes what lies [behind the
    /// count](tail) is looked at, for which `records` must have everything that was delivered before; after an `abnormal`
    /// end all of a core's buffer is. Returns the lanes that had un-published records.
    pub fn finish(
        &mut self,
        abnormal: bool,
        records: &SwimlaneRecords,
        deliver: &mut dyn FnMut(Delivery),
    ) -> Vec<LaneId> {
        let (transport, table) = (&*self.transport, &mut self.table);
        self.bays
            .iter_mut()
            .flat_map(|bay| bay.finish(transport, table, abnormal, records, deliver))
            .collect()
    }
}

impl Bay {
    fn step(
        &mut self,
        transport: &dyn Transport,
        table: &mut LaneTable,
        look: bool,
        deliver: &mut dyn FnMut(Delivery),
    ) -> u32 {
        let queue = self.region.queue;
        // SYNC POINT: acquire of every tail (`ReadyQueue::push`): the entries before it are whole.
        if let Err(error) = transport.load_words(self.region.base.offset(queue.heads as u64), &mut self.words)
        {
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
        let gate = self.gate.step(transport, contended);
        self.note(gate);
        let mut done = self.drain.step(transport, table, &tails, deliver);
        let returned = std::mem::take(&mut self.drain.returned);
        if self.gate.frozen() {
            // A lane that could not be refilled is still dry: the freeze is for it too.
            let errors = self.drain.strays.transport_errors;
            if self.drain.empty(&tails)
                && self.refill_all(transport, table) == 0
                && self.drain.strays.transport_errors == errors
            {
                let released = self.gate.release(transport);
                self.note(released);
                done += 1;
            }
        } else if contended.free || look {
            done += self.refill_all(transport, table);
        } else {
            done += returned.iter().map(|&lane| self.refill(transport, table, lane)).sum::<u32>();
        }
        done
    }

    fn note(&mut self, outcome: Result<(), TransportError>) {
        if let Err(error) = outcome {
            self.drain.strays.transport_errors += 1;
            tracing::debug!(%error, "the freeze could not be tended; trying again");
        }
    }

    fn refill(&mut self, transport: &dyn Transport, table: &mut LaneTable, lane: LaneId) -> u32 {
        table.offer(transport, lane).unwrap_or_else(|error| {
            self.drain.strays.transport_errors += 1;
            tracing::debug!(?lane, %error, "a lane could not be refilled; trying again");
            0
        })
    }

    fn refill_all(&mut self, transport: &dyn Transport, table: &mut LaneTable) -> u32 {
        self.lanes.clone().map(|lane| self.refill(transport, table, LaneId(lane))).sum()
    }

    fn finish(
        &mut self,
        transport: &dyn Transport,
        table: &mut LaneTable,
        abnormal: bool,
        records: &SwimlaneRecords,
        deliver: &mut dyn FnMut(Delivery),
    ) -> Vec<LaneId> {
        for late in std::mem::take(&mut self.drain.late) {
            self.deliver_at_rest(
                transport,
                table,
                late.lane,
                (late.buffer, late.seq),
                Extent::Shown,
                false,
                deliver,
            );
        }
        // The reference's half shows each record with its count.
        let peer = self.region.base.offset(self.region.queue.peer as u64);
        let peer = (0..drain::ATTEMPTS).find_map(|_| transport.load_u32(peer).ok());
        let in_groups = peer.is_some_and(|word| Peer::device(word) != Peer::Reference);
        let mut unpublished = Vec::new();
        for id in self.lanes.clone().map(LaneId) {
            let lane = table.lane(id);
            let (state, layout, stash) = (lane.state, lane.layout, lane.spares.stash);
            let mut left = Vec::new();
            if let Some((ptr, seq)) = stash {
                left.push((ptr, seq, Extent::Whole));
            }
            let active = match lane.kind {
                _ if abnormal && stash.is_some() => Extent::Whole,
                kind if in_groups && shown_in_groups(kind) => Extent::Behind(records),
                _ => Extent::Shown,
            };
            left.push((layout.current_ptr, layout.current_seq, active));
            for (ptr, seq, extent) in left {
                let word = |offset: usize| state.offset(offset as u64);
                let read = transport
                    .load_u64(word(ptr))
                    .and_then(|ptr| Ok((DeviceAddr(ptr), transport.load_u32(word(seq))?)));
                let Ok((buffer, seq)) = read else {
                    self.drain.strays.transport_errors += 1;
                    continue;
                };
                if buffer.is_null() {
                    continue;
                }
                match table.buffers.get(&buffer) {
                    // Published before the device was stopped, and taken: it had only not put it out of its hand.
                    Some(known) if known.former.took(seq) => {}
                    Some(known) if known.lane == id && known.place == Place::Device => {
                        let rows =
                            self.deliver_at_rest(transport, table, id, (buffer, seq), extent, true, deliver);
                        if rows > 0 {
                            unpublished.push(id);
                        }
                    }
                    // Published, and the device ended before it took note: its records came with its entry.
                    Some(known) if known.lane == id => {}
                    _ => {
                        table.lane(id).account.corrupt += 1;
                        tracing::warn!(?id, %buffer, "an active buffer is not one of its lane's; it is passed over");
                    }
                }
            }
        }
        unpublished
    }

    /// Fetches and delivers a buffer of a device at rest. Returns the rows that it had.
    #[allow(clippy::too_many_arguments)] // one call's worth of context, in two places
    fn deliver_at_rest(
        &mut self,
        transport: &dyn Transport,
        table: &mut LaneTable,
        lane: LaneId,
        (buffer, seq): (DeviceAddr, u32),
        extent: Extent<'_>,
        recovered: bool,
        deliver: &mut dyn FnMut(Delivery),
    ) -> usize {
        let mut last = None;
        for _ in 0..3 {
            let fetched = match extent {
                Extent::Shown => drain::fetch(transport, table, lane, buffer, None),
                Extent::Whole => {
                    let capacity = table.lane(lane).buffer.capacity;
                    drain::fetch(transport, table, lane, buffer, Some(capacity))
                }
                Extent::Behind(records) => tail::fetch(transport, table, records, lane, buffer),
            };
            match fetched {
                Ok(rows) => {
                    let count = rows.present();
                    if count > 0 {
                        table.lane(lane).account.buffers += 1;
                        let thread = table.lane(lane).thread;
                        deliver(Delivery { lane, seq, rows, thread, recovered });
                    }
                    table.place(buffer, Place::Spare);
                    return count;
                }
                Err(error) => last = Some(error),
            }
        }
        if let Some(error) = last {
            self.drain.strays.transport_errors += 1;
            table.lane(lane).account.transfer_lost += 1;
            tracing::warn!(?lane, %buffer, %error, "a buffer could not be transferred; its records are lost");
        }
        0
    }
}
