//! The `a2a3sim` and `a5sim` platforms: a task runtime small enough to read, real enough to record.
//!
//! [`run`] is the front door. Who does what behind it: [`program`] is what runs, made by [`builder`], [`graph`] and
//! [`workloads`]; [`memory`] is where its tensors live; [`fanin`] is how the orchestrator finds dependencies; [`runtime`]
//! is the device, whose actors take time through [`exec`]; [`pmu`] is what its cores count; [`hooks`] is where the actors call the collectors; [`device`] is the
//! memory that the diagnostics share with the host; [`link`] is the way to it;
//! [`marks`] is what a partial dump takes; [`faults`] is what goes wrong on purpose.

#![warn(missing_docs)]

pub mod builder;
pub mod device;
mod drive;
pub mod exec;
pub mod fanin;
pub mod faults;
pub mod graph;
pub mod hooks;
pub mod link;
pub mod marks;
pub mod memory;
pub mod pmu;
pub mod program;
pub mod run;
pub mod runtime;
pub mod workloads;
