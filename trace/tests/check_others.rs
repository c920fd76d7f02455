//! `check_dir` on `deps.json`, `pmu.csv` and `scope_stats.jsonl`: every kind of damage is found, alone and against
//! `run.json`.

use dfx_host_drain::report::*;
use dfx_trace::check::{CheckReport, Severity, check_dir};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;

const DEPS: &str = concat!(
    r#"{"tasks":[{"task_id":"7","scope":"auto","early_dispatch":true,"kernel_ids":[3,-1,-1],"block_num":1,"args":["#,
    r#"{"idx":0,"type":"OUTPUT"},{"idx":1,"type":"INPUT","tensor_id":"5247134848181355493","dtype":"FLOAT32","shape":[2,3],"#,
    r#""start_offset":"0","strides":[3,1]}]},"#,
    r#"{"task_id":"8","scope":"manual","early_dispatch":false,"kernel_ids":[-1,1,-1],"block_num":2,"args":[]},"#,
    r#"{"task_id":"9","scope":"auto","early_dispatch":false,"kernel_ids":[-1,1,-1],"block_num":1,"args":["#,
    r#"{"idx":0,"type":"INOUT","tensor_id":"5247134848181355493","dtype":"FLOAT32","shape":[2,3],"start_offset":"0","strides":[3,1]}]}],"#,
    r#""tensors":[{"tensor_id":"5247134848181355493","buffer_addr":"4096","version":0,"dtype":"FLOAT32","buffer_numel":"6"}],"#,
    r#""edges":[{"pred":"7","succ":"8","arg":-1,"source":"explicit","flags":["wait","retain"]},"#,
    r#"{"pred":"1","succ":"9","arg":0,"source":"creator","flags":["wait","retain"],"tensor_id":"5247134848181355493","#,
    r#""consumer_dtype":"FLOAT32","consumer_shape":[2,3],"consumer_start_offset":"0","consumer_strides":[3,1]},"#,
    r#"{"pred":"7","succ":"9","arg":0,"source":"tensormap","flags":["wait"],"overlap":"covered","tensor_id":"5247134848181355493","#,
    r#""consumer_dtype":"FLOAT32","consumer_shape":[2,3],"consumer_start_offset":"0","consumer_strides":[3,1],"#,
    r#""producer_shape":[2,3],"producer_start_offset":"0","producer_strides":[3,1]}]}"#,
    "\n"
);
const PMU: &str = "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles,bankgroup_stall_cycles,bank_stall_cycles,vec_resc_conflict_cycles,event_type\n\
     0,1,0x0000000100000002,9,1,500,1,2,3,6\n\
     0,1,0x0000000100000003,9,1,600,1,2,3,6\n\
     1,0,0x0000000100000004,8,0,18446744073709551615,4294967295,2,3,6\n";
const SCOPES: &str = r#"{"version": 6, "fatal": false, "dropped": 0, "total": 4, "task_window_max": [16, 32, 64, 128], "heap_max": [1024, 1024, 0, 0], "dep_pool_max": [8, 9, 10, 11], "tensormap_max": 99}
{"site": "(unknown):0", "phase": "begin", "depth": 0, "ring": 0, "task_window_start": 0, "task_window_end": 1, "heap_start": 10, "heap_end": 1029, "dep_pool_start": 0, "dep_pool_end": 1, "tensormap": 3}
{"site": "a \"b\".cpp:12", "phase": "begin", "depth": 1, "ring": 1, "task_window_start": 0, "task_window_end": 1, "heap_start": 5000, "heap_end": 6024, "dep_pool_start": 0, "dep_pool_end": 1, "tensormap": 3}
{"site": "a \"b\".cpp:12", "phase": "end", "depth": 1, "ring": 1, "task_window_start": 0, "task_window_end": 32, "heap_start": 5000, "heap_end": 6000, "dep_pool_start": 0, "dep_pool_end": 1, "tensormap": 99}
{"site": "(unknown):0", "phase": "end", "depth": 0, "ring": 0, "task_window_start": 0, "task_window_end": 1, "heap_start": 10, "heap_end": 1029, "dep_pool_start": 0, "dep_pool_end": 1, "tensormap": 3}
"#;
const FILES: [(&str, &str); 3] =
    [("deps.json", DEPS), ("pmu.csv", PMU), ("scope_stats/scope_stats.jsonl", SCOPES)];

fn good_report(files: &BTreeMap<&str, String>) -> RunReport {
    let stream = |feature, kind, lane, rows| StreamReport {
        produced: Some(rows),
        collected: rows,
        ..StreamReport::new(feature, kind, lane)
    };
    let entry = |(path, text): (&&str, &String)| ArtifactEntry {
        path: (*path).into(),
        bytes: text.len() as u64,
        sha256: dfx_host_drain::artifact::hex(&Sha256::digest(text)),
    };
    let mut report = RunReport {
        schema: SCHEMA,
        tool: "dfx 0.1.0".into(),
        abi: "6ebaf77".into(),
        platform: "a2a3sim".into(),
        backend_type: "Ascend910B".into(),
        execution_mode: "SIM".into(),
        peer: Peer { device: Half::Ours, host: Half::Ours },
        passes: Vec::new(),
        levels: Levels { dep_gen: true, pmu: 6, scope_stats: true, ..Levels::default() },
        workload: "made up".into(),
        started_at: "1970-01-01T00:00:00Z".into(),
        wall_ns: 1,
        op_wall_ns: 1,
        killed: false,
        complete: false,
        reasons: Vec::new(),
        streams: vec![
            stream(Feature::DepGen, StreamKind::Submit, 0, 3),
            stream(Feature::Pmu, StreamKind::PmuRow, 0, 1),
            stream(Feature::Pmu, StreamKind::PmuRow, 1, 2),
            stream(Feature::ScopeStats, StreamKind::ScopeSample, 0, 4),
        ],
        dump: None,
        anomalies: BTreeMap::new(),
        artifacts: files.iter().map(entry).collect(),
    };
    report.conclude(Vec::new());
    report
}

/// What is found when `name` has `text` instead of its good text, `run.json` (if any) knows it, and says what `change`
/// makes of it.
fn check(name: &str, text: &str, report: bool, change: impl FnOnce(&mut RunReport)) -> CheckReport {
    let mut files: BTreeMap<&str, String> =
        FILES.iter().map(|(name, text)| (*name, (*text).into())).collect();
    files.insert(name, text.into());
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in &files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    if report {
        let mut report = good_report(&files);
        change(&mut report);
        report.write_to_dir(dir.path()).unwrap();
    }
    check_dir(dir.path()).unwrap()
}

fn codes(report: &CheckReport, severity: Severity) -> String {
    let found = report.findings.iter().filter(|f| f.severity == severity).map(|f| f.code);
    found.collect::<Vec<_>>().join(" ")
}

fn good(name: &str) -> &'static str {
    FILES.iter().find(|(file, _)| *file == name).unwrap().1
}

fn changed(name: &str, from: &str, to: &str) -> String {
    let text = good(name);
    assert!(text.contains(from), "{name} has no {from}");
    text.replacen(from, to, 1)
}

#[test]
fn good_files_pass_with_and_without_a_report() {
    for report in [true, false] {
        let found = check("deps.json", DEPS, report, |_| {});
        assert_eq!(
            codes(&found, Severity::Error) + &codes(&found, Severity::Warning),
            "",
            "{:#?}",
            found.findings
        );
        assert!(
            found.verdict().starts_with("complete: 3 PMU rows, 4 scope samples, 3 deps tasks, 3 deps edges")
        );
    }
}

/// Each damage with the errors that it must give, in the order of the checks.
fn assert_found(name: &str, cases: &[(&str, &str, &str)]) {
    for (from, to, expected) in cases {
        let text = changed(name, from, to);
        let found = check(name, &text, false, |_| {});
        assert_eq!(
            codes(&found, Severity::Error),
            *expected,
            "{name}: {from} -> {to}: {:#?}",
            found.findings
        );
        assert_eq!(found.complete, expected.is_empty(), "{name}: {from} -> {to}");
    }
}

#[test]
fn every_change_to_the_graph_is_found() {
    assert_found(
        "deps.json",
        &[
            ("\"task_id\":\"8\"", "\"task_id\":\"7\"", "duplicate-task unknown-successor"),
            ("\"task_id\":\"8\"", "\"task_id\":8", "invalid"),
            ("\"task_id\":\"8\"", "\"task_id\":\"0x8\"", "invalid"),
            ("\"scope\":\"auto\"", "\"scope\":\"none\"", "invalid"),
            ("[3,-1,-1]", "[3,-1]", "invalid"),
            ("\"block_num\":2", "\"block_num\":0", "block-num"),
            ("\"block_num\":2", "\"block_num\":-2", "invalid"),
            ("\"idx\":1", "\"idx\":2", "argument"),
            ("\"OUTPUT\"", "\"INPUT\"", "argument"),
            ("\"INOUT\"", "\"OUTPUT\"", "argument"),
            ("\"INOUT\"", "\"INANDOUT\"", "invalid"),
            ("\"strides\":[3,1]", "\"strides\":[1]", "argument"),
            ("\"buffer_addr\":\"4096\"", "\"buffer_addr\":\"4097\"", "tensor-id"),
            ("\"version\":0", "\"version\":1", "tensor-id"),
            ("\"INPUT\",\"tensor_id\":\"52", "\"INPUT\",\"tensor_id\":\"51", "unknown-tensor"),
            ("\"succ\":\"8\"", "\"succ\":\"5\"", "unknown-successor"),
            ("\"succ\":\"8\"", "\"succ\":\"7\"", "edge-order"),
            ("\"pred\":\"7\",\"succ\":\"8\"", "\"pred\":\"9\",\"succ\":\"8\"", "edge-order"),
            ("\"arg\":-1", "\"arg\":0", "edge-argument"),
            ("\"arg\":0", "\"arg\":1", "edge-argument"),
            ("\"source\":\"creator\"", "\"source\":\"explicit\"", "edge-argument edge-source"),
            ("\"source\":\"tensormap\"", "\"source\":\"creator\"", "edge-source"),
            ("\"source\":\"tensormap\"", "\"source\":\"guess\"", "invalid"),
            ("\"overlap\":\"covered\",", "", "edge-source"),
            ("\"overlap\":\"covered\"", "\"overlap\":\"some\"", "invalid"),
            (
                "\"scope\":\"auto\",\"early_dispatch\":false",
                "\"scope\":\"manual\",\"early_dispatch\":false",
                "edge-scope",
            ),
            ("]}\n", "]} x\n", "invalid"),
        ],
    );
    let explicit = r#"{"pred":"7","succ":"8","arg":-1,"source":"explicit","flags":["wait","retain"]},"#;
    assert_found("deps.json", &[(explicit, &explicit.repeat(2), "duplicate-edge")]);
    let tensor = r#"{"tensor_id":"5247134848181355493","buffer_addr":"4096","version":0,"dtype":"FLOAT32","buffer_numel":"6"}"#;
    assert_found("deps.json", &[(tensor, &format!("{tensor},{tensor}"), "duplicate-tensor")]);
    for cut in [0, 1, DEPS.len() / 2, DEPS.len() - 3] {
        let found = check("deps.json", &DEPS[..cut], false, |_| {});
        assert_eq!(codes(&found, Severity::Error), "invalid", "cut at {cut}");
    }
}

#[test]
fn every_change_to_the_counters_is_found() {
    assert_found(
        "pmu.csv",
        &[
            ("pmu_total_cycles", "cycles", "invalid"),
            (",event_type\n", "\n", "invalid"),
            ("thread_id,", "", "invalid"),
            (",1,2,3,6\n", ",1,2,6\n", "invalid"),
            (",1,2,3,6\n", ",1,2,3,4,6\n", "invalid"),
            (",500,", ",x,", "invalid"),
            (",500,", ",-5,", "invalid"),
            ("4294967295", "4294967296", "invalid"),
            ("0x0000000100000002", "0x100000002", "invalid"),
            ("0x0000000100000002", "4294967298", "invalid"),
            (",9,1,500", ",9,2,500", "invalid"),
            (",9,1,500", ",9,0,500", "core-type"),
            ("3,6\n", "3,5\n", "event-type"),
        ],
    );
    for cut in [0, 1, PMU.len() / 2, PMU.len() - 1] {
        let found = check("pmu.csv", &PMU[..cut], false, |_| {});
        assert_eq!(codes(&found, Severity::Error), "invalid", "cut at {cut}");
    }
}

#[test]
fn every_change_to_the_samples_is_found() {
    assert_found(
        "scope_stats/scope_stats.jsonl",
        &[
            ("\"version\": 6", "\"version\": 7", "version"),
            ("\"total\": 4", "\"total\": 5", "row-count"),
            ("\"dropped\": 0, \"total\": 4", "\"dropped\": 3, \"total\": 7", "dropped"),
            ("\"dropped\": 0", "\"dropped\": 3", "row-count dropped"),
            ("[16, 32, 64, 128]", "[16, 32, 64]", "invalid"),
            ("\"heap_max\": [1024, 1024, 0, 0]", "\"heap_max\": [1018, 1024, 0, 0]", "capacity"),
            ("\"task_window_max\": [16, 32", "\"task_window_max\": [16, 31", "capacity"),
            ("\"tensormap_max\": 99", "\"tensormap_max\": 98", "capacity"),
            ("\"phase\": \"begin\"", "\"phase\": \"start\"", "invalid"),
            ("\"phase\": \"begin\"", "\"phase\": \"end\"", "nesting"),
            ("\"depth\": 1", "\"depth\": 2", "nesting"),
            ("\"ring\": 1", "\"ring\": 2", "nesting"),
            ("\"ring\": 1", "\"ring\": 4", "nesting capacity"),
            ("a \\\"b\\\".cpp", "b.cpp", "nesting"),
            ("a \\\"b\\\".cpp", "a \"b\".cpp", "invalid"),
            ("\"heap_start\": 10", "\"heap_start\": 2000", "capacity"),
            ("\"heap_start\": 10", "\"heap_start\": -1", "invalid"),
            ("\"dep_pool_end\": 1", "\"dep_pool_end\": -1", "capacity"),
            ("\"tensormap\": 3}", "\"tensormap\": 3, \"more\": 1}", "invalid"),
            (", \"tensormap\": 3}", "}", "invalid"),
        ],
    );
    let name = "scope_stats/scope_stats.jsonl";
    let open = SCOPES.lines().take(4).map(|line| format!("{line}\n")).collect::<String>();
    let found = check(name, &open.replace("\"total\": 4", "\"total\": 3"), false, |_| {});
    assert_eq!(
        (codes(&found, Severity::Error), codes(&found, Severity::Warning)),
        ("".into(), "open-scope".into())
    );
    let found = check(name, &changed(name, "\"fatal\": false", "\"fatal\": true"), false, |_| {});
    assert_eq!((codes(&found, Severity::Warning), found.complete), ("fatal".into(), true));
}

#[test]
fn what_the_report_says_of_them_is_checked() {
    let of = |change: fn(&mut RunReport)| codes(&check("deps.json", DEPS, true, change), Severity::Error);
    assert_eq!(of(|_| {}), "");
    let set = |report: &mut RunReport, at: usize, rows: u64| {
        report.streams[at].produced = Some(rows);
        report.streams[at].collected = rows;
    };
    let with = |at: usize, rows: u64| {
        codes(&check("deps.json", DEPS, true, move |report| set(report, at, rows)), Severity::Error)
    };
    assert_eq!(
        (with(0, 4), with(1, 2), with(2, 1), with(3, 5)),
        ("row-count".into(), "row-count".into(), "row-count".into(), "row-count".into())
    );
    assert_eq!(of(|report| report.levels.pmu = 2), "event-type columns");
    assert_eq!(of(|report| report.backend_type = "Ascend950".into()), "columns");
    assert_eq!(of(|report| report.streams[2].lane = 5), "row-count row-count");
    // A row that went to another core, a task's row that is missing.
    let moved = changed("pmu.csv", "0,1,0x", "0,0,0x").replacen(",9,1,500", ",9,0,500", 1);
    assert_eq!(codes(&check("pmu.csv", &moved, true, |_| {}), Severity::Error), "row-count row-count");
    let short = changed("pmu.csv", "0,1,0x0000000100000003,9,1,600,1,2,3,6\n", "");
    assert_eq!(codes(&check("pmu.csv", &short, true, |_| {}), Severity::Error), "row-count");
    let renamed = changed("pmu.csv", "bank_stall_cycles,vec", "bank_stalls,vec");
    assert_eq!(codes(&check("pmu.csv", &renamed, true, |_| {}), Severity::Error), "columns");
}
