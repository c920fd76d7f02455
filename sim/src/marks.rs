//! Which arguments a partial dump takes.
//!
//! A mark follows a *value*, which is a [`TensorId`], never a name: a value that was rebound or transformed is another one
//! and is not covered. Marks become bits of the submits that they match while the program is built; what they mean depends
//! on the level of the run: at 0 and 2 they are inert.

use crate::program::{Arg, Op, Program, Submit, TensorId};

/// The marked arguments of one submit, one bit per position.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArgMarks {
    /// Marked.
    pub mask: u64,
    /// Marked through a value that the submit is given more than once: the position does not name one argument alone. Of a
    /// tensor all positions are marked; of a scalar the one that was asked for, as the captured runtime does it.
    pub ambiguous: u64,
}

impl ArgMarks {
    /// Nothing is marked.
    pub const NONE: ArgMarks = ArgMarks { mask: 0, ambiguous: 0 };
}

/// What a mark covers.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Target {
    /// These values, wherever they are an argument.
    Values(Vec<TensorId>),
    /// This scalar, counted among the scalars.
    Scalar(usize),
    /// Every argument.
    Task,
}

/// One call that marked something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// What messages call it.
    pub name: String,
    target: Target,
    /// Whether later submits are covered.
    open: bool,
    matched: bool,
}

impl Mark {
    fn new(name: String, target: Target) -> Mark {
        Mark { name, target, open: true, matched: false }
    }

    /// On a value, from here on.
    pub(crate) fn tag(name: String, value: TensorId) -> Mark {
        Mark::new(name, Target::Values(vec![value]))
    }

    /// On the scalar `n` of one submit.
    pub(crate) fn scalar(name: String, n: usize) -> Mark {
        Mark::new(name, Target::Scalar(n))
    }

    /// On every argument of one submit, of which `call` tells.
    pub(crate) fn task(call: String) -> Mark {
        Mark::new(call, Target::Task)
    }

    /// Covers no later submit.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Whether an argument that can be dumped is marked.
    pub fn matched(&self) -> bool {
        self.matched
    }

    /// Marks the arguments of `submit` that it covers.
    pub(crate) fn apply(&mut self, submit: &mut Submit) {
        if !self.open {
            return;
        }
        let mut covered = 0;
        match &self.target {
            Target::Task => covered = bits(0..submit.args.len()),
            Target::Scalar(n) => {
                if let Some(at) = submit.scalar_index(*n) {
                    covered = bits([at].into_iter());
                    let alike = submit.args.iter().filter(|arg| **arg == submit.args[at]).count();
                    submit.marks.ambiguous |= if alike > 1 { covered } else { 0 };
                }
            }
            Target::Values(values) => {
                for &value in values {
                    let mask = bits(submit.arg_indices(value));
                    covered |= mask;
                    submit.marks.ambiguous |= if mask.count_ones() > 1 { mask } else { 0 };
                }
            }
        }
        self.matched |= covered != 0 && submit.is_dumped();
        submit.marks.mask |= covered;
    }
}

/// One bit per position; there is none beyond 63.
fn bits(positions: impl Iterator<Item = usize>) -> u64 {
    positions
        .fold(0, |mask, at| mask | u32::try_from(at).ok().and_then(|at| 1u64.checked_shl(at)).unwrap_or(0))
}

impl Submit {
    /// The positions at which it is given `value`.
    pub(crate) fn arg_indices(&self, value: TensorId) -> impl Iterator<Item = usize> {
        let is = move |arg: &Arg| arg.tensor() == Some(value);
        self.args.iter().enumerate().filter(move |(_, arg)| is(arg)).map(|(at, _)| at)
    }

    /// The position of its scalar `n`, counted among the scalars.
    pub(crate) fn scalar_index(&self, n: usize) -> Option<usize> {
        let is_scalar = |arg: &Arg| arg.tensor().is_none();
        self.args.iter().enumerate().filter(|(_, arg)| is_scalar(arg)).map(|(at, _)| at).nth(n)
    }

    /// Whether its arguments are ever dumped: it reaches a core.
    pub fn is_dumped(&self) -> bool {
        self.core_rows() > 0
    }
}

impl Arg {
    /// The value, unless it is a scalar.
    pub fn tensor(&self) -> Option<TensorId> {
        match *self {
            Arg::In(id) | Arg::Out(id) | Arg::InOut(id) | Arg::OutExisting(id) => Some(id),
            Arg::Scalar(..) => None,
        }
    }
}

impl Program {
    /// Marks the values that are called `name`, wherever they are an argument.
    pub fn tag(&mut self, name: &str) {
        let ids = (0..).map(TensorId).zip(&self.tensors);
        let values = ids.filter(|(_, def)| def.name == name).map(|(id, _)| id).collect();
        let mut mark = Mark::new(name.into(), Target::Values(values));
        for op in &mut self.ops {
            if let Op::Submit(submit) = op {
                mark.apply(submit);
            }
        }
        mark.close();
        self.marks.push(mark);
    }

    /// The names of the marks that no dumped argument ever matched.
    pub fn unmatched_marks(&self) -> impl Iterator<Item = &str> {
        self.marks.iter().filter(|mark| !mark.matched()).map(|mark| mark.name.as_str())
    }
}
