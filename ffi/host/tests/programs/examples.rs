//! `docs/linking.md` shows whole programs: they are the files of `ffi/examples`, and they do what the page says.

use crate::build::{Build, Language, Platform, root, succeed};
use dfx_trace::check::check_dir;
use std::process::Command;

/// The page's code blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let rest = page.split(&fence).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_page_shows_the_programs_as_they_are() {
    let page = std::fs::read_to_string(root().join("docs/linking.md")).unwrap();
    for (language, file) in [("c", "linking.c"), ("cpp", "linking.cpp")] {
        let source = std::fs::read_to_string(root().join("ffi/examples").join(file)).unwrap();
        let shown = blocks(&page, language);
        assert!(shown.contains(&source), "docs/linking.md does not show ffi/examples/{file} as it is");
    }
}

#[test]
fn the_programs_of_the_page_leave_artifacts_that_dfx_check_accepts() {
    let dir = tempfile::tempdir().unwrap();
    for (source, language, platform) in [
        ("ffi/examples/linking.c", Language::C11, Platform::A2a3),
        ("ffi/examples/linking.cpp", Language::Cpp17, Platform::A5),
    ] {
        let program = Build { source, language, platform, sanitized: false }.build_in(dir.path());
        let out = dir.path().join(format!("{language:?}"));
        let said = succeed(Command::new(program).arg(&out));
        assert!(String::from_utf8_lossy(&said.stdout).ends_with(": complete\n"));
        let report = check_dir(&out).unwrap();
        assert!(report.complete && report.has_run_json, "{:#?}", report.findings);
        let (name, count) = if platform == Platform::A2a3 { ("deps_edges", 99) } else { ("dump_args", 20) };
        assert_eq!(report.counts.get(name), Some(&count));
    }
}
