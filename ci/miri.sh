#!/usr/bin/env bash
# Runs the collector's tests and the host's unit tests under Miri: undefined behaviour, aliasing, data races, weak memory.
# Without arguments: the guards, the threads, and host tests that need no large files (some minutes); `ci/miri.sh all`: all
# of the collector's swimlane, which takes an hour and has not been seen to finish.
# Counts are scaled down by cfg!(miri). Addresses travel through shared memory as integers, hence permissive provenance.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/nightly.sh
nightly miri miri rust-src

export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-permissive-provenance"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
if [[ "${1:-}" == all ]]; then
    exec cargo +nightly miri test -p dfx-collector --test 'swimlane_*'
fi
cargo +nightly miri test -p dfx-collector --test swimlane_threads --test swimlane_guards
# The host's unit tests that need no large files: stores, ledger, writers, held dump records.
MIRIFLAGS="$MIRIFLAGS -Zmiri-disable-isolation" \
    cargo +nightly miri test -p dfx-host-drain --lib -- ledger target:: records:: export::pmu export::scope_stats
