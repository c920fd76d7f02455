//! From submits to edges: the runtime's rules, applied to what was captured.
//!
//! Per submit, in order: its named predecessors; then, unless it was made in a manual scope, per tensor argument that
//! exists already the task that made the tensor, and for what it reads the earlier writes that its view may meet, newest
//! first; last, its own writes are registered. A predecessor by name or by making is an edge only if it is new to the
//! task; one by a write always is.

use super::intern::slot_of;
use super::map::TensorMap;
use super::submits::{Submits, View};
use super::view::Overlap;
use dfx_collector::abi::task_id;
use dfx_collector::abi::tensor::TensorArgType;

/// `succ` waits for `pred`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge<'a> {
    /// The task that is waited for.
    pub pred: u64,
    /// The task that waits.
    pub succ: u64,
    /// Why.
    pub source: Source<'a>,
}

/// Where an [`Edge`] comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source<'a> {
    /// The submit names the predecessor.
    Explicit,
    /// The predecessor made the tensor.
    Creator {
        /// The argument's slot.
        arg: u8,
        /// Its view.
        consumer: View<'a>,
    },
    /// The predecessor wrote what the view may meet.
    TensorMap {
        /// The argument's slot.
        arg: u8,
        /// Its view.
        consumer: View<'a>,
        /// What the predecessor wrote.
        producer: View<'a>,
        /// How they meet.
        overlap: Overlap,
    },
}

impl Source<'_> {
    /// The word for it in `deps.json`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Source::Explicit => "explicit",
            Source::Creator { .. } => "creator",
            Source::TensorMap { .. } => "tensormap",
        }
    }

    /// Whether the predecessor's memory is kept for the successor, too.
    #[must_use]
    pub const fn retains(&self) -> bool {
        !matches!(self, Source::TensorMap { .. })
    }
}

impl Submits {
    /// Hands every edge to `emit`, in order; its first error ends the replay.
    pub fn replay<'a, E>(&'a self, mut emit: impl FnMut(Edge<'a>) -> Result<(), E>) -> Result<(), E> {
        let mut map = TensorMap::new(self);
        let mut producers = Vec::with_capacity(self.len());
        let mut seen = Seen::new();
        let mut hits = Vec::new();
        for (number, submit) in (0..).zip(self.in_order()) {
            let succ = submit.task_id;
            producers.push(succ);
            seen.next_task();
            for &pred in self.deps_of(submit) {
                if seen.insert(pred) {
                    emit(Edge { pred, succ, source: Source::Explicit })?;
                }
            }
            if submit.manual {
                continue;
            }
            for (slot, arg_number) in (0..).zip(self.args_of(submit)) {
                let arg = self.arg(arg_number);
                if arg.arg_type == TensorArgType::Output {
                    continue;
                }
                if arg.owner != task_id::INVALID && seen.insert(arg.owner) {
                    let source = Source::Creator { arg: slot, consumer: self.view_of(arg) };
                    emit(Edge { pred: arg.owner, succ, source })?;
                }
                let updates = arg.arg_type == TensorArgType::Inout;
                if arg.manual_dep || !(updates || arg.arg_type == TensorArgType::Input) {
                    continue;
                }
                map.look_up(arg_number, updates, &mut hits);
                for hit in &hits {
                    let pred = producers[hit.write.producer as usize];
                    seen.insert(pred);
                    let consumer = self.view_of(arg);
                    let producer = self.view_of(self.arg(hit.write.arg));
                    let source = Source::TensorMap { arg: slot, consumer, producer, overlap: hit.overlap };
                    emit(Edge { pred, succ, source })?;
                }
            }
            for arg_number in self.args_of(submit) {
                let arg = self.arg(arg_number);
                let writes = matches!(arg.arg_type, TensorArgType::Inout | TensorArgType::OutputExisting);
                if writes && !arg.manual_dep {
                    map.register(arg_number, number);
                }
            }
        }
        Ok(())
    }
}

/// The predecessors that the current task has already.
struct Seen {
    /// Each with the task that it was seen for; a slot of an earlier task is free. At most half full.
    table: Vec<(u64, u64)>,
    task: u64,
    len: usize,
}

impl Seen {
    fn new() -> Self {
        Seen { table: vec![(0, 0); 64], task: 0, len: 0 }
    }

    fn next_task(&mut self) {
        self.task += 1;
        self.len = 0;
    }

    /// Whether `pred` is new.
    fn insert(&mut self, pred: u64) -> bool {
        let mask = self.table.len() - 1;
        let mut slot = slot_of(pred, mask);
        while self.table[slot].1 == self.task {
            if self.table[slot].0 == pred {
                return false;
            }
            slot = (slot + 1) & mask;
        }
        self.table[slot] = (pred, self.task);
        self.len += 1;
        if self.len * 2 > self.table.len() {
            self.grow();
        }
        true
    }

    fn grow(&mut self) {
        let larger = vec![(0, 0); self.table.len() * 2];
        let old = std::mem::replace(&mut self.table, larger);
        self.len = 0;
        let task = self.task;
        for (pred, _) in old.into_iter().filter(|entry| entry.1 == task) {
            self.insert(pred);
        }
    }
}
