//! `dfx dump stats`.

use super::{FilterArgs, Place, done, select, to_stdout};
use crate::exit::Done;
use anyhow::Result;
use dfx_trace::dump::{self, Dump, Number, Stats};
use std::io::{self, Write};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dfx dump stats --stage after --role out")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    filter: FilterArgs,
    /// Print JSON on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> Result<Done> {
    let dump = args.place.open()?;
    let selected = select(&dump, &args.filter);
    let stats = dump::stats(&dump, &selected)?;
    if args.json {
        let rows: Vec<_> =
            selected.iter().zip(&stats).map(|(&index, stats)| stats.to_json(&dump, index)).collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        to_stdout(|out| table(out, &dump, &selected, &stats));
    }
    Ok(done(&dump, &selected))
}

fn table(out: &mut dyn Write, dump: &Dump, selected: &[usize], stats: &[Stats]) -> io::Result<()> {
    writeln!(
        out,
        "{:>18}  {:>7}  {:>6}  {:>3}  {:>9}  {:>10}  {:>12}  {:>12}  {:>12}  {:>12}  {:>8}  {:>8}  {:>6}",
        "task_id",
        "stage",
        "role",
        "arg",
        "dtype",
        "values",
        "min",
        "max",
        "mean",
        "std",
        "nan",
        "inf",
        "zero%"
    )?;
    writeln!(out, "{}", "-".repeat(145))?;
    let float = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| Number::Float(v).to_string());
    let number = |value: Option<Number>| value.map_or_else(|| "-".into(), |v| v.to_string());
    for (&index, stats) in selected.iter().zip(stats) {
        let record = dump.record(index);
        // 100.0 is all of them.
        let percent = |part: f64| if part < 1.0 { (part * 100.0).min(99.9) } else { 100.0 };
        let zeros = stats.zero_fraction.map_or_else(|| "-".into(), |part| format!("{:.1}", percent(part)));
        writeln!(
            out,
            "{:#018x}  {:>7}  {:>6}  {:>3}  {:>9}  {:>10}  {:>12}  {:>12}  {:>12}  {:>12}  {:>8}  {:>8}  {zeros:>6}",
            record.task_id,
            record.stage.short(),
            record.role.name(),
            record.arg_index,
            record.dtype.name(),
            stats.count,
            number(stats.min),
            number(stats.max),
            float(stats.mean),
            float(stats.std),
            stats.nan,
            stats.inf(),
        )?;
    }
    Ok(())
}
