//! `dfx dump`: what each task got and what it made of it, listed, shown, exported, measured and compared.

mod diff;
mod stats;

use crate::exit::Done;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use dfx_trace::dump::{
    self, Dtype, Dump, Exported, Filter, Payload, PrintOptions, Role, Stage, TaskSelector,
};
use dfx_trace::newest_output_dir;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// List, show, export, measure and compare dumped arguments
///
/// Without a subcommand: lists the arguments, or with --export writes each as text. Exit status 0: done; 3: done, but some of what
/// was asked for is not in the dump; 1: it cannot be read, or (diff) the dumps differ.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example:\n  dfx dump build_output/vector_example_20260101_120000 --task r1t2 --stage after --export out"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print arguments' values, as numpy prints arrays
    Show(ShowArgs),
    /// Write arguments as .npy files
    Npy(NpyArgs),
    /// Least, greatest, mean, deviation, NaN, infinities and zeros of each argument
    Stats(stats::Args),
    /// Compare two dumps and find the first task that went wrong
    Diff(diff::Args),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    filter: FilterArgs,
    /// Write each argument as text into this directory [default: txt beside the dump]
    #[arg(long, value_name = "OUT", num_args = 0..=1)]
    export: Option<Option<PathBuf>>,
    /// Print JSON on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dfx dump show --task r2t7 --stage before --role in --index 0")]
struct ShowArgs {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    filter: FilterArgs,
    /// Print all values, however many
    #[arg(long, conflicts_with = "threshold")]
    full: bool,
    /// Leave out the middle of arrays with more values than this
    #[arg(long, value_name = "N", default_value_t = PrintOptions::default().threshold)]
    threshold: u64,
    /// Keep so many values at each end of a dimension
    #[arg(long, value_name = "N", default_value_t = PrintOptions::default().edge)]
    edge: u64,
    /// Print at most so many arguments
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON on stdout, with all values
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dfx dump npy --dtype bf16 -o arrays")]
struct NpyArgs {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    filter: FilterArgs,
    /// Directory for the files [default: npy beside the dump]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write bfloat16, fp8 and fp4 as the unsigned integers of their bits instead of as float32
    #[arg(long)]
    raw: bool,
    /// Print JSON on stdout
    #[arg(long)]
    json: bool,
}

/// Which dump.
#[derive(Debug, clap::Args)]
struct Place {
    /// A work directory, its dfx_outputs, or its args_dump [default: the newest run here]
    dir: Option<PathBuf>,
}

/// Which of its arguments.
#[derive(Debug, clap::Args)]
struct FilterArgs {
    /// Only of this task: 0x200000007, 8589934599, r2t7, or t7 in ring 0 (repeatable)
    #[arg(long, value_name = "T")]
    task: Vec<TaskSelector>,
    /// Only captured at this stage
    #[arg(long, value_parser = stages())]
    stage: Option<Stage>,
    /// Only used so
    #[arg(long, value_parser = roles())]
    role: Option<Role>,
    /// Only at this position of the task's arguments
    #[arg(long, value_name = "N")]
    index: Option<u32>,
    /// Only of this type: float32, bf16, fp8e4m3fn, …
    #[arg(long, value_name = "D")]
    dtype: Option<Dtype>,
    /// Only of tasks that run this kernel
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    func: Option<i32>,
}

fn stages() -> impl TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(["before", "after"]).map(|word| match word.as_str() {
        "before" => Stage::BeforeDispatch,
        _ => Stage::AfterCompletion,
    })
}

fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(["in", "out", "inout"]).map(|word| match word.as_str() {
        "in" => Role::Input,
        "out" => Role::Output,
        _ => Role::Inout,
    })
}

impl FilterArgs {
    fn filter(&self) -> Filter {
        let FilterArgs { stage, role, index, dtype, func, .. } = *self;
        Filter { tasks: self.task.clone(), stage, role, index, dtype, func }
    }
}

impl Place {
    /// Opens the dump that is meant, and says what must be known of it.
    fn open(&self) -> Result<Dump> {
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => {
                let newest = newest_output_dir(Path::new(".")).context(
                    "no run found under ./dfx_outputs, ./build_output/*/dfx_outputs or ./outputs/*; name a directory",
                )?;
                eprintln!("reading {}", newest.display());
                newest
            }
        };
        open(&dir)
    }
}

/// Opens a dump, and says what must be known of it.
fn open(dir: &Path) -> Result<Dump> {
    let dump = Dump::open(dir)?;
    for remark in dump.manifest.remarks() {
        eprintln!("note: {remark}");
    }
    Ok(dump)
}

/// Answers what was asked.
pub(crate) fn main(args: &Args) -> Result<Done> {
    match &args.command {
        None => list(&args.list),
        Some(Command::Show(args)) => show(args),
        Some(Command::Npy(args)) => npy(args),
        Some(Command::Stats(args)) => stats::main(args),
        Some(Command::Diff(args)) => diff::main(args),
    }
}

/// The records that are meant; says so if there are none.
fn select(dump: &Dump, filter: &FilterArgs) -> Vec<usize> {
    let selected = dump.select(&filter.filter());
    if selected.is_empty() {
        let all = dump.manifest.records.len();
        eprintln!("note: none of the {all} arguments in {} matches", dump.dir.display());
    }
    selected
}

/// Whether what was asked for is all there.
fn done(dump: &Dump, selected: &[usize]) -> Done {
    let lost = |&index: &usize| {
        matches!(dump.record(index).payload(), Payload::Truncated | Payload::Shed | Payload::Overwritten)
    };
    let counts = dump.manifest.counts();
    match counts.dropped_records > 0 || selected.iter().any(lost) {
        true => Done::Incomplete,
        false => Done::Complete,
    }
}

/// Writes to stdout with `write`. A reader who has left has read enough.
fn to_stdout(write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) {
    let mut out = BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    let outcome = write(&mut out).and_then(|()| out.flush());
    crate::say::printed("stdout", outcome);
}

fn list(args: &ListArgs) -> Result<Done> {
    let dump = args.place.open()?;
    let selected = select(&dump, &args.filter);
    if let Some(out) = &args.export {
        let out = out.clone().unwrap_or_else(|| dump.dir.join("txt"));
        let exported = dump::export_txt(&dump, &selected, &out)?;
        say_exported(&exported, &out, args.json)?;
    } else {
        to_stdout(|stdout| match args.json {
            true => dump::write_list_json(stdout, &dump, &selected),
            false => dump::write_list(stdout, &dump, &selected),
        });
    }
    Ok(done(&dump, &selected))
}

fn npy(args: &NpyArgs) -> Result<Done> {
    let dump = args.place.open()?;
    let selected = select(&dump, &args.filter);
    let out = args.output.clone().unwrap_or_else(|| dump.dir.join("npy"));
    let exported = dump::export_npy(&dump, &selected, &out, args.raw)?;
    say_exported(&exported, &out, args.json)?;
    Ok(done(&dump, &selected))
}

/// Says what an export made.
fn say_exported(exported: &Exported, out: &Path, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(exported)?);
    } else {
        println!("wrote {} files into {}", exported.files.len(), out.display());
    }
    if exported.without_values > 0 {
        eprintln!("note: {} arguments have no values here and were left out", exported.without_values);
    }
    if exported.cut_short > 0 {
        eprintln!("note: of {} arguments there is only the beginning", exported.cut_short);
    }
    Ok(())
}

fn show(args: &ShowArgs) -> Result<Done> {
    let dump = args.place.open()?;
    let selected = select(&dump, &args.filter);
    let shown = &selected[..selected.len().min(args.limit)];
    let threshold = if args.full { u64::MAX } else { args.threshold };
    let options = PrintOptions { threshold, edge: args.edge, ..PrintOptions::default() };
    let mut failed = Ok(());
    to_stdout(|stdout| {
        for (number, &index) in shown.iter().enumerate() {
            let mut text = Vec::new();
            let separator: &[u8] = match (args.json, number) {
                (true, 0) => b"[",
                (true, _) => b",\n",
                (false, 0) => b"",
                (false, _) => b"\n",
            };
            text.extend_from_slice(separator);
            let written = match args.json {
                true => dump::write_values_json(&mut text, &dump, index),
                false => dump::print_values(&mut text, &dump, index, &options),
            };
            if written.is_err() {
                failed = written;
                break;
            }
            stdout.write_all(&text)?;
        }
        if args.json { stdout.write_all(if shown.is_empty() { b"[]\n" } else { b"]\n" }) } else { Ok(()) }
    });
    failed?;
    if shown.len() < selected.len() {
        eprintln!(
            "note: {} of {} arguments shown; narrow it with --task, --stage, --role, --index, or raise --limit",
            shown.len(),
            selected.len()
        );
    }
    Ok(done(&dump, shown))
}
