//! swimlane
