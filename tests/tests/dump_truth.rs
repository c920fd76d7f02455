//! What is in a dump: the bytes, the records, and nothing else, at every level, on both platforms.

use dfx_collector::abi::tensor::DataType;
use dfx_host_drain::{DumpLevel, Target};
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{Init, Program, TensorId};
use dfx_sim::run::{ClockKind, HostPace, Rig, RunRequest};
use dfx_tests::dump::{Arg, Dump, Place, tree};
use dfx_tests::{A2A3, PLATFORMS, Run, interop_dir, run_named, run_on};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn request(workload: &str, target: Target, level: DumpLevel) -> RunRequest {
    let mut request = RunRequest { target, clock: ClockKind::Virtual, ..RunRequest::new(workload, "") };
    request.config.dump_args = level;
    request
}

fn assert_complete(what: &str, run: &Run) {
    let report = run.report();
    assert!(report.complete, "{what}: {:#?}", report.reasons);
    assert_eq!((run.outcome.leaked, &run.outcome.wrong_results), (0, &None), "{what}");
    let check = dfx_trace::check::check_dir(&run.outputs()).expect("the directory can be checked");
    assert!(check.complete, "{what}: {}\n{:#?}", check.verdict(), check.findings);
}

/// Issue 4, point 5: the captured dump, field by field but for where payload lies in `args.bin`, which differs from run to
/// run there; and the bytes are what the example's arithmetic gives.
#[test]
fn vector_example_gives_the_captured_manifest() {
    let Some(interop) = interop_dir() else { return };
    let captured = interop.join("a2a3_vector/dump2/default");
    let file = std::fs::read(captured.join("args_dump/args_dump.json")).expect("a capture");
    let captured: Value = serde_json::from_slice(&file).expect("JSON");
    let run = run_named(request("vector_example", A2A3, DumpLevel::Full));
    assert_complete("vector_example", &run);
    let ours = Dump::of(&run);
    let (mut head, mut entries) = (captured.clone(), captured["args"].as_array().expect("args").clone());
    head.as_object_mut().expect("an object").remove("args");
    assert_eq!(ours.head, head);
    assert_eq!(entries.len(), 18);
    let mut found: Vec<Value> = ours.order.iter().map(|place| ours.args[place].entry.clone()).collect();
    for entry in entries.iter_mut().chain(&mut found) {
        entry.as_object_mut().expect("an object").remove("bin_offset");
    }
    assert_eq!(found, entries);

    let (ring, [a, b, c, d, e, g, f]) = (1u64 << 32, [2.0f32, 3.0, 5.0, 6.0, 7.0, 42.0, 47.0]);
    let values = [
        ((0, false, 0), a),
        ((0, false, 1), b),
        ((0, true, 2), c),
        ((ring, false, 0), c),
        ((ring, true, 1), d),
        ((ring | 1, false, 0), c),
        ((ring | 1, true, 1), e),
        ((ring | 2, false, 0), d),
        ((ring | 2, false, 1), e),
        ((ring | 2, true, 2), g),
        ((ring | 3, false, 0), g),
        ((ring | 3, false, 1), c),
        ((ring | 3, true, 2), f),
    ];
    for (place, value) in values {
        let bytes: Vec<u8> = (0..16_384).flat_map(|_| value.to_le_bytes()).collect();
        assert!(ours.args[&place].bytes == bytes, "{place:?} is not {value} everywhere");
    }
}

/// Numbers without a library.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A program of tensors of every kind, and what a full dump of it must hold, with the places that are marked.
struct Truth {
    program: Program,
    bytes: BTreeMap<Place, Vec<u8>>,
    marked: BTreeSet<Place>,
}

/// The bytes of a view in row-major order, element by element.
fn logical(memory: &[u8], width: usize, shape: &[u32], strides: &[u32], start: u64) -> Vec<u8> {
    let numel = shape.iter().map(|&extent| u64::from(extent)).product::<u64>();
    let mut bytes = Vec::new();
    for mut linear in 0..numel {
        let mut element = start;
        for (&extent, &stride) in shape.iter().zip(strides).rev() {
            element += linear % u64::from(extent) * u64::from(stride);
            linear /= u64::from(extent);
        }
        bytes.extend_from_slice(&memory[element as usize * width..][..width]);
    }
    bytes
}

/// A sliced, stepped, transposed view of `of`, or a scalar-like or empty one: id and bytes.
fn view(
    p: &mut ProgramBuilder,
    dice: &mut Dice,
    of: (TensorId, &[u32], &[u8], usize),
) -> Result<(TensorId, Vec<u8>), BuildError> {
    let (id, base, memory, width) = of;
    let mut dims = Vec::new();
    let (mut start, mut inner) = (0u64, 1u32);
    for &extent in base.iter().rev() {
        let (first, step) = (dice.roll(u64::from(extent)), 1 + dice.roll(2));
        let most = (u64::from(extent) - first).div_ceil(step);
        let taken = if dice.roll(40) == 0 { 0 } else { 1 + dice.roll(most) };
        start += first * u64::from(inner);
        dims.push((taken as u32, inner * step as u32));
        inner *= extent;
    }
    for at in (1..dims.len()).rev() {
        dims.swap(at, dice.roll(at as u64 + 1) as usize);
    }
    let (shape, strides): (Vec<u32>, Vec<u32>) = dims.into_iter().unzip();
    let bytes = logical(memory, width, &shape, &strides, start);
    Ok((p.view(id, "view", &shape, &strides, start)?, bytes))
}

fn truth(seed: u64, tasks: u32) -> Result<Truth, BuildError> {
    let mut dice = Dice(seed);
    let mut p = ProgramBuilder::new("truth");
    // Writes its number all over its last argument.
    let k = p.kernel("k", Duration::from_micros(2), |ctx| {
        let out = ctx.tensor(2);
        (0..out.len())
            .for_each(|i| out.set_bits(i, ctx.scalar(0).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ i as u64));
    });
    let mut bases = Vec::new();
    // Every type with every number of dimensions, and no tensor larger than the smallest arena.
    let sizes = [(0, 1), (1, 1000), (2, 32), (3, 10), (4, 5), (5, 4)];
    for (raw, (dims, most)) in (0..15).flat_map(|raw| sizes.map(|size| (raw, size))) {
        let dtype = DataType::from_raw(raw).expect("15 types");
        let width = dtype.bytes() as usize;
        let shape: Vec<u32> = (0..dims).map(|_| (1 + most / 2 + dice.roll(most - most / 2)) as u32).collect();
        let numel = shape.iter().product::<u32>() as usize;
        // All bits, NaNs with their payload among them.
        let memory: Vec<u8> = (0..numel * width).map(|_| dice.roll(256) as u8).collect();
        let id = p.host("base", dtype, &shape, Init::Bytes(memory.as_slice().into()))?;
        bases.push((id, dtype, shape, memory, width));
    }
    let (mut bytes, mut marked) = (BTreeMap::new(), BTreeSet::new());
    for task in 0..tasks {
        let id = u64::from(task);
        let mut submit_args = Vec::new();
        for at in 0..2 {
            let (base, _, shape, memory, width) = &bases[dice.roll(90) as usize];
            let (view, content) = view(&mut p, &mut dice, (*base, shape, memory, *width))?;
            bytes.insert((id, false, at), content);
            submit_args.push(view);
        }
        let (_, dtype, shape, memory, width) = &bases[dice.roll(90) as usize];
        let out = p.tensor("out", *dtype, shape)?;
        let value = |i: usize| (id + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ i as u64;
        let written =
            (0..memory.len() / width).flat_map(|i| value(i).to_le_bytes()[..*width].to_vec()).collect();
        bytes.insert((id, true, 2), written);
        let mut submit = p.submit().aiv(k).input(submit_args[0]).input(submit_args[1]).output(out);
        if task % 3 == 0 {
            submit = submit.dumps(&[submit_args[1], out]);
            marked.extend([(id, false, 1), (id, true, 2)]);
        }
        submit.scalar(id + 1, DataType::Uint64).done()?;
        bytes.insert((id, false, 3), Vec::new());
    }
    Ok(Truth { program: p.build()?, bytes, marked })
}

fn assert_truth(what: &str, truth: &Truth, level: DumpLevel, run: &Run) {
    assert_complete(what, run);
    let dump = Dump::of(run);
    let marked = |place: &Place| truth.marked.contains(place);
    let places: Vec<Place> =
        truth.bytes.keys().copied().filter(|place| level != DumpLevel::Partial || marked(place)).collect();
    assert_eq!(dump.places(), places, "{what}: the set of records");
    let mut sorted = dump.order.clone();
    sorted.sort_unstable();
    assert_eq!(dump.order, sorted, "{what}: the manifest's order");
    for (place, arg) in &dump.args {
        let whole = level != DumpLevel::Hybrid || marked(place);
        let expected: &[u8] = if whole { &truth.bytes[place] } else { &[] };
        assert!(arg.bytes == expected, "{what}: {place:?}: {} has other bytes", arg.entry);
        assert_eq!(arg.entry["truncated"], false, "{what}: {place:?}");
        if place.2 == 3 {
            assert_eq!(
                (arg.text("kind"), arg.entry["value"].as_u64()),
                ("scalar", Some(place.0 + 1)),
                "{what}"
            );
        }
    }
}

/// Every type with every number of dimensions; empty views, extents of 1, views with holes, NaNs with payload bits.
fn assert_everything_occurs(dump: &Dump) {
    let numbers = |arg: &Arg, key: &str| -> Vec<u64> {
        arg.entry[key].as_array().expect("a list").iter().filter_map(Value::as_u64).collect()
    };
    let tensors: Vec<&Arg> = dump.args.values().filter(|arg| arg.text("kind") == "tensor").collect();
    let kinds: BTreeSet<_> =
        tensors.iter().map(|arg| (arg.text("dtype"), numbers(arg, "shape").len())).collect();
    assert_eq!(kinds.len(), 15 * 6);
    let some = |what: &str, is: &dyn Fn(&Arg) -> bool| {
        assert!(tensors.iter().filter(|arg| is(arg)).count() > 20, "{what}");
    };
    some("an empty view", &|arg| numbers(arg, "shape").contains(&0));
    some("an extent of 1", &|arg| numbers(arg, "shape").len() > 1 && numbers(arg, "shape").contains(&1));
    some("a view with holes", &|arg| arg.entry["is_contiguous"] == false);
    some("a transposed view", &|arg| numbers(arg, "strides").is_sorted() && numbers(arg, "shape").len() > 1);
    some("a view from the middle", &|arg| arg.entry["start_offset"].as_u64() > Some(0));
    some("a NaN with a payload", &|arg| {
        let bits = |word: &[u8]| u32::from_le_bytes(word.try_into().expect("four bytes"));
        let nan = |bits: u32| bits & 0x7F80_0000 == 0x7F80_0000 && bits & 0x3F_FFFF != 0;
        arg.text("dtype") == "FLOAT32" && arg.bytes.chunks_exact(4).any(|word| nan(bits(word)))
    });
}

/// Issue 4, points 1 and 2: sets and bytes are exact, also when small arenas wrap hundreds of times under a slow host.
#[test]
fn every_byte_is_true_at_every_level_on_both_platforms() {
    for seed in 1..3 {
        let truth = truth(seed, 300).expect("a program");
        for target in PLATFORMS {
            for level in [DumpLevel::Partial, DumpLevel::Full, DumpLevel::Hybrid] {
                for (arena, pace) in
                    [(128 << 20, HostPace::Threads), (1 << 14, HostPace::Every(Duration::from_micros(300)))]
                {
                    let what =
                        format!("seed {seed}, {} level {}, arena {arena}", target.name(), level as u32);
                    let mut request = request("truth", target, level);
                    request.config.dump_arena_bytes = arena;
                    let rig = Rig { pace, ..Rig::new(target) };
                    assert_truth(&what, &truth, level, &run_on(request, truth.program.clone(), &rig));
                }
            }
        }
    }
}

/// Payload goes round each arena hundreds of times while the host is slow, and nothing is overwritten.
#[test]
fn an_arena_that_wraps_hundreds_of_times_loses_no_byte() {
    let truth = truth(11, 6_000).expect("a program");
    for target in PLATFORMS {
        let mut request = request("truth", target, DumpLevel::Full);
        request.config.dump_arena_bytes = 1 << 13;
        request.config.dump_dedup = false;
        let rig = Rig { pace: HostPace::Every(Duration::from_micros(100)), ..Rig::new(target) };
        let run = run_on(request, truth.program.clone(), &rig);
        assert_truth(target.name(), &truth, DumpLevel::Full, &run);
        let written = run.report().dump.expect("its account").payload_bytes_written;
        let threads = u64::from(target.geometry().default_threads);
        assert!(threads >= 4 && written >= 100 * threads * (1 << 13), "{written} bytes go round too seldom");
        assert_everything_occurs(&Dump::of(&run));
    }
}

/// The same on real threads.
#[test]
fn every_byte_is_true_on_real_threads() {
    let truth = truth(7, 400).expect("a program");
    for target in PLATFORMS {
        let mut request =
            RunRequest { clock: ClockKind::Threads, ..request("truth", target, DumpLevel::Full) };
        request.config.dump_arena_bytes = 1 << 14;
        let run = run_on(request, truth.program.clone(), &Rig::new(target));
        assert_truth(target.name(), &truth, DumpLevel::Full, &run);
    }
}

/// Without marks, level 1 has no record and no artifact, level 3 all records and no payload.
#[test]
fn without_marks_level_1_has_nothing_and_level_3_has_no_payload() {
    let partial = run_named(request("vector_example", A2A3, DumpLevel::Partial));
    assert_complete("level 1", &partial);
    assert_eq!(tree(&partial.outputs()).into_keys().collect::<Vec<_>>(), ["run.json"]);
    let hybrid = run_named(request("vector_example", A2A3, DumpLevel::Hybrid));
    assert_complete("level 3", &hybrid);
    let dump = Dump::of(&hybrid);
    assert_eq!((dump.args.len(), &dump.head["bin_file"]), (18, &Value::Null));
    assert!(dump.args.values().all(|arg| arg.bytes.is_empty()));
}

/// Virtual time: one seed, the same bytes, whatever else is recorded.
#[test]
fn one_seed_gives_the_same_bytes_with_the_dump_on() {
    for target in PLATFORMS {
        for workload in ["paged_attention", "mixed", "scopes"] {
            let once = || {
                let mut request = request(workload, target, DumpLevel::Full);
                request.config.chip_swimlane = dfx_collector::abi::swimlane::Level::OrchPhases;
                request.config.dep_gen = true;
                let run = run_named(request);
                assert_complete(workload, &run);
                tree(&run.outputs())
            };
            assert!(once() == once(), "{workload} on {}", target.name());
        }
    }
}
