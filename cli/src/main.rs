//! `dfx`: runtime diagnostics of an NPU task runtime. One thin command per question; the answers live in the crates.
#![allow(rustdoc::invalid_html_tags, rustdoc::broken_intra_doc_links)] // doc comments here are the text of --help

#[macro_use]
mod say; // first: the others print with its macros
mod check;
mod dump;
mod exit;
mod run;
mod style;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Record what the hardware did, drain it without loss, and look at it.
#[derive(Debug, Parser)]
#[command(name = "dfx", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Say more: -v what is odd, -vv what is done, -vvv everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workload on a simulator platform and record it
    Run(Box<run::Args>),
    /// Check the integrity of a run's artifacts: complete, or what is missing
    Check(check::Args),
    /// List, show, export, measure and compare dumped arguments
    Dump(Box<dump::Args>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = match cli.verbose {
        0 => "error",
        1 => "warn",
        2 => "info",
        _ => "trace",
    };
    let filter = std::env::var("DFX_LOG").unwrap_or_else(|_| level.to_owned());
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_ansi(style::colour())
        .init();
    let done = match cli.command {
        Command::Run(args) => run::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Dump(args) => dump::main(&args),
    };
    exit::status(done, cli.verbose)
}
