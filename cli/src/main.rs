//! dfx.
fn main() {}
