#!/usr/bin/env bash
# The README's promise: it names exactly two commands to begin with, and the first of them works as printed. (The second
# is a CI step of its own.) What it wrote is then checked with the command that it told us.
set -euo pipefail

first='cargo run --release -- run vector_example --enable-chip-swimlane'
second='cargo test --workspace'

# The lines of the first ```sh block.
commands=$(awk '/^```sh$/ {inside = 1; next} /^```$/ && inside {exit} inside' README.md)
if [[ $commands != "$first"$'\n'"$second" ]]; then
    printf 'error: the first sh block of README.md must be the two commands\n%s\n%s\nand is\n%s\n' \
        "$first" "$second" "$commands" >&2
    exit 1
fi

said=$(mktemp)
trap 'rm -f "$said"' EXIT
echo "\$ $first"
$first 2>&1 | tee "$said"

check=$(sed -n 's/^to check it: *//p' "$said")
if [[ $check != "dfx check "* ]]; then
    echo "error: the run did not say how to check what it wrote" >&2
    exit 1
fi
dir=${check#dfx check }
for file in chip_swimlane_records.json run.json; do
    [[ -s $dir/dfx_outputs/$file ]] || { echo "error: $dir/dfx_outputs/$file is missing" >&2; exit 1; }
done
echo "\$ $check"
cargo run --release --quiet -- check "$dir"
