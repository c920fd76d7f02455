//! Core ↔ AICPU: reserve, commit, rotate, and the gate.
#![cfg(loom)]

use dfx_collector::abi::token;
use dfx_collector::lane::{Port, ReadyQueue, Reserver};
use dfx_collector::stall::{Budget, Stall};
use dfx_collector::swimlane::engine::CoreLane;
use dfx_mock::host::{FreeEnd, QueueEnd};
use dfx_models::{Lane, ModelClock, Queue, ROW, explore};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

const SLOTS: usize = 4;
const CAP: usize = 1;
type Cells = Lane<SLOTS, CAP>;

/// The core's registers, as the platform guarantees them: a release on one side, an acquire on the other.
#[derive(Default)]
struct Registers {
    main: AtomicU32,
    cond: AtomicU32,
}

fn port<'a>(
    ready: &'a mut ReadyQueue<Queue>,
    stall: &'a Stall,
    clock: &'a ModelClock,
) -> Port<'a, Queue, ModelClock> {
    Port { queue: Some(ready), stall, clock }
}

/// The core's loop for `tasks` tasks: reserve before the acknowledge, commit after FIN.
fn core(lane: Cells, registers: &Registers, tasks: u32) {
    let mut place = Reserver::<ROW>::NEW;
    let mut last = 0;
    for _ in 0..tasks {
        let token = loop {
            let token = registers.main.load(Ordering::Acquire);
            if token != last {
                break token;
            }
            thread::yield_now();
        };
        last = token;
        let slot = place.reserve(&lane, CAP as u32);
        registers.cond.store(token::ack(token), Ordering::Release);
        registers.cond.store(token::fin(token), Ordering::Release);
        if !slot.is_null() {
            lane.write(slot, token);
        }
    }
}

/// Four tasks in buffers of one record: three rotations, the next task dispatched as soon as the one before is
/// acknowledged, while that one may still have to commit. The host looks into each buffer as soon as it is published: a
/// row that is not committed by then is a race or is missing.
///
/// Preemption bound 3: all schedules in about a minute. A torn rotation needs two (core after FIN, AICPU after rotate).
#[test]
fn a_buffer_is_released_only_after_its_last_commit() {
    explore(3, || {
        const TASKS: u32 = 4;
        let lane = Cells::new(TASKS as usize);
        let mut free = FreeEnd::default();
        for buffer in 0..TASKS as usize {
            assert!(free.offer(&lane, Cells::buffer(buffer)));
        }
        let registers = Arc::new(Registers::default());
        let worker = thread::spawn({
            let (lane, registers) = (lane.clone(), Arc::clone(&registers));
            move || core(lane, &registers, TASKS)
        });

        let queue = Queue::new(8);
        let mut ready = ReadyQueue::new(queue.clone());
        let mut host = QueueEnd::default();
        let stall = Stall::new(Budget { wait_ms: 0, total_ms: 0 }, 1000, 0);
        let clock = ModelClock::default();
        let mut aicpu = CoreLane::open(lane.clone(), 0);
        let mut rows = Vec::new();
        let drain = |host: &mut QueueEnd, rows: &mut Vec<u32>| {
            while let Some(entry) = host.peek(&queue) {
                rows.extend(lane.take(entry.buffer));
                host.acknowledge(&queue);
            }
        };
        for token in 1..=TASKS {
            // SAFETY: this thread is the lane's only user; what each function asks for is done.
            unsafe {
                if !aicpu.dispatch() && !aicpu.grant() {
                    assert!(
                        aicpu.rotate(token, port(&mut ready, &stall, &clock)),
                        "there is a buffer for every task"
                    );
                    assert!(aicpu.grant());
                }
                registers.main.store(token, Ordering::Release);
                drain(&mut host, &mut rows);
                while token::of(registers.cond.load(Ordering::Acquire)) != token {
                    thread::yield_now();
                }
                if !aicpu.ack(token) {
                    aicpu.ack_cold(port(&mut ready, &stall, &clock));
                }
            }
            drain(&mut host, &mut rows);
            assert_eq!(rows.len() as u32, token - 1, "the buffer before the boundary is whole");
        }
        worker.join().unwrap();
        aicpu.flush(port(&mut ready, &stall, &clock));
        drain(&mut host, &mut rows);
        assert_eq!(rows, [1, 2, 3, 4]);
        assert_eq!(lane.totals(), (TASKS, 0));
    });
}

/// A core that looks at its head at any moment, without a register between: once it sees a new sequence number, it sees
/// that number's buffer. Unbounded: ends in well under a second.
#[test]
fn a_core_that_sees_a_sequence_number_sees_its_buffer() {
    loom::model(|| {
        let lane = Cells::new(1);
        let mut place = Reserver::<ROW>::NEW;
        let worker = thread::spawn({
            let lane = lane.clone();
            move || {
                let early = place.reserve(&lane, CAP as u32);
                (place, early)
            }
        });
        let stall = Stall::new(Budget { wait_ms: 0, total_ms: 0 }, 1000, 0);
        let clock = ModelClock::default();
        let mut ready = ReadyQueue::new(Queue::new(2));
        let mut aicpu = CoreLane::open(lane.clone(), 0);
        FreeEnd::default().offer(&lane, Cells::buffer(0));
        // SAFETY: this thread is the lane's only user.
        assert!(unsafe { aicpu.rotate(1, port(&mut ready, &stall, &clock)) });
        let (mut place, early) = worker.join().unwrap();
        let slot = if early.is_null() { place.reserve(&lane, CAP as u32) } else { early };
        assert_eq!(slot, Cells::buffer(0));
    });
}
