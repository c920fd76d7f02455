//! The device library, driven through its 73 names as the reference's runtime does, against our own host half; and called
//! in every way in which it must not be.

#[path = "../../host-drain/tests/hostile/memory.rs"]
#[allow(dead_code)] // other tests use the rest
mod memory;

#[path = "device_library/armed.rs"]
mod armed;
#[path = "device_library/launch.rs"]
mod launch;
#[path = "device_library/misuse.rs"]
mod misuse;
#[path = "device_library/runtime.rs"]
mod runtime;

use dfx_collector::abi::Platform;
use dfx_collector::abi::swimlane::PHASE_RECORDS;
use dfx_host_drain::DeviceEnd;
use dfx_tests::device_library::Library;
use launch::{Launch, Plan};

const PLATFORMS: [Platform; 2] = [Platform::A2a3, Platform::A5];

/// What the tests drive is what the library promises: no name is left out.
#[test]
fn every_exported_name_is_driven() {
    let exports = include_str!("../../ffi/device/exports.txt");
    for (platform, word) in [(Platform::A2a3, "a2a3"), (Platform::A5, "a5")] {
        let mut promised: Vec<&str> = exports
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                words.next().filter(|_| words.next().is_none_or(|only| only == word))
            })
            .collect();
        let mut driven = Library::symbols(platform);
        promised.sort_unstable();
        driven.sort_unstable();
        assert_eq!(driven, promised, "{word}");
        assert_eq!(driven.len(), 73, "{word}");
    }
}

/// Issue 6: everything that a runtime records through the drop-in arrives at our host, of all five features, with rotations
/// in every lane.
#[test]
fn all_five_features_arrive_whole() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        Launch::run(&library, &Plan { cores: 6, tasks: 7_000, ..Plan::ALL }).assert_whole();
        assert_eq!(library.logged(), "", "{platform:?}: a launch that goes well says nothing");
    }
}

/// The library stays loaded: a launch after another, with other cores, threads, levels and switches, records its own and
/// nothing else, whatever the first left behind.
#[test]
fn launches_of_one_process_share_nothing() {
    for platform in PLATFORMS {
        let library = Library::load(platform);
        let plans = [
            Plan { cores: 6, tasks: 3_000, ..Plan::ALL },
            Plan {
                cores: 3,
                schedulers: 1,
                tasks: 1_500,
                swimlane: 1,
                pmu: false,
                scopes: false,
                ..Plan::ALL
            },
            Plan { cores: 3, tasks: 900, swimlane: 0, dump: 0, dep_gen: false, ..Plan::ALL },
            Plan { cores: 9, tasks: 1_200, swimlane: 3, dump: 1, ..Plan::ALL },
            Plan { cores: 3, tasks: 700, ..Plan::UNFLUSHED },
            Plan { cores: 3, tasks: 50, ..Plan::ALL },
        ];
        for plan in plans {
            Launch::run(&library, &plan).assert_whole();
        }
        assert_eq!(library.logged(), "", "{platform:?}");
    }
}

/// Nobody flushes, and the runtime may not even know that something went wrong: every row, phase and submit that the device
/// wrote is in the files all the same, however few have come since the last count.
#[test]
fn a_launch_that_was_never_flushed_is_whole_in_the_files() {
    let swimlane = Plan { dump: 0, dep_gen: false, pmu: false, scopes: false, ..Plan::UNFLUSHED };
    for platform in PLATFORMS {
        let library = Library::load(platform);
        for end in [DeviceEnd::Completed, DeviceEnd::Abnormal] {
            for tasks in (1..=26).chain([49, 700, 3_005]) {
                Launch::run(&library, &Plan { tasks, end, ..swimlane }).assert_whole();
            }
        }
        for tasks in [1, 11, 700] {
            Launch::run(&library, &Plan { tasks, ..Plan::UNFLUSHED }).assert_whole();
        }
    }
}

/// The same where every lane's last buffer has been full before: none of its earlier rows comes again.
#[test]
fn of_a_buffer_that_was_full_before_only_the_last_use_is_recovered() {
    let swimlane = Plan { dump: 0, dep_gen: false, pmu: false, scopes: false, ..Plan::UNFLUSHED };
    let submits = 2 * PHASE_RECORDS as u32;
    for platform in PLATFORMS {
        let library = Library::load(platform);
        for (end, more) in [(DeviceEnd::Completed, 5), (DeviceEnd::Abnormal, 8), (DeviceEnd::Abnormal, 27)] {
            Launch::run(&library, &Plan { tasks: submits + more, end, ..swimlane }).assert_whole();
        }
        // Two of a core's task buffers are 2,000 tasks.
        for more in 0..=9 {
            let plan = Plan { cores: 1, schedulers: 1, tasks: 2_000 + more, ..swimlane };
            Launch::run(&library, &plan).assert_whole();
        }
    }
}
