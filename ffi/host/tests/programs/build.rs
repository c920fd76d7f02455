//! The compiler, and the libraries that a program is linked with.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Platform {
    A2a3,
    A5,
}

impl Platform {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Platform::A2a3 => "a2a3",
            Platform::A5 => "a5",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    C11,
    Cpp17,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Where cargo put `libdfx.a` and `libdfx.so`: beside this program.
pub(crate) fn host_libs() -> PathBuf {
    let dir = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    for library in ["libdfx.a", "libdfx.so"] {
        assert!(dir.join(library).exists(), "cargo left no {library} in {}", dir.display());
    }
    dir
}

/// Where the device libraries of both platforms are, with `dfx_*` only. They are built once.
pub(crate) fn device_libs() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| build_device_libs("native"))
}

/// The same with the existing runtime's names, which need that runtime's own functions.
pub(crate) fn dropin_libs() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| build_device_libs("all"))
}

fn build_device_libs(names: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let dir = target.join("ffi-device-libs").join(names);
    for platform in [Platform::A2a3, Platform::A5] {
        let archive = dir.join(format!("libdfx_device_{}.a", platform.name()));
        let mut script = Command::new("bash");
        script.arg(root().join("ffi/device/archive.sh")).arg(platform.name()).arg(archive).arg(names);
        script.env("CARGO_TARGET_DIR", target);
        succeed(&mut script);
    }
    dir
}

pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A program to be built.
pub(crate) struct Build<'a> {
    pub(crate) source: &'a str,
    pub(crate) language: Language,
    pub(crate) platform: Platform,
    pub(crate) sanitized: bool,
}

pub(crate) const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

impl Build<'_> {
    /// Builds it in `dir`, linked with the static libraries of both halves.
    pub(crate) fn build_in(&self, dir: &Path) -> PathBuf {
        let source = root().join(self.source);
        let stem = source.file_name().unwrap().to_string_lossy().replace('.', "_");
        let program = dir.join(format!("{stem}_{:?}", self.language));
        let mut cc = match self.language {
            Language::C11 => {
                let mut cc = Command::new("cc");
                cc.args(["-std=c11", "-x", "c"]);
                cc
            }
            Language::Cpp17 => {
                let mut cc = Command::new("c++");
                cc.args(["-std=c++17", "-x", "c++"]);
                cc
            }
        };
        cc.args(["-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        if self.sanitized {
            cc.args(SANITIZERS);
        }
        cc.arg(format!("-DDFX_PLATFORM_{}", self.platform.name().to_uppercase()));
        cc.arg("-I").arg(root().join("ffi/include")).arg(source).args(["-x", "none"]);
        cc.arg(host_libs().join("libdfx.a"));
        cc.arg(device_libs().join(format!("libdfx_device_{}.a", self.platform.name())));
        cc.args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
        succeed(&mut cc);
        program
    }
}
