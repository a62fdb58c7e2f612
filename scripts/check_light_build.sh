#!/usr/bin/env bash
# A program with the feature `enable` and without `report`: the crate memledger-analysis is not in it, its traces are whole, also
# where it is killed, and it says in one sentence what it does not have.
#
#     scripts/check_light_build.sh
set -euo pipefail
cd "$(dirname "$0")/.."

[ -n "${memledger:-}" ] || . scripts/command.sh
unset "${!MEMLEDGER_@}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
manifest=tests/programs/Cargo.toml target=${CARGO_TARGET_DIR:-target}/programs
cargo build --quiet --manifest-path "$manifest" -p light --target-dir "$target"
program=$(realpath "$target/debug/light")
tree=$(cargo tree --manifest-path "$manifest" -p light --edges normal,build --prefix none)
[[ $tree == *memledger-format* && $tree != *memledger-analysis* ]] || { echo "$tree"; exit 1; }

cd "$folder"
line="memledger: recorded N events to run.memledger; 'memledger report run.memledger' shows them (a report here needs the feature report)"
lacks="the program was built without memledger's feature report"
# run STATUS EXPECTED [VARIABLE=VALUE]... [-- ARGUMENT]: what is on stderr must be EXPECTED, with N for the number of events.
run() {
    local expected_status=$1 expected=$2 status=0 variables=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1") && shift; done
    [ $# = 0 ] || shift
    rm -f ./*.memledger
    # NOTE: in a shell of its own, whose word about a killed process nobody needs.
    (env "${variables[@]}" "$program" "$@" 2>stderr; exit $?) 2>/dev/null || status=$?
    printed=$(sed -E 's/recorded [1-9][0-9,]* events/recorded N events/' stderr)
    [ "$status" = "$expected_status" ] || { echo "status $status: $printed"; exit 1; }
    [ "$printed" = "$expected" ] || { printf 'printed:\n%s\nexpected:\n%s\n' "$printed" "$expected"; exit 1; }
    [ ! -e run.json ] || { echo "there is a report"; exit 1; }
}
# holds FILE FROM_PROCESS_START BYTES: whether the trace has its end, all of its events, and a block of this size.
holds() {
    "$memledger" report "$1" --format json 2>/dev/null | jq -e "
        .trace.ended and .losses.lost_events == 0 and .losses.unmatched_frees == 0 and .trace.from_process_start == $2
            and any(.largest_live[]; .bytes == $3)" >/dev/null || { echo "$1 is not whole"; exit 1; }
}
run 0 "$line" MEMLEDGER_TRACE=run.memledger
holds run.memledger true 1000003
run 0 "memledger: MEMLEDGER_REPORT (or -tracereport=) is \"run.json\", but $lacks; \`memledger report\` makes one of a trace (MEMLEDGER_TRACE)
$line" MEMLEDGER_TRACE=run.memledger MEMLEDGER_REPORT=run.json
holds run.memledger true 1000003
run 0 "" MEMLEDGER_TRACE=run.memledger MEMLEDGER_REPORT=off
holds run.memledger true 1000003
run 0 "memledger: recorded N events nowhere; MEMLEDGER_TRACE=run.memledger names a file (a report here needs the feature report)"
run 0 "memledger: there is no report: $lacks
memledger: there is no black box: $lacks
$line" -- "in code"
holds run.memledger true 1000003
holds late.memledger false 308
run 134 "" MEMLEDGER_TRACE=run.memledger MEMLEDGER_WATCH=1 -- killed
# The watcher ends after its process.
for _ in {1..100}; do
    "$memledger" report run.memledger --format json 2>/dev/null | jq -e .trace.ended >/dev/null && break
    sleep 0.1
done
holds run.memledger true 1000003
echo "a program without reports of its own: ok"
