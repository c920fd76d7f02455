//! What is recorded at which level, and the marks that say so.

#[path = "plain/args_dump.rs"]
mod args_dump;
mod plain;

use args_dump::{Dump, Host, Shape, TICKS_PER_MS, Tensor, flush, record, scalar, tables};
use dfx_collector::abi::args_dump::{FLAG_ARG_INDEX_AMBIGUOUS, Info, Level, Role, Stage};
use dfx_collector::abi::layout::ARENA;
use dfx_collector::abi::tensor::{ArgDirection, DataType};
use dfx_collector::abi::{DeviceAddr, Geometry};
use dfx_collector::args_dump::{ArgsDump, InitError, MAX_SCALARS, Tables, is_dumped_at, role_of};
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use dfx_mock::region::Memory;
use dfx_mock::scaled;
use plain::PLATFORMS;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

/// Counts what the calling thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn launch(level: Level) -> (Host, Dump<ScriptClock>) {
    let host = Host::new(Shape { level, ..Shape::SMALL });
    let dump = host.launch(ScriptClock::new(0, TICKS_PER_MS / 10));
    (host, dump)
}

fn tensors() -> Vec<Tensor> {
    (0..3).map(|seed| Tensor::dense(&mut SmallRng::seed_from_u64(seed), DataType::Float16, &[2, 5])).collect()
}

/// Dumps a task as the runtime does: an input, an output, an inout and a scalar, at both stages.
fn dump_task(dump: &Dump<ScriptClock>, task: u64, tensors: &[Tensor]) {
    if !dump.should_dump_task(task) {
        return;
    }
    let (mask, _) = dump.task_masks(task);
    for stage in [Stage::BeforeDispatch, Stage::AfterCompletion] {
        for (index, direction) in
            [ArgDirection::In, ArgDirection::Out, ArgDirection::Inout].into_iter().enumerate()
        {
            let role = role_of(direction).expect("a tensor");
            if !is_dumped_at(role, stage) || !dump.should_dump_arg(task, index as i32) {
                continue;
            }
            let ambiguous = dump.has_arg_flag(task, index as i32);
            record(
                dump,
                0,
                &Info {
                    task_id: task,
                    role: role as u8,
                    stage: stage as u8,
                    arg_index: index as u32,
                    flags: if ambiguous { FLAG_ARG_INDEX_AMBIGUOUS } else { 0 },
                    capture_payload: (mask >> index & 1) as u8,
                    ..tensors[index].info()
                },
            );
        }
        if stage == Stage::BeforeDispatch && dump.should_dump_arg(task, 3) {
            record(dump, 0, &scalar(task, 3, 42));
        }
    }
}

/// (task, argument, stage, has a payload) of all records.
fn rows(host: &mut Host, dump: &Dump<ScriptClock>) -> Vec<(u64, u32, u8, bool)> {
    flush(dump, 0);
    host.finish(false);
    host.balance(0);
    let row =
        |r: &args_dump::Saved| (r.record.task_id, r.record.arg_index, r.record.stage, !r.bytes.is_empty());
    host.saved.iter().map(row).collect()
}

fn run(level: Level) -> (Vec<(u64, u32, u8, bool)>, Host) {
    let (mut host, dump) = launch(level);
    // Task 1: the output and the scalar, the output's index ambiguous; task 2: nothing; task 3: the inout.
    dump.set_task_mask(1, 0b1010, 0b0010);
    dump.set_task_mask(3, 0b0100, 0);
    let tensors = tensors();
    for task in 1..=3 {
        dump_task(&dump, task, &tensors);
    }
    (rows(&mut host, &dump), host)
}

#[test]
fn partial_records_exactly_the_marked_arguments_with_payload() {
    let (rows, host) = run(Level::Partial);
    assert_eq!(rows, [(1, 3, 0, false), (1, 1, 1, true), (3, 2, 0, true), (3, 2, 1, true)]);
    assert_eq!(host.saved[1].record.flags, FLAG_ARG_INDEX_AMBIGUOUS);
}

#[test]
fn full_records_everything_with_payload_whatever_is_marked() {
    let each = |task| {
        [(task, 0, 0, true), (task, 2, 0, true), (task, 3, 0, false), (task, 1, 1, true), (task, 2, 1, true)]
    };
    assert_eq!(run(Level::Full).0, [each(1), each(2), each(3)].concat());
}

#[test]
fn hybrid_records_everything_and_the_payload_of_marked_tensors() {
    let each = |task, inout, out| {
        [
            (task, 0, 0, false),
            (task, 2, 0, inout),
            (task, 3, 0, false),
            (task, 1, 1, out),
            (task, 2, 1, inout),
        ]
    };
    let (rows, host) = run(Level::Hybrid);
    assert_eq!(rows, [each(1, false, true), each(2, false, false), each(3, true, false)].concat());
    let plain = &host.saved[0].record;
    assert_eq!((plain.payload_offset, plain.payload_size, plain.truncated, plain.flags), (0, 0, 0, 0));
    assert_eq!((plain.ndims, plain.shapes[0], plain.is_contiguous), (2, 2, 1));
}

#[test]
fn off_records_nothing_and_without_marks_partial_records_nothing_either() {
    for level in [Level::Off, Level::Partial] {
        let (mut host, dump) = launch(level);
        assert_eq!(dump.recording(), level == Level::Partial);
        dump_task(&dump, 1, &tensors());
        if level == Level::Off {
            assert!(!record(&dump, 0, &scalar(1, 0, 0)));
        }
        assert_eq!(rows(&mut host, &dump), []);
        assert_eq!(host.rig.total(0), 0);
    }
}

#[test]
fn the_level_decides_which_questions_marks_answer() {
    for (level, selective, masks) in [
        (Level::Off, false, false),
        (Level::Partial, true, true),
        (Level::Full, false, false),
        (Level::Hybrid, false, true),
    ] {
        let (_host, dump) = launch(level);
        assert_eq!(
            (dump.level(), dump.is_selective(), dump.should_load_task_masks()),
            (level, selective, masks)
        );
        dump.set_task_mask(9, 1 << 63 | 1, 1 << 63);
        assert_eq!((dump.should_dump_task(9), dump.should_dump_task(8)), (true, !selective));
        for (index, marked) in
            [(0, true), (63, true), (1, false), (64, false), (-1, false), (i32::MIN, false)]
        {
            assert_eq!(dump.should_dump_arg(9, index), marked || !selective, "{index}");
            assert_eq!(dump.has_arg_flag(9, index), index == 63);
        }
    }
}

#[test]
fn a_mark_replaces_that_of_the_same_task_and_no_other() {
    let (_host, dump) = launch(Level::Partial);
    let tasks: Vec<u64> = (0..scaled(2000, 25).into()).map(|n: u64| (n % 4) << 32 | (n / 4 * 37)).collect();
    for (n, task) in tasks.iter().enumerate() {
        dump.set_task_mask(*task, n as u64 + 1, n as u64);
        // All in the same place: whatever collides is found behind it.
        dump.set_task_mask((n as u64 + 1) << 48 | 5, 1 << 20 | n as u64, 0);
    }
    dump.set_task_mask(tasks[7], 99, 98);
    dump.set_task_mask(tasks[8], 0, 5);
    dump.set_task_mask(u64::MAX, 1, 1);
    for (n, task) in tasks.iter().enumerate() {
        let expected = if n == 7 { (99, 98) } else { (n as u64 + 1, n as u64) };
        assert_eq!(dump.task_masks(*task), expected);
        assert_eq!(dump.task_masks((n as u64 + 1) << 48 | 5), (1 << 20 | n as u64, 0));
    }
    assert_eq!((dump.task_masks(u64::MAX), dump.task_masks(1 << 60), dump.lost_marks()), ((0, 0), (0, 0), 0));
}

#[test]
fn a_full_table_is_counted_and_overwrites_nothing() {
    let (host, dump) = launch(Level::Partial);
    let lost = || host.rig.word(host.layout.lost_marks).load(Relaxed);
    let places = u64::from(scaled(1 << 15, 1 << 7));
    for task in 0..places {
        dump.set_task_mask(task * 7, task + 1, 0);
    }
    assert_eq!((dump.lost_marks(), lost()), (0, 0));
    for task in 0..10 {
        dump.set_task_mask(1 << 40 | task, 1, 0);
    }
    assert_eq!((dump.lost_marks(), lost()), (10, 10));
    dump.set_task_mask(70, 123, 4);
    for task in 0..places {
        assert_eq!(dump.task_masks(task * 7), if task == 10 { (123, 4) } else { (task + 1, 0) });
    }
    assert_eq!((dump.task_masks(1 << 40), dump.lost_marks()), ((0, 0), 10));
    // SAFETY: nothing else runs.
    unsafe { dump.set_enabled(true) };
    assert_eq!((dump.task_masks(7), dump.lost_marks()), ((0, 0), 0), "switched on: cleared");
    dump.set_task_mask(1 << 40, 1, 0);
    assert_eq!(dump.task_masks(1 << 40), (1, 0));
}

#[test]
fn types_of_scalars_come_back_and_too_many_are_ignored() {
    let (_host, dump) = launch(Level::Full);
    let get = |task| {
        let mut into = [0xEE; MAX_SCALARS];
        dump.task_scalar_dtypes(task, &mut into).map(|len| (len, into))
    };
    for len in [1usize, 7, 8, 9, 16, 31, 32] {
        let dtypes: Vec<u8> = (0..len).map(|n| n as u8 * 3 % 15).collect();
        dump.set_task_scalar_dtypes(len as u64, &dtypes);
        let (had, into) = get(len as u64).expect("known");
        assert_eq!((had, &into[..len]), (len, &dtypes[..]));
        assert!(into[len..].iter().all(|rest| *rest == 0));
    }
    dump.set_task_scalar_dtypes(100, &[]);
    dump.set_task_scalar_dtypes(101, &[1; 33]);
    dump.set_task_scalar_dtypes(9, &[4, 5]);
    assert_eq!((get(100), get(101), get(9).expect("known").0), (None, None, 2));
    assert_eq!(dump.task_masks(9), (0, 0), "another table");
}

#[test]
fn roles_and_stages_are_the_runtimes() {
    use ArgDirection::*;
    assert_eq!(
        [In, Out, Inout, Scalar].map(role_of),
        [Some(Role::Input), Some(Role::Output), Some(Role::Inout), None]
    );
    let at = |role| [Stage::BeforeDispatch, Stage::AfterCompletion].map(|stage| is_dumped_at(role, stage));
    assert_eq!(
        [Role::Input, Role::Output, Role::Inout].map(at),
        [[true, false], [false, true], [true, true]]
    );
}

#[test]
fn init_says_what_is_wrong_and_nothing_is_recorded() {
    let (host, dump) = launch(Level::Full);
    let base = host.rig.base();
    // SAFETY: the memory is as large as a region; nothing else runs.
    let init = |at, threads| unsafe { dump.init(&Geometry::A2A3, at, threads, Some(0)) };
    let other = Memory::new(1 << 16);
    assert_eq!(init(DeviceAddr::NULL, 1), Err(InitError::NoRegion));
    assert_eq!(init(other.addr(0), 1), Err(InitError::Magic { found: 0 }));
    assert_eq!(init(base, 0), Err(InitError::Threads { wanted: 0, limit: 1 }));
    assert_eq!(init(base, 2), Err(InitError::Threads { wanted: 2, limit: 1 }));
    host.rig.word(host.layout.level).store(7, Relaxed);
    let refused = init(base, 1);
    assert_eq!(refused, Err(InitError::Level { found: 7 }));
    assert!(refused.unwrap_err().to_string().contains("nothing is recorded"));
    assert!(!dump.recording() && !record(&dump, 0, &scalar(1, 0, 0)));
    assert_eq!((dump.level(), host.rig.total(0)), (Level::Off, 0));
    host.rig.word(host.layout.level).store(1, Relaxed);
    assert_eq!(init(base, 1), Ok(()));
    assert!(dump.recording());
}

#[test]
fn threads_that_do_not_exist_are_counted_as_misuse() {
    for geometry in PLATFORMS {
        let host = Host::new(Shape { geometry, threads: 2, ..Shape::SMALL });
        let dump = host.launch(ScriptClock::new(0, 1));
        let tensor = &tensors()[0];
        for thread in [2, 3, 4, 5, u32::MAX] {
            assert!(!record(&dump, thread, &scalar(1, 0, 0)) && !record(&dump, thread, &tensor.info));
            flush(&dump, thread);
            // SAFETY: one thread calls.
            unsafe { dump.sync(thread) };
        }
        assert_eq!(dump.misused(), 20);
        assert_eq!((host.rig.total(0), host.rig.total(1)), (0, 0));
    }
}

#[test]
fn nothing_of_an_earlier_launch_survives() {
    let (host, dump) = launch(Level::Full);
    let tensor = &tensors()[0];
    for _ in 0..5 {
        assert!(record(&dump, 0, &tensor.info));
    }
    dump.set_task_mask(1, 1, 1);
    // SAFETY: nothing else runs.
    unsafe { dump.reset() };
    assert!(!dump.is_enabled() && !dump.recording() && dump.level() == Level::Off);
    assert_eq!(dump.task_masks(1), (0, 0));
    flush(&dump, 0);
    assert!(!record(&dump, 0, &tensor.info));
    let mut fresh =
        Host::new(Shape { geometry: &Geometry::A5, threads: 5, level: Level::Hybrid, ..Shape::SMALL });
    // SAFETY: the region is one; nothing else runs.
    unsafe {
        dump.set_enabled(true);
        // Marks that come before the init are the launch's.
        dump.set_task_mask(2, 1, 0);
        dump.init(&Geometry::A5, fresh.rig.base(), 5, Some(0)).expect("a region");
    }
    assert_eq!((dump.level(), dump.task_masks(2)), (Level::Hybrid, (1, 0)));
    for thread in 0..5 {
        assert!(record(&dump, thread, &Info { capture_payload: 1, ..tensor.info() }));
        flush(&dump, thread);
    }
    fresh.finish(false);
    assert_eq!(fresh.saved.len(), 5);
    for (thread, saved) in fresh.saved.iter().enumerate() {
        assert_eq!((saved.thread, saved.record.payload_offset), (thread as u32, 0));
        assert_eq!(fresh.rig.taken[thread].seq, 0);
    }
    // SAFETY: nothing else runs.
    unsafe { dump.set_enabled(false) };
    assert!(!record(&dump, 0, &tensor.info));
    drop(host);
}

#[test]
fn a_sync_shows_what_there_is_without_publishing_it() {
    let (mut host, dump) = launch(Level::Full);
    let tensor = &tensors()[0];
    for at in 0..7 {
        assert!(record(&dump, 0, &Info { task_id: at, ..tensor.info() }));
    }
    // SAFETY: one thread calls.
    unsafe { dump.sync(0) };
    assert_eq!((host.rig.total(0), host.word(0, ARENA.payload_bytes)), (7, 140));
    host.finish(true);
    assert!(host.rig.taken.is_empty() && host.saved.iter().all(|saved| saved.bytes == tensor.oracle()));
    host.balance(0);
}

static TABLES: Tables = Tables::NEW;
static DUMP: ArgsDump<NoClock> = ArgsDump::new(NoClock, &TABLES);

struct NoClock;

impl dfx_collector::clock::Clock for NoClock {
    fn now(&self) -> u64 {
        0
    }
    fn relax(&self) {}
}

#[test]
fn nothing_is_allocated_and_a_static_will_do() {
    let budget = Some(Budget { wait_ms: 0, total_ms: 0 });
    let shape = Shape { dedup: true, budget, ..Shape::SMALL };
    let host = Host::new(Shape { buffers: 4, ..shape });
    let mut random = SmallRng::seed_from_u64(1);
    let views: Vec<Tensor> = (0..scaled(50, 12)).map(|_| Tensor::random(&mut random, scaled(6, 3))).collect();
    let before = ALLOCATIONS.get();
    // SAFETY: the region is one; one thread calls.
    unsafe {
        DUMP.set_enabled(true);
        DUMP.init(&Geometry::A2A3, host.rig.base(), 1, Some(0)).expect("a region");
        for task in 0..scaled(40_000, 150).into() {
            DUMP.set_task_mask(task, 1, 1);
            DUMP.set_task_scalar_dtypes(task, &[1, 2]);
        }
        for view in views.iter().cycle().take(scaled(500, 60) as usize) {
            DUMP.record(0, &view.info);
            DUMP.record(0, &scalar(1, 1, 1));
        }
        DUMP.sync(0);
        DUMP.flush(0);
        assert!(!DUMP.should_dump_arg(0, 99) || !DUMP.is_selective());
        DUMP.reset();
    }
    assert_eq!(ALLOCATIONS.get(), before);
    drop(tables());
}
