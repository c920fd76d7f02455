//! Why a capture is no graph.

use dfx_collector::abi::dep_gen::{MAX_EXPLICIT_DEPS, OVERFLOW_DEPS, RECORDS};
use dfx_collector::abi::tensor::{MAX_DIMS, MAX_TENSOR_ARGS};

/// Why no `deps.json` is written: a graph that lacks a submit or a dependency would pass as complete.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A slot that no device half writes.
    #[error("dep_gen buffer {buffer}, slot {slot} (task {task_id}): {fault}; the capture is no whole graph")]
    Slot {
        /// The buffer's number.
        buffer: u32,
        /// The slot in it.
        slot: usize,
        /// The task id that the slot has.
        task_id: u64,
        /// What is wrong with it.
        fault: SlotFault,
    },
    /// A chain that fills a whole buffer: the device cuts longer ones to that length.
    #[error(
        "task {task_id} has {deps} explicit dependencies or more: the device cuts what does not fit into one \
         buffer of {} slots; name fewer per submit, for example through a task in between",
        RECORDS
    )]
    ChainCut {
        /// The task.
        task_id: u64,
        /// How many of its dependencies were captured.
        deps: usize,
    },
    /// More slots than a buffer has.
    #[error("dep_gen buffer {buffer} has {slots} slots; expected at most {}", RECORDS)]
    Size {
        /// The buffer's number.
        buffer: u32,
        /// How many slots were given.
        slots: usize,
    },
    /// A buffer that came twice.
    #[error("dep_gen buffer {buffer} was delivered twice: its submits would be counted twice; run again")]
    Duplicate {
        /// The buffer's number.
        buffer: u32,
    },
    /// The device dropped submits.
    #[error(
        "the device dropped {dropped} dep_gen records for want of buffers; give dep_gen more buffers, or run \
         on a quieter machine"
    )]
    Dropped {
        /// How many.
        dropped: u64,
    },
    /// What arrived is not what the device counted.
    #[error(
        "the device counted {counted} dep_gen records ({submits} submits and their overflow), {collected} were \
         collected; records were lost on the way: run again"
    )]
    Incomplete {
        /// Submits that the device counted.
        submits: u64,
        /// All slots that the device counted.
        counted: u64,
        /// Slots that were collected.
        collected: u64,
    },
    /// More than indices of 32 bits can name.
    #[error("the capture has more than {} {what}; capture a smaller part of the program", u32::MAX)]
    TooLarge {
        /// Of what.
        what: &'static str,
    },
}

/// What is wrong with a slot.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlotFault {
    /// More tensors than a submit can have.
    #[error("{0} tensors; a submit has at most {MAX_TENSOR_ARGS}")]
    Tensors(u16),
    /// More dependencies than the record holds.
    #[error("{0} explicit dependencies in the record; it holds at most {MAX_EXPLICIT_DEPS}")]
    Deps(u16),
    /// A use of a tensor that does not exist.
    #[error("argument {arg} has type {value}; expected 0 to 4")]
    ArgType {
        /// The argument.
        arg: usize,
        /// Its type.
        value: u8,
    },
    /// More dimensions than a tensor has.
    #[error("argument {arg} has {ndims} dimensions; a tensor has at most {MAX_DIMS}")]
    Dims {
        /// The argument.
        arg: usize,
        /// Its dimensions.
        ndims: u32,
    },
    /// The device says that it left something out.
    #[error("the device left out dependencies or tensors for want of room; name fewer per submit")]
    Truncated,
    /// An overflow slot that belongs to no submit.
    #[error("an overflow slot without a submit in front of it that announces one")]
    Orphan,
    /// An overflow slot of another task.
    #[error("an overflow slot in the chain of task {expected}")]
    WrongTask {
        /// The submit's task.
        expected: u64,
    },
    /// More dependencies than an overflow slot holds.
    #[error("{0} dependencies in an overflow slot; it holds at most {OVERFLOW_DEPS}")]
    OverflowDeps(u16),
    /// A chain that ends without its end.
    #[error("its overflow chain ends without a slot that is marked as the last")]
    NoLast,
}
