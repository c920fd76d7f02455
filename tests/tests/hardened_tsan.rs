//! Small runs on real threads that a race detector can watch: every kind of task, both transports, faults that make
//! threads meet at their worst. Cheap enough for every day; `ci/tsan.sh` runs them under ThreadSanitizer.

use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::{PoolSizes, Timeouts};
use dfx_sim::faults::FaultPlan;
use dfx_tests::{PLATFORMS, assert_ledger, assert_whole, request, run_named};
use std::time::Duration;

#[test]
fn every_kind_of_task_runs_on_real_threads() {
    for target in PLATFORMS {
        for workload in ["vector_example", "matmul", "mixed", "spmd:30", "chain:300", "flood:2500"] {
            let run = run_named(request(workload, target, Level::OrchPhases));
            assert_whole(&format!("{workload} on {}", target.name()), &run);
        }
    }
}

#[test]
fn lanes_that_run_dry_meet_the_host_at_every_buffer() {
    for target in PLATFORMS {
        let mut request = request("flood:9000", target, Level::OrchPhases);
        request.config.pools = PoolSizes { core: 2, ..PoolSizes::all(1) };
        let run = run_named(request);
        assert_ledger(target.name(), &run);
        assert!(run.outcome.report.streams.iter().any(|stream| stream.stalls > 0), "{}", target.name());
    }
}

#[test]
fn faults_that_end_threads_leave_the_others_a_clean_end() {
    for target in PLATFORMS {
        for fault in ["consumer-dead", "aicpu-dies:800", "core-hang:800", "reorder-ready", "dup-ready"] {
            let mut request = request("flood:4000", target, Level::OrchPhases);
            request.faults = FaultPlan(vec![fault.parse().expect("a fault")]);
            request.config.timeouts = Timeouts {
                scheduler: Duration::from_millis(400),
                op_execute: Duration::from_millis(2_000),
                stream_sync: Duration::from_millis(2_500),
            };
            assert_ledger(&format!("{fault} on {}", target.name()), &run_named(request));
        }
    }
}
