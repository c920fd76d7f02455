//! `dfx check` on a dump: it reads the manifest as `dfx dump` does, and against `run.json` and `args.bin`.

use dfx_host_drain::DumpLevel;
use dfx_sim::run::{ClockKind, RunRequest};
use dfx_tests::run_named;
use dfx_trace::check::check_dir;

#[test]
fn each_damage_to_a_dump_is_found_and_named() {
    let mut request = RunRequest { clock: ClockKind::Virtual, ..RunRequest::new("vector_example", "") };
    request.config.dump_args = DumpLevel::Full;
    let run = run_named(request);
    let dir = run.outputs();
    let (manifest, bin) = (dir.join("args_dump/args_dump.json"), dir.join("args_dump/args.bin"));
    let good = check_dir(&dir).expect("it can be checked");
    assert!(good.complete, "{:#?}", good.findings);
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let payload = std::fs::read(&bin).expect("a payload");
    let last = text.rfind(",\n    {").expect("entries");
    let one_less = format!("{}\n  ]\n}}\n", &text[..last])
        .replace("\"total_args\": 18", "\"total_args\": 17")
        .replace("\"after_completion\": 5", "\"after_completion\": 4");
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    for (text, payload, code, words) in [
        (one_less, &payload[..], "row-count", "has 17 rows, run.json says 18"),
        (changed("\"total_args\": 18", "\"total_args\": 19"), &payload, "row-count", "counts 19 in all"),
        (changed("\"numel\": 16384", "\"numel\": 16383"), &payload, "invalid", "numel is 16383"),
        (changed("\"bin_size\": 65536", "\"bin_size\": 65532"), &payload, "invalid", "bin_size is 65532"),
        (changed("\"truncated_args\": 0", "\"truncated_args\": 2"), &payload, "truncated", "2 arguments"),
        (changed("\"kind\": \"tensor\", ", ""), &payload, "invalid", "kind"),
        (changed("\"args.bin\"", "null"), &payload, "missing", "no payload file"),
        (text[..text.len() / 2].to_owned(), &payload, "invalid", "is not valid"),
        (text.clone(), &payload[..payload.len() - 1], "size", "bytes, the manifest names"),
    ] {
        std::fs::write(&manifest, text).expect("writable");
        std::fs::write(&bin, payload).expect("writable");
        let found = check_dir(&dir).expect("it can be checked");
        let named = |finding: &dfx_trace::check::Finding| {
            finding.code == code && finding.file.starts_with("args_dump/") && finding.message.contains(words)
        };
        assert!(
            !found.complete && found.findings.iter().any(named),
            "{code}: {words}: {:#?}",
            found.findings
        );
    }
    std::fs::remove_file(&bin).expect("it is there");
    std::fs::write(&manifest, &text).expect("writable");
    let found = check_dir(&dir).expect("it can be checked");
    assert!(found.findings.iter().any(|finding| finding.code == "missing"), "{:#?}", found.findings);
}
