#!/usr/bin/env bash
# Runs the collector's tests and the host's unit tests under Miri: undefined behaviour, aliasing, data races, weak memory.
# Counts and record buffers are smaller there (`cfg!(miri)`), the paths are not: lanes rotate, queues fill up, hosts die.
#
#   ci/miri.sh                all but `abi_json`, which compares numbers with JSON and touches no memory
#   ci/miri.sh all            that too
#   ci/miri.sh host pmu_...   the host's unit tests, test files of the collector
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/nightly.sh
nightly miri miri rust-src
cargo +nightly miri setup >/dev/null 2>&1 || skip miri "Miri cannot build its std"

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
# Addresses travel through shared memory as integers.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-permissive-provenance"
# Properties are held against a few cases only.
export PROPTEST_CASES="${PROPTEST_CASES:-4}"

# One job, whose output comes in one piece.
run() {
    local begun=$SECONDS out rc=0
    case $1 in
        # Writes and reads files.
        host) out=$(MIRIFLAGS="$MIRIFLAGS -Zmiri-disable-isolation" cargo +nightly miri test -p dfx-host-drain --lib 2>&1) || rc=$? ;;
        abi_json) out=$(MIRIFLAGS="$MIRIFLAGS -Zmiri-disable-isolation" cargo +nightly miri test -p dfx-collector --test "$1" 2>&1) || rc=$? ;;
        *) out=$(cargo +nightly miri test -p dfx-collector --test "$1" 2>&1) || rc=$? ;;
    esac
    printf '%s\n%s: exit %d after %d s\n\n' "$out" "$1" "$rc" "$((SECONDS - begun))"
    return "$rc"
}
export -f run

jobs=(host)
for file in collector/tests/*.rs; do
    name=$(basename "$file" .rs)
    [[ $name == abi_json && "${1:-}" != all ]] || jobs+=("$name")
done
[[ $# == 0 || $1 == all ]] || jobs=("$@")
cargo +nightly miri test -p dfx-collector --tests --no-run
cargo +nightly miri test -p dfx-host-drain --lib --no-run
printf '%s\n' "${jobs[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run {}'
