//! What a dump takes of the host's heap, through the same door as `dfx run`. A test binary of its own: it counts every
//! allocation of the process.

use dfx_collector::args_dump::Tables;
use dfx_host_drain::{DumpBudget, DumpLevel, TransportKind};
use dfx_sim::run::{ClockKind, RunRequest};
use dfx_tests::{PLATFORMS, run_named};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Zeroed blocks of these sizes are taken for device memory; no host asks for such odd ones.
static DEVICE: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
/// No block of the device is smaller.
const SMALLEST: usize = 1 << 20;
/// What the host may take beside device memory.
const BOUND: usize = 64 << 20;
/// What it may stage where it can only copy.
const STAGING: usize = 1 << 20;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Address and size of the device's blocks that are out; sizes stay.
static BLOCKS: [(AtomicUsize, AtomicUsize); 64] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 64];
static MADE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is the system's; what is out is counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let at = unsafe { System.alloc_zeroed(layout) };
        if DEVICE.iter().any(|size| size.load(Relaxed) == layout.size()) {
            let (place, size) = &BLOCKS[MADE.fetch_add(1, Relaxed)];
            place.store(at as usize, Relaxed);
            size.store(layout.size(), Relaxed);
        } else {
            let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
            PEAK.fetch_max(live, Relaxed);
        }
        at
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let out = |(place, _): &(AtomicUsize, AtomicUsize)| place.load(Relaxed) == at as usize;
        match BLOCKS.iter().find(|block| layout.size() >= SMALLEST && out(block)) {
            Some((place, _)) => place.store(0, Relaxed),
            None => drop(LIVE.fetch_sub(layout.size(), Relaxed)),
        }
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Issue 4, point 3. One test, so that nothing else allocates meanwhile.
#[test]
fn the_hosts_heap_stays_small_beside_a_cache_that_is_shed_and_one_that_is_not() {
    for target in PLATFORMS {
        for (level, tags) in [(DumpLevel::Full, vec![]), (DumpLevel::Partial, vec!["probe".to_owned()])] {
            let what = format!("{} level {}", target.name(), level as u32);
            let mut request = RunRequest {
                target,
                clock: ClockKind::Virtual,
                dump_tags: tags,
                ..RunRequest::new("kv_cache:1", "")
            };
            request.config.dump_args = level;
            request.config.dump_budget = DumpBudget::Rate(42_000_000);
            request.config.timeouts.op_execute = Duration::from_secs(45);
            let threads = target.geometry().default_threads as usize;
            // The cache and the probe, the device's tables of marks, and an arena per thread; a block has room to be aligned.
            let arena = request.config.dump_arena_bytes as usize + 256;
            let sizes = [(1 << 30) + 64, (1 << 20) + 64, size_of::<Tables>(), arena];
            DEVICE.iter().zip(sizes).for_each(|(place, size)| place.store(size, Relaxed));

            MADE.store(0, Relaxed);
            let before = LIVE.load(Relaxed);
            PEAK.store(before, Relaxed);
            let run = run_named(request);
            let peak = PEAK.load(Relaxed) - before;
            let made = MADE.load(Relaxed);

            let report = run.report();
            let dump = report.dump.expect("its account");
            assert!(!report.killed, "{what}");
            let (reasons, shed) = (&report.reasons, dump.payload_bytes_shed);
            match level {
                DumpLevel::Full => assert!(!report.complete && shed > 0, "{what}: {reasons:#?}"),
                _ => assert!(report.complete && shed == 0, "{what}: {reasons:#?}"),
            }
            eprintln!("{what}: {peak} bytes of heap, {made} blocks of device memory, {dump:?}");
            let mut blocks: Vec<usize> = BLOCKS[..made].iter().map(|(_, size)| size.load(Relaxed)).collect();
            let mut expected = sizes.to_vec();
            expected.resize(threads + 3, sizes[3]);
            blocks.sort_unstable();
            expected.sort_unstable();
            assert_eq!(blocks, expected, "{what}: what was taken for device memory");
            let copies = target.transport() == TransportKind::Copy;
            let bound = BOUND + if copies { STAGING } else { 0 };
            assert!(peak < bound, "{what}: {peak} bytes of heap");
        }
    }
}
