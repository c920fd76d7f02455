//! `dfx run` with the args dump, and the machine fails: whatever was killed, full or closed, no file says what is not so.

#[allow(dead_code)] // each test binary uses its part
mod common;

use common::{Place, Said};
use dfx_host_drain::artifact::is_temp_name;
use dfx_trace::check::check_dir;
use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A run that dumps some 10 MB.
fn run(place: &Place, more: &[&str]) -> Command {
    let mut args = vec!["run", "paged_attention:64", "--dump-args=2", "--clock=virtual", "--work-dir=w"];
    args.extend(more);
    place.command(&args)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn report(place: &Place) -> Option<Value> {
    let text = std::fs::read(place.join("w/dfx_outputs/run.json")).ok()?;
    Some(serde_json::from_slice(&text).expect("run.json is whole"))
}

/// What has its final name is whole; what says that it is complete is so.
fn assert_honest(what: &str, place: &Place) {
    let outputs = place.join("w/dfx_outputs");
    let found = names(&outputs.join("args_dump"));
    let there = |name: &str| found.iter().any(|found| found == name);
    for name in &found {
        assert!(
            is_temp_name(name) || ["args.bin", "args_dump.json"].contains(&name.as_str()),
            "{what}: {name}"
        );
    }
    assert!(there("args.bin") || !there("args_dump.json"), "{what}: a manifest without its payload");
    if there("args_dump.json") {
        let dump = dfx_trace::dump::Dump::open(&outputs).expect("a whole dump");
        assert_eq!(dump.manifest.remarks(), Vec::<String>::new(), "{what}");
    }
    if report(place).is_some_and(|report| report["complete"] == true) {
        let check = check_dir(&outputs).expect("the directory can be checked");
        assert!(check.complete && there("args_dump.json"), "{what}: {found:?} {:#?}", check.findings);
    }
}

/// From outside at moments spread over the run, and by its own fault.
#[test]
fn a_run_killed_while_it_dumps_leaves_no_half_written_file_and_no_false_account() {
    let place = Place::new();
    let begun = Instant::now();
    let said: Said = run(&place, &[]).output().expect("the binary starts").into();
    let whole = begun.elapsed();
    assert_eq!(said.status, Some(0), "{said:?}");
    assert_honest("undisturbed", &place);
    let (mut killed, mut midway) = (0, 0);
    for n in 0..16_u32 {
        let place = Place::new();
        let at = whole * (n + 1) / 17;
        let what = format!("kill {n} after {at:?} of {whole:?}");
        let status = if n % 4 == 0 {
            let fault = format!("kill:{}", 1 + n);
            let mut command = run(&place, &["--inject", &fault]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).status()
        } else {
            let mut command = run(&place, &[]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            std::thread::sleep(at);
            let _ = child.kill();
            child.wait()
        };
        killed += u32::from(status.expect("a child").code().is_none());
        midway += u32::from(!names(&place.join("w/dfx_outputs/args_dump")).is_empty());
        assert_honest(&what, &place);
        if n % 5 == 0 {
            let again: Said = run(&place, &[]).output().expect("the binary starts").into();
            assert_eq!(again.status, Some(0), "{what}: {again:?}");
            assert_eq!(
                names(&place.join("w/dfx_outputs/args_dump")),
                ["args.bin", "args_dump.json"],
                "{what}"
            );
            assert_honest(&format!("{what}, again"), &place);
        }
    }
    eprintln!("16 runs: {killed} killed, {midway} with something dumped");
    assert!(killed >= 4, "only {killed} of 16 were killed");
}

/// Faults by name: how it ends, and that what is there can be read.
#[test]
fn what_fails_on_the_device_costs_only_what_it_took_with_it() {
    for (fault, words) in [
        ("aicpu-dies:40", "declared a hang"),
        ("core-hang:40", "outputs of tasks that had not ended were dumped as they stood"),
    ] {
        let place = Place::new();
        let said: Said = run(&place, &["--inject", fault]).output().expect("the binary starts").into();
        assert_eq!(said.status, Some(3), "{fault}: {said:?}");
        assert!(said.err.contains(words), "{fault}: {said:?}");
        assert_honest(fault, &place);
        let listed = place.dfx(&["dump", "w", "--task", "t0"]);
        assert_eq!(listed.status, Some(0), "{fault}: {listed:?}");
        assert_eq!(report(&place).map(|report| report["complete"].clone()), Some(Value::Bool(false)));
    }
    for file in ["args_dump/args.bin", "args_dump/args_dump.json"] {
        let place = Place::new();
        let fault = format!("enospc:{file}");
        let said: Said = run(&place, &["--inject", &fault]).output().expect("the binary starts").into();
        assert_eq!(said.status, Some(1), "{file}: {said:?}");
        assert!(said.err.contains("free space") && said.err.contains(file), "{file}: {said:?}");
        assert_honest(file, &place);
        assert!(names(&place.join("w/dfx_outputs/args_dump")).is_empty(), "{file}");
    }
}

/// A directory that takes no file: before the launch where the whole output is meant, at the end where the dump is.
#[test]
fn a_read_only_directory_is_named_and_nothing_passes_as_a_dump() {
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its owner may");
    };
    // The superuser may write anywhere: then somebody else runs it.
    let run = |place: &Place| -> Said {
        let mut command = run(place, &["--enable-dep-gen"]);
        if std::fs::metadata(place.path()).expect("it is there").uid() == 0 {
            command.uid(65_534).gid(65_534);
        }
        command.output().expect("the binary starts").into()
    };
    let place = Place::new();
    mode(place.path(), 0o555);
    let said = run(&place);
    mode(place.path(), 0o755);
    assert_eq!((said.status, said.err.lines().count()), (Some(1), 1), "{said:?}");
    assert_eq!(place.contents(), Vec::<String>::new());

    let place = Place::new();
    mode(place.path(), 0o777);
    let (work, outputs) = (place.join("w"), place.join("w/dfx_outputs"));
    let dump = outputs.join("args_dump");
    std::fs::create_dir_all(&dump).expect("directories");
    mode(&work, 0o777);
    mode(&outputs, 0o777);
    mode(&dump, 0o555);
    let said = run(&place);
    mode(&dump, 0o755);
    assert_eq!(said.status, Some(1), "{said:?}");
    assert!(said.err.contains("args_dump") && said.err.contains("writable"), "{said:?}");
    assert_eq!(names(&dump), Vec::<String>::new());
    assert_eq!(names(&outputs), ["args_dump", "deps.json", "run.json"]);
    assert_eq!(report(&place).map(|report| report["complete"].clone()), Some(Value::Bool(false)));
}

/// A write beyond the limit would not fail, it would kill the process, and with it the run.
#[test]
fn a_limit_on_the_size_of_files_costs_the_file_and_not_the_run() {
    for (limit, args, file) in [
        ("2000", &["paged_attention:64", "--dump-args=2", "--clock=virtual"][..], "args.bin"),
        ("200", &["flood:3000", "--enable-chip-swimlane"], "chip_swimlane_records.json"),
    ] {
        let place = Place::new();
        let mut run = Command::new("sh");
        run.args([
            "-c",
            &format!("ulimit -f {limit} && exec \"$0\" \"$@\""),
            env!("CARGO_BIN_EXE_dfx"),
            "run",
        ]);
        run.args(args).arg("--work-dir=w").current_dir(place.path()).stdin(Stdio::null());
        let said = Said::from(run.output().expect("a shell starts"));
        assert_eq!(said.status, Some(1), "{said:?}");
        assert!(said.err.contains(file) && said.err.contains("ulimit -f"), "{said:?}");
        let report = report(&place).expect("its report is small enough");
        assert_eq!(report["complete"], false, "{report}");
        assert_honest(file, &place);
        let outputs = names(&place.join("w/dfx_outputs"));
        assert!(!outputs.iter().any(|name| name == file || is_temp_name(name)), "{outputs:?}");
    }
}
