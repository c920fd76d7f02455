//! C and C++ programs, built as a user builds them and run: the conformance programs of `tests/ffi`, and the examples of
//! `docs/linking.md`. And the drop-in headers.

mod build;
mod conformance;
mod dropin;
mod examples;
mod install;
