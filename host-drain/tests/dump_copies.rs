//! What a host that may only copy asks of the device's memory: of an arena the payload that records name, each byte once;
//! of a buffer of records as much of it as is filled. (The reference copies the whole arena for each buffer.)

mod dump;

use dfx_collector::abi::args_dump::{Level, Record};
use dfx_collector::abi::{DeviceAddr, Platform};
use dfx_host_drain::memory::{DeviceMemory, MemoryError};
use dfx_host_drain::{Board, DeviceEnd, Drive, Session, SessionSpec, TransportKind};
use dump::memory::Memory;
use dump::*;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// Start and length.
type Range = (u64, u64);

/// Memory that keeps what was copied out of it.
#[derive(Default)]
struct Watched {
    inner: Memory,
    copied: Mutex<Vec<Range>>,
}

// SAFETY: all is `Memory`'s; copies are noted.
unsafe impl DeviceMemory for Watched {
    fn alloc(&self, bytes: u64) -> Result<DeviceAddr, MemoryError> {
        self.inner.alloc(bytes)
    }
    fn free(&self, at: DeviceAddr, bytes: u64) {
        self.inner.free(at, bytes);
    }
    fn register(&self, at: DeviceAddr, bytes: u64) -> Result<NonNull<u8>, MemoryError> {
        self.inner.register(at, bytes)
    }
    fn unregister(&self, at: DeviceAddr, host: NonNull<u8>, bytes: u64) {
        self.inner.unregister(at, host, bytes);
    }
    fn copy_to(&self, to: DeviceAddr, from: &[u8]) -> Result<(), MemoryError> {
        self.inner.copy_to(to, from)
    }
    fn copy_from(&self, to: &mut [u8], from: DeviceAddr) -> Result<(), MemoryError> {
        self.copied.lock().expect("unpoisoned").push((from.0, to.len() as u64));
        self.inner.copy_from(to, from)
    }
}

/// `ranges` in their order, those that abut as one.
fn merged(ranges: impl Iterator<Item = Range>) -> Vec<Range> {
    ranges.filter(|&(_, bytes)| bytes > 0).fold(Vec::new(), |mut all, (at, bytes)| {
        match all.last_mut() {
            Some((start, length)) if *start + *length == at => *length += bytes,
            _ => all.push((at, bytes)),
        }
        all
    })
}

/// Arenas go round dozens of times; some payloads leave a gap at the end, some are given up, some are references.
#[test]
fn only_the_ranges_that_records_name_are_copied_and_each_of_them_once() {
    const ARENA: u64 = 1 << 16;
    let memory = Arc::new(Watched::default());
    let board = Board { platform: Platform::A5, core_is_aic: vec![true], aicpu_threads: 3 };
    let config = config(Level::Full, ARENA);
    let spec = SessionSpec { config, board, memory: memory.clone(), transport: TransportKind::Copy };
    let mut session = Session::configure(spec).expect("a session");
    let dir = tempfile::tempdir().expect("a directory");
    session.set_output(dir.path()).expect("just configured");
    session.start(Drive::Stepped).expect("configured");
    let region = session.dump_region().expect("it dumps");
    let mut producers: Vec<Producer> =
        (0..3).map(|thread| Producer::new(region.base.0, region.layout, thread)).collect();
    let arenas: Vec<u64> = producers.iter().map(Producer::arena).collect();
    let stepper = session.stepper();
    memory.copied.lock().expect("unpoisoned").clear();

    let mut named: Vec<Vec<Range>> = vec![Vec::new(); 3];
    let (mut records, mut payload) = (0, 0);
    for n in 0..900_u64 {
        let thread = (n * 7 % 3) as usize;
        let bytes = [40_000, 1, 0, 13_001, 4096, 25_000, 999][n as usize % 7];
        let producer = &mut producers[thread];
        let offset = loop {
            match producer.tensor(&tensor(n, 0, bytes), &pattern(n, bytes as usize)) {
                Some(offset) => break offset,
                None => drop(stepper.step().expect("it lives")),
            }
        };
        named[thread].push((arenas[thread] + offset % ARENA, bytes));
        payload += bytes;
        records += 1;
        // None of these has bytes of its own.
        let whole = Record { truncated: 1, ..tensor(n, 1, 5000) };
        for extra in 0..3 {
            let recorded = match extra {
                0 => producer.shed(&whole, 5000),
                1 if bytes > 0 => producer.reference(&tensor(n, 2, bytes), offset, bytes),
                _ => producer.raw(&scalar(n, 3, 0, n)),
            };
            // A full pool: the record is not made.
            records += u64::from(recorded);
        }
    }
    producers.iter_mut().for_each(Producer::flush);
    settle(&session);
    session.stop(DeviceEnd::Completed).expect("it ran");
    session.reconcile().expect("it stopped");
    session.export(dir.path()).expect("there is room");

    let copied = memory.copied.lock().expect("unpoisoned").clone();
    let inside = |arena: u64, range: &Range| (arena..arena + ARENA).contains(&range.0);
    for (thread, &arena) in arenas.iter().enumerate() {
        let of_arena = merged(copied.iter().copied().filter(|range| inside(arena, range)));
        assert!(of_arena == merged(named[thread].iter().copied()), "thread {thread}");
        assert!(producers[thread].write > 20 * ARENA, "it goes round");
    }
    assert_eq!(session.dump().expect("it dumped").payload_bytes_written, payload);
    // The rest is words of the header, and records.
    let others = copied.iter().filter(|range| !arenas.iter().any(|&arena| inside(arena, range)));
    let (mut in_buffers, mut largest) = (0, 0);
    for &(_, bytes) in others.filter(|&&(_, bytes)| bytes > 64) {
        in_buffers += bytes;
        largest = largest.max(bytes);
    }
    assert_eq!(in_buffers, records * size_of::<Record>() as u64, "the largest copy is {largest}");
    session.release();
    assert_eq!((memory.inner.out(), memory.inner.outside()), ((0, 0), 0));
}
