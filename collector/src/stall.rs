//! stall
