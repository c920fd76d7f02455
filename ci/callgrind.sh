#!/usr/bin/env bash
# Counts the instructions of the record functions, called through a C boundary, and compares them with the bars of
# performance.md. Mean over many calls: the shares of the publication of every eighth record and of rotations are in it.
# The count is repeatable: one instruction too many fails.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
    (apt-get install -y valgrind >/dev/null 2>&1) || { echo "callgrind: skipped, valgrind is not here and cannot be installed"; exit 77; }
fi

# As the device archive is built: a C function that may not unwind keeps no frame for it.
export CARGO_PROFILE_RELEASE_PANIC=abort
cargo build --release -q -p dfx-benches --example hot --example hot_lanes --example hot_dump
examples="${CARGO_TARGET_DIR:-target}/release/examples"
hot="$examples/hot"
calls=16000
status=0

# what, function (or what it is called with, where `toggle` names it), level, bar (instructions per call)
count() {
    local what=$1 function=$2 level=$3 bar=$4 out total
    out=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no \
        --toggle-collect="${toggle:-hot_$function}" "$hot" "$function" "$calls" "$level" 2>&1)
    total=$(sed -n 's/.*Collected : *\([0-9]*\).*/\1/p' <<<"$out")
    awk -v what="$what" -v total="${total:?no count: $out}" -v calls=$calls -v bar="$bar" 'BEGIN {
        mean = total / calls
        printf "%-34s %9.2f   bar %6d   %s\n", what, mean, bar, mean <= bar ? "ok" : "MISSED"
        exit mean <= bar ? 0 : 1
    }' || status=1
}

echo "own instructions per call, x86-64"
count "guard, off"                     guard         0 3
count "on_dispatch, disabled"          on_dispatch   0 4
count "on_ack, disabled"               on_ack        0 4
count "complete_task, disabled"        complete_task 1 4
count "sched_phase, disabled"          sched_phase   2 8
count "orch_phase, disabled"           orch_phase    3 8
count "core reserve + commit"          core          1 22
count "on_dispatch"                    on_dispatch   1 14
count "on_ack"                         on_ack        1 14
count "complete_task"                  complete_task 2 22
count "sched_phase"                    sched_phase   3 48
count "orch_phase"                     orch_phase    4 16

# The level is no matter of these.
hot="$examples/hot_lanes"
for what in dep_gen scope_begin scope_end pmu_a2a3 pmu_a5; do
    case $what in pmu_*) bar=4 ;; *) bar=8 ;; esac
    count "$what, disabled"            "$what" off $bar
done
count "dep_gen, 4 tensors, 3 deps"     dep_gen       on 160
count "scope begin"                    scope_begin   on 75
count "scope end"                      scope_end     on 75
count "PMU record, a2a3"               pmu_a2a3      on 130
count "PMU record, a5"                 pmu_a5        on 130

# A payload's time is compared with memcpy's by the bench `dump`; here, what it costs besides is kept where it is.
hot="$examples/hot_dump" toggle=hot_dump
count "args dump, disabled"            off           - 8
count "args dump, scalar"              scalar        - 75
count "args dump, metadata, 4 dims"    metadata      - 95
calls=1000
count "args dump, 4 KiB"               payload_4k    - 720
count "args dump, 128 rows of 512 B"   rows          - 17000
count "args dump, transposed 128x128"  transposed    - 120000
exit $status
