#!/usr/bin/env bash
# Proof that the device half needs nothing that a device does not have. (What its library exports and imports: ci/symbols.sh.)
#
# 1. The collector builds for a target without an operating system (where rustup can add it).
# 2. From the functions that record, no panic can be reached: of the library for each platform, what they reach has nothing of
#    core::panicking, no unwinder and no allocator.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bare=x86_64-unknown-none
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if rustup target list --installed 2>/dev/null | grep -qx $bare || rustup target add $bare >/dev/null 2>&1; then
    cargo build --quiet -p dfx-collector --target $bare
    echo "ok       collector builds for $bare"
else
    echo "skipped  $bare cannot be added on this machine: the collector was not built for it"
fi

# What is not called while tasks run; everything else that the library exports records, or asks, or publishes.
cold='(init|reset|finalize|set_enabled|set_[a-z_]*_enabled|set_platform_[a-z_]*)'

for platform in a2a3 a5; do
    archive=$work/$platform.a
    ffi/device/archive.sh "$platform" "$archive"
    mapfile -t record < <(nm --defined-only --extern-only "$archive" |
        awk 'NF == 3 && $2 == "T" { print $3 }' | grep -vE "(^|_)$cold([A-Z0-9_]|v$|i+$|PK|$)" | LC_ALL=C sort)
    roots=()
    for name in "${record[@]}"; do roots+=(-u "$name"); done
    ld -r --gc-sections "${roots[@]}" -o "$work/record.o" --whole-archive "$archive"
    ways=$(nm "$work/record.o" | grep -E 'panick|panic_fmt|rust_begin_unwind|_Unwind|__rust_alloc|rust_eh_personality' || true)
    if [[ -n $ways ]]; then
        echo "FAILED   $platform: from a recording function these can be reached:"
        echo "$ways"
        failed=1
    elif ((${#record[@]} < 100)); then
        echo "FAILED   $platform: only ${#record[@]} recording functions were found"
        failed=1
    else
        echo "ok       $platform: no panic, allocation or unwinding from ${#record[@]} functions"
    fi
done
exit $failed
