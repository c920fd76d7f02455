//! `dfx dump diff`.

use super::{FilterArgs, open, to_stdout};
use crate::exit::Done;
use anyhow::{Result, bail};
use dfx_trace::dump::{self, Compared, DiffReport, Difference, Number, Tolerance};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Compare two dumps and find the first task that went wrong\n\nRecords are matched by task, stage, argument and role. \
Values are close as in numpy.isclose(A, B): |a - b| <= atol + rtol * |b|. Exit status 0: equal within the tolerance; \
1: they differ; 3: nothing differs, but not everything could be compared.",
    after_help = "Example:\n  dfx dump diff build_output/good build_output/bad --rtol 1e-3"
)]
pub(super) struct Args {
    /// A dump
    a: PathBuf,
    /// The dump that it should be like
    b: PathBuf,
    #[command(flatten)]
    filter: FilterArgs,
    /// Tolerance relative to B's value
    #[arg(long, value_name = "R", default_value_t = Tolerance::default().rtol, value_parser = tolerance)]
    rtol: f64,
    /// Absolute tolerance; with both 0 only equal values are equal
    #[arg(long, value_name = "R", default_value_t = Tolerance::default().atol, value_parser = tolerance)]
    atol: f64,
    /// NaN equals NaN
    #[arg(long)]
    equal_nan: bool,
    /// List at most so many differences
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON on stdout, with all differences
    #[arg(long)]
    json: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| format!("`{text}` is no tolerance; expected a number from 0 on, for example 1e-3"))
}

pub(super) fn main(args: &Args) -> Result<Done> {
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let Args { rtol, atol, equal_nan, .. } = *args;
    let report = dump::diff(&a, &b, &args.filter.filter(), &Tolerance { rtol, atol, equal_nan })?;
    if report.pairs == 0 && report.equal {
        eprintln!("note: there is nothing to compare");
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        to_stdout(|out| table(out, &report, args.limit));
    }
    if let Some(first) = report.differences.first() {
        bail!(
            "the dumps differ: {} of {} arguments, first {} {} {}{}: {}",
            report.differences.len(),
            report.pairs,
            first.task,
            first.stage.short(),
            first.role.short(),
            first.arg_index,
            what(&first.difference)
        );
    }
    Ok(if report.complete { Done::Complete } else { Done::Incomplete })
}

fn table(out: &mut dyn Write, report: &DiffReport, limit: usize) -> io::Result<()> {
    rows(out, "different", &report.differences, limit)?;
    rows(out, "not compared", &report.uncompared, limit)?;
    let order = if report.by_submit { "submit order" } else { "order of task ids" };
    if let Some(first) = &report.first_task {
        writeln!(out, "first task that differs, in {order}: {first}")?;
    }
    match &report.suspect {
        Some(suspect) => {
            writeln!(out, "suspect: {suspect}, whose dumped inputs agree and whose outputs do not")?
        }
        None if report.equal => {
            let qualified = if report.complete { "" } else { " as far as they can be compared" };
            writeln!(out, "equal{qualified}: {} arguments, {} values", report.pairs, report.values)?;
        }
        None => {
            writeln!(out, "suspect: none; no task with differing outputs has its inputs dumped and equal")?
        }
    }
    let (abs, rel) = (Number::Float(report.max_abs), Number::Float(report.max_rel));
    writeln!(out, "greatest error: absolute {abs}, relative {rel}, in {} values", report.values)
}

fn rows(out: &mut dyn Write, title: &str, list: &[Compared], limit: usize) -> io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}: {}", list.len())?;
    for row in list.iter().take(limit) {
        let (stage, role) = (row.stage.short(), row.role.short());
        let again = if row.occurrence > 0 { format!(" ({})", row.occurrence) } else { String::new() };
        let (task, index) = (&row.task, row.arg_index);
        writeln!(out, "  {task:>8}  {stage:>6}  {role}{index}{again}: {}", what(&row.difference))?;
    }
    if list.len() > limit {
        writeln!(out, "  and {} more: raise --limit, or --json for all", list.len() - limit)?;
    }
    Ok(())
}

/// A difference in a few words.
fn what(difference: &Difference) -> String {
    match difference {
        Difference::Missing => "only in A".into(),
        Difference::Extra => "only in B".into(),
        Difference::Kind => "a tensor on one side, a scalar on the other".into(),
        Difference::Dtype { a, b } => format!("{} against {}", a.name(), b.name()),
        Difference::Shape { a, b } => format!("shape {a:?} against {b:?}"),
        Difference::Payload { a, b } => {
            let word = |payload: &dump::Payload| payload.words();
            format!("payload: {} against {}", word(a), word(b))
        }
        Difference::Values(found) => {
            let (a, b) = (exactly(found.first_a), exactly(found.first_b));
            let nan = match found.both_nan {
                0 => String::new(),
                n => format!(", {n} NaN on both sides (--equal-nan)"),
            };
            format!(
                "{} of {} values{nan}, first at {:?}: {a} against {b}, greatest error {} absolute, {} relative",
                found.differing,
                found.compared,
                found.first_index,
                Number::Float(found.max_abs),
                Number::Float(found.max_rel),
            )
        }
    }
}

/// A value with all its digits: two that differ must not look the same.
fn exactly(number: Number) -> String {
    match number {
        Number::Int(value) => value.to_string(),
        Number::Float(value) if value.is_nan() => "nan".into(),
        Number::Float(value) if f64::from(value as f32) == value => format!("{:?}", value as f32),
        Number::Float(value) => format!("{value:?}"),
    }
}
