//! Our files against the reference runtime's of the same program: nothing but values differs.

use dfx_sim::run::RunRequest;
use dfx_tests::rows::Records;
use dfx_tests::{A2A3, A5, LEVELS, interop_dir, request, run_named};
use std::collections::{BTreeMap, BTreeSet};

/// `line` with every decimal integer replaced by `N`. A number in any other format stays and is seen.
fn without_values(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            assert!(digits == 1 || !rest.starts_with('0'), "a leading zero in {line}");
            shape.push('N');
            rest = &rest[digits..];
        } else {
            shape.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    shape
}

/// The lines of a file without values, and the shapes of its phases by kind. Runs of rows of one shape (with and without
/// the comma that separates them) are one line; the phases of a thread are one word, since which there are depends on
/// the schedule.
fn structure(text: &str) -> (Vec<String>, BTreeMap<String, BTreeSet<String>>) {
    let mut lines: Vec<String> = Vec::new();
    let mut phases: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.split_inclusive('\n') {
        let shape = without_values(line);
        let is_row = shape.starts_with("    [N") || shape.starts_with("      {");
        let mut shape = if is_row { shape.replace(",\n", "\n") } else { shape };
        if let Some(kind) = line.trim_start().strip_prefix("{\"kind\": \"") {
            let kind = kind.split('"').next().expect("a quoted word");
            phases.entry(kind.to_owned()).or_default().insert(shape);
            shape = "      <phases>\n".to_owned();
        }
        if !(is_row && lines.last() == Some(&shape)) {
            lines.push(shape);
        }
    }
    (lines, phases)
}

/// Rows by task id.
fn rows_by_task(records: &Records) -> BTreeMap<u64, usize> {
    let mut rows = BTreeMap::new();
    records.aicore_tasks.iter().for_each(|row| *rows.entry(row.task).or_default() += 1);
    rows
}

/// Issue 2, point 3: the files of `vector_example` have the keys, order, line structure and number formats of the
/// captured ones at every level on both platforms; the same tasks with as many rows, the same submits, the same board.
#[test]
fn only_values_differ_from_the_captured_files_of_the_same_program() {
    let Some(dir) = interop_dir() else { return };
    for (target, sample) in [(A2A3, "a2a3_vector"), (A5, "a5_vector")] {
        for level in LEVELS {
            let what = format!("{sample} at level {}", level as u32);
            let theirs_at =
                dir.join(format!("{sample}/sw{}/default/chip_swimlane_records.json", level as u32));
            let theirs = std::fs::read_to_string(&theirs_at).expect("the sample is there");
            let run = run_named(RunRequest { blockdim: 8, ..request("vector_example", target, level) });
            let ours_at = run.outputs().join("chip_swimlane_records.json");
            let ours = std::fs::read_to_string(&ours_at).expect("it was written");

            let ((our_lines, our_phases), (their_lines, their_phases)) =
                (structure(&ours), structure(&theirs));
            assert_eq!(our_lines, their_lines, "{what}\nours:\n{ours}");
            for (kind, shapes) in &our_phases {
                assert_eq!(shapes.len(), 1, "{what}: {kind} in more than one shape");
                if let Some(theirs) = their_phases.get(kind) {
                    assert_eq!(shapes, theirs, "{what}: {kind}");
                }
            }
            let common = our_phases.keys().filter(|kind| their_phases.contains_key(*kind)).count();
            let wanted = if level as u32 >= 3 { 4 } else { 0 };
            assert!(common >= wanted, "{what}: {:?} and {:?}", our_phases.keys(), their_phases.keys());

            let (ours, theirs) = (Records::read(&ours_at), Records::read(&theirs_at));
            assert_eq!(rows_by_task(&ours), rows_by_task(&theirs), "{what}: core rows by task");
            assert_eq!(ours.aicpu_tasks.len(), theirs.aicpu_tasks.len(), "{what}: AICPU rows");
            assert_eq!(ours.metadata.clock_freq_hz, theirs.metadata.clock_freq_hz, "{what}");
            assert_eq!(ours.metadata.core_types, theirs.metadata.core_types, "{what}");
            assert_eq!(ours.metadata.core_to_thread, theirs.metadata.core_to_thread, "{what}");
            let submits = |records: &Records| -> Vec<(u64, u64)> {
                records.submits().iter().map(|row| (row.submit_idx, row.task_id)).collect()
            };
            assert_eq!(submits(&ours), submits(&theirs), "{what}: submits");
        }
    }
}
