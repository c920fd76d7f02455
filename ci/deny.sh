#!/usr/bin/env bash
# Licences, advisories, duplicate versions and sources of the dependencies, by deny.toml.
set -euo pipefail
if ! command -v cargo-deny >/dev/null; then
    echo "skipped: cargo-deny is not installed (cargo install cargo-deny --locked)"
    exit 77
fi
cargo deny --all-features check
