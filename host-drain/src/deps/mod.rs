//! dep_gen on the host: from captured submits to the graph of who waits for whom, `deps.json`.
//!
//! ```text
//! raw buffers ─▶ SubmitStore ─finish─▶ Submits ─replay─▶ edges ─▶ deps.json
//!                     └──── Refusal ◀────┘
//! ```
//!
//! [`SubmitStore`] keeps what the records say in a fraction of their size. [`SubmitStore::finish`] gives the [`Submits`]
//! only when they are all that the device counted, and a [`Refusal`] that names the reason otherwise: there is no file
//! that looks like a whole graph and is not. [`Submits::replay`] derives the edges by the runtime's rules, one after the
//! other; [`write_file`] streams them into the artifact. Time and memory follow the size of input and output, however
//! the writes of one buffer lie.

mod intern;
mod map;
mod refusal;
mod replay;
mod submits;
mod tree;
mod view;
mod writer;

pub use refusal::{Refusal, SlotFault};
pub use replay::{Edge, Source};
pub use submits::{DeviceCount, SubmitStore, Submits, View};
pub use view::Overlap;
pub use writer::{DepsCounts, FILE_NAME, Variant, write, write_file};
