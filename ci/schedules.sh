#!/usr/bin/env bash
# 100,000 random schedules of the whole lane protocol (collector/tests/swimlane_random.rs), optimised: under a minute on
# two cores. A failing seed prints the command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
DFX_SCHEDULES="${DFX_SCHEDULES:-100000}" cargo test --release -p dfx-collector --test swimlane_random "$@"
