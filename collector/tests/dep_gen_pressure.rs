//! dep_gen with a slow, full or dead host, without a region, a thread, or a switch: bounded, and counted.

#[path = "plain/dep_gen.rs"]
mod dep_gen;
mod plain;

use dep_gen::{BUDGET, ORCH, balance, bare, decode, launch, other, plan, small};
use dfx_collector::abi::dep_gen::RECORDS;
use dfx_collector::abi::peer::{self, Peer};
use dfx_collector::abi::{DeviceAddr, Geometry};
use dfx_collector::dep_gen::{DepGen, InitError};
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use dfx_mock::scaled;
use plain::Rig;
use std::sync::atomic::Ordering::Relaxed;

/// a2a3's counter.
const TICKS_PER_MS: u64 = 50_000;
/// Submits that fill a buffer.
const FULL: u64 = RECORDS as u64;

fn run(device: &DepGen<ScriptClock>, tasks: std::ops::Range<u64>) {
    for task in tasks {
        // SAFETY: this thread orchestrates.
        unsafe { device.record_submit(&bare(task, &[task])) };
    }
}

fn flush(device: &DepGen<ScriptClock>) {
    // SAFETY: this thread orchestrates.
    unsafe { device.flush() }
}

#[test]
fn a_dry_lane_waits_once_then_counts_each_submit_and_does_not_wait_again() {
    let (mut rig, device, clock) = small(2);
    run(&device, 0..2 * FULL);
    assert_eq!(clock.relaxes(), 0);
    let start = clock.peek();
    run(&device, 0..1);
    let waited = clock.peek() - start;
    assert!((10 * TICKS_PER_MS..12 * TICKS_PER_MS).contains(&waited), "{waited} ticks");
    let long = vec![1; 5000];
    // SAFETY: this thread orchestrates.
    unsafe { device.record_submit(&bare(9, &long)) };
    run(&device, 0..98);
    assert_eq!(clock.peek() - start, waited, "the host is latched as gone");
    assert_eq!(rig.stalls(0).0, 1);
    assert_eq!(rig.word(rig.plan.queue.backpressure + 12).load(Relaxed), 1, "it asked for a buffer");
    // A submit counts once, whatever its chain.
    rig.drain(true);
    assert_eq!(balance(&rig), (2 * RECORDS as u32 + 100, 0, 100, 0));
    run(&device, 100..200);
    flush(&device);
    rig.drain(true);
    assert_eq!(balance(&rig), (2 * RECORDS as u32 + 200, 0, 100, 0), "it goes on when the host is back");
    rig.check_sequence(0);
}

#[test]
fn a_full_ready_queue_keeps_the_buffer_and_drops_only_what_comes_after() {
    let (mut rig, device, clock) = small(12);
    // Four are offered by the free queue's size; the rest follow as they are taken, but nobody takes a full one.
    let mut offered = 4;
    for round in 0..8 {
        run(&device, round * FULL..(round + 1) * FULL);
        while offered < 12 && rig.offer(offered) {
            offered += 1;
        }
    }
    assert!(clock.relaxes() > 0, "the eighth buffer found the queue of seven full");
    run(&device, 0..50);
    let relaxes = clock.relaxes();
    run(&device, 0..50);
    assert_eq!(clock.relaxes(), relaxes, "latched");
    assert_eq!((rig.total(0), rig.dropped(0)), (8 * RECORDS as u32 + 100, 100));
    assert_eq!(rig.word(rig.plan.queue.backpressure + 4).load(Relaxed), 1, "it asked for room");
    rig.drain(true);
    run(&device, 8 * FULL..8 * FULL + 1);
    flush(&device);
    rig.drain(true);
    let back = decode(&rig.records(0));
    assert!(back.iter().map(|submit| submit.task_id).eq(0..8 * FULL + 1), "all that was recorded, in order");
    assert_eq!(balance(&rig), (8 * RECORDS as u32 + 101, 0, 100, 0));
}

#[test]
fn a_wait_that_the_host_ends_keeps_the_submit() {
    let (mut rig, device, clock) = small(2);
    rig.drain(true);
    let rig = std::sync::Arc::new(std::sync::Mutex::new(rig));
    let host = rig.clone();
    clock.on_relax(move || host.lock().unwrap().drain(true));
    let submits = scaled(20, 6) * RECORDS as u32;
    run(&device, 0..submits.into());
    clock.no_hook();
    flush(&device);
    let mut rig = rig.lock().unwrap();
    rig.drain(true);
    assert_eq!(decode(&rig.records(0)).len(), submits as usize);
    assert_eq!(balance(&rig), (submits, 0, 0, 0));
    let (stalls, ticks, longest) = rig.stalls(0);
    assert!(stalls > 0 && ticks >= longest && longest > 0);
}

#[test]
fn a_budget_of_zero_never_waits_and_a_reference_host_gets_the_default() {
    let rig = Rig::new(plan(&Geometry::A2A3), 1, Some(Budget { wait_ms: 0, total_ms: 0 }));
    let (device, clock) = launch(&rig);
    run(&device, 0..2 * FULL);
    assert_eq!((clock.reads(), clock.relaxes()), (0, 0));
    assert_eq!((rig.total(0), rig.dropped(0)), (2 * RECORDS as u32, RECORDS as u32));

    let rig = Rig::new(plan(&Geometry::A5), 1, None);
    let clock = ScriptClock::new(0, 100_000_000);
    let device = DepGen::new(clock.clone());
    device.set_enabled(true);
    // SAFETY: the region is one.
    unsafe { device.init(&Geometry::A5, rig.base(), Some(0)) }.unwrap();
    device.set_orch_thread(4);
    run(&device, 0..FULL + 1);
    let waited = clock.peek() / 1_000_000;
    assert!((8_000..8_300).contains(&waited), "{waited} ms of a5's clock");
    let peers = rig.word(rig.plan.queue.peer).load(Relaxed);
    assert_eq!((Peer::host(peers), Peer::device(peers)), (Peer::Reference, Peer::Ours(peer::VERSION)));
}

#[test]
fn without_an_orchestrator_thread_a_buffer_is_kept_for_recovery_and_the_rest_is_counted() {
    for thread in [u32::MAX, 4, 77] {
        let (mut rig, device, clock) = small(3);
        device.set_orch_thread(thread);
        run(&device, 0..3 * FULL);
        flush(&device);
        rig.drain(true);
        assert!(rig.taken.is_empty());
        assert_eq!(rig.recover(0).len(), RECORDS, "kept");
        assert_eq!(balance(&rig), (3 * RECORDS as u32, 0, 2 * RECORDS as u32, 0));
        assert_eq!(clock.relaxes(), 0);
        assert!(device.misused() > 0);
        device.set_orch_thread(ORCH);
        run(&device, 3 * FULL..3 * FULL + 1);
        flush(&device);
        rig.drain(true);
        assert_eq!(decode(&rig.records(0)).len(), RECORDS + 1);
    }
}

#[test]
fn nothing_is_recorded_when_disabled_or_without_a_region() {
    let (mut rig, device, clock) = small(2);
    device.set_enabled(false);
    assert!(!device.is_enabled() && !device.recording());
    run(&device, 0..10);
    flush(&device);
    rig.drain(false);
    assert_eq!((rig.total(0), rig.taken.len(), clock.reads()), (0, 0, 0));
    device.set_enabled(true);
    run(&device, 0..10);
    // SAFETY: nothing else runs.
    unsafe { device.finalize() };
    assert!(device.is_enabled() && !device.recording());
    run(&device, 10..20);
    flush(&device);
    assert_eq!(rig.recover(0).len(), 10);
    // SAFETY: nothing else runs.
    let refused = unsafe { device.init(&Geometry::A2A3, DeviceAddr::NULL, None) };
    assert_eq!(refused, Err(InitError::NoRegion { feature: "dep_gen" }));
    assert!(refused.unwrap_err().to_string().contains("nothing is recorded"));
    run(&device, 20..30);
    // SAFETY: nothing else runs.
    unsafe { device.reset() };
    assert!(!device.is_enabled());
}

#[test]
fn an_init_knows_nothing_of_an_earlier_launch() {
    let (rig, device, clock) = small(1);
    let long = vec![7; 64 + RECORDS * 582];
    run(&device, 0..FULL);
    run(&device, 0..7);
    // SAFETY: this thread orchestrates.
    unsafe { device.record_submit(&bare(1, &long)) };
    assert_eq!(rig.dropped(0), 8);
    // On the other platform, without a finalize: an orchestrator named for the earlier launch is forgotten.
    let mut fresh = Rig::new(plan(other(rig.plan.geometry.platform)), 2, Some(BUDGET));
    // SAFETY: the region is one.
    unsafe { device.init(fresh.plan.geometry, fresh.base(), Some(clock.peek())) }.unwrap();
    run(&device, 0..3);
    flush(&device);
    fresh.drain(false);
    assert!(fresh.taken.is_empty() && device.misused() == 1);
    device.set_orch_thread(3);
    flush(&device);
    fresh.drain(false);
    assert_eq!((fresh.taken[0].thread, fresh.taken[0].seq), (3, 0));
    assert_eq!(balance(&fresh), (3, 0, 0, 0));
    // One that was named after a finalize is the next launch's.
    // SAFETY: nothing else runs.
    unsafe { device.finalize() };
    device.set_orch_thread(1);
    let mut third = Rig::new(plan(&Geometry::A2A3), 1, Some(BUDGET));
    // SAFETY: the region is one.
    unsafe { device.init(&Geometry::A2A3, third.base(), None) }.unwrap();
    run(&device, 0..1);
    flush(&device);
    third.drain(false);
    assert_eq!(third.taken[0].thread, 1);
}
