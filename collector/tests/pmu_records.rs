//! What AICPU records of the cores' counters: the right task's, or none's, and every task counted.

mod plain;
#[path = "plain/pmu.rs"]
mod pmu;

use dfx_collector::abi::pmu::{COUNTERS_A2A3, COUNTERS_A5, RECORDS};
use dfx_collector::abi::{DeviceAddr, Geometry, Platform};
use dfx_collector::pmu::{InitError, PmuRecorder};
use dfx_mock::scaled;
use plain::PLATFORMS;
use pmu::{Board, Device, FakeRegisters, counted};
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};

/// A task as AICPU completes it on either platform; on a5 its core has recorded it.
fn task(board: &Board, core: u32, token: u32) {
    let platform = board.rig.plan.geometry.platform;
    board.cores[core as usize].count(platform, token);
    if platform == Platform::A5 {
        recorder(board, core).record(token);
    }
    complete(&board.device, core, 0, token);
}

fn recorder(board: &Board, core: u32) -> PmuRecorder<FakeRegisters> {
    // SAFETY: the ring is the core's; each recorder is gone before the next is made.
    unsafe { PmuRecorder::new(board.cores[core as usize].clone(), DeviceAddr(board.ring(core))) }
}

/// Both platforms' functions: the other platform's does nothing.
fn complete(device: &Device, core: u32, thread: u32, token: u32) {
    // SAFETY: this thread has all cores.
    unsafe {
        device.record_task(core, thread, task_id(token), token + 1, 1);
        device.complete_record(core, thread, token, task_id(token), token + 1, 1);
    }
}

fn task_id(token: u32) -> u64 {
    1 << 32 | u64::from(token)
}

fn flush(board: &mut Board, thread: u32, cores: &[u32]) {
    // SAFETY: this thread has all cores.
    unsafe { board.device.flush(thread, cores) };
    board.rig.drain(true);
}

#[test]
fn a2a3_reads_eight_counters_and_the_cycles_in_order() {
    let mut board = Board::new(&Geometry::A2A3, 3, 4);
    let tasks = 4 * RECORDS as u32;
    for token in 1..tasks {
        task(&board, token % 3, token);
        if token % (tasks / 3) == 0 {
            board.rig.drain(true);
        }
    }
    flush(&mut board, 0, &[0, 1, 2]);
    for core in 0..3 {
        let rows = board.a2a3(core as usize);
        for (row, token) in rows.iter().zip((1..tasks).filter(|token| token % 3 == core)) {
            assert_eq!((row.task_id, row.func_id, row.core_type), (task_id(token), token + 1, 1));
            assert_eq!((row.pmu_counters, row.pmu_total_cycles), counted::<COUNTERS_A2A3>(token));
        }
        assert_eq!(
            (board.rig.total(core as usize), board.rig.dropped(core as usize)),
            (rows.len() as u32, 0)
        );
        board.rig.check_sequence(core as usize);
    }
    assert_eq!((0..3).map(|core| board.a2a3(core).len()).sum::<usize>() as u32, tasks - 1);
}

#[test]
fn a5_takes_over_ten_counters_of_the_task_that_the_slot_names() {
    let mut board = Board::new(&Geometry::A5, 2, 2);
    let tasks = 6 * RECORDS as u32;
    for token in 0..tasks {
        task(&board, token % 2, token);
        if token % (tasks / 3) == 0 {
            board.rig.drain(true);
        }
    }
    flush(&mut board, 0, &[0, 1]);
    for core in 0..2 {
        let rows = board.a5(core as usize);
        for (row, token) in rows.iter().zip((0..tasks).filter(|token| token % 2 == core)) {
            assert_eq!((row.task_id, row.func_id, row.core_type), (task_id(token), token + 1, 1));
            assert_eq!((row.pmu_counters, row.pmu_total_cycles), counted::<COUNTERS_A5>(token));
        }
        assert_eq!((rows.len() as u32, board.mismatched(core as usize)), (tasks / 2, 0));
    }
}

#[test]
fn a_stale_slot_is_a_mismatch_and_never_another_tasks_counters() {
    let mut board = Board::new(&Geometry::A5, 1, 2);
    task(&board, 0, 10);
    complete(&board.device, 0, 0, 12); // The core has not recorded 12: its slot still holds 10.
    complete(&board.device, 0, 0, 11); // Nobody ever wrote this slot.
    complete(&board.device, 0, 0, 0x7FFF_FFEF);
    task(&board, 0, 12);
    complete(&board.device, 0, 0, 10); // And now it holds 12.
    flush(&mut board, 0, &[0]);
    assert_eq!(board.a5(0).iter().map(|row| row.task_id).collect::<Vec<_>>(), [task_id(10), task_id(12)]);
    assert_eq!((board.rig.total(0), board.rig.dropped(0), board.mismatched(0)), (6, 0, 4));
}

#[test]
fn what_an_earlier_launch_left_in_a_ring_is_nobodys() {
    let mut board = Board::new(&Geometry::A5, 1, 2);
    task(&board, 0, 0);
    task(&board, 0, 1);
    board.init(1);
    complete(&board.device, 0, 0, 0);
    complete(&board.device, 0, 0, 1);
    flush(&mut board, 0, &[0]);
    assert!(board.a5(0).is_empty());
    assert_eq!(board.mismatched(0), 2);
}

#[test]
fn a_row_being_written_while_it_is_copied_is_a_mismatch() {
    let mut board = Board::new(&Geometry::A5, 1, 2);
    task(&board, 0, 4);
    // The core is in the middle of recording 6: its registers look at the ring from inside.
    struct Spy<'a>(&'a Board, std::cell::Cell<bool>);
    impl dfx_collector::pmu::RegisterFile for Spy<'_> {
        fn read(&self, _: u32) -> u32 {
            if !self.1.replace(true) {
                complete(&self.0.device, 0, 0, 4);
                complete(&self.0.device, 0, 0, 6);
            }
            0
        }
        fn write(&self, _: u32, _: u32) {}
    }
    // SAFETY: the ring is the core's, and this its only recorder now.
    unsafe { PmuRecorder::new(Spy(&board, false.into()), DeviceAddr(board.ring(0))) }.record(6);
    complete(&board.device, 0, 0, 6);
    flush(&mut board, 0, &[0]);
    assert_eq!(board.a5(0).iter().map(|row| row.task_id).collect::<Vec<_>>(), [task_id(4), task_id(6)]);
    assert_eq!((board.rig.total(0), board.mismatched(0)), (4, 2));
}

#[test]
fn a_core_and_its_aicpu_thread_at_once_never_mix_two_tasks() {
    let board = Board::new(&Geometry::A5, 1, 2);
    let tasks = scaled(1000, 60);
    // The core may be two tasks ahead: then it writes over the very slot that AICPU copies.
    let (recorded, completed) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the ring is the core's, and this its only recorder.
            let mut core = unsafe { PmuRecorder::new(board.cores[0].clone(), DeviceAddr(board.ring(0))) };
            for token in 0..tasks {
                while completed.load(Acquire) + 2 < token {
                    std::thread::yield_now();
                }
                board.cores[0].count(Platform::A5, token);
                core.record(token);
                recorded.store(token + 1, Release);
            }
        });
        for token in 0..tasks {
            while recorded.load(Acquire) <= token {
                std::thread::yield_now();
            }
            complete(&board.device, 0, 0, token);
            completed.store(token, Release);
        }
    });
    let mut board = board;
    flush(&mut board, 0, &[0]);
    for row in board.a5(0) {
        assert_eq!((row.pmu_counters, row.pmu_total_cycles), counted::<COUNTERS_A5>(row.task_id as u32));
    }
    let rows = board.a5(0).len() as u32;
    assert!(rows > 0);
    assert_eq!(board.rig.total(0), rows + board.rig.dropped(0) + board.mismatched(0));
}

#[test]
fn a_core_without_registers_or_ring_counts_its_tasks_as_dropped() {
    let mut board = Board::cold(&Geometry::A2A3, 2, 2);
    board.cores.truncate(1);
    board.init(2);
    complete(&board.device, 1, 0, 5);
    flush(&mut board, 0, &[1]);
    assert_eq!((board.rig.total(1), board.rig.dropped(1), board.a2a3(1).len()), (1, 1, 0));

    let mut board = Board::cold(&Geometry::A5, 2, 2);
    board.set_ring(1, 0);
    board.cores.clear();
    board.init(2);
    complete(&board.device, 1, 0, 5);
    flush(&mut board, 0, &[1]);
    assert_eq!((board.rig.total(1), board.rig.dropped(1), board.mismatched(1)), (1, 1, 0));
}

#[test]
fn a_dead_host_costs_one_wait_and_every_task_is_counted() {
    for geometry in PLATFORMS {
        let mut board = Board::new(geometry, 2, 2);
        let tasks = 2 * RECORDS as u32;
        for token in 0..tasks + 100 {
            task(&board, 0, token);
        }
        let waited = board.clock.peek() * 1000 / geometry.clock_hz;
        assert!((10..12).contains(&waited), "{waited} ms");
        assert_eq!(board.rig.stalls(0).0, 1);
        assert_eq!((board.rig.total(0), board.rig.dropped(0)), (tasks + 100, 100));
        let waits = board.clock.relaxes();
        for token in 0..tasks + 1 {
            task(&board, 1, token);
        }
        assert_eq!(board.clock.relaxes(), waits, "another lane knows that the host is gone");
        board.rig.drain(true);
        task(&board, 0, tasks + 100);
        flush(&mut board, 0, &[0, 1]);
        assert_eq!(board.rig.records(0).len() as u32, tasks + 1);
        assert_eq!((board.rig.total(1), board.rig.dropped(1)), (tasks + 1, 1));
    }
}

#[test]
fn a_mismatch_is_a_mismatch_also_when_there_is_no_buffer() {
    let board = Board::new(&Geometry::A5, 1, 2);
    for token in 0..2 * RECORDS as u32 {
        task(&board, 0, token);
    }
    complete(&board.device, 0, 0, 5);
    assert_eq!((board.rig.dropped(0), board.mismatched(0)), (0, 1));
    task(&board, 0, 6);
    assert_eq!((board.rig.dropped(0), board.mismatched(0)), (1, 1));
}

#[test]
fn numbers_out_of_range_are_counted_and_touch_nothing() {
    for geometry in PLATFORMS {
        let mut board = Board::new(geometry, 2, 2);
        for core in [2, 3, 107, 108, 109, u32::MAX] {
            complete(&board.device, core, 0, 1);
        }
        assert_eq!(board.device.misused(), 6, "six numbers, the platform's own function");
        // SAFETY: this thread has all cores.
        unsafe {
            board.device.flush(0, &[2, u32::MAX]);
            board.device.sync(&[2, u32::MAX]);
            board.device.finalize(&[u32::MAX]);
        }
        assert_eq!(board.device.misused(), 9);
        // A thread that is none cannot publish: the buffer stays.
        task(&board, 0, 1);
        flush(&mut board, 77, &[0]);
        assert_eq!((board.rig.taken.len(), board.rig.recover(0).len(), board.rig.total(0)), (0, 1, 1));
        flush(&mut board, 1, &[0]);
        assert_eq!((board.rig.taken[0].thread, board.rig.records(0).len()), (1, 1));
    }
}

#[test]
fn nothing_is_recorded_before_init_and_after_reset() {
    for geometry in PLATFORMS {
        let mut board = Board::cold(geometry, 2, 2);
        task(&board, 0, 1);
        flush(&mut board, 0, &[0, 9]);
        assert!(!board.device.recording() && board.device.misused() == 0);
        let reads = board.cores[0].reads();
        assert!(reads.len() <= COUNTERS_A5 + 2, "AICPU read no register");
        board.init(2);
        assert!(board.device.recording());
        task(&board, 0, 1);
        // SAFETY: nothing else runs.
        unsafe { board.device.reset() };
        task(&board, 0, 2);
        flush(&mut board, 0, &[0]);
        assert_eq!((board.rig.taken.len(), board.rig.recover(0).len()), (0, 1));
        assert_eq!(board.device.event(), None);
    }
}

#[test]
fn init_refuses_what_does_not_fit_and_knows_nothing_of_an_earlier_launch() {
    let board = Board::new(&Geometry::A2A3, 2, 8);
    for token in 0..4 * RECORDS as u32 {
        task(&board, 0, token);
    }
    assert!(board.rig.dropped(0) > 0);
    let registers = |_: u32| None::<FakeRegisters>;
    // SAFETY: the region is one; nothing else runs.
    let refused = unsafe { board.device.init(&Geometry::A2A3, board.rig.base(), 3, registers, None) };
    assert_eq!(refused, Err(InitError::Cores { feature: "PMU", wanted: 3, limit: 2 }));
    assert!(refused.unwrap_err().to_string().contains("3 cores asked for, the region has 2"));
    assert!(!board.device.recording());
    // SAFETY: a null base is refused.
    let refused = unsafe { board.device.init(&Geometry::A2A3, DeviceAddr::NULL, 1, registers, None) };
    assert_eq!(refused, Err(InitError::NoRegion { feature: "PMU" }));

    let mut fresh = Board::cold(&Geometry::A5, 4, 5);
    let cores = |core: u32| fresh.cores.get(core as usize).cloned();
    // SAFETY: the region is one; nothing else runs.
    unsafe { board.device.init(&Geometry::A5, fresh.rig.base(), 4, cores, Some(0)) }.unwrap();
    fresh.cores[3].count(Platform::A5, 8);
    recorder(&fresh, 3).record(8);
    complete(&board.device, 3, 2, 8);
    // SAFETY: this thread has all cores.
    unsafe { board.device.flush(2, &[0, 1, 2, 3]) };
    fresh.rig.drain(false);
    assert_eq!((fresh.a5(3).len(), fresh.rig.total(3), fresh.rig.dropped(0)), (1, 1, 0));
    assert_eq!(fresh.rig.taken[0].seq, 0);
}

#[test]
fn the_count_is_published_with_every_record_and_totals_at_sync() {
    for geometry in PLATFORMS {
        let board = Board::new(geometry, 1, 2);
        for token in 1..6 {
            task(&board, 0, token);
            assert_eq!(board.rig.recover(0).len() as u32, token);
        }
        // SAFETY: this thread has all cores.
        unsafe { board.device.sync(&[0]) };
        assert_eq!(board.rig.total(0), 5);
    }
}
