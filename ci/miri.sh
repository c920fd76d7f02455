#!/usr/bin/env bash
# Runs the collector's tests under Miri: undefined behaviour, data races, weak memory. Counts are scaled down by
# cfg!(miri). Addresses travel through shared memory as integers, hence permissive provenance. Further arguments go to
# `cargo miri test`.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustup component add miri rust-src --toolchain nightly >/dev/null 2>&1; then
    echo "miri: skipped, the component cannot be installed for the nightly toolchain"
    exit 0
fi
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-permissive-provenance"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
cargo +nightly miri test -p dfx-collector --test 'swimlane_*' "$@"
