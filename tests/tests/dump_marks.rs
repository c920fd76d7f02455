//! Marks follow values, not names: every row of the user's table, at every level.

use dfx_collector::abi::tensor::DataType::Float32;
use dfx_host_drain::DumpLevel;
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{KernelId, Program, TensorId};
use dfx_sim::run::{ClockKind, Rig, RunRequest};
use dfx_tests::dump::{Dump, Place};
use dfx_tests::{A2A3, Run, run_on};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A program with a kernel and a value `q` on the host.
fn begin() -> Result<(ProgramBuilder, KernelId, TensorId), BuildError> {
    let mut p = ProgramBuilder::new("marks");
    let k = p.kernel("k", Duration::from_micros(1), |_| {});
    let q = p.host_f32("q", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    Ok((p, k, q))
}

fn run(level: DumpLevel, program: Program, tags: &[&str]) -> Run {
    let mut request = RunRequest { clock: ClockKind::Virtual, ..RunRequest::new("marks", "") };
    request.config.dump_args = level;
    request.dump_tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let run = run_on(request, program, &Rig::new(A2A3));
    assert_eq!(run.outcome.leaked, 0);
    run
}

/// What a partial dump of `program` has; that it warns of `unmatched` and is complete.
fn partial(program: Program, unmatched: &[&str]) -> Vec<Place> {
    let run = run(DumpLevel::Partial, program, &[]);
    assert_eq!(run.outcome.unmatched_marks, unmatched);
    let report = run.report();
    assert!(report.complete, "{:#?}", report.reasons);
    let named: Vec<String> = unmatched.iter().map(|name| format!("unmatched_mark:{name}")).collect();
    assert_eq!(report.anomalies.keys().cloned().collect::<Vec<_>>(), named);
    if run.outputs().join("args_dump/args_dump.json").exists() { Dump::of(&run).places() } else { Vec::new() }
}

#[test]
fn a_tag_covers_every_later_submit_of_that_value_and_no_earlier_one() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    let other = p.host_f32("other", &[1], &[1.0])?;
    p.submit().aiv(k).input(q).done()?;
    p.dump_tag(q)?;
    p.submit().aiv(k).input(other).input(q).done()?;
    p.call(k).inout(q).input(other).done()?;
    assert_eq!(partial(p.build()?, &[]), [(1, false, 1), (2, false, 0), (2, true, 0)]);
    Ok(())
}

#[test]
fn dumps_covers_this_launch_only_and_must_name_an_argument() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    let out = p.tensor("out", Float32, &[1])?;
    p.manual_scope_begin();
    let first = p.submit().aiv(k).input(q).output(out).dumps(&[q, out]).done()?;
    p.submit().aiv(k).input(q).input(out).deps(&[first]).done()?;
    p.scope_end()?;
    let stranger = p.host_f32("stranger", &[1], &[0.0])?;
    let refused = p.submit().aiv(k).input(q).dumps(&[stranger]).done();
    let Err(BuildError::MarkOfNoArgument { what, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(what, "`stranger`");
    let ring = 1 << 32;
    assert_eq!(partial(p.build()?, &[]), [(ring, false, 0), (ring, true, 1)]);
    Ok(())
}

#[test]
fn a_mark_on_a_whole_task_covers_its_scalars_and_all_blocks_give_one_record() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    p.submit().aiv(k).blocks(9).inout(q).f32(0.1).u32(3).dump_task().done()?;
    p.submit().aiv(k).input(q).done()?;
    assert_eq!(partial(p.build()?, &[]), [(0, false, 0), (0, false, 1), (0, false, 2), (0, true, 0)]);
    Ok(())
}

#[test]
fn a_mark_on_a_scalar_covers_it_alone_and_says_where_another_is_its_like() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    let scalars = |p: &mut ProgramBuilder, n: usize, like: u32| {
        p.submit().aiv(k).dump_scalar(n).inout(q).u32(7).f32(7.0).u32(like).done()
    };
    scalars(&mut p, 2, 7)?;
    scalars(&mut p, 1, 7)?;
    scalars(&mut p, 0, 8)?;
    let refused = scalars(&mut p, 3, 8);
    let Err(BuildError::MarkOfNoArgument { what, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(what, "scalar 3");
    p.submit().aiv(k).input(q).u32(7).predicate(false).dump_scalar(0).done()?;
    let run = run(DumpLevel::Partial, p.build()?, &[]);
    let dump = Dump::of(&run);
    assert_eq!(dump.places(), [(0, false, 3), (1, false, 2), (2, false, 1)]);
    let said: Vec<_> = dump
        .args
        .values()
        .map(|arg| (&arg.entry["dtype"], &arg.entry["value"], arg.entry["arg_index_ambiguous"] == true))
        .map(|(dtype, value, ambiguous)| (dtype.as_str().expect("a word"), value.as_f64(), ambiguous))
        .collect();
    assert_eq!(
        said,
        [("UINT32", Some(7.0), true), ("FLOAT32", Some(7.0), false), ("UINT32", Some(7.0), false)]
    );
    assert_eq!(run.outcome.unmatched_marks, ["scalar 0 of submit 3 (k)"], "it never ran");
    Ok(())
}

#[test]
fn a_rebound_value_is_not_covered_and_the_mark_is_named() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    p.dump_tag(q)?;
    let again = p.rebind(q)?;
    p.submit().aiv(k).input(again).done()?;
    assert_eq!(partial(p.build()?, &["q"]), []);
    Ok(())
}

#[test]
fn a_transformed_value_is_not_covered_until_it_is_marked_itself() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    p.dump_tag(q)?;
    let flat = p.view(q, "flat", &[6], &[1], 0)?;
    p.submit().aiv(k).input(flat).done()?;
    p.dump_tag(flat)?;
    p.submit().aiv(k).input(flat).done()?;
    assert_eq!(partial(p.build()?, &["q"]), [(1, false, 0)]);
    Ok(())
}

#[test]
fn dumps_on_a_plain_call_is_refused() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    for refused in [
        p.call(k).input(q).dumps(&[q]).done(),
        p.call(k).input(q).u32(1).dump_scalar(0).done(),
        p.call(k).input(q).dump_task().done(),
    ] {
        let Err(error @ BuildError::DumpsOnPlainCall { .. }) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains("use dump_tag before it, or submit"), "{error}");
    }
    assert_eq!(p.submit().aiv(k).input(q).done()?.0, 0, "what was refused was not submitted");
    Ok(())
}

#[test]
fn a_mark_inside_a_kernel_is_refused() -> Result<(), BuildError> {
    let said = Arc::new(Mutex::new(None));
    let mut p = ProgramBuilder::new("marks");
    let heard = Arc::clone(&said);
    let k = p.kernel("inner", Duration::from_micros(1), move |ctx| {
        *heard.lock().expect("unpoisoned") = ctx.dump_tag(&ctx.tensor(0)).err();
    });
    let q = p.host_f32("q", &[1], &[1.0])?;
    p.submit().aiv(k).input(q).done()?;
    assert_eq!(partial(p.build()?, &[]), []);
    let said = said.lock().expect("unpoisoned").take();
    assert_eq!(said, Some(BuildError::MarkInKernel { kernel: "inner".into() }));
    Ok(())
}

#[test]
fn marks_are_inert_at_levels_0_and_2() -> Result<(), BuildError> {
    let program = |mark: bool| {
        let (mut p, k, q) = begin()?;
        let unused = p.host_f32("unused", &[1], &[1.0])?;
        if mark {
            p.dump_tag(q)?;
            p.dump_tag(unused)?;
        }
        p.submit().aiv(k).inout(q).f32(0.5).done()?;
        p.build()
    };
    let plain = run(DumpLevel::Full, program(false)?, &[]);
    let marked = run(DumpLevel::Full, program(true)?, &[]);
    assert_eq!(Dump::of(&plain), Dump::of(&marked));
    assert_eq!(
        (plain.report().anomalies.len(), marked.report().anomalies.len()),
        (0, 0),
        "nothing to warn of"
    );
    let off = run(DumpLevel::Off, program(true)?, &["q"]);
    assert!(off.outcome.dir.is_none() && off.outcome.unmatched_marks.is_empty());
    Ok(())
}

#[test]
fn a_value_given_twice_is_dumped_at_both_places_and_both_say_that_they_are_ambiguous()
-> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    let other = p.host_f32("other", &[1], &[1.0])?;
    p.submit().aiv(k).input(q).input(other).inout(q).dumps(&[q, other]).done()?;
    let run = run(DumpLevel::Partial, p.build()?, &[]);
    let dump = Dump::of(&run);
    assert_eq!(dump.places(), [(0, false, 0), (0, false, 1), (0, false, 2), (0, true, 2)]);
    for (place, arg) in &dump.args {
        assert_eq!(arg.entry["arg_index_ambiguous"] == true, place.2 != 1, "{place:?}");
    }
    Ok(())
}

#[test]
fn marking_by_name_covers_every_value_of_that_name_wherever_it_is_used() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    p.submit().aiv(k).input(q).done()?;
    let again = p.rebind(q)?;
    p.submit().aiv(k).input(again).done()?;
    let run = run(DumpLevel::Partial, p.build()?, &["q", "nobody"]);
    assert_eq!(Dump::of(&run).places(), [(0, false, 0), (1, false, 0)]);
    assert_eq!(run.outcome.unmatched_marks, ["nobody"]);
    assert!(run.report().complete, "a mark that matched nothing is odd, not incomplete");
    Ok(())
}

#[test]
fn a_mark_on_a_task_that_never_runs_is_named() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    p.submit().aiv(k).input(q).predicate(false).dumps(&[q]).done()?;
    assert_eq!(partial(p.build()?, &["q"]), []);
    Ok(())
}

/// Beyond 48 arguments there is no submit, so that every argument has its bit.
#[test]
fn the_largest_task_is_dumped_whole_and_a_larger_one_is_refused() -> Result<(), BuildError> {
    let (mut p, k, q) = begin()?;
    let with = |p: &mut ProgramBuilder, tensors: u32, scalars: u32| {
        let mut submit = p.submit().aiv(k).dump_task();
        submit = (0..tensors).fold(submit, |submit, _| submit.input(q));
        (0..scalars).fold(submit, |submit, at| submit.u32(at)).done()
    };
    assert!(matches!(with(&mut p, 33, 0), Err(BuildError::OutOfRange { value: 33, max: 32, .. })));
    assert!(matches!(with(&mut p, 48, 17), Err(BuildError::OutOfRange { .. })));
    with(&mut p, 32, 16)?;
    let run = run(DumpLevel::Partial, p.build()?, &[]);
    let dump = Dump::of(&run);
    assert_eq!(dump.places(), (0..48).map(|at| (0, false, at)).collect::<Vec<_>>());
    assert!((0..16).all(|at| dump.args[&(0, false, 32 + at)].entry["value"] == at));
    Ok(())
}
