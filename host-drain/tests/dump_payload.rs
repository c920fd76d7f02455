//! The dump's payload, from arenas to `args.bin`: every byte is the producer's, whatever wraps, waits or is given up.

mod dump;

use dfx_collector::abi::Platform;
use dfx_collector::abi::args_dump::{Level, Record};
use dfx_host_drain::{DeviceEnd, Drive, DumpBudget, TransportKind};
use dump::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const TRANSPORTS: [TransportKind; 2] = [TransportKind::Svm, TransportKind::Copy];

/// Issue 4, point 1: four threads, an arena of 8 KiB that wraps hundreds of times, payloads of all sizes.
#[test]
fn every_payload_byte_is_in_the_file_though_the_arena_wraps_hundreds_of_times() {
    for transport in TRANSPORTS {
        let mut rig = Rig::new(Platform::A2a3, transport, config(Level::Full, 8192), 4);
        start(&mut rig);
        let mut producers = rig.producers();
        let stepper = rig.session.stepper();
        let mut expected = HashMap::new();
        for n in 0..4_000_u64 {
            let bytes = [1, 64, 0, 700, 4096, 3, 8192, 2048, 1000][n as usize % 9];
            let payload = pattern(n, bytes);
            let record = tensor(n / 3, (n % 3) as u32, bytes as u64);
            let producer = &mut producers[n as usize * 7 % 4];
            while producer.tensor(&record, &payload).is_none() {
                stepper.step().expect("it lives");
            }
            expected.insert((n / 3, n % 3), payload);
        }
        assert!(producers.iter().all(|producer| producer.write > 150 * 8192), "hundreds of laps");
        producers.iter_mut().for_each(Producer::flush);
        let ended = rig.end(DeviceEnd::Completed);
        assert_eq!(ended.codes(), Vec::<String>::new());
        let (manifest, bin) = (ended.manifest(), ended.bin());
        let args = manifest["args"].as_array().expect("rows");
        assert_eq!(args.len(), 4_000);
        for entry in args {
            let task = u64::from_str_radix(&entry["task_id"].as_str().expect("hex")[2..], 16).expect("hex");
            assert_eq!(
                payload(&bin, entry),
                expected[&(task, entry["arg_index"].as_u64().expect("index"))],
                "{entry}"
            );
        }
        let bytes: u64 = expected.values().map(|payload| payload.len() as u64).sum();
        assert_eq!(bin.len() as u64, bytes, "without padding");
        assert_eq!((ended.dump.payload_bytes_produced, ended.dump.payload_bytes_written), (bytes, bytes));
        assert_eq!(ended.files, 2);
    }
}

/// The same against the session's own threads: nothing is overwritten before it is in the file.
#[test]
fn producers_on_their_own_threads_never_overtake_the_writer() {
    for transport in TRANSPORTS {
        let mut rig = Rig::new(Platform::A5, transport, config(Level::Full, 64 << 10), 5);
        rig.session.start(Drive::Threads).expect("threads");
        let producers = rig.producers();
        std::thread::scope(|scope| {
            for (thread, mut producer) in producers.into_iter().enumerate() {
                scope.spawn(move || {
                    for n in 0..600_u64 {
                        let payload = pattern(n * 5 + thread as u64, (n as usize * 331) % 30_000);
                        let record = tensor(n, thread as u32, payload.len() as u64);
                        while producer.tensor(&record, &payload).is_none() {
                            std::thread::yield_now();
                        }
                    }
                    while !producer.publish() {
                        std::thread::yield_now();
                    }
                    producer.sync();
                });
            }
        });
        let ended = rig.end(DeviceEnd::Completed);
        assert_eq!(ended.codes(), Vec::<String>::new());
        let (manifest, bin) = (ended.manifest(), ended.bin());
        for (at, entry) in manifest["args"].as_array().expect("rows").iter().enumerate() {
            let (n, thread) = (at as u64 / 5, at as u64 % 5);
            assert_eq!(entry["arg_index"], thread);
            assert_eq!(payload(&bin, entry), pattern(n * 5 + thread, (n as usize * 331) % 30_000), "{entry}");
        }
    }
}

#[test]
fn a_reference_has_the_place_of_the_payload_that_it_names() {
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, config(Level::Full, 1 << 16), 2);
    start(&mut rig);
    let mut producers = rig.producers();
    let offsets: Vec<u64> = (0..2)
        .map(|t| producers[t].tensor(&tensor(1, t as u32, 100), &pattern(t as u64, 100)).expect("room"))
        .collect();
    assert_eq!(offsets, [0, 0], "the same offset in two threads is two payloads");
    for (t, producer) in producers.iter_mut().enumerate() {
        producer.tensor(&tensor(2, t as u32, 50), &pattern(9, 50)).expect("room");
        producer.flush();
        settle(&rig.session);
        assert_eq!(producer.acknowledged(), 150);
        assert!(producer.reference(&tensor(3, t as u32, 100), 0, 100));
        // Names nothing: not a payload's start, or not its size.
        assert!(producer.reference(&tensor(4, t as u32, 100), 1, 100));
        assert!(producer.reference(&tensor(5, t as u32, 99), 0, 99));
        producer.flush();
        settle(&rig.session);
        assert_eq!(producer.acknowledged(), 150, "references move no acknowledgement");
    }
    let ended = rig.end(DeviceEnd::Completed);
    let (manifest, bin) = (ended.manifest(), ended.bin());
    assert_eq!(bin.len(), 300);
    for entry in manifest["args"].as_array().expect("rows") {
        let thread = entry["arg_index"].as_u64().expect("index");
        let task = entry["task_id"].as_str().expect("hex");
        match &task[17..] {
            "1" | "3" => assert_eq!(payload(&bin, entry), pattern(thread, 100), "{entry}"),
            "2" => assert_eq!(payload(&bin, entry), pattern(9, 50)),
            _ => assert_eq!((&entry["bin_size"], &entry["truncated"]), (&0.into(), &true.into()), "{entry}"),
        }
    }
    assert_eq!(ended.dump.payload_bytes_deduplicated, 2 * 299);
    let codes = ended.codes();
    assert!(
        codes.contains(&"references_dangling".into()) && codes.contains(&"payload_lost".into()),
        "{codes:?}"
    );
}

#[test]
fn shed_and_truncated_payloads_keep_their_records_and_are_counted_with_the_remedy() {
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Copy, config(Level::Full, 4096), 1);
    start(&mut rig);
    let mut producers = rig.producers();
    let producer = &mut producers[0];
    let large = Record { truncated: 1, ..tensor(1, 0, 10_000) };
    producer.tensor(&large, &pattern(1, 2048)).expect("room");
    assert!(producer.shed(&tensor(2, 0, 3000), 3000));
    assert!(producer.raw(&scalar(2, 1, 0, u64::from(0.1_f32.to_bits()))));
    producer.flush();
    let ended = rig.end(DeviceEnd::Completed);
    let (manifest, bin) = (ended.manifest(), ended.bin());
    let args = manifest["args"].as_array().expect("rows");
    assert_eq!(payload(&bin, &args[0]), pattern(1, 2048));
    assert_eq!((&args[0]["truncated"], &args[0]["numel"]), (&true.into(), &10_000.into()));
    assert_eq!((&args[1]["truncated"], &args[1]["bin_size"]), (&true.into(), &0.into()));
    assert_eq!(args[2]["value"], 0.1);
    assert_eq!(manifest["truncated_args"], 2);
    assert_eq!((ended.dump.payload_bytes_shed, ended.dump.truncated), (3000, 2));
    assert_eq!((ended.dump.payload_bytes_produced, ended.dump.payload_bytes_written), (5048, 2048));
    assert_eq!(ended.codes(), ["shed", "truncated"]);
    let judged = dfx_host_drain::report::judge(false, &ended.streams, Some(&ended.dump));
    assert!(
        judged[0].message.contains("--dump-args=1") && judged[0].message.contains("--dump-tag"),
        "{}",
        judged[0].message
    );
}

/// A mask has 64 bits, a task may have more arguments: their records are like any other, in the order of their positions.
#[test]
fn arguments_beyond_the_64th_are_recorded_and_sorted_by_position() {
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, config(Level::Full, 1 << 16), 1);
    start(&mut rig);
    let mut producers = rig.producers();
    let positions = [1000, 64, 3, u32::MAX, 63, 65];
    for at in positions {
        producers[0].tensor(&tensor(1, at, 10), &pattern(at.into(), 10)).expect("room");
    }
    producers[0].flush();
    let ended = rig.end(DeviceEnd::Completed);
    assert_eq!(ended.codes(), Vec::<String>::new());
    let (manifest, bin) = (ended.manifest(), ended.bin());
    let args = manifest["args"].as_array().expect("rows");
    assert_eq!(args.len(), positions.len());
    for (entry, at) in args.iter().zip([3, 63, 64, 65, 1000, u32::MAX]) {
        assert_eq!(entry["arg_index"], at);
        assert_eq!(payload(&bin, entry), pattern(at.into(), 10));
    }
}

/// Buffers that come in another order than that of their numbers: nothing is acknowledged before what came before it.
#[test]
fn a_buffer_that_overtakes_another_waits_for_it() {
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, config(Level::Full, 1 << 16), 1);
    start(&mut rig);
    let mut producers = rig.producers();
    let producer = &mut producers[0];
    // Buffer 0 is published as number 1 and buffer 1 as number 0: what is first in the arena comes last.
    producer.tensor(&tensor(1, 0, 100), &pattern(1, 100)).expect("room");
    assert!(producer.publish_as(1, 0));
    settle(&rig.session);
    assert_eq!(producer.acknowledged(), 0);
    producer.tensor(&tensor(2, 0, 100), &pattern(2, 100)).expect("room");
    assert!(producer.publish_as(0, 0));
    settle(&rig.session);
    assert_eq!(producer.acknowledged(), 200);
    // Number 2 never comes: the wait for it ends.
    producer.tensor(&tensor(3, 0, 100), &pattern(3, 100)).expect("room");
    assert!(producer.publish_as(3, 0));
    for _ in 0..100 {
        rig.session.stepper().step().expect("it lives");
    }
    assert_eq!(producer.acknowledged(), 300);
    producer.flush();
    let ended = rig.end(DeviceEnd::Completed);
    let (manifest, bin) = (ended.manifest(), ended.bin());
    for (at, entry) in manifest["args"].as_array().expect("rows").iter().enumerate() {
        assert_eq!(payload(&bin, entry), pattern(at as u64 + 1, 100));
    }
    assert_eq!(ended.codes(), Vec::<String>::new());
}

/// Behaviour §3: the payload of buffers that the device never published is there after an abnormal end.
#[test]
fn what_was_never_flushed_is_recovered_with_its_payload() {
    for transport in TRANSPORTS {
        let mut rig = Rig::new(Platform::A2a3, transport, config(Level::Full, 1 << 16), 2);
        start(&mut rig);
        let mut producers = rig.producers();
        for (t, producer) in producers.iter_mut().enumerate() {
            producer.tensor(&tensor(1, t as u32, 100), &pattern(t as u64, 100)).expect("room");
            producer.flush();
            producer.tensor(&tensor(2, t as u32, 1000), &pattern(7 + t as u64, 1000)).expect("room");
        }
        let ended = rig.end(DeviceEnd::Abnormal);
        assert_eq!((ended.sum(|s| s.collected), ended.sum(|s| s.recovered)), (4, 2));
        let (manifest, bin) = (ended.manifest(), ended.bin());
        let args = manifest["args"].as_array().expect("rows");
        for (at, seed) in [(0, 0), (1, 1), (2, 7), (3, 8)] {
            assert_eq!(payload(&bin, &args[at]), pattern(seed, if at < 2 { 100 } else { 1000 }));
        }
        assert_eq!(ended.codes(), Vec::<String>::new());
        assert_eq!(ended.dump.payload_bytes_written, 2200);
    }
}

#[test]
fn a_device_that_overwrites_what_was_not_saved_is_found_out() {
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, config(Level::Full, 4096), 1);
    start(&mut rig);
    let mut producers = rig.producers();
    let producer = &mut producers[0];
    producer.lawless = true;
    for n in 0..6 {
        producer.tensor(&tensor(n, 0, 2048), &pattern(n, 2048)).expect("it does not ask");
    }
    // The records were written in order; the newest two payloads are the only ones left.
    producer.flush();
    let ended = rig.end(DeviceEnd::Completed);
    assert_eq!(ended.sum(|s| s.collected), 6);
    let manifest = ended.manifest();
    assert_eq!(manifest["args"].as_array().expect("rows").len(), 6);
    assert_eq!(manifest["dropped_overwrite"], ended.dump.overwritten);
    assert_eq!(ended.dump.overwritten, 4);
    let (args, bin) = (manifest["args"].as_array().expect("rows"), ended.bin());
    for (n, entry) in args.iter().enumerate() {
        assert_eq!(entry["overwritten"], n < 4, "{entry}");
        assert_eq!(payload(&bin, entry), if n < 4 { Vec::new() } else { pattern(n as u64, 2048) });
    }
    assert!(ended.codes().contains(&"overwritten".into()));
}

/// Issue 4, point 4, in virtual time: the clock is the caller's, and the rate is kept in every second of it.
#[test]
fn the_budget_is_kept_within_two_percent_in_virtual_time_and_nothing_is_lost() {
    const RATE: u64 = 42_000_000;
    let budget =
        dfx_host_drain::DfxConfig { dump_budget: DumpBudget::Rate(RATE), ..config(Level::Full, 1 << 20) };
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, budget, 2);
    let clock = Arc::new(AtomicU64::new(0));
    let now = clock.clone();
    rig.session.set_clock(Arc::new(move || now.load(Ordering::Relaxed))).expect("just configured");
    start(&mut rig);
    let stepper = rig.session.stepper();
    let mut producers = rig.producers();
    let payload_bytes = pattern(1, 100_000);
    let (mut n, mut drained) = (0, Vec::new());
    while clock.load(Ordering::Relaxed) < 3_000_000_000 {
        for producer in &mut producers {
            while producer.tensor(&tensor(n, 0, 100_000), &payload_bytes).is_some() {
                n += 1;
            }
        }
        stepper.step().expect("it lives");
        clock.fetch_add(200_000, Ordering::Relaxed);
        drained.push(stepper.flow().expect("it dumps").drained());
        assert!(stepper.flow().expect("it dumps").backlog() <= 2 << 20, "the arenas bound the queue");
    }
    let second = 5_000;
    for from in (100..drained.len() - second).step_by(37) {
        let sum = drained[from + second] - drained[from];
        assert!(sum.abs_diff(RATE) * 50 <= RATE, "{sum} bytes in the second from step {from}");
    }
    let rate = stepper.flow().expect("it dumps").rate();
    assert!(rate.abs_diff(RATE) * 20 <= RATE, "measured {rate}");
    producers.iter_mut().for_each(|producer| {
        while !producer.publish() {
            stepper.step();
        }
        producer.sync();
    });
    let ended = rig.end(DeviceEnd::Completed);
    assert_eq!(ended.codes(), Vec::<String>::new(), "the producer waited; nothing is lost");
    assert_eq!(ended.dump.payload_bytes_written, 100_000 * n);
    assert_eq!(ended.dump.budget_bytes_per_s, Some(RATE));
    let overall = ended.dump.drain_rate_bytes_per_s;
    assert!(overall.abs_diff(RATE) * 10 <= RATE, "{overall}");
}

#[test]
fn on_the_real_clock_the_ceiling_holds_to_the_end() {
    const RATE: u64 = 20_000_000;
    let budget =
        dfx_host_drain::DfxConfig { dump_budget: DumpBudget::Rate(RATE), ..config(Level::Full, 8 << 20) };
    let mut rig = Rig::new(Platform::A2a3, TransportKind::Svm, budget, 1);
    rig.session.start(Drive::Threads).expect("threads");
    let mut producers = rig.producers();
    let begun = std::time::Instant::now();
    for n in 0..8 {
        producers[0].tensor(&tensor(n, 0, 1_000_000), &pattern(n, 1_000_000)).expect("room");
    }
    producers[0].flush();
    let ended = rig.end(DeviceEnd::Completed);
    let least = 8_000_000.0 / RATE as f64 * 0.95;
    assert!(begun.elapsed().as_secs_f64() >= least, "{:?} for 8 MB at 20 MB/s", begun.elapsed());
    assert_eq!((ended.dump.payload_bytes_written, ended.codes()), (8_000_000, Vec::new()));
}
