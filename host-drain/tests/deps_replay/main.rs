//! dep_gen's replay: against a brute-force oracle, against what the reference wrote, on broken input, and at size.

mod broken;
mod chains;
mod interop;
mod oracle;
mod random;
mod raw;
mod rules;
mod speed;
