//! What can be wrong with a captured graph.

use std::path::PathBuf;

/// A file that cannot be made into a program.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct GraphError {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub fault: GraphFault,
}

/// What is wrong: the thing, its value, what is accepted, what to do.
#[derive(Debug, thiserror::Error)]
pub enum GraphFault {
    /// It is a directory.
    #[error("is a directory; name the file in it, for example {example}")]
    Directory {
        /// A file that may be meant.
        example: String,
    },
    /// It cannot be read.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Read(#[source] std::io::Error),
    /// Not JSON, or not of this shape.
    #[error("{message}; {remedy}")]
    Json {
        /// What the parser says, with line and column.
        message: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A top-level key is missing.
    #[error(
        "has no key \"{key}\"; expected a deps.json or chip_swimlane_records.json as the runtime writes it"
    )]
    MissingKey {
        /// Which.
        key: &'static str,
    },
    /// Nothing to run.
    #[error("\"tasks\" is empty; expected at least one task: capture a program that submits some")]
    NoTasks,
    /// A task id that two tasks have.
    #[error("tasks[]: task_id {task_id} appears twice; every task has its own id: capture the graph again")]
    DuplicateTask {
        /// Which.
        task_id: u64,
    },
    /// Not one kernel per subtask slot.
    #[error(
        "task {task_id}: kernel_ids has {found} entries; expected 3 (AIC, AIV0, AIV1), -1 where there is none"
    )]
    KernelSlots {
        /// Which task.
        task_id: u64,
        /// How many entries.
        found: usize,
    },
    /// Not a kernel number.
    #[error("task {task_id}: kernel id {value} is out of range; expected -1 (none) or 0 to 65535")]
    KernelId {
        /// Which task.
        task_id: u64,
        /// The number.
        value: i64,
    },
    /// Not a number of blocks.
    #[error("task {task_id}: block_num is {value}; expected 1 to 65535")]
    BlockNum {
        /// Which task.
        task_id: u64,
        /// The number.
        value: i64,
    },
    /// A task that waits for itself.
    #[error("edges[{number}]: task {task_id} depends on itself; remove the edge, or capture the graph again")]
    SelfEdge {
        /// Which edge.
        number: usize,
        /// Which task.
        task_id: u64,
    },
    /// A successor that is no task.
    #[error(
        "edges[{number}]: successor {succ} (of {pred}) is not in tasks[]; expected the id of a listed task"
    )]
    UnknownSuccessor {
        /// Which edge.
        number: usize,
        /// Its predecessor.
        pred: u64,
        /// Its successor.
        succ: u64,
    },
    /// A predecessor that is neither a task nor an alloc.
    #[error(
        "edges[{number}]: predecessor {pred} (of {succ}, source {kind}) is not in tasks[]; only the creator of \
         a buffer (an alloc) may be missing there"
    )]
    UnknownPredecessor {
        /// Which edge.
        number: usize,
        /// Its predecessor.
        pred: u64,
        /// Its successor.
        succ: u64,
        /// Where the edge comes from.
        kind: &'static str,
    },
    /// Tasks that wait for one another.
    #[error(
        "the edges have a cycle: {}; no order runs them: remove an edge, or capture the graph again",
        chain(tasks)
    )]
    Cycle {
        /// The tasks on it, each before the one that waits for it.
        tasks: Vec<u64>,
    },
    /// A level that no capture has.
    #[error("chip_swimlane_level is {value}; expected 1 to 4")]
    Level {
        /// The number.
        value: i64,
    },
    /// A frequency that no counter has.
    #[error(
        "metadata.clock_freq_hz is {value}; expected 1 to 10000000000 (50000000 on a2a3, 1000000000 on a5)"
    )]
    Frequency {
        /// The number.
        value: i64,
    },
    /// Records of another run.
    #[error("none of its {rows} core rows is of a task of the graph; give the records of the same program")]
    ForeignRecords {
        /// How many rows there are.
        rows: usize,
    },
}

/// `1 -> 2 -> 1`, shortened in the middle.
fn chain(tasks: &[u64]) -> String {
    const SHOWN: usize = 8;
    let mut parts: Vec<String> = tasks.iter().take(SHOWN).map(u64::to_string).collect();
    if tasks.len() > SHOWN {
        parts.push(format!("… ({} more)", tasks.len() - SHOWN));
    }
    parts.extend(tasks.first().map(u64::to_string));
    parts.join(" -> ")
}
