//! The args dump's payload, end to end: a producer copies tensors into its arena, the session's threads write them into
//! `args.bin`; beside it a plain sequential write of the same bytes into a file of the same directory, alternated with it
//! so that both see the same disk. The manifest, the hash and the rename come after and are timed apart.
//!
//! `DFX_BENCH_DIR` names the directory (the system's temporary one otherwise); `DFX_BENCH_MIB` the bytes of a run.

#![allow(missing_docs)] // criterion's macros

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dfx_collector::abi::args_dump::{Level, Record};
use dfx_collector::abi::layout::{ARENA, ARGS_DUMP_LANE, ArgsDumpLayout, BufferLayout};
use dfx_collector::abi::{Platform, peer};
use dfx_host_drain::{Board, DeviceEnd, DfxConfig, Drive, DumpBudget, Session, SessionSpec, TransportKind};
use dfx_sim::device::SimDevice;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// An arena as a board has it would hold all of a small run: this one wraps.
const ARENA_BYTES: u64 = 64 << 20;
/// Payload after which the active buffer is handed over, as the collector does.
const PUBLISH_BYTES: u64 = 1 << 20;

fn run_bytes() -> u64 {
    std::env::var("DFX_BENCH_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(512_u64) << 20
}

fn word(at: u64) -> &'static AtomicU32 {
    // SAFETY: the callers' words lie in the session's region, are aligned, and are reached through atomics only.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize)) }
}

fn long(at: u64) -> &'static AtomicU64 {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize)) }
}

fn copy(to: u64, from: &[u8]) {
    // SAFETY: the callers' ranges are the producer's own until they are handed over.
    unsafe {
        std::ptr::copy_nonoverlapping(
            from.as_ptr(),
            std::ptr::with_exposed_provenance_mut(to as usize),
            from.len(),
        );
    }
}

/// The least of a device that keeps the contract: one thread, one arena, one copy per tensor.
struct Producer {
    base: u64,
    layout: ArgsDumpLayout,
    state: u64,
    buffer: u64,
    count: u32,
    seq: u32,
    write: u64,
    limit: u64,
    published: u64,
    total: u32,
    payload: u64,
}

impl Producer {
    fn new(base: u64, layout: ArgsDumpLayout) -> Producer {
        let word = word(base + layout.queue.peer as u64);
        word.store(peer::with_device(word.load(Ordering::Acquire)), Ordering::Release);
        let state = base + layout.lane(0) as u64;
        Producer {
            base,
            layout,
            state,
            buffer: 0,
            count: 0,
            seq: 0,
            write: 0,
            limit: ARENA_BYTES,
            published: 0,
            total: 0,
            payload: 0,
        }
    }

    fn publish(&mut self) {
        if self.buffer == 0 || self.count == 0 {
            return;
        }
        let queue = self.layout.queue;
        let (head, tail) = (word(self.base + queue.heads as u64), word(self.base + queue.tails as u64));
        let at = tail.load(Ordering::Acquire);
        let next = (at + 1) % queue.entries;
        while next == head.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let entry = self.base + queue.entry(0, at) as u64;
        word(entry).store(0, Ordering::Relaxed);
        long(entry + 8).store(self.buffer, Ordering::Relaxed);
        word(entry + 16).store(self.seq, Ordering::Relaxed);
        long(self.state + ARGS_DUMP_LANE.current_ptr as u64).store(0, Ordering::Release);
        word(self.state + ARGS_DUMP_LANE.total as u64).store(self.total, Ordering::Release);
        long(self.state + ARENA.payload_bytes as u64).store(self.payload, Ordering::Release);
        tail.store(next, Ordering::Release);
        (self.buffer, self.seq, self.published) = (0, self.seq + 1, self.write);
    }

    fn take(&mut self) {
        let lane = ARGS_DUMP_LANE;
        let head = word(self.state + lane.free_head as u64);
        let at = head.load(Ordering::Acquire);
        while word(self.state + lane.free_tail as u64).load(Ordering::Acquire) == at {
            std::thread::yield_now();
        }
        let slot = self.state + (lane.free_ptrs + 8 * (at % lane.slots) as usize) as u64;
        self.buffer = long(slot).load(Ordering::Acquire);
        head.store(at + 1, Ordering::Release);
        self.count = 0;
        word(self.state + lane.current_seq as u64).store(self.seq, Ordering::Release);
        long(self.state + lane.current_ptr as u64).store(self.buffer, Ordering::Release);
    }

    fn tensor(&mut self, task: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        let end = self.write.next_multiple_of(ARENA_BYTES);
        let start = if self.write + len <= end || self.write == end { self.write } else { end };
        if start + len > self.limit {
            self.publish();
            while start + len > self.limit {
                let acknowledged = long(self.state + ARENA.acknowledged as u64).load(Ordering::Acquire);
                self.limit = if acknowledged >= self.write { start } else { acknowledged } + ARENA_BYTES;
                std::thread::yield_now();
            }
        }
        if self.buffer == 0 {
            self.take();
        }
        let arena = long(self.state + ARENA.base as u64).load(Ordering::Relaxed);
        copy(arena + start % ARENA_BYTES, bytes);
        (self.write, self.payload) = (start + len, self.payload + len);
        long(self.state + ARENA.write_offset as u64).store(self.write, Ordering::Relaxed);
        let layout = BufferLayout::args_dump();
        let record =
            Record { task_id: task, payload_offset: start, payload_size: len, ndims: 1, ..Record::default() };
        copy(
            self.buffer + (layout.records + self.count as usize * layout.record_bytes) as u64,
            record.as_bytes(),
        );
        (self.count, self.total) = (self.count + 1, self.total + 1);
        word(self.buffer + layout.count as u64).store(self.count, Ordering::Release);
        if self.count == layout.capacity || self.write - self.published >= PUBLISH_BYTES {
            self.publish();
        }
    }
}

/// From the first tensor until the last byte is in the file, and what follows it.
fn dump(transport: TransportKind, dir: &Path, tensor: &[u8], tensors: u64) -> (Duration, Duration) {
    let config = DfxConfig {
        dump_args: Level::Full,
        dump_budget: DumpBudget::Unlimited,
        dump_arena_bytes: ARENA_BYTES,
        ..DfxConfig::default()
    };
    let board = Board { platform: Platform::A2a3, core_is_aic: vec![true], aicpu_threads: 1 };
    let spec = SessionSpec { config, board, memory: Arc::new(SimDevice::default()), transport };
    let mut session = Session::configure(spec).expect("a session");
    session.set_output(dir).expect("just configured");
    let region = session.dump_region().expect("it dumps");
    session.start(Drive::Threads).expect("threads");
    let host = session.stepper();
    let mut producer = Producer::new(region.base.0, region.layout);
    // A board's memory has no first touch.
    let arena = long(producer.state + ARENA.base as u64).load(Ordering::Relaxed);
    (0..ARENA_BYTES).step_by(4096).for_each(|at| copy(arena + at, &[1]));
    let bytes = tensor.len() as u64 * tensors;
    let begun = Instant::now();
    for task in 0..tensors {
        producer.tensor(task, tensor);
    }
    producer.publish();
    while host.flow().expect("it dumps").drained() < bytes {
        std::thread::sleep(Duration::from_micros(50));
    }
    let took = begun.elapsed();
    session.stop(DeviceEnd::Completed).expect("it ran");
    session.reconcile().expect("it stopped");
    let begun = Instant::now();
    session.export(dir).expect("there is room");
    let after = begun.elapsed();
    assert_eq!(session.dump().expect("it dumped").payload_bytes_written, bytes);
    assert!(session.reasons().is_empty(), "{:?}", session.reasons());
    std::fs::remove_dir_all(dir.join("args_dump")).expect("ours");
    (took, after)
}

/// The same bytes, from where they lie, one after the other.
fn plain(dir: &Path, tensor: &[u8], tensors: u64) -> Duration {
    let path = dir.join("plain.bin");
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path).expect("a file");
    let block: Vec<u8> = tensor.iter().copied().cycle().take(tensor.len().max(1 << 20)).collect();
    let mut left = tensor.len() as u64 * tensors;
    let begun = Instant::now();
    while left > 0 {
        let part = left.min(block.len() as u64).min(1 << 20);
        file.write_all(&block[..part as usize]).expect("there is room");
        left -= part;
    }
    let took = begun.elapsed();
    drop(file);
    std::fs::remove_file(path).expect("ours");
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The result: the ratio, median of five alternated pairs.
fn ratios(dir: &Path, total: u64) {
    for size in [4 << 10, 64 << 10, 1 << 20, 16 << 20] {
        let tensor: Vec<u8> = (0..size).map(|n: usize| (n * 31 % 251) as u8).collect();
        let tensors = total / size as u64;
        for (name, transport) in [("svm", TransportKind::Svm), ("copy", TransportKind::Copy)] {
            let (mut ours, mut theirs, mut after) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..5 {
                theirs.push(plain(dir, &tensor, tensors));
                let (took, export) = dump(transport, dir, &tensor, tensors);
                ours.push(took);
                after.push(export);
            }
            let rate = |time: Duration| total as f64 / time.as_secs_f64() / 1e6;
            let (ours, theirs, after) = (median(ours), median(theirs), median(after));
            println!(
                "dump/{name}/{} KiB: {:.0} MB/s against {:.0} MB/s, ratio {:.2}; hash, manifest and rename {:.0} MB/s",
                size >> 10,
                rate(ours),
                rate(theirs),
                rate(ours) / rate(theirs),
                rate(after)
            );
        }
    }
}

/// On the real clock, a ceiling is kept.
fn ceiling(dir: &Path) {
    const RATE: u64 = 200_000_000;
    let config = DfxConfig {
        dump_args: Level::Full,
        dump_budget: DumpBudget::Rate(RATE),
        dump_arena_bytes: ARENA_BYTES,
        ..DfxConfig::default()
    };
    let board = Board { platform: Platform::A2a3, core_is_aic: vec![true], aicpu_threads: 1 };
    let memory = Arc::new(SimDevice::default());
    let spec = SessionSpec { config, board, memory, transport: TransportKind::Svm };
    let mut session = Session::configure(spec).expect("a session");
    session.set_output(dir).expect("just configured");
    let region = session.dump_region().expect("it dumps");
    session.start(Drive::Threads).expect("threads");
    let tensor = vec![7; 1 << 20];
    let mut producer = Producer::new(region.base.0, region.layout);
    (0..400).for_each(|task| producer.tensor(task, &tensor));
    producer.publish();
    session.stop(DeviceEnd::Completed).expect("it ran");
    session.reconcile().expect("it stopped");
    let rate = session.dump().expect("it dumped").drain_rate_bytes_per_s;
    println!("dump/budget: {:.1} MB/s under a ceiling of {:.1} MB/s", rate as f64 / 1e6, RATE as f64 / 1e6);
    assert!(rate <= RATE + RATE / 50);
}

fn bench(c: &mut Criterion) {
    let root = std::env::var_os("DFX_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(root).expect("a directory");
    let total = run_bytes();
    let filtered = std::env::args().skip(1).any(|arg| !arg.starts_with('-'));
    if !filtered {
        ratios(dir.path(), total);
        ceiling(dir.path());
    }
    let mut group = c.benchmark_group("dump");
    group.throughput(Throughput::Bytes(total)).sample_size(10);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for size in [4 << 10, 64 << 10, 1 << 20, 16 << 20] {
        let tensor: Vec<u8> = (0..size).map(|n: usize| (n * 31 % 251) as u8).collect();
        let tensors = total / size as u64;
        for (name, transport) in [("svm", TransportKind::Svm), ("copy", TransportKind::Copy)] {
            group.bench_function(BenchmarkId::new(name, size), |b| {
                b.iter_custom(|times| {
                    (0..times).map(|_| dump(transport, dir.path(), &tensor, tensors).0).sum()
                });
            });
        }
        group.bench_function(BenchmarkId::new("plain write", size), |b| {
            b.iter_custom(|times| (0..times).map(|_| plain(dir.path(), &tensor, tensors)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
