#!/usr/bin/env bash
# The hostile device under AddressSanitizer: no value in shared memory makes the host read or write beside its memory.
# Std is instrumented too (-Zbuild-std), so that its copies are checked. Skips (exit 77), and says so, where that cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
. ci/nightly.sh
nightly asan rust-src

export RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes"
# Its own directory: every crate is built with other flags.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}"
# 3,000 sessions take about two minutes under the sanitizer.
export DFX_HOSTILE_SEEDS="${DFX_HOSTILE_SEEDS:-3000}"

cargo +nightly test -q -Zbuild-std --target "$target" -p dfx-host-drain --test hostile -- --nocapture
