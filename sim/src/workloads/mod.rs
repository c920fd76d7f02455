//! The programs that `dfx run` knows by name. What computes is checked against a plain computation of the same thing on
//! the host, with values chosen so that both are exact.

mod chain;
mod flood;
mod kv_cache;
mod matmul;
mod mixed;
mod paged_attention;
mod scopes;
mod spmd;
#[cfg(test)]
mod tests;
mod vector_example;

use crate::builder::{BuildError, MAX_BLOCKS};
use crate::graph::{self, GraphError};
use crate::program::Program;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::path::Path;

/// The workloads: how to write them, and what they are.
pub const ALL: &[(&str, &str)] = &[
    ("vector_example", "5 element-wise f32 tasks in a 6-edge graph, results checked"),
    ("matmul", "tiled f32 matrix product on AIC, epilogue on AIV, results checked"),
    (
        "paged_attention[:SEQS]",
        "bf16 attention over a paged cache, AIC and AIV in turn, results checked (default 4)",
    ),
    ("scopes", "nested scopes on small heaps: some wrap many times, some never, results checked"),
    (
        "kv_cache[:GIB]",
        "64 tasks that share a cache of so many GiB, and a 1 MiB probe (default 1): for the args dump",
    ),
    ("flood[:N]", "N independent submits back to back (default 65536)"),
    ("chain[:N]", "N tasks, each after the one before, AIC and AIV in turn (default 1000)"),
    ("spmd[:BLOCKS]", "an SPMD task of BLOCKS blocks, a reduction, a sync-start task (default 24)"),
    ("mixed", "AIC, AIV and MIX tasks with every scheduling feature: emits every phase kind"),
    ("graph:DEPS[,RECORDS]", "replays a captured deps.json, with the durations of a records file"),
];

/// Most submits of a workload.
pub const MAX_SUBMITS: u32 = 16 << 20;

/// How a workload is built.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadOptions {
    /// Where made-up input comes from.
    pub seed: u64,
    /// Whether real-time runs make kernels last their declared duration; `None`: as the workload is meant.
    pub pace: Option<bool>,
}

impl Default for WorkloadOptions {
    fn default() -> Self {
        Self { seed: 1, pace: None }
    }
}

/// A workload that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No such workload.
    #[error("unknown workload `{name}`; there are: {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A number that is none, or out of range.
    #[error("workload `{spec}`: `{value}` is not a number from 1 to {max}; for example `{workload}:100`")]
    BadNumber {
        /// What was asked for.
        spec: String,
        /// Its name.
        workload: &'static str,
        /// The number's text.
        value: String,
        /// The largest accepted one.
        max: u32,
    },
    /// An argument that the workload does not take.
    #[error("workload `{spec}`: `{workload}` takes no argument; write it alone")]
    NoArgument {
        /// What was asked for.
        spec: String,
        /// Its name.
        workload: &'static str,
    },
    /// `graph` without a file.
    #[error("workload `{spec}`: no file is named; write `graph:DEPS_JSON` or `graph:DEPS_JSON,RECORDS_JSON`")]
    NoFile {
        /// What was asked for.
        spec: String,
    },
    /// The captured graph is bad.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The workload itself is wrong: a defect of ours.
    #[error(transparent)]
    Build(#[from] BuildError),
}

fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// The program that `spec` names (see [`ALL`]).
pub fn build(spec: &str, options: &WorkloadOptions) -> Result<Program, WorkloadError> {
    let (name, argument) = match spec.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (spec, None),
    };
    let number = |workload, default, max| number(spec, workload, argument, default, max);
    let alone = |workload| match argument {
        None => Ok(()),
        Some(_) => Err(WorkloadError::NoArgument { spec: spec.into(), workload }),
    };
    let mut program = match name {
        "vector_example" => alone("vector_example").and_then(|()| Ok(vector_example::build()?))?,
        "matmul" => alone("matmul").and_then(|()| Ok(matmul::build(options.seed)?))?,
        "paged_attention" => {
            let sequences = number("paged_attention", paged_attention::DEFAULT, paged_attention::MAX)?;
            paged_attention::build(sequences, options.seed)?
        }
        "scopes" => alone("scopes").and_then(|()| Ok(scopes::build()?))?,
        "flood" => flood::build(number("flood", 65_536, MAX_SUBMITS)?)?,
        "kv_cache" => kv_cache::build(number("kv_cache", 1, kv_cache::MAX)?)?,
        "chain" => chain::build(number("chain", 1_000, MAX_SUBMITS)?)?,
        "spmd" => spmd::build(number("spmd", 24, MAX_BLOCKS)?, options.seed)?,
        "mixed" => alone("mixed").and_then(|()| Ok(mixed::build(options.seed)?))?,
        "graph" => replayed(spec, argument.unwrap_or_default())?,
        _ => return Err(WorkloadError::Unknown { name: name.into() }),
    };
    program.pace = options.pace.unwrap_or(program.pace);
    Ok(program)
}

fn number(
    spec: &str,
    workload: &'static str,
    argument: Option<&str>,
    default: u32,
    max: u32,
) -> Result<u32, WorkloadError> {
    let Some(value) = argument else { return Ok(default) };
    let number = value.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| WorkloadError::BadNumber { spec: spec.into(), workload, value: value.into(), max })
}

/// `DEPS[,RECORDS]`; a comma in the name of an existing file is part of it.
fn replayed(spec: &str, files: &str) -> Result<Program, WorkloadError> {
    let (deps, records) = match files.rsplit_once(',') {
        Some((deps, records)) if !Path::new(files).exists() => (deps, Some(records)),
        _ => (files, None),
    };
    if deps.is_empty() || records == Some("") {
        return Err(WorkloadError::NoFile { spec: spec.into() });
    }
    Ok(graph::load(Path::new(deps), records.map(Path::new))?)
}

/// Made-up whole numbers.
fn small_integers(seed: u64, count: usize, range: std::ops::RangeInclusive<i16>) -> Vec<f32> {
    let mut rng = SmallRng::seed_from_u64(seed);
    (0..count).map(|_| f32::from(rng.random_range(range.clone()))).collect()
}
