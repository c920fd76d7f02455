//! Two dumps compared: where do they part?
//!
//! Records are matched by task, stage, argument, role and, where several blocks of one task left several, by their order.
//! Values are compared as `numpy.isclose(a, b)` does: |a - b| <= atol + rtol |b|, infinities by their sign, NaN equal to
//! NaN only if that is asked for. The differences are told in task order, so that the first is where things went wrong;
//! the *suspect* is the first task whose dumped inputs agree and whose outputs do not.

mod values;

use super::manifest::Manifest;
use super::order::TaskOrder;
use super::record::{Payload, Record, Role, Stage};
use super::stats::Number;
use super::{Dtype, Dump, DumpError, Filter, each, json};
use serde::Serialize;
use std::collections::HashMap;

/// When two values count as equal.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Tolerance {
    /// Relative to the second dump's value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
    /// Whether NaN equals NaN.
    pub equal_nan: bool,
}

impl Default for Tolerance {
    /// numpy's.
    fn default() -> Self {
        Tolerance { rtol: 1e-5, atol: 1e-8, equal_nan: false }
    }
}

/// What two matched records came to, or why there are not two.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Difference {
    /// Only the first dump has it.
    Missing,
    /// Only the second dump has it.
    Extra,
    /// A tensor here, a scalar there.
    Kind,
    /// The types are different.
    Dtype {
        /// In the first.
        a: Dtype,
        /// In the second.
        b: Dtype,
    },
    /// The shapes are different.
    Shape {
        /// In the first.
        a: Vec<u32>,
        /// In the second.
        b: Vec<u32>,
    },
    /// Values are different.
    Values(ValueDifference),
    /// One side has values, or more of them: nothing (more) to compare.
    Payload {
        /// In the first.
        a: Payload,
        /// In the second.
        b: Payload,
    },
}

/// How values differ.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ValueDifference {
    /// Values compared.
    pub compared: u64,
    /// Of these, not close.
    pub differing: u64,
    /// Of these, NaN on both sides.
    pub both_nan: u64,
    /// Where the first is, per dimension of the values.
    pub first_index: Vec<u64>,
    /// The first dump's value there.
    pub first_a: Number,
    /// The second dump's.
    pub first_b: Number,
    /// The greatest |a - b|, over all values that are numbers.
    #[serde(serialize_with = "json::float")]
    pub max_abs: f64,
    /// The greatest |a - b| / |b|, where b is finite and not zero.
    #[serde(serialize_with = "json::float")]
    pub max_rel: f64,
}

/// A pair of records that differ.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compared {
    /// The task.
    #[serde(serialize_with = "json::task_id")]
    pub task_id: u64,
    /// Its short name.
    pub task: String,
    /// Its kernels.
    pub func_id: Vec<i32>,
    /// When it was captured.
    pub stage: Stage,
    /// How the task used it.
    pub role: Role,
    /// The argument's position.
    pub arg_index: u32,
    /// How many of the same came before it.
    pub occurrence: u32,
    /// Its place in the first manifest.
    pub entry_a: Option<usize>,
    /// Its place in the second.
    pub entry_b: Option<usize>,
    /// What is different.
    pub difference: Difference,
}

/// What a comparison found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DiffReport {
    /// Whether nothing that was compared is different, missing or extra.
    pub equal: bool,
    /// Whether everything could be compared.
    pub complete: bool,
    /// Whether tasks are in the order of their submits; else of their ids.
    pub by_submit: bool,
    /// What counted as equal.
    pub tolerance: Tolerance,
    /// Pairs of records.
    pub pairs: u64,
    /// Of these, with values on both sides.
    pub with_values: u64,
    /// Values compared.
    pub values: u64,
    /// The greatest |a - b| seen, tolerated or not.
    #[serde(serialize_with = "json::float")]
    pub max_abs: f64,
    /// The greatest |a - b| / |b| seen, tolerated or not.
    #[serde(serialize_with = "json::float")]
    pub max_rel: f64,
    /// The first task, in order, of which something is different.
    pub first_task: Option<String>,
    /// The first task whose dumped inputs agree and whose outputs do not.
    pub suspect: Option<String>,
    /// What is different, in task order.
    pub differences: Vec<Compared>,
    /// What could not be compared, in task order.
    pub uncompared: Vec<Compared>,
}

/// By what records are matched.
type Key = (u64, Stage, u32, Role, u32);

/// Compares the records of `a` and `b` that `filter` lets pass.
pub fn diff(a: &Dump, b: &Dump, filter: &Filter, tolerance: &Tolerance) -> Result<DiffReport, DumpError> {
    let order = TaskOrder::of(&a.dir).or_else(|| TaskOrder::of(&b.dir)).unwrap_or_default();
    let mut others: HashMap<Key, usize> = keys(&b.manifest, filter).collect();
    let mut pairs: Vec<(Key, Option<usize>, Option<usize>)> =
        keys(&a.manifest, filter).map(|(key, index)| (key, Some(index), others.remove(&key))).collect();
    pairs.extend(others.into_iter().map(|(key, index)| (key, None, Some(index))));
    pairs.sort_by_key(|&(key, ..)| (order.key(key.0), key));
    let outcomes = each::map(&pairs, |(_, x, y)| match (x, y) {
        (Some(x), Some(y)) => compare(a, b, x, y, tolerance),
        (Some(_), None) => Ok(Outcome::from(Difference::Missing)),
        (None, _) => Ok(Outcome::from(Difference::Extra)),
    })?;

    let mut report = DiffReport {
        equal: true,
        complete: true,
        by_submit: order.by_submit(),
        tolerance: *tolerance,
        pairs: pairs.iter().filter(|(_, x, y)| x.is_some() && y.is_some()).count() as u64,
        with_values: outcomes.iter().filter(|outcome| outcome.values > 0).count() as u64,
        values: outcomes.iter().map(|outcome| outcome.values).sum(),
        max_abs: outcomes.iter().fold(0.0, |max, outcome| max.max(outcome.max_abs)),
        max_rel: outcomes.iter().fold(0.0, |max, outcome| max.max(outcome.max_rel)),
        first_task: None,
        suspect: suspect(&pairs, &outcomes),
        differences: Vec::new(),
        uncompared: Vec::new(),
    };
    for (&(key, x, y), outcome) in pairs.iter().zip(outcomes) {
        for difference in outcome.differences {
            let record = x.map(|x| a.record(x)).or(y.map(|y| b.record(y)));
            let list = match difference {
                Difference::Payload { .. } => &mut report.uncompared,
                _ => &mut report.differences,
            };
            list.extend(record.map(|record| named(record, key, x, y, difference)));
        }
    }
    report.equal = report.differences.is_empty();
    report.complete = report.uncompared.is_empty();
    report.first_task = report.differences.first().map(|first| first.task.clone());
    Ok(report)
}

fn keys<'a>(manifest: &'a Manifest, filter: &'a Filter) -> impl Iterator<Item = (Key, usize)> + 'a {
    let records = manifest.records.iter().zip(manifest.occurrences()).enumerate();
    records
        .filter(|(_, (record, _))| filter.passes(record))
        .map(|(index, (r, again))| ((r.task_id, r.stage, r.arg_index, r.role, again), index))
}

fn named(record: &Record, key: Key, x: Option<usize>, y: Option<usize>, difference: Difference) -> Compared {
    Compared {
        task_id: record.task_id,
        task: record.task_name(),
        func_id: record.func_ids().to_vec(),
        stage: record.stage,
        role: record.role,
        arg_index: record.arg_index,
        occurrence: key.4,
        entry_a: x,
        entry_b: y,
        difference,
    }
}

/// What a pair came to.
#[derive(Default)]
struct Outcome {
    /// At most one that is a difference and one that says that something could not be compared.
    differences: Vec<Difference>,
    values: u64,
    max_abs: f64,
    max_rel: f64,
}

impl From<Difference> for Outcome {
    fn from(difference: Difference) -> Self {
        Outcome { differences: vec![difference], ..Outcome::default() }
    }
}

impl Outcome {
    fn differs(&self) -> bool {
        self.differences.iter().any(|difference| !matches!(difference, Difference::Payload { .. }))
    }
}

fn compare(a: &Dump, b: &Dump, x: usize, y: usize, tolerance: &Tolerance) -> Result<Outcome, DumpError> {
    let (left, right) = (a.record(x), b.record(y));
    if left.kind != right.kind {
        return Ok(Difference::Kind.into());
    }
    if left.dtype != right.dtype {
        return Ok(Difference::Dtype { a: left.dtype, b: right.dtype }.into());
    }
    if left.shape() != right.shape() {
        return Ok(Difference::Shape { a: left.shape().to_vec(), b: right.shape().to_vec() }.into());
    }
    let mut outcome = Outcome::default();
    if left.has_values() && right.has_values() {
        let found = values::compare(a, left, b, right, tolerance)?;
        outcome.values = found.compared;
        (outcome.max_abs, outcome.max_rel) = (found.max_abs, found.max_rel);
        outcome.differences.extend(found.difference(left).map(Difference::Values));
    }
    let (mine, theirs) = (left.payload(), right.payload());
    // Where neither was meant to be captured, nothing is missing.
    let all = mine == theirs && matches!(mine, Payload::Complete | Payload::NotCaptured);
    if !all {
        outcome.differences.push(Difference::Payload { a: mine, b: theirs });
    }
    Ok(outcome)
}

/// The first task, in the order of `pairs`, whose dumped inputs agree and whose outputs do not.
fn suspect(pairs: &[(Key, Option<usize>, Option<usize>)], outcomes: &[Outcome]) -> Option<String> {
    let mut at = 0;
    while at < pairs.len() {
        let task = pairs[at].0.0;
        let end = at + pairs[at..].iter().take_while(|(key, ..)| key.0 == task).count();
        let of = |stage: Stage| {
            let both = pairs[at..end].iter().zip(&outcomes[at..end]);
            both.filter(move |((key, ..), _)| key.1 == stage).map(|(_, outcome)| outcome)
        };
        let inputs_agree = of(Stage::BeforeDispatch).next().is_some()
            && of(Stage::BeforeDispatch).all(|outcome| outcome.differences.is_empty());
        if inputs_agree && of(Stage::AfterCompletion).any(Outcome::differs) {
            return Some(super::record::task_name(task));
        }
        at = end;
    }
    None
}
