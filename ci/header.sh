#!/usr/bin/env bash
# ffi/include/dfx.h is what the sources of both halves say. A part of `cargo test --workspace`, here by itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo test --quiet -p dfx-ffi --test header
