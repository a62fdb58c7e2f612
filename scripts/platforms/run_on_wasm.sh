#!/usr/bin/env bash
# Runs the program of tests/wasm on WebAssembly, by node, and here. On both, memledger's figures must be those that the
# program counts itself, and those of scopes, groups and names whose blocks have the same sizes must be the same.
#
#     scripts/platforms/run_on_wasm.sh
#
# Needs node and jq. Works in target/platforms.
set -euo pipefail
cd "$(dirname "$0")/../.."

. scripts/platforms/common.sh
target=wasm32-unknown-unknown

export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/platforms}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
    echo "FAILED on WebAssembly: $*" >&2
    exit 1
}

cd tests/wasm
timeout 900 cargo build --quiet --lib --target "$target"
timeout 900 cargo run --quiet --example print >"$folder/linux"
program=$CARGO_TARGET_DIR/$target/debug/wasm.wasm
timeout 60 node host.mjs "$program" >"$folder/wasm"
timeout 60 node host.mjs "$program" --clock >"$folder/clock"

# all FILTER: is true of the results on all systems.
all() {
    for system in linux wasm clock; do
        jq -e "$1" "$folder/$system" >/dev/null || fail "not so on $system: $1"
    done
}
all '.work | . as $work | .own | to_entries | all(.value == $work.report.totals[.key]) and length == 6'
all '.work.own.allocations > 5000 and .work.problems == [] and ([.work.report.losses[]] | add) == 0'
all '.measured == [1, 1000] and .more_pages == 0'

# What has other sizes: the group of pointers, and the lists of the program's own.
same='.work.report
    | [.by_scope[] | select(.path | IN(["GlobalScope"], ["GlobalScope", "frame", "pointers"]) | not)],
      [.by_group[] | select(.group == ["Fixed"])],
      [.by_name[] | select(.group == ["Fixed"])]
    | map(del(.inclusive, .live_bytes_at_peak, .live_blocks_at_peak) | with_entries(select(.key | endswith("_ns") | not)))'
for system in linux wasm clock; do jq "$same" "$folder/$system" >"$folder/$system.rows"; done
for system in wasm clock; do
    diff "$folder/linux.rows" "$folder/$system.rows" >&2 || fail "these figures differ"
done
rows=$(jq -s 'map(length) | add' "$folder/linux.rows")
[ "$rows" -ge 6 ] || fail "only $rows rows are compared"

smaller='[.work.report.by_group[] | select(.group == ["Pointers"]) | .allocated_bytes] | add'
[ "$(jq "$smaller" "$folder/wasm")" -lt "$(jq "$smaller" "$folder/linux")" ] || fail "pointers take as much"
[ "$(jq .work.report.trace.duration_ns "$folder/wasm")" = 0 ] || fail "there are times without a clock"
[ "$(jq .work.report.trace.duration_ns "$folder/clock")" -gt 0 ] || fail "there are no times with a clock"
for system in wasm clock; do
    jq -e '.refusals[0] | contains("add .worker(memledger::Worker::Manual)")' "$folder/$system" >/dev/null ||
        fail "a worker that needs a thread is not refused"
    jq -e '.refusals[1] | contains("run.memledger")' "$folder/$system" >/dev/null || fail "a file is not refused"
done
allocations=$(jq .work.own.allocations "$folder/wasm")
echo "WebAssembly: $allocations allocations are those that the program counts; $rows rows are those of Linux"
