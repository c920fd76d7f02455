#!/usr/bin/env bash
# The device half on aarch64, which AICPU is: cross-built, with a board's full-system barriers and without, and its layouts and
# golden memory (collector/tests/golden) under emulation: once through the collectors, once through the device library's C
# functions. Ends with 77 where a tool cannot be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=aarch64-unknown-linux-gnu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() { echo "skipped: $*"; exit 77; }

rustup target list --installed 2>/dev/null | grep -qx $target || rustup target add $target >/dev/null 2>&1 ||
    skip "rustup cannot add $target"
for tool in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user; do
    command -v "${tool%:*}" >/dev/null || apt-get install -y "${tool#*:}" >/dev/null 2>&1 ||
        skip "${tool%:*} is not here and the package ${tool#*:} cannot be installed"
done
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
emulate=(timeout 300 qemu-aarch64 -L /usr/aarch64-linux-gnu)

# golden FEATURES FLAG...: builds the golden test, with these flags for it alone, and runs it
golden() {
    local features=$1 program
    shift
    program=$(cargo rustc --quiet -p dfx-collector --features "$features" --test golden --target $target \
        --message-format=json -- "$@" | sed -n 's/.*"name":"golden".*"executable":"\([^"]*\)".*/\1/p')
    "${emulate[@]}" "$program"
}

for features in "" onboard; do
    echo "collectors, features '$features': $(golden "$features")"
done

for platform in a2a3 a5; do
    for features in "" onboard; do
        archive=$work/libdfx_device_$platform.a
        DFX_TARGET=$target DFX_FEATURES=$features ffi/device/archive.sh $platform "$archive" native
        # `dsb st` and `dsb ld` are what a board needs and nobody else pays for.
        barriers=$(aarch64-linux-gnu-objdump -d "$archive" | grep -cE 'dsb[[:space:]]+(st|ld)$' || true)
        if [[ -n $features && $barriers == 0 ]] || [[ -z $features && $barriers != 0 ]]; then
            echo "FAILED: $platform, features '$features': $barriers full-system barriers"
            exit 1
        fi
        needs=$(aarch64-linux-gnu-nm --undefined-only "$archive" | awk '/^ / { print $2 }' |
            grep -vxE 'mem(cpy|move|set|cmp|chr)|bcmp' | tr '\n' ' ' || true)
        if [[ -n $needs ]]; then
            echo "FAILED: $platform, features '$features': the library needs $needs"
            exit 1
        fi
        flags=(--cfg device_library -C link-arg="$archive")
        [[ $platform == a5 ]] && flags+=(--cfg device_library_a5)
        echo "$platform library, features '$features', $barriers barriers: $(golden "" "${flags[@]}")"
    done
done
