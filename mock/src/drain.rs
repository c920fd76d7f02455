//! A host that drains a [`Region`], with knobs.

use crate::host::{FreeEnd, QueueEnd, active};
use crate::region::Region;
use crate::rows::{LaneKey, Row};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::layout::BufferLayout;
use dfx_collector::abi::swimlane::{
    BufferKind, CORE_RECORDS, CoreRecord, ENTRY_FLUSHED, OrchPhaseRecord, SchedPhaseRecord, TaskRecord,
};
use dfx_collector::fence;
use dfx_collector::lane::Entry;
use dfx_collector::swimlane::engine::PoolMem;
use dfx_collector::sync::{AtomicU32, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

type AnyLane = PoolMem<CoreRecord, CORE_RECORDS>;

/// What a buffer held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its sequence number.
    pub seq: u32,
    /// Its entry's flags.
    pub flags: u32,
    /// Found unpublished after the end.
    pub recovered: bool,
    /// The serial numbers of its records, in order.
    pub serials: Vec<u32>,
    /// Records that the count promised and that are not there.
    pub missing: u32,
}

/// The host's half of a lane.
#[derive(Debug)]
pub struct HostLane {
    /// Whose.
    pub key: LaneKey,
    /// What came, in the order of arrival.
    pub taken: Vec<Taken>,
    /// Buffers that the host holds.
    pub spare: VecDeque<DeviceAddr>,
    with_device: Vec<DeviceAddr>,
    late: Vec<Entry>,
    free: FreeEnd,
}

/// A lane's books after the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Whose.
    pub key: LaneKey,
    /// As the device says.
    pub total: u32,
    /// As the device says.
    pub dropped: u32,
    /// Records in published buffers.
    pub collected: u32,
    /// Records in buffers found after the end.
    pub recovered: u32,
    /// Records that published counts promised and that were not there.
    pub missing: u32,
    /// All serial numbers, by buffer.
    pub serials: Vec<u32>,
}

/// A host with knobs.
#[derive(Debug)]
pub struct MockHost {
    region: Arc<Region>,
    queues: Vec<QueueEnd>,
    /// All lanes.
    pub lanes: Vec<HostLane>,
    /// Whether it takes ready entries.
    pub drains: bool,
    /// Whether it offers empty buffers.
    pub refills: bool,
    /// Whether it offers a null slot before each buffer.
    pub null_slots: bool,
    /// Whether it looks at the records. Benches do without.
    pub checks: bool,
    /// Entries taken so far.
    pub entries: u32,
}

impl MockHost {
    /// A willing host of `region`, which has just been formatted. Offers nothing yet.
    pub fn new(region: &Arc<Region>) -> Self {
        let lanes =
            region.buffers.iter().filter(|(key, _)| region.has(*key)).map(|(key, buffers)| HostLane {
                key: *key,
                taken: Vec::new(),
                spare: buffers.iter().take(region.pool_size(key.0)).map(|buffer| buffer.addr(0)).collect(),
                with_device: Vec::new(),
                late: Vec::new(),
                free: FreeEnd::default(),
            });
        let lanes = lanes.collect();
        let queues = vec![QueueEnd::default(); region.layout.queue.threads as usize];
        let region = Arc::clone(region);
        MockHost {
            region,
            queues,
            lanes,
            drains: true,
            refills: true,
            null_slots: false,
            checks: true,
            entries: 0,
        }
    }

    /// The lane `key`.
    pub fn lane(&mut self, key: LaneKey) -> &mut HostLane {
        self.lanes.iter_mut().find(|lane| lane.key == key).expect("a lane of this region")
    }

    /// Lets the device believe that the queue of `thread` has room for `room` entries only.
    pub fn limit(&mut self, thread: u32, room: u32) {
        self.queues[thread as usize].limit(&self.region.queue(thread), room);
    }

    /// Offers what there is and takes at most `most` entries of each queue. Returns how much it did.
    pub fn step(&mut self, most: u32) -> u32 {
        let mut done = 0;
        if self.drains {
            for thread in 0..self.queues.len() {
                done += self.drain(thread, most);
            }
        }
        done + if self.refills { self.refill() } else { 0 }
    }

    fn drain(&mut self, thread: usize, most: u32) -> u32 {
        let queue = self.region.queue(thread as u32);
        let mut done = 0;
        while done < most
            && let Some(entry) = self.queues[thread].peek(&queue)
        {
            self.accept(&entry);
            self.queues[thread].acknowledge(&queue);
            done += 1;
        }
        self.entries += done;
        done
    }

    fn accept(&mut self, entry: &Entry) {
        let kind = BufferKind::from_raw(entry.kind).expect("a kind");
        let checks = self.checks;
        let lane = self.lane((kind, entry.index));
        let place = lane.with_device.iter().position(|&at| at == entry.buffer);
        let place = place.unwrap_or_else(|| {
            panic!("{entry:?} is not with the device: published twice, or another lane's")
        });
        lane.with_device.swap_remove(place);
        if entry.flags & ENTRY_FLUSHED != 0 {
            assert_eq!(kind, BufferKind::AicoreTask, "only a core's buffer is decoded late: {entry:?}");
            lane.late.push(*entry);
            return;
        }
        if checks {
            let taken = decode(lane.key, entry, None);
            lane.taken.push(taken);
        }
        recycle(lane, entry.buffer);
    }

    /// Offers every spare buffer that its free queue has room for. Returns how many.
    pub fn refill(&mut self) -> u32 {
        let mut done = 0;
        for lane in &mut self.lanes {
            let mem: AnyLane = self.region.lane(lane.key);
            while let Some(&buffer) = lane.spare.front() {
                if self.null_slots && !lane.free.offer(&mem, DeviceAddr::NULL) {
                    break;
                }
                if !lane.free.offer(&mem, buffer) {
                    break;
                }
                lane.spare.pop_front();
                lane.with_device.push(buffer);
                done += 1;
            }
        }
        done
    }

    /// Opens or closes the freeze of the ready queues and of the free queues.
    pub fn freeze(&self, ready: bool, free: bool) {
        let words = self.region.backpressure();
        fence::publish(&words.rq_freeze_active, u32::from(ready));
        fence::publish(&words.fq_freeze_active, u32::from(free));
    }

    /// Clears what the device raised; returns it: ready queue full, free queue empty.
    pub fn contended(&self) -> (bool, bool) {
        let words = self.region.backpressure();
        (
            words.rq_contended.swap(0, Ordering::Relaxed) != 0,
            words.fq_contended.swap(0, Ordering::Relaxed) != 0,
        )
    }

    /// After the device has come to rest: takes all that is published, decodes what had to wait, recovers what was never
    /// published, and returns the books.
    pub fn finish(&mut self) -> Vec<Account> {
        for thread in 0..self.queues.len() {
            self.drain(thread, u32::MAX);
        }
        let region = Arc::clone(&self.region);
        let mut books = Vec::new();
        for lane in &mut self.lanes {
            for entry in std::mem::take(&mut lane.late) {
                let taken = decode(lane.key, &entry, None);
                lane.taken.push(taken);
            }
            let pool = region.pool(lane.key);
            let stash = DeviceAddr(pool.head.stash_ptr.load(Ordering::Relaxed));
            if lane.with_device.contains(&stash) {
                recover(lane, stash, pool.head.stash_seq.load(Ordering::Relaxed));
            }
            if let (seq, Some(buffer)) = active::<AnyLane>(&region.lane(lane.key)) {
                recover(lane, buffer, seq);
            }
            books.push(account(lane, &pool.head));
        }
        books
    }
}

fn account(lane: &HostLane, head: &dfx_collector::abi::swimlane::ActiveHead) -> Account {
    let mut taken: Vec<&Taken> = lane.taken.iter().collect();
    taken.sort_by_key(|taken| taken.seq);
    assert!(
        taken.windows(2).all(|pair| pair[0].seq < pair[1].seq),
        "{:?}: a sequence number came twice",
        lane.key
    );
    let sum = |recovered: bool| {
        taken
            .iter()
            .filter(|taken| taken.recovered == recovered)
            .map(|taken| taken.serials.len() as u32)
            .sum()
    };
    Account {
        key: lane.key,
        total: head.total_record_count.load(Ordering::Relaxed),
        dropped: head.dropped_record_count.load(Ordering::Relaxed),
        collected: sum(false),
        recovered: sum(true),
        missing: taken.iter().map(|taken| taken.missing).sum(),
        serials: taken.iter().map(|taken| taken.serials.as_slice()).collect::<Vec<_>>().concat(),
    }
}

impl Account {
    /// Panics unless the lane produced `produced` records and each is collected, recovered, missing or dropped, none
    /// twice, in order.
    pub fn assert_conserved(&self, produced: u32) {
        let held = self.collected + self.recovered;
        assert_eq!(self.total, produced, "{:?}: the device's total, in {self:?}", self.key);
        assert_eq!(held + self.dropped + self.missing, produced, "{:?}: the books do not balance", self.key);
        let ordered = self.serials.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(
            ordered && self.serials.last().is_none_or(|&last| last < produced),
            "{:?}: order lost",
            self.key
        );
    }

    /// Panics unless the lane produced `produced` records and every one is there.
    pub fn assert_whole(&self, produced: u32) {
        self.assert_conserved(produced);
        assert_eq!((self.dropped, self.missing), (0, 0), "{:?}: records are gone", self.key);
    }
}

fn recycle(lane: &mut HostLane, buffer: DeviceAddr) {
    if lane.key.0 == BufferKind::AicoreTask {
        let bytes = BufferLayout::swimlane(lane.key.0).bytes;
        // SAFETY: the buffer is a core buffer and the host's.
        unsafe { (buffer.0 as *mut u8).write_bytes(0, bytes) }
    }
    lane.spare.push_back(buffer);
}

fn recover(lane: &mut HostLane, buffer: DeviceAddr, seq: u32) {
    let place = lane.with_device.iter().position(|&at| at == buffer);
    lane.with_device.swap_remove(place.expect("an active buffer is with the device"));
    let entry = Entry { index: lane.key.1, kind: lane.key.0 as u32, buffer, seq, flags: 0 };
    // A core may have committed more than AICPU counted: every row is looked at.
    let all = (lane.key.0 == BufferKind::AicoreTask).then_some(CORE_RECORDS as u32);
    let mut taken = decode(lane.key, &entry, all);
    taken.recovered = true;
    if all.is_some() {
        let promised = decode_count(lane.key, buffer);
        taken.missing = promised.saturating_sub(taken.serials.len() as u32);
    }
    lane.taken.push(taken);
}

/// Reads `rows` rows of a buffer, or as many as its count says.
pub fn decode(lane: LaneKey, entry: &Entry, rows: Option<u32>) -> Taken {
    let layout = BufferLayout::swimlane(lane.0);
    let at = entry.buffer.0 as *const u8;
    let count = rows.unwrap_or_else(|| decode_count(lane, entry.buffer));
    assert!(count <= layout.capacity, "{entry:?}: count {count} is beyond {}", layout.capacity);
    // SAFETY: the rows of a buffer of this kind; those that are counted (or present) have been written.
    let (serials, missing) = unsafe {
        match lane.0 {
            BufferKind::AicpuTask => read(lane, at.cast::<TaskRecord>(), count),
            BufferKind::AicpuSchedPhase => read(lane, at.cast::<SchedPhaseRecord>(), count),
            BufferKind::AicpuOrchPhase => read(lane, at.cast::<OrchPhaseRecord>(), count),
            BufferKind::AicoreTask => read_core(lane, at.cast::<CoreRecord>(), count),
        }
    };
    Taken { seq: entry.seq, flags: entry.flags, recovered: false, serials, missing }
}

fn decode_count(lane: LaneKey, buffer: DeviceAddr) -> u32 {
    let at = buffer.offset(BufferLayout::swimlane(lane.0).count as u64).0 as *const AtomicU32;
    // SYNC POINT: a record lane releases the count of an unpublished buffer (`RecordLane::sync`).
    // SAFETY: the count word of a buffer of this kind.
    fence::observe(unsafe { &*at })
}

unsafe fn read<R: Row>(lane: LaneKey, rows: *const R, count: u32) -> (Vec<u32>, u32) {
    let serial = |index: u32| {
        // SAFETY: the caller vouched for `count` rows.
        let row = unsafe { rows.add(index as usize).read() };
        row.check(lane).unwrap_or_else(|| panic!("{lane:?}: row {index} of {count} is torn or foreign"))
    };
    ((0..count).map(serial).collect(), 0)
}

unsafe fn read_core(lane: LaneKey, rows: *const CoreRecord, count: u32) -> (Vec<u32>, u32) {
    let mut serials = Vec::with_capacity(count as usize);
    for index in 0..count {
        // SAFETY: the caller vouched for `count` rows; a start time that is there was released after its row.
        unsafe {
            let row = rows.add(index as usize).cast_mut();
            if AtomicU64::from_ptr(&raw mut (*row).start_time).load(Ordering::Acquire) != 0 {
                let serial = row.read().check(lane);
                serials.push(
                    serial.unwrap_or_else(|| panic!("{lane:?}: row {index} of {count} is torn or foreign")),
                );
            }
        }
    }
    let missing = count - serials.len() as u32;
    (serials, missing)
}
