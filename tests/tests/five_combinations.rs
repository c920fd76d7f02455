//! Issue 5, point 2: the switches are independent. In every combination every artifact is complete, and what is recorded
//! together is what is recorded alone.

use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::{DumpLevel, Target};
use dfx_sim::run::{Rig, RunRequest};
use dfx_tests::five::{Content, SWITCHES, all_on, assert_complete, program, switches, virtual_request};
use dfx_tests::{A2A3, A5, PLATFORMS, Run, run_named, run_on};
use std::sync::Mutex;
use std::time::Duration;

/// Every built-in workload, in a size for tests.
const WORKLOADS: [&str; 9] = [
    "vector_example",
    "matmul",
    "paged_attention",
    "scopes",
    "flood:2500",
    "chain:300",
    "spmd",
    "mixed",
    "flood:1",
];

/// Counts threads of this process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What `deps.json` and the others hold of what is in both.
fn assert_part(what: &str, part: &Content, whole: &Content) {
    let same = |name: &str, part: Option<String>, whole: &Option<String>| {
        if part.is_some() {
            assert_eq!(part, *whole, "{what}: {name}");
        }
    };
    macro_rules! compare {
        ($($field:ident),*) => {
            $(same(stringify!($field), part.$field.as_ref().map(|it| format!("{it:?}")), &whole.$field.as_ref().map(|it| format!("{it:?}")));)*
        };
    }
    compare!(rows, submits, deps, pmu, scopes, args);
}

fn every_combination_of(workload: &str, target: Target) {
    let mut contents = Vec::new();
    for bits in 0..1 << SWITCHES {
        let config = switches(bits);
        let what = format!("{workload} on {}, switches {bits:05b}", target.name());
        let run = run_named(virtual_request(workload, target, config.clone()));
        if bits == 0 {
            assert_eq!(run.outcome.dir, None, "{what}");
            assert!(!run.outputs().exists(), "{what}");
        } else {
            assert_complete(&what, &run);
        }
        contents.push(Content::of(&run, &config));
    }
    let whole = contents.last().expect("all on").clone();
    for (bits, part) in contents.iter().enumerate() {
        assert_part(&format!("{workload} on {}, switches {bits:05b}", target.name()), part, &whole);
    }
}

#[test]
fn every_combination_is_complete_and_records_what_each_switch_records_alone() {
    let _alone = alone();
    for workload in WORKLOADS {
        for target in PLATFORMS {
            every_combination_of(workload, target);
        }
    }
}

/// The same with another order of events: the counters' rows are the same at every level of the swimlane.
#[test]
fn the_swimlanes_level_changes_nothing_of_the_others() {
    let _alone = alone();
    for target in PLATFORMS {
        let contents =
            [Level::Disabled, Level::AicoreTiming, Level::AicpuTiming, Level::SchedPhases].map(|level| {
                let config = dfx_host_drain::DfxConfig { chip_swimlane: level, ..all_on() };
                let run = run_named(virtual_request("mixed", target, config.clone()));
                assert_complete(&format!("level {}", level as u32), &run);
                let content = Content::of(&run, &config);
                (content.deps, content.pmu, content.scopes)
            });
        assert!(contents.iter().all(|content| *content == contents[0]), "{}", target.name());
    }
}

/// Two runs with one seed are the same, byte for byte.
#[test]
fn on_virtual_time_all_artifacts_repeat_byte_for_byte() {
    let _alone = alone();
    let texts = |run: &Run| {
        let names = [
            "chip_swimlane_records.json",
            "deps.json",
            "pmu.csv",
            "scope_stats/scope_stats.jsonl",
            "args_dump/args_dump.json",
            "args_dump/args.bin",
            "run.json",
        ];
        names.map(|name| std::fs::read(run.outputs().join(name)).expect("it is there"))
    };
    for target in PLATFORMS {
        for workload in ["mixed", "paged_attention", "scopes"] {
            let run = || run_named(virtual_request(workload, target, all_on()));
            let (one, other) = (run(), run());
            assert!(texts(&one) == texts(&other), "{workload} on {}", target.name());
        }
    }
}

/// Real threads, default pools: nothing is dropped, whatever the machine is doing.
#[test]
fn nothing_is_dropped_on_real_threads_with_all_on() {
    let _alone = alone();
    for workload in WORKLOADS {
        for target in PLATFORMS {
            let request = RunRequest { target, config: all_on(), ..RunRequest::new(workload, "") };
            assert_complete(&format!("{workload} on {}", target.name()), &run_named(request));
        }
    }
}

/// Threads of the host half in this process.
fn dfx_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("dfx-")).count()
}

/// One bounded set of host threads, however much is recorded.
#[test]
fn the_host_has_two_threads_and_a_third_where_arguments_are_dumped() {
    let _alone = alone();
    for target in [A2A3, A5] {
        for bits in 1..1 << SWITCHES {
            let mut request =
                RunRequest { target, config: switches(bits), ..RunRequest::new("chain:50", "") };
            let dir = tempfile::tempdir().expect("a temporary directory");
            request.work_dir = dir.path().to_path_buf();
            let threads = if request.config.dump_args == DumpLevel::Off { 2 } else { 3 };
            let most = Mutex::new(0);
            let mut slow = program("chain:50");
            slow.pace = true;
            slow.kernels.iter_mut().for_each(|kernel| kernel.duration = Duration::from_millis(5));
            let watch = |_: dfx_sim::run::Progress| {
                let mut most = most.lock().expect("no watcher panicked");
                *most = dfx_threads().max(*most);
            };
            dfx_sim::run::run_program(&request, slow, &Rig::new(target), &watch).expect("it runs");
            assert_eq!(
                most.into_inner().expect("no watcher panicked"),
                threads,
                "{} switches {bits:05b}",
                target.name()
            );
            // A joined thread's entry in procfs may stay for a moment.
            let gone = (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                dfx_threads() == 0
            });
            assert!(gone, "{} switches {bits:05b}: threads are left", target.name());
        }
    }
}

/// Sessions one after the other in one process, with other switches each: nothing of one shows in the next.
#[test]
fn switches_change_from_run_to_run_of_one_process() {
    let _alone = alone();
    let rigs = PLATFORMS.map(Rig::new);
    for bits in [15, 4, 2, 9, 1, 12, 15] {
        for (target, rig) in PLATFORMS.into_iter().zip(&rigs) {
            let config = switches(bits);
            let run = run_on(virtual_request("mixed", target, config.clone()), program("mixed"), rig);
            assert_complete(&format!("{} switches {bits:05b}", target.name()), &run);
            let names: Vec<String> = run.report().artifacts.iter().map(|entry| entry.path.clone()).collect();
            let all = ["chip_swimlane_records.json", "deps.json", "pmu.csv", "scope_stats/scope_stats.jsonl"];
            let expected: Vec<&str> =
                (0..SWITCHES).filter(|bit| bits & 1 << bit != 0).map(|bit| all[bit]).collect();
            assert_eq!(names, expected);
        }
    }
}
