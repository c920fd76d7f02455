//! Levels are guards, indices are checked, launches share nothing, and recording allocates nothing.

use dfx_collector::abi::swimlane::{BufferKind, CORE_RECORDS, Level};
use dfx_collector::abi::{DeviceAddr, Geometry};
use dfx_collector::swimlane::{InitError, Swimlane};
use dfx_mock::clock::ScriptClock;
use dfx_mock::device::{Device, Rig};
use dfx_mock::region::{Region, Shape};
use dfx_mock::rows::phase;
use dfx_mock::scaled;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

const BUFFER: u32 = CORE_RECORDS as u32;
const LEVELS: [Level; 5] =
    [Level::Disabled, Level::AicoreTiming, Level::AicpuTiming, Level::SchedPhases, Level::OrchPhases];

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls every recording function a few times, whatever the level: the guards are the collector's own.
fn call_everything(swimlane: &Swimlane<ScriptClock>, times: u32) {
    for n in 0..times {
        // SAFETY: this thread is the only caller.
        unsafe {
            swimlane.on_dispatch(0, 0, n);
            swimlane.on_ack(0, 0, n);
            swimlane.complete_task(0, 0, n, 1, 2);
            swimlane.record_sched_phase(0, &phase(0, n));
            swimlane.record_dummy_task(0, 1, n, 2);
            swimlane.record_predicated_skip(0, 1, n, 2);
            swimlane.record_graph_prepare(0, 1, 2, n, 3, 4);
            swimlane.record_orch_phase(1, 2, 3, n);
        }
    }
    // SAFETY: as above.
    unsafe {
        swimlane.sync(0, &[0]);
        swimlane.sync(1, &[]);
    }
}

/// The shared state of each kind's first lane.
fn lane_bytes(region: &Region, kind: BufferKind) -> Vec<u8> {
    let at = region.layout.pool(kind, 0);
    region.memory.bytes(at..at + 192)
}

#[test]
fn a_level_writes_only_its_own_lanes_and_reads_no_clock() {
    for level in LEVELS {
        // Buffers for every lane, so that a guard that leaks has somewhere to write.
        let full = Region::new(Shape::small(Level::OrchPhases, 1));
        let region = Arc::new(Region { shape: Shape { level, ..full.shape }, ..full });
        region.format();
        let mut rig = Rig::cold(Shape::small(Level::Disabled, 1), 1);
        rig.host = Arc::new(std::sync::Mutex::new(dfx_mock::drain::MockHost::new(&region)));
        rig.host().refill();
        let kinds = [
            (BufferKind::AicoreTask, Level::AicoreTiming),
            (BufferKind::AicpuTask, Level::AicpuTiming),
            (BufferKind::AicpuSchedPhase, Level::SchedPhases),
            (BufferKind::AicpuOrchPhase, Level::OrchPhases),
        ];
        let before = kinds.map(|(kind, _)| lane_bytes(&region, kind));
        rig.device.launch(&region).expect("a region that fits");
        rig.device.swimlane.set_orch_thread(1);
        call_everything(&rig.device.swimlane, scaled(500, 20));
        assert_eq!(rig.device.clock.reads(), 0, "{level:?} reads the clock");
        for ((kind, from), before) in kinds.into_iter().zip(before) {
            assert_eq!(lane_bytes(&region, kind) != before, level >= from, "{level:?}: {kind:?}");
            let written = region.buffers.iter().filter(|(key, _)| key.0 == kind).any(|(_, buffers)| {
                buffers.iter().any(|buffer| buffer.bytes(0..32).iter().any(|&byte| byte != 0))
            });
            // The core's own records are written by the core, and none runs here.
            let expected = level >= from && kind != BufferKind::AicoreTask;
            assert_eq!(written, expected, "{level:?}: records of {kind:?}");
        }
    }
}

#[test]
fn below_level_three_the_header_knows_no_phases() {
    for level in LEVELS {
        let mut rig = Rig::cold(Shape::small(level, 4), 1);
        rig.host().refill();
        rig.device.launch(&rig.region).expect("a region that fits");
        // SAFETY: nothing else runs.
        unsafe {
            rig.device.swimlane.init_core_assignments(4);
            rig.device.swimlane.write_core_assignments(0, &[0, 2, 99]);
        }
        let layout = rig.region.layout;
        let words = [layout.num_sched_threads, layout.num_orch_threads, layout.num_phase_cores];
        let words = words.map(|at| rig.region.word(at).load(std::sync::atomic::Ordering::Relaxed));
        let owners = rig.region.memory.bytes(layout.core_to_thread..layout.core_to_thread + 4);
        if level >= Level::SchedPhases {
            assert_eq!((words, owners.as_slice()), ([1, 1, 4], [0, 255, 0, 255].as_slice()));
            assert_eq!(rig.device.swimlane.misused(), 1);
        } else {
            assert_eq!((words, owners.as_slice()), ([0; 3], [0; 4].as_slice()));
        }
    }
}

#[test]
fn without_a_known_launch_start_init_reads_the_clock_once() {
    let rig = Rig::cold(Shape::small(Level::AicoreTiming, 1), 1);
    let region = &rig.region;
    // SAFETY: the region outlives the launch; nothing else runs.
    let init =
        unsafe { rig.device.swimlane.init(region.shape.geometry, region.base(), DeviceAddr::NULL, 1, None) };
    assert_eq!((init, rig.device.clock.reads()), (Ok(()), 1));
}

#[test]
fn no_record_function_allocates() {
    // A wait of 10 ms takes 500,000 looks at the clock, or 100.
    let mut rig = Rig::new(Shape::small(Level::OrchPhases, 1), scaled(1, 5000).into());
    rig.host().drains = false;
    let before = ALLOCATIONS.with(Cell::get);
    // Past rotations, drops, waits and a flush.
    call_everything(&rig.device.swimlane, scaled(20_000, 300));
    // SAFETY: this thread is the only caller.
    unsafe {
        rig.device.swimlane.flush(0, &[0]);
        rig.device.swimlane.flush_sched_phases(0);
        rig.device.swimlane.flush_orch_phases();
    }
    while rig.device.cores[0].step() {}
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
}

#[test]
fn between_rotations_aicpu_does_not_write_the_line_that_the_core_reads() {
    let mut rig = Rig::new(Shape::small(Level::OrchPhases, 1), 1);
    rig.host().drains = false;
    let core = (BufferKind::AicoreTask, 0);
    let line = |rig: &Rig| {
        let at = rig.region.layout.pool(core.0, core.1);
        rig.region.memory.bytes(at..at + 64)
    };
    let mut writes = 0;
    // Words that are not equal to what AICPU would write, so that a rewrite of the same value shows too.
    let total = &rig.region.pool(core).head.total_record_count;
    let mark = |n: u32| total.store(0xDEAD_0000 + n, std::sync::atomic::Ordering::Relaxed);
    let swimlane = &rig.device.swimlane;
    for token in 0..2 * BUFFER {
        mark(token);
        let before = line(&rig);
        // SAFETY: this thread is the only caller.
        unsafe {
            swimlane.on_dispatch(0, 0, token);
            swimlane.on_ack(0, 0, token);
            swimlane.complete_task(0, 0, token, 1, 2);
            swimlane.record_sched_phase(0, &phase(0, token));
        }
        if line(&rig) != before {
            writes += 1;
            assert_eq!(token % BUFFER, 0, "token {token} is no boundary");
        }
    }
    assert_eq!(writes, 1, "one rotation");
    rig.device.submits = 0;
}

#[test]
fn three_launches_with_other_levels_cores_and_threads_share_nothing() {
    let launches = [
        (Level::AicpuTiming, scaled(8, 4), 2, &Geometry::A5),
        (Level::OrchPhases, scaled(24, 6), 3, &Geometry::A2A3),
        (Level::AicoreTiming, 4, 1, &Geometry::A2A3),
        (Level::Disabled, 2, 1, &Geometry::A5),
        (Level::OrchPhases, 2, 1, &Geometry::A2A3),
    ];
    let mut device = Device::new(ScriptClock::new(7, 1));
    for (level, cores, threads, geometry) in launches {
        let shape = Shape { cores, threads, geometry, ..Shape::small(level, cores) };
        let mut rig = Rig::cold(shape, 1);
        rig.host().refill();
        device.launch(&rig.region).expect("a region that fits");
        rig.device = device;
        assert_eq!(rig.device.swimlane.level(), level);
        for core in 0..cores {
            rig.device.run(core as usize, 20 + core);
        }
        for thread in 0..threads {
            rig.device.phase(thread);
        }
        rig.device.submit();
        // Numbers that the launch before knew.
        // SAFETY: this thread is the only caller.
        unsafe {
            rig.device.swimlane.on_dispatch(cores, 4, 0);
            rig.device.swimlane.on_ack(cores, 4, 0);
            rig.device.swimlane.complete_task(cores, 4, 0, 1, 2);
            rig.device.swimlane.record_sched_phase(threads, &phase(0, 0));
        }
        rig.device.flush();
        if level > Level::Disabled {
            rig.finish_whole();
        } else {
            assert_eq!(rig.host().finish().iter().map(|account| account.serials.len()).sum::<usize>(), 0);
        }
        device = rig.device;
    }
}

#[test]
fn a_thread_of_an_earlier_launch_has_no_queue_in_the_next_one() {
    let mut device = Device::new(ScriptClock::new(7, 1));
    let a5 = Arc::new(Region::new(Shape { geometry: &Geometry::A5, ..Shape::small(Level::AicpuTiming, 1) }));
    device.launch(&a5).expect("a region that fits");
    let rig = Rig::cold(Shape::small(Level::AicpuTiming, 1), 1);
    rig.host().refill();
    device.launch(&rig.region).expect("a region that fits");
    let old = a5.memory.bytes(0..a5.layout.bytes());
    for token in 0..3 * dfx_collector::abi::swimlane::TASK_RECORDS as u32 {
        // SAFETY: this thread is the only caller. Thread 4 exists on a5 only.
        unsafe { device.swimlane.complete_task(0, 4, token, 1, 2) };
    }
    assert!(device.swimlane.misused() > 0);
    assert!(a5.memory.bytes(0..a5.layout.bytes()) == old, "the old region is left alone");
}

#[test]
fn numbers_out_of_range_are_counted_and_harmless() {
    let mut rig = Rig::new(Shape { threads: 2, ..Shape::small(Level::OrchPhases, 2) }, 1);
    rig.device.run(0, 5);
    let before = rig.region.memory.bytes(0..rig.region.layout.bytes());
    let swimlane = &rig.device.swimlane;
    // SAFETY: this thread is the only caller.
    unsafe {
        for core in [2, 71, 72, 107, 108, u32::MAX] {
            swimlane.on_dispatch(core, 0, 1);
            swimlane.on_ack(core, 0, 1);
            assert!(!swimlane.complete_task(core, 0, 1, 1, 2));
            swimlane.sync(0, &[core]);
            swimlane.flush(0, &[core]);
        }
        assert_eq!(swimlane.misused(), 6, "the flushes");
        for thread in [2, 3, 4, 5, u32::MAX] {
            swimlane.record_sched_phase(thread, &phase(0, 0));
            swimlane.flush_sched_phases(thread);
            swimlane.sync(thread, &[]);
        }
        assert_eq!(swimlane.misused(), 12, "the phases and their flushes of threads that the platform lacks");
    }
    assert!(rig.region.memory.bytes(0..rig.region.layout.bytes()) == before);
    rig.device.flush();
    rig.finish_whole();
}

#[test]
fn a_region_that_cannot_be_recorded_into_is_refused_and_nothing_is_recorded() {
    let mut rig = Rig::new(Shape::small(Level::OrchPhases, 2), 1);
    let (geometry, base, table) = (rig.region.shape.geometry, rig.region.base(), rig.region.table.addr(0));
    let swimlane = &rig.device.swimlane;
    let level = rig.region.word(rig.region.layout.level);
    // SAFETY: the region outlives the launch; nothing else runs.
    unsafe {
        assert_eq!(swimlane.init(geometry, DeviceAddr::NULL, table, 2, None), Err(InitError::NoRegion));
        assert_eq!(
            swimlane.init(geometry, base, table, 3, None),
            Err(InitError::Cores { wanted: 3, limit: 2 })
        );
        level.store(5, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(swimlane.init(geometry, base, table, 2, None), Err(InitError::Level(5)));
    }
    assert_eq!(swimlane.level(), Level::Disabled);
    let before = rig.region.memory.bytes(0..rig.region.layout.bytes());
    call_everything(swimlane, 2 * BUFFER);
    rig.device.flush();
    assert!(rig.region.memory.bytes(0..rig.region.layout.bytes()) == before);
    rig.device.submits = 0;
}
