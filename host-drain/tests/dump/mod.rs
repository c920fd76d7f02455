//! A device half for tests of the dump's host half: it writes records and payload as the contract in
//! `dfx_collector::abi::args_dump` says, with nothing shared with the collector's own code.

#![allow(dead_code)] // each test binary uses its part

#[path = "../hostile/memory.rs"]
pub(crate) mod memory;

use dfx_collector::abi::args_dump::{FLAG_REFERENCE, FLAG_SHED, Kind, Level, Record};
use dfx_collector::abi::layout::{ARENA, ARGS_DUMP_LANE, ArgsDumpLayout, BufferLayout};
use dfx_collector::abi::{Platform, peer};
use dfx_host_drain::report::{DumpReport, Reason, StreamReport};
use dfx_host_drain::{
    Board, DeviceEnd, DfxConfig, Drive, DumpBudget, ExportError, PoolSizes, Session, SessionSpec,
    TransportKind,
};
use memory::{Memory, long, word};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerocopy::IntoBytes;

/// A session that dumps, and its memory.
pub(crate) struct Rig {
    pub(crate) memory: Arc<Memory>,
    pub(crate) session: Session,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn config(level: Level, arena: u64) -> DfxConfig {
    DfxConfig {
        dump_args: level,
        dump_arena_bytes: arena,
        dump_budget: DumpBudget::Unlimited,
        pools: PoolSizes { dump: 4, ..PoolSizes::all(1) },
        ..DfxConfig::default()
    }
}

impl Rig {
    pub(crate) fn new(platform: Platform, transport: TransportKind, config: DfxConfig, threads: u32) -> Rig {
        let memory = Arc::new(Memory::default());
        let board = Board { platform, core_is_aic: vec![true], aicpu_threads: threads };
        let spec = SessionSpec { config, board, memory: memory.clone(), transport };
        let mut session = Session::configure(spec).expect("a session");
        let dir = tempfile::tempdir().expect("a directory");
        session.set_output(dir.path()).expect("just configured");
        Rig { memory, session, dir }
    }

    pub(crate) fn producers(&self) -> Vec<Producer> {
        let region = self.session.dump_region().expect("it dumps");
        (0..region.layout.threads).map(|thread| Producer::new(region.base.0, region.layout, thread)).collect()
    }

    /// Stops, reconciles, exports; what is left.
    pub(crate) fn end(mut self, end: DeviceEnd) -> Ended {
        self.session.stop(end).expect("it ran");
        self.session.reconcile().expect("it stopped");
        let exported = self.session.export(self.dir.path());
        let ended = Ended {
            dump: self.session.dump().expect("it dumped"),
            streams: self.session.streams().to_vec(),
            reasons: self.session.reasons().to_vec(),
            anomalies: self.session.anomalies().clone(),
            files: exported.as_ref().map(Vec::len).unwrap_or(0),
            error: exported.err(),
            dir: self.dir,
        };
        self.session.release();
        assert_eq!(self.memory.out(), (0, 0), "allocations and registrations not given back");
        assert_eq!(self.memory.outside(), 0, "ranges asked for that are not the session's");
        for stream in &ended.streams {
            assert!(stream.conserved(), "{stream:?}");
        }
        ended
    }
}

pub(crate) struct Ended {
    pub(crate) dump: DumpReport,
    pub(crate) streams: Vec<StreamReport>,
    pub(crate) reasons: Vec<Reason>,
    pub(crate) anomalies: std::collections::BTreeMap<String, u64>,
    pub(crate) files: usize,
    pub(crate) error: Option<ExportError>,
    pub(crate) dir: tempfile::TempDir,
}

impl Ended {
    pub(crate) fn bin(&self) -> Vec<u8> {
        std::fs::read(self.dir.path().join("args_dump/args.bin")).expect("there is a payload file")
    }

    pub(crate) fn manifest(&self) -> Value {
        let text =
            std::fs::read(self.dir.path().join("args_dump/args_dump.json")).expect("there is a manifest");
        serde_json::from_slice(&text).expect("it is JSON")
    }

    pub(crate) fn sum(&self, count: fn(&StreamReport) -> u64) -> u64 {
        self.streams.iter().map(count).sum()
    }

    /// Every reason why the run is not complete.
    pub(crate) fn codes(&self) -> Vec<String> {
        let judged = dfx_host_drain::report::judge(false, &self.streams, Some(&self.dump));
        self.reasons.iter().chain(&judged).map(|reason| reason.code.clone()).collect()
    }

    pub(crate) fn nothing_left(&self) -> bool {
        let dir = self.dir.path().join("args_dump");
        !dir.is_dir() || dir.read_dir().expect("a directory").next().is_none()
    }
}

/// The bytes that row `entry` of the manifest names.
pub(crate) fn payload<'a>(bin: &'a [u8], entry: &Value) -> &'a [u8] {
    let number = |key: &str| entry[key].as_u64().expect("a number") as usize;
    &bin[number("bin_offset")..][..number("bin_size")]
}

/// A tensor record of `bytes` bytes of u8.
pub(crate) fn tensor(task: u64, arg: u32, bytes: u64) -> Record {
    let mut record =
        Record { task_id: task, arg_index: arg, dtype: 5, ndims: 1, is_contiguous: 1, ..Record::default() };
    (record.shapes[0], record.strides[0], record.payload_size) = (bytes as u32, 1, bytes);
    record.func_ids[0] = (task % 7) as u16;
    record.func_count = 1;
    record
}

pub(crate) fn scalar(task: u64, arg: u32, dtype: u8, value: u64) -> Record {
    Record {
        task_id: task,
        arg_index: arg,
        dtype,
        kind: Kind::Scalar as u8,
        scalar_value: value,
        ..Record::default()
    }
}

/// One thread of the device.
pub(crate) struct Producer {
    base: u64,
    layout: ArgsDumpLayout,
    thread: u32,
    state: u64,
    buffer: u64,
    seq: u32,
    count: u32,
    pub(crate) arena: u64,
    size: u64,
    pub(crate) write: u64,
    ready: u64,
    pub(crate) total: u32,
    payload: u64,
    saved: u64,
    saved_records: u32,
    /// Reads the acknowledgement; a test may make it blind to it, to be a device that cannot be trusted.
    pub(crate) lawless: bool,
}

impl Producer {
    pub(crate) fn new(base: u64, layout: ArgsDumpLayout, thread: u32) -> Producer {
        let state = base + layout.lane(thread) as u64;
        let peer = word(base + layout.queue.peer as u64);
        peer.store(peer::with_device(peer.load(Ordering::Acquire)), Ordering::Release);
        Producer {
            base,
            layout,
            thread,
            state,
            buffer: 0,
            seq: 0,
            count: 0,
            arena: long(state + ARENA.base as u64).load(Ordering::Acquire),
            size: long(state + ARENA.size as u64).load(Ordering::Acquire),
            write: 0,
            ready: 0,
            total: 0,
            payload: 0,
            saved: 0,
            saved_records: 0,
            lawless: false,
        }
    }

    fn lane_word(&self, offset: usize) -> &'static std::sync::atomic::AtomicU32 {
        word(self.state + offset as u64)
    }

    fn lane_long(&self, offset: usize) -> &'static std::sync::atomic::AtomicU64 {
        long(self.state + offset as u64)
    }

    /// Where its payload goes.
    pub(crate) fn arena(&self) -> u64 {
        self.arena
    }

    /// Payloads that the host says it is done with.
    pub(crate) fn completed(&self) -> u64 {
        long(self.state + ARENA.completed as u64).load(Ordering::Acquire)
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.lane_long(ARENA.acknowledged).load(Ordering::Acquire)
    }

    /// Takes a buffer if there is none. `false`: none is free.
    fn buffer(&mut self) -> bool {
        if self.buffer != 0 {
            return true;
        }
        let lane = ARGS_DUMP_LANE;
        let head = self.lane_word(lane.free_head).load(Ordering::Acquire);
        if self.lane_word(lane.free_tail).load(Ordering::Acquire) == head {
            return false;
        }
        self.buffer =
            self.lane_long(lane.free_ptrs + 8 * (head % lane.slots) as usize).load(Ordering::Acquire);
        self.lane_word(lane.free_head).store(head + 1, Ordering::Release);
        self.count = 0;
        word(self.buffer + BufferLayout::args_dump().count as u64).store(0, Ordering::Release);
        self.lane_word(lane.current_seq).store(self.seq, Ordering::Release);
        self.lane_long(lane.current_ptr).store(self.buffer, Ordering::Release);
        true
    }

    /// Hands the active buffer over, if it has records. `false`: the queue is full.
    pub(crate) fn publish(&mut self) -> bool {
        self.publish_as(self.seq, 0)
    }

    /// The same under another number, so many entries further on.
    pub(crate) fn publish_as(&mut self, seq: u32, _: u32) -> bool {
        if self.buffer == 0 || self.count == 0 {
            return true;
        }
        let queue = self.layout.queue;
        let head = word(self.base + queue.heads as u64 + 4 * u64::from(self.thread));
        let tail = word(self.base + queue.tails as u64 + 4 * u64::from(self.thread));
        let at = tail.load(Ordering::Acquire);
        let next = (at + 1) % queue.entries;
        if next == head.load(Ordering::Acquire) {
            return false;
        }
        let entry = self.base + queue.entry(self.thread, at) as u64;
        word(entry).store(self.thread, Ordering::Relaxed);
        long(entry + 8).store(self.buffer, Ordering::Relaxed);
        word(entry + 16).store(seq, Ordering::Relaxed);
        self.totals();
        self.buffer = 0;
        self.seq += 1;
        self.lane_long(ARGS_DUMP_LANE.current_ptr).store(0, Ordering::Release);
        tail.store(next, Ordering::Release);
        true
    }

    fn totals(&self) {
        self.lane_word(ARGS_DUMP_LANE.total).store(self.total, Ordering::Release);
        self.lane_long(ARENA.payload_bytes).store(self.payload, Ordering::Release);
        self.lane_long(ARENA.saved_bytes).store(self.saved, Ordering::Release);
        self.lane_word(ARENA.saved_records).store(self.saved_records, Ordering::Release);
    }

    /// Records `record` as it stands. `false`: no buffer is free.
    pub(crate) fn raw(&mut self, record: &Record) -> bool {
        if !self.buffer() {
            return false;
        }
        let layout = BufferLayout::args_dump();
        let at = self.buffer + (layout.records + self.count as usize * layout.record_bytes) as u64;
        put(at, record.as_bytes());
        self.count += 1;
        self.total += 1;
        word(self.buffer + layout.count as u64).store(self.count, Ordering::Release);
        // A full queue leaves a full buffer behind: `buffer` would find no room for more.
        self.count < layout.capacity || self.publish() || { panic!("the host is stepped often enough") }
    }

    /// Records a tensor with its payload. `None`: no room now; step the host.
    pub(crate) fn tensor(&mut self, record: &Record, payload: &[u8]) -> Option<u64> {
        let bytes = payload.len() as u64;
        assert!(bytes <= self.size);
        if !self.buffer() {
            return None;
        }
        let end = self.write.next_multiple_of(self.size);
        let start = if self.write + bytes <= end || self.write == end { self.write } else { end };
        let acknowledged = self.acknowledged();
        let limit = if acknowledged >= self.write { start } else { acknowledged } + self.size;
        if bytes > 0 && start + bytes > limit && !self.lawless {
            self.publish();
            return None;
        }
        put(self.arena + start % self.size, payload);
        self.write = start + bytes;
        self.payload += bytes;
        self.lane_long(ARENA.write_offset).store(self.write, Ordering::Relaxed);
        let offset = start;
        assert!(self.raw(&Record { payload_offset: offset, payload_size: bytes, ..*record }));
        Some(offset)
    }

    /// Records a tensor whose payload is that of an earlier one.
    pub(crate) fn reference(&mut self, record: &Record, offset: u64, bytes: u64) -> bool {
        self.saved += bytes;
        self.saved_records += 1;
        let flags = record.flags | FLAG_REFERENCE;
        self.raw(&Record { payload_offset: offset, payload_size: bytes, flags, ..*record })
    }

    /// Records a tensor whose payload of `bytes` is given up.
    pub(crate) fn shed(&mut self, record: &Record, bytes: u64) -> bool {
        self.lane_long(ARENA.shed_bytes).fetch_add(bytes, Ordering::Release);
        self.lane_word(ARENA.shed_records).fetch_add(1, Ordering::Release);
        let flags = record.flags | FLAG_SHED;
        self.raw(&Record { payload_offset: 0, payload_size: 0, truncated: 1, flags, ..*record })
    }

    /// Publishes what is left, as at the end of a launch.
    pub(crate) fn flush(&mut self) {
        self.totals();
        assert!(self.publish());
    }

    /// The totals without the buffer, as after a kill that a `sync` preceded.
    pub(crate) fn sync(&self) {
        self.totals();
    }
}

fn put(at: u64, bytes: &[u8]) {
    // SAFETY: the callers' ranges lie in blocks that are live, and the host does not read them before they are handed over.
    unsafe {
        std::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            std::ptr::with_exposed_provenance_mut(at as usize),
            bytes.len(),
        );
    }
}

/// Bytes that say where they are from.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Steps until nothing is to be done.
pub(crate) fn settle(session: &Session) {
    let stepper = session.stepper();
    while stepper.step().expect("the host lives") > 0 {}
}

pub(crate) fn start(rig: &mut Rig) {
    rig.session.start(Drive::Stepped).expect("it was configured");
}

pub(crate) fn exists(dir: &Path, name: &str) -> bool {
    dir.join(name).exists()
}
