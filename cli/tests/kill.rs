//! SIGKILL at random moments: what is under a final name is whole, and nothing passes as complete that is not.
//!
//! `DFX_KILLS` sets how many runs are killed (`ci/hardened.sh`: 200), `DFX_KILL_SEED` where the moments come from.

#[allow(dead_code)] // each test binary uses its part
mod common;

use common::Place;
use dfx_host_drain::artifact::is_temp_name;
use dfx_host_drain::report::RunReport;
use dfx_trace::check::check_dir;
use std::process::Stdio;
use std::time::{Duration, Instant};

const WORKLOAD: &str = "flood:5000";
const NAMES: [&str; 2] = ["chip_swimlane_records.json", "run.json"];

fn args(place: &Place, platform: usize, more: &[&str]) -> std::process::Command {
    let backend = ["Ascend910B", "Ascend950"][platform];
    let mut args =
        vec!["run", WORKLOAD, "--enable-chip-swimlane", "--work-dir", "w", "--execution-mode", "SIM"];
    args.extend(["--backend-type", backend]);
    args.extend(more);
    let mut command = place.command(&args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// What lies in the directory is whole, and says of itself what it is. Returns whether there is a `run.json`.
fn assert_honest(what: &str, place: &Place, status: Option<i32>) -> bool {
    let dir = place.join("w/dfx_outputs");
    let names: Vec<String> = std::fs::read_dir(&dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    for name in &names {
        assert!(NAMES.contains(&name.as_str()) || is_temp_name(name), "{what}: {name}");
        if !is_temp_name(name) {
            let text = std::fs::read(dir.join(name)).expect("it is there");
            let whole = serde_json::from_slice::<serde_json::Value>(&text);
            assert!(whole.is_ok(), "{what}: {name} is half-written: {}", whole.unwrap_err());
        }
    }
    let has_report = names.iter().any(|name| name == "run.json");
    let complete = has_report && {
        let text = std::fs::read(dir.join("run.json")).expect("it is there");
        serde_json::from_slice::<RunReport>(&text).expect("a report").complete
    };
    if dir.is_dir() {
        let check = check_dir(&dir).expect("the directory can be checked");
        // Without a run.json only what lies there can be judged, and the verdict says so.
        let alone = !has_report && check.complete && check.verdict().contains("no run.json");
        assert!(
            check.complete == complete || alone,
            "{what}: {names:?} {}\n{:#?}",
            check.verdict(),
            check.findings
        );
    }
    match status {
        // It ended before the kill: then it ended well.
        Some(status) => assert!(status == 0 && complete, "{what}: {status}, {names:?}"),
        // Killed between its last file and its end, it is complete all the same; before, it cannot pass as that.
        None => assert!(!complete || names.len() == 2, "{what}: {names:?}"),
    }
    has_report
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Issue 3, point 4.
#[test]
fn a_run_killed_at_any_moment_leaves_whole_files_and_no_false_account() {
    let (kills, mut state) =
        (number("DFX_KILLS", 40), number("DFX_KILL_SEED", 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    // How long a run takes here and now.
    let place = Place::new();
    let begun = Instant::now();
    let status = args(&place, 0, &[]).status().expect("the binary starts");
    let mut whole = begun.elapsed();
    assert!(assert_honest("undisturbed", &place, status.code()));

    let (mut killed, mut before, mut after) = (0, 0, 0);
    for n in 0..kills {
        let place = Place::new();
        // All of the run, and every other time its end, where the files are written.
        let permille = if n % 2 == 0 { random(1_000) } else { 600 + random(450) };
        let at = whole * permille as u32 / 1000;
        let platform = random(2) as usize;
        let what = format!("kill {n} after {at:?} of {whole:?} on platform {platform}");
        let status = if n % 4 == 0 {
            let fault = format!("kill:{}", at.as_millis());
            args(&place, platform, &["--inject", &fault]).status().expect("the binary starts")
        } else {
            let mut child = args(&place, platform, &[]).spawn().expect("the binary starts");
            std::thread::sleep(at);
            let _ = child.kill();
            child.wait().expect("a child")
        };
        if status.code().is_some() {
            // It was faster than thought: aim earlier.
            whole = whole * 9 / 10;
        } else if n % 2 == 1 {
            whole = whole * 21 / 20;
        }
        let reported = assert_honest(&what, &place, status.code());
        killed += u32::from(status.code().is_none());
        match reported {
            true => after += 1,
            false => before += 1,
        }
        // The next run in that directory is not disturbed by what is left.
        if n % 10 == 0 {
            let again = args(&place, platform, &[]).status().expect("the binary starts");
            assert_honest(&format!("{what}, again"), &place, again.code());
            let left = std::fs::read_dir(place.join("w/dfx_outputs")).into_iter().flatten().flatten();
            assert_eq!(left.count(), 2, "{what}: left-overs stay");
        }
    }
    eprintln!("{kills} runs: {killed} killed, {before} without run.json, {after} with");
    assert!(u64::from(killed) * 3 >= kills, "only {killed} of {kills} were killed: the moments are too late");
    assert!(begun.elapsed() < Duration::from_secs(30 + 2 * kills), "took {:?}", begun.elapsed());
}

/// The fault's own kill, on either clock: the process is gone by SIGKILL.
#[test]
fn the_injected_kill_is_a_sigkill_on_both_clocks() {
    use std::os::unix::process::ExitStatusExt;
    for clock in ["threads", "virtual"] {
        let place = Place::new();
        let status =
            args(&place, 0, &["--clock", clock, "--inject", "kill:1"]).status().expect("the binary starts");
        assert_eq!(status.signal(), Some(9), "{clock}: {status:?}");
        assert_honest(clock, &place, None);
    }
}
