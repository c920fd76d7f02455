//! Both halves, driven through the C ABI only: every feature, both transports, and what a caller may get wrong.

use crate::build::{Build, Language, Platform, SANITIZERS, succeed};
use dfx_trace::check::{CheckReport, check_dir};
use std::path::Path;
use std::process::Command;

/// What `tests/ffi/device.h` records.
const EXPECTED: [(&str, u64); 8] = [
    ("core_rows", 7000),
    ("aicpu_rows", 7000),
    ("scheduler_phases", 7000),
    ("submits", 7000),
    ("dump_args", 192),
    ("pmu_rows", 7000),
    ("scope_samples", 140),
    ("deps_edges", 6999),
];

fn complete(dir: &Path) -> CheckReport {
    let report = check_dir(dir).unwrap();
    assert!(report.complete && report.has_run_json, "{}: {:#?}", dir.display(), report.findings);
    report
}

fn is_the_launch(dir: &Path) {
    let report = complete(dir);
    for (name, count) in EXPECTED {
        assert_eq!(report.counts.get(name), Some(&count), "{name} in {}", dir.display());
    }
}

fn conform(platform: Platform, sanitized: bool) {
    let dir = tempfile::tempdir().unwrap();
    let build = |source, language| Build { source, language, platform, sanitized }.build_in(dir.path());
    for language in [Language::C11, Language::Cpp17] {
        let run = build("tests/ffi/run.c", language);
        for transport in ["mapped", "copy"] {
            for sessions in ["together", "apart"] {
                let out = dir.path().join(format!("{language:?} {transport} {sessions}"));
                succeed(Command::new(&run).arg(&out).args([transport, sessions]));
                is_the_launch(&out);
            }
        }
        let misuse = build("tests/ffi/misuse.c", language);
        let out = dir.path().join(format!("{language:?} misuse"));
        std::fs::create_dir(&out).unwrap();
        succeed(Command::new(misuse).arg(out));
    }
    let run = build("tests/ffi/run.cpp", Language::Cpp17);
    for transport in ["mapped", "copy"] {
        let out = dir.path().join(format!("threads {transport}"));
        succeed(Command::new(&run).arg(&out).arg(transport));
        is_the_launch(&out);
    }
}

/// Whether programs can be built with sanitizers here; with `CI=true` they must be.
fn sanitizers() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("empty.c"), dir.path().join("empty"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("cc").args(SANITIZERS).arg(source).arg("-o").arg(program).output().unwrap();
    if !built.status.success() {
        let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!ci, "cc has no sanitizers: install libasan and libubsan");
        eprintln!("skipped: cc has no sanitizers here");
    }
    built.status.success()
}

#[test]
fn c_and_cpp_programs_drive_both_halves_of_a2a3() {
    conform(Platform::A2a3, false);
}

#[test]
fn c_and_cpp_programs_drive_both_halves_of_a5() {
    conform(Platform::A5, false);
}

#[test]
fn sanitizers_find_nothing_in_the_programs_of_a2a3() {
    if sanitizers() {
        conform(Platform::A2a3, true);
    }
}

#[test]
fn sanitizers_find_nothing_in_the_programs_of_a5() {
    if sanitizers() {
        conform(Platform::A5, true);
    }
}
