//! Refill ↔ AICPU: push, pop, starvation, and the contended flag.
#![cfg(loom)]

use dfx_collector::lane::{Entry, Lane as Engine, LaneMem, Port, QueueMem, ReadyQueue};
use dfx_collector::stall::{Budget, Stall};
use dfx_collector::sync::{Ordering::Relaxed, Word};
use dfx_mock::host::{FreeEnd, QueueEnd};
use dfx_models::{Lane, ModelClock, Queue, explore};
use loom::thread;

type Cells = Lane<1, 1>;

/// Two buffers, one free-queue slot, three records: each buffer goes round and the slot is used again and again. The
/// device waits briefly when it finds none.
///
/// Preemption bound 3: ends in seconds; a slot that is filled too early needs two.
#[test]
fn a_buffer_goes_round_and_is_never_in_two_hands() {
    explore(3, || {
        let lane = Cells::new(2);
        let queue = Queue::new(4);
        let host = thread::spawn({
            let (lane, queue) = (lane.clone(), queue.clone());
            move || {
                let mut free = FreeEnd::default();
                let mut end = QueueEnd::default();
                let mut spare = vec![Cells::buffer(1), Cells::buffer(0)];
                let mut rows = Vec::new();
                for _ in 0..4 {
                    let mut idle = true;
                    if let Some(&buffer) = spare.last() {
                        // The host's work on the buffer before it lets go of it.
                        lane.write(buffer, 0);
                        if free.offer(&lane, buffer) {
                            spare.pop();
                            idle = false;
                        }
                    }
                    if let Some(entry) = end.peek(&queue) {
                        assert_eq!(lane.count(entry.buffer).load(Relaxed), 1);
                        rows.extend(lane.take(entry.buffer));
                        spare.insert(0, entry.buffer);
                        end.acknowledge(&queue);
                        idle = false;
                    }
                    queue.fq_contended().store(0, Relaxed);
                    if idle {
                        thread::yield_now();
                    }
                }
                (end, rows)
            }
        });

        let stall = Stall::new(Budget { wait_ms: 1, total_ms: 100 }, 1000, 0);
        let clock = ModelClock::default();
        let mut ready = ReadyQueue::new(queue.clone());
        let mut device = Engine::new(lane.clone());
        let mut kept = Vec::new();
        for serial in 1..=3 {
            let mut port = Port { queue: Some(&mut ready), stall: &stall, clock: &clock };
            // No buffer within the budget: the record is dropped.
            let Some(buffer) = device.take(&mut port) else { continue };
            let seq = device.seq();
            device.activate(buffer, seq);
            lane.write(buffer, serial);
            lane.count(buffer).store(1, Relaxed);
            kept.push(serial);
            assert!(device.publish(&mut port, &Entry { index: 0, kind: 0, buffer, seq, flags: 0 }));
        }
        let (mut end, mut rows) = host.join().unwrap();
        while let Some(entry) = end.peek(&queue) {
            rows.extend(lane.take(entry.buffer));
            end.acknowledge(&queue);
        }
        assert_eq!(rows, kept, "collected in order, nothing twice, nothing lost");
    });
}

/// A device that starves says so before it gives up, and a host that sees the flag and refills ends the wait.
/// Unbounded: ends in seconds.
#[test]
fn a_starved_lane_raises_contended_and_is_fed() {
    loom::model(|| {
        let lane = Cells::new(1);
        let queue = Queue::new(2);
        let host = thread::spawn({
            let (lane, queue) = (lane.clone(), queue.clone());
            move || {
                for _ in 0..2 {
                    if queue.fq_contended().load(Relaxed) != 0 {
                        return FreeEnd::default().offer(&lane, Cells::buffer(0));
                    }
                    thread::yield_now();
                }
                false
            }
        });
        let stall = Stall::new(Budget { wait_ms: 2, total_ms: 100 }, 1000, 0);
        let clock = ModelClock::default();
        let mut ready = ReadyQueue::new(queue.clone());
        let mut device = Engine::new(lane.clone());
        let taken = device.take(&mut Port { queue: Some(&mut ready), stall: &stall, clock: &clock });
        let fed = host.join().unwrap();
        assert_eq!(queue.fq_contended().load(Relaxed), 1);
        match taken {
            Some(buffer) => assert_eq!((fed, buffer), (true, Cells::buffer(0))),
            None if fed => {
                assert_eq!(device.try_take(), Some(Cells::buffer(0)), "it came too late, but it is there")
            }
            None => assert_eq!(device.try_take(), None),
        }
    });
}
