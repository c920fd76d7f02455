//! The host side of pto-dfx: getting records off the device without losing them, and writing them down.
//!
//! Data flows one way:
//!
//! ```text
//! transport ─▶ drain ─▶ collect ─▶ records ─▶ export ─▶ artifact
//!     ▲          │ recycle
//!     └─ lanes ◀─┘ (refill)         ledger, reconcile ─▶ report (run.json)
//! ```
//!
//! [`Session`] owns one run and is the front door. The rooms behind it: [`memory`] is what a platform can do for us,
//! [`transport`] how the host reaches device memory, [`region`] how a region is made, [`features`] what each feature adds, [`lanes`] the host's half of every
//! lane, [`drain`] and [`service`] the work while the device runs, [`gate`] the freeze, [`tail`] what no count shows at its
//! end, [`collect`] and [`records`] what is kept, [`ledger`] and [`reconcile`] what became of every record, [`export`], [`artifact`] and [`report`] the files.

#![warn(missing_docs)]

pub mod artifact;
pub mod collect;
pub mod config;
pub mod deps;
pub mod drain;
pub mod dump;
pub mod export;
pub mod features;
pub mod gate;
pub mod lanes;
pub mod ledger;
pub mod memory;
pub mod reconcile;
pub mod records;
pub mod region;
pub mod report;
pub mod service;
pub mod session;
pub mod tail;
pub mod target;
pub mod testpoint;
pub mod transport;
pub mod workers;

pub use dfx_collector::abi::pmu::EventType as PmuEvent;

pub use dfx_collector::abi::args_dump::Level as DumpLevel;

pub use config::{Backpressure, Board, ConfigError, DfxConfig, PoolSizes, Timeouts, TransportKind};
pub use dump::DumpBudget;
pub use session::{DeviceEnd, Drive, ExportError, Session, SessionError, SessionSpec, Stepper};
pub use target::{BackendType, ExecutionMode, Target};
