//! The other producers on real threads over real memory, for Miri and ThreadSanitizer to look at, as
//! `swimlane_threads.rs` is for the chip swimlane: whatever orders a hand-over too weakly is a data race here, or a value
//! from before it.

#[path = "plain/args_dump.rs"]
mod args_dump;
#[path = "plain/dep_gen.rs"]
mod dep_gen;
mod plain;
#[path = "plain/pmu.rs"]
mod pmu;

use args_dump::{Host, Shape, Tensor};
use dfx_collector::abi::args_dump::Info;
use dfx_collector::abi::dep_gen::SubmitRecord;
use dfx_collector::abi::layout::ARENA;
use dfx_collector::abi::pmu::COUNTERS_A5;
use dfx_collector::abi::tensor::DataType;
use dfx_collector::abi::{DeviceAddr, Geometry, Platform};
use dfx_collector::pmu::{PmuRecorder, RegisterFile};
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use dfx_mock::scaled;
use pmu::{Board, FakeRegisters, counted};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use zerocopy::FromBytes;

/// Registers that let others run while they are read.
struct Slow(FakeRegisters);

impl RegisterFile for Slow {
    fn read(&self, offset: u32) -> u32 {
        thread::yield_now();
        self.0.read(offset)
    }
    fn write(&self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

#[test]
fn counters_that_are_copied_while_their_core_goes_on_are_one_tasks() {
    let mut board = Board::new(&Geometry::A5, 1, 2);
    let (tasks, ring) = (scaled(1000, 40), board.ring(0));
    let done = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let registers = FakeRegisters::new(Platform::A5);
            // SAFETY: the core's only recorder.
            let mut core = unsafe { PmuRecorder::new(Slow(registers.clone()), DeviceAddr(ring)) };
            for token in 0..tasks {
                registers.count(Platform::A5, token);
                core.record(token);
                done.store(token + 1, Relaxed);
            }
        });
        // Asks for each task's counters, and again until its core has gone two tasks further and written over them. Those of
        // the last are there whoever comes first.
        let mut recorded = 0;
        for token in 0..tasks {
            while recorded < 1000 {
                let before = board.mismatched(0);
                // SAFETY: this thread is AICPU.
                unsafe { board.device.complete_record(0, 0, token, u64::from(token), 0, 0) };
                recorded += u32::from(board.mismatched(0) == before);
                if done.load(Relaxed) >= (token + 3).min(tasks) {
                    break;
                }
                thread::yield_now();
            }
        }
    });
    // SAFETY: this thread is AICPU.
    unsafe { board.device.flush(0, &[0]) };
    board.rig.drain(false);
    let rows = board.a5(0);
    assert!(!rows.is_empty());
    for row in rows {
        let theirs = counted::<COUNTERS_A5>(row.task_id as u32);
        assert_eq!((row.pmu_counters, row.pmu_total_cycles), theirs, "task {}", row.task_id);
    }
}

#[test]
fn a_mark_that_is_found_is_whole() {
    let host = Host::new(Shape::SMALL);
    let dump = host.launch(ScriptClock::new(0, 0));
    let tasks = scaled(5000, 40).into();
    thread::scope(|scope| {
        scope.spawn(|| {
            for task in 1..=tasks {
                dump.set_task_mask(task, task << 20 | 1, task);
            }
        });
        for task in 1..=tasks {
            let found = loop {
                match dump.task_masks(task) {
                    (0, 0) => thread::yield_now(),
                    found => break found,
                }
            };
            assert_eq!(found, (task << 20 | 1, task));
        }
    });
}

#[test]
fn what_an_unpublished_buffer_of_submits_counts_is_whole_at_any_moment() {
    let (rig, dep_gen, _) = dep_gen::small(2);
    let submits = scaled(60, 20);
    thread::scope(|scope| {
        let looker = scope.spawn(|| {
            loop {
                let records = rig.recover(0);
                for (serial, record) in (0..).zip(&records) {
                    assert_eq!(SubmitRecord::read_from_bytes(record).expect("a record").task_id, serial);
                }
                if records.len() as u32 == submits {
                    return;
                }
                thread::yield_now();
            }
        });
        for task in 0..submits {
            // SAFETY: this thread is the orchestrator's.
            unsafe { dep_gen.record_submit(&dep_gen::bare(task.into(), &[])) };
        }
        looker.join().expect("the host sees whole records only");
    });
}

/// Payloads through an arena of 4 KiB, while a host on a thread of its own does `step`s; it grants `budget`.
fn through_an_arena(budget: Option<Budget>, step: impl Fn(&mut Host) + Sync) {
    let mut host = Host::new(Shape { arena: 4096, budget, ..Shape::SMALL });
    // A clock that stands still: whoever waits, waits until the host has come.
    let dump = host.launch(ScriptClock::new(0, 0));
    let mut random = SmallRng::seed_from_u64(7);
    let tensors: Vec<_> =
        (0..5).map(|at| Tensor::dense(&mut random, DataType::Float32, &[250 + 10 * at])).collect();
    let count = scaled(2000, 40) as usize;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            while !stop.load(Relaxed) {
                step(&mut host);
                thread::yield_now();
            }
        });
        for at in 0..count {
            let info = Info { task_id: at as u64, ..tensors[at % tensors.len()].info() };
            assert!(args_dump::record(&dump, 0, &info));
        }
        args_dump::flush(&dump, 0);
        stop.store(true, Relaxed);
        theirs.join().expect("a host");
    });
    host.finish(false);
    let oracles: Vec<_> = tensors.iter().map(Tensor::oracle).collect();
    assert_eq!(host.saved.len(), count);
    for (at, saved) in host.saved.iter().enumerate() {
        assert!(saved.bytes == oracles[at % oracles.len()], "payload {at}");
    }
    host.balance(0);
    assert!(host.word(0, ARENA.write_offset) > 4 * 4096, "it wrapped");
}

#[test]
fn an_arena_that_its_host_empties_on_a_thread_of_its_own_loses_no_byte() {
    through_an_arena(Some(Budget { wait_ms: 20_000, total_ms: 60_000 }), |host| {
        host.take();
        host.save(0, 2);
    });
}

#[test]
fn an_arena_that_a_reference_host_empties_on_a_thread_of_its_own_loses_no_byte() {
    // It comes late, mostly when it is asked, so that it offers the buffers of all payloads before it saves any.
    let looks = AtomicU32::new(0);
    through_an_arena(None, |host| {
        if host.is_asked() || looks.fetch_add(1, Relaxed) % 100 == 99 {
            host.reference_tick();
        }
    });
}
