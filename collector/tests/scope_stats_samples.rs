//! The scope stats: sites, depths, heap bytes, capacities, and a host that is slow, dead or absent.

mod plain;

use dfx_collector::abi::layout::{BufferLayout, SCOPE_STATS_LANE, ScopeStatsLayout};
use dfx_collector::abi::scope_stats::{MAX_DEPTH, RECORDS, Record};
use dfx_collector::abi::{DeviceAddr, Geometry};
use dfx_collector::scope_stats::{InitError, Sample, ScopeStats};
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use dfx_mock::scaled;
use plain::{PLATFORMS, Plan, Rig};
use std::ffi::CString;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::FromBytes;

/// The orchestrator's thread in these tests.
const ORCH: u32 = 3;

struct Board {
    rig: Rig,
    layout: ScopeStatsLayout,
    device: ScopeStats<ScriptClock>,
    clock: ScriptClock,
}

impl Board {
    fn new(geometry: &'static Geometry, buffers: usize) -> Board {
        let layout = ScopeStatsLayout::of(geometry.platform);
        let plan = Plan {
            geometry,
            bytes: layout.bytes(),
            queue: layout.queue,
            lane: SCOPE_STATS_LANE,
            buffer: BufferLayout::scope_stats(),
            states: layout.lane(),
            lanes: 1,
            budget_at: layout.stall_budget(),
        };
        let rig = Rig::new(plan, buffers, Some(Budget { wait_ms: 10, total_ms: 1000 }));
        let clock = ScriptClock::new(0, geometry.clock_hz / 10_000);
        let board = Board { rig, layout, device: ScopeStats::new(clock.clone()), clock };
        board.device.set_enabled(true);
        board.init();
        board.device.set_orch_thread(ORCH);
        board
    }

    fn init(&self) {
        // SAFETY: the region is one and outlives the device's use; nothing else runs.
        unsafe { self.device.init(self.rig.plan.geometry, self.rig.base(), Some(0)) }.expect("a region");
    }

    fn site(&self, file: &[u8], line: i32) {
        let file = CString::new(file).unwrap();
        // SAFETY: this thread orchestrates; the device records, so the string is looked at now.
        unsafe { self.device.set_pending_site(file.as_ptr().cast(), line) }
    }

    fn begin(&self, sample: &Sample) {
        // SAFETY: this thread orchestrates.
        unsafe { self.device.begin(sample) }
    }

    fn end(&self, sample: &Sample) {
        // SAFETY: this thread orchestrates.
        unsafe { self.device.end(sample) }
    }

    fn caps(&self, ring: i32, heap: u64) {
        // SAFETY: this thread orchestrates.
        unsafe { self.device.set_ring_capacity(ring, 16, heap, 8) }
    }

    fn flush(&mut self) -> Vec<Record> {
        // SAFETY: this thread orchestrates.
        unsafe { self.device.flush() };
        self.rig.drain(true);
        self.records()
    }

    fn records(&self) -> Vec<Record> {
        self.rig.records(0).iter().map(|bytes| Record::read_from_bytes(bytes).expect("a record")).collect()
    }

    fn word(&self, offset: usize) -> u32 {
        self.rig.word(offset).load(Relaxed)
    }

    fn deep(&self) -> u32 {
        self.word(self.rig.state(0) + ScopeStatsLayout::DEEP)
    }
}

fn site(record: &Record) -> &[u8] {
    let nul = record.site_file_basename.iter().position(|&byte| byte == 0).expect("a NUL");
    assert!(record.site_file_basename[nul..].iter().all(|&byte| byte == 0), "nothing behind it");
    &record.site_file_basename[..nul]
}

fn on(ring: i32) -> Sample {
    Sample { ring, ..Sample::default() }
}

#[test]
fn both_ends_of_a_scope_carry_its_site_and_what_was_measured() {
    for geometry in PLATFORMS {
        let mut board = Board::new(geometry, 2);
        board.site(b"/home/a b/kernels\\attention.cpp", 42);
        let begin = Sample {
            ring: 2,
            task_start: 1,
            task_end: -2,
            heap_start: 3,
            heap_end: 4,
            dep_start: 5,
            dep_end: 6,
            tensormap: 7,
        };
        let end = Sample { ring: 0, task_start: 10, ..begin };
        board.begin(&begin);
        board.end(&end);
        let expected = |phase, task_start| {
            let mut file = [0; 32];
            file[..13].copy_from_slice(b"attention.cpp");
            Record {
                site_file_basename: file,
                heap_start: 3,
                heap_end: 4,
                site_line: 42,
                task_start,
                task_end: -2,
                dep_pool_start: 5,
                dep_pool_end: 6,
                tensormap_used: 7,
                depth: 0,
                ring_id: 2,
                phase,
                _pad: 0,
            }
        };
        assert_eq!(board.flush(), [expected(0, 1), expected(1, 10)], "the ring is the scope's");
        assert_eq!(board.rig.taken[0].thread, ORCH);
        assert_eq!((board.rig.total(0), board.rig.dropped(0)), (2, 0));
    }
}

#[test]
fn sites_are_cut_to_their_last_part_and_31_bytes_and_never_changed() {
    let mut board = Board::new(&Geometry::A2A3, 2);
    let long = [b'x'; 80];
    let sites: [(&[u8], &[u8]); 12] = [
        (b"plain.cpp", b"plain.cpp"),
        (b"a/b/c.cpp", b"c.cpp"),
        (b"C:\\src\\w.cpp", b"w.cpp"),
        (b"a\\b/c\\d", b"d"),
        (b"folder/", b""),
        (b"", b""),
        (b"\"quoted\"\n\t.cpp", b"\"quoted\"\n\t.cpp"),
        (b"dir/\xFF\xFE\x80.cpp", b"\xFF\xFE\x80.cpp"),
        (&long[..31], &long[..31]),
        (&long[..32], &long[..31]),
        (&long, &long[..31]),
        ("ü/äöüß.cpp".as_bytes(), "äöüß.cpp".as_bytes()),
    ];
    for (file, _) in sites {
        board.site(file, -1);
        board.begin(&on(0));
        board.end(&on(0));
    }
    // A null site, and none at all.
    // SAFETY: this thread orchestrates, and null is allowed.
    unsafe { board.device.set_pending_site(std::ptr::null(), 5) };
    board.begin(&on(0));
    board.end(&on(0));
    board.begin(&on(0));
    board.end(&on(0));
    let records = board.flush();
    for (pair, (file, name)) in records.chunks(2).zip(sites) {
        assert_eq!((site(&pair[0]), site(&pair[1])), (name, name), "{file:?}");
        assert_eq!(pair[1].site_line, -1);
    }
    let last: Vec<_> = records[24..].iter().map(|record| (site(record), record.site_line)).collect();
    let (null, none) = ((&b"(unknown)"[..], 5), (&b"(unknown)"[..], 0));
    assert_eq!(last, [null, null, none, none]);
}

#[test]
fn a_site_belongs_to_the_next_scope_only_and_the_last_one_set_counts() {
    let mut board = Board::new(&Geometry::A2A3, 2);
    board.site(b"first.cpp", 1);
    board.site(b"second.cpp", 2);
    board.begin(&on(0));
    board.begin(&on(1));
    board.site(b"third.cpp", 3);
    board.end(&on(9));
    board.end(&on(9));
    board.begin(&on(3));
    let records = board.flush();
    let seen: Vec<_> = records.iter().map(|r| (site(r), r.depth, r.ring_id, r.phase)).collect();
    let expected: [(&[u8], i16, i16, i16); 5] = [
        (b"second.cpp", 0, 0, 0),
        (b"(unknown)", 1, 1, 0),
        (b"(unknown)", 1, 1, 1),
        (b"second.cpp", 0, 0, 1),
        (b"third.cpp", 0, 3, 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_site_that_was_set_while_disabled_is_remembered() {
    let mut board = Board::new(&Geometry::A2A3, 2);
    board.device.set_enabled(false);
    let file = c"early/bird.cpp";
    // SAFETY: this thread orchestrates, and the string lives on.
    unsafe { board.device.set_pending_site(file.as_ptr().cast(), 7) };
    board.device.set_enabled(true);
    board.begin(&on(0));
    board.end(&on(0));
    let records = board.flush();
    assert_eq!(
        records.iter().map(|r| (site(r), r.site_line)).collect::<Vec<_>>(),
        [(&b"bird.cpp"[..], 7); 2]
    );
}

#[test]
fn every_end_belongs_to_its_own_begin_at_any_depth() {
    let depths = [63, 64, 65, 70, 127, 128, 129, 300];
    for depth in depths.into_iter().step_by(scaled(1, 3) as usize) {
        let mut board = Board::new(&Geometry::A2A3, 8);
        for scope in 0..depth {
            board.site(format!("s{scope}.cpp").as_bytes(), scope);
            board.begin(&on(scope % 4));
        }
        // SAFETY: this thread orchestrates.
        assert_eq!(unsafe { board.device.depth() }, depth - 1);
        for scope in (0..depth).rev() {
            board.end(&on(scope % 4));
        }
        // SAFETY: as above.
        assert_eq!(unsafe { board.device.depth() }, -1);
        let records = board.flush();
        assert_eq!(records.len() as i32, 2 * depth, "nothing is left out");
        for (i, record) in (0..).zip(&records) {
            let (scope, phase) = if i < depth { (i, 0) } else { (2 * depth - 1 - i, 1) };
            assert_eq!((i32::from(record.depth), record.phase), (scope, phase));
            assert_eq!(i32::from(record.ring_id), scope % 4);
            if phase == 0 || scope < 2 * MAX_DEPTH as i32 {
                assert_eq!((site(record), record.site_line), (format!("s{scope}.cpp").as_bytes(), scope));
            } else {
                assert_eq!(site(record), b"(unknown)");
            }
        }
        assert_eq!(board.deep(), (depth as u32).saturating_sub(MAX_DEPTH as u32), "counted");
        assert_eq!(board.device.misused(), 0);
    }
}

#[test]
fn an_end_without_a_begin_is_counted_and_changes_nothing() {
    let mut board = Board::new(&Geometry::A2A3, 2);
    board.end(&on(0));
    board.site(b"a.cpp", 1);
    board.begin(&on(1));
    board.end(&on(1));
    board.end(&on(1));
    assert_eq!(board.device.misused(), 2);
    assert_eq!(board.flush().len(), 2);
}

#[test]
fn heap_bytes_are_exact_for_any_number_of_wraps_on_either_side() {
    let many = scaled(1000, 50).into();
    for (allocs, reclaims) in [(0, 0), (1, 0), (3, 2), (many, many), (many, 0), (0, 3)] {
        for geometry in PLATFORMS {
            let mut board = Board::new(geometry, 2);
            for ring in 0..4 {
                board.caps(ring, 4096 << ring);
            }
            let sample = Sample { ring: 1, heap_start: 100, heap_end: 200, ..Sample::default() };
            board.begin(&sample);
            for _ in 0..allocs {
                board.device.note_heap_wrap(0);
            }
            for _ in 0..reclaims {
                board.device.note_heap_wrap(1);
            }
            // Neither a side nor a ring.
            for side in [-1, 2, i32::MAX] {
                board.device.note_heap_wrap(side);
            }
            for ring in [4, -1] {
                board.begin(&on(ring));
                board.device.note_heap_wrap(0);
                board.end(&on(ring));
            }
            board.begin(&Sample { ring: 2, ..sample });
            board.end(&sample);
            board.end(&sample);
            board.device.note_heap_wrap(0);
            let records = board.flush();
            let heap = |i: usize| (records[i].heap_start, records[i].heap_end);
            assert_eq!(heap(0), (100, 200));
            assert_eq!((heap(5), heap(6)), ((100, 200), (100, 200)), "another ring's wraps are its own");
            assert_eq!(
                heap(7),
                (100 + reclaims * 8192, 200 + allocs * 8192),
                "{allocs} and {reclaims} wraps"
            );
            assert_eq!((records[1].ring_id, records[3].ring_id), (4, -1));
        }
    }
}

#[test]
fn capacities_reach_the_header_also_when_disabled() {
    for geometry in PLATFORMS {
        let board = Board::new(geometry, 1);
        board.device.set_enabled(false);
        // SAFETY: this thread orchestrates.
        unsafe {
            for ring in -1..6 {
                board.device.set_ring_capacity(ring, 10 + ring, 1 << (40 + ring.max(0)), 20 + ring);
            }
            board.device.set_tensormap_capacity(99);
        }
        let layout = board.layout;
        let words = |at: usize| (0..4).map(|ring| board.word(at + 4 * ring)).collect::<Vec<_>>();
        assert_eq!(words(layout.task_window_cap), [10, 11, 12, 13]);
        assert_eq!(words(layout.dep_pool_cap), [20, 21, 22, 23]);
        for ring in 0..4 {
            assert_eq!(board.rig.wide(layout.heap_cap + 8 * ring).load(Relaxed), 1 << (40 + ring));
        }
        assert_eq!(board.word(layout.tensormap_cap), 99);
        assert_eq!(board.word(layout.fatal_latched), 0);
        assert_eq!(board.word(layout.num_instances), 0, "the host's word");
    }
}

#[test]
fn a_fatal_error_is_latched_and_flushes() {
    let mut board = Board::new(&Geometry::A5, 2);
    board.begin(&on(0));
    // SAFETY: this thread orchestrates.
    unsafe { board.device.on_fatal() };
    board.rig.drain(true);
    assert_eq!((board.word(board.layout.fatal_latched), board.records().len()), (1, 1));
    board.end(&on(0));
    assert_eq!(board.flush().len(), 2, "it goes on");
}

#[test]
fn without_an_orchestrator_thread_a_buffer_is_kept_and_the_rest_counted_one_by_one() {
    let mut board = Board::new(&Geometry::A2A3, 4);
    board.device.set_orch_thread(-1i32 as u32);
    for _ in 0..RECORDS {
        board.begin(&on(0));
        board.end(&on(0));
    }
    board.flush();
    assert_eq!((board.rig.taken.len(), board.rig.recover(0).len()), (0, RECORDS));
    assert_eq!((board.rig.total(0), board.rig.dropped(0)), (2 * RECORDS as u32, RECORDS as u32));
    board.device.set_orch_thread(ORCH);
    board.begin(&on(0));
    assert_eq!(board.flush().len(), RECORDS + 1, "what was kept and what came then");
}

#[test]
fn a_dead_host_costs_one_wait_and_scopes_stay_matched() {
    let mut board = Board::new(&Geometry::A2A3, 1);
    let pairs = RECORDS / 2 + 50;
    for i in 0..pairs as i32 {
        board.site(format!("s{i}").as_bytes(), i);
        board.begin(&on(0));
        board.end(&on(0));
    }
    let waited = board.clock.peek() * 1000 / board.rig.plan.geometry.clock_hz;
    assert!((10..12).contains(&waited), "{waited} ms");
    assert_eq!(board.rig.stalls(0).0, 1);
    assert_eq!((board.rig.total(0), board.rig.dropped(0)), (2 * pairs as u32, 100));
    board.site(b"outer", 1);
    board.begin(&on(0)); // Dropped, but open.
    board.rig.drain(true);
    board.end(&on(0));
    let records = board.flush();
    let last = records.last().unwrap();
    assert_eq!((site(last), last.depth, last.phase), (&b"outer"[..], 0, 1));
    assert_eq!(board.rig.dropped(0), 101);
    board.rig.check_sequence(0);
}

#[test]
fn nothing_is_recorded_when_disabled_or_without_a_region() {
    let mut board = Board::new(&Geometry::A2A3, 2);
    board.device.set_enabled(false);
    board.begin(&on(0));
    board.end(&on(0));
    board.device.note_heap_wrap(0);
    // SAFETY: this thread orchestrates.
    unsafe { board.device.on_fatal() };
    assert_eq!(board.flush().len(), 0);
    assert_eq!((board.rig.total(0), board.word(board.layout.fatal_latched), board.clock.reads()), (0, 0, 0));
    // SAFETY: this thread orchestrates.
    assert_eq!(unsafe { board.device.depth() }, -1);

    board.device.set_enabled(true);
    // SAFETY: nothing else runs.
    let refused = unsafe { board.device.init(&Geometry::A2A3, DeviceAddr::NULL, None) };
    assert_eq!(refused, Err(InitError::NoRegion { feature: "scope stats" }));
    board.begin(&on(0));
    board.caps(0, 77);
    // SAFETY: nothing else runs.
    unsafe { board.device.reset() };
    assert!(!board.device.is_enabled() && !board.device.recording());
    assert_eq!(board.rig.wide(board.layout.heap_cap).load(Relaxed), 0);
}

#[test]
fn an_init_knows_nothing_of_an_earlier_launch() {
    let board = Board::new(&Geometry::A5, 1);
    board.caps(0, 4096);
    board.site(b"old.cpp", 1);
    for _ in 0..RECORDS + 80 {
        board.begin(&on(0));
    }
    board.device.note_heap_wrap(0);
    board.site(b"pending.cpp", 2);
    let mut fresh = Board::new(&Geometry::A2A3, 2);
    // SAFETY: the region is one; nothing else runs.
    unsafe { board.device.init(&Geometry::A2A3, fresh.rig.base(), Some(0)) }.unwrap();
    // SAFETY: this thread orchestrates.
    assert_eq!(unsafe { board.device.depth() }, -1);
    board.caps(0, 4096);
    board.begin(&on(0));
    // SAFETY: as above.
    unsafe { board.device.flush() };
    fresh.rig.drain(false);
    assert!(fresh.rig.taken.is_empty(), "the orchestrator's thread is forgotten");
    board.device.set_orch_thread(1);
    // SAFETY: as above.
    unsafe { board.device.flush() };
    fresh.rig.drain(false);
    let records = fresh.records();
    assert_eq!((site(&records[0]), records[0].depth, records[0].heap_end), (&b"(unknown)"[..], 0, 0));
    assert_eq!((fresh.rig.total(0), fresh.rig.dropped(0), fresh.deep()), (1, 0, 0));
}

#[test]
fn the_count_is_published_with_every_record_and_totals_at_sync() {
    let board = Board::new(&Geometry::A5, 1);
    for scope in 1..6 {
        board.begin(&on(0));
        assert_eq!(board.rig.recover(0).len(), scope);
    }
    // SAFETY: this thread orchestrates.
    unsafe { board.device.sync() };
    assert_eq!(board.rig.total(0), 5);
}
