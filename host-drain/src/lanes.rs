//! The host's half of every lane: its buffers, its place in the free queue, its account.

use crate::ledger::Account;
use crate::report::{Feature, StreamKind};
use crate::tail::Former;
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::layout::{BufferLayout, LaneLayout};
use dfx_collector::abi::{DeviceAddr, Platform};
use std::collections::{HashMap, VecDeque};

/// A lane by its place in the session's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u32);

/// Where a buffer is, as far as the host knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Offered to the device, or being filled.
    Device,
    /// Acknowledged, but decoded only after the device has come to rest.
    Late,
    /// With the host, empty.
    Spare,
}

/// One buffer of the session.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Whose it is, for good.
    pub lane: LaneId,
    /// Where it is.
    pub place: Place,
    /// What its slots hold from earlier uses.
    pub former: Former,
}

/// Words of a lane's state that not every feature has: offsets from the state's start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spares {
    /// A full buffer that waits for its gate: its u64 pointer and u32 sequence number.
    pub stash: Option<(usize, usize)>,
    /// u32: records that belonged to another task.
    pub mismatched: Option<usize>,
}

/// One lane.
#[derive(Debug)]
pub struct Lane {
    /// Whose.
    pub feature: Feature,
    /// What it records.
    pub kind: StreamKind,
    /// Core or thread.
    pub index: u32,
    /// Its shared state in the region.
    pub state: DeviceAddr,
    /// Where things lie in that state.
    pub layout: LaneLayout,
    /// Where things lie in its buffers.
    pub buffer: BufferLayout,
    /// Whether its buffers must be zero when the device gets them (a core's: a missing row must show).
    pub zeroed: bool,
    /// What else its state says.
    pub spares: Spares,
    /// Buffers that the host holds.
    pub spare: VecDeque<DeviceAddr>,
    /// The free queue's tail: buffers offered so far. The host alone writes it.
    pub offered: u32,
    /// The AICPU thread whose ready queue last brought a buffer of it.
    pub thread: u32,
    /// Whose record layouts its buffers have.
    pub platform: Platform,
    /// What became of its records.
    pub account: Account,
}

/// All lanes and buffers of a session.
#[derive(Debug, Default)]
pub struct LaneTable {
    /// By [`LaneId`].
    pub lanes: Vec<Lane>,
    /// Every buffer, by address: a pointer that is not here is not ours.
    pub buffers: HashMap<DeviceAddr, Buffer>,
    by_name: HashMap<(StreamKind, u32), LaneId>,
}

impl LaneTable {
    /// Adds a lane whose buffers are all spare.
    pub fn add(&mut self, lane: Lane) -> LaneId {
        let id = LaneId(self.lanes.len() as u32);
        for &buffer in &lane.spare {
            self.buffers.insert(buffer, Buffer { lane: id, place: Place::Spare, former: Former::default() });
        }
        self.by_name.insert((lane.kind, lane.index), id);
        self.lanes.push(lane);
        id
    }

    /// The lane of `kind` number `index`.
    pub fn find(&self, kind: StreamKind, index: u32) -> Option<LaneId> {
        self.by_name.get(&(kind, index)).copied()
    }

    /// The lane `id`, which this table gave out.
    pub fn lane(&mut self, id: LaneId) -> &mut Lane {
        &mut self.lanes[id.0 as usize]
    }

    /// Where `buffer` is now.
    pub fn place(&mut self, buffer: DeviceAddr, place: Place) {
        if let Some(known) = self.buffers.get_mut(&buffer) {
            known.place = place;
        }
    }

    /// What the slots of `buffer` held is known, or is not.
    pub fn former(&mut self, buffer: DeviceAddr, note: impl FnOnce(&mut Former)) {
        if let Some(known) = self.buffers.get_mut(&buffer) {
            note(&mut known.former);
        }
    }

    /// Takes a buffer back from the device: it is the lane's again.
    pub fn recycle(&mut self, transport: &dyn Transport, id: LaneId, buffer: DeviceAddr) {
        let lane = self.lane(id);
        if lane.zeroed && transport.zero(buffer, lane.buffer.bytes as u64).is_err() {
            // A buffer that cannot be cleaned must not come back as somebody's rows: it stays out of use.
            lane.account.buffers_withheld += 1;
            self.place(buffer, Place::Late);
            return;
        }
        lane.spare.push_back(buffer);
        self.place(buffer, Place::Spare);
    }

    /// Offers spare buffers of lane `id` to the device, as far as its free queue has room. Returns how many went.
    ///
    /// # Errors
    /// When the transport fails; what did not go stays spare.
    pub fn offer(&mut self, transport: &dyn Transport, id: LaneId) -> Result<u32, TransportError> {
        let lane = &mut self.lanes[id.0 as usize];
        if lane.spare.is_empty() {
            return Ok(0);
        }
        // SYNC POINT: the device published its head after it had read the slot (`Lane::try_take`).
        let head = transport.load_u32(lane.state.offset(lane.layout.free_head as u64))?;
        let waiting = lane.offered.wrapping_sub(head);
        if waiting > lane.layout.slots {
            lane.account.corrupt_index(head);
            return Ok(0);
        }
        let mut tail = lane.offered;
        for _ in waiting..lane.layout.slots {
            let Some(&buffer) = lane.spare.front() else { break };
            let slot = u64::from(tail % lane.layout.slots) * 8;
            transport.store_u64(lane.state.offset(lane.layout.free_ptrs as u64 + slot), buffer.0)?;
            lane.spare.pop_front();
            if let Some(known) = self.buffers.get_mut(&buffer) {
                known.place = Place::Device;
            }
            tail = tail.wrapping_add(1);
        }
        let went = tail.wrapping_sub(lane.offered);
        if went > 0 {
            // SYNC POINT: the device observes the tail (`Lane::try_take`) and then owns the buffers. A store that fails
            // is repeated with the next offer: the slots are filled and the tail is ours.
            lane.offered = tail;
            transport.store_u32(lane.state.offset(lane.layout.free_tail as u64), tail)?;
        }
        Ok(went)
    }
}
