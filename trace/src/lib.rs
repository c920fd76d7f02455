//! Reading artifacts back and answering questions about them.
//!
//! * [`records`]: `chip_swimlane_records.json`, strictly and as a stream;
//! * [`check`]: is what is in an output directory complete and of one piece;
//! * [`dump`]: the args dump, printed, exported, measured and compared;
//! * [`locate`]: which output directory is meant when none is named.
#![forbid(unsafe_code)]

pub mod check;
pub mod dump;
pub mod locate;
pub mod records;

mod digest;

pub use locate::newest_output_dir;
