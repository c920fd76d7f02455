//! The args dump's payload, end to end: the collector copies or gathers tensors into its arena, the session's threads write
//! them into `args.bin`; beside it a plain sequential write of the same bytes into a file of the same directory, alternated
//! with it so that both see the same disk. The manifest, the hash and the rename come after and are timed apart.
//!
//! Beside the ratio of the times stands that of the processor times, the host's threads against the plain write's: on a
//! machine with a core for each thread both say the same, on a busy one only the second means something.
//!
//! The plain write takes its bytes from where the dump has them: from device memory as large as the arena, touched before,
//! at most 1 MiB at once. It has the machine to itself, a dump shares it with the device that makes the payload.
//!
//! A device waits on a processor of its own. This one shares the machine's with the host's threads, so it sleeps while its
//! arena is full.
//!
//! `DFX_BENCH_DIR` names the directory (the system's temporary one otherwise); `DFX_BENCH_MIB` the bytes of a run (256: a
//! virtual machine takes memory back that stays free for longer than a short run, and then the next one pays for it).

#![allow(missing_docs)] // criterion's macros

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dfx_benches::dump::{Host, dense, rows};
use dfx_collector::abi::args_dump::{Info, Level};
use dfx_collector::abi::layout::ARENA;
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::args_dump::{ArgsDump, Tables};
use dfx_collector::clock::Clock;
use dfx_host_drain::{Board, DeviceEnd, DfxConfig, Drive, DumpBudget, Session, SessionSpec, TransportKind};
use dfx_sim::device::SimDevice;
use dfx_sim::memory::{DeviceAlloc, HeapAlloc};
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// An arena as a board has it would hold all of a small run: this one wraps.
const ARENA_BYTES: u64 = 64 << 20;
/// What the plain write hands to the system at once.
const BLOCK: usize = 1 << 20;
/// Pairs of runs, ours and the plain one in turn.
const PAIRS: usize = 15;
/// Bytes per tensor.
const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];

/// The counter of a board with 50 MHz.
#[derive(Clone, Copy, Debug)]
struct Ticks;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for Ticks {
    fn now(&self) -> u64 {
        START.elapsed().as_nanos() as u64 / 20
    }
    fn relax(&self) {
        // A device waits on a processor of its own: here it would spin on one of the host's.
        std::thread::sleep(Duration::from_micros(20));
    }
}

static TABLES: Tables = Tables::NEW;
static DUMP: ArgsDump<Ticks> = ArgsDump::new(Ticks, &TABLES);

fn run_bytes() -> u64 {
    std::env::var("DFX_BENCH_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(256_u64) << 20
}

/// A tensor's memory and two views of `size` bytes of it: without holes, and every other KiB.
struct Tensors {
    _memory: Vec<u8>,
    views: [(&'static str, Info); 2],
}

impl Tensors {
    fn new(size: usize) -> Tensors {
        let memory: Vec<u8> = (0..2 * size).map(|n| (n * 31 % 251) as u8).collect();
        let lines = (size >> 10) as u32;
        let views = [("", dense(&memory, [lines, 256])), (" strided", rows(&memory, [lines, 256]))];
        Tensors { _memory: memory, views }
    }
}

/// A session that dumps into `dir` under `budget`, and the collector initialised on its region.
fn launch(transport: TransportKind, dir: &Path, budget: DumpBudget) -> Session {
    let config = DfxConfig {
        dump_args: Level::Full,
        dump_budget: budget,
        dump_dedup: false,
        dump_arena_bytes: ARENA_BYTES,
        ..DfxConfig::default()
    };
    let board = Board { platform: Platform::A2a3, core_is_aic: vec![true], aicpu_threads: 1 };
    let spec = SessionSpec { config, board, memory: Arc::new(SimDevice::default()), transport };
    let mut session = Session::configure(spec).expect("a session");
    session.set_output(dir).expect("just configured");
    let region = session.dump_region().expect("it dumps");
    session.start(Drive::Threads).expect("threads");
    let word = region.base.offset((region.layout.lane(0) + ARENA.base) as u64).0 as usize;
    // SAFETY: the word lies in the session's region, and is aligned; the arena is the device's.
    unsafe {
        let arena = (*std::ptr::with_exposed_provenance::<AtomicU64>(word)).load(Ordering::Relaxed);
        // A board's memory has no first touch.
        for at in (arena..arena + ARENA_BYTES).step_by(4096) {
            std::ptr::with_exposed_provenance_mut::<u8>(at as usize).write(1);
        }
    }
    // SAFETY: the region is there until the session is gone; nothing else uses the collector.
    unsafe {
        DUMP.set_enabled(true);
        DUMP.init(&Geometry::A2A3, region.base, 1, None).expect("a region");
    }
    session
}

/// Dumps the tensor `info` as often as `tensors` says.
fn produce(info: &Info, tensors: u64) {
    for task_id in 0..tensors {
        // SAFETY: one thread records, and the tensor may be read.
        assert!(unsafe { DUMP.record(0, &Info { task_id, ..*info }) });
    }
    // SAFETY: as above.
    unsafe { DUMP.flush(0) }
}

/// Processor time that the threads of this process have used whose name begins with `name`.
fn busy(name: &str) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let used = tasks.filter_map(|task| -> Option<u64> {
        let read = |file| std::fs::read_to_string(task.path().join(file)).ok();
        if read("comm")?.starts_with(name) {
            read("schedstat")?.split(' ').next()?.parse().ok()
        } else {
            None
        }
    });
    Duration::from_nanos(used.sum())
}

/// How long something took, and how much processor time of its threads.
#[derive(Clone, Copy)]
struct Took {
    time: Duration,
    busy: Duration,
}

/// From the first tensor until the last byte is in the file, and what follows it.
fn dump(transport: TransportKind, dir: &Path, info: &Info, bytes: u64, tensors: u64) -> (Took, Duration) {
    let mut session = launch(transport, dir, DumpBudget::Unlimited);
    let host = session.stepper();
    let (begun, idle) = (Instant::now(), busy("dfx-"));
    produce(info, tensors);
    while host.flow().expect("it dumps").drained() < bytes {
        std::thread::sleep(Duration::from_micros(50));
    }
    let took = Took { time: begun.elapsed(), busy: busy("dfx-").saturating_sub(idle) };
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

/// `bytes` from `memory`, one after the other, again from its start when it ends.
fn plain(dir: &Path, memory: &[u8], bytes: u64) -> Took {
    let path = dir.join("plain.bin");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("a file");
    let (begun, idle) = (Instant::now(), busy(""));
    memory.chunks(BLOCK).cycle().take(bytes as usize / BLOCK).for_each(|block| {
        file.write_all(block).expect("there is room");
    });
    let took = Took { time: begun.elapsed(), busy: busy("").saturating_sub(idle) };
    drop(file);
    std::fs::remove_file(path).expect("ours");
    took
}

/// Device memory as large as an arena.
fn arena() -> &'static [u8] {
    let bytes = ARENA_BYTES as usize;
    let at = HeapAlloc::default().alloc(ARENA_BYTES, 4096).expect("memory");
    let at = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
    // SAFETY: a block of so many bytes, which nobody else has and nobody frees.
    let arena = unsafe { std::slice::from_raw_parts_mut(at, bytes) };
    arena.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 31 % 251) as u8);
    arena
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The result: the ratio, median of alternated pairs.
fn ratios(dir: &Path, total: u64) {
    let arena = arena();
    // Memory that the machine itself gives out for the first time costs either side many times as much.
    plain(dir, arena, total);
    for size in SIZES {
        let tensors = Tensors::new(size);
        let count = total / size as u64;
        for (layout, info) in &tensors.views {
            for (name, transport) in [("svm", TransportKind::Svm), ("copy", TransportKind::Copy)] {
                let (mut ours, mut theirs, mut after) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..PAIRS {
                    theirs.push(plain(dir, arena, total));
                    let (took, export) = dump(transport, dir, info, total, count);
                    ours.push(took);
                    after.push(export);
                }
                let rate = |time: Duration| total as f64 / time.as_secs_f64() / 1e6;
                let time = |took: &[Took]| rate(median(took.iter().map(|took| took.time).collect()));
                let busy = |took: &[Took]| rate(median(took.iter().map(|took| took.busy).collect()));
                println!(
                    "dump/{name}{layout}/{} KiB: {:.0} MB/s against {:.0} MB/s, ratio {:.2}; of processor time {:.2}; \
                     hash, manifest and rename {:.0} MB/s",
                    size >> 10,
                    time(&ours),
                    time(&theirs),
                    time(&ours) / time(&theirs),
                    busy(&ours) / busy(&theirs),
                    rate(median(after)),
                );
            }
        }
    }
}

/// The device's side alone, without what its host does: a payload's record against `memcpy` of its bytes, from and to memory
/// that no cache holds.
fn device() {
    const MEMORY: usize = 64 << 20;
    let source: Vec<u8> = (0..MEMORY).map(|n| (n * 31 % 251) as u8).collect();
    let mut copy = vec![1u8; MEMORY];
    for size in &SIZES[..3] {
        let info = dense(&source, [(size >> 10) as u32, 256]);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let host = Host::new(Level::Full, MEMORY);
        // SAFETY: the region outlives its use, and nothing else runs.
        unsafe {
            DUMP.set_enabled(true);
            DUMP.init(&Host::GEOMETRY, host.base(), 1, None).expect("a region");
        }
        for _ in 0..2 * PAIRS {
            let (begun, mut hosts) = (Instant::now(), Duration::ZERO);
            for at in (0..MEMORY).step_by(*size) {
                let info = Info { task_id: at as u64, buffer_addr: info.buffer_addr + at as u64, ..info };
                // SAFETY: one thread records, and the tensor is inside the memory.
                assert!(unsafe { DUMP.record(0, &info) });
                if at % (256 << 10) == 0 {
                    let step = Instant::now();
                    host.step();
                    hosts += step.elapsed();
                }
            }
            ours.push(begun.elapsed() - hosts);
            let begun = Instant::now();
            for (to, from) in copy.chunks_mut(*size).zip(source.chunks(*size)) {
                black_box(to).copy_from_slice(black_box(from));
            }
            theirs.push(begun.elapsed());
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "dump/device/{} KiB: {:.3} of the time of memcpy ({:.1} GB/s)",
            size >> 10,
            ours.as_secs_f64() / theirs.as_secs_f64(),
            MEMORY as f64 / theirs.as_secs_f64() / 1e9
        );
    }
}

/// On the real clock, a ceiling is kept.
fn ceiling(dir: &Path) {
    const RATE: u64 = 200_000_000;
    let mut session = launch(TransportKind::Svm, dir, DumpBudget::Rate(RATE));
    produce(&Tensors::new(1 << 20).views[0].1, 400);
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
        device();
        ratios(dir.path(), total);
        ceiling(dir.path());
    }
    let mut group = c.benchmark_group("dump");
    group.throughput(Throughput::Bytes(total)).sample_size(10);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for size in SIZES {
        let tensors = Tensors::new(size);
        let count = total / size as u64;
        for (layout, info) in &tensors.views {
            for (name, transport) in [("svm", TransportKind::Svm), ("copy", TransportKind::Copy)] {
                group.bench_function(BenchmarkId::new(format!("{name}{layout}"), size), |b| {
                    b.iter_custom(|times| {
                        (0..times).map(|_| dump(transport, dir.path(), info, total, count).0.time).sum()
                    });
                });
            }
        }
    }
    let arena = arena();
    group.bench_function("plain write", |b| {
        b.iter_custom(|times| (0..times).map(|_| plain(dir.path(), arena, total).time).sum());
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
