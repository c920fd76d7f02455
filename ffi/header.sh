#!/usr/bin/env bash
# Makes ffi/include/dfx.h from the sources of both halves. The test that does it fails where the file is not current:
# ci/header.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
DFX_BLESS=1 cargo test --quiet -p dfx-ffi --test header
