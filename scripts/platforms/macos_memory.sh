#!/usr/bin/env bash
# Whether `memledger run` has on macOS the figures of a program of C without the tracker (macos_memory.c): those that it
# counts itself, where it returns from main, ends by `_exit`, and is ended by a signal that the command got. Compared is
# what a program that does twice as much has more: macOS's libraries allocate, too.
#
#     scripts/platforms/macos_memory.sh MEMLEDGER LIBRARY PROGRAM [LOADER]
#
# Needs jq. NOTE: macOS has an old bash, and no `timeout`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run="$(printf '%q ' "$1" run --preload "$2" --report "$folder/memory.json" "$3")"
if [ $# = 4 ]; then run="$(printf '%q ' "$4")$run"; fi

# ends HOW ROUNDS: runs the program, and prints what it says and what the report has: allocations, frees, reallocations, live
# bytes.
ends() {
    local status=0
    if [ "$1" = waits ]; then
        rm -f "$folder/in" "$folder/out"
        mkfifo "$folder/in" "$folder/out"
        eval "exec $run $*" <"$folder/in" >"$folder/out" &
        exec 9>"$folder/in"
        head -n 1 "$folder/out" >"$folder/said"
        kill -TERM $!
        wait $! || status=$?
        exec 9>&-
    else
        eval "$run $*" >"$folder/said" || status=$?
    fi
    echo "$status" >"$folder/status"
    echo $(sed 's/[a-z,]*//g' "$folder/said") \
        $(jq -r '.totals | .allocations, .frees, .reallocations, .live_bytes' "$folder/memory.json")
    rm "$folder/memory.json"
}
for end in returns by_exit waits; do
    expected=0
    if [ $end = waits ]; then expected=143; fi
    first=($(ends $end 1000))
    second=($(ends $end 2000))
    status=$(cat "$folder/status")
    if [ "$status ${#second[@]}" != "$expected 8" ]; then
        echo "FAILED $end: memledger run ended with $status, not with $expected, or has no report" >&2
        exit 1
    fi
    said=() found=()
    for i in 0 1 2 3; do
        said+=($((second[i] - first[i])))
        found+=($((second[i + 4] - first[i + 4])))
    done
    if [ "${said[*]}" != "${found[*]}" ]; then
        echo "FAILED $end: the report has ${found[*]} allocations, frees, reallocations and live bytes, the program ${said[*]}" >&2
        exit 1
    fi
done
echo "memledger run by __interpose has the program's ${said[0]} allocations, ${said[1]} frees, ${said[2]} reallocations and" \
    "${said[3]} live bytes, also where _exit or SIGTERM ends it"
