#!/usr/bin/env bash
# What the other steps need and a new machine may lack: rustfmt and clippy, a C compiler to link with, and valgrind for
# ci/callgrind.sh. Installs what is missing; without rustfmt, clippy or a C compiler the run cannot go on.
set -euo pipefail

if ! command -v cargo >/dev/null; then
    echo "error: there is no cargo on the path: install Rust 1.95 or newer, https://rustup.rs" >&2
    exit 1
fi
cargo --version
rustc --version

for component in rustfmt clippy; do
    tool=cargo-${component/rust/}
    if ! "$tool" --version >/dev/null 2>&1; then
        echo "$component is missing: installing it"
        rustup component add "$component"
    fi
    "$tool" --version
done

# apt PACKAGE...: as far as this machine lets us.
apt() {
    if ! command -v apt-get >/dev/null || (($(id -u) != 0)); then
        echo "cannot install $*: that takes apt-get and root"
        return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    if ! timeout 120 apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; then
        timeout 60 apt-get update -qq && timeout 120 apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    fi
}

if ! command -v cc >/dev/null; then
    echo "there is no cc: installing gcc"
    apt gcc libc6-dev
fi
cc --version | head -n 1

if [[ -f ci/callgrind.sh ]] && ! command -v valgrind >/dev/null; then
    echo "valgrind is missing: installing it"
    apt valgrind || echo "no valgrind: ci/callgrind.sh will have nothing to count with"
fi

for tool in cmake pkg-config; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool is missing: installing it"
        apt "${tool/pkg-config/pkgconf}" || echo "no $tool: the tests that build programs with it skip"
    fi
done

interop=${DFX_INTEROP_DIR:-../shared/interop}
if [[ ! -d $interop ]]; then
    echo "note: there is no $interop: with CI=true the tests on the reference's artifacts fail" >&2
fi
