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
use crate::lane::{Entry, Lane, LaneMem, Port};
use crate::sync::Ordering::Relaxed;

type Mem = PoolMem<CoreRecord, CORE_RECORDS>;
type QueuePtr = super::mem::QueuePtr;

const CAPACITY: u32 = CORE_RECORDS as u32;
/// As in the record lanes: the buffer's count is stamped every eighth dispatch.
const SYNC_EVERY: u32 = 8;
/// No token is this large.
const NO_GATE: u64 = u64::MAX;

/// One core's stream, as its AICPU thread sees it.
#[derive(Debug)]
pub(super) struct CoreLane {
    /// Dispatches until the cold path is needed again.
    left: u32,
    /// Dispatches that the last cold path granted.
    granted: u32,
    /// The token whose ACK or FIN releases the stash.
    gate: u64,
    lane: Lane<Mem>,
    /// Slots used in the active buffer as of the last cold path.
    used: u32,
    has_buffer: bool,
    stash: DeviceAddr,
    stash_seq: u32,
    /// Slots in buffers before the active one.
    before: u32,
    dropped: u32,
    core: u32,
}

impl CoreLane {
    /// A lane that drops everything.
    pub(super) const CLOSED: Self = CoreLane {
        left: 0,
        granted: 0,
        gate: NO_GATE,
        lane: Lane::new(Mem::DANGLING),
        used: 0,
        has_buffer: false,
        stash: DeviceAddr::NULL,
        stash_seq: 0,
        before: 0,
        dropped: 0,
        core: 0,
    };

    /// Opens the lane over `mem` and takes a first buffer if one is there; it never waits.
    pub(super) fn open(mem: Mem, core: u32) -> Self {
        let mut lane = CoreLane { lane: Lane::new(mem), core, ..Self::CLOSED };
        if let Some(buffer) = lane.lane.try_take() {
            lane.lane.activate(buffer, 0);
            lane.has_buffer = true;
        }
        lane
    }

    /// Before `token` is written to the core's dispatch register.
    ///
    /// # Safety
    /// The lane is open and its caller is its only user.
    #[inline(always)]
    pub(super) unsafe fn on_dispatch<'p, C: Clock + 'p>(
        &mut self,
        token: u32,
        port: impl FnOnce() -> Port<'p, QueuePtr, C>,
    ) {
        if self.left == 0 {
            self.dispatch_cold(token, port());
        } else {
            self.left -= 1;
        }
    }

    /// When the core's condition register shows `token` acknowledged or finished.
    ///
    /// # Safety
    /// The lane is open and its caller is its only user.
    #[inline(always)]
    pub(super) unsafe fn on_ack<'p, C: Clock + 'p>(
        &mut self,
        token: u32,
        port: impl FnOnce() -> Port<'p, QueuePtr, C>,
    ) {
        if self.gate == u64::from(token) {
            self.ack_cold(port());
        }
    }

    #[cold]
    #[inline(never)]
    fn dispatch_cold<C: Clock>(&mut self, token: u32, mut port: Port<'_, QueuePtr, C>) {
        self.settle();
        if (!self.has_buffer || self.used == CAPACITY) && !self.rotate(token, &mut port) {
            // The core finds no slot for this token either: both sides count the same slots.
            self.dropped = self.dropped.wrapping_add(1);
            self.totals();
            return;
        }
        self.used += 1;
        self.stamp();
        self.granted = (SYNC_EVERY - 1).min(CAPACITY - self.used);
        self.left = self.granted;
    }

    #[cold]
    #[inline(never)]
    fn ack_cold<C: Clock>(&mut self, mut port: Port<'_, QueuePtr, C>) {
        self.gate = NO_GATE;
        self.send_stash(&mut port);
    }

    /// Accounts for the dispatches since the last cold path.
    fn settle(&mut self) {
        self.used += self.granted - self.left;
        self.granted = self.left;
    }

    /// Stashes the full buffer behind the boundary `token` and activates an empty one.
    fn rotate<C: Clock>(&mut self, token: u32, port: &mut Port<'_, QueuePtr, C>) -> bool {
        // A stash from 1024 dispatches ago has passed its gate long since (at most one dispatch is unacknowledged); it
        // is still here only if its publication failed, or nobody reports ACKs.
        if !self.send_stash(port) {
            return false;
        }
        let Some(buffer) = self.lane.take(port) else {
            return false;
        };
        let mut seq = self.lane.seq();
        if self.has_buffer {
            self.stash = DeviceAddr(self.lane.mem().current_ptr().load(Relaxed));
            self.stash_seq = seq;
            self.gate = u64::from(token);
            let head = self.lane.mem().head();
            head.stash_seq.store(seq, Relaxed);
            head.stash_ptr.store(self.stash.0, Relaxed);
            self.lane.mem().count(self.stash).store(CAPACITY, Relaxed);
            self.before = self.before.wrapping_add(CAPACITY);
        }
        // A new number even after a lane that never had a buffer: the core looks at the pointer only when it changes.
        seq = seq.wrapping_add(1);
        self.lane.activate(buffer, seq);
        self.has_buffer = true;
        self.used = 0;
        self.totals();
        true
    }

    /// Publishes the stash if there is one. `false`: it is still here.
    fn send_stash<C: Clock>(&mut self, port: &mut Port<'_, QueuePtr, C>) -> bool {
        if self.stash.is_null() {
            return true;
        }
        let entry = self.entry(self.stash, self.stash_seq, 0);
        if !self.lane.push(port, &entry) {
            return false;
        }
        self.stash = DeviceAddr::NULL;
        self.gate = NO_GATE;
        self.lane.mem().head().stash_ptr.store(0, Relaxed);
        true
    }

    fn entry(&self, buffer: DeviceAddr, seq: u32, flags: u32) -> Entry {
        Entry { index: self.core, kind: BufferKind::AicoreTask as u32, buffer, seq, flags }
    }

    /// Stamps the active buffer's count: slots that the core was told to use.
    fn stamp(&self) {
        let mem = self.lane.mem();
        mem.count(DeviceAddr(mem.current_ptr().load(Relaxed))).store(self.used, Relaxed);
    }

    /// Publishes the totals. They lie on the line that the core reads: only at rotation, flush, drop and sync.
    fn totals(&self) {
        let mem = self.lane.mem();
        let used = if self.has_buffer { self.used } else { 0 };
        mem.total().store(self.before.wrapping_add(used).wrapping_add(self.dropped), Relaxed);
        mem.dropped().store(self.dropped, Relaxed);
    }

    /// Makes counts and totals visible.
    pub(super) fn sync(&mut self) {
        self.settle();
        if self.has_buffer {
            self.stamp();
        }
        self.totals();
    }

    /// Publishes the stash and the active buffer. The core may still be committing its last record: the entry says so.
    pub(super) fn flush<C: Clock>(&mut self, mut port: Port<'_, QueuePtr, C>) {
        self.sync();
        self.send_stash(&mut port);
        if !self.has_buffer || self.used == 0 {
            return;
        }
        let buffer = DeviceAddr(self.lane.mem().current_ptr().load(Relaxed));
        let entry = self.entry(buffer, self.lane.seq(), ENTRY_FLUSHED);
        if self.lane.publish(&mut port, &entry) {
            self.before = self.before.wrapping_add(self.used);
            self.used = 0;
            self.has_buffer = false;
            self.left = 0;
            self.granted = 0;
        }
    }
}
