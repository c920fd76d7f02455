#!/usr/bin/env bash
# Proof that the device half needs nothing that a device does not have.
#
# 1. The collector builds for a target without an operating system (where rustup can add it).
# 2. The device archive, for each platform, needs no allocator, no unwinder and no std: its undefined symbols are mem*
#    only.
# 3. From the functions that record, no panic can be reached: linked from them alone, nothing of core::panicking is left.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
bare=x86_64-unknown-none
failed=0

if rustup target list --installed 2>/dev/null | grep -qx $bare || rustup target add $bare >/dev/null 2>&1; then
    cargo build --quiet -p dfx-collector --target $bare
    echo "ok       collector builds for $bare"
else
    echo "skipped  $bare cannot be added on this machine: the collector was not built for it"
fi

# What a recording function is; the rest of the archive is cold.
record=(dfx_swimlane_on_dispatch dfx_swimlane_on_ack dfx_swimlane_complete_task dfx_swimlane_sched_phase dfx_swimlane_orch_submit)

for platform in a2a3 a5; do
    dir=$target/device-$platform
    DFX_PLATFORM=$platform CARGO_TARGET_DIR=$dir \
        cargo build --quiet --release --manifest-path ffi/device/Cargo.toml
    archive=$dir/release/libdfx_device.a

    link() { # link OUT NAME...: one relocatable object of what these names reach
        local out=$1 keep=()
        shift
        for name in "$@"; do keep+=(-u "$name"); done
        # (ld offers each member to its LTO plugin, which says so of those that it cannot read)
        ld -r --gc-sections "${keep[@]}" -o "$out" --whole-archive "$archive" 2> >(grep -v "Invalid encoding" >&2 || true)
    }

    mapfile -t all < <(nm --defined-only --extern-only "$archive" 2>/dev/null | awk '$3 ~ /^dfx_/ { print $3 }' | sort -u)
    ((${#all[@]} > 0)) || { echo "FAILED   $platform: the archive exports no dfx_ function"; exit 1; }
    link "$dir/all.o" "${all[@]}"
    needs=$(nm --undefined-only "$dir/all.o" | awk '{ print $2 }' | grep -vxE 'mem(cpy|move|set|cmp)|bcmp|_GLOBAL_OFFSET_TABLE_' || true)
    if [[ -n $needs ]]; then
        echo "FAILED   $platform: the archive needs $(tr '\n' ' ' <<<"$needs")"
        failed=1
    else
        echo "ok       $platform: ${#all[@]} functions need mem* only, $(size "$dir/all.o" | awk 'NR == 2 { print $1 }') bytes of text"
    fi

    link "$dir/record.o" "${record[@]}"
    ways=$(nm "$dir/record.o" | grep -E 'panick|panic_fmt|rust_begin_unwind|_Unwind|__rust_alloc|rust_eh_personality' || true)
    if [[ -n $ways ]]; then
        echo "FAILED   $platform: from a recording function these can be reached:"
        echo "$ways"
        failed=1
    else
        echo "ok       $platform: no panic, allocation or unwinding from ${#record[@]} recording functions"
    fi
done
exit $failed
