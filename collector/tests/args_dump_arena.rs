//! The arena wraps as often as it likes: no byte of a payload is overwritten before the host has saved it.

#[path = "plain/args_dump.rs"]
mod args_dump;
mod plain;

use args_dump::{BUDGET, Host, Shape, TICKS_PER_MS, Tensor, flush, record};
use dfx_collector::abi::args_dump::Info;
use dfx_collector::abi::layout::ARENA;
use dfx_collector::abi::peer::{self, Peer};
use dfx_collector::abi::tensor::DataType;
use dfx_collector::abi::{DeviceAddr, Geometry};
use dfx_collector::clock::Clock;
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use dfx_mock::scaled;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A budget under which nobody gives up.
const LONG: Budget = Budget { wait_ms: 20_000, total_ms: 60_000 };

fn tensors(random: &mut SmallRng, count: usize) -> Vec<Tensor> {
    let bytes = scaled(200, 60) as usize..=scaled(6000, 600) as usize;
    (0..count).map(|_| Tensor::random_of(random, scaled(12, 4), bytes.clone())).collect()
}

/// The saved payloads of `thread` are those of `tensors`, again and again.
fn check(host: &Host, thread: u32, tensors: &[Tensor], count: usize) {
    let oracles: Vec<Vec<u8>> = tensors.iter().map(Tensor::oracle).collect();
    let mine: Vec<_> = host.saved.iter().filter(|saved| saved.thread == thread).collect();
    assert_eq!(mine.len(), count);
    for (at, saved) in mine.iter().enumerate() {
        assert_eq!(saved.record.task_id, at as u64, "in order");
        assert!(saved.bytes == oracles[at % oracles.len()], "payload {at} of thread {thread}");
    }
    host.balance(thread);
    assert_eq!((host.rig.dropped(thread as usize), host.count(thread, ARENA.shed_records)), (0, 0));
}

#[test]
fn an_arena_that_wraps_hundreds_of_times_under_a_host_that_acknowledges_late_loses_no_byte() {
    let mut random = SmallRng::seed_from_u64(1);
    let tensors = tensors(&mut random, scaled(200, 12) as usize);
    for arena in [scaled(8192, 1024), scaled(10_007, 1251), scaled(1 << 16, 1 << 14)] {
        let arena = arena as usize;
        let host = Host::new(Shape { arena, budget: Some(LONG), ..Shape::SMALL });
        let clock = ScriptClock::new(0, 1);
        let dump = host.launch(clock.clone());
        let host = Arc::new(Mutex::new(host));
        let theirs = host.clone();
        let mut random = SmallRng::seed_from_u64(2);
        clock.on_relax(move || {
            let mut host = theirs.lock().unwrap();
            // Takes buffers at once, saves little, and only now and then.
            host.take();
            if random.random_range(0..3) == 0 {
                host.save(0, random.random_range(1..6));
            }
        });
        let count = scaled(3000, 80) as usize;
        for at in 0..count {
            let info = Info { task_id: at as u64, ..tensors[at % tensors.len()].info() };
            assert!(record(&dump, 0, &info));
        }
        clock.no_hook();
        flush(&dump, 0);
        let mut host = host.lock().unwrap();
        host.finish(false);
        check(&host, 0, &tensors, count);
        let large = arena > 10_007;
        let laps = host.word(0, ARENA.write_offset) / arena as u64;
        assert!(large || laps > scaled(200, 4).into(), "{laps} laps");
        assert!(host.rig.stalls(0).0 > 0 || large);
    }
}

#[test]
fn nothing_waits_while_the_host_keeps_up() {
    let mut random = SmallRng::seed_from_u64(3);
    let tensors = tensors(&mut random, scaled(100, 12) as usize);
    let count = scaled(2000, 100) as usize;
    let mut host = Host::new(Shape { arena: scaled(1 << 15, 1 << 12) as usize, ..Shape::SMALL });
    let clock = ScriptClock::new(0, 1);
    let dump = host.launch(clock.clone());
    for at in 0..count {
        assert!(record(&dump, 0, &Info { task_id: at as u64, ..tensors[at % tensors.len()].info() }));
        host.take();
        host.save(0, usize::MAX);
    }
    assert_eq!((clock.relaxes(), host.rig.stalls(0)), (0, (0, 0, 0)));
    flush(&dump, 0);
    host.finish(false);
    check(&host, 0, &tensors, count);
}

#[test]
fn a_host_may_acknowledge_part_of_a_payload_and_what_lies_behind_it_stays() {
    let mut random = SmallRng::seed_from_u64(4);
    let mut host = Host::new(Shape { arena: 4096, budget: Some(BUDGET), ..Shape::SMALL });
    let dump = host.launch(ScriptClock::new(0, TICKS_PER_MS));
    let tensors: Vec<Tensor> = (0..4).map(|_| Tensor::dense(&mut random, DataType::Uint8, &[2048])).collect();
    let acknowledge = |host: &Host, to: u64| {
        host.rig.wide(host.rig.state(0) + ARENA.acknowledged).store(to, Release);
    };
    let fits = |host: &mut Host, at: usize, n: u32| {
        host.rig.drain(true);
        let shed = host.count(0, ARENA.shed_records);
        assert!(record(&dump, 0, &Info { shapes: [n, 0, 0, 0, 0], ..tensors[at].info() }));
        host.count(0, ARENA.shed_records) == shed
    };
    assert!(fits(&mut host, 0, 2048) && fits(&mut host, 1, 2048));
    assert!(!fits(&mut host, 2, 1), "nothing is acknowledged");
    acknowledge(&host, 99);
    assert!(!fits(&mut host, 2, 100));
    acknowledge(&host, 100);
    assert!(fits(&mut host, 2, 100) && !fits(&mut host, 3, 1));
    acknowledge(&host, u64::MAX);
    assert!(fits(&mut host, 3, 2048), "an acknowledgement beyond what was published is as good as all");
}

/// A counter that is real, at a2a3's rate; in an interpreter slower by as much as the threads are.
#[derive(Clone)]
struct Real(Instant);

impl Clock for Real {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64 / u64::from(scaled(20, 20_000))
    }
    fn relax(&self) {
        std::thread::yield_now();
    }
}

#[test]
fn four_threads_and_a_late_host_at_once_lose_no_byte() {
    for platform in [&Geometry::A2A3, &Geometry::A5] {
        let arena = scaled(12_288, 700);
        let shape = Shape {
            geometry: platform,
            threads: 4,
            arena: arena as usize,
            budget: Some(LONG),
            dedup: false,
            ..Shape::SMALL
        };
        let mut host = Host::new(shape);
        let dump = host.launch(Real(Instant::now()));
        let few = scaled(60, 4) as usize;
        let sets: Vec<Vec<Tensor>> =
            (0..4).map(|seed| tensors(&mut SmallRng::seed_from_u64(seed), few)).collect();
        let (count, running) = (scaled(1500, 30) as usize, AtomicBool::new(true));
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|thread| {
                    let (dump, tensors) = (&dump, &sets[thread as usize]);
                    scope.spawn(move || {
                        for at in 0..count {
                            let info = Info { task_id: at as u64, ..tensors[at % tensors.len()].info() };
                            assert!(record(dump, thread, &info));
                        }
                        flush(dump, thread);
                    })
                })
                .collect();
            let (host, running) = (&mut host, &running);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(9);
                while running.load(Acquire) {
                    host.take();
                    host.save(random.random_range(0..4), random.random_range(1..9));
                }
            });
            let failed = workers.into_iter().map(|worker| worker.join()).find_map(Result::err);
            running.store(false, Release);
            assert!(failed.is_none());
        });
        host.finish(false);
        for thread in 0..4 {
            check(&host, thread, &sets[thread as usize], count);
            assert!(host.word(thread, ARENA.write_offset) > u64::from(scaled(40, 2) * arena));
        }
    }
}

#[test]
fn a_reference_host_gives_room_by_its_full_stop() {
    let mut random = SmallRng::seed_from_u64(5);
    let tensors = tensors(&mut random, scaled(100, 12) as usize);
    let count = scaled(1500, 60) as usize;
    let host =
        Host::new(Shape { arena: scaled(8192, 1024) as usize, budget: None, dedup: true, ..Shape::SMALL });
    let clock = ScriptClock::new(0, 1);
    let dump = host.launch(clock.clone());
    let asked = host.rig.plan.queue.backpressure + 12;
    let host = Arc::new(Mutex::new(host));
    let theirs = host.clone();
    let mut looks = 0;
    clock.on_relax(move || {
        looks += 1;
        if looks % 4 == 0 {
            theirs.lock().unwrap().reference_tick();
        }
    });
    for at in 0..count {
        assert!(record(&dump, 0, &Info { task_id: at as u64, ..tensors[at % tensors.len()].info() }));
    }
    clock.no_hook();
    flush(&dump, 0);
    let mut host = host.lock().unwrap();
    host.finish(false);
    check(&host, 0, &tensors, count);
    let peers = host.rig.word(host.rig.plan.queue.peer).load(Relaxed);
    assert_eq!((Peer::host(peers), Peer::device(peers)), (Peer::Reference, Peer::Ours(peer::VERSION)));
    assert_eq!(host.word(0, ARENA.published), host.word(0, ARENA.completed));
    assert_eq!((host.word(0, ARENA.saved_bytes), host.rig.word(asked).load(Relaxed)), (0, 0));
}

#[test]
fn payload_is_published_early_when_another_buffer_is_at_hand() {
    let mut random = SmallRng::seed_from_u64(6);
    let tensor = Tensor::dense(&mut random, DataType::Uint8, &[1024]);
    let mut host = Host::new(Shape { arena: 1 << 16, buffers: 2, ..Shape::SMALL });
    let clock = ScriptClock::new(0, 1);
    let dump = host.launch(clock.clone());
    let bring = |count| (0..count).for_each(|_| assert!(record(&dump, 0, &tensor.info)));
    bring(7);
    host.rig.drain(false);
    assert_eq!(host.rig.taken.len(), 0);
    bring(1);
    host.rig.drain(false);
    assert_eq!(host.rig.taken.len(), 1, "an eighth of the arena");
    bring(30);
    host.rig.drain(false);
    assert_eq!((host.rig.taken.len(), clock.relaxes()), (1, 0), "no buffer to go on with: nothing is gained");
    assert!(host.rig.offer(0));
    bring(1);
    host.rig.drain(false);
    assert_eq!(host.rig.taken.len(), 2);

    // With a large arena it is 1 MiB.
    let tensor = Tensor::dense(&mut random, DataType::Uint8, &[1 << 18]);
    let mut host = Host::new(Shape { arena: 1 << 26, ..Shape::SMALL });
    let dump = host.launch(ScriptClock::new(0, 1));
    for _ in 0..8 {
        assert!(record(&dump, 0, &tensor.info));
    }
    host.rig.drain(false);
    assert_eq!(host.rig.taken.iter().map(|taken| taken.count).collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn a_launch_on_the_same_region_goes_on_where_the_arena_stands() {
    let mut random = SmallRng::seed_from_u64(7);
    for ours in [true, false] {
        let tensors: Vec<Tensor> =
            (0..40).map(|_| Tensor::dense(&mut random, DataType::Uint8, &[512])).collect();
        let mut host = Host::new(Shape { arena: 4096, budget: ours.then_some(BUDGET), ..Shape::SMALL });
        let mut at = 0;
        // Ends in the middle of a lap, and exactly at its end.
        for count in [3, 5, 8, 8, 1, 7, 8] {
            let dump = host.launch(ScriptClock::new(0, TICKS_PER_MS));
            for _ in 0..count {
                assert!(record(&dump, 0, &Info { task_id: at as u64, ..tensors[at].info() }));
                at += 1;
            }
            flush(&dump, 0);
            host.finish(false);
        }
        let oracles = tensors.iter().map(Tensor::oracle);
        assert!(host.saved.iter().map(|saved| &saved.bytes).eq(oracles.collect::<Vec<_>>().iter()));
        assert_eq!(host.word(0, ARENA.write_offset), 40 * 512);
        assert_eq!(host.count(0, ARENA.shed_records), 0);
    }
}

#[test]
fn without_an_arena_a_payload_is_cut_to_nothing() {
    for base in [0, 1] {
        let mut host = Host::new(Shape::SMALL);
        let state = host.rig.state(0);
        match base {
            0 => host.rig.wide(state + ARENA.base).store(DeviceAddr::NULL.0, Relaxed),
            _ => host.rig.wide(state + ARENA.size).store(0, Relaxed),
        }
        let clock = ScriptClock::new(0, 1);
        let dump = host.launch(clock.clone());
        let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(1), DataType::Int8, &[9]);
        assert!(record(&dump, 0, &tensor.info));
        flush(&dump, 0);
        host.finish(false);
        assert_eq!((host.saved[0].record.payload_size, host.saved[0].record.truncated), (0, 1));
        assert_eq!(clock.relaxes(), 0);
    }
}
