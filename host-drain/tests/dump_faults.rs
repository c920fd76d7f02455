//! What goes wrong around the dump: each ends in bounded time, counted, with everything else intact.

mod dump;

use dfx_collector::abi::args_dump::{FLAG_REFERENCE, Level, Record};
use dfx_collector::abi::{DeviceAddr, Platform};
use dfx_host_drain::memory::{DeviceMemory, MemoryError};
use dfx_host_drain::{
    Board, DeviceEnd, DfxConfig, Drive, PoolSizes, Session, SessionError, SessionSpec, TransportKind,
};
use dump::memory::Memory;
use dump::*;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const TRANSPORTS: [TransportKind; 2] = [TransportKind::Svm, TransportKind::Copy];

/// Nothing that a record says makes the host read outside of the arena, and each lie is counted.
#[test]
fn records_that_cannot_be_are_counted_and_read_nothing_outside_the_arena() {
    let lies = [
        Record { payload_size: u64::MAX, ..tensor(1, 0, 1) },
        Record { payload_offset: u64::MAX, ..tensor(2, 0, 1) },
        Record { payload_offset: 1 << 60, ..tensor(3, 0, 64) },
        Record { payload_offset: 4000, ..tensor(4, 0, 200) },
        Record { payload_size: 4097, ..tensor(5, 0, 1) },
        Record { flags: FLAG_REFERENCE, payload_size: u64::MAX, ..tensor(14, 0, 1) },
        Record { kind: 7, ..tensor(6, 0, 64) },
        Record { role: 7, ..scalar(7, 0, 0, 0) },
        Record { stage: 7, ..scalar(8, 0, 0, 0) },
        Record { ndims: 255, ..scalar(9, 0, 0, 0) },
        Record { func_count: 255, ..scalar(10, 0, 0, 0) },
    ];
    for transport in TRANSPORTS {
        let mut rig = Rig::new(Platform::A2a3, transport, config(Level::Full, 4096), 1);
        start(&mut rig);
        let mut producers = rig.producers();
        let producer = &mut producers[0];
        let good = pattern(3, 100);
        producer.tensor(&tensor(0, 0, 100), &good).expect("room");
        for lie in &lies {
            assert!(producer.raw(lie));
        }
        // A reference to nowhere, and a type that there is not: odd, not corrupt.
        let nowhere =
            Record { flags: FLAG_REFERENCE, payload_offset: u64::MAX, payload_size: 64, ..tensor(11, 0, 1) };
        assert!(producer.raw(&nowhere) && producer.raw(&scalar(12, 0, 99, 5)));
        producer.tensor(&tensor(13, 0, 100), &good).expect("room");
        producer.flush();
        settle(&rig.session);
        let ended = rig.end(DeviceEnd::Completed);
        assert_eq!((ended.sum(|s| s.corrupt), ended.sum(|s| s.collected)), (lies.len() as u64, 15));
        assert!(ended.anomalies.contains_key("arg_of_unknown_dtype"));
        let (manifest, bin) = (ended.manifest(), ended.bin());
        let args = manifest["args"].as_array().expect("rows");
        assert_eq!((args.len(), bin.len()), (15, 200));
        assert_eq!((payload(&bin, &args[0]), payload(&bin, &args[13])), (&good[..], &good[..]));
        assert_eq!(
            (&args[6]["kind"], &args[7]["role"], &args[8]["stage"]),
            (&"unknown".into(), &"unknown".into(), &"unknown".into())
        );
        for at in [1, 2, 3, 4, 5, 14] {
            assert_eq!(
                (&args[at]["bin_size"], &args[at]["truncated"]),
                (&0.into(), &true.into()),
                "{}",
                args[at]
            );
        }
        let codes = ended.codes();
        assert!(
            ["corrupt", "payload_lost", "references_dangling"]
                .iter()
                .all(|code| codes.iter().any(|c| c == code)),
            "{codes:?}"
        );
    }
}

/// Random records, without sense: bounded, counted, never outside.
#[test]
fn whatever_stands_in_a_buffer_the_host_ends_whole() {
    for seed in 0..40 {
        let transport = TRANSPORTS[seed as usize % 2];
        let mut rig = Rig::new(Platform::A5, transport, config(Level::Hybrid, 4096), 2);
        start(&mut rig);
        let mut producers = rig.producers();
        for n in 0..200 {
            let noise = pattern(seed * 1000 + n, 128);
            let word = |at: usize| u64::from_le_bytes(noise[at..at + 8].try_into().expect("eight bytes"));
            let mut record = Record {
                kind: noise[0] % 3,
                flags: noise[1] % 8,
                ndims: noise[2] % 7,
                ..tensor(word(8), 0, 1)
            };
            record.payload_offset = word(16) >> (noise[3] % 64);
            record.payload_size = word(24) >> (noise[4] % 64);
            (record.role, record.stage, record.dtype) = (noise[5] % 4, noise[6] % 3, noise[7] % 17);
            let producer = &mut producers[n as usize % 2];
            while !producer.raw(&record) {
                settle(&rig.session);
            }
            if n % 5 == 0 {
                while !producer.publish() {
                    settle(&rig.session);
                }
            }
        }
        settle(&rig.session);
        let ended = rig.end(DeviceEnd::Abnormal);
        let manifest = ended.manifest();
        assert_eq!(manifest["args"].as_array().expect("rows").len() as u64, ended.sum(|s| s.collected));
        assert_eq!(ended.sum(|s| s.collected), 200);
        let bin = if manifest["bin_file"].is_string() { ended.bin().len() as u64 } else { 0 };
        for entry in manifest["args"].as_array().expect("rows") {
            let number = |key: &str| entry[key].as_u64().expect("a number");
            assert!(number("bin_offset") + number("bin_size") <= bin, "{entry}");
        }
    }
}

#[test]
fn nothing_recorded_leaves_no_file_and_level_three_without_payload_no_bin() {
    for (level, records) in [
        (Level::Full, false),
        (Level::Partial, false),
        (Level::Hybrid, false),
        (Level::Hybrid, true),
        (Level::Full, true),
    ] {
        let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, config(level, 4096), 1);
        start(&mut rig);
        let mut producers = rig.producers();
        if records {
            assert!(producers[0].raw(&Record { payload_size: 0, ..tensor(1, 0, 8) }));
        }
        producers[0].flush();
        let ended = rig.end(DeviceEnd::Completed);
        let dir = ended.dir.path().join("args_dump");
        assert_eq!(exists(&dir, "args_dump.json"), records);
        assert_eq!(exists(&dir, "args.bin"), records && level == Level::Full);
        if records {
            let expected = if level == Level::Hybrid { serde_json::Value::Null } else { "args.bin".into() };
            assert_eq!(ended.manifest()["bin_file"], expected);
        }
        assert_eq!(ended.codes(), Vec::<String>::new());
    }
}

#[test]
fn the_output_directory_must_be_named_before_the_start() {
    let memory = Arc::new(Memory::default());
    let board = Board { platform: Platform::A2a3, core_is_aic: vec![true], aicpu_threads: 1 };
    let config = config(Level::Full, 4096);
    let spec = SessionSpec {
        config: config.clone(),
        board: board.clone(),
        memory: memory.clone(),
        transport: TransportKind::Svm,
    };
    let mut session = Session::configure(spec).expect("a session");
    let error = session.start(Drive::Stepped).expect_err("no directory");
    assert!(matches!(error, SessionError::Config(_)) && error.to_string().contains("set_output"), "{error}");
    session.set_output("/tmp").expect("just configured");
    session.start(Drive::Stepped).expect("now it may");
    assert!(matches!(session.set_output("/tmp"), Err(SessionError::Order { .. })));
    drop(session);
    let bad = [
        DfxConfig { dump_arena_bytes: 100, ..config.clone() },
        DfxConfig { dump_arena_bytes: 4100, ..config.clone() },
        DfxConfig { pools: PoolSizes { dump: 0, ..PoolSizes::all(1) }, ..config.clone() },
        DfxConfig { dump_budget: dfx_host_drain::DumpBudget::Rate(0), ..config.clone() },
    ];
    for config in bad {
        let spec = SessionSpec {
            config,
            board: board.clone(),
            memory: memory.clone(),
            transport: TransportKind::Svm,
        };
        assert!(matches!(Session::configure(spec), Err(SessionError::Config(_))));
    }
    assert!(!config.clone().without_switches().any() && config.any() && DfxConfig::dump_level(4).is_err());
}

/// An output directory that takes no file: the records' account is closed, nothing is left there, the error says which.
#[test]
fn a_file_that_cannot_be_written_ends_the_dump_and_nothing_else() {
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, config(Level::Full, 4096), 1);
    std::fs::write(rig.dir.path().join("args_dump"), "in the way").expect("writable");
    start(&mut rig);
    let mut producers = rig.producers();
    let producer = &mut producers[0];
    for n in 0..50 {
        while producer.tensor(&tensor(n, 0, 3000), &pattern(n, 3000)).is_none() {
            settle(&rig.session);
        }
    }
    producer.flush();
    settle(&rig.session);
    assert_eq!(producer.acknowledged(), producer.write, "the device never waits for a broken file");
    let ended = rig.end(DeviceEnd::Completed);
    let error = ended.error.as_ref().expect("it is said").to_string();
    assert!(error.contains("args_dump") && error.contains("move it away"), "{error}");
    assert_eq!(
        (ended.sum(|s| s.collected), ended.sum(|s| s.lost), ended.dump.payload_bytes_written),
        (50, 0, 0)
    );
    let lost = ended.reasons.iter().find(|reason| reason.code == "payload_lost").expect("a reason");
    assert_eq!(lost.count, 150_000);
}

/// Disk full at any byte of either file: neither is there.
#[cfg(feature = "testpoints")]
#[test]
fn a_full_disk_leaves_neither_file_and_the_device_does_not_wait() {
    use dfx_host_drain::testpoint::{Points, TestPoints};
    struct Full(&'static str, u64);
    impl TestPoints for Full {
        fn disk_room(&self, file: &str) -> Option<u64> {
            (file == self.0).then_some(self.1)
        }
    }
    for (file, room) in
        [("args_dump/args.bin", 0), ("args_dump/args.bin", 10_000), ("args_dump/args_dump.json", 600)]
    {
        let memory = Arc::new(Memory::default());
        let board = Board { platform: Platform::A2a3, core_is_aic: vec![true], aicpu_threads: 1 };
        let spec = SessionSpec {
            config: config(Level::Full, 4096),
            board,
            memory: memory.clone(),
            transport: TransportKind::Svm,
        };
        let points = Points::new(Arc::new(Full(file, room)));
        let mut session = Session::configure_with(spec, |transport| transport, points).expect("a session");
        let dir = tempfile::tempdir().expect("a directory");
        session.set_output(dir.path()).expect("just configured");
        let mut rig = Rig { memory, session, dir };
        start(&mut rig);
        let mut producers = rig.producers();
        for n in 0..20 {
            while producers[0].tensor(&tensor(n, 0, 1000), &pattern(n, 1000)).is_none() {
                settle(&rig.session);
            }
        }
        producers[0].flush();
        settle(&rig.session);
        assert_eq!(producers[0].acknowledged(), producers[0].write);
        let ended = rig.end(DeviceEnd::Completed);
        let error = ended.error.as_ref().expect("it is said").to_string();
        assert!(error.contains("free space") && error.contains(file), "{error}");
        assert!(ended.nothing_left(), "{file} at {room}");
        assert_eq!((ended.sum(|s| s.collected), ended.sum(|s| s.lost)), (20, 0));
    }
}

/// A killed host leaves only temporary names; here: a session that is dropped in the middle leaves none at all.
#[test]
fn a_run_under_way_has_only_temporary_names() {
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, config(Level::Full, 4096), 1);
    start(&mut rig);
    let mut producers = rig.producers();
    producers[0].tensor(&tensor(1, 0, 1000), &pattern(1, 1000)).expect("room");
    producers[0].flush();
    settle(&rig.session);
    let names: Vec<String> = std::fs::read_dir(rig.dir.path().join("args_dump"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.len() == 1 && dfx_host_drain::artifact::is_temp_name(&names[0]), "{names:?}");
    let Rig { session, dir, .. } = rig;
    drop(session);
    assert_eq!(std::fs::read_dir(dir.path().join("args_dump")).expect("a directory").count(), 0);
}

/// Memory whose larger copies fail for a while, and those of some places always.
#[derive(Default)]
struct Shaky {
    inner: Memory,
    fails: AtomicU64,
    holes: Mutex<Vec<u64>>,
}

// SAFETY: all is `Memory`'s, but for copies that do not happen.
unsafe impl DeviceMemory for Shaky {
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
        // Payload is what comes in odd sizes.
        let payload = to.len() % 128 == 77 || to.len() > 40_000;
        let hole = |at: &u64| to.len() > 4096 && (from.0..from.0 + to.len() as u64).contains(at);
        let mut fails = self.holes.lock().expect("nobody panics with it").iter().any(hole);
        if payload && self.fails.load(Ordering::Relaxed) > 0 {
            self.fails.fetch_sub(1, Ordering::Relaxed);
            fails = true;
        }
        if fails {
            return Err(MemoryError { what: "copy", at: from, bytes: to.len() as u64, why: "shaken".into() });
        }
        self.inner.copy_from(to, from)
    }
}

/// A session that dumps from `memory` by copies, its device, and where it writes.
fn copying(memory: &Arc<Shaky>) -> (Session, Producer, tempfile::TempDir) {
    let board = Board { platform: Platform::A5, core_is_aic: vec![true], aicpu_threads: 1 };
    let config = config(Level::Full, 1 << 20);
    let spec = SessionSpec { config, board, memory: memory.clone(), transport: TransportKind::Copy };
    let mut session = Session::configure(spec).expect("a session");
    let dir = tempfile::tempdir().expect("a directory");
    session.set_output(dir.path()).expect("just configured");
    session.start(Drive::Stepped).expect("configured");
    let region = session.dump_region().expect("it dumps");
    let producer = Producer::new(region.base.0, region.layout, 0);
    (session, producer, dir)
}

#[test]
fn a_copy_that_fails_is_tried_again_and_then_charged_to_its_payload_alone() {
    // Five times as one piece, once by itself; after that each is tried once and once more.
    for (fails, lost) in [(3, 0), (5, 0), (6, 1), (8, 2), (10_000, 3)] {
        let memory = Arc::new(Shaky { fails: AtomicU64::new(fails), ..Shaky::default() });
        let (mut session, mut producer, dir) = copying(&memory);
        let sizes = [128 * 3 + 77, 128 * 700 + 77, 128 * 9 + 77];
        for (n, bytes) in sizes.into_iter().enumerate() {
            producer.tensor(&tensor(n as u64, 0, bytes), &pattern(n as u64, bytes as usize)).expect("room");
            // Each a run of its own.
            assert!(producer.publish());
        }
        producer.flush();
        session.stop(DeviceEnd::Completed).expect("it ran");
        session.reconcile().expect("it stopped");
        session.export(dir.path()).expect("there is room");
        let text = std::fs::read(dir.path().join("args_dump/args_dump.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let bin = std::fs::read(dir.path().join("args_dump/args.bin")).unwrap_or_default();
        for (n, entry) in manifest["args"].as_array().expect("rows").iter().enumerate() {
            let there = if n < lost { Vec::new() } else { pattern(n as u64, sizes[n] as usize) };
            assert_eq!(payload(&bin, entry), there, "{fails} failures: {entry}");
            assert_eq!(entry["truncated"], n < lost);
        }
        let bytes: u64 = sizes[..lost].iter().sum();
        let reason = session
            .reasons()
            .iter()
            .find(|reason| reason.code == "payload_lost")
            .map_or(0, |reason| reason.count);
        assert_eq!(reason, bytes, "{fails} failures");
        assert_eq!(session.dump().expect("it dumped").truncated, lost as u64);
        session.release();
        assert_eq!(memory.inner.out(), (0, 0));
    }
}

/// Three payloads lie one behind the other and cross in pieces of 256 KiB: 100,000 to 800,000 is the second's.
#[test]
fn a_payload_that_cannot_be_copied_ends_where_that_is_and_takes_no_other_with_it() {
    let sizes = [100_000, 700_000, 50_000];
    let piece = 256 << 10;
    // Where copies fail, in the arena; how much of each payload is there all the same; bytes written; the file's length.
    let cases: [(&[u64], [u64; 3], u64, u64); 6] = [
        (&[], sizes, 850_000, 850_000),
        (&[50_000], [0, 700_000, 50_000], 750_000, 850_000),
        (&[300_000], [100_000, piece - 100_000, 50_000], 850_000 - piece, 850_000),
        // What comes behind the first hole of a payload is not sought out again.
        (&[300_000, 790_000], [100_000, piece - 100_000, 50_000], 2 * piece + 50_000, 850_000),
        (&[840_000], [100_000, 700_000, 0], 800_000, 800_000),
        (&[50_000, 300_000, 790_000, 840_000], [0, piece - 100_000, 0], 2 * piece - 100_000, 3 * piece),
    ];
    for (holes, kept, written, length) in cases {
        let memory = Arc::new(Shaky::default());
        let (mut session, mut producer, dir) = copying(&memory);
        *memory.holes.lock().expect("nobody panics with it") =
            holes.iter().map(|at| producer.arena + at).collect();
        for (n, bytes) in sizes.into_iter().enumerate() {
            producer.tensor(&tensor(n as u64, 0, bytes), &pattern(n as u64, bytes as usize)).expect("room");
        }
        producer.flush();
        session.stop(DeviceEnd::Completed).expect("it ran");
        session.reconcile().expect("it stopped");
        session.export(dir.path()).expect("there is room");
        assert_eq!(producer.acknowledged(), producer.write, "nobody waits for what cannot be had");
        let text = std::fs::read(dir.path().join("args_dump/args_dump.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let bin = std::fs::read(dir.path().join("args_dump/args.bin")).expect("a file");
        for (n, entry) in manifest["args"].as_array().expect("rows").iter().enumerate() {
            let mut there = pattern(n as u64, sizes[n] as usize);
            there.truncate(kept[n] as usize);
            assert_eq!(payload(&bin, entry), there, "{holes:?}: {entry}");
            assert_eq!(entry["truncated"], kept[n] < sizes[n]);
        }
        let lost: u64 = sizes.iter().sum::<u64>() - kept.iter().sum::<u64>();
        let reason = session.reasons().iter().find(|reason| reason.code == "payload_lost");
        assert_eq!(reason.map_or(0, |reason| reason.count), lost, "{holes:?}");
        let dump = session.dump().expect("it dumped");
        assert_eq!((dump.payload_bytes_written, bin.len() as u64), (written, length), "{holes:?}");
    }
}
