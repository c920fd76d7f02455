//! The orchestrator's own derivation of a submit's predecessors, from the arguments and what came before.
//!
//! It is written apart from the host's replay of captured submits, so that each can check the other. The rules, in order:
//! explicit dependencies; in an automatic scope, per tensor argument that exists already, the submit that created its
//! buffer, and (for what is read) the live writers of overlapping regions, newest first; then the submit's own writes are
//! registered. A predecessor is named once, whether or not it has retired.
//!
//! The writers of a buffer are a list, newest last; an `INOUT` that covers a writer's region takes it off the list, so
//! that a chain of such writes on one buffer costs the same per submit however long it is. Writers that nothing covers
//! stay (the rules say so), and each look-up on their buffer visits them.

use crate::program::{Arg, BufferId, Program, Submit, SubmitId, TensorDef, TensorId};

#[cfg(test)]
mod tests;

/// How a consumer's view meets an earlier writer's region on the same buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    /// Not at all: provably disjoint.
    None,
    /// It contains the region.
    Covered,
    /// Somehow, or it cannot be told.
    Other,
}

/// A live writer of a region.
#[derive(Clone, Copy)]
struct Writer {
    region: TensorId,
    submit: SubmitId,
}

/// What has been submitted so far.
pub struct Fanin<'p> {
    program: &'p Program,
    /// Live writers by buffer, newest last.
    writers: Vec<Vec<Writer>>,
    /// Live writers in all.
    live: usize,
    /// By submit: the last submit (plus one) that has it as a predecessor.
    seen: Vec<u32>,
}

impl<'p> Fanin<'p> {
    /// Nothing submitted yet.
    pub fn new(program: &'p Program) -> Self {
        Self { program, writers: vec![Vec::new(); program.buffers.len()], live: 0, seen: Vec::new() }
    }

    /// Appends the distinct predecessors of the next submit to `out`, in the order in which they are found. Submits come
    /// in program order; those of a manual scope have their explicit dependencies only, and register nothing.
    pub fn submit(&mut self, submit: &Submit, manual_scope: bool, out: &mut Vec<SubmitId>) {
        self.seen.resize(submit.id.0 as usize + 1, 0);
        for &dep in &submit.deps {
            self.note(submit.id, dep, out);
        }
        if manual_scope {
            return;
        }
        for arg in &submit.args {
            let (tensor, reads, updates) = match *arg {
                Arg::In(tensor) => (tensor, true, false),
                Arg::InOut(tensor) => (tensor, true, true),
                Arg::OutExisting(tensor) => (tensor, false, false),
                Arg::Out(_) | Arg::Scalar(..) => continue,
            };
            let def = self.def(tensor);
            if let Some(creator) = self.program.buffers[def.buffer.0 as usize].creator {
                self.note(submit.id, creator, out);
            }
            if reads && !def.manual_dep {
                self.look_up(submit.id, def, updates, out);
            }
        }
        for arg in &submit.args {
            if let Arg::InOut(region) | Arg::OutExisting(region) = *arg {
                let def = self.def(region);
                if !def.manual_dep {
                    self.writers[def.buffer.0 as usize].push(Writer { region, submit: submit.id });
                    self.live += 1;
                }
            }
        }
    }

    /// Live writers: entries in use of the tensor map.
    pub fn live(&self) -> usize {
        self.live
    }

    fn def(&self, tensor: TensorId) -> &'p TensorDef {
        &self.program.tensors[tensor.0 as usize]
    }

    /// Names a predecessor, unless it was named for this submit or does not come before it.
    fn note(&mut self, submit: SubmitId, pred: SubmitId, out: &mut Vec<SubmitId>) {
        if pred.0 < submit.0 {
            let seen = &mut self.seen[pred.0 as usize];
            if *seen != submit.0 + 1 {
                *seen = submit.0 + 1;
                out.push(pred);
            }
        }
    }

    /// The writers whose regions `consumer` meets; it takes those that it covers off the list if it `updates`.
    fn look_up(&mut self, submit: SubmitId, consumer: &TensorDef, updates: bool, out: &mut Vec<SubmitId>) {
        let elements = self.elements(consumer.buffer, consumer);
        let mut writers = std::mem::take(&mut self.writers[consumer.buffer.0 as usize]);
        let mut covered = false;
        for writer in writers.iter_mut().rev() {
            let overlap = overlap(consumer, self.def(writer.region), elements);
            if overlap != Overlap::None {
                self.note(submit, writer.submit, out);
            }
            if updates && overlap == Overlap::Covered {
                writer.submit = GONE;
                covered = true;
            }
        }
        if covered {
            let before = writers.len();
            writers.retain(|writer| writer.submit != GONE);
            self.live -= before - writers.len();
        }
        self.writers[consumer.buffer.0 as usize] = writers;
    }

    fn elements(&self, buffer: BufferId, tensor: &TensorDef) -> u64 {
        self.program.buffers[buffer.0 as usize].bytes / tensor.dtype.bytes().max(1)
    }
}

/// Marks a writer that is about to leave its list.
const GONE: SubmitId = SubmitId(u32::MAX);

/// How `consumer` meets `writer` on their common buffer of `elements` elements (of the consumer's type).
pub fn overlap(consumer: &TensorDef, writer: &TensorDef, elements: u64) -> Overlap {
    if consumer.version > writer.version {
        return Overlap::Other;
    }
    let starts_after_end = |a: &TensorDef, b: &TensorDef| u128::from(a.start_offset) >= b.end();
    let empty = consumer.shape.contains(&0) || writer.shape.contains(&0);
    if empty || starts_after_end(consumer, writer) || starts_after_end(writer, consumer) {
        return Overlap::None;
    }
    let comparable = consumer.dtype == writer.dtype && consumer.strides == writer.strides;
    match comparable.then(|| boxes(consumer, writer, elements)).flatten() {
        Some((consumer, writer)) => {
            let mut covered = true;
            for (c, w) in consumer.zip(writer) {
                if c.end <= w.start || w.end <= c.start {
                    return Overlap::None;
                }
                covered &= c.start <= w.start && w.end <= c.end;
            }
            if covered { Overlap::Covered } else { Overlap::Other }
        }
        None => Overlap::Other,
    }
}

/// An interval of indices in one dimension.
struct Interval {
    start: u64,
    end: u64,
}

/// Both views (of equal strides) as boxes in the array that these strides describe, or `None` if they are not.
fn boxes<'a>(
    a: &'a TensorDef,
    b: &'a TensorDef,
    elements: u64,
) -> Option<(impl Iterator<Item = Interval> + 'a, impl Iterator<Item = Interval> + 'a)> {
    let strides = &a.strides;
    let (&outer, &inner) = (strides.first()?, strides.last()?);
    let nested = strides.windows(2).all(|pair| pair[1] != 0 && pair[0].is_multiple_of(pair[1]));
    let whole = outer != 0 && elements.is_multiple_of(outer.into());
    if inner != 1 || !nested || !whole || a.shape.len() != b.shape.len() {
        return None;
    }
    let intervals = |view: &'a TensorDef| {
        let mut rest = view.start_offset;
        view.shape.iter().zip(&view.strides).map(move |(&extent, &stride)| {
            let start = rest / u64::from(stride);
            rest %= u64::from(stride);
            Interval { start, end: start + u64::from(extent) }
        })
    };
    let reference = |dim: usize| match dim {
        0 => elements / u64::from(outer),
        _ => u64::from(strides[dim - 1] / strides[dim]),
    };
    let inside = |view| intervals(view).enumerate().all(|(dim, interval)| interval.end <= reference(dim));
    (inside(a) && inside(b)).then(|| (intervals(a), intervals(b)))
}
