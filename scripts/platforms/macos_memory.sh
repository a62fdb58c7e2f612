#!/usr/bin/env bash
# Whether `memledger run` has on macOS the figures of a program of C without the tracker (macos_memory.c): those that it
# counts itself, where it returns from main, ends by `_exit`, and is ended by a signal that the command got.
#
#     scripts/platforms/macos_memory.sh MEMLEDGER LIBRARY PROGRAM [LOADER]
#
# Needs jq. NOTE: macOS has an old bash, and no `timeout`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
loader=$(printf '%q ' "${@:4}")
if [ $# -lt 4 ]; then loader=; fi
run="$loader$(printf '%q ' "$1" run --preload "$2" --report "$folder/memory.json" "$3")"

# is_exact HOW: whether the report has what the program says.
is_exact() {
    local found allocations frees reallocations live
    read -r allocations _ frees _ reallocations _ live _ <"$folder/said"
    found=$(jq -r '.totals | "\(.allocations) \(.frees) \(.reallocations) \(.live_bytes)"' "$folder/memory.json")
    rm "$folder/memory.json"
    if [ "$found" != "$allocations $frees $reallocations $live" ]; then
        echo "FAILED $1: the report has $found allocations, frees, reallocations and live bytes, the program $(cat "$folder/said")" >&2
        exit 1
    fi
}
for end in returns by_exit; do
    eval "$run $end" >"$folder/said"
    is_exact $end
done
mkfifo "$folder/in" "$folder/out"
eval "exec $run waits" <"$folder/in" >"$folder/out" &
command=$!
exec 9>"$folder/in"
head -n 1 "$folder/out" >"$folder/said"
kill -TERM "$command"
status=0
wait "$command" || status=$?
if [ "$status" != 143 ]; then
    echo "FAILED: SIGTERM ends memledger run with $status, not with 143" >&2
    exit 1
fi
is_exact waits
echo "memledger run by __interpose: $(cat "$folder/said"); the report has the same, also where _exit or SIGTERM ends the program"
