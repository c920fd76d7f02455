//! The protocol on real threads over real memory, for Miri and ThreadSanitizer to look at: every row is written and read
//! without atomics, so whatever orders a hand-over too weakly is a data race here.

use dfx_collector::abi::swimlane::{BufferKind, CORE_RECORDS, CoreRecord, Level, TASK_RECORDS, TaskRecord};
use dfx_collector::lane::Entry;
use dfx_collector::swimlane::CoreRecorder;
use dfx_collector::sync::{AtomicU64, Ordering};
use dfx_mock::clock::ScriptClock;
use dfx_mock::device::{Device, MockCore, Rig};
use dfx_mock::drain::{MockHost, decode};
use dfx_mock::host::active;
use dfx_mock::region::{Region, Shape};
use dfx_mock::rows::{Row, scramble, stamp};
use dfx_mock::scaled;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

const BUFFER: u32 = CORE_RECORDS as u32;

/// Pointers into the region go with whoever owns the core.
struct Moved<T>(T);
// SAFETY: one thread at a time has it.
unsafe impl<T> Send for Moved<T> {}
impl<T> Moved<T> {
    fn take(self) -> T {
        self.0
    }
}

#[test]
fn cores_aicpu_and_host_on_threads_of_their_own_lose_nothing() {
    let tasks = scaled(40 * BUFFER, 3 * BUFFER + 8);
    let cores = scaled(2, 1);
    let shape = Shape { budget: None, ..Shape::small(Level::AicpuTiming, cores) };
    let region = Arc::new(Region::new(shape));
    let mut host = MockHost::new(&region);
    host.refill();
    // A clock that stands still: whoever waits, waits until the host has come.
    let mut device = Device::new(ScriptClock::new(1, 0));
    device.launch(&region).expect("a region that fits");
    let cores: Vec<Moved<MockCore>> = device.cores.drain(..).map(Moved).collect();
    let stop = AtomicBool::new(false);
    let (host, committed) = thread::scope(|scope| {
        let drain = scope.spawn(|| {
            let mut host = host;
            while !stop.load(Ordering::Relaxed) {
                if host.step(2) == 0 {
                    // Under an interpreter the others need their turns.
                    for _ in 0..scaled(1, 200) {
                        thread::yield_now();
                    }
                }
            }
            host
        });
        let run = |core: Moved<MockCore>| {
            let mut core = core.take();
            while core.committed + core.refused < tasks {
                if !core.step() {
                    thread::yield_now();
                }
            }
            core.committed
        };
        let cores: Vec<_> = cores.into_iter().map(|core| scope.spawn(move || run(core))).collect();
        while device.drivers.iter().any(|driver| driver.completed < tasks) {
            let mut idle = true;
            for driver in &mut device.drivers {
                if driver.dispatched < tasks && driver.ready() {
                    driver.dispatch(&device.swimlane);
                    idle = false;
                }
                idle &= !driver.poll(&device.swimlane);
            }
            if idle {
                thread::yield_now();
            }
        }
        let committed: Vec<u32> = cores.into_iter().map(|core| core.join().expect("a core")).collect();
        device.flush();
        stop.store(true, Ordering::Relaxed);
        (Moved(drain.join().expect("the host")), committed)
    });
    assert_eq!(committed, vec![tasks; committed.len()]);
    for account in host.take().finish() {
        account.assert_whole(tasks);
    }
}

#[test]
fn what_an_unpublished_buffer_counts_is_whole_at_any_moment() {
    let rig = Rig::new(Shape::small(Level::AicpuTiming, 1), 1);
    let lane = (BufferKind::AicpuTask, 0);
    let records = TASK_RECORDS as u32 - 1;
    let region = Arc::clone(&rig.region);
    thread::scope(|scope| {
        let looker = scope.spawn(move || {
            loop {
                let mem = region.lane::<TaskRecord, TASK_RECORDS>(lane);
                let (seq, Some(buffer)) = active(&mem) else { continue };
                let entry = Entry { index: 0, kind: lane.0 as u32, buffer, seq, flags: 0 };
                let serials = decode(lane, &entry, None).serials;
                assert!(serials.iter().zip(0..).all(|(&serial, index)| serial == index));
                if serials.len() as u32 >= records / 8 * 8 {
                    return;
                }
                thread::yield_now();
            }
        });
        for serial in 0..records {
            let at = stamp(lane, serial);
            // SAFETY: this thread is the core's only caller.
            unsafe { rig.device.swimlane.complete_task(0, 0, serial, at, scramble(at)) };
        }
        looker.join().expect("the host sees whole rows only");
    });
}

#[test]
fn a_core_row_that_has_its_start_is_whole_at_any_moment() {
    let rig = Rig::new(Shape::small(Level::AicoreTiming, 1), 1);
    let lane = (BufferKind::AicoreTask, 0);
    let region = Arc::clone(&rig.region);
    let rows = BUFFER;
    let buffer = active(&region.lane::<CoreRecord, CORE_RECORDS>(lane)).1.expect("a buffer").0 as usize;
    thread::scope(|scope| {
        scope.spawn(move || {
            for index in 0..rows {
                // SAFETY: a row of the core's buffer; the row is read after its start time was released.
                unsafe {
                    let row = (buffer as *mut CoreRecord).add(index as usize);
                    while AtomicU64::from_ptr(&raw mut (*row).start_time).load(Ordering::Acquire) == 0 {
                        thread::yield_now();
                    }
                    assert_eq!(row.read().check(lane), Some(index));
                }
            }
        });
        // SAFETY: the core's only recorder.
        let mut core =
            unsafe { CoreRecorder::attach(rig.region.table_entry(0)) }.expect("an initialised region");
        for serial in 0..rows {
            let start = stamp(lane, serial);
            let end = scramble(start);
            let receive = start.wrapping_sub(u64::from(serial % 1000));
            // SAFETY: the slot is this core's next.
            unsafe { CoreRecorder::commit(core.reserve(), start, end, scramble(end), serial, receive) };
        }
    });
}

#[test]
fn a_core_that_finds_its_table_entry_finds_its_first_buffer() {
    for _ in 0..scaled(200, 20) {
        let mut rig = Rig::cold(Shape::small(Level::AicoreTiming, 1), 1);
        rig.host().refill();
        let region = Arc::clone(&rig.region);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut core = loop {
                    // SAFETY: the core's only recorder; the table's memory is there all along.
                    match unsafe { CoreRecorder::attach(region.table_entry(0)) } {
                        Some(core) => break core,
                        None => thread::yield_now(),
                    }
                };
                assert!(core.reserve().is_some());
            });
            rig.device.launch(&rig.region).expect("a region that fits");
        });
    }
}
