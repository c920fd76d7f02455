#!/usr/bin/env bash
# Makes the device library: one relocatable object in an archive.
#
#   ffi/device/archive.sh a2a3|a5 OUT.a            the drop-in's 73 names (exports.txt) and dfx_*
#   ffi/device/archive.sh a2a3|a5 OUT.a native     dfx_* only: needs nothing of a runtime but mem*
#
# Environment: DFX_FEATURES (cargo features, e.g. onboard), DFX_TARGET (a Rust target to cross-build for, e.g.
# aarch64-unknown-linux-gnu, whose GNU binutils are then used), CARGO_TARGET_DIR.
#
# A Rust static library as it comes has all of core in it, and everything that core can refer to. Linking what the exported
# names reach into one object leaves the rest out; one object, too, because a runtime carries weak fallbacks for some of the
# names, and those would win over an archive member that nothing else pulls.
set -euo pipefail
if (($# < 2 || $# > 3)) || [[ ! ${1:-} =~ ^(a2a3|a5)$ || ! ${3:-all} =~ ^(all|native)$ ]]; then
    echo "usage: ffi/device/archive.sh a2a3|a5 OUT.a [native]" >&2
    exit 2
fi
platform=$1 out=$(realpath -m "$2") what=${3:-all}
cd "$(dirname "${BASH_SOURCE[0]}")"
target_dir=${CARGO_TARGET_DIR:-$(realpath ../../target)}/device-$platform${DFX_FEATURES:+-$DFX_FEATURES}
export CARGO_TARGET_DIR=$target_dir
export DFX_PLATFORM=$platform

# What is inlined is marked so, all of it on hot paths; a copy of anything else at each of its callers only costs room. So
# do loops that are written once and unrolled eight times.
export RUSTFLAGS="${RUSTFLAGS:-} -C llvm-args=-inline-threshold=0 -C llvm-args=-unroll-threshold=30"

build=(--release --locked)
tools=""
dir=$target_dir/release
[[ -n ${DFX_FEATURES:-} ]] && build+=(--features "$DFX_FEATURES")
if [[ -n ${DFX_TARGET:-} ]]; then
    build+=(--target "$DFX_TARGET")
    dir=$target_dir/$DFX_TARGET/release
    tools=${DFX_TARGET/-unknown/}-
    # Atomics in place: the helpers that choose an instruction at run time need the C library.
    [[ $DFX_TARGET == aarch64-* ]] && RUSTFLAGS+=" -C target-feature=-outline-atomics"
fi
# (the flag for aarch64 above is one that rustc warns of)
cargo build --quiet "${build[@]}" 2> >(grep -vE "outline-atomics|not stably supported|^ +\|$|^$" >&2 || true)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    "${tools}nm" --defined-only --extern-only "$dir/libdfx_device.a" 2>/dev/null | awk '$3 ~ /^dfx_/ { print $3 }'
    if [[ $what == all ]]; then
        awk -v platform="$platform" 'NF == 1 || $2 == platform { print $1 }' exports.txt
    fi
} | sort -u >"$work/names"
mapfile -t roots < <(sed 's/^/-u\n/' "$work/names")

# Only the members that are referred to: on aarch64 others have constructors, which would stay. (ld offers each member to its
# LTO plugin, which says so of those that it cannot read.)
"${tools}ld" -r --gc-sections "${roots[@]}" -o "$work/linked.o" "$dir/libdfx_device.a" \
    2> >(grep -v "Invalid encoding" >&2 || true)
# Nothing in here unwinds, so its tables go (and bitcode, by which ar would take this for a bitcode file). Then what is still
# undefined goes, too, where nothing refers to it any more.
"${tools}objcopy" --strip-debug --keep-global-symbols="$work/names" --remove-section=.eh_frame --remove-section=.comment \
    --remove-section=.llvmbc --remove-section=.llvmcmd "$work/linked.o"
"${tools}readelf" -rW "$work/linked.o" | awk '{ print $5 }' | sort -u >"$work/referred"
mapfile -t gone < <("${tools}nm" --undefined-only "$work/linked.o" | awk '{ print $2 }' | sort |
    comm -23 - "$work/referred" | sed 's/^/--strip-symbol=/')
"${tools}objcopy" "${gone[@]}" "$work/linked.o" "$work/dfx_device.o"
mkdir -p "$(dirname "$out")"
rm -f "$out"
"${tools}ar" rcsD "$out" "$work/dfx_device.o"
