//! Bad input: one line that names it and says what to do, exit status 1 (2 for usage), nothing left behind.

mod common;

use common::Place;

/// Runs `args` with the swimlane on; expects `status`, an error that has all of `words`, and no new file.
fn refused(place: &Place, args: &[&str], status: i32, words: &[&str]) {
    let before = place.contents();
    let said = place.dfx(args);
    assert_eq!(said.status, Some(status), "{args:?}: {said:?}");
    assert_eq!(said.out, "", "{args:?}");
    // Notes about old spellings may come first.
    let lines: Vec<&str> = said.err.lines().filter(|line| !line.starts_with("note: ")).collect();
    let error = lines.first().copied().unwrap_or_default();
    assert!(error.starts_with("error: "), "{args:?}: {said:?}");
    if status == 1 {
        assert_eq!(lines.len(), 1, "{args:?}: more than one line: {said:?}");
    }
    for word in words {
        assert!(error.contains(word), "{args:?}: no `{word}` in: {error}");
    }
    assert_eq!(place.contents(), before, "{args:?}: something was left behind");
}

/// Behaviour §1: a level out of range names the field, the value and the accepted range.
#[test]
fn a_level_out_of_range_is_refused_with_the_range() {
    let place = Place::new();
    for level in ["-1", "5", "4294967297", "-9223372036854775808"] {
        let words = ["enable_chip_swimlane", level, "0 (off) to 4"];
        refused(&place, &["run", "vector_example", "--chip-swimlane-level", level], 1, &words);
    }
    for level in ["x", "", "1.5", "99999999999999999999"] {
        refused(
            &place,
            &["run", "vector_example", "--chip-swimlane-level", level],
            2,
            &["--chip-swimlane-level"],
        );
    }
}

/// An unknown platform, backend or mode is refused with what there is; so is a contradiction, and a real board.
#[test]
fn a_platform_that_there_is_not_is_refused_with_those_that_there_are() {
    let place = Place::new();
    let run = ["run", "vector_example", "--enable-chip-swimlane"];
    let with = |more: &[&'static str]| [&run[..], more].concat();
    refused(&place, &with(&["--platform", "a7sim"]), 1, &["platform", "a7sim", "a2a3sim", "a5sim"]);
    refused(&place, &with(&["--platform", ""]), 1, &["platform", "a2a3sim"]);
    refused(&place, &with(&["--platform", "a5"]), 1, &["execution_mode", "ONBOARD", "SIM", "a5sim"]);
    refused(&place, &with(&["--execution-mode", "ONBOARD"]), 1, &["execution_mode", "SIM"]);
    refused(&place, &with(&["--backend-type", "Ascend910"]), 2, &["backend_type", "Ascend910B", "Ascend950"]);
    let contradiction = with(&["--platform", "a5sim", "--backend-type", "Ascend910B"]);
    refused(&place, &contradiction, 1, &["backend_type", "Ascend910B", "Ascend950", "a5sim"]);
    let contradiction = with(&["--platform", "a5sim", "--execution-mode", "ONBOARD"]);
    refused(&place, &contradiction, 1, &["execution_mode", "ONBOARD", "SIM"]);
}

/// An unknown workload, and a number that is none, are refused with what there is.
#[test]
fn a_workload_that_cannot_be_is_refused_with_what_can() {
    let place = Place::new();
    let run = |workload: &str, words: &[&str]| {
        refused(&place, &["run", workload, "--enable-chip-swimlane"], 1, words);
    };
    run("nothing", &["unknown workload", "`nothing`", "vector_example", "graph:"]);
    run("", &["unknown workload", "vector_example"]);
    for bad in ["flood:0", "flood:x", "flood:-3", "flood:", "flood:99999999999", "flood: 5", "chain:1.5"] {
        run(bad, &[bad, "is not a number from 1 to", "for example"]);
    }
    run("spmd:65536", &["spmd:65536", "65535"]);
    run("vector_example:3", &["vector_example:3", "no argument"]);
    run("graph", &["graph:DEPS_JSON"]);
    run("graph:", &["graph:DEPS_JSON"]);
    run("graph:deps.json,", &["graph:DEPS_JSON"]);
}

/// Numbers of the board and of the simulator are checked against the platform.
#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    let place = Place::new();
    let with = |more: &[&'static str]| [&["run", "flood:10", "--enable-chip-swimlane"][..], more].concat();
    refused(&place, &with(&["--blockdim", "0"]), 1, &["blockdim", "0", "1 to 24", "a2a3sim"]);
    refused(&place, &with(&["--blockdim", "25"]), 1, &["blockdim", "25", "1 to 24"]);
    refused(&place, &with(&["--aicpu-threads", "1"]), 1, &["aicpu_threads", "1", "2 to 4"]);
    refused(&place, &with(&["--aicpu-threads", "5"]), 1, &["aicpu_threads", "5", "2 to 4"]);
    for usage in [
        ["--blockdim", "-1"],
        ["--blockdim", "many"],
        ["--rounds", "0"],
        ["--backpressure", "maybe"],
        ["--op-timeout", "0s"],
        ["--scheduler-timeout", "soon"],
        ["--stream-sync-timeout", "1"],
        ["--seed", "-1"],
        ["--pace", "maybe"],
    ] {
        refused(&place, &with(&usage), 2, &[usage[0]]);
    }
    let both = with(&["--chip-swimlane-level", "2"]);
    refused(&place, &both, 2, &["--enable-chip-swimlane", "--chip-swimlane-level"]);
    let both = with(&["--enable-l2-swimlane"]);
    refused(&place, &both, 2, &["--enable-l2-swimlane", "--enable-chip-swimlane"]);
}

fn task(id: &str) -> String {
    format!(
        r#"{{"task_id":"{id}","scope":"auto","early_dispatch":false,"kernel_ids":[0,-1,-1],"block_num":1,"args":[]}}"#
    )
}

fn graph(edges: &[(&str, &str, &str)]) -> String {
    let edge = |(pred, succ, source): &(&str, &str, &str)| {
        format!(r#"{{"pred":"{pred}","succ":"{succ}","arg":-1,"source":"{source}","flags":["wait"]}}"#)
    };
    let edges: Vec<String> = edges.iter().map(edge).collect();
    format!(r#"{{"tasks":[{},{}],"tensors":[],"edges":[{}]}}"#, task("1"), task("2"), edges.join(","))
}

/// Issue 2, point 7: a graph that is missing or malformed is refused with its file, the place in it and the remedy.
#[test]
fn a_graph_that_cannot_be_run_is_refused_with_its_file_and_the_remedy() {
    let place = Place::new();
    place.write("cut.json", &graph(&[])[..40]);
    place.write("zero.json", "");
    place.write("text.json", "hello");
    place.write("other.json", "{}");
    place.write("list.json", "[]");
    place.write("none.json", r#"{"tasks":[],"edges":[]}"#);
    place.write("cycle.json", &graph(&[("1", "2", "explicit"), ("2", "1", "explicit")]));
    place.write("self.json", &graph(&[("1", "1", "explicit")]));
    place.write("succ.json", &graph(&[("1", "9", "creator")]));
    place.write("pred.json", &graph(&[("9", "1", "explicit")]));
    place.write("pred2.json", &graph(&[("9", "1", "tensormap")]));
    place.write("source.json", &graph(&[("1", "2", "hearsay")]));
    place.write("id.json", &graph(&[("one", "2", "explicit")]));
    place.write("twice.json", &graph(&[]).replace("\"2\"", "\"1\""));
    place.write("blocks.json", &graph(&[]).replace("\"block_num\":1", "\"block_num\":0"));
    place.write("kernel.json", &graph(&[]).replace("[0,-1,-1]", "[0,-2,-1]"));
    place.write("slots.json", &graph(&[]).replace("[0,-1,-1]", "[0,-1]"));
    place.write("good.json", &graph(&[("1", "2", "explicit"), ("9", "1", "creator")]));
    std::fs::create_dir(place.join("dir")).expect("it can be made");
    for (file, words) in [
        ("missing.json", &["cannot be read", "check the path"][..]),
        ("dir", &["is a directory", "dir/deps.json"]),
        ("cut.json", &["EOF", "cut short"]),
        ("zero.json", &["EOF", "cut short"]),
        ("text.json", &["line 1 column 1", "not JSON"]),
        ("other.json", &["no key \"tasks\"", "expected a deps.json"]),
        ("list.json", &["list.json"]),
        ("none.json", &["\"tasks\" is empty", "at least one task"]),
        ("cycle.json", &["cycle: 1 -> 2 -> 1", "remove an edge"]),
        ("self.json", &["edges[0]", "task 1", "itself", "remove the edge"]),
        ("succ.json", &["edges[0]", "successor 9", "not in tasks[]"]),
        ("pred.json", &["edges[0]", "predecessor 9", "explicit", "not in tasks[]"]),
        ("pred2.json", &["edges[0]", "predecessor 9", "tensormap", "not in tasks[]"]),
        ("source.json", &["hearsay", "creator"]),
        ("id.json", &["\"pred\"", "one", "decimal"]),
        ("twice.json", &["task_id 1", "twice"]),
        ("blocks.json", &["task 1", "block_num is 0", "1 to 65535"]),
        ("kernel.json", &["task 1", "kernel id -2"]),
        ("slots.json", &["task 1", "2 entries", "expected 3"]),
        ("good.json,missing.json", &["missing.json", "cannot be read"]),
        ("good.json,text.json", &["text.json", "not JSON"]),
        ("good.json,good.json", &["good.json", "no key \"chip_swimlane_level\""]),
    ] {
        let workload = format!("graph:{file}");
        let name = file.rsplit(',').next().unwrap_or(file);
        let words = [&[name][..], words].concat();
        refused(&place, &["run", &workload, "--enable-chip-swimlane"], 1, &words);
    }
    // The good one runs, and shows its alloc as a submit.
    let said = place.dfx(&["run", "graph:good.json", "--enable-chip-swimlane", "--work-dir", "w"]);
    assert_eq!(said.status, Some(0), "{said:?}");
    assert!(said.err.contains("3 submits, 2 core rows"), "{said:?}");
}

/// Behaviour §1: an output directory that cannot be is refused before the launch. (Permissions do not bind root, which
/// tests may run as; files in the way and a file system that takes none do.)
#[test]
fn an_output_directory_that_cannot_be_is_refused_with_what_is_in_the_way() {
    let place = Place::new();
    place.write("file", "mine");
    std::fs::create_dir(place.join("w")).expect("it can be made");
    place.write("w/dfx_outputs", "mine");
    std::fs::create_dir_all(place.join("v/dfx_outputs/chip_swimlane_records.json/x"))
        .expect("it can be made");
    for (dir, status, words) in [
        ("", 2, &["--work-dir"][..]),
        ("file", 1, &["file is a file", "name another directory"]),
        ("file/in/it", 1, &["file is a file", "name another directory"]),
        ("w", 1, &["w/dfx_outputs is a file", "name another directory"]),
        ("v", 1, &["v/dfx_outputs/chip_swimlane_records.json", "remove it by hand"]),
        ("/proc/dfx-test", 1, &["/proc/dfx-test/dfx_outputs", "another output directory"]),
        ("/proc/self", 1, &["/proc/self/dfx_outputs", "another output directory"]),
    ] {
        refused(
            &place,
            &["run", "vector_example", "--enable-chip-swimlane", "--work-dir", dir],
            status,
            words,
        );
    }
    assert_eq!(std::fs::read(place.join("w/dfx_outputs")).expect("it is there"), b"mine");
}

/// A work directory that this user may not write is refused (skipped for a user whom no permission binds).
#[test]
fn a_read_only_directory_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let dir = place.join("locked");
    std::fs::create_dir(&dir).expect("it can be made");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o555)).expect("it is ours");
    if std::fs::write(dir.join("probe"), "").is_ok() {
        eprintln!("SKIPPED: permissions do not bind this user");
        return;
    }
    let args = ["run", "vector_example", "--enable-chip-swimlane", "--work-dir", "locked"];
    refused(&place, &args, 1, &["locked/dfx_outputs", "writable"]);
}

/// Memory that cannot be had is an error before the launch, and leaves no directory.
#[test]
fn a_region_that_cannot_be_set_up_leaves_nothing_behind() {
    let place = Place::new();
    let args =
        ["run", "vector_example", "--enable-chip-swimlane", "--work-dir", "w", "--inject", "register-fail:1"];
    refused(&place, &args, 1, &["could not be set up", "nothing is left allocated", "lower level"]);
}

/// `dfx check` of what is no run names it and says what would be one.
#[test]
fn a_directory_without_a_run_cannot_be_checked() {
    let place = Place::new();
    std::fs::create_dir(place.join("empty")).expect("it can be made");
    refused(&place, &["check", "missing"], 1, &["missing", "name the output directory"]);
    refused(&place, &["check", "empty"], 1, &["no artifacts in empty"]);
    refused(&place, &["check"], 1, &["no run found", "name a directory"]);
}
