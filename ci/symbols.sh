#!/usr/bin/env bash
# What the device library exports, what it needs, and how large it is, for each platform.
#
# 1. The archive is one object; it exports the drop-in's 73 names (ffi/device/exports.txt, and ../shared/abi if it is there)
#    and dfx_*, all strong, and nothing else.
# 2. So does a shared library that it is linked into whole, with -z defs; it needs what the reference's collectors need, and
#    mem*: no allocator, no unwinder, no other libc.
# 3. Linked the way the runtime's objects may make it, the five names with weak fallbacks are still ours.
# 4. Its text is under 64 KiB.
# 5. Its native cut needs mem* only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}

ok() { echo "ok       $platform: $*"; }
bad() { echo "FAILED   $platform: $*"; failed=1; }

# same WHAT EXPECTED FOUND: two sorted lists in files
same() {
    if diff -u --label expected --label found "$2" "$3" >"$work/diff"; then ok "$1"; else bad "$1"; cat "$work/diff"; fi
}

defined() { nm "$@" | awk 'NF == 3 && $2 ~ /^[A-Z]$/ { print $3 }' | LC_ALL=C sort; }
undefined() { nm --undefined-only "$@" | awk '/^ / { sub(/@.*/, "", $NF); print $NF }' | LC_ALL=C sort -u; }

for platform in a2a3 a5; do
    archive=$work/libdfx_device_$platform.a
    ffi/device/archive.sh "$platform" "$archive"

    awk -v platform=$platform 'NF == 1 || $2 == platform { print $1 }' ffi/device/exports.txt | LC_ALL=C sort >"$work/names"
    facts=$root/../shared/abi/$platform.json
    if [[ -f $facts ]]; then
        # Each entry lists its unit before its symbol.
        awk -F'"' '$2 == "unit" { unit = $4 }
            $2 == "symbol" && unit ~ /^(args_dump|.*_collector)_aicpu$/ { print $4 }' "$facts" | LC_ALL=C sort >"$work/facts"
        same "the names are those of the pinned facts" "$work/facts" "$work/names"
    fi
    grep -ohE 'fn dfx_[a-z0-9_]+' ffi/device/src/native/*.rs | sed 's/^fn //' | cat - "$work/names" | LC_ALL=C sort >"$work/exports"

    [[ $(ar t "$archive" | wc -l) == 1 ]] || bad "the archive has several members"
    defined "$archive" >"$work/found"
    same "the archive exports $(wc -l <"$work/names") names of the drop-in and $(grep -c '^dfx_' "$work/exports") of ours" \
        "$work/exports" "$work/found"
    weak=$(nm "$archive" | awk 'NF > 1 && $(NF - 1) ~ /^[vVwWuiC]$/ { print $NF }')
    [[ -z $weak ]] || bad "not strong: $weak"

    {
        printf '%s\n' _Z17get_sys_cnt_aicpuv _Z8read_regm5RegId sched_yield unified_log_error unified_log_warn
        case $platform in
            a2a3) printf '%s\n' _Z17reg_store_releasePVjj get_platform_pmu_reg_addrs ;;
            a5) printf '%s\n' _Z9write_regm5RegIdm get_platform_regs ;;
        esac
    } | LC_ALL=C sort >"$work/imports"
    undefined "$archive" | grep -vxE 'mem(cpy|move|set|cmp|chr)|bcmp|_GLOBAL_OFFSET_TABLE_' >"$work/found" || true
    same "it needs the runtime's clock, log and registers, and mem*" "$work/imports" "$work/found"

    # What the runtime provides, as a library of its own, and ours whole against it. Nothing runs: types do not matter.
    grep -vx sched_yield "$work/imports" | sed 's/.*/void &(void) {}/' >"$work/runtime.c"
    "$cc" -shared -fPIC -o "$work/libruntime.so" "$work/runtime.c"
    "$cc" -shared -Wl,-z,defs -o "$work/whole.so" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
        -L"$work" -lruntime
    nm -D --defined-only "$work/whole.so" | awk '{ print $3 }' | LC_ALL=C sort >"$work/found"
    same "so does a shared library linked with -z defs" "$work/exports" "$work/found"
    nm -D --undefined-only "$work/whole.so" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' |
        grep -vxE 'mem(cpy|move|set|cmp|chr)|bcmp' | LC_ALL=C sort >"$work/found"
    same "which needs the same" "$work/imports" "$work/found"

    # A runtime whose objects carry weak, hidden fallbacks and pull one name only: all of ours must win.
    fallbacks=(is_dep_gen_enabled is_scope_stats_enabled scope_stats_note_heap_wrap
        _Z37chip_swimlane_aicpu_record_orch_phasemmmj _Z27dep_gen_aicpu_record_submitmbbiPKPKvPKhiPKmiPKi)
    {
        printf '__attribute__((weak, visibility("hidden"))) void %s(void) {}\n' "${fallbacks[@]}"
        printf 'extern void set_dep_gen_enabled(int);\nvoid *pulls(void) { return (void *)set_dep_gen_enabled; }\n'
        for name in "${fallbacks[@]}"; do printf 'void *at_%s(void) { return (void *)%s; }\n' "$name" "$name"; done
    } >"$work/fallback.c"
    "$cc" -c -fPIC -ffunction-sections -o "$work/fallback.o" "$work/fallback.c"
    "$cc" -shared -Wl,-z,defs -o "$work/weak.so" "$work/fallback.o" "$archive" -L"$work" -lruntime
    for name in "${fallbacks[@]}"; do
        # Strong and, by the fallback, hidden: a local symbol. The fallback itself would be a weak one.
        [[ $(nm "$work/weak.so" | awk -v name="$name" '$3 == name { print $2 }') == t ]] ||
            bad "the runtime's weak fallback wins for $name"
    done
    # (two definitions of a name would not have linked; that the one is ours shows its size)
    for name in "${fallbacks[@]}"; do
        size_in() { nm -S "$1" | awk -v name="$name" '$NF == name && NF == 4 { print $2 }'; }
        [[ $(size_in "$work/weak.so") == "$(size_in "$archive")" ]] || bad "$name is not ours"
    done
    ok "the runtime's five weak fallbacks give way"

    text=$(size "$archive" | awk 'NR == 2 { print $1 }')
    if ((text < 65536)); then ok "$text bytes of text"; else bad "$text bytes of text, 65536 are allowed"; fi

    ffi/device/archive.sh "$platform" "$work/native.a" native
    needs=$(undefined "$work/native.a" | grep -vxE 'mem(cpy|move|set|cmp|chr)|bcmp|_GLOBAL_OFFSET_TABLE_' | tr '\n' ' ' || true)
    if [[ -z $needs ]]; then ok "its native cut needs mem* only"; else bad "its native cut needs $needs"; fi
done
exit $failed
