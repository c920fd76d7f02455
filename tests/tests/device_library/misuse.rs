//! Calls in every way in which they must not be made: an error in the log or a count, and never a touched byte.

use super::PLATFORMS;
use super::armed::Armed;
use super::launch::{Launch, Plan};
use dfx_collector::abi::Platform;
use dfx_collector::abi::args_dump::{Info, Kind};
use dfx_collector::abi::task::CoreCallable;
use dfx_tests::device_library::{Library, PmuRecord};
use std::ptr::{null, null_mut};

/// Numbers of cores and threads that no platform has.
const NOWHERE: [i32; 5] = [-1, i32::MIN, 108, 5000, i32::MAX];

/// Calls everything that records or publishes, with these numbers, with lists and without.
///
/// # Safety
/// Nothing else uses the library.
unsafe fn call_everything(library: &Library, core: i32, thread: i32) {
    let call = &library.call;
    let list = [core];
    // SAFETY: the caller's contract; lists have the length that is said, or are null.
    unsafe {
        (call.on_dispatch)(core, thread, 1);
        (call.on_ack)(core, thread, 1);
        (call.complete_task)(core, thread, 1, 2, 3);
        (call.sched_phase)(thread, 1, 2, 3, 4, 5, 6, 7, null(), null());
        (call.sched_phase)(thread, 3, 2, 3, 4, 5, 6, 7, null(), null());
        (call.sched_phase)(thread, u32::MAX, 2, 3, 4, 5, 6, 7, null(), null());
        (call.dummy_task)(thread, 1, 2, 3);
        (call.predicated_skip)(thread, 1, 2, 3);
        (call.graph_prepare)(thread, 1, 2, 3, 4, 5);
        (call.orch_phase)(1, 2, 3, 4);
        (call.write_assignments)(thread, list.as_ptr(), 1);
        for (cores, n) in [(list.as_ptr(), 1), (list.as_ptr(), -1), (null(), 1), (null(), 0)] {
            (call.swimlane_flush)(thread, cores, n);
            (call.pmu_flush)(thread, cores, n);
            (call.pmu_finalize)(cores, n);
            (call.write_assignments)(thread, cores, n);
        }
        (call.flush_sched_phases)(thread);
        (call.flush_orch_phases)(thread);
        (call.dump_record)(thread, &Info { kind: Kind::Scalar as u8, ..Info::default() });
        (call.dump_flush)(thread);
        match &library.pmu {
            PmuRecord::A2a3(pmu) => (pmu.record)(core, thread, 1, 2, 0),
            PmuRecord::A5(pmu) => (pmu.record)(core, thread, 1, 1, 2, 0),
        }
        submit(library, 1);
        (call.dep_gen_flush)();
        (call.pending_site)(null(), -1);
        (call.scope_begin)(9, 1, 2, 3, 4, 5, 6, 7);
        (call.scope_end)(9, 1, 2, 3, 4, 5, 6, 7);
        (call.scope_end)(9, 1, 2, 3, 4, 5, 6, 7);
        (call.note_heap_wrap)(0);
        (call.note_heap_wrap)(7);
        (call.ring_capacity)(-1, 1, 2, 3);
        (call.ring_capacity)(4, 1, 2, 3);
        (call.scope_flush)();
        (call.on_fatal)();
    }
}

/// A submit with nothing in it.
///
/// # Safety
/// As [`call_everything`].
unsafe fn submit(library: &Library, task: u64) {
    // SAFETY: all lists are null.
    unsafe { (library.call.record_submit)(task, false, false, 0, null(), null(), 0, null(), 1, null()) }
}

/// Everything may be called before any init: it does nothing, and what was asked for says so.
#[test]
fn before_init_everything_is_a_no_op() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        let (call, stub) = (&library.call, &library.stub);
        // SAFETY: one thread.
        unsafe {
            assert_eq!((call.swimlane_level)(), 0);
            assert_eq!((call.complete_task)(0, 0, 0, 0, 0), -1);
            assert_eq!((call.dump_record)(0, &Info::default()), -1);
            for number in [0].into_iter().chain(NOWHERE) {
                call_everything(&library, number, number);
            }
            assert_eq!(library.scope_depth(), -1);
            let before = (stub.errors)();
            for (init, said) in [
                (call.dep_gen_init as unsafe extern "C" fn(), "dep_gen_aicpu_init: no region"),
                (call.dep_gen_flush, ""),
            ] {
                init();
                assert!(library.logged().contains(said), "{}", library.logged());
            }
            (call.swimlane_init)(3);
            assert!(
                library.logged().starts_with("chip_swimlane_aicpu_init: no region"),
                "{}",
                library.logged()
            );
            (call.init_phase)(3, 2, 1);
            assert!(
                library.logged().starts_with("chip_swimlane_aicpu_init_phase: no region"),
                "{}",
                library.logged()
            );
            (call.dump_init)(3);
            assert!(library.logged().starts_with("dump_args_init: no region"), "{}", library.logged());
            (call.pmu_init)([0u32; 3].as_ptr(), 3);
            assert!(library.logged().starts_with("pmu_aicpu_init: no region"), "{}", library.logged());
            (call.pmu_init)(null(), 3);
            assert!(library.logged().contains("no physical core numbers"), "{}", library.logged());
            assert_eq!((stub.errors)() - before, 6, "one each");
            assert_eq!((stub.warnings)(), 0);
        }
    }
}

/// Counts that the region does not have are refused, with the numbers in the log, and nothing is recorded then.
#[test]
fn counts_that_do_not_fit_are_refused() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        let _armed = Armed::new(&library, &Plan::ALL);
        let call = &library.call;
        // SAFETY: one thread; the regions live as long as `_armed`.
        unsafe {
            for cores in [4, 1000, -1] {
                (call.swimlane_init)(cores);
                let said = format!("{} cores asked for, the region has 3", cores as u32);
                assert!(library.logged().contains(&said), "{}", library.logged());
                assert_eq!(((call.swimlane_level)(), (call.complete_task)(0, 0, 0, 0, 0)), (0, -1));
                let physical = [0u32; 1000];
                if cores > 0 {
                    (call.pmu_init)(physical.as_ptr(), cores);
                    assert!(library.logged().contains(&said), "{}", library.logged());
                }
            }
            (call.pmu_init)([0u32; 1].as_ptr(), -1);
            assert!(library.logged().contains("no physical core numbers"), "{}", library.logged());
            for threads in [4, 0, -7] {
                (call.dump_init)(threads);
                let said = format!("{} threads asked for, the region has 3", threads as u32);
                assert!(library.logged().contains(&said), "{}", library.logged());
                assert_eq!((call.dump_record)(0, &Info::default()), -1);
            }
            // A base that is another feature's.
            (call.set_dump_base)((call.swimlane_base)());
            (call.dump_init)(3);
            assert!(library.logged().contains("it is another's"), "{}", library.logged());
        }
    }
}

/// Numbers out of range while everything records: counted, told at the flush, and the run is whole.
#[test]
fn numbers_out_of_range_harm_no_launch() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        let plan = Plan { tasks: 400, ..Plan::ALL };
        Launch::run_with(&library, &plan, |task| {
            if task == 200 {
                // SAFETY: one thread plays all.
                unsafe {
                    for number in NOWHERE {
                        (library.call.on_dispatch)(number, 0, 1);
                        (library.call.on_ack)(number, 0, 1);
                        assert_eq!((library.call.complete_task)(number, 0, 1, 2, 3), -1);
                        (library.call.sched_phase)(number, 1, 2, 3, 4, 5, 6, 7, null(), null());
                        (library.call.dummy_task)(number, 2, 3, 4);
                        assert_eq!((library.call.dump_record)(number, &Info::default()), -1);
                        (library.call.write_assignments)(0, [number].as_ptr(), 1);
                        (library.call.note_heap_wrap)(number);
                        match &library.pmu {
                            PmuRecord::A2a3(pmu) => (pmu.record)(number, 0, 1, 2, 0),
                            PmuRecord::A5(pmu) => (pmu.record)(number, 0, 1, 1, 2, 0),
                        }
                    }
                }
            }
        })
        .assert_whole();
        // SAFETY: one thread.
        assert!(unsafe { (library.stub.warnings)() } >= 3, "swimlane, dump and PMU: {}", library.logged());
    }
}

/// A second init without an end of the first starts over, on the second's region; the first region is not touched again.
#[test]
fn a_second_init_leaves_the_first_region_alone() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        let first = Armed::new(&library, &Plan::ALL);
        // SAFETY: one thread; `first` lives to the end.
        unsafe { init_all(&library) };
        let before = first.bytes();
        Launch::run(&library, &Plan { tasks: 300, ..Plan::ALL }).assert_whole();
        assert!(first.bytes() == before, "{platform:?}: the first launch's memory changed");
    }
}

/// Initialises everything as armed, for three cores.
///
/// # Safety
/// The library is armed, and nothing else uses it.
unsafe fn init_all(library: &Library) {
    let call = &library.call;
    // SAFETY: the caller's contract.
    unsafe {
        (call.swimlane_init)(3);
        (call.swimlane_orch_thread)(2);
        (call.init_phase)(3, 2, 1);
        (call.init_assignments)(3);
        (call.dump_init)(3);
        (call.pmu_init)([0, 1, 2].as_ptr(), 3);
        (call.dep_gen_orch_thread)(2);
        (call.dep_gen_init)();
        (call.scope_orch_thread)(2);
    }
}

/// Switched off after a launch that did not end: nothing that is called touches the earlier launch's memory.
#[test]
fn what_is_switched_off_touches_nothing() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        let armed = Armed::new(&library, &Plan::ALL);
        let call = &library.call;
        // SAFETY: one thread; the regions live as long as `armed`.
        unsafe {
            init_all(&library);
            (call.set_dump_enabled)(false);
            (call.set_swimlane_enabled)(false);
            (call.set_pmu_enabled)(false);
            (call.set_dep_gen_enabled)(false);
            (call.set_scope_enabled)(false);
            let before = armed.bytes();
            for number in [0, 1, 2].into_iter().chain(NOWHERE) {
                call_everything(&library, number, number);
            }
            assert_eq!((call.swimlane_level)(), 0, "{platform:?}");
            assert!(!(call.is_selective)() && !(call.should_load_masks)());
            assert!(armed.bytes() == before, "{platform:?}: switched off, and memory changed");
        }
    }
}

/// Counts of a submit that cannot be: cut, and recorded; null lists are empty.
#[test]
fn odd_submits_are_cut_and_recorded() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        let armed = Armed::new(&library, &Plan::ALL);
        let call = &library.call;
        // SAFETY: one thread; the regions live as long as `armed`; the lists are as long as said.
        unsafe {
            init_all(&library);
            let tensors = [null(); 40];
            let types = [0u8; 40];
            let deps = [7u64; 70];
            submit(&library, 1);
            for (n, tensor_list, type_list) in [
                (-3, tensors.as_ptr(), types.as_ptr()),
                (40, tensors.as_ptr(), types.as_ptr()),
                (2, null(), types.as_ptr()),
                (2, tensors.as_ptr(), null()),
            ] {
                (call.record_submit)(2, true, true, n, tensor_list, type_list, 1, deps.as_ptr(), 0, null());
            }
            (call.record_submit)(3, false, false, 0, null(), null(), -1, deps.as_ptr(), 1, null());
            (call.record_submit)(4, false, false, 0, null(), null(), 70, deps.as_ptr(), 1, null());
            (call.record_submit)(5, false, false, 0, null(), null(), 70, null(), 1, null());
        }
        let submits = armed.submits();
        let seen: Vec<_> = submits
            .iter()
            .map(|record| {
                (record.task_id, record.tensor_count, record.explicit_dep_count, record.flags & !32)
            })
            .collect();
        let expected = [
            (1, 0, 0, 0),
            (2, 0, 1, 17),
            (2, 32, 1, 17),
            (2, 0, 1, 17),
            (2, 0, 1, 17),
            (3, 0, 0, 0),
            (4, 0, 64, 2),
        ];
        assert_eq!(seen[..7], expected, "{platform:?}");
        assert_eq!(submits.last().map(|record| (record.task_id, record.explicit_dep_count)), Some((5, 0)));
        assert!(submits.iter().take(7).all(|record| record.kernel_id == [-1; 3] && record.block_num == 1));
    }
}

/// The args dump's marks and helpers, by their documented answers.
#[test]
fn marks_and_helpers_answer_as_documented() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        let armed = Armed::new(&library, &Plan { dump: 1, ..Plan::ALL });
        let call = &library.call;
        // SAFETY: one thread; outputs may be written or are null.
        unsafe {
            (call.dump_init)(3);
            let mut role = 9;
            for (direction, found) in
                [(0, None), (1, Some(0)), (2, Some(1)), (3, Some(2)), (4, None), (-1, None)]
            {
                assert_eq!((call.role_from_direction)(direction, &mut role), found.is_some());
                if let Some(found) = found {
                    assert_eq!(role, found);
                }
                (call.role_from_direction)(direction, null_mut());
            }
            let at = |role| [0, 1, 2].map(|stage| (call.should_dump_at)(role, stage));
            assert_eq!(
                [at(0), at(1), at(2), at(3)],
                [[true, false, false], [false, true, false], [true, true, false], [false; 3]]
            );

            let mut signature = [1i32; 32];
            signature[1] = 0;
            let callable = |sig_count| CoreCallable {
                signature,
                sig_count,
                binary_size: 0,
                resolved_addr: 0,
                storage: [],
            };
            for (count, tensors) in [(0, 0), (3, 2), (32, 31), (-5, 0), (100, 31)] {
                assert_eq!((call.tensor_args)(&callable(count)), tensors);
            }
            assert_eq!(
                [(call.layout_mismatch)(), (call.layout_mismatch)()],
                [true, false],
                "once per process"
            );

            (call.set_task_mask)(7, 0b101, 0b100);
            (call.set_task_mask)(8, 0, 1);
            let (mut mask, mut flags) = (1, 1);
            (call.task_masks)(7, &mut mask, &mut flags);
            assert_eq!((mask, flags), (5, 4));
            (call.task_masks)(8, &mut mask, null_mut());
            (call.task_masks)(8, null_mut(), &mut flags);
            assert_eq!((mask, flags), (0, 0), "a mask of 0 is ignored");
            // These take a mask, whichever task has it.
            assert!((call.should_dump_task)(0b101) && !(call.should_dump_task)(0));
            let bits = [-1, 0, 1, 2, 63, 64].map(|index| (call.should_dump_arg)(0b101, index));
            assert_eq!(bits, [false, true, false, true, false, false]);
            let flags = [-1, 0, 2, 63, 64].map(|index| (call.has_arg_flag)(1 << 63 | 0b100, index));
            assert_eq!(flags, [false, false, true, true, false]);

            let (mut n, mut dtypes) = (9, [0xEEu8; 40]);
            assert!(!(call.scalar_dtypes)(7, &mut n, dtypes.as_mut_ptr()));
            assert_eq!(n, 0);
            (call.set_scalar_dtypes)(7, 3, [1u8, 2, 3].as_ptr());
            (call.set_scalar_dtypes)(7, 0, [9u8].as_ptr());
            (call.set_scalar_dtypes)(7, 2, null());
            assert_eq!((library.stub.errors)(), 0);
            (call.set_scalar_dtypes)(7, 33, [0u8; 33].as_ptr());
            assert!(
                library.logged().starts_with("set_dump_args_task_scalar_dtypes: 33"),
                "{}",
                library.logged()
            );
            assert!((call.scalar_dtypes)(7, &mut n, dtypes.as_mut_ptr()));
            assert_eq!((n, &dtypes[..4]), (3, &[1, 2, 3, 0xEE][..]), "no more than was set");
            assert!((call.scalar_dtypes)(7, null_mut(), null_mut()));

            for task in 0..40_000u64 {
                (call.set_task_mask)(1_000 + task, 1, 0);
            }
            assert_eq!((library.stub.errors)(), 2, "a full table is said once");
            (call.set_dump_enabled)(true);
            (call.task_masks)(7, &mut mask, null_mut());
            assert_eq!(mask, 0, "switching forgets all marks");
        }
        drop(armed);
    }
}

/// The PMU programs each core that has registers, by the runtime's numbers of them, and puts the controls back.
#[test]
fn the_pmu_programs_registers_through_the_runtime() {
    // `RegId` of the first control, counter, total, start, stop and selector register; counters; controls and their values.
    for platform in PLATFORMS {
        let (ctrl, counter, total, start, stop, selector, counters, enable): (
            u8,
            u8,
            u8,
            u8,
            u8,
            u8,
            u8,
            &[u32],
        ) = match platform {
            Platform::A2a3 => (4, 5, 13, 15, 17, 19, 8, &[7]),
            Platform::A5 => (3, 5, 15, 17, 19, 21, 10, &[7, 1]),
        };
        let library = Library::load(platform);
        let armed = Armed::new(&library, &Plan::ALL);
        let (call, stub) = (&library.call, &library.stub);
        // SAFETY: one thread; the regions live as long as `armed`.
        unsafe {
            let physical = [4u32, 70, 0];
            (stub.set_core)(4, true);
            (stub.set_core)(0, true);
            for n in 0..enable.len() as u8 {
                (stub.set_register)(4, ctrl + n, 0x50 + u32::from(n));
            }
            (call.pmu_init)(physical.as_ptr(), 3);
            assert!(library.logged().contains("1 of 3 cores have no register base"), "{}", library.logged());
            for core in [4, 0] {
                for (n, value) in enable.iter().enumerate() {
                    assert_eq!((stub.register)(core, ctrl + n as u8), *value);
                }
                assert_eq!([(stub.register)(core, start), (stub.register)(core, start + 1)], [0, 0]);
                assert_eq!([(stub.register)(core, stop), (stub.register)(core, stop + 1)], [u32::MAX; 2]);
                assert_ne!((stub.register)(core, selector), 0, "an event is selected");
            }
            if let PmuRecord::A2a3(pmu) = &library.pmu {
                for n in 0..counters {
                    (stub.set_register)(4, counter + n, 100 + u32::from(n));
                }
                (stub.set_register)(4, total, 0xAAAA_0001);
                (stub.set_register)(4, total + 1, 2);
                (pmu.record)(0, 0, 77, 5, 1);
                let record = armed.pmu_record(0);
                assert_eq!((record.task_id, record.func_id, record.core_type), (77, 5, 1));
                assert_eq!(record.pmu_total_cycles, 0x2_AAAA_0001);
                assert_eq!(record.pmu_counters, [100, 101, 102, 103, 104, 105, 106, 107]);
            }
            (call.pmu_finalize)([0, 1, 2].as_ptr(), 3);
            for n in 0..enable.len() as u8 {
                assert_eq!((stub.register)(4, ctrl + n), 0x50 + u32::from(n), "put back");
            }
        }
    }
}
