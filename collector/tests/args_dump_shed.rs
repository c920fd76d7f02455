//! A host that is slow, or dead: waits are bounded, payloads are shed, records stay, and all of it is counted.

#[path = "plain/args_dump.rs"]
mod args_dump;
mod plain;

use args_dump::{BUDGET, Dump, Host, Shape, TICKS_PER_MS, Tensor, flush, record, scalar};
use dfx_collector::abi::args_dump::{FLAG_SHED, Info, RECORDS, Stage};
use dfx_collector::abi::layout::ARENA;
use dfx_collector::abi::tensor::DataType;
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use dfx_mock::scaled;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::{Arc, Mutex};

/// Half an arena of [`Shape::SMALL`].
fn half() -> Tensor {
    Tensor::dense(&mut SmallRng::seed_from_u64(1), DataType::Uint8, &[1 << 15])
}

fn launch(budget: Option<Budget>) -> (Host, Dump<ScriptClock>, ScriptClock) {
    let host = Host::new(Shape { budget, ..Shape::SMALL });
    let clock = ScriptClock::new(0, TICKS_PER_MS / 10);
    let dump = host.launch(clock.clone());
    (host, dump, clock)
}

fn bring(dump: &Dump<ScriptClock>, tensor: &Tensor, task: u64, arg: u32) {
    assert!(record(dump, 0, &Info { task_id: task, arg_index: arg, ..tensor.info() }), "the record stays");
}

/// Milliseconds that `act` takes.
fn ms(clock: &ScriptClock, act: impl FnOnce()) -> u64 {
    let start = clock.peek();
    act();
    (clock.peek() - start) / TICKS_PER_MS
}

#[test]
fn a_dead_host_is_waited_for_once_and_then_payload_is_shed_without_a_wait() {
    let (mut host, dump, clock) = launch(Some(BUDGET));
    let tensor = half();
    assert_eq!(ms(&clock, || (0..2).for_each(|task| bring(&dump, &tensor, task, 0))), 0);
    let waited = ms(&clock, || bring(&dump, &tensor, 2, 0));
    assert!((8..=9).contains(&waited), "{waited} ms: most of one wait");
    let back = scaled(103, 43).into();
    assert_eq!(
        ms(&clock, || (3..back).for_each(|task| bring(&dump, &tensor, task, 0))),
        0,
        "it has not moved"
    );
    assert_eq!(host.rig.stalls(0).0, 1);
    flush(&dump, 0);
    host.take();
    host.save(0, usize::MAX);
    // It is back.
    bring(&dump, &tensor, back, 0);
    flush(&dump, 0);
    host.finish(false);
    assert_eq!(host.saved.len() as u64, back + 1);
    for (at, saved) in host.saved.iter().enumerate() {
        let record = saved.record;
        let shed = (2..back).contains(&(at as u64));
        assert_eq!((record.task_id, record.flags == FLAG_SHED), (at as u64, shed));
        assert_eq!((record.truncated, record.payload_size), (shed.into(), if shed { 0 } else { 1 << 15 }));
    }
    assert_eq!(host.word(0, ARENA.shed_bytes), (back - 2) << 15);
    host.balance(0);
}

#[test]
fn a_dead_host_costs_two_waits_however_long_the_run_is() {
    let (mut host, dump, clock) = launch(Some(BUDGET));
    let tensor = half();
    let waited = ms(&clock, || {
        for task in 0..scaled(5000, 5 * RECORDS as u32).into() {
            // SAFETY: one thread calls.
            unsafe { dump.record(0, &Info { task_id: task, ..tensor.info() }) };
        }
    });
    assert!(waited <= 20, "{waited} ms: one wait for the arena, one for a buffer");
    flush(&dump, 0);
    host.finish(true);
    host.balance(0);
    assert!(host.rig.dropped(0) > 0);
}

#[test]
fn no_payload_is_waited_for_after_the_deadline_and_records_go_on() {
    // 30 ms a wait, but 50 ms in all; the host saves nothing more than it is asked for within one wait.
    let budget = Budget { wait_ms: 30, total_ms: 50 };
    let (host, dump, clock) = launch(Some(budget));
    let host = Arc::new(Mutex::new(host));
    let (theirs, at) = (host.clone(), clock.clone());
    // A payload is saved every 12 ms.
    let mut next = 12 * TICKS_PER_MS;
    clock.on_relax(move || {
        let mut host = theirs.lock().unwrap();
        host.take();
        if at.peek() >= next {
            host.save(0, 1);
            next += 12 * TICKS_PER_MS;
        }
    });
    let tensor = half();
    for task in 0..40 {
        bring(&dump, &tensor, task, 0);
    }
    assert!(clock.peek() <= 50 * TICKS_PER_MS, "{} ticks", clock.peek());
    clock.no_hook();
    flush(&dump, 0);
    let mut host = host.lock().unwrap();
    host.finish(false);
    host.balance(0);
    let shed = host.count(0, ARENA.shed_records);
    assert!((34..38).contains(&shed), "two had room, some three were waited for, {shed} were shed");
    assert_eq!((host.rig.dropped(0), host.saved.len()), (0, 40));
}

#[test]
fn all_arguments_of_a_task_share_one_wait_so_that_peers_see_progress() {
    // Each payload is saved after 4 ms: shorter than one wait of 10 ms, but not many of them.
    let slow = |args: &dyn Fn(u32) -> (u64, u32, Stage)| {
        let (host, dump, clock) = launch(Some(BUDGET));
        let host = Arc::new(Mutex::new(host));
        let (theirs, at) = (host.clone(), clock.clone());
        let mut next = 4 * TICKS_PER_MS;
        clock.on_relax(move || {
            let mut host = theirs.lock().unwrap();
            host.take();
            if at.peek() >= next {
                host.save(0, 1);
                next = at.peek() + 4 * TICKS_PER_MS;
            }
        });
        let tensor = half();
        let took = ms(&clock, || {
            for n in 0..12 {
                let (task_id, arg_index, stage) = args(n);
                let info = Info { task_id, arg_index, stage: stage as u8, ..tensor.info() };
                assert!(record(&dump, 0, &info));
            }
        });
        clock.no_hook();
        let shed = host.lock().unwrap().count(0, ARENA.shed_records);
        (took, shed)
    };
    let (took, shed) = slow(&|n| (1, n, Stage::BeforeDispatch));
    assert!(took < 10 && shed >= 7, "one task: {took} ms, {shed} shed");
    let (took, shed) = slow(&|n| (u64::from(n), 0, Stage::BeforeDispatch));
    assert!(took >= 36 && shed == 0, "many tasks: {took} ms, {shed} shed");
    let (_, shed) =
        slow(&|n| (1, 0, if n % 2 == 0 { Stage::BeforeDispatch } else { Stage::AfterCompletion }));
    assert_eq!(shed, 0, "the other stage is the next step");
    let (_, shed) = slow(&|n| (1, n % 2, Stage::BeforeDispatch));
    assert_eq!(shed, 0, "so is another block of the task");
}

#[test]
fn a_budget_of_zero_never_waits_and_reads_no_clock() {
    let (mut host, dump, clock) = launch(Some(Budget { wait_ms: 0, total_ms: 0 }));
    let tensor = half();
    for task in 0..10 {
        bring(&dump, &tensor, task, 0);
    }
    assert_eq!((clock.reads(), clock.relaxes()), (0, 0));
    host.take();
    host.save(0, usize::MAX);
    bring(&dump, &tensor, 10, 0);
    flush(&dump, 0);
    host.finish(true);
    assert_eq!((host.count(0, ARENA.shed_records), clock.reads()), (8, 0));
    host.balance(0);
}

#[test]
fn a_reference_host_that_never_answers_is_waited_for_once_and_shed_payload_shows_as_truncated() {
    // A look takes a tenth of a millisecond, or ten: the wait is long.
    let mut host = Host::new(Shape { budget: None, ..Shape::SMALL });
    let clock = ScriptClock::new(0, TICKS_PER_MS * u64::from(scaled(1, 100)) / 10);
    let dump = host.launch(clock.clone());
    let tensor = half();
    let waited = ms(&clock, || (0..50).for_each(|task| bring(&dump, &tensor, task, 0)));
    assert!((6900..7100).contains(&waited), "{waited} ms: seven eighths of 8 s");
    assert_eq!(
        host.rig.word(host.rig.plan.queue.backpressure + 12).load(std::sync::atomic::Ordering::Relaxed),
        1
    );
    host.reference_tick();
    bring(&dump, &tensor, 50, 0);
    flush(&dump, 0);
    host.finish(false);
    assert_eq!(host.saved.len(), 51);
    assert!(host.saved[2..50].iter().all(|saved| saved.record.truncated == 1 && saved.bytes.is_empty()));
    assert_eq!(host.saved[50].bytes, tensor.oracle());
    host.balance(0);
}

#[test]
fn a_dry_lane_drops_records_and_takes_no_arena_for_them() {
    let (mut host, dump, clock) = launch(Some(BUDGET));
    let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(1), DataType::Uint8, &[8]);
    for task in 0..4 * RECORDS as u64 {
        assert!(record(&dump, 0, &scalar(task, 0, task)));
    }
    let before = host.word(0, ARENA.write_offset);
    let waited = ms(&clock, || {
        for task in 0..10 {
            // SAFETY: one thread calls.
            unsafe {
                assert!(!dump.record(0, &Info { task_id: task, ..tensor.info() }));
                assert!(!dump.record(0, &scalar(task, 1, 0)));
            }
        }
    });
    assert!((9..=11).contains(&waited), "{waited} ms");
    assert_eq!((host.rig.dropped(0), host.word(0, ARENA.write_offset)), (20, before));
    host.take();
    bring(&dump, &tensor, 1, 0);
    flush(&dump, 0);
    host.finish(false);
    assert_eq!(host.saved.len(), 4 * RECORDS + 1);
    host.balance(0);
}

#[test]
fn a_full_ready_queue_sheds_what_cannot_be_handed_over_and_keeps_the_records() {
    // Buffers enough, but nobody takes what is published: the arena's end is in the buffer that cannot go.
    let host = Host::new(Shape { buffers: 80, budget: Some(BUDGET), arena: 1 << 13, ..Shape::SMALL });
    let clock = ScriptClock::new(0, TICKS_PER_MS / 10);
    let dump = host.launch(clock.clone());
    let mut host = host;
    let mut offered = 4;
    // An interpreter publishes its buffers before they are full.
    let fill = scaled(RECORDS as u32, 2);
    for round in 0..62 {
        for task in 0..fill.into() {
            assert!(record(&dump, 0, &scalar(round * u64::from(fill) + task, 0, 0)));
        }
        if fill < RECORDS as u32 {
            flush(&dump, 0);
        }
        while offered < 80 && host.rig.offer(offered) {
            offered += 1;
        }
    }
    let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(1), DataType::Uint8, &[4096]);
    let tasks = scaled(60, 28);
    let waited = ms(&clock, || (0..tasks.into()).for_each(|task| bring(&dump, &tensor, task, 0)));
    assert!(waited <= 20, "{waited} ms");
    assert!(host.count(0, ARENA.shed_records) >= tasks - 2);
    flush(&dump, 0);
    host.finish(true);
    assert_eq!(host.saved.iter().filter(|saved| saved.bytes == tensor.oracle()).count(), 2);
    host.balance(0);
}
