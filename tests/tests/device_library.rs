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
            // As after a hang: nothing is flushed, and the host recovers it.
            Plan { cores: 3, tasks: 700, flush: false, ..Plan::ALL },
            Plan { cores: 3, tasks: 50, ..Plan::ALL },
        ];
        for plan in plans {
            Launch::run(&library, &plan).assert_whole();
        }
        assert_eq!(library.logged(), "", "{platform:?}");
    }
}
