//! The manifest is read strictly, and bits mean what the formats' definitions say.

mod dump_common;

use dfx_trace::dump::{
    self, Dtype, Dump, DumpError, Filter, Manifest, Payload, PrintOptions, Role, Stage, TaskSelector, Value,
};
use dump_common::{Arg, dump, find, interop, manifest};
use std::fs;

fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    let mut values = Vec::new();
    dtype.decode(bytes, &mut values);
    values
}

/// A float by its definition: sign, exponent with its bias, mantissa; computed, not by moving bits.
fn by_definition(code: u32, exponent_bits: u32, mantissa_bits: u32) -> (f64, u32, u32) {
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let sign = if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
    let mantissa = code & ((1 << mantissa_bits) - 1);
    let fraction = f64::from(mantissa) / f64::from(1u32 << mantissa_bits);
    let value = match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        e => (1.0 + fraction) * 2f64.powi(e as i32 - bias),
    };
    (sign * value, exponent, mantissa)
}

fn same(found: f64, expected: f64, code: u32) {
    let equal = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
    assert!(equal, "{code:#x}: {found:e}, expected {expected:e}");
}

#[test]
fn every_half_is_what_its_bits_say() {
    for bits in 0..=u16::MAX {
        for (dtype, exponent_bits, mantissa_bits) in [(Dtype::Float16, 5, 10), (Dtype::Bfloat16, 8, 7)] {
            let (value, exponent, mantissa) = by_definition(bits.into(), exponent_bits, mantissa_bits);
            let expected = match (exponent == (1 << exponent_bits) - 1, mantissa) {
                (true, 0) => f64::INFINITY.copysign(value),
                (true, _) => f64::NAN,
                _ => value,
            };
            same(decode(dtype, &bits.to_le_bytes())[0], expected, bits.into());
        }
    }
}

#[test]
fn every_code_of_the_small_floats_is_what_its_table_says() {
    for code in 0..=u8::MAX {
        let (value, ..) = by_definition(code.into(), 4, 3);
        let expected = if code & 0x7f == 0x7f { f64::NAN } else { value };
        same(decode(Dtype::Fp8E4m3fn, &[code])[0], expected, code.into());
        let expected = if code == 255 { f64::NAN } else { 2f64.powi(i32::from(code) - 127) };
        same(decode(Dtype::Fp8E8m0, &[code])[0], expected, code.into());
        // Two a byte, the low nibble first; E2M1 has neither infinities nor NaN.
        let nibbles = [code & 15, code >> 4].map(|nibble| by_definition(nibble.into(), 2, 1).0);
        let found = decode(Dtype::Fp4E2m1, &[code]);
        assert_eq!(found.len(), 2);
        same(found[0], nibbles[0], code.into());
        same(found[1], nibbles[1], code.into());
    }
    assert_eq!(decode(Dtype::Fp8E4m3fn, &[0x7e, 0x01, 0x08, 0x38]), [448.0, 1.0 / 512.0, 1.0 / 64.0, 1.0]);
    assert_eq!(decode(Dtype::Fp4E2m1, &[0x10, 0x32, 0x54, 0x76]), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
}

#[test]
fn integers_and_booleans_are_exact() {
    let bytes = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let exact = |dtype: Dtype| {
        let mut values = Vec::new();
        dtype.decode_exact(&bytes, &mut values);
        values
    };
    assert_eq!(exact(Dtype::Int64), [i128::from(i64::MAX)]);
    assert_eq!(exact(Dtype::Uint64), [0x7fff_ffff_ffff_ffff]);
    assert_eq!(exact(Dtype::Int32), [-1, 0x7fff_ffff]);
    assert_eq!(exact(Dtype::Uint32), [0xffff_ffff, 0x7fff_ffff]);
    assert_eq!(exact(Dtype::Int16), [-1, -1, -1, 0x7fff]);
    assert_eq!(exact(Dtype::Uint16), [0xffff, 0xffff, 0xffff, 0x7fff]);
    assert_eq!(exact(Dtype::Int8), [-1, -1, -1, -1, -1, -1, -1, 127]);
    assert_eq!(exact(Dtype::Uint8)[6..], [255, 127]);
    assert_eq!(decode(Dtype::Bool, &[0, 1, 2, 255]), [0.0, 1.0, 1.0, 1.0]);
    assert_eq!(decode(Dtype::Int8, &[0x80, 0x7f]), [-128.0, 127.0]);
    assert_eq!(decode(Dtype::Float32, &1.5f32.to_le_bytes()), [1.5]);
}

#[test]
fn the_references_manifests_are_read_and_listed_as_its_viewer_lists_them() {
    let Some(interop) = interop() else { return };
    let manifests = find(&interop, "args_dump.json");
    assert!(manifests.len() > 15, "{manifests:?}");
    for path in &manifests {
        let dump = Dump::open(path).unwrap();
        assert!(dump.manifest.remarks().is_empty(), "{}: {:?}", path.display(), dump.manifest.remarks());
        assert_eq!(dump.manifest.records.len() as u64, dump.manifest.total_args);
    }
    let lists = find(&interop, "dump_viewer_list.txt");
    assert!(lists.len() > 5);
    for path in lists {
        let dump = Dump::open(path.parent().unwrap().parent().unwrap()).unwrap();
        let mut ours = Vec::new();
        dump::write_list(&mut ours, &dump, &dump.select(&Filter::default())).unwrap();
        let ours = String::from_utf8(ours).unwrap();
        let theirs = fs::read_to_string(&path).unwrap();
        assert_eq!(ours.lines().count(), theirs.lines().count());
        for (mine, reference) in ours.lines().zip(theirs.lines()) {
            // Behind its columns we say what it does not: a scalar's value, what became of the payload.
            assert!(mine.starts_with(reference), "{}:\n{mine}\n{reference}", path.display());
        }
    }
}

/// The text of a good manifest, changed; where the error points and what it says.
fn refused(change: impl Fn(String) -> String, words: &[&str]) {
    let good = manifest(&[Arg::floats(7, 0, &[2], &[1.0, 2.0]), Arg::scalar(7, 1, "INT32", "-5")]);
    let text = change(good.clone());
    assert_ne!(text, good);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("args_dump.json");
    fs::write(&path, text).unwrap();
    let error = Manifest::read(&path).unwrap_err();
    let DumpError::Parse { line, column, .. } = &error else { panic!("{error}") };
    assert!(*line > 0 && *line <= 23 && *column < 400, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "no `{word}` in: {error}");
    }
}

#[test]
fn a_malformed_manifest_is_refused_with_its_place() {
    let swap = |from: &'static str, to: &'static str| move |text: String| text.replacen(from, to, 1);
    refused(|text| text[..text.len() / 2].into(), &["EOF"]);
    refused(|text| text + "x", &["trailing"]);
    refused(swap("\"dtype\": \"FLOAT32\"", "\"dtype\": \"FLOAT33\""), &["line 19", "FLOAT33", "BFLOAT16"]);
    refused(swap("\"role\": \"input\"", "\"role\": \"in\""), &["line 19", "`in`", "inout"]);
    refused(swap("0x0000000000000007", "0x7"), &["line 19", "0x7", "16 hexadecimal digits"]);
    refused(swap("0x0000000000000007", "0x+000000000000007"), &["16 hexadecimal digits"]);
    refused(swap("\"numel\": 2", "\"numel\": 3"), &["numel is 3", "has 2"]);
    refused(swap("\"bin_size\": 8", "\"bin_size\": 7"), &["bin_size is 7", "are 8 bytes"]);
    refused(swap("\"shape\": [2]", "\"shape\": [2, 1]"), &["1 strides for 2 dimensions"]);
    refused(swap("\"shape\": [2]", "\"shape\": [1,1,1,1,1,2]"), &["at most 5"]);
    refused(swap("\"shape\": [2]", "\"shape\": [-2]"), &["-2"]);
    refused(swap("\"shape\": [2]", "\"shape\": [4294967296]"), &["4294967296"]);
    refused(swap("\"arg_index\": 0, ", ""), &["missing field `arg_index`"]);
    refused(swap("\"arg_index\": 0, ", "\"arg_index\": 0, \"arg_index\": 0, "), &["duplicate field"]);
    refused(swap("\"arg_index\": 0, ", "\"arg_index\": 0, \"other\": 0, "), &["unknown field `other`"]);
    refused(swap("\"bin_offset\": 0", "\"bin_offset\": 18446744073709551615"), &["beyond 64 bits"]);
    refused(swap("\"value\": -5, ", ""), &["scalar without its value"]);
    refused(swap("\"value\": -5, ", "\"value\": \"x\", "), &["\"x\"", "$Inf"]);
    refused(swap("\"value\": -5, ", "\"value\": 1.5, "), &["none of INT32"]);
    refused(swap("little_endian", "big_endian"), &["byte_order", "big_endian", "little_endian"]);
    refused(swap("logical_contiguous", "raw"), &["type", "raw"]);
    refused(swap("\"dump_args_level\": 2", "\"dump_args_level\": 4"), &["1 to 3"]);
    refused(swap("\"args.bin\"", "\"../args.bin\""), &["bin_file", "beside it"]);
}

#[test]
fn huge_shapes_overflow_nothing() {
    // More elements than 64 bits count.
    let huge = Arg::tensor(1, 0, "FLOAT32", &[u64::from(u32::MAX); 5], Vec::new());
    let dir = tempfile::tempdir().unwrap();
    dump_common::write(dir.path(), &[huge]);
    let error = Dump::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("more elements than 64 bits"), "{error}");
    // As many as 64 bits can count, in more bytes than they can: a metadata record, and one cut short.
    let shape = [u64::from(u32::MAX), u64::from(u32::MAX)];
    let metadata = Arg::tensor(1, 0, "INT64", &shape, Vec::new());
    let cut = Arg { truncated: true, ..Arg::tensor(1, 1, "INT64", &shape, vec![1; 20]) };
    let empty = Arg::tensor(1, 2, "INT64", &[u64::from(u32::MAX), 0, u64::from(u32::MAX), 7, 9], Vec::new());
    let (_dir, dump) = dump_common::dump(&[metadata, cut, empty]);
    assert_eq!(dump.record(0).payload(), Payload::NotCaptured);
    assert_eq!(dump.record(1).stored_values(), 2, "half a value is none");
    assert_eq!(printed(&dump, 1), "[72340172838076673 72340172838076673]");
    assert_eq!(dump.record(2).payload(), Payload::Complete);
    assert_eq!(printed(&dump, 2), "[]");
    let out = dump.dir.join("out");
    let exported = dump::export_txt(&dump, &[0, 1, 2], &out).unwrap();
    assert_eq!((exported.files.len(), exported.without_values, exported.cut_short), (2, 1, 1));
    dump::export_npy(&dump, &[0, 1, 2], &out, false).unwrap();
    assert_eq!(dump::stats(&dump, &[0, 1, 2]).unwrap()[1].count, 2);
}

#[test]
fn payload_that_is_not_in_the_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    dump_common::write(dir.path(), &[Arg::floats(7, 0, &[2], &[1.0; 2]), Arg::floats(7, 1, &[2], &[1.0; 2])]);
    let bin = dir.path().join("args_dump/args.bin");
    fs::write(&bin, [0; 15]).unwrap();
    let error = Dump::open(dir.path()).unwrap_err().to_string();
    for word in ["args.bin has 15 bytes", "t7 before in1", "entry 1", "at 8 with 8"] {
        assert!(error.contains(word), "no `{word}` in: {error}");
    }
    fs::remove_file(&bin).unwrap();
    assert!(matches!(Dump::open(dir.path()), Err(DumpError::Io { path, .. }) if path == bin));
    let manifest = dir.path().join("args_dump/args_dump.json");
    let text = fs::read_to_string(&manifest).unwrap().replace("\"args.bin\"", "null");
    fs::write(&manifest, text).unwrap();
    assert!(matches!(Dump::open(dir.path()), Err(DumpError::NoBin { index: 0, .. })));
}

#[test]
fn a_directory_without_a_dump_says_how_to_make_one() {
    let dir = tempfile::tempdir().unwrap();
    let error = Dump::open(dir.path()).unwrap_err();
    assert!(
        matches!(&error, DumpError::NoDump { .. }) && error.to_string().contains("--dump-args=2"),
        "{error}"
    );
    assert!(matches!(Dump::open(&dir.path().join("none")), Err(DumpError::Io { .. })));
    // A dump of nothing is one.
    let (_dir, dump) = dump(&[]);
    assert!(dump.manifest.records.is_empty() && dump.manifest.remarks().is_empty());
}

#[test]
fn what_became_of_a_payload_is_told() {
    let whole = Arg::floats(1, 0, &[2], &[1.0, 2.0]);
    let reference = Arg { shared: true, ..Arg::floats(1, 1, &[2], &[1.0, 2.0]) };
    let cut = Arg { truncated: true, ..Arg::tensor(1, 2, "FLOAT32", &[4], vec![0; 8]) };
    let shed = Arg { truncated: true, ..Arg::tensor(1, 3, "FLOAT32", &[4], Vec::new()) };
    let lost = Arg { overwritten: true, ..Arg::tensor(1, 4, "FLOAT32", &[4], Vec::new()) };
    let unmarked = Arg::tensor(1, 5, "FLOAT32", &[4], Vec::new());
    let unknown = Arg::tensor(1, 6, "UNKNOWN", &[4], vec![1, 0xab, 0, 255]);
    let (_dir, dump) = dump(&[whole, reference, cut, shed, lost, unmarked, unknown]);
    let payloads: Vec<_> = dump.manifest.records.iter().map(dump::Record::payload).collect();
    use Payload::*;
    assert_eq!(payloads, [Complete, Complete, Truncated, Shed, Overwritten, NotCaptured, Complete]);
    assert_eq!(dump.record(0).bin_offset, dump.record(1).bin_offset);
    assert_eq!(printed(&dump, 1), "[1 2]");
    assert_eq!(printed(&dump, 2), "[0 0]");
    assert_eq!(printed(&dump, 3), "");
    assert_eq!(printed(&dump, 6), "[0x01 0xab 0x00 0xff]");
    let remarks = dump.manifest.remarks();
    assert_eq!(remarks.len(), 2, "{remarks:?}");
}

#[test]
fn scalars_are_what_either_writer_meant() {
    let cases = [
        ("FLOAT32", "1.0", Value::Float(1.0)),
        ("FLOAT32", "1e+06", Value::Float(1e6)),
        ("FLOAT32", "\"-$Inf\"", Value::Float(f64::NEG_INFINITY)),
        ("INT8", "255", Value::Int(-1)),
        ("INT8", "-1", Value::Int(-1)),
        ("INT16", "65535", Value::Int(-1)),
        ("UINT8", "255", Value::Uint(255)),
        ("UINT64", "18446744073709551615", Value::Uint(u64::MAX)),
        ("INT64", "-9223372036854775808", Value::Int(i64::MIN)),
        ("FLOAT16", "15360", Value::Float(1.0)),
        ("FLOAT16", "1.5", Value::Float(1.5)),
        ("BFLOAT16", "16256", Value::Float(1.0)),
        ("FP8E4M3FN", "126", Value::Float(448.0)),
        ("BOOL", "true", Value::Bool(true)),
    ];
    for (dtype, text, expected) in cases {
        let (_dir, dump) = dump(&[Arg::scalar(1, 0, dtype, text)]);
        assert_eq!(dump.record(0).value, Some(expected), "{dtype} {text}");
    }
    let (_dir, dump) = dump(&[Arg::scalar(1, 0, "FLOAT32", "null")]);
    assert!(matches!(dump.record(0).value, Some(Value::Float(v)) if v.is_nan()));
}

#[test]
fn tasks_are_named_in_four_ways() {
    for (text, id) in [
        ("0x0000000200000007", 0x2_0000_0007),
        ("0x200000007", 0x2_0000_0007),
        ("8589934599", 0x2_0000_0007),
        ("r2t7", 0x2_0000_0007),
        ("t7", 7),
        ("r0t7", 7),
        ("0", 0),
        ("0xffffffffffffffff", u64::MAX),
    ] {
        assert_eq!(text.parse(), Ok(TaskSelector(id)), "{text}");
    }
    for text in ["", "0x", "x7", "r2", "r2t", "rt7", "r256t1", "t4294967296", "-1", "+1", "0x+1", "t+1", "1 "]
    {
        assert!(text.parse::<TaskSelector>().unwrap_err().contains("r<ring>t<local>"), "{text}");
    }
}

#[test]
fn filters_are_joined() {
    let args = [
        Arg::floats(1, 0, &[1], &[1.0]),
        Arg::scalar(1, 1, "INT32", "4"),
        Arg::floats(1, 2, &[1], &[1.0]).output(),
        Arg::floats(1 << 32, 0, &[1], &[1.0]),
    ];
    let (_dir, dump) = dump(&args);
    let select = |filter: Filter| dump.select(&filter);
    assert_eq!(select(Filter::default()), [0, 1, 2, 3]);
    assert_eq!(select(Filter { tasks: vec!["t1".parse().unwrap()], ..Filter::default() }), [0, 1, 2]);
    assert_eq!(select(Filter { stage: Some(Stage::AfterCompletion), ..Filter::default() }), [2]);
    assert_eq!(select(Filter { role: Some(Role::Input), index: Some(0), ..Filter::default() }), [0, 3]);
    assert_eq!(select(Filter { dtype: Some(Dtype::Int32), ..Filter::default() }), [1]);
    assert_eq!(select(Filter { func: Some(2), ..Filter::default() }), [2]);
    assert_eq!(select(Filter { func: Some(-1), ..Filter::default() }), [0, 1, 2, 3]);
}

/// The values of an entry as they are printed, without the line above them.
fn printed(dump: &Dump, index: usize) -> String {
    let options = PrintOptions { threshold: 12, edge: 2, width: 40 };
    let mut out = Vec::new();
    dump::print_values(&mut out, dump, index, &options).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.split_once('\n').unwrap().1.trim_end().to_owned()
}

#[test]
fn arrays_are_printed_as_numpy_prints_them() {
    let count = |n: u32| (0..n).map(|i| i as f32).collect::<Vec<_>>();
    let args = [
        Arg::floats(1, 0, &[2, 3], &count(6)),
        Arg::floats(1, 1, &[2, 2, 2], &count(8)),
        Arg::floats(1, 2, &[5, 6], &count(30)),
        Arg::floats(1, 3, &[100], &count(100)),
        Arg::floats(1, 4, &[12], &[123_456.0; 12]),
        Arg::tensor(1, 5, "FP4E2M1", &[2, 1], vec![0x21, 0xf4]),
        Arg::tensor(1, 6, "FP4E2M1", &[8], (0..8).collect()),
        Arg::tensor(1, 7, "BOOL", &[2], vec![0, 1]),
        Arg::floats(1, 8, &[], &[-2.5]),
        Arg::scalar(1, 9, "INT32", "-5"),
    ];
    let (_dir, dump) = dump(&args);
    assert_eq!(printed(&dump, 0), "[[0 1 2]\n [3 4 5]]");
    assert_eq!(printed(&dump, 1), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
    let middle = "[[ 0  1 ...  4  5]\n [ 6  7 ... 10 11]\n ...\n [18 19 ... 22 23]\n [24 25 ... 28 29]]";
    assert_eq!(printed(&dump, 2), middle);
    assert_eq!(printed(&dump, 3), "[ 0  1 ... 98 99]");
    let wrapped = "[123456 123456 123456 123456 123456\n 123456 123456 123456 123456 123456\n 123456 123456]";
    assert_eq!(printed(&dump, 4), wrapped);
    assert_eq!(printed(&dump, 5), "[[0.5   1]\n [  2  -6]]");
    assert_eq!(printed(&dump, 6), "[0 0 ... 6 0]");
    // Of 16 values the last three begin within a byte.
    let mut three = Vec::new();
    let options = PrintOptions { threshold: 12, edge: 3, width: 40 };
    dump::print_values(&mut three, &dump, 6, &options).unwrap();
    assert!(three.ends_with(b"\n[  0   0 0.5 ...   0   6   0]\n"), "{}", String::from_utf8_lossy(&three));
    assert_eq!(printed(&dump, 7), "[False  True]");
    assert_eq!(printed(&dump, 8), "-2.5");
    assert_eq!(printed(&dump, 9), "-5");
}
