//! `dfx dump` as a person meets it: what goes to stdout, what to stderr, and how it ends.

mod common;

use common::{Place, Said};

/// The entry of a 1-D float32 tensor.
fn entry(task: u64, stage: &str, role: &str, numel: u64, offset: u64, size: u64, truncated: bool) -> String {
    format!(
        "    {{\"task_id\": \"{task:#018x}\", \"func_id\": [1], \"arg_index\": 0, \"role\": \"{role}\", \"stage\": \"{stage}\", \
         \"kind\": \"tensor\", \"dtype\": \"FLOAT32\", \"is_contiguous\": true, \"shape\": [{numel}], \"strides\": [1], \
         \"start_offset\": 0, \"numel\": {numel}, \"bin_offset\": {offset}, \"bin_size\": {size}, \"truncated\": {truncated}, \
         \"overwritten\": false}}"
    )
}

/// Two tasks: t0 makes `first`, r1t2 makes `second` of it; with `shed`, its payload was given up.
fn write(place: &Place, dir: &str, first: f32, second: f32, shed: bool) {
    let args = [
        entry(0, "before_dispatch", "input", 2, 0, 8, false),
        entry(0, "after_completion", "output", 1, 8, 4, false),
        entry(1 << 32 | 2, "before_dispatch", "input", 1, 8, 4, false),
        entry(
            1 << 32 | 2,
            "after_completion",
            "output",
            1,
            12 * u64::from(!shed),
            4 * u64::from(!shed),
            shed,
        ),
    ];
    let head = "{\n  \"run_dir\": \"args_dump\",\n  \"bin_format\": {\n    \"type\": \"logical_contiguous\",\n    \
                \"byte_order\": \"little_endian\"\n  },\n  \"dump_args_level\": 2,\n  \"total_args\": 4,\n  \
                \"before_dispatch\": 2,\n  \"after_completion\": 2,\n  \"input_args\": 2,\n  \"output_args\": 2,\n  \
                \"inout_args\": 0,\n";
    let tail = format!(
        "  \"truncated_args\": {},\n  \"dropped_records\": 0,\n  \"dropped_overwrite\": 0,\n  \"bin_file\": \"args.bin\",\n",
        u8::from(shed)
    );
    let text = format!("{head}{tail}  \"args\": [\n{}\n  ]\n}}\n", args.join(",\n"));
    let dump = place.join(dir).join("args_dump");
    std::fs::create_dir_all(&dump).unwrap();
    std::fs::write(dump.join("args_dump.json"), text).unwrap();
    let values = [1.0, 2.0, first, second];
    std::fs::write(dump.join("args.bin"), values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
        .unwrap();
}

fn json(said: &Said) -> serde_json::Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

#[test]
fn the_newest_dump_is_listed_and_filtered() {
    let place = Place::new();
    write(&place, "dfx_outputs", 3.0, 4.0, false);
    let said = place.dfx(&["dump"]);
    assert_eq!((said.status, said.out.lines().count()), (Some(0), 6), "{said:?}");
    assert!(said.err.contains("reading ./dfx_outputs"), "{said:?}");
    for (filter, count) in [
        (&["--task", "r1t2"][..], 2),
        (&["--task", "0x100000002", "--task", "t0"], 4),
        (&["--task", "4294967298", "--stage", "after"], 1),
        (&["--role", "out"], 2),
        (&["--index", "1"], 0),
        (&["--dtype", "f32", "--func", "1"], 4),
    ] {
        let said = place.dfx(&[&["dump", "dfx_outputs", "--json"], filter].concat());
        assert_eq!(said.status, Some(0), "{filter:?}: {said:?}");
        assert_eq!(json(&said)["args"].as_array().unwrap().len(), count, "{filter:?}: {said:?}");
    }
    let said = place.dfx(&["dump", "dfx_outputs", "--json"]);
    let list = json(&said);
    assert_eq!(list["total_args"], 4);
    let third = &list["args"][2];
    assert_eq!((&third["task_id"], &third["task"]), (&"0x0000000100000002".into(), &"r1t2".into()));
    assert_eq!((&third["shape"], &third["payload"]), (&serde_json::json!([1]), &"complete".into()));
}

#[test]
fn values_are_shown_exported_and_measured() {
    let place = Place::new();
    write(&place, "run", 3.0, 4.5, false);
    let said = place.dfx(&["dump", "show", "run", "--task", "t0", "--stage", "before"]);
    assert_eq!(
        (said.status, said.out.as_str()),
        (Some(0), "# t0 before in0: FLOAT32 [2] func [1], 8 bytes\n[1 2]\n")
    );
    let said = place.dfx(&["dump", "show", "run", "--json"]);
    assert_eq!(json(&said)[3]["values"], serde_json::json!([4.5]));
    let said = place.dfx(&["dump", "show", "run", "--limit", "1"]);
    assert!(said.err.contains("1 of 4 arguments shown"), "{said:?}");
    let said = place.dfx(&["dump", "run", "--export", "text"]);
    assert_eq!((said.status, said.out.as_str()), (Some(0), "wrote 4 files into text\n"), "{said:?}");
    assert!(place.join("text/task_0x0000000100000002_after_out0.txt").exists());
    let said = place.dfx(&["dump", "run", "--task", "t0", "--export"]);
    assert_eq!(
        (said.status, said.out.as_str()),
        (Some(0), "wrote 2 files into run/args_dump/txt\n"),
        "{said:?}"
    );
    let said = place.dfx(&["dump", "npy", "run", "-o", "arrays", "--json"]);
    assert_eq!(json(&said)["files"].as_array().unwrap().len(), 4);
    assert!(place.join("arrays/task_0x0000000000000000_before_in0.npy").exists());
    let said = place.dfx(&["dump", "stats", "run", "--json"]);
    let stats = &json(&said)[0]["stats"];
    assert_eq!((&stats["mean"], &stats["std"], &stats["max"]), (&1.5.into(), &0.5.into(), &2.0.into()));
    let said = place.dfx(&["dump", "stats", "run"]);
    assert_eq!((said.status, said.out.lines().count(), said.err.as_str()), (Some(0), 6, ""), "{said:?}");
}

#[test]
fn a_difference_ends_in_1_and_names_the_suspect() {
    let place = Place::new();
    write(&place, "a", 3.0, 4.0, false);
    write(&place, "b", 3.0, 4.1, false);
    let said = place.dfx(&["dump", "diff", "a", "a"]);
    assert_eq!(said.status, Some(0), "{said:?}");
    assert!(said.out.contains("equal: 4 arguments, 5 values") && said.err.is_empty(), "{said:?}");
    let said = place.dfx(&["dump", "diff", "a", "b"]);
    assert_eq!(said.status, Some(1), "{said:?}");
    assert!(
        said.out.contains("suspect: r1t2") && said.out.contains("first at [0]: 4.0 against 4.1"),
        "{said:?}"
    );
    assert!(
        said.err.starts_with("error: the dumps differ: 1 of 4") && said.err.lines().count() == 1,
        "{said:?}"
    );
    let said = place.dfx(&["dump", "diff", "a", "b", "--json"]);
    let report = json(&said);
    assert_eq!((said.status, &report["equal"], &report["suspect"]), (Some(1), &false.into(), &"r1t2".into()));
    assert_eq!(report["differences"][0]["difference"]["what"], "values");
    for same in [&["--rtol", "0.1"][..], &["--atol", "0.2"], &["--task", "t0"]] {
        assert_eq!(place.dfx(&[&["dump", "diff", "a", "b"], same].concat()).status, Some(0), "{same:?}");
    }
    for bad in ["-1", "nan", "x", "inf"] {
        assert_eq!(place.dfx(&["dump", "diff", "a", "b", &format!("--rtol={bad}")]).status, Some(2), "{bad}");
    }
}

#[test]
fn what_is_incomplete_ends_in_3() {
    let place = Place::new();
    write(&place, "whole", 3.0, 4.0, false);
    write(&place, "shed", 3.0, 4.0, true);
    let said = place.dfx(&["dump", "shed"]);
    assert_eq!(said.status, Some(3), "{said:?}");
    assert!(said.out.contains("payload shed") && said.err.contains("level 1 and a mark"), "{said:?}");
    let said = place.dfx(&["dump", "shed", "--export", "out"]);
    assert_eq!((said.status, said.out.as_str()), (Some(3), "wrote 3 files into out\n"), "{said:?}");
    assert!(said.err.contains("1 arguments have no values"), "{said:?}");
    // What was asked for is there.
    assert_eq!(place.dfx(&["dump", "show", "shed", "--task", "t0"]).status, Some(0));
    let said = place.dfx(&["dump", "diff", "whole", "shed"]);
    assert_eq!(said.status, Some(3), "{said:?}");
    assert!(said.out.contains("complete against shed") && said.out.contains("as far as"), "{said:?}");
}

#[test]
fn bad_input_is_one_line_that_says_what_to_do() {
    let place = Place::new();
    std::fs::create_dir(place.join("empty")).unwrap();
    write(&place, "torn", 3.0, 4.0, false);
    std::fs::write(place.join("torn/args_dump/args.bin"), [0; 9]).unwrap();
    write(&place, "cut", 3.0, 4.0, false);
    let text = std::fs::read_to_string(place.join("cut/args_dump/args_dump.json")).unwrap();
    place.write("cut/args_dump/args_dump.json", &text[..text.len() / 2]);
    let before = place.contents();
    for (args, words) in [
        (&["dump"][..], &["no run found", "name a directory"][..]),
        (&["dump", "empty"], &["no args_dump/args_dump.json in empty", "--dump-args=2"]),
        (&["dump", "none"], &["none"]),
        (&["dump", "torn"], &["args.bin has 9 bytes", "t0 after out0", "run it again"]),
        (&["dump", "cut", "--export", "out"], &["is not valid: line", "column", "run it again"]),
        (&["dump", "diff", "empty", "torn"], &["no args_dump/args_dump.json in empty"]),
    ] {
        let said = place.dfx(args);
        assert_eq!((said.status, said.out.as_str()), (Some(1), ""), "{args:?}: {said:?}");
        assert_eq!(said.err.lines().count(), 1, "{args:?}: {said:?}");
        for word in words {
            assert!(said.err.contains(word), "{args:?}: no `{word}` in {said:?}");
        }
    }
    for args in [
        &["dump", "torn", "--task", "x"][..],
        &["dump", "torn", "--stage", "middle"],
        &["dump", "torn", "--role", "input3"],
        &["dump", "torn", "--dtype", "float33"],
        &["dump", "diff", "torn"],
    ] {
        assert_eq!(place.dfx(args).status, Some(2), "{args:?}");
    }
    assert_eq!(place.contents(), before);
}

#[test]
fn every_help_shows_an_example() {
    let place = Place::new();
    for args in [&["dump"][..], &["dump", "show"], &["dump", "npy"], &["dump", "stats"], &["dump", "diff"]] {
        let said = place.dfx(&[args, &["--help"]].concat());
        assert!(said.status == Some(0) && said.out.contains("Example:\n  dfx dump"), "{args:?}: {said:?}");
    }
}
