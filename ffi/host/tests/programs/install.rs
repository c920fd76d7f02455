//! An installed copy, found by pkg-config and by CMake, also after it was moved.

use crate::build::{device_libs, host_libs, root, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs into a directory and moves it.
fn installed(dir: &Path) -> PathBuf {
    let first = dir.join("first");
    let mut install = Command::new("bash");
    install.arg(root().join("ffi/install.sh")).arg(&first);
    install.env("DFX_HOST_LIBS", host_libs()).env("DFX_DEVICE_LIBS", device_libs());
    succeed(&mut install);
    assert!(first.join("include/dfx/dropin/host/pmu_collector.h").is_file());
    let prefix = dir.join("moved here");
    std::fs::rename(first, &prefix).unwrap();
    prefix
}

/// Whether `tool` is there; `ci/tools.sh` installs it where it can.
fn there(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no {tool} here");
    }
    found
}

fn runs(program: &Path, dir: &Path, libs: Option<&PathBuf>) {
    let mut run = Command::new(program);
    run.arg(dir.join("out of").join(program.file_name().unwrap()));
    if let Some(libs) = libs {
        run.env("LD_LIBRARY_PATH", libs);
    }
    succeed(&mut run);
}

#[test]
fn pkg_config_gives_what_a_program_needs_shared_and_static() {
    if !there("pkg-config") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let prefix = installed(dir.path());
    let libs = prefix.join("lib");
    for (name, package) in [("shared", "dfx >= 1"), ("static", "dfx-static >= 1")] {
        let program = dir.path().join(name);
        let mut ask = Command::new("pkg-config");
        ask.args(["--cflags", "--libs", package, "dfx-device-a2a3"]);
        ask.env("PKG_CONFIG_PATH", libs.join("pkgconfig"));
        // What it prints is meant for a shell: a prefix may have spaces.
        let flags = String::from_utf8(succeed(&mut ask).stdout).unwrap();
        let source = root().join("ffi/examples/linking.c");
        let line = format!("cc '{}' {} -o '{}'", source.display(), flags.trim(), program.display());
        succeed(Command::new("sh").arg("-c").arg(line));
        runs(&program, dir.path(), (name == "shared").then_some(&libs));
    }
}

#[test]
fn the_shared_library_has_its_versions_name_and_gives_away_dfx_names_only() {
    let library = host_libs().join("libdfx.so");
    let names = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(&library)).stdout;
    let names = String::from_utf8(names).unwrap();
    let names: Vec<_> = names.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert!(names.contains(&"dfx_session_create"));
    let others: Vec<_> = names.iter().filter(|name| !name.starts_with("dfx_")).collect();
    assert!(others.is_empty(), "{others:?}");
    let dynamic = succeed(Command::new("readelf").arg("-d").arg(&library)).stdout;
    let soname = format!("[libdfx.so.{}]", dfx::DFX_ABI_VERSION);
    assert!(String::from_utf8_lossy(&dynamic).contains(&soname));
}

const LISTS: &str = r#"cmake_minimum_required(VERSION 3.16)
project(uses_dfx C CXX)
set(DFX_PLATFORM a5)
find_package(dfx 1 REQUIRED)
add_executable(c_program "${EXAMPLES}/linking.c")
target_link_libraries(c_program PRIVATE dfx::host_static dfx::device_a2a3)
add_executable(cpp_program "${EXAMPLES}/linking.cpp")
target_compile_features(cpp_program PRIVATE cxx_std_17)
target_link_libraries(cpp_program PRIVATE dfx::host dfx::device)
"#;

#[test]
fn cmake_finds_the_package_and_its_targets_build_programs() {
    if !there("cmake") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let prefix = installed(dir.path());
    let (project, build) = (dir.path().join("project"), dir.path().join("build"));
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("CMakeLists.txt"), LISTS).unwrap();
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&project).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    configure.arg(format!("-DEXAMPLES={}", root().join("ffi/examples").display()));
    succeed(&mut configure);
    succeed(Command::new("cmake").arg("--build").arg(&build));
    // CMake gives the program the way to the shared library.
    runs(&build.join("c_program"), dir.path(), None);
    runs(&build.join("cpp_program"), dir.path(), None);
    // A version of another ABI, and a platform that there is not, are refused with a reason.
    for (list, said) in [
        (LISTS.replace("find_package(dfx 1 ", "find_package(dfx 2 "), "requested version"),
        (LISTS.replace("DFX_PLATFORM a5", "DFX_PLATFORM a7"), "expected a2a3 or a5"),
    ] {
        std::fs::write(project.join("CMakeLists.txt"), list).unwrap();
        let refused = configure.output().unwrap();
        assert!(!refused.status.success());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains(said), "{text}");
    }
}
