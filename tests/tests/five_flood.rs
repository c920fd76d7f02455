//! Issue 5, point 3: submits as fast as they can be made are all captured, on the default policy.

use dfx_host_drain::DfxConfig;
use dfx_host_drain::report::StreamKind;
use dfx_sim::run::{ClockKind, RunRequest};
use dfx_tests::five::{assert_complete, virtual_request};
use dfx_tests::{A2A3, A5, run_named};

#[test]
fn a_flood_of_submits_is_captured_whole() {
    let config = DfxConfig { dep_gen: true, ..DfxConfig::default() };
    for (target, clock) in [(A2A3, ClockKind::Threads), (A2A3, ClockKind::Virtual), (A5, ClockKind::Threads)]
    {
        let what = format!("flood on {}, {clock:?}", target.name());
        let run = run_named(RunRequest { clock, ..virtual_request("flood:65536", target, config.clone()) });
        assert_complete(&what, &run);
        assert_eq!(run.report().sum(StreamKind::Submit, |stream| stream.collected), 65_536, "{what}");
    }
}
