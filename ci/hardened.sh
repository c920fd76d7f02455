#!/usr/bin/env bash
# The hardening tests with the counts that they are meant to have: `cargo test --workspace` runs them with smaller ones.
#
#   ci/hardened.sh             all of them
#   ci/hardened.sh kill        these only: kill, faults, determinism, hostile
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("${@:-kill faults determinism hostile}")

for part in ${parts[*]}; do
    case $part in
        # 200 kills at random moments, both platforms (issue 3, point 4).
        kill) DFX_KILLS="${DFX_KILLS:-200}" cargo test --release -q -p dfx-cli --test kill -- --nocapture ;;
        # Every pair of faults.
        faults) DFX_PAIRS=all cargo test --release -q -p dfx-tests --test hardened_faults ;;
        # The same seed twice, with a flood that rotates every lane many times.
        determinism) DFX_FLOOD="${DFX_FLOOD:-200000}" cargo test --release -q -p dfx-tests --test hardened_determinism ;;
        # A device gone mad, ten thousand ways.
        hostile) DFX_HOSTILE_SEEDS="${DFX_HOSTILE_SEEDS:-10000}" cargo test --release -q -p dfx-host-drain --test hostile ;;
        *)
            echo "error: there is no part \`$part\`: kill, faults, determinism, hostile" >&2
            exit 2
            ;;
    esac
done
