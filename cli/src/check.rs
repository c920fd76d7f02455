//! `dfx check`: are a run's artifacts complete, and do they agree with one another?

use crate::exit::Done;
use crate::style;
use anyhow::{Context, Result};
use dfx_trace::check::{Severity, check_dir};
use dfx_trace::newest_output_dir;
use std::path::{Path, PathBuf};

/// Check the integrity of a run's artifacts: complete, or what is missing
///
/// Parses every artifact strictly and compares it with run.json and with the others. Exit status 0: complete; 3: something
/// is missing or odd enough to distrust; 1: not a run's directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dfx check build_output/vector_example_20260101_120000")]
pub(crate) struct Args {
    /// A work directory, or its dfx_outputs [default: the newest run here]
    dir: Option<PathBuf>,
    /// Print the report as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// Checks the directory and prints the verdict.
pub(crate) fn main(args: &Args) -> Result<Done> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => {
            let newest = newest_output_dir(Path::new(".")).context(
                "no run found under ./dfx_outputs, ./build_output/*/dfx_outputs or ./outputs/*; name a directory",
            )?;
            eprintln!("checking {}", newest.display());
            newest
        }
    };
    let report = check_dir(&dir)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        for finding in &report.findings {
            let text = finding.to_string();
            eprintln!("{}", if finding.severity == Severity::Error { style::bad(&text) } else { text });
        }
        let verdict = report.verdict();
        println!("{}", if report.complete { style::good(&verdict) } else { style::bad(&verdict) });
    }
    Ok(if report.complete { Done::Complete } else { Done::Incomplete })
}
