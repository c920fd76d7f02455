use super::*;

const GOOD: &str = r#"{
  "chip_swimlane_level": 4,
  "metadata": {
    "clock_freq_hz": 50000000,
    "num_cores": 2,
    "core_types": ["aic", "aiv"],
    "core_to_thread": [0, -1]
  },
  "aicore_tasks": [
    [0, 18446744073709551615, 4294967295, 9007199254740993, 18446744073709551614, 2],
    [1, 7, 1, 3, 4]
  ],
  "aicpu_tasks": [
    [0, 4294967295, 1, 18446744073709551615]
  ],
  "aicpu_scheduler_phases": [
    [
      {"kind": "dispatch", "start_cycles": 1, "end_cycles": 2, "loop_iter": 7, "tasks_processed": 1, "pop_hit": 4, "pop_miss": 5, "shared_at_start": [-1,2,3], "shared_at_end": [0,1,2]},
      {"kind": "dummy_task", "start_cycles": 1, "end_cycles": 2, "loop_iter": 7, "tasks_processed": 1, "task_id": 4294967298, "shared_at_start": [1,2,3], "shared_at_end": [0,1,2]},
      {"kind": "unknown", "start_cycles": 1, "end_cycles": 2, "loop_iter": 7, "tasks_processed": 1, "shared_at_start": [1,2,3], "shared_at_end": [0,1,2]}
    ],
    []
  ],
  "aicpu_orchestrator_phases": [
    [
      {"submit_idx": 0, "task_id": 5, "start_cycles": 900, "end_cycles": 950}
    ]
  ]
}
"#;

/// Parses `text` both ways: the quick one may give up, but not disagree.
fn parse(text: &str) -> Result<Records, RecordsError> {
    let plain = from_reader(text.as_bytes(), Path::new("x.json"));
    match (&plain, window::read(text.as_bytes())) {
        (Ok(plain), Some(quick)) => assert_eq!(plain, &quick),
        (Ok(_), None) => panic!("the quick way gave up on good text"),
        (Err(error), Some(_)) => panic!("the quick way took what is wrong: {error}"),
        (Err(_), None) => {}
    }
    plain
}

/// The error that the good text gives with `from` replaced by `to`, with its line.
fn broken(from: &str, to: &str) -> (usize, String) {
    assert!(GOOD.contains(from), "{from}");
    match parse(&GOOD.replacen(from, to, 1)) {
        Err(RecordsError::Parse { line, message, .. }) => (line, message),
        other => panic!("{from} -> {to}: {other:?}"),
    }
}

#[test]
fn every_value_is_read_exactly() {
    let records = parse(GOOD).unwrap();
    assert_eq!(records.level, Level::OrchPhases);
    assert_eq!(records.metadata.core_types, [CoreKind::Aic, CoreKind::Aiv]);
    assert_eq!(records.metadata.core_to_thread.as_deref(), Some(&[0, -1][..]));
    let row = CoreRow {
        core: 0,
        task: u64::MAX,
        token: u32::MAX,
        start: (1 << 53) + 1,
        end: u64::MAX - 1,
        receive_to_start: 2,
    };
    assert_eq!(records.core_rows[0], row);
    assert_eq!(records.core_rows[1].receive_to_start, 0);
    assert_eq!(records.task_rows, [TaskRow { core: 0, token: u32::MAX, dispatch: 1, finish: u64::MAX }]);
    let sched = &records.sched.as_ref().unwrap()[0];
    assert_eq!((sched[0].pops(), sched[0].task()), (Some([4, 5]), None));
    assert_eq!((sched[1].pops(), sched[1].task()), (None, Some(4294967298)));
    assert_eq!((sched[2].kind, sched[0].shared_at_start), (None, [-1, 2, 3]));
    assert_eq!(records.orch.as_ref().unwrap()[0][0].task_id, 5);
    assert_eq!((records.sched_count(), records.orch_count(), records.host_submit_count()), (3, 1, 0));
}

#[test]
fn an_error_says_where_and_what_was_expected() {
    let cases = [
        ("\"chip_swimlane_level\": 4", "\"chip_swimlane_level\": 5", 2, "expected 1 to 4"),
        ("\"chip_swimlane_level\": 4,", "", 29, "missing field `chip_swimlane_level`"),
        ("50000000", "0", 4, "expected ticks per second"),
        ("\"aiv\"", "\"aix\"", 6, "expected `aic` or `aiv`"),
        ("[1, 7, 1, 3, 4]", "[1, 7, 1, 3]", 11, "expected a row [core_id, task_token_raw"),
        ("[1, 7, 1, 3, 4]", "[1, 7, 1, 3, 4, 5, 6]", 11, "expected a row [core_id, task_token_raw"),
        ("[1, 7, 1, 3, 4]", "[1, 7, 1, 3, 4.5]", 11, "floating point `4.5`, expected u64"),
        ("[1, 7, 1, 3, 4]", "[1, 7, -1, 3, 4]", 11, "integer `-1`, expected u32"),
        ("[1, 7, 1, 3, 4]", "[1, 7, 1, 3, \"4\"]", 11, "string \"4\", expected u64"),
        ("[1, 7, 1, 3, 4]", "[1, 7, 4294967296, 3, 4]", 11, "expected u32"),
        ("18446744073709551614", "18446744073709551616", 10, "expected u64"),
        ("\"pop_miss\": 5, ", "", 19, "expected pop_hit and pop_miss"),
        ("\"task_id\": 4294967298, ", "", 20, "expected task_id"),
        ("\"kind\": \"unknown\"", "\"kind\": \"unknown\", \"task_id\": 1", 21, "expected no pop_hit"),
        ("\"kind\": \"unknown\"", "\"kind\": \"unknown\", \"extra\": 1", 20, "unknown field `extra`"),
        ("\"submit_idx\": 0, ", "", 26, "missing field `submit_idx`"),
        ("\"aicpu_tasks\"", "\"aicore_tasks\"", 13, "duplicate field `aicore_tasks`"),
        ("\"aicpu_tasks\"", "\"tasks\"", 13, "unknown field `tasks`"),
        ("[-1,2,3]", "[-1,2]", 18, "expected an array of length 3"),
    ];
    for (from, to, line, expected) in cases {
        let (at, message) = broken(from, to);
        assert!(message.contains(expected), "{from} -> {to}: {message}");
        assert_eq!(at, line, "{from} -> {to}: {message}");
        assert!(!message.contains(" at line "), "{message}");
    }
}

#[test]
fn a_null_is_not_an_absent_key() {
    let text = GOOD.replacen("\"core_to_thread\": [0, -1]", "\"core_to_thread\": null", 1);
    assert!(parse(&text).is_err());
}

#[test]
fn text_cut_off_anywhere_is_an_error() {
    let end = GOOD.trim_end().len();
    for cut in 0..end {
        assert!(parse(&GOOD[..cut]).is_err(), "cut at {cut}");
    }
    assert!(parse(&GOOD[..end]).is_ok());
    assert!(parse(&format!("{GOOD}x")).unwrap_err().to_string().contains("trailing characters"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("/nowhere/x.json")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/x.json"), "{error}");
}

#[test]
fn the_quick_way_never_disagrees_with_the_plain_one() {
    // `parse` compares the two, whatever comes out.
    let compare = |text: &[u8]| {
        if let Ok(text) = std::str::from_utf8(text) {
            let plain = from_reader(text.as_bytes(), Path::new("x"));
            let quick = window::read(text.as_bytes());
            match (&plain, &quick) {
                (Ok(plain), Some(quick)) => assert_eq!(plain, quick, "{text}"),
                (Err(error), Some(_)) => panic!("{error}: {text}"),
                (_, None) => {}
            }
        }
    };
    for at in 0..GOOD.len() {
        for byte in b"0-.,:[]{}\" \n\\e" {
            let mut text = GOOD.as_bytes().to_vec();
            text[at] = *byte;
            compare(&text);
            text.copy_from_slice(GOOD.as_bytes());
            text.insert(at, *byte);
            compare(&text);
        }
        let mut text = GOOD.as_bytes().to_vec();
        text.remove(at);
        compare(&text);
    }
    let holes = "\"aicpu_tasks\": [\n    [0, 4294967295, 1, 18446744073709551615]\n  ]";
    assert!(GOOD.contains(holes));
    assert!(parse(&GOOD.replacen(holes, "\"aicpu_tasks\": [0]", 1)).is_err());
    assert!(parse(&GOOD.replacen(holes, "\"aicpu_tasks\": []", 1)).is_ok());
    assert!(parse(&GOOD.replacen("\"num_cores\": 2", "\"num_cores\": 2 4", 1)).is_err());
}

#[test]
fn text_larger_than_the_window_is_read_whole() {
    let rows = 60_000u64;
    let row = |i| format!("    [1, {i}, {}, {}, {}, 9]", i % 0x7FFF_FFF0, i * 1000 + 1, i * 1000 + 500);
    let rows: Vec<String> = (0..rows).map(row).collect();
    let text = GOOD.replacen("    [1, 7, 1, 3, 4]", &rows.join(",\n"), 1);
    assert!(text.len() > 2 * 1024 * 1024);
    let records = parse(&text).unwrap();
    assert_eq!(records.core_rows.len(), 60_001);
    assert_eq!(records.core_rows[60_000].end, 59_999 * 1000 + 500);
}
