//! A slow, full, frozen or dead host: every wait ends, every record is accounted for, no published buffer is reused.

use dfx_collector::abi::swimlane::{BufferKind, CORE_RECORDS, Level, TASK_RECORDS};
use dfx_collector::stall::Budget;
use dfx_mock::device::Rig;
use dfx_mock::region::Shape;
use dfx_mock::rows::LaneKey;
use dfx_mock::scaled;
use std::sync::atomic::Ordering::Relaxed;

const BUFFER: u32 = CORE_RECORDS as u32;
const CORE: LaneKey = (BufferKind::AicoreTask, 0);
const TASKS: LaneKey = (BufferKind::AicpuTask, 0);
/// a2a3's counter.
const TICKS_PER_MS: u64 = 50_000;

fn shape(level: Level, wait_ms: u16, total_ms: u16) -> Shape {
    Shape { budget: Some(Budget { wait_ms, total_ms }), ..Shape::small(level, 1) }
}

/// Each read of the clock takes a tenth of a millisecond.
fn rig(level: Level, wait_ms: u16, total_ms: u16) -> Rig {
    Rig::new(shape(level, wait_ms, total_ms), TICKS_PER_MS / 10)
}

/// The same, with room for `room` entries in each ready queue.
fn short(level: Level, wait_ms: u16, room: u32) -> Rig {
    let mut rig = Rig::cold(shape(level, wait_ms, 1000), TICKS_PER_MS / 10);
    for thread in 0..2 {
        rig.host().limit(thread, room);
    }
    rig.host().refill();
    rig.device.launch(&rig.region).expect("a region that fits");
    rig
}

fn elapsed(rig: &mut Rig, work: impl FnOnce(&mut Rig)) -> u64 {
    let start = rig.device.clock.peek();
    work(rig);
    rig.device.clock.peek().wrapping_sub(start)
}

#[test]
fn a_dry_lane_waits_once_then_counts_drops_and_does_not_wait_again() {
    let mut rig = rig(Level::AicoreTiming, 10, 1000);
    rig.host().drains = false;
    rig.device.run(0, 3 * BUFFER);
    let waited = elapsed(&mut rig, |rig| rig.device.run(0, 1));
    assert!(
        (10 * TICKS_PER_MS..12 * TICKS_PER_MS).contains(&waited),
        "{waited} ticks for the first that finds no buffer"
    );
    assert_eq!(elapsed(&mut rig, |rig| rig.device.run(0, 100)), 0, "the host is latched as gone");
    assert_eq!(rig.device.cores[0].refused, 101);
    let head = &rig.region.pool(CORE).head;
    assert_eq!((head.dropped_record_count.load(Relaxed), head.stalls.load(Relaxed)), (101, 1));
    assert_eq!(head.stall_ticks.load(Relaxed), waited - TICKS_PER_MS / 10, "from the first look to the last");
    assert_eq!(head.max_stall_ticks.load(Relaxed), head.stall_ticks.load(Relaxed));
    assert_eq!(rig.host().contended(), (false, true));

    // It comes back: the next record is kept, and a later wait is a wait again.
    rig.host().drains = true;
    rig.host().step(8);
    rig.host().drains = false;
    assert_eq!(elapsed(&mut rig, |rig| rig.device.run(0, 2 * BUFFER)), 0, "two buffers came back");
    assert!(elapsed(&mut rig, |rig| rig.device.run(0, 1)) >= 10 * TICKS_PER_MS, "un-latched, it waits again");
    rig.device.flush();
    assert_eq!(rig.finish()[0].dropped, 102);
}

#[test]
fn a_wait_that_the_host_ends_keeps_the_record() {
    let mut rig = rig(Level::AicpuTiming, 10, 1000);
    rig.help_while_waiting();
    rig.device.run(0, scaled(20, 5) * BUFFER);
    rig.device.flush();
    rig.finish_whole();
    let head = &rig.region.pool(CORE).head;
    assert!(head.stalls.load(Relaxed) > 0 && head.stall_ticks.load(Relaxed) > 0, "it did wait");
}

#[test]
fn a_full_ready_queue_makes_a_lane_wait_within_the_budget_then_drop_and_count() {
    let rig = short(Level::AicpuTiming, 10, 1);
    rig.host().drains = false;
    let records = TASK_RECORDS as u32;
    for token in 0..records {
        // SAFETY: this thread is the core's only caller.
        assert!(unsafe { rig.device.swimlane.complete_task(0, 0, token, 1, 2) });
    }
    assert_eq!(rig.device.clock.relaxes(), 0, "the first buffer finds room");
    for token in 0..records {
        // SAFETY: as above.
        assert!(unsafe { rig.device.swimlane.complete_task(0, 0, token, 1, 2) }, "the second is filled");
    }
    let relaxes = rig.device.clock.relaxes();
    assert!((90..=110).contains(&relaxes), "one wait of 10 ms, not {relaxes} looks");
    for token in 0..50 {
        // SAFETY: as above.
        assert!(!unsafe { rig.device.swimlane.complete_task(0, 0, token, 1, 2) }, "no room: dropped");
    }
    assert_eq!(rig.device.clock.relaxes(), relaxes, "latched");
    let head = &rig.region.pool(TASKS).head;
    assert_eq!(head.total_record_count.load(Relaxed), 2 * records + 50);
    assert_eq!(head.dropped_record_count.load(Relaxed), 50);
    assert!(rig.host().contended().0);
    // Room again: the full buffer goes first, then recording goes on.
    rig.host().limit(0, 100);
    // SAFETY: as above.
    assert!(unsafe { rig.device.swimlane.complete_task(0, 0, 1, 1, 2) });
    assert_eq!(rig.region.word(rig.region.layout.queue.tails).load(Relaxed), 2);
}

#[test]
fn a_budget_of_zero_never_waits_and_reads_no_clock() {
    let mut rig = rig(Level::OrchPhases, 0, 0);
    rig.host().drains = false;
    rig.device.run(0, scaled(10, 4) * BUFFER);
    rig.device.flush();
    assert_eq!((rig.device.clock.reads(), rig.device.clock.relaxes()), (0, 0));
    let books = rig.finish();
    assert_eq!(books[0].dropped, (scaled(10, 4) - 3) * BUFFER);
}

#[test]
fn no_wait_goes_on_after_the_launch_budget_has_ended() {
    let mut rig = rig(Level::AicoreTiming, 10, 25);
    rig.host().drains = false;
    rig.device.run(0, 3 * BUFFER);
    rig.device.clock.set(rig.device.clock.peek() + 20 * TICKS_PER_MS);
    let waited = elapsed(&mut rig, |rig| rig.device.run(0, 1));
    assert!(
        (4 * TICKS_PER_MS..7 * TICKS_PER_MS).contains(&waited),
        "five milliseconds were left, waited {waited}"
    );
    rig.host().drains = true;
    rig.host().step(8);
    rig.host().drains = false;
    rig.device.run(0, 3 * BUFFER);
    assert!(elapsed(&mut rig, |rig| rig.device.run(0, 1)) <= TICKS_PER_MS, "nothing is left");
    rig.device.flush();
    rig.finish();
}

#[test]
fn a_reference_host_gets_the_default_budget() {
    let mut rig =
        Rig::cold(Shape { budget: None, ..Shape::small(Level::AicoreTiming, 1) }, 50 * TICKS_PER_MS);
    rig.host().refill();
    rig.device.launch(&rig.region).expect("a region that fits");
    rig.device.run(0, 3 * BUFFER);
    let waited = elapsed(&mut rig, |rig| rig.device.run(0, 1));
    let default = u64::from(Budget::DEFAULT.wait_ms) * TICKS_PER_MS;
    assert!((default..default + 150 * TICKS_PER_MS).contains(&waited), "waited {waited}");
}

#[test]
fn a_freeze_parks_after_a_publication_until_the_host_lets_go() {
    let mut rig = rig(Level::AicoreTiming, 10, 1000);
    rig.host().freeze(true, false);
    let host = std::sync::Arc::clone(&rig.host);
    let mut looks = 0;
    rig.device.clock.on_relax(move || {
        looks += 1;
        if looks == 7 {
            host.lock().expect("the host").freeze(false, false);
        }
    });
    rig.device.run(0, BUFFER + 1);
    assert_eq!(rig.device.clock.relaxes(), 7);
    rig.device.flush();
    rig.finish_whole();
}

#[test]
fn a_freeze_that_never_ends_is_left_and_the_published_buffer_stays_the_hosts() {
    let mut rig = rig(Level::AicoreTiming, 10, 1000);
    rig.host().freeze(true, true);
    // The wait after the publication expires; the entry is the host's all the same.
    let waited = elapsed(&mut rig, |rig| rig.device.run(0, BUFFER + 1));
    assert!((10 * TICKS_PER_MS..12 * TICKS_PER_MS).contains(&waited), "{waited}");
    assert_eq!(
        elapsed(&mut rig, |rig| rig.device.run(0, BUFFER)),
        0,
        "latched: the next publication does not park"
    );
    // The host panics on a buffer that comes twice, and on a row that does not belong.
    rig.device.flush();
    rig.finish_whole();
}

#[test]
fn a_host_that_ends_its_freeze_is_believed_again() {
    let mut rig = rig(Level::AicoreTiming, 10, 1000);
    rig.host().freeze(true, false);
    rig.device.run(0, BUFFER + 1);
    rig.host().freeze(false, false);
    rig.device.run(0, BUFFER);
    // Two publications so far, the second after the freeze: the latch is gone, so a dry lane waits for its host.
    rig.help_while_waiting();
    rig.device.run(0, scaled(10, 4) * BUFFER);
    rig.device.flush();
    rig.finish_whole();
}

#[test]
fn a_dry_lane_takes_no_buffer_while_the_free_queues_are_frozen() {
    let mut rig = rig(Level::AicoreTiming, 10, 1000);
    rig.device.run(0, 3 * BUFFER);
    let host = std::sync::Arc::clone(&rig.host);
    let mut looks = 0;
    rig.device.clock.on_relax(move || {
        looks += 1;
        let mut host = host.lock().expect("the host");
        match looks {
            1 => host.freeze(false, true),
            2 => drop(host.step(8)),
            9 => host.freeze(false, false),
            _ => {}
        }
    });
    rig.device.run(0, 1);
    assert_eq!(rig.device.clock.relaxes(), 9, "offered at the second look, taken at the ninth");
    rig.device.flush();
    rig.finish_whole();
}

#[test]
fn a_flush_into_a_full_ready_queue_leaves_the_buffer_recoverable_and_counted() {
    for stash in [false, true] {
        let mut rig = short(Level::OrchPhases, 2, 0);
        let tasks = if stash { BUFFER + 10 } else { 10 };
        rig.device.run(0, tasks.min(TASK_RECORDS as u32 - 1));
        rig.device.run(0, tasks.saturating_sub(TASK_RECORDS as u32 - 1));
        for _ in 0..10 {
            rig.device.phase(0);
            rig.device.submit();
        }
        rig.device.flush();
        rig.device.flush();
        let lost = if stash { tasks - TASK_RECORDS as u32 } else { 0 };
        let books = rig.host().finish();
        for account in books {
            account.assert_conserved(rig.device.produced(account.key));
            let dropped = if account.key == TASKS { lost } else { 0 };
            assert_eq!((account.dropped, account.collected), (dropped, 0), "{account:?}");
        }
    }
}

#[test]
fn a_dry_lane_takes_no_time_from_a_lane_that_has_buffers() {
    let mut rig = Rig::new(Shape { threads: 2, ..Shape::small(Level::AicoreTiming, 2) }, TICKS_PER_MS);
    rig.host().drains = false;
    rig.device.run(0, 3 * BUFFER + 1);
    let before = rig.device.clock.reads();
    rig.device.run(1, 3 * BUFFER);
    assert_eq!(rig.device.clock.reads(), before);
    assert_eq!(rig.region.pool((BufferKind::AicoreTask, 1)).head.stalls.load(Relaxed), 0);
    rig.device.flush();
    rig.finish();
}

#[test]
fn a_thread_number_out_of_range_publishes_nothing_and_is_counted() {
    let rig = rig(Level::AicpuTiming, 10, 1000);
    for token in 0..2 * TASK_RECORDS as u32 {
        // SAFETY: this thread is the core's only caller.
        unsafe { rig.device.swimlane.complete_task(0, 77, token, 1, 2) };
    }
    assert!(rig.device.swimlane.misused() > 0);
    assert_eq!(rig.host().step(8), 0);
    let head = &rig.region.pool(TASKS).head;
    assert_eq!(head.total_record_count.load(Relaxed), 2 * TASK_RECORDS as u32);
    assert_eq!(head.dropped_record_count.load(Relaxed), TASK_RECORDS as u32);
}
