//! Issue 5, point 4: the PMU's rows are the tasks' own, on both platforms, for every event type.

use dfx_collector::abi::pmu::{EventType, counters};
use dfx_host_drain::report::StreamKind;
use dfx_host_drain::{DfxConfig, Target};
use dfx_sim::faults::{Fault, FaultPlan};
use dfx_sim::run::{Rig, RunRequest};
use dfx_tests::five::{
    PmuCounts, PmuRow, all_on, assert_complete, expected_pmu, pmu, program, virtual_request,
};
use dfx_tests::{A2A3, A5, PLATFORMS, Run, run_named, run_on};
use std::collections::BTreeMap;

fn counting(event: EventType) -> DfxConfig {
    DfxConfig { pmu: Some(event), ..DfxConfig::default() }
}

fn counts(rows: Vec<PmuRow>) -> Vec<PmuCounts> {
    let mut rows: Vec<_> =
        rows.into_iter().map(|r| (r.task, r.func, r.core_type, r.cycles, r.counters)).collect();
    rows.sort();
    rows
}

/// Columns by name, and each row's counters as they can be computed.
fn assert_predicted(what: &str, workload: &str, run: &Run, target: Target, event: EventType) {
    let (columns, rows) = pmu(run);
    let named =
        counters(target.platform(), event).iter().map(|counter| counter.name).filter(|name| !name.is_empty());
    assert_eq!(columns, named.collect::<Vec<_>>(), "{what}");
    assert!(rows.iter().all(|row| row.event == event as u32), "{what}");
    assert_eq!(counts(rows), expected_pmu(&program(workload), run, target, event), "{what}");
}

#[test]
fn every_row_of_every_event_type_is_predicted_on_both_platforms() {
    for target in PLATFORMS {
        for event in EventType::ALL {
            for workload in ["mixed", "vector_example", "spmd"] {
                let what = format!("{workload} on {}, {}", target.name(), event.name());
                let run = run_named(virtual_request(workload, target, counting(event)));
                assert_complete(&what, &run);
                assert_predicted(&what, workload, &run, target, event);
            }
        }
    }
}

#[test]
fn every_workload_is_predicted_beside_the_other_collectors() {
    for target in PLATFORMS {
        for workload in ["matmul", "paged_attention", "scopes", "chain:700", "flood:1500", "spmd:100"] {
            let what = format!("{workload} on {}", target.name());
            let run = run_named(virtual_request(workload, target, all_on()));
            assert_predicted(&what, workload, &run, target, EventType::PipeUtilization);
        }
    }
}

/// On real threads the cycles are what the kernels took; all else is the same.
#[test]
fn on_real_threads_the_counters_are_predicted_too() {
    for target in PLATFORMS {
        for workload in ["mixed", "paged_attention", "flood:3000", "spmd:200"] {
            let request = RunRequest { target, config: all_on(), ..RunRequest::new(workload, "") };
            let run = run_named(request);
            let what = format!("{workload} on {}", target.name());
            assert_complete(&what, &run);
            let expected = expected_pmu(&program(workload), &run, target, EventType::PipeUtilization);
            // Without the cycles, which come fourth.
            let timeless = |rows: Vec<PmuCounts>| {
                let mut rows: Vec<_> = rows
                    .into_iter()
                    .map(|(task, func, kind, _, counts)| (task, func, kind, counts))
                    .collect();
                rows.sort();
                rows
            };
            assert_eq!(timeless(counts(pmu(&run).1)), timeless(expected), "{what}");
        }
    }
}

/// A row's core and thread are those that ran the task: its own core type, and the core's one scheduler.
#[test]
fn a_row_names_the_core_and_thread_of_its_task() {
    for target in PLATFORMS {
        let run = run_named(virtual_request("mixed", target, all_on()));
        let records = run.records();
        let threads = records.metadata.core_to_thread.clone().expect("level 4 has it");
        let mut cores: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        records.aicore_tasks.iter().for_each(|row| cores.entry(row.task).or_default().push(row.core));
        for row in pmu(&run).1 {
            assert_eq!(
                row.core_type,
                u32::from(records.metadata.core_types[row.core as usize] == "aiv"),
                "{row:?}"
            );
            assert_eq!(i64::from(row.thread), i64::from(threads[row.core as usize]), "{row:?}");
            assert!(cores[&row.task].contains(&row.core), "{row:?}");
        }
    }
}

/// On a2a3 a core's counters are one set: with the PMU on no core holds a second task; on a5 they do.
#[test]
fn only_the_platform_with_one_set_of_counters_gives_up_the_second_task() {
    let overlaps = |target: Target, config: DfxConfig| {
        let run = run_named(virtual_request("flood:400", target, config));
        let mut rows: Vec<_> = run.records().aicpu_tasks.clone();
        rows.sort_by_key(|row| (row.core, row.token));
        rows.windows(2)
            .filter(|pair| pair[0].core == pair[1].core && pair[1].dispatch < pair[0].finish)
            .count()
    };
    let swimlane = DfxConfig { pmu: None, ..all_on() };
    assert!(overlaps(A2A3, swimlane.clone()) > 50 && overlaps(A5, swimlane) > 50);
    assert_eq!(overlaps(A2A3, all_on()), 0);
    assert!(overlaps(A5, all_on()) > 50);
}

/// Counters that carry another task's token are nobody's: the row is missing, counted, and the run says so.
#[test]
fn a_stale_slot_is_counted_and_given_to_no_task() {
    let faults = FaultPlan(vec![Fault::PmuStale(40)]);
    for (workload, submit) in [("chain:100", 40), ("paged_attention", 40)] {
        let request = RunRequest { faults: faults.clone(), ..virtual_request(workload, A5, all_on()) };
        let run = run_on(request, program(workload), &Rig::new(A5));
        let report = run.report();
        assert_eq!(report.sum(StreamKind::PmuRow, |stream| stream.mismatched), 1, "{workload}");
        assert!(!report.complete, "{workload}");
        let reason =
            report.reasons.iter().find(|reason| reason.feature == Some(dfx_host_drain::report::Feature::Pmu));
        assert!(reason.is_some_and(|reason| reason.count == 1), "{workload}: {:#?}", report.reasons);
        assert!(report.streams.iter().all(|stream| stream.conserved()), "{workload}");
        let stale = run.outcome.launch.tasks[submit].task_id;
        let mut expected = expected_pmu(&program(workload), &run, A5, EventType::PipeUtilization);
        let all = expected.len();
        expected.retain(|row| row.0 != stale);
        assert_eq!(expected.len() + 1, all, "{workload}");
        assert_eq!(counts(pmu(&run).1), expected, "{workload}: a row was given another's counters");
        let check = dfx_trace::check::check_dir(&run.outputs()).expect("it can be checked");
        assert!(!check.complete, "{workload}");
    }
    // Where AICPU reads the counters there is no slot to be stale.
    let request = RunRequest { faults, ..virtual_request("chain:100", A2A3, all_on()) };
    assert_complete("a2a3", &run_on(request, program("chain:100"), &Rig::new(A2A3)));
}
