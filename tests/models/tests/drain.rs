//! AICPU ↔ drain: publish, peek, acknowledge, a full ready queue, a host that dies.
#![cfg(loom)]

use dfx_collector::abi::DeviceAddr;
use dfx_collector::lane::{Entry, Lane as Engine, LaneMem, Port, ReadyQueue};
use dfx_collector::stall::{Budget, Stall};
use dfx_collector::sync::{Ordering::Relaxed, Word};
use dfx_mock::host::{FreeEnd, QueueEnd, active};
use dfx_models::{Lane, ModelClock, Queue, explore};
use loom::thread;

const BUFFERS: usize = 3;
type Cells = Lane<4, 1>;

/// Three buffers of one record through a ready queue with one usable entry. The host takes at most `alive` of them while
/// the device runs and dies then; the rest is found at rest.
fn drain(alive: u32) {
    let lane = Cells::new(BUFFERS);
    let mut free = FreeEnd::default();
    for buffer in 0..BUFFERS {
        assert!(free.offer(&lane, Cells::buffer(buffer)));
    }
    let queue = Queue::new(2);
    let host = thread::spawn({
        let (lane, queue) = (lane.clone(), queue.clone());
        move || {
            let mut end = QueueEnd::default();
            let mut rows = Vec::new();
            // A look at the active buffer, as recovery does: never one from before its sequence number.
            let (seq, buffer) = active(&lane);
            assert!(
                buffer.is_none_or(|at| Cells::index(at) as u32 >= seq),
                "buffer {buffer:?} at number {seq}"
            );
            for _ in 0..alive {
                let Some(entry) = end.peek(&queue) else {
                    thread::yield_now();
                    continue;
                };
                collect(&lane, &entry, &mut rows);
                end.acknowledge(&queue);
            }
            (end, rows)
        }
    });

    let stall = Stall::new(Budget { wait_ms: 1, total_ms: 100 }, 1000, 0);
    let clock = ModelClock::default();
    let mut ready = ReadyQueue::new(queue.clone());
    let mut device = Engine::new(lane.clone());
    let mut held: Option<(DeviceAddr, u32)> = None;
    let mut kept = 0;
    for serial in 1..=BUFFERS as u32 {
        let mut port = Port { queue: Some(&mut ready), stall: &stall, clock: &clock };
        if let Some((buffer, seq)) = held {
            // A full buffer that could not go is tried again, and while it stays nothing is recorded.
            if !device.publish(&mut port, &entry(buffer, seq)) {
                continue;
            }
            held = None;
        }
        let buffer = device.take(&mut port).expect("every buffer was offered");
        let seq = device.seq();
        device.activate(buffer, seq);
        lane.write(buffer, serial);
        kept += 1;
        lane.count(buffer).store(1, Relaxed);
        if !device.publish(&mut port, &entry(buffer, seq)) {
            held = Some((buffer, seq));
        }
    }
    let (mut end, mut rows) = host.join().unwrap();
    while let Some(entry) = end.peek(&queue) {
        collect(&lane, &entry, &mut rows);
        end.acknowledge(&queue);
    }
    if let (_, Some(buffer)) = active(&lane) {
        assert_eq!(held.map(|(held, _)| held), Some(buffer), "what was published is not active any more");
        rows.extend(lane.read(buffer, 1));
    }
    assert_eq!(rows.len(), kept);
    assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "order lost or a row twice: {rows:?}");
}

fn entry(buffer: DeviceAddr, seq: u32) -> Entry {
    Entry { index: 0, kind: 0, buffer, seq, flags: 0 }
}

fn collect(lane: &Cells, entry: &Entry, rows: &mut Vec<u32>) {
    let count = lane.count(entry.buffer).load(Relaxed);
    assert_eq!((count, Cells::index(entry.buffer) as u32), (1, entry.seq), "the entry is whole");
    rows.extend(lane.take(entry.buffer));
}

/// Preemption bound 3: ends in seconds; a torn publication needs one.
#[test]
fn a_published_buffer_is_whole_and_the_hosts() {
    explore(3, || drain(3));
}

/// Preemption bound 3, as above.
#[test]
fn a_host_that_dies_leaves_every_record_findable() {
    explore(3, || drain(1));
}
