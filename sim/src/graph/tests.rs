//! Tests of the loader: captured graphs, made-up graphs, and every kind of bad file.

use super::*;
use crate::program::{Shape, TaskIdRule};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Loads text as a `deps.json`.
fn load_text(text: &str) -> Result<Program, GraphError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deps.json");
    fs::write(&path, text).unwrap();
    load(&path, None)
}

fn task(id: u64) -> String {
    format!(
        r#"{{"task_id":"{id}","scope":"auto","early_dispatch":false,"kernel_ids":[-1,0,-1],"block_num":1,"args":[]}}"#
    )
}

fn edge(pred: u64, succ: u64, source: &str) -> String {
    format!(
        r#"{{"pred":"{pred}","succ":"{succ}","arg":0,"source":"{source}","flags":["wait"],"consumer_shape":[4]}}"#
    )
}

fn deps(tasks: &[u64], edges: &[(u64, u64, &str)]) -> String {
    let tasks: Vec<String> = tasks.iter().map(|&id| task(id)).collect();
    let edges: Vec<String> = edges.iter().map(|(pred, succ, source)| edge(*pred, *succ, source)).collect();
    format!(r#"{{"tasks":[{}],"tensors":[],"edges":[{}]}}"#, tasks.join(","), edges.join(","))
}

/// Task ids with their predecessors' ids, in submit order.
fn with_preds(program: &Program) -> Vec<(u64, Vec<u64>)> {
    let id = |submit: &Submit| match submit.task_id {
        TaskIdRule::Fixed(id) => id,
        TaskIdRule::Next => panic!("a graph keeps its ids"),
    };
    let ids: Vec<u64> = program.submits().map(id).collect();
    program.submits().map(|s| (id(s), s.deps.iter().map(|dep| ids[dep.0 as usize]).collect())).collect()
}

/// Scope flag (manual or not) of each submit.
fn manual_flags(program: &Program) -> Vec<bool> {
    let mut scopes = vec![false];
    let mut flags = Vec::new();
    for op in &program.ops {
        match op {
            Op::ScopeBegin { manual } => scopes.push(*manual),
            Op::ScopeEnd => drop(scopes.pop()),
            Op::Submit(submit) if submit.alloc => {}
            Op::Submit(_) => flags.push(*scopes.last().unwrap()),
        }
    }
    assert_eq!(scopes.len(), 1, "scopes are closed");
    flags
}

/// The captured artifacts, or `None` (with a message) where they may be missing.
fn interop() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/interop");
    let dir = std::env::var_os("DFX_INTEROP_DIR").map_or_else(|| PathBuf::from(default), PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} is missing", dir.display());
    eprintln!("skipped: {} is missing; set DFX_INTEROP_DIR to the captured artifacts", dir.display());
    None
}

fn files_named(name: &str, dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files_named(name, &path, found),
            false if path.ends_with(name) => found.push(path),
            false => {}
        }
    }
}

#[test]
fn every_captured_graph_loads_with_all_its_tasks_and_allocs() {
    let Some(dir) = interop() else { return };
    let mut paths = Vec::new();
    files_named("deps.json", &dir, &mut paths);
    assert!(!paths.is_empty(), "{} has no deps.json", dir.display());
    for path in paths {
        let json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let tasks = json["tasks"].as_array().unwrap();
        let ids: std::collections::HashSet<_> =
            tasks.iter().map(|t| t["task_id"].as_str().unwrap()).collect();
        let edges = json["edges"].as_array().unwrap();
        let pair = |e: &serde_json::Value| {
            (e["pred"].as_str().unwrap().to_owned(), e["succ"].as_str().unwrap().to_owned())
        };
        let pairs: std::collections::BTreeSet<_> = edges.iter().map(pair).collect();
        let allocs: std::collections::HashSet<_> =
            pairs.iter().map(|(pred, _)| pred.as_str()).filter(|pred| !ids.contains(pred)).collect();
        let rows = |t: &serde_json::Value| {
            let active = t["kernel_ids"].as_array().unwrap().iter().filter(|k| k.as_i64() >= Some(0)).count();
            active as u64 * t["block_num"].as_u64().unwrap()
        };

        let program = load(&path, None).unwrap();
        assert_eq!(program.submits().count(), tasks.len() + allocs.len(), "{}", path.display());
        assert_eq!(program.submits().filter(|s| s.alloc).count(), allocs.len());
        assert_eq!(
            program.submits().map(Submit::core_rows).sum::<u64>(),
            tasks.iter().map(rows).sum::<u64>()
        );
        assert_eq!(program.submits().map(|s| s.deps.len()).sum::<usize>(), pairs.len());
        for (number, submit) in program.submits().enumerate() {
            assert_eq!(submit.id.0 as usize, number);
            assert!(submit.deps.iter().all(|dep| dep.0 < submit.id.0), "{}", path.display());
        }
    }
}

#[test]
fn paged_attention_has_68_submits_and_its_captured_durations() {
    let Some(dir) = interop() else { return };
    let case = dir.join("a2a3_paged_attention/all/CaseVarSeq4");
    let program = load(&case.join("deps.json"), Some(&case.join("chip_swimlane_records.json"))).unwrap();
    assert_eq!(program.submits().count(), 68);
    assert_eq!(program.kernels.len(), 4);
    assert!(program.submits().filter(|s| !s.alloc).all(|s| s.duration.is_some_and(|d| d > Duration::ZERO)));
    assert!(program.submits().filter(|s| s.alloc).all(|s| s.duration.is_none() && s.deps.is_empty()));
    assert!(program.pace);
}

#[test]
fn edges_become_distinct_explicit_dependencies_and_allocs_come_before_their_first_consumer() {
    let edges = [
        (10, 2, "creator"),
        (1, 3, "explicit"),
        (9, 3, "creator"),
        (10, 3, "creator"),
        (8, 3, "creator"),
        (1, 3, "tensormap"),
        (2, 3, "tensormap"),
    ];
    let program = load_text(&deps(&[1, 2, 3], &edges)).unwrap();
    let expected =
        [(1, vec![]), (10, vec![]), (2, vec![10]), (8, vec![]), (9, vec![]), (3, vec![1, 9, 10, 8, 2])];
    assert_eq!(with_preds(&program), expected);
    assert_eq!(
        program.submits().map(|s| s.alloc).collect::<Vec<_>>(),
        [false, true, false, true, true, false]
    );
}

#[test]
fn backward_edges_give_the_order_that_keeps_most_of_the_original_one() {
    let program = load_text(&deps(&[5, 4, 3, 2, 1], &[(1, 4, "explicit"), (2, 1, "explicit")])).unwrap();
    let ids: Vec<u64> = with_preds(&program).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [5, 3, 2, 1, 4]);
}

#[test]
fn ids_may_be_bare_numbers_and_flags_may_be_missing() {
    let text = r#"{"edges":[{"pred":18446744073709551615,"succ":"7","source":"explicit"}],
        "tasks":[{"task_id":18446744073709551615,"kernel_ids":[3,-1,-1],"block_num":2},
                 {"task_id":7,"kernel_ids":[-1,-1,-1],"block_num":1,"scope":"manual","new":{"key":[1]}}]}"#;
    let program = load_text(text).unwrap();
    assert_eq!(with_preds(&program), [(u64::MAX, vec![]), (7, vec![u64::MAX])]);
    assert_eq!(manual_flags(&program), [false, true]);
    assert_eq!(
        program.kernels.iter().map(|k| &*k.name).collect::<Vec<_>>(),
        ["func_0", "func_1", "func_2", "func_3"]
    );
    assert_eq!(program.submits().map(Submit::shape).collect::<Vec<_>>(), [Shape::Aic, Shape::None]);
}

#[test]
fn made_up_graphs_come_back_from_their_text() {
    for seed in 0..8 {
        let made = random(seed, GraphParams { tasks: 1_500, max_fanin: 1_200, ..Default::default() });
        let loaded = load_text(&to_deps_json(&made).unwrap()).unwrap();
        assert_eq!(manual_flags(&loaded), manual_flags(&made));
        assert!(loaded.submits().last().unwrap().deps.len() >= 1_200);
        let key = |s: &Submit| (s.kernels, s.block_num, s.alloc, s.early_dispatch, s.core_rows());
        let rows = |p: &Program| {
            let preds = with_preds(p).into_iter();
            preds.zip(p.submits().map(key)).map(|((id, preds), key)| (id, preds, key)).collect::<Vec<_>>()
        };
        assert_eq!(rows(&loaded), rows(&made));
        let shapes = |shape| loaded.submits().filter(|s| s.shape() == shape).count();
        assert!(
            [Shape::Aic, Shape::Aiv, Shape::Mix, Shape::None].into_iter().all(|shape| shapes(shape) > 10)
        );
    }
    let again = |seed| to_deps_json(&random(seed, GraphParams::default())).unwrap();
    assert_eq!(again(3), again(3));
    assert_ne!(again(3), again(4));
}

#[test]
fn a_hundred_thousand_tasks_with_a_million_edges_load_quickly() {
    let ids: Vec<u64> = (0..100_000).collect();
    let edges: Vec<_> =
        (10..100_000).flat_map(|id| (1..=10).map(move |back| (id - back, id, "tensormap"))).collect();
    let text = deps(&ids, &edges);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deps.json");
    fs::write(&path, text).unwrap();
    let started = Instant::now();
    let program = load(&path, None).unwrap();
    let took = started.elapsed();
    eprintln!("{} edges in {took:?}", edges.len());
    assert_eq!(program.submits().count(), 100_000);
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn bad_graphs_are_refused_with_the_place_the_value_and_the_remedy() {
    let with = |from: &str, to: &str| deps(&[1, 2], &[(1, 2, "explicit")]).replacen(from, to, 1);
    let long_cycle: Vec<(u64, u64, &str)> = (1..=20).map(|i| (i, i % 20 + 1, "explicit")).collect();
    let cases = [
        (r#"{"tasks":[{"task_id""#.into(), "cut short"),
        (deps(&[1], &[]) + "x", "trailing characters at line 1 column"),
        ("tasks:\n- 1".into(), "expected ident at line 1 column 2; this is not JSON"),
        ("[1]".into(), "line 1"),
        (r#"{"edges":[]}"#.into(), "has no key \"tasks\""),
        (r#"{"tasks":[]}"#.into(), "has no key \"edges\""),
        (r#"{"tasks":[],"edges":[]}"#.into(), "at least one task"),
        (deps(&[1, 2, 1], &[]), "task_id 1 appears twice"),
        (
            with(r#""1""#, r#""0x1""#),
            r#""task_id" is "0x1", expected a 64-bit decimal task id at line 1 column"#,
        ),
        (with(r#""pred":"1""#, r#""pred":"""#), r#""pred" is "", expected"#),
        (
            with(r#""succ":"2""#, r#""succ":"18446744073709551616""#),
            r#""succ" is "18446744073709551616", expected"#,
        ),
        (with(r#""1""#, "1.5"), "invalid type: floating point `1.5`, expected a task id under \"task_id\""),
        (with(r#""1""#, "-1"), "invalid type: integer `-1`"),
        (deps(&[1], &[(1, 3, "explicit")]), "edges[0]: successor 3 (of 1) is not in tasks[]"),
        (
            deps(&[1, 2], &[(1, 2, "creator"), (9, 2, "tensormap")]),
            "edges[1]: predecessor 9 (of 2, source tensormap)",
        ),
        (
            deps(&[1, 2], &[(9, 2, "creator"), (9, 1, "explicit")]),
            "edges[1]: predecessor 9 (of 1, source explicit)",
        ),
        (deps(&[1], &[(9, 1, "creator"), (1, 9, "creator")]), "successor 9 (of 1) is not in tasks[]"),
        (deps(&[1, 2], &[(2, 2, "explicit")]), "edges[0]: task 2 depends on itself"),
        (
            deps(
                &[1, 2, 3, 4],
                &[(1, 2, "explicit"), (2, 3, "explicit"), (3, 2, "creator"), (3, 4, "explicit")],
            ),
            "a cycle: 2 -> 3 -> 2;",
        ),
        (deps(&(1..=20).collect::<Vec<_>>(), &long_cycle), "… (12 more) ->"),
        (with(r#""block_num":1"#, r#""block_num":0"#), "task 1: block_num is 0; expected 1 to 65535"),
        (with(r#""block_num":1"#, r#""block_num":65536"#), "task 1: block_num is 65536"),
        (with("[-1,0,-1]", "[-1,65536,-1]"), "task 1: kernel id 65536 is out of range"),
        (with("[-1,0,-1]", "[-2,0,-1]"), "task 1: kernel id -2 is out of range"),
        (with("[-1,0,-1]", "[-1,0]"), "task 1: kernel_ids has 2 entries; expected 3"),
        (with(r#""kernel_ids""#, r#""kernels""#), "missing field `kernel_ids`"),
        (with(r#""explicit""#, r#""guess""#), "unknown variant `guess`"),
        (with(r#""auto""#, r#""loose""#), "unknown variant `loose`"),
    ];
    for (text, expected) in cases {
        let error = load_text(&text).expect_err(expected).to_string();
        assert!(error.contains("deps.json: ") && error.contains(expected), "{error}\nlacks: {expected}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nowhere.json");
    let error = load(&missing, None).unwrap_err();
    assert!(matches!(error.fault, GraphFault::Read(_)));
    assert!(error.to_string().starts_with(&format!("{}: cannot be read", missing.display())), "{error}");
    assert!(matches!(load(dir.path(), None).unwrap_err().fault, GraphFault::Directory { .. }));
}

#[test]
fn records_give_each_task_its_longest_row() {
    let dir = tempfile::tempdir().unwrap();
    let (graph, records) = (dir.path().join("deps.json"), dir.path().join("records.json"));
    fs::write(&graph, deps(&[1, 2, 3], &[])).unwrap();
    let text = |level: i64, frequency: i64, rows: &str| {
        format!(
            r#"{{"chip_swimlane_level":{level},"metadata":{{"clock_freq_hz":{frequency}}},"aicore_tasks":{rows}}}"#
        )
    };
    let load_with = |text: String| {
        fs::write(&records, text).unwrap();
        load(&graph, Some(&records))
    };
    let rows = "[[0,1,1,100,150,2],[1,1,1,18446744073709551600,84,2],[0,2,2,200,190,2],[0,77,3,1,2,0]]";
    let program = load_with(text(4, 50_000_000, rows)).unwrap();
    let durations: Vec<_> = program.submits().map(|s| s.duration).collect();
    assert_eq!(durations, [Some(Duration::from_micros(2)), None, None]);
    for (text, expected) in [
        (text(0, 50_000_000, "[]"), "chip_swimlane_level is 0; expected 1 to 4"),
        (text(5, 50_000_000, "[]"), "chip_swimlane_level is 5"),
        (text(1, 0, "[]"), "clock_freq_hz is 0; expected 1"),
        (text(1, -5, "[]"), "clock_freq_hz is -5"),
        (text(1, 50, "[[1,2,3]]"), "expected an array of length 6"),
        (text(1, 50, "[[0,77,3,1,2,0]]"), "none of its 1 core rows"),
        (r#"{"chip_swimlane_level":1}"#.into(), "has no key \"metadata\""),
        (deps(&[1], &[]), "has no key \"chip_swimlane_level\""),
    ] {
        let error = load_with(text).unwrap_err().to_string();
        assert!(error.contains("records.json: ") && error.contains(expected), "{error}\nlacks: {expected}");
    }
    assert!(load_with(text(1, 50, "[]")).is_ok());
}
