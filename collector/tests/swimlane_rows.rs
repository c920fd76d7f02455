//! Every dispatched task gives exactly one row, at every interleaving of a core, its AICPU thread and the host.

use dfx_collector::abi::swimlane::{BufferKind, CORE_RECORDS, ENTRY_FLUSHED, Level, TASK_RECORDS};
use dfx_collector::abi::token;
use dfx_mock::device::Rig;
use dfx_mock::region::Shape;
use dfx_mock::rows::LaneKey;
use dfx_mock::scaled;

const BUFFER: u32 = CORE_RECORDS as u32;
const CORE: LaneKey = (BufferKind::AicoreTask, 0);
const TASKS: LaneKey = (BufferKind::AicpuTask, 0);

#[test]
fn nine_thousand_three_hundred_dispatches_on_one_core_give_as_many_rows() {
    for level in [Level::AicoreTiming, Level::AicpuTiming] {
        let mut rig = Rig::new(Shape::small(level, 1), 1);
        rig.help_while_waiting();
        for _ in 0..scaled(93, 4) {
            rig.device.run(0, 100);
            rig.host().step(8);
        }
        rig.device.flush();
        let books = rig.finish_whole();
        for account in books {
            assert_eq!(
                (account.serials.len(), account.recovered),
                (scaled(9_300, 400) as usize, 0),
                "{account:?}"
            );
        }
    }
}

/// Where the core stands when AICPU dispatches the boundary task, and whether AICPU polls between its steps.
#[test]
fn a_rotation_loses_and_tears_nothing_at_any_interleaving() {
    // Steps that the core takes of the last task before the boundary: 0 = not even seen, 4 = committed.
    for before in 2..=4 {
        // Bit n: AICPU polls after the n-th step that follows.
        for polls in (0..1u32 << 8).step_by(scaled(1, 101) as usize) {
            let mut rig = Rig::new(Shape::small(Level::AicpuTiming, 1), 1);
            rig.device.run(0, BUFFER - 1);
            rig.device.drivers[0].dispatch(&rig.device.swimlane);
            for _ in 0..before {
                rig.device.cores[0].step();
            }
            rig.device.drivers[0].poll(&rig.device.swimlane);
            // The boundary: the one before may still run, or have finished without having committed.
            rig.device.drivers[0].dispatch(&rig.device.swimlane);
            assert_eq!(rig.host().entries, 0);
            for step in 0..8 {
                rig.device.cores[0].step();
                if polls & (1 << step) != 0 {
                    rig.device.drivers[0].poll(&rig.device.swimlane);
                }
                // A row that is not whole when its buffer is handed over would be missing here.
                rig.host().step(8);
            }
            rig.device.settle(0);
            rig.device.run(0, 10);
            rig.device.flush();
            let books = rig.finish_whole();
            assert!(books.iter().all(|account| account.recovered == 0), "{before} {polls:b}: {books:?}");
        }
    }
}

#[test]
fn the_gate_opens_exactly_on_the_boundarys_acknowledge_or_finish() {
    for finish_only in [false, true] {
        let mut rig = Rig::new(Shape::small(Level::AicoreTiming, 1), 1);
        rig.device.run(0, BUFFER);
        let boundary = rig.device.drivers[0].dispatch(&rig.device.swimlane);
        assert_eq!(rig.host().step(8), 0, "rotation alone publishes nothing");
        // SAFETY: this thread is the core's only caller.
        unsafe {
            rig.device.swimlane.on_ack(0, 0, boundary.wrapping_sub(1));
            rig.device.swimlane.on_ack(0, 0, boundary + 1);
        }
        assert_eq!(rig.host().step(8), 0, "another token opens nothing");
        for _ in 0..2 + u32::from(finish_only) {
            rig.device.cores[0].step();
        }
        assert!(rig.device.drivers[0].poll(&rig.device.swimlane));
        assert!(rig.host().step(8) > 0, "the boundary's own word opens it");
        assert_eq!(rig.host().entries, 1);
        rig.device.settle(0);
        rig.device.flush();
        rig.finish_whole();
        assert_eq!(rig.host().lane(CORE).taken[0].flags, 0);
    }
}

#[test]
fn a_runtime_that_never_reports_acknowledges_still_gets_every_row() {
    let rig = Rig::new(Shape::small(Level::AicoreTiming, 1), 1);
    rig.help_while_waiting();
    // The hook is left out: dispatches alone release the buffers, one rotation late.
    for token in 0..4 * BUFFER + 5 {
        // SAFETY: this thread is the core's only caller.
        unsafe { rig.device.swimlane.on_dispatch(0, 0, token) };
    }
    assert_eq!(rig.host().step(8).min(1), 1);
    rig.device.flush();
    let books = rig.host().finish();
    assert_eq!((books[0].total, books[0].dropped), (4 * BUFFER + 5, 0));
    assert_eq!(
        books[0].missing,
        4 * BUFFER + 5,
        "no core ran, so every promised row is missing: {:?}",
        books[0]
    );
}

#[test]
fn two_tasks_in_flight_across_every_rotation_lose_nothing() {
    let mut rig = Rig::new(Shape::small(Level::AicpuTiming, 1), 1);
    rig.help_while_waiting();
    let total = 3 * BUFFER + 7;
    for _ in 0..total {
        while !rig.device.drivers[0].ready() {
            rig.device.cores[0].step();
            rig.device.drivers[0].poll(&rig.device.swimlane);
        }
        rig.device.drivers[0].dispatch(&rig.device.swimlane);
        rig.host().step(1);
    }
    rig.device.settle(0);
    rig.device.flush();
    rig.finish_whole();
}

#[test]
fn only_a_flushed_core_buffer_says_that_its_last_row_may_be_missing() {
    let mut rig = Rig::new(Shape::small(Level::OrchPhases, 1), 1);
    rig.device.run(0, BUFFER + 5);
    for _ in 0..20 {
        rig.device.phase(0);
        rig.device.submit();
    }
    rig.device.flush();
    rig.finish_whole();
    let mut host = rig.host();
    for lane in &mut host.lanes {
        let flags: Vec<u32> = lane.taken.iter().map(|taken| taken.flags).collect();
        let expected = match lane.key.0 {
            BufferKind::AicoreTask => vec![0, ENTRY_FLUSHED],
            BufferKind::AicpuTask => vec![0, 0],
            _ => vec![0],
        };
        assert_eq!(flags, expected, "{:?}", lane.key);
    }
}

#[test]
fn a_flush_before_the_boundarys_acknowledge_marks_the_stash_too() {
    let mut rig = Rig::new(Shape::small(Level::AicoreTiming, 1), 1);
    rig.device.run(0, BUFFER - 1);
    rig.device.drivers[0].dispatch(&rig.device.swimlane);
    rig.device.cores[0].step();
    rig.device.cores[0].step();
    rig.device.drivers[0].poll(&rig.device.swimlane);
    rig.device.drivers[0].dispatch(&rig.device.swimlane);
    // The last task of the full buffer runs, the boundary is not taken: the core will still write into the stash.
    rig.device.flush();
    rig.host().step(8);
    rig.device.settle(0);
    let books = rig.finish();
    let flags: Vec<u32> = rig.host().lane(CORE).taken.iter().map(|taken| taken.flags).collect();
    assert_eq!(flags, [ENTRY_FLUSHED, ENTRY_FLUSHED]);
    assert_eq!(books[0].serials.len(), BUFFER as usize, "the boundary found no buffer; all others are there");
    assert_eq!(books[0].missing, 1);
}

#[test]
fn a_late_commit_of_a_flushed_row_is_collected() {
    let mut rig = Rig::new(Shape::small(Level::AicoreTiming, 1), 1);
    rig.device.run(0, 9);
    rig.device.drivers[0].dispatch(&rig.device.swimlane);
    for _ in 0..3 {
        rig.device.cores[0].step();
    }
    rig.device.drivers[0].poll(&rig.device.swimlane);
    rig.device.flush();
    rig.host().step(8);
    rig.device.settle(0);
    assert_eq!(rig.finish_whole()[0].serials.len(), 10);
}

#[test]
fn flushing_twice_publishes_once_and_recording_goes_on_after() {
    let mut rig = Rig::new(Shape::small(Level::OrchPhases, 2), 1);
    for round in 0..3 {
        rig.device.run(0, 3);
        rig.device.phase(0);
        rig.device.submit();
        rig.device.flush();
        let entries =
            rig.region.word(rig.region.layout.queue.tails).load(std::sync::atomic::Ordering::Relaxed);
        rig.device.flush();
        assert_eq!(
            rig.region.word(rig.region.layout.queue.tails).load(std::sync::atomic::Ordering::Relaxed),
            entries,
            "round {round}: nothing is left to publish"
        );
        rig.host().step(8);
    }
    rig.finish_whole();
}

#[test]
fn lanes_that_start_with_empty_free_queues_drop_until_the_host_comes_and_count_it() {
    let mut shape = Shape::small(Level::OrchPhases, 1);
    shape.budget = Some(dfx_collector::stall::Budget { wait_ms: 0, total_ms: 0 });
    let mut rig = Rig::cold(shape, 1);
    rig.device.launch(&rig.region).expect("a region that fits");
    let work = |rig: &mut Rig| {
        rig.device.run(0, 10);
        for _ in 0..10 {
            rig.device.phase(0);
            rig.device.submit();
        }
    };
    work(&mut rig);
    assert_eq!(rig.device.cores[0].refused, 10, "core and AICPU agree that there is no slot");
    assert!(rig.host().contended().1, "the host is told");
    rig.host().refill();
    work(&mut rig);
    rig.device.flush();
    for account in rig.finish() {
        assert_eq!((account.dropped, account.serials.len()), (10, 10), "{account:?}");
    }
}

#[test]
fn a_null_slot_is_passed_over() {
    let mut rig = Rig::cold(Shape::small(Level::AicpuTiming, 1), 1);
    rig.host().null_slots = true;
    rig.host().refill();
    rig.device.launch(&rig.region).expect("a region that fits");
    rig.help_while_waiting();
    rig.device.run(0, 4 * BUFFER);
    rig.device.flush();
    rig.finish_whole();
}

#[test]
fn tokens_wrap_without_a_gap() {
    let mut rig = Rig::new(Shape::small(Level::AicpuTiming, 1), 1);
    rig.help_while_waiting();
    rig.device.drivers[0].set_token(token::EXIT_SIGNAL - BUFFER / 2);
    rig.device.run(0, 2 * BUFFER);
    assert_eq!(rig.device.drivers[0].token(), 2 * BUFFER - BUFFER / 2);
    rig.device.flush();
    rig.finish_whole();
}

#[test]
fn sync_shows_every_record_without_publishing_a_buffer() {
    let mut rig = Rig::new(Shape::small(Level::OrchPhases, 1), 1);
    rig.device.run(0, 13);
    for _ in 0..13 {
        rig.device.phase(0);
        rig.device.submit();
    }
    rig.device.sync();
    assert_eq!(rig.host().step(8), 0);
    for account in rig.finish_whole() {
        assert_eq!((account.recovered, account.collected), (13, 0), "{account:?}");
    }
}

#[test]
fn a_hard_kill_leaves_at_most_seven_records_of_a_lane_uncounted() {
    for tasks in (1..40).step_by(scaled(1, 5) as usize) {
        let mut rig = Rig::new(Shape::small(Level::AicpuTiming, 1), 1);
        rig.device.run(0, tasks);
        let books = rig.host().finish();
        for account in books {
            let found = account.serials.len() as u32;
            assert!(found <= tasks && found + 7 >= tasks, "{tasks}: {account:?}");
            if account.key == TASKS {
                assert_eq!(account.total, found);
            }
        }
    }
    assert_eq!(TASK_RECORDS % 8, 0, "a full buffer ends a group");
}
