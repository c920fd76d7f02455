//! What is made of a dump: files, figures, and where two of them part.

mod dump_common;

use dfx_trace::dump::{self, Difference, Dump, Filter, Number, Payload, Tolerance, diff, stats};
use dump_common::{Arg, dump, find, interop, write};
use std::fs;
use std::path::Path;
use std::process::Command;

fn all(dump: &Dump) -> Vec<usize> {
    dump.select(&Filter::default())
}

#[test]
fn text_is_byte_for_byte_the_references() {
    let Some(interop) = interop() else { return };
    let mut compared = 0;
    for manifest in find(&interop, "args_dump.json") {
        let golden = manifest.with_file_name("txt");
        if !golden.is_dir() {
            continue;
        }
        let dump = Dump::open(&manifest).unwrap();
        let out = tempfile::tempdir().unwrap();
        dump::export_txt(&dump, &all(&dump), out.path()).unwrap();
        for file in fs::read_dir(golden).unwrap() {
            let theirs = file.unwrap().path();
            let ours = fs::read(out.path().join(theirs.file_name().unwrap())).unwrap();
            assert!(ours == fs::read(&theirs).unwrap(), "{}", theirs.display());
            compared += 1;
        }
    }
    assert!(compared >= 8, "only {compared}");
}

#[test]
fn text_has_an_overview_and_every_value() {
    let args = [
        Arg::tensor(7, 0, "INT16", &[2, 1, 2], vec![1, 0, 0xff, 0xff, 3, 0, 0xe8, 3]),
        Arg::tensor(7, 1, "FP4E2M1", &[2], vec![0x21, 0xf4]),
        Arg::scalar(7, 2, "INT32", "-5"),
        Arg { truncated: true, ..Arg::tensor(7, 3, "UINT8", &[2, 3], vec![1, 2, 3, 4]) },
    ];
    let (dir, dump) = dump(&args);
    let out = dir.path().join("out");
    let exported = dump::export_txt(&dump, &all(&dump), &out).unwrap();
    assert_eq!(exported.files.len(), 4);
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let text = read("task_0x0000000000000007_before_in0.txt");
    let values = "\n# Overview:\n   1   -1\n   3 1000\n\n# Detail:\n[0, 0, 0] 1\n[0, 0, 1] -1\n[1, 0, 0] 3\n[1, 0, 1] 1000\n";
    assert!(text.ends_with(values), "{text}");
    assert!(text.starts_with("# task_id: 0x0000000000000007\n# role: input\n"), "{text}");
    let text = read("task_0x0000000000000007_before_in1.txt");
    assert!(
        text.ends_with("# Overview:\n0.5   1   2  -6\n\n# Detail:\n[0] 0.5\n[1] 1\n[2] 2\n[3] -6\n"),
        "{text}"
    );
    let text = read("task_0x0000000000000007_before_in2.txt");
    assert!(text.ends_with("# start_offset: 0\n# value: -5\n"), "{text}");
    let text = read("task_0x0000000000000007_before_in3.txt");
    assert!(text.contains("# truncated: the first 4 values\n"), "{text}");
    assert!(
        text.ends_with("# Overview:\n1 2 3\n4\n\n# Detail:\n[0, 0] 1\n[0, 1] 2\n[0, 2] 3\n[1, 0] 4\n"),
        "{text}"
    );
    assert!(!fs::read_dir(&out).unwrap().any(|f| f.unwrap().path().extension().is_some_and(|e| e == "tmp")));
}

/// A tensor of several blocks is written as it would be in one.
#[test]
fn large_tensors_are_written_whole() {
    let n = dump::BLOCK_BYTES / 4 * 2 + 3;
    let values: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
    let (dir, dump) = dump(&[Arg::floats(1, 0, &[n as u64 / 3, 3], &values[..n / 3 * 3])]);
    let exported = dump::export_txt(&dump, &[0], &dir.path().join("out")).unwrap();
    let text = fs::read_to_string(&exported.files[0]).unwrap();
    let (overview, detail) = text.split_once("\n# Detail:\n").unwrap();
    assert_eq!(detail.lines().count(), n / 3 * 3);
    for (i, line) in detail.lines().enumerate() {
        assert_eq!(line, format!("[{}, {}] {}", i / 3, i % 3, values[i]));
    }
    let rows: Vec<&str> = overview.split_once("# Overview:\n").unwrap().1.lines().collect();
    assert_eq!(rows.len(), n / 3);
    assert_eq!(rows[333], "999   0   1");
}

#[test]
fn several_blocks_of_a_task_do_not_overwrite_each_other() {
    let block = |value| Arg::floats(7, 0, &[1], &[value]);
    let (dir, dump) = dump(&[block(1.0), block(2.0), block(3.0)]);
    let out = dir.path().join("out");
    // Names do not hang on what was selected.
    dump::export_txt(&dump, &[2], &out).unwrap();
    assert!(
        fs::read_to_string(out.join("task_0x0000000000000007_before_in0.2.txt"))
            .unwrap()
            .ends_with("[0] 3\n")
    );
    let files = dump::export_npy(&dump, &all(&dump), &out, false).unwrap().files;
    let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let stem = "task_0x0000000000000007_before_in0";
    assert_eq!(names, [format!("{stem}.npy"), format!("{stem}.1.npy"), format!("{stem}.2.npy")]);
}

/// The parts of a `.npy` file: its header's text and its values' bytes.
fn npy(path: &Path) -> (String, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((10 + length) % 64, 0);
    assert_eq!(bytes[9 + length], b'\n');
    let head = String::from_utf8(bytes[10..10 + length].to_vec()).unwrap();
    (head.trim_end().to_owned(), bytes[10 + length..].to_vec())
}

#[test]
fn npy_files_have_the_type_the_shape_and_the_bytes() {
    let args = [
        Arg::floats(1, 0, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, f32::NAN]),
        Arg::tensor(1, 1, "BFLOAT16", &[2], vec![0x80, 0x3f, 0, 0xc0]),
        Arg::tensor(1, 2, "FP4E2M1", &[2, 1], vec![0x21, 0xf4]),
        Arg::tensor(1, 3, "BOOL", &[3], vec![0, 1, 9]),
        Arg::tensor(1, 4, "INT64", &[], vec![1; 8]),
        Arg::scalar(1, 5, "INT16", "-2"),
        Arg::tensor(1, 6, "FLOAT16", &[1], vec![0, 0x3c]),
        Arg { truncated: true, ..Arg::tensor(1, 7, "UINT16", &[2, 2], vec![1, 0, 2, 0]) },
        Arg::tensor(1, 8, "UINT8", &[0, 4], Vec::new()),
    ];
    let (dir, dump) = dump(&args);
    let out = dir.path().join("npy");
    let files = dump::export_npy(&dump, &all(&dump), &out, false).unwrap().files;
    let head = |descr: &str, shape: &str| {
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}")
    };
    let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(npy(&files[0]), (head("<f4", "(2, 3)"), args[0].bytes.clone()));
    assert_eq!(npy(&files[1]), (head("<f4", "(2,)"), floats(&[1.0, -2.0])));
    assert_eq!(npy(&files[2]), (head("<f4", "(2, 2)"), floats(&[0.5, 1.0, 2.0, -6.0])));
    assert_eq!(npy(&files[3]), (head("|b1", "(3,)"), vec![0, 1, 1]));
    assert_eq!(npy(&files[4]), (head("<i8", "()"), vec![1; 8]));
    assert_eq!(npy(&files[5]), (head("<i2", "()"), vec![0xfe, 0xff]));
    assert_eq!(npy(&files[6]), (head("<f2", "(1,)"), vec![0, 0x3c]));
    assert_eq!(npy(&files[7]), (head("<u2", "(2,)"), vec![1, 0, 2, 0]));
    assert_eq!(npy(&files[8]), (head("|u1", "(0, 4)"), vec![]));
    numpy_reads(&files);
    let files = dump::export_npy(&dump, &all(&dump), &out, true).unwrap().files;
    assert_eq!(npy(&files[1]), (head("<u2", "(2,)"), args[1].bytes.clone()));
    assert_eq!(npy(&files[2]), (head("|u1", "(2, 1)"), args[2].bytes.clone()));
    numpy_reads(&files);
}

/// Where there is a numpy, it reads the files.
fn numpy_reads(files: &[std::path::PathBuf]) {
    let python = |code: &str| Command::new("python3").arg("-c").arg(code).args(files).output();
    if !python("import numpy").is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: there is no numpy here");
        return;
    }
    let done = python("import sys, numpy\nfor f in sys.argv[1:]: numpy.load(f)").unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn figures_are_those_of_the_finite_values() {
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, 3.0, f32::INFINITY];
    let args = [
        Arg::floats(1, 0, &[8], &odd),
        Arg::tensor(1, 1, "INT64", &[2], [i64::MAX.to_le_bytes(), (i64::MAX - 1).to_le_bytes()].concat()),
        Arg::tensor(1, 2, "FLOAT32", &[2], Vec::new()),
        Arg::scalar(1, 3, "UINT64", "18446744073709551615"),
        Arg::floats(1, 4, &[2], &[f32::NAN, f32::INFINITY]),
        Arg::tensor(1, 5, "UINT8", &[0], Vec::new()),
    ];
    let (_dir, dump) = dump(&args);
    let found = stats(&dump, &all(&dump)).unwrap();
    let first = &found[0];
    assert_eq!((first.count, first.nan, first.pos_inf, first.neg_inf, first.zeros), (8, 1, 2, 1, 2));
    assert_eq!((first.min, first.max), (Some(Number::Float(0.0)), Some(Number::Float(3.0))));
    assert_eq!((first.mean, first.zero_fraction), (Some(1.0), Some(0.25)));
    assert!((first.std.unwrap() - 1.5f64.sqrt()).abs() < 1e-15);
    assert_eq!(found[1].max, Some(Number::Int(i64::MAX.into())));
    assert_eq!(found[1].min, Some(Number::Int(i128::from(i64::MAX) - 1)));
    assert_eq!((found[2].count, found[2].min, found[2].zero_fraction), (0, None, None));
    assert_eq!(found[3].max, Some(Number::Int(u64::MAX.into())));
    assert_eq!((found[4].nan, found[4].mean, found[4].std), (1, None, None));
    assert_eq!(found[5].count, 0);
}

/// Millions of values around a thousand, a millionth apart: a naive sum of squares would have few digits right.
#[test]
fn figures_of_large_tensors_are_stable() {
    let n = 3_000_000u32;
    let value = |i: u32| 1000.0 + if i.is_multiple_of(2) { 0.0 } else { 1.0 / 1024.0 };
    let values: Vec<f32> = (0..n).map(value).collect();
    let (_dir, dump) = dump(&[Arg::floats(1, 0, &[n.into()], &values)]);
    let found = &stats(&dump, &[0]).unwrap()[0];
    assert!((found.mean.unwrap() - (1000.0 + 0.5 / 1024.0)).abs() < 1e-12);
    assert!((found.std.unwrap() - 0.5 / 1024.0).abs() < 1e-12);
}

/// Two dumps compared with numpy's tolerance unless another is given.
fn compare(a: &[Arg], b: &[Arg], tolerance: Tolerance) -> dump::DiffReport {
    let ((_a, a), (_b, b)) = (dump(a), dump(b));
    diff(&a, &b, &Filter::default(), &tolerance).unwrap()
}

fn values(report: &dump::DiffReport) -> &dump::ValueDifference {
    match &report.differences[0].difference {
        Difference::Values(found) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn equal_dumps_are_equal() {
    let args = [Arg::floats(1, 0, &[2], &[1.0, f32::INFINITY]), Arg::scalar(1, 1, "INT32", "3")];
    let report = compare(&args, &args, Tolerance { rtol: 0.0, atol: 0.0, equal_nan: false });
    assert!(report.equal && report.complete && report.first_task.is_none());
    assert_eq!((report.pairs, report.with_values, report.values, report.max_abs), (2, 2, 3, 0.0));
}

#[test]
fn values_are_close_as_numpy_has_it() {
    let one = |a: f32, b: f32, tolerance| {
        compare(&[Arg::floats(1, 0, &[1], &[a])], &[Arg::floats(1, 0, &[1], &[b])], tolerance).equal
    };
    let numpy = Tolerance::default();
    assert!(one(1.0, 1.000_009, numpy));
    assert!(!one(1.0, 1.0001, numpy));
    assert!(one(0.0, 1e-8, numpy) && !one(0.0, 1.1e-8, numpy), "beside zero only atol counts");
    // Relative to the second.
    let half = Tolerance { rtol: 0.5, atol: 0.0, equal_nan: false };
    assert!(one(1.0, 2.0, half) && !one(2.0, 1.0, half));
    assert!(one(f32::INFINITY, f32::INFINITY, numpy) && !one(f32::INFINITY, f32::NEG_INFINITY, numpy));
    assert!(!one(1.0, f32::INFINITY, half) && !one(f32::INFINITY, 1.0, half));
    assert!(one(0.0, -0.0, Tolerance { rtol: 0.0, atol: 0.0, equal_nan: false }));
    let nan = Tolerance { equal_nan: true, ..numpy };
    assert!(!one(f32::NAN, f32::NAN, numpy) && one(f32::NAN, f32::NAN, nan) && !one(f32::NAN, 1.0, nan));
}

#[test]
fn the_first_difference_is_told_by_its_index() {
    let a: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let mut b = a.clone();
    (b[17], b[23]) = (18.0, 20.0);
    let report = compare(
        &[Arg::floats(1, 0, &[2, 3, 4], &a)],
        &[Arg::floats(1, 0, &[2, 3, 4], &b)],
        Tolerance::default(),
    );
    let found = values(&report);
    assert_eq!((found.compared, found.differing, &found.first_index[..]), (24, 2, &[1, 1, 1][..]));
    assert_eq!((found.first_a, found.first_b), (Number::Float(17.0), Number::Float(18.0)));
    assert_eq!((found.max_abs, found.max_rel), (3.0, 3.0 / 20.0));
    assert_eq!(report.first_task.as_deref(), Some("t1"));
}

#[test]
fn wide_integers_are_compared_exactly() {
    let of = |value: u64| [Arg::tensor(1, 0, "UINT64", &[1], value.to_le_bytes().to_vec())];
    let exact = Tolerance { rtol: 0.0, atol: 0.0, equal_nan: false };
    let report = compare(&of(u64::MAX), &of(u64::MAX - 1), exact);
    assert_eq!((report.equal, values(&report).max_abs), (false, 1.0));
    assert!(compare(&of(u64::MAX), &of(u64::MAX - 1), Tolerance::default()).equal);
}

#[test]
fn records_of_one_side_and_other_forms_are_differences() {
    let a = [
        Arg::floats(1, 0, &[2], &[1.0; 2]),
        Arg::floats(1, 1, &[2], &[1.0; 2]),
        Arg::floats(1, 2, &[1], &[1.0]),
        Arg::scalar(2, 0, "INT32", "1"),
    ];
    let b = [
        Arg::tensor(1, 0, "INT32", &[2], vec![0; 8]),
        Arg::floats(1, 1, &[2, 1], &[1.0; 2]),
        Arg::tensor(2, 0, "INT32", &[1], vec![0; 4]),
        Arg::floats(3, 0, &[1], &[1.0]),
    ];
    let report = compare(&a, &b, Tolerance::default());
    let words: Vec<_> = report.differences.iter().map(|d| (d.task.as_str(), d.arg_index)).collect();
    assert_eq!(words, [("t1", 0), ("t1", 1), ("t1", 2), ("t2", 0), ("t3", 0)]);
    let what: Vec<_> = report.differences.iter().map(|d| &d.difference).collect();
    assert!(matches!(what[0], Difference::Dtype { .. }));
    assert!(matches!(what[1], Difference::Shape { .. }));
    assert!(matches!(what[2..], [Difference::Missing, Difference::Kind, Difference::Extra]));
    assert_eq!(report.differences[4].entry_a, None);
}

#[test]
fn what_is_not_there_is_not_called_equal() {
    let whole = Arg::floats(1, 0, &[4], &[1.0; 4]);
    let cut = Arg { truncated: true, bytes: whole.bytes[..8].to_vec(), ..whole.clone() };
    let shed = Arg { truncated: true, bytes: Vec::new(), ..whole.clone() };
    let unmarked = Arg { bytes: Vec::new(), ..whole.clone() };
    let compare =
        |a: &Arg, b: &Arg| compare(std::slice::from_ref(a), std::slice::from_ref(b), Tolerance::default());
    let report = compare(&whole, &cut);
    assert!(report.equal && !report.complete);
    assert_eq!(
        (report.values, &report.uncompared[0].difference),
        (2, &Difference::Payload { a: Payload::Complete, b: Payload::Truncated })
    );
    assert!(!compare(&shed, &shed).complete);
    assert!(!compare(&whole, &unmarked).complete);
    // Neither was asked for.
    assert!(compare(&unmarked, &unmarked).complete);
}

#[test]
fn blocks_of_a_task_are_matched_by_their_order() {
    let block = |value| Arg::floats(7, 0, &[1], &[value]);
    let report = compare(&[block(1.0), block(2.0)], &[block(1.0), block(9.0)], Tolerance::default());
    assert_eq!((report.differences.len(), report.differences[0].occurrence), (1, 1));
    let report = compare(&[block(1.0), block(2.0)], &[block(1.0)], Tolerance::default());
    assert_eq!(report.differences[0].difference, Difference::Missing);
}

/// The order of submits, which `deps.json` knows, is not that of ids when there are rings.
#[test]
fn the_first_task_is_the_first_that_was_submitted() {
    let late = 3;
    let early = 1 << 32 | 2;
    let of = |input: f32, output: f32| {
        [
            Arg::floats(late, 0, &[1], &[input]),
            Arg::floats(late, 1, &[1], &[output]).output(),
            Arg::floats(early, 0, &[1], &[5.0]),
            Arg::floats(early, 1, &[1], &[input]).output(),
        ]
    };
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(a.path(), &of(1.0, 2.0));
    write(b.path(), &of(1.5, 2.5));
    let run = || {
        let (a, b) = (Dump::open(a.path()).unwrap(), Dump::open(b.path()).unwrap());
        diff(&a, &b, &Filter::default(), &Tolerance::default()).unwrap()
    };
    let report = run();
    assert_eq!((report.by_submit, report.first_task.as_deref()), (false, Some("t3")));
    // Its input differed already: it only passed the error on.
    assert_eq!(report.suspect.as_deref(), Some("r1t2"));
    let deps = format!(
        "{{\"tasks\":[{{\"task_id\":\"{early}\"}},{{\"task_id\":\"{late}\"}}],\"tensors\":[],\"edges\":[]}}"
    );
    fs::write(a.path().join("deps.json"), deps).unwrap();
    let report = run();
    assert_eq!((report.by_submit, report.first_task.as_deref()), (true, Some("r1t2")));
    assert_eq!(report.suspect.as_deref(), Some("r1t2"));
}

#[test]
fn large_tensors_are_compared_block_by_block() {
    let n = dump::BLOCK_BYTES + 5;
    let a = vec![7u8; n];
    let mut b = a.clone();
    b[dump::BLOCK_BYTES + 2] = 8;
    let of = |bytes: Vec<u8>| [Arg::tensor(1, 0, "UINT8", &[n as u64], bytes)];
    let report = compare(&of(a), &of(b), Tolerance::default());
    assert_eq!(values(&report).first_index, [dump::BLOCK_BYTES as u64 + 2]);
    assert_eq!(values(&report).compared, n as u64);
}
