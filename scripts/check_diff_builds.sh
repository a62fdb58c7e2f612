#!/usr/bin/env bash
# Compares two builds of one program (tests/builds/index.rs): without optimisation, and at level 3. It runs both on the
# same input, and `memledger diff` has to find that they do the same: no row differs by scope, group, name, function and
# stack, but for those that are explained below.
#
#     scripts/check_diff_builds.sh [FOLDER]      FOLDER: sources for the program to read; crates/analysis/src/ if none is given
#
# The libraries that it uses, syn and the tracker, are the same in both; what they compile into the program is not.
# Needs Rust and jq. Takes 13 s of processor time if the command and the examples are built.
set -euo pipefail
cd "$(dirname "$0")/.."
sources=${1:-crates/analysis/src/}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=${CARGO_TARGET_DIR:-target}
[ -n "${memledger:-}" ] || . scripts/command.sh

for level in 0 3; do
    # PERF: with the features that the benches need, CI has built the libraries already.
    cargo build --quiet --release --config "profile.release.package.memledger-examples.opt-level=$level" \
        -p memledger-examples -p memledger-benches --example diff_builds
    # Both get the same path: the program keeps it in its memory.
    cp "$target/release/examples/diff_builds" "$work/program"
    env -u MEMLEDGER_CHANNELS -u MEMLEDGER_HOST -u MEMLEDGER_CONTROL MEMLEDGER_REPORT=off MEMLEDGER_STACKS=on \
        MEMLEDGER_TRACE="$work/recorded.memledger" "$work/program" "$sources" >"$work/$level.txt"
    "$memledger" symbolize "$work/recorded.memledger" -o "$work/$level.memledger" 2>/dev/null
done
cmp "$work/0.txt" "$work/3.txt"

# expect BY ROWS...: these rows differ, and no others: what has happened to each, and the innermost name. Whether a
# reallocation moves its block is not compared: that depends on which addresses are free, and these differ.
expect() {
    local by=$1 found
    shift
    "$memledger" diff "$work/0.memledger" "$work/3.memledger" --by "$by" --format json -o "$work/diff.json"
    found=$(jq -r 'walk(if type == "object" then with_entries(select(.key | startswith("moved_") | not)) else . end)
        | .tables[0].rows[] | .path as $path | [.old, .new] as [$old, $new] | ($old // $new) as $row
        | select($old != $new)
        | if $new == null then "gone" elif $old == null then "new" else "changed" end
        | "\(.) \($path[-1]) \($row.inclusive.allocations // $row.allocations)"' "$work/diff.json" | sort)
    if [ "$found" != "$(printf '%s\n' "$@" | sort)" ]; then
        printf 'FAILED: by %s, these rows differ:\n%s\n' "$by" "$found" >&2
        exit 1
    fi
    jq -r --arg by "$by" --arg differ $# '.tables[0] | "by \($by): \(.new + .gone + .grown + .shrunk + .same) rows, \($differ) differ"' "$work/diff.json"
}
expect scope
expect group
expect name
# `lang_start`, which every program has, ends with a call: optimised, it is a jump, and leaves no frame. What std allocates
# before `main` is the same, on stacks without it.
expect function "gone std::rt::lang_start 2"
info=std::sys::pal::unix::stack_overflow::thread_info::set_current_info
expect stack "gone $info 1" "new $info 1" "gone $info::{closure} 1" "new $info::{closure} 1"
