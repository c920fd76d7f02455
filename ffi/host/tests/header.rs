//! `ffi/include/dfx.h` is what the sources of both halves say.

use std::path::{Path, PathBuf};

fn ffi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().into()
}

/// The sources of a half, `first` ones first: what others refer to. A crate's root is left out, as cbindgen would follow
/// it to the same files again.
fn sources(dir: &str, first: &[&str]) -> Vec<PathBuf> {
    let dir = ffi().join(dir);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| name(path).ends_with(".rs") && !["lib.rs", "mod.rs"].contains(&&*name(path)));
    files.sort_by_key(|path| {
        let name = name(path);
        (first.iter().position(|f| *f == name).unwrap_or(first.len()), name)
    });
    files
}

/// The enums of `source`: C passes their numbers, so that no function's type names them.
fn enums(source: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(source).unwrap();
    let named = text.lines().filter_map(|line| line.strip_prefix("pub enum dfx_"));
    named.map(|rest| format!("dfx_{}", rest.trim_end_matches(" {"))).collect()
}

fn generate() -> String {
    let mut config = cbindgen::Config::from_file(ffi().join("cbindgen.toml")).expect("ffi/cbindgen.toml");
    let host = ["status.rs", "handle.rs", "config.rs", "board.rs", "memory.rs", "threads.rs", "session.rs"];
    let mut files = sources("host/src", &host);
    files.extend(sources("device/src/native", &["device.rs"]));
    config.export.include = files.iter().flat_map(|file| enums(file)).collect();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in files {
        builder = builder.with_src(file);
    }
    let mut text = Vec::new();
    builder.generate().expect("cbindgen reads the sources").write(&mut text);
    let text = String::from_utf8(text).expect("a header in UTF-8");
    // What is unsafe in Rust is what C asks of its caller anyway.
    text.replace("// # Safety\n", "// The caller sees to it:\n")
}

#[test]
fn the_checked_in_header_is_what_the_sources_say() {
    let path = ffi().join("include/dfx.h");
    let now = generate();
    if std::env::var_os("DFX_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let odd = there.lines().zip(now.lines()).enumerate().find(|(_, (there, now))| there != now);
    assert!(there == now, "{} is not current, run ffi/header.sh; first at {odd:#?}", path.display());
}
