//! Dumped arguments: their records are held until the manifest is written, their payload goes straight into `args.bin`.
//!
//! ```text
//! buffer of records ─▶ take: checked, held (104 bytes each), payloads that abut become a run
//!                                                                   │ in the order of the buffers
//! arena ──── plan: pieces of at most 256 KiB, under the budget ──▶ pen ──▶ args.bin (under its temporary name)
//!   ▲                                                               │
//!   └─────── land: settled, and the arena acknowledged up to here ◀─┘
//! ```
//!
//! A payload is written once, from where it lies (or through a block where the host may only copy), and its place in the
//! file is fixed when its turn comes: the file's order is the order in which buffers were drained. What fails on the
//! device's side is tried again a bounded number of times, payload by payload in the end; a payload ends where that still
//! fails, and leaves a hole in the file. What fails on the file's side ends the file, and all further payload is given up
//! at once, so that the device never waits for a full disk. Nothing of either touches the records.

pub mod budget;
pub mod manifest;
mod outcome;
mod pen;
mod records;
mod scalar;
mod writer;

#[cfg(test)]
mod golden_tests;

pub use budget::DumpBudget;
pub use outcome::Outcome;
pub(crate) use pen::Pen;

use crate::artifact::{ArtifactError, DirectFile};
use crate::transport::Transport;
use budget::{Bucket, Meter};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::args_dump::{Level, Record};
use dfx_collector::abi::layout::ARENA;
use records::{Held, Store, mark};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The payload's file in the output directory.
pub const BIN_NAME: &str = "args_dump/args.bin";

/// Buffers that wait for one with a smaller number: more can't be out of order in a ready queue.
const PARKED: usize = 4;

/// A source of time in ns; only differences matter.
pub type NowNs = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How the payload fares, live.
#[derive(Debug, Default)]
pub struct Flow {
    drained: AtomicU64,
    backlog: AtomicU64,
    rate: AtomicU64,
}

impl Flow {
    /// Payload bytes that were read from the device so far, saved or given up.
    pub fn drained(&self) -> u64 {
        self.drained.load(Ordering::Relaxed)
    }

    /// Payload bytes that the device has handed over and that are not in the file yet.
    pub fn backlog(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// The drain's rate of late, in bytes per second; 0 while none was measured.
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }
}

/// What a dump is set up with.
pub(crate) struct Setup {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) pen: Pen,
    pub(crate) level: Level,
    pub(crate) budget: DumpBudget,
    pub(crate) arena_bytes: u64,
    /// Per thread: its lane's state, its arena.
    pub(crate) threads: Vec<(DeviceAddr, DeviceAddr)>,
    /// Bytes of `args.bin` that fit on the disk, for fault plans.
    pub(crate) room: Option<u64>,
}

/// Payloads of one thread, one behind the other in its arena.
#[derive(Clone, Copy, Debug)]
struct Run {
    thread: u32,
    /// The places of its records, others between them.
    first: u32,
    last: u32,
    payloads: u32,
    /// In the arena's count of bytes.
    offset: u64,
    bytes: u64,
    /// Handed to the pen so far.
    done: u64,
    /// Where it begins in the file, once it has begun.
    base: u64,
}

/// What is to be done once all that was handed to the pen before is in the file.
#[derive(Debug)]
struct Flight {
    /// Whether it stands for a piece that the pen has.
    piece: bool,
    run: Run,
    /// Up to here the thread's arena is free then, in its count of bytes.
    end: u64,
    /// Bytes that no longer wait then.
    bytes: u64,
    /// If the run ends with it.
    settle: Option<Settle>,
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
struct Settle {
    /// What of it went to the pen: its first so many bytes, holes among them.
    saved: u64,
    /// The place of a record whose payload was overwritten.
    bereaved: Option<u32>,
}

/// One thread's arena as the host sees it.
#[derive(Debug, Default)]
struct Thread {
    state: DeviceAddr,
    arena: DeviceAddr,
    /// The buffer that comes next.
    next_seq: u32,
    parked: BTreeMap<u32, Vec<Run>>,
    largest_end: u64,
    /// Given back to the device, and as far as it was told.
    acknowledged: u64,
    told: u64,
    completed: u64,
    /// In records that carry a payload; in references; both as they came.
    carried: u64,
    referred: u64,
    shed: u64,
}

/// Where the payload goes.
#[derive(Debug)]
enum Sink {
    Closed,
    Open(DirectFile),
    Failed(ArtifactError),
}

/// What a buffer came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Took {
    /// Records kept.
    pub(crate) kept: usize,
    /// Of these: with something that cannot be.
    pub(crate) corrupt: usize,
    /// Of these: of a type that there is not.
    pub(crate) unknown_dtype: usize,
}

/// The host's half of the args dump.
pub(crate) struct Dump {
    transport: Arc<dyn Transport>,
    pen: Arc<Pen>,
    /// Whether somebody else moves the pen.
    beside: bool,
    level: Level,
    arena_bytes: u64,
    threads: Vec<Thread>,
    stores: Vec<Store>,
    runs: VecDeque<Run>,
    flight: VecDeque<Flight>,
    sink: Sink,
    output: Option<PathBuf>,
    room: Option<u64>,
    ceiling: Option<u64>,
    bucket: Option<Bucket>,
    meter: Meter,
    now: NowNs,
    idle: u32,
    /// Payload bytes given up on the way.
    lost: u64,
    /// Bytes that are in the file, and where the last of them ends: what could not be transferred leaves a hole.
    saved: u64,
    filled: u64,
    /// References that name nothing.
    dangling: u64,
    flow: Arc<Flow>,
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dump")
            .field("threads", &self.threads)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

impl Dump {
    pub(crate) fn new(setup: Setup) -> Dump {
        let start = std::time::Instant::now();
        let thread =
            |&(state, arena): &(DeviceAddr, DeviceAddr)| Thread { state, arena, ..Thread::default() };
        let ceiling = setup.budget.ceiling();
        Dump {
            transport: setup.transport,
            pen: Arc::new(setup.pen),
            beside: false,
            level: setup.level,
            arena_bytes: setup.arena_bytes,
            threads: setup.threads.iter().map(thread).collect(),
            stores: setup.threads.iter().map(|_| Store::default()).collect(),
            runs: VecDeque::new(),
            flight: VecDeque::new(),
            sink: Sink::Closed,
            output: None,
            room: setup.room,
            ceiling,
            bucket: ceiling.map(Bucket::new),
            meter: Meter::default(),
            now: Arc::new(move || start.elapsed().as_nanos() as u64),
            idle: 0,
            lost: 0,
            saved: 0,
            filled: 0,
            dangling: 0,
            flow: Arc::default(),
        }
    }

    /// Where `args.bin` will be.
    pub(crate) fn set_output(&mut self, dir: PathBuf) {
        self.output = Some(dir);
    }

    pub(crate) fn has_output(&self) -> bool {
        self.output.is_some()
    }

    pub(crate) fn set_clock(&mut self, now: NowNs) {
        self.now = now;
    }

    pub(crate) fn pen(&self) -> Arc<Pen> {
        Arc::clone(&self.pen)
    }

    /// Whether somebody else moves the pen; otherwise it is moved by whoever plans.
    pub(crate) fn set_beside(&mut self, beside: bool) {
        self.beside = beside;
    }

    pub(crate) fn flow(&self) -> Arc<Flow> {
        Arc::clone(&self.flow)
    }

    /// Checks and holds the records of buffer `seq` of `thread`; their payload waits for its turn.
    pub(crate) fn take(&mut self, thread: usize, seq: u32, rows: &[Record]) -> Took {
        let mut took = Took::default();
        if thread >= self.threads.len() {
            return took;
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut bytes = 0;
        for row in rows {
            let (mut held, mut flaws) = Held::of(row);
            if held.is(mark::CARRIES) {
                match self.place(thread, held.value, held.payload) {
                    Placed::Whole => bytes += held.payload,
                    Placed::Overwritten => held.bereave(mark::OVERWRITTEN),
                    Placed::Nowhere => {
                        flaws.corrupt = true;
                        self.lost += held.payload.min(self.arena_bytes);
                        held.bereave(mark::TRUNCATED);
                    }
                }
            }
            if held.is(mark::REFERS) && held.payload > self.arena_bytes {
                flaws.corrupt = true;
                held.bereave(mark::TRUNCATED);
            }
            if held.is(mark::CARRIES) {
                held.marks |= mark::IN_RUN;
            }
            let owner = &mut self.threads[thread];
            owner.referred += if held.is(mark::REFERS) { held.payload } else { 0 };
            owner.shed += u64::from(held.is(mark::SHED));
            took.kept += 1;
            took.corrupt += usize::from(flaws.corrupt);
            took.unknown_dtype += usize::from(flaws.unknown_dtype);
            let place = self.stores[thread].push(seq, held);
            if held.is(mark::CARRIES) {
                owner.carried += held.payload;
                self.extend(&mut runs, thread, place, held);
            }
        }
        if bytes > 0 {
            self.meter.waiting((self.now)());
            self.flow.backlog.fetch_add(bytes, Ordering::Relaxed);
        }
        self.enqueue(thread, seq, runs);
        took
    }

    /// Where a payload lies, if it lies in the arena and is still there.
    fn place(&mut self, thread: usize, offset: u64, bytes: u64) -> Placed {
        let size = self.arena_bytes;
        let owner = &mut self.threads[thread];
        let Some(end) = offset.checked_add(bytes).filter(|_| bytes <= size && offset % size + bytes <= size)
        else {
            return Placed::Nowhere;
        };
        if offset > owner.largest_end.saturating_add(size) {
            // More than a lap beyond all that was heard of: buffers are missing, or the offset is nonsense.
            let written = self.transport.load_u64(owner.state.offset(ARENA.write_offset as u64));
            if written.is_ok_and(|written| end > written) {
                return Placed::Nowhere;
            }
        }
        if offset < owner.acknowledged || offset.saturating_add(size) < owner.largest_end {
            return Placed::Overwritten;
        }
        owner.largest_end = owner.largest_end.max(end);
        Placed::Whole
    }

    /// Adds a payload to the run that it abuts.
    fn extend(&self, runs: &mut Vec<Run>, thread: usize, place: u32, held: Held) {
        let size = self.arena_bytes;
        let (offset, bytes) = (held.value, held.payload);
        if let Some(run) = runs.last_mut()
            && run.offset + run.bytes == offset
            && run.offset / size == (offset + bytes - 1) / size
        {
            run.last = place;
            run.payloads += 1;
            run.bytes += bytes;
            return;
        }
        let thread = thread as u32;
        runs.push(Run { thread, first: place, last: place, payloads: 1, offset, bytes, done: 0, base: 0 });
    }

    /// Gives runs their turn in the order of their buffers: an acknowledgement is for all that came before.
    fn enqueue(&mut self, thread: usize, seq: u32, runs: Vec<Run>) {
        let owner = &mut self.threads[thread];
        if seq > owner.next_seq {
            owner.parked.entry(seq).or_default().extend(runs);
            if owner.parked.len() > PARKED {
                self.release(thread);
            }
            return;
        }
        self.runs.extend(runs);
        if seq == owner.next_seq {
            owner.next_seq = seq.saturating_add(1);
            while let Some(runs) = owner.parked.remove(&owner.next_seq) {
                self.runs.extend(runs);
                owner.next_seq = owner.next_seq.saturating_add(1);
            }
        }
    }

    /// Waits no longer for buffers that are missing.
    fn release(&mut self, thread: usize) {
        let owner = &mut self.threads[thread];
        for (seq, runs) in std::mem::take(&mut owner.parked) {
            owner.next_seq = seq.saturating_add(1);
            self.runs.extend(runs);
        }
    }
}

/// What became of a payload's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Placed {
    Whole,
    Overwritten,
    Nowhere,
}
