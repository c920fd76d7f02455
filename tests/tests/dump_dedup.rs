//! Deduplication through the whole path: the same dump, less payload, and the account says how much less.

use dfx_host_drain::{DumpLevel, Target};
use dfx_sim::run::{ClockKind, RunRequest};
use dfx_tests::dump::Dump;
use dfx_tests::{PLATFORMS, Run, run_named};
use dfx_trace::dump::{self, Filter, Tolerance};

fn run(workload: &str, target: Target, dedup: bool) -> Run {
    let mut request = RunRequest { target, clock: ClockKind::Virtual, ..RunRequest::new(workload, "") };
    request.config.dump_args = DumpLevel::Full;
    request.config.dump_dedup = dedup;
    let run = run_named(request);
    assert!(run.report().complete, "{workload}: {:#?}", run.report().reasons);
    run
}

/// Every reader finds the same arguments with the same bytes, whether payload was sent again or named again.
#[test]
fn with_and_without_it_every_reader_finds_the_same_and_the_bytes_saved_are_those_that_are_missing() {
    for target in PLATFORMS {
        for workload in ["vector_example", "paged_attention:2", "mixed"] {
            let what = format!("{workload} on {}", target.name());
            let [with, without] = [true, false].map(|dedup| run(workload, target, dedup));
            let [on, off] = [&with, &without].map(|run| run.report().dump.expect("its account"));
            assert!(on.payload_bytes_deduplicated > 0, "{what}: nothing was saved");
            assert_eq!(off.payload_bytes_deduplicated, 0, "{what}");
            assert_eq!(on.payload_bytes_produced, off.payload_bytes_produced, "{what}");
            let whole = on.payload_bytes_written + on.payload_bytes_deduplicated;
            assert_eq!(whole, off.payload_bytes_written, "{what}");

            // A reader that knows nothing of it: where the bytes are is all that differs.
            let [mut shared, mut plain] = [&with, &without].map(Dump::of);
            for arg in shared.args.values_mut().chain(plain.args.values_mut()) {
                arg.entry.as_object_mut().expect("an object").remove("bin_offset");
            }
            assert!(shared == plain, "{what}");
            // Ours.
            let [a, b] = [&with, &without].map(|run| dump::Dump::open(&run.outputs()).expect("a dump"));
            let exact = Tolerance { rtol: 0.0, atol: 0.0, equal_nan: true };
            let report = dump::diff(&a, &b, &Filter::default(), &exact).expect("they can be compared");
            assert!(report.equal, "{what}: {report:?}");
        }
    }
}
