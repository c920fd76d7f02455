#!/usr/bin/env bash
# Explores the models of the lane protocol with loom. The preemption bound of each model, with its reason, stands at the
# model; all of them together take a few minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/../tests/models"
# Its own target directory: --cfg loom would rebuild everything in the workspace's.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-../../target}/loom"
RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" cargo test "$@"
