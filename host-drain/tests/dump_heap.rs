//! The dump's own memory is bounded: records at 128 bytes each, one block for payload where it must be copied. A test
//! binary of its own: it counts every allocation of the process.

mod dump;

use dfx_collector::abi::Platform;
use dfx_collector::abi::args_dump::Level;
use dfx_host_drain::{DeviceEnd, TransportKind};
use dump::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is the system's; what is out is counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes above what was live before `run`.
fn peak(run: impl FnOnce()) -> usize {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    run();
    PEAK.load(Ordering::Relaxed) - before
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn records_take_128_bytes_each_and_payload_one_block() {
    const RECORDS: u64 = 100_000;
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, config(Level::Full, 1 << 16), 2);
    start(&mut rig);
    let mut producers = rig.producers();
    let stepper = rig.session.stepper();
    let bytes = peak(|| {
        for n in 0..RECORDS {
            let producer = &mut producers[n as usize % 2];
            while !producer.raw(&scalar(RECORDS - n, (n % 9) as u32, 1, n)) {
                stepper.step().expect("it lives");
            }
        }
        producers.iter_mut().for_each(Producer::flush);
        rig.session.stop(DeviceEnd::Completed).expect("it ran");
        rig.session.reconcile().expect("it stopped");
        rig.session.export(rig.dir.path()).expect("there is room");
    });
    eprintln!("{} bytes per record", bytes as u64 / RECORDS);
    assert!(bytes as u64 <= 128 * RECORDS + (2 << 20), "{bytes} bytes for {RECORDS} records");
    drop(rig);

    for transport in [TransportKind::Svm, TransportKind::Copy] {
        let mut rig = Rig::new(Platform::A2a3, transport, config(Level::Full, 8 << 20), 2);
        start(&mut rig);
        let mut producers = rig.producers();
        let stepper = rig.session.stepper();
        let payload = pattern(1, 4 << 20);
        let bytes = peak(|| {
            for n in 0..40 {
                let producer = &mut producers[n as usize % 2];
                while producer.tensor(&tensor(n, 0, 4 << 20), &payload).is_none() {
                    stepper.step().expect("it lives");
                }
            }
            producers.iter_mut().for_each(Producer::flush);
            rig.session.stop(DeviceEnd::Completed).expect("it ran");
            rig.session.reconcile().expect("it stopped");
            rig.session.export(rig.dir.path()).expect("there is room");
        });
        eprintln!("{transport:?}: {bytes} bytes for 160 MiB of payload");
        let staging = if transport == TransportKind::Copy { 1 << 20 } else { 0 };
        assert!(bytes < staging + (1 << 20), "{transport:?}: {bytes}");
    }
}
