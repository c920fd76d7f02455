//! The AICPU's side of a core's own stream: who may write where, mirrored without a read of shared memory.
//!
//! A core reserves one slot per token, in order, so the AICPU knows the core's slot by counting dispatches. It rotates
//! before it dispatches the token that would not fit (the *boundary*): the old buffer is stashed with that token as its
//! *gate*. The core commits the old buffer's last record before it acknowledges the boundary, so the ACK (or FIN) of the
//! gate's token releases the stash to the host.

use super::mem::PoolMem;
use crate::abi::DeviceAddr;
use crate::abi::swimlane::{BufferKind, CORE_RECORDS, CoreRecord, ENTRY_FLUSHED};
use crate::clock::Clock;
use crate::lane::{Entry, Lane, LaneMem, Port, QueueMem};
use crate::sync::{Ordering::Relaxed, Word};

/// The words of a core's lane beyond those of any lane: where a full buffer waits for its gate.
pub trait CoreMem: LaneMem {
    /// Records of a buffer.
    const CAPACITY: u32;
    /// The buffer that waits (0: none).
    fn stash_ptr(&self) -> &Self::U64;
    /// Its sequence number.
    fn stash_seq(&self) -> &Self::U32;
}

/// As in the record lanes: the buffer's count is published every eighth dispatch.
const SYNC_EVERY: u32 = super::record_lane::SYNC_EVERY as u32;
/// No token is this large.
const NO_GATE: u64 = u64::MAX;

/// One core's stream, as its AICPU thread sees it.
#[derive(Debug)]
pub struct CoreLane<M> {
    /// Granted dispatches that have not happened; the next one after them takes the cold path.
    left: u32,
    /// Slots granted in the active buffer; the capacity when there is none.
    granted: u32,
    /// The token whose ACK or FIN releases the stash.
    gate: u64,
    active: DeviceAddr,
    lane: Lane<M>,
    stash: DeviceAddr,
    stash_seq: u32,
    /// Slots in buffers before the active one.
    before: u32,
    dropped: u32,
    core: u32,
}

impl CoreLane<PoolMem<CoreRecord, CORE_RECORDS>> {
    /// A lane that drops everything.
    pub(super) const CLOSED: Self = CoreLane::closed(PoolMem::DANGLING, 0);
}

impl<M: CoreMem> CoreLane<M> {
    const fn closed(mem: M, core: u32) -> Self {
        CoreLane {
            left: 0,
            granted: M::CAPACITY,
            gate: NO_GATE,
            active: DeviceAddr::NULL,
            lane: Lane::new(mem),
            stash: DeviceAddr::NULL,
            stash_seq: 0,
            before: 0,
            dropped: 0,
            core,
        }
    }

    /// Opens the lane over `mem` and takes a first buffer if one is there; it never waits.
    pub fn open(mem: M, core: u32) -> Self {
        let mut lane = CoreLane::closed(mem, core);
        if let Some(buffer) = lane.lane.try_take() {
            lane.activate(buffer, 0);
        }
        lane
    }

    fn activate(&mut self, buffer: DeviceAddr, seq: u32) {
        self.lane.activate(buffer, seq);
        self.active = buffer;
        self.granted = 0;
        self.left = 0;
    }

    /// Before a token is written to the core's dispatch register. `false`: [`grant`](Self::grant) must see to it.
    ///
    /// # Safety
    /// The caller is the lane's only user.
    #[inline(always)]
    pub unsafe fn dispatch(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// What [`dispatch`](Self::dispatch) left: the first of a group. `false`: there is no room in the active buffer,
    /// [`rotate`](Self::rotate) must find some, and then this again.
    ///
    /// # Safety
    /// The lane is open and its caller is its only user.
    #[inline(always)]
    pub unsafe fn grant(&mut self) -> bool {
        if self.granted == M::CAPACITY {
            return false;
        }
        // The count says which slots the core was told to use.
        self.lane.mem().count(self.active).store(self.granted + 1, Relaxed);
        let group = if M::CAPACITY.is_multiple_of(SYNC_EVERY) {
            SYNC_EVERY
        } else {
            SYNC_EVERY.min(M::CAPACITY - self.granted)
        };
        self.granted += group;
        self.left = group - 1;
        true
    }

    /// When the core's condition register shows `token` acknowledged or finished. `false`:
    /// [`ack_cold`](Self::ack_cold) must see to it.
    ///
    /// # Safety
    /// The caller is the lane's only user.
    #[inline(always)]
    pub unsafe fn ack(&self, token: u32) -> bool {
        self.gate != u64::from(token)
    }

    /// Releases the stash, whose gate is open.
    ///
    /// # Safety
    /// The lane is open and its caller is its only user; [`ack`](Self::ack) said `false`.
    pub unsafe fn ack_cold<Q: QueueMem, C: Clock>(&mut self, mut port: Port<'_, Q, C>) {
        self.gate = NO_GATE;
        self.send_stash(&mut port, 0);
    }

    /// Slots that the core was told to use in the active buffer.
    fn used(&self) -> u32 {
        if self.active.is_null() { 0 } else { self.granted - self.left }
    }

    /// Stashes the full buffer behind the boundary `token` and activates an empty one. `false`: `token` is dropped; the
    /// core finds no slot for it either, because both sides count the same slots.
    ///
    /// # Safety
    /// The lane is open and its caller is its only user; [`grant`](Self::grant) said `false`.
    pub unsafe fn rotate<Q: QueueMem, C: Clock>(&mut self, token: u32, mut port: Port<'_, Q, C>) -> bool {
        // A stash from 1024 dispatches ago has passed its gate long since (at most one dispatch is unacknowledged); it
        // is still here only if its publication failed, or nobody reports ACKs.
        let gone = self.send_stash(&mut port, 0);
        let Some(buffer) = (if gone { self.lane.take(&mut port) } else { None }) else {
            self.dropped = self.dropped.wrapping_add(1);
            self.totals();
            return false;
        };
        let seq = self.lane.seq();
        if !self.active.is_null() {
            self.stash = self.active;
            self.stash_seq = seq;
            self.gate = u64::from(token);
            let mem = self.lane.mem();
            mem.stash_seq().store(seq, Relaxed);
            mem.stash_ptr().store(self.stash.0, Relaxed);
            mem.count(self.stash).store(M::CAPACITY, Relaxed);
            self.before = self.before.wrapping_add(M::CAPACITY);
        }
        // A new number even after a lane that never had a buffer: the core looks at the pointer only when it changes.
        self.activate(buffer, seq.wrapping_add(1));
        self.totals();
        true
    }

    /// Publishes the stash if there is one. `false`: it is still here.
    fn send_stash<Q: QueueMem, C: Clock>(&mut self, port: &mut Port<'_, Q, C>, flags: u32) -> bool {
        if self.stash.is_null() {
            return true;
        }
        let entry = self.entry(self.stash, self.stash_seq, flags);
        if !self.lane.push(port, &entry) {
            return false;
        }
        self.stash = DeviceAddr::NULL;
        self.gate = NO_GATE;
        self.lane.mem().stash_ptr().store(0, Relaxed);
        true
    }

    fn entry(&self, buffer: DeviceAddr, seq: u32, flags: u32) -> Entry {
        Entry { index: self.core, kind: BufferKind::AicoreTask as u32, buffer, seq, flags }
    }

    /// Publishes the totals. They lie on the line that the core reads: only at rotation, flush, drop and sync.
    fn totals(&self) {
        let mem = self.lane.mem();
        mem.total().store(self.before.wrapping_add(self.used()).wrapping_add(self.dropped), Relaxed);
        mem.dropped().store(self.dropped, Relaxed);
    }

    /// Makes counts and totals visible.
    pub fn sync(&self) {
        if !self.active.is_null() {
            self.lane.mem().count(self.active).store(self.used(), Relaxed);
        }
        self.totals();
    }

    /// Publishes the stash and the active buffer. The core may still be committing its last record, into the stash if
    /// the boundary was not acknowledged yet: the entries say so. What cannot be published stays where the host finds
    /// it, and nothing overtakes it.
    pub fn flush<Q: QueueMem, C: Clock>(&mut self, mut port: Port<'_, Q, C>) {
        self.sync();
        let gated = if self.gate == NO_GATE { 0 } else { ENTRY_FLUSHED };
        let used = self.used();
        if !self.send_stash(&mut port, gated) || used == 0 {
            return;
        }
        let entry = self.entry(self.active, self.lane.seq(), ENTRY_FLUSHED);
        if self.lane.publish(&mut port, &entry) {
            self.before = self.before.wrapping_add(used);
            self.active = DeviceAddr::NULL;
            self.granted = M::CAPACITY;
            self.left = 0;
        }
    }
}
