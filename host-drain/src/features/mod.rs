//! What each feature adds to the engine: its region's plan, and what only it knows at the end.

pub mod swimlane;
