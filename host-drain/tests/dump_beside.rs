//! The session's own threads: payload is written beside everything else, and what happens to its writer happens to it alone.
#![cfg(feature = "testpoints")]

mod dump;

use dfx_collector::abi::args_dump::Level;
use dfx_collector::abi::{DeviceAddr, Platform};
use dfx_host_drain::testpoint::{Points, TestPoints};
use dfx_host_drain::transport::{SpillError, Transport, TransportError};
use dfx_host_drain::{Board, DeviceEnd, DfxConfig, Drive, DumpBudget, Session, SessionSpec, TransportKind};
use dump::memory::Memory;
use dump::*;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A disk: whether it takes what is written, and what it does with every piece.
#[derive(Default)]
struct Disk {
    open: Mutex<bool>,
    opened: Condvar,
    panics: AtomicBool,
    /// Pieces that came, and pieces that were let through.
    waiting: AtomicU32,
    pieces: AtomicU32,
}

impl Disk {
    fn open(&self) {
        *self.open.lock().expect("nobody panics with it") = true;
        self.opened.notify_all();
    }

    /// Comes back once the disk is open.
    fn wait(&self) {
        let open = self.open.lock().expect("nobody panics with it");
        drop(self.opened.wait_while(open, |open| !*open).expect("nobody panics with it"));
    }
}

/// A transport that writes to a [`Disk`].
struct Written {
    inner: Arc<dyn Transport>,
    disk: Arc<Disk>,
}

impl Transport for Written {
    fn spill(
        &self,
        at: DeviceAddr,
        bytes: u64,
        block: &mut Vec<u8>,
        file: &File,
        place: u64,
    ) -> Result<(), SpillError> {
        self.disk.waiting.fetch_add(1, Ordering::Relaxed);
        self.disk.wait();
        self.disk.pieces.fetch_add(1, Ordering::Relaxed);
        assert!(!self.disk.panics.swap(false, Ordering::Relaxed), "on purpose");
        self.inner.spill(at, bytes, block, file, place)
    }
    fn add_block(&self, bytes: u64) -> Result<DeviceAddr, TransportError> {
        self.inner.add_block(bytes)
    }
    fn release(&self) {
        self.inner.release();
    }
    fn load_u32(&self, at: DeviceAddr) -> Result<u32, TransportError> {
        self.inner.load_u32(at)
    }
    fn load_u64(&self, at: DeviceAddr) -> Result<u64, TransportError> {
        self.inner.load_u64(at)
    }
    fn store_u32(&self, at: DeviceAddr, value: u32) -> Result<(), TransportError> {
        self.inner.store_u32(at, value)
    }
    fn store_u64(&self, at: DeviceAddr, value: u64) -> Result<(), TransportError> {
        self.inner.store_u64(at, value)
    }
    fn load_words(&self, at: DeviceAddr, into: &mut [u32]) -> Result<(), TransportError> {
        self.inner.load_words(at, into)
    }
    fn fetch(&self, at: DeviceAddr, into: &mut [u8]) -> Result<(), TransportError> {
        self.inner.fetch(at, into)
    }
    fn zero(&self, at: DeviceAddr, bytes: u64) -> Result<(), TransportError> {
        self.inner.zero(at, bytes)
    }
}

/// A session on its own threads whose payload goes to `disk`.
fn rig(transport: TransportKind, disk: &Arc<Disk>, points: Points) -> Rig {
    timed(transport, disk, points, DumpBudget::Unlimited, || 0)
}

/// The same, under a budget and by a clock.
fn timed(
    transport: TransportKind,
    disk: &Arc<Disk>,
    points: Points,
    dump_budget: DumpBudget,
    now: impl Fn() -> u64 + Send + Sync + 'static,
) -> Rig {
    let memory = Arc::new(Memory::default());
    let platform = if transport == TransportKind::Copy { Platform::A5 } else { Platform::A2a3 };
    let board = Board { platform, core_is_aic: vec![true], aicpu_threads: 1 };
    let config = DfxConfig { dump_budget, ..config(Level::Full, 1 << 20) };
    let spec = SessionSpec { config, board, memory: memory.clone(), transport };
    let disk = Arc::clone(disk);
    let wrap = |inner| -> Arc<dyn Transport> { Arc::new(Written { inner, disk }) };
    let mut session = Session::configure_with(spec, wrap, points).expect("a session");
    let dir = tempfile::tempdir().expect("a directory");
    session.set_output(dir.path()).expect("just configured");
    session.set_clock(Arc::new(now)).expect("just configured");
    session.start(Drive::Threads).expect("threads");
    Rig { memory, session, dir }
}

/// Waits until `there`, for as long as a loaded machine may need.
fn until(what: &str, there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_write_that_blocks_holds_up_the_payload_alone_and_none_of_it_is_acknowledged_meanwhile() {
    for transport in [TransportKind::Svm, TransportKind::Copy] {
        let disk = Arc::new(Disk::default());
        let rig = rig(transport, &disk, Points::default());
        let mut producers = rig.producers();
        let producer = &mut producers[0];
        let stepper = rig.session.stepper();
        for n in 0..6 {
            producer.tensor(&tensor(n, 0, 100_000), &pattern(n, 100_000)).expect("room");
        }
        producer.flush();
        until("the payload is known", || stepper.flow().expect("it dumps").backlog() == 600_000);
        // The disk stands still, and records are kept all the same, buffer by buffer.
        for n in 6..12 {
            let kept = stepper.progress();
            assert!(producer.raw(&scalar(n, 0, 1, n)));
            producer.flush();
            until("a buffer is kept", || stepper.progress() > kept);
        }
        assert_eq!((producer.acknowledged(), stepper.flow().expect("it dumps").drained()), (0, 0));
        disk.open();
        until("the payload is written", || producer.acknowledged() == producer.write);
        let ended = rig.end(DeviceEnd::Completed);
        assert_eq!(ended.codes(), Vec::<String>::new(), "{transport:?}");
        let (manifest, bin) = (ended.manifest(), ended.bin());
        for (n, entry) in manifest["args"].as_array().expect("rows").iter().take(6).enumerate() {
            assert_eq!(payload(&bin, entry), pattern(n as u64, 100_000));
        }
    }
}

/// It goes on without asking while its payload is on its way, which is written from where it lies.
#[test]
fn payload_that_a_device_overwrites_while_it_is_written_is_found_out() {
    let disk = Arc::new(Disk::default());
    let rig = rig(TransportKind::Svm, &disk, Points::default());
    let mut producers = rig.producers();
    let producer = &mut producers[0];
    producer.lawless = true;
    let stepper = rig.session.stepper();
    producer.tensor(&tensor(0, 0, 300_000), &pattern(0, 300_000)).expect("it does not ask");
    producer.flush();
    until("the payload is known", || stepper.flow().expect("it dumps").backlog() == 300_000);
    // The last of these lies in the arena's second lap, over task 0's.
    for n in 1..4 {
        producer.tensor(&tensor(n, 0, 300_000), &pattern(n, 300_000)).expect("it does not ask");
    }
    producer.flush();
    until("the payload is known", || stepper.flow().expect("it dumps").backlog() == 1_200_000);
    disk.open();
    until("the payload is written", || stepper.flow().expect("it dumps").backlog() == 0);
    let ended = rig.end(DeviceEnd::Completed);
    assert_eq!((ended.dump.overwritten, ended.codes()), (1, vec!["overwritten".into()]));
    let (manifest, bin) = (ended.manifest(), ended.bin());
    for (n, entry) in manifest["args"].as_array().expect("rows").iter().enumerate() {
        assert_eq!(entry["overwritten"], n == 0, "{entry}");
        assert_eq!(payload(&bin, entry), if n == 0 { Vec::new() } else { pattern(n as u64, 300_000) });
    }
}

#[test]
fn what_a_writer_that_died_has_left_is_written_at_the_end() {
    #[derive(Default)]
    struct Dies(AtomicBool);
    impl TestPoints for Dies {
        fn hit(&self, point: &'static str) {
            if point == "write.step" {
                self.0.store(true, Ordering::Relaxed);
                panic!("on purpose");
            }
        }
    }
    for transport in [TransportKind::Svm, TransportKind::Copy] {
        let disk = Arc::new(Disk::default());
        disk.open();
        let dies = Arc::new(Dies::default());
        let rig = rig(transport, &disk, Points::new(dies.clone()));
        let mut producers = rig.producers();
        for n in 0..6 {
            producers[0].tensor(&tensor(n, 0, 100_000), &pattern(n, 100_000)).expect("room");
        }
        producers[0].flush();
        let stepper = rig.session.stepper();
        until("the payload is known", || stepper.flow().expect("it dumps").backlog() == 600_000);
        until("the writer dies", || dies.0.load(Ordering::Relaxed));
        assert_eq!(disk.pieces.load(Ordering::Relaxed), 0);
        let ended = rig.end(DeviceEnd::Completed);
        assert_eq!(ended.codes(), ["host_thread_panicked"], "{transport:?}");
        let (manifest, bin) = (ended.manifest(), ended.bin());
        for (n, entry) in manifest["args"].as_array().expect("rows").iter().enumerate() {
            assert_eq!(payload(&bin, entry), pattern(n as u64, 100_000));
        }
    }
}

/// Nobody knows what of that piece is in the file: there is none, and the device does not wait for it.
#[test]
fn a_writer_that_dies_with_a_piece_in_hand_ends_the_file_and_nothing_else() {
    for transport in [TransportKind::Svm, TransportKind::Copy] {
        let disk = Arc::new(Disk { panics: AtomicBool::new(true), ..Disk::default() });
        let rig = rig(transport, &disk, Points::default());
        let mut producers = rig.producers();
        for n in 0..6 {
            producers[0].tensor(&tensor(n, 0, 100_000), &pattern(n, 100_000)).expect("room");
        }
        producers[0].flush();
        disk.open();
        until("the device is let go", || producers[0].acknowledged() == producers[0].write);
        let ended = rig.end(DeviceEnd::Completed);
        let error = ended.error.as_ref().expect("it is said").to_string();
        assert!(error.contains("args.bin") && error.contains("panicked"), "{error}");
        let codes = ended.codes();
        assert!(codes.contains(&"host_thread_panicked".into()) && codes.contains(&"payload_lost".into()));
        assert_eq!((ended.sum(|s| s.collected), ended.sum(|s| s.lost)), (6, 0), "{transport:?}");
        assert!(ended.nothing_left());
    }
}

/// What was let through while a write hung must not cross all at once when it goes on.
#[test]
fn a_disk_that_stood_still_does_not_make_the_drain_exceed_its_budget_afterwards() {
    const RATE: u64 = 10_000_000;
    const BURST: u64 = RATE / 100;
    for transport in [TransportKind::Svm, TransportKind::Copy] {
        let (disk, seconds) = (Arc::new(Disk::default()), Arc::new(AtomicU32::new(0)));
        let now = Arc::clone(&seconds);
        let rig = timed(transport, &disk, Points::default(), DumpBudget::Rate(RATE), move || {
            u64::from(now.load(Ordering::Relaxed)) * 1_000_000_000
        });
        let mut producers = rig.producers();
        let stepper = rig.session.stepper();
        let flow = || stepper.flow().expect("it dumps");
        for n in 0..9 {
            producers[0].tensor(&tensor(n, 0, 100_000), &pattern(n, 100_000)).expect("room");
        }
        producers[0].flush();
        until("the payload is known", || flow().backlog() == 900_000);
        // Time for ten bursts, and for the planner to see it.
        for _ in 0..10 {
            seconds.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(5));
        }
        disk.open();
        until("a piece is written", || flow().drained() > 0);
        std::thread::sleep(Duration::from_millis(20));
        assert!(flow().drained() <= 2 * BURST, "{transport:?}: {} bytes at once", flow().drained());
        until("all is written", || {
            seconds.fetch_add(1, Ordering::Relaxed);
            flow().backlog() == 0
        });
        assert_eq!(rig.end(DeviceEnd::Completed).codes(), Vec::<String>::new());
    }
}

/// A piece of it was on its way when that came to light: the rest of it is given up, and what lies behind it is not.
#[test]
fn of_a_payload_that_is_overwritten_half_way_the_rest_is_given_up_and_no_other_is_blamed() {
    for transport in [TransportKind::Svm, TransportKind::Copy] {
        let (disk, seconds) = (Arc::new(Disk::default()), Arc::new(AtomicU32::new(0)));
        let now = Arc::clone(&seconds);
        let rig = timed(transport, &disk, Points::default(), DumpBudget::Rate(10_000_000), move || {
            u64::from(now.load(Ordering::Relaxed)) * 1_000_000_000
        });
        let mut producers = rig.producers();
        let producer = &mut producers[0];
        producer.lawless = true;
        let stepper = rig.session.stepper();
        let flow = || stepper.flow().expect("it dumps");
        let sizes = [600_000, 4_000, 4_000, 400_000, 300_000];
        for n in 0..3 {
            let bytes = pattern(n, sizes[n as usize] as usize);
            producer.tensor(&tensor(n, 0, sizes[n as usize]), &bytes).expect("it does not ask");
        }
        producer.flush();
        until("the payload is known", || flow().backlog() == 608_000);
        seconds.fetch_add(1, Ordering::Relaxed);
        until("a piece is on its way", || disk.waiting.load(Ordering::Relaxed) > 0);
        // The last of these lies in the second lap, over the first half of task 0's.
        for n in 3..5 {
            let bytes = pattern(n, sizes[n as usize] as usize);
            producer.tensor(&tensor(n, 0, sizes[n as usize]), &bytes).expect("it does not ask");
        }
        producer.flush();
        until("the payload is known", || flow().backlog() == 1_308_000);
        disk.open();
        until("all is written", || {
            seconds.fetch_add(1, Ordering::Relaxed);
            flow().backlog() == 0
        });
        assert_eq!(producer.completed(), 5, "{transport:?}: payloads that are done with");
        let ended = rig.end(DeviceEnd::Completed);
        assert_eq!((ended.dump.overwritten, ended.codes()), (1, vec!["overwritten".into()]), "{transport:?}");
        let (manifest, bin) = (ended.manifest(), ended.bin());
        for (n, entry) in manifest["args"].as_array().expect("rows").iter().enumerate() {
            assert_eq!(entry["overwritten"], n == 0, "{entry}");
            let there = if n == 0 { Vec::new() } else { pattern(n as u64, sizes[n] as usize) };
            assert_eq!(payload(&bin, entry), there, "{transport:?}: {entry}");
        }
    }
}
