//! What a device that never flushes leaves behind the counts of its last buffers, with our device half writing it.

#[allow(dead_code)] // a part of it is enough here
#[path = "hostile/memory.rs"]
mod memory;

use dfx_collector::abi::layout::SWIMLANE_LANE;
use dfx_collector::abi::swimlane::{
    BufferKind, Level, OrchPhaseRecord, SchedPhaseKind, SchedPhaseRecord, TASK_RECORDS, TaskRecord,
};
use dfx_collector::abi::{DeviceAddr, Platform, peer};
use dfx_collector::clock::Clock;
use dfx_collector::swimlane::{CoreRecorder, SchedPhase, Swimlane, rotation_entry};
use dfx_host_drain::features::swimlane::SwimlaneRegion;
use dfx_host_drain::report::{StreamKind, StreamReport};
use dfx_host_drain::{
    Board, DeviceEnd, DfxConfig, Drive, PoolSizes, Session, SessionSpec, Stepper, TransportKind,
};
use memory::{Memory, long, word};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A counter that stands still: nothing here waits.
struct Still;

impl Clock for Still {
    fn now(&self) -> u64 {
        0
    }
    fn relax(&self) {}
}

/// One core, one scheduler and one orchestrator, on one thread.
struct Device {
    swimlane: Box<Swimlane<Still>>,
    core: CoreRecorder,
    region: SwimlaneRegion,
    tasks: u32,
}

const SCHEDULER: u32 = 0;
const ORCHESTRATOR: u32 = 1;

impl Device {
    fn new(board: &Board, region: SwimlaneRegion) -> Device {
        let swimlane = Box::new(Swimlane::new(Still));
        // SAFETY: the region is the session's, which outlives the device; nothing else calls.
        unsafe {
            swimlane.init(board.geometry(), region.base, region.rotation_table, 1, Some(0)).expect("it fits");
            swimlane.init_phases(1, 1);
            swimlane.set_orch_thread(ORCHESTRATOR);
            let entry = rotation_entry(region.rotation_table, 0).0 as usize;
            let entry = std::ptr::with_exposed_provenance(entry);
            let core = CoreRecorder::attach(entry).expect("the table is filled");
            Device { swimlane, core, region, tasks: 0 }
        }
    }

    /// A record in each of the four lanes.
    fn task(&mut self) {
        let (token, at) = (self.tasks, 100 + 10 * u64::from(self.tasks));
        self.tasks += 1;
        // SAFETY: one thread plays all.
        unsafe {
            self.swimlane.record_orch_phase(at, at + 1, u64::from(token), token);
            self.swimlane.on_dispatch(0, SCHEDULER, token);
            let slot = self.core.reserve();
            self.swimlane.on_ack(0, SCHEDULER, token);
            CoreRecorder::commit(slot, at + 2, at + 5, u64::from(token), token, at + 1);
            assert!(self.swimlane.complete_task(0, SCHEDULER, token, at, at + 6));
            let phase = SchedPhase {
                kind: SchedPhaseKind::Complete,
                start: at + 6,
                end: at + 7,
                loop_iter: token,
                tasks: 1,
                pop_hit: 0,
                pop_miss: 0,
                depth_start: [0; 3],
                depth_end: [0; 3],
            };
            self.swimlane.record_sched_phase(SCHEDULER, &phase);
        }
    }

    /// The address of record `slot` in the active buffer of a lane.
    fn slot(&self, kind: BufferKind, slot: u32, bytes: usize) -> u64 {
        let pool = self.region.base.offset(self.region.layout.pool(kind, 0) as u64);
        let buffer = DeviceAddr(long(pool.offset(SWIMLANE_LANE.current_ptr as u64).0).load(Acquire));
        buffer.offset(u64::from(slot) * bytes as u64).0
    }
}

const PLACES: [(Platform, TransportKind); 4] = [
    (Platform::A2a3, TransportKind::Svm),
    (Platform::A2a3, TransportKind::Copy),
    (Platform::A5, TransportKind::Svm),
    (Platform::A5, TransportKind::Copy),
];
const ENDS: [DeviceEnd; 2] = [DeviceEnd::Completed, DeviceEnd::Abnormal];

/// A session in which the device does `device` and flushes nothing.
fn run(
    (platform, transport): (Platform, TransportKind),
    end: DeviceEnd,
    device: impl FnOnce(&mut Device, &Stepper),
) -> (Vec<StreamReport>, Vec<String>) {
    let memory = Arc::new(Memory::default());
    let config =
        DfxConfig { chip_swimlane: Level::OrchPhases, pools: PoolSizes::all(2), ..DfxConfig::default() };
    let board = Board { platform, core_is_aic: vec![true], aicpu_threads: 2 };
    let spec = SessionSpec { config, board: board.clone(), memory: memory.clone(), transport };
    let mut session = Session::configure(spec).expect("a session");
    session.start(Drive::Stepped).expect("it was configured");
    let stepper = session.stepper();
    device(&mut Device::new(&board, session.swimlane_region().expect("it records")), &stepper);
    session.stop(end).expect("it ran");
    session.reconcile().expect("it stopped");
    let (streams, codes) =
        (session.streams().to_vec(), session.reasons().iter().map(|r| r.code.clone()).collect());
    session.release();
    assert_eq!((memory.out(), memory.outside()), ((0, 0), 0));
    for stream in &streams {
        assert!(stream.conserved(), "{stream:?}");
    }
    (streams, codes)
}

/// Produced, collected, lost and recovered of the lane of `kind`.
fn account(streams: &[StreamReport], kind: StreamKind) -> (u64, u64, u64, u64) {
    let stream = streams.iter().find(|stream| stream.kind == kind).expect("a lane");
    assert_eq!((stream.dropped, stream.duplicate, stream.corrupt), (0, 0, 0), "{stream:?}");
    (stream.produced.expect("a total"), stream.collected, stream.lost, stream.recovered)
}

const KINDS: [StreamKind; 4] =
    [StreamKind::AicoreTask, StreamKind::AicpuTask, StreamKind::SchedPhase, StreamKind::OrchPhase];

#[test]
fn what_no_count_shows_is_recovered_however_the_device_is_said_to_have_ended() {
    for place in PLACES {
        for end in ENDS {
            for tasks in 1..=26 {
                let (streams, codes) = run(place, end, |device, _| (0..tasks).for_each(|_| device.task()));
                for kind in KINDS {
                    assert_eq!(account(&streams, kind), (tasks, tasks, 0, tasks), "{place:?} {end:?} {kind}");
                }
                let told = if end == DeviceEnd::Completed { vec!["not_flushed"] } else { vec![] };
                assert_eq!(codes, told);
            }
        }
    }
}

#[test]
fn a_buffer_that_was_full_before_gives_none_of_its_earlier_records() {
    let full = 2 * TASK_RECORDS as u64;
    for place in PLACES {
        for more in 0..=9 {
            let (streams, _) = run(place, DeviceEnd::Abnormal, |device, stepper| {
                for _ in 0..full + more {
                    device.task();
                    stepper.step().expect("the host lives");
                }
            });
            let all = full + more;
            assert_eq!(account(&streams, StreamKind::AicpuTask), (all, all, 0, more), "{place:?}");
            for kind in KINDS {
                let (produced, collected, lost, _) = account(&streams, kind);
                assert_eq!((produced, collected, lost), (all, all, 0), "{place:?} {kind}");
            }
        }
    }
}

/// The device is stopped between the publication of a buffer and the store that puts it out of its hand; the host has taken
/// the buffer, and offered it again.
#[test]
fn a_buffer_that_was_published_and_is_still_in_the_devices_hand_is_taken_once() {
    let full = TASK_RECORDS as u64;
    for place in PLACES {
        for end in ENDS {
            let (streams, _) = run(place, end, |device, stepper| {
                device.task();
                let buffer = device.slot(BufferKind::AicpuTask, 0, 0);
                for _ in 1..full {
                    device.task();
                    stepper.step().expect("the host lives");
                }
                while stepper.step().expect("the host lives") > 0 {}
                let pool =
                    device.region.base.offset(device.region.layout.pool(BufferKind::AicpuTask, 0) as u64);
                word(pool.0 + SWIMLANE_LANE.current_seq as u64).store(0, Release);
                long(pool.0 + SWIMLANE_LANE.current_ptr as u64).store(buffer, Release);
            });
            assert_eq!(account(&streams, StreamKind::AicpuTask), (full, full, 0, 0), "{place:?} {end:?}");
        }
    }
}

/// The device is stopped in the middle of a record: everything but its end is there.
#[test]
fn a_record_that_was_not_finished_is_lost_and_counted() {
    for place in PLACES {
        for end in ENDS {
            for tasks in [0_u32, 5, 7, 12, TASK_RECORDS as u32 - 3, 2 * TASK_RECORDS as u32 + 11] {
                let (streams, _) = run(place, end, |device, stepper| {
                    for _ in 0..tasks {
                        device.task();
                        stepper.step().expect("the host lives");
                    }
                    let start = 100 + 10 * u64::from(tasks);
                    let task = device.slot(
                        BufferKind::AicpuTask,
                        tasks % TASK_RECORDS as u32,
                        size_of::<TaskRecord>(),
                    );
                    long(task + offset_of!(TaskRecord, dispatch_time) as u64).store(start, Release);
                    word(task + offset_of!(TaskRecord, reg_task_id) as u64).store(tasks, Release);
                    if tasks < 96 {
                        let phase =
                            device.slot(BufferKind::AicpuSchedPhase, tasks, size_of::<SchedPhaseRecord>());
                        long(phase + offset_of!(SchedPhaseRecord, start_time) as u64).store(start, Release);
                        let submit =
                            device.slot(BufferKind::AicpuOrchPhase, tasks, size_of::<OrchPhaseRecord>());
                        long(submit + offset_of!(OrchPhaseRecord, start_time) as u64).store(start, Release);
                    }
                });
                let all = u64::from(tasks);
                let kinds = if tasks < 96 { &KINDS[1..] } else { &KINDS[1..2] };
                for &kind in kinds {
                    let (produced, collected, lost, _) = account(&streams, kind);
                    assert_eq!((produced, collected, lost), (all + 1, all, 1), "{place:?} {end:?} {kind}");
                }
            }
        }
    }
}

/// The reference's half shows every record with its count: what lies behind is none of it.
#[test]
fn behind_the_counts_of_the_reference_s_device_half_nothing_is_looked_for() {
    for place in PLACES {
        let (streams, _) = run(place, DeviceEnd::Abnormal, |device, _| {
            (0..13).for_each(|_| device.task());
            let peer = device.region.layout.queue.peer as u64;
            word(device.region.base.offset(peer).0).store(peer::with_host(0), Release);
        });
        for kind in &KINDS[1..] {
            assert_eq!(account(&streams, *kind), (8, 8, 0, 8), "{place:?} {kind}");
        }
    }
}
