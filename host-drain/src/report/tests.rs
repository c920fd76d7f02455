use super::*;
use proptest::prelude::*;

fn stream() -> StreamReport {
    StreamReport {
        produced: Some(10),
        collected: 10,
        ..StreamReport::new(Feature::ChipSwimlane, StreamKind::AicoreTask, 3)
    }
}

pub(super) fn report() -> RunReport {
    RunReport {
        schema: SCHEMA,
        tool: "dfx 0.1.0".into(),
        abi: "6ebaf77".into(),
        platform: "a2a3sim".into(),
        backend_type: "Ascend910B".into(),
        execution_mode: "SIM".into(),
        peer: Peer { device: Half::Ours, host: Half::Reference },
        passes: vec![Pass { kind: "single".into(), exit: Some(0), why: "simulator".into() }],
        levels: Levels { chip_swimlane: 4, ..Levels::default() },
        workload: "vector_example".into(),
        started_at: "1970-01-01T00:00:00Z".into(),
        wall_ns: u64::MAX,
        op_wall_ns: 0,
        killed: false,
        complete: false,
        reasons: Vec::new(),
        streams: vec![stream()],
        dump: None,
        anomalies: BTreeMap::new(),
        artifacts: vec![ArtifactEntry { path: "pmu.csv".into(), bytes: 1, sha256: "00".into() }],
    }
}

/// The keys of the outermost object, in the order of the text.
fn keys(text: &str) -> Vec<&str> {
    let key = |line: &'_ str| line.starts_with("  \"");
    text.lines().filter(|l| key(l)).map(|l| l.trim_start_matches("  \"").split('"').next().unwrap()).collect()
}

#[test]
fn the_file_has_exactly_the_documented_keys_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut report = report();
    report.dump = Some(DumpReport::default());
    report.conclude(Vec::new());
    let info = report.write_to_dir(dir.path()).unwrap();
    let text = std::fs::read_to_string(&info.path).unwrap();
    let expected = "schema tool abi platform backend_type execution_mode peer passes levels workload started_at wall_ns \
                    op_wall_ns killed complete reasons streams dump anomalies artifacts";
    assert_eq!(keys(&text).join(" "), expected);
    assert!(text.ends_with("\n}\n"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["peer"], serde_json::json!({"device": "ours", "host": "reference"}));
    assert_eq!(value["streams"][0].as_object().unwrap().len(), 16);
    assert_eq!(value["streams"][0]["kind"], "aicore_task");
    assert_eq!(value["dump"].as_object().unwrap().len(), 8);
    assert_eq!(serde_json::from_str::<RunReport>(&text).unwrap(), report);
}

#[test]
fn every_word_of_a_stream_is_the_one_that_it_prints() {
    for kind in [
        StreamKind::AicoreTask,
        StreamKind::AicpuTask,
        StreamKind::SchedPhase,
        StreamKind::OrchPhase,
        StreamKind::Submit,
        StreamKind::Arg,
        StreamKind::PmuRow,
        StreamKind::ScopeSample,
    ] {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}

#[test]
fn a_run_is_complete_exactly_when_nothing_is_missing() {
    assert_eq!(judge(false, &[stream()], Some(&DumpReport::default())), []);
    let good = StreamReport { recovered: 4, duplicate: 2, stalls: 9, ..stream() };
    assert_eq!(judge(false, &[good, StreamReport { produced: None, ..good }], None), []);

    let code = |killed, stream, dump| {
        let reasons = judge(killed, &[stream], Some(&dump));
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(!reasons[0].message.is_empty());
        (reasons[0].code.clone(), reasons[0].lane, reasons[0].count)
    };
    let dump = DumpReport::default();
    let expect = |code: &str, lane, count| (code.to_owned(), lane, count);
    assert_eq!(code(true, stream(), dump), expect("killed", None, 1));
    let of = |s: StreamReport| code(false, s, dump);
    assert_eq!(of(StreamReport { collected: 8, dropped: 2, ..stream() }), expect("dropped", Some(3), 2));
    assert_eq!(of(StreamReport { collected: 7, lost: 3, ..stream() }), expect("lost", Some(3), 3));
    assert_eq!(
        of(StreamReport { collected: 9, mismatched: 1, ..stream() }),
        expect("mismatched", Some(3), 1)
    );
    assert_eq!(of(StreamReport { corrupt: 1, ..stream() }), expect("corrupt", Some(3), 1));
    assert_eq!(of(StreamReport { collected: 9, ..stream() }), expect("unbalanced", Some(3), 1));
    assert_eq!(of(StreamReport { collected: 12, ..stream() }), expect("unbalanced", Some(3), 2));
    let of = |d| code(false, stream(), d);
    assert_eq!(of(DumpReport { payload_bytes_shed: 7, ..dump }), expect("shed", None, 7));
    assert_eq!(of(DumpReport { truncated: 1, ..dump }), expect("truncated", None, 1));
    assert_eq!(of(DumpReport { overwritten: 2, ..dump }), expect("overwritten", None, 2));
}

#[test]
fn a_conclusion_keeps_what_the_account_does_not_show() {
    let mut report = report();
    report.conclude(Vec::new());
    assert!(report.complete);
    let other =
        Reason { code: "artifact".into(), feature: None, lane: None, count: 1, message: "disk full".into() };
    report.conclude(vec![other.clone()]);
    assert!(!report.complete);
    assert_eq!(report.reasons, [other]);
    report.conclude(Vec::new());
    assert!(report.complete && report.reasons.is_empty());
}

#[test]
fn keys_that_are_not_documented_are_refused() {
    let mut value = serde_json::to_value(report()).unwrap();
    value["extra"] = 1.into();
    assert!(serde_json::from_value::<RunReport>(value).unwrap_err().to_string().contains("extra"));
}

#[test]
fn an_artifact_is_listed_relative_to_its_directory() {
    let info = ArtifactInfo { path: "out/args_dump/args.bin".into(), bytes: 5, sha256: "ab".into() };
    assert_eq!(ArtifactEntry::new(Path::new("out"), &info).path, "args_dump/args.bin");
    assert_eq!(ArtifactEntry::new(Path::new("elsewhere"), &info).path, "out/args_dump/args.bin");
}

proptest! {
    #[test]
    fn the_invariant_holds_exactly_when_the_sum_does(
        parts in any::<[u32; 4]>(), off in -2i64..3, total: bool,
    ) {
        let [collected, dropped, lost, mismatched] = parts.map(u64::from);
        let sum = (collected + dropped + lost + mismatched) as i64;
        prop_assume!(sum + off >= 0);
        let stream = StreamReport {
            produced: total.then_some((sum + off) as u64), collected, dropped, lost, mismatched, ..stream()
        };
        prop_assert_eq!(stream.conserved(), !total || off == 0);
    }

    #[test]
    fn accounts_at_the_edge_of_a_word_do_not_overflow(produced: u64, collected: u64, dropped: u64) {
        let stream = StreamReport { produced: Some(produced), collected, dropped, ..stream() };
        let _ = judge(false, &[stream], None);
    }
}
