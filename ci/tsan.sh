#!/usr/bin/env bash
# ThreadSanitizer over the tests that run real threads: schedulers, cores, orchestrator and watchdog over the simulator's
# registers and queues, collectors and host workers over shared memory. Std is instrumented too (-Zbuild-std): without
# that its locks and parkers look like races. Skips (exit 77), and says so, where that cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
. ci/nightly.sh
nightly tsan rust-src

export RUSTFLAGS="-Zsanitizer=thread -Cforce-frame-pointers=yes"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/ci/tsan.supp}"

# The runtime alone: its own unit tests on real threads.
cargo +nightly test -q -Zbuild-std --target "$target" -p dfx-sim --lib -- runtime:: exec::threads
# The whole path: levels, sessions one after the other, pools that run dry, and hangs. Virtual time has one thread only.
cargo +nightly test -q -Zbuild-std --target "$target" -p dfx-tests --test hardened_tsan --test sessions --test pools --test hang
# The hand-over between the thread that plans the dump's payload and the one that writes it.
cargo +nightly test -q -Zbuild-std --target "$target" -p dfx-host-drain --features testpoints --test dump_beside
