#!/usr/bin/env bash
# Runs on Windows, as Wine does it, the library's unit tests, tests of whole processes and an example, whose report is
# that of the example on this machine where both do the same. What does not run is in not_on_windows.txt, with reasons.
#
#     scripts/platforms/test_on_windows.sh [TARGET]     x86_64-pc-windows-gnu, or x86_64-pc-windows-msvc: see msvc.sh
#
# Needs wine64, gcc-mingw-w64-x86-64, curl and jq, for msvc also clang and llvm, and says which of them is not installed.
# Works in target/platforms.
set -euo pipefail
target=${1:-x86_64-pc-windows-gnu}
cd "$(dirname "$0")/../.."
. scripts/platforms/wine.sh

host=$(rustc -vV | sed -n 's/^host: //p')
features=perfetto,containers,serde,tracing

build() {
    timeout 3600 cargo test --no-run "$@" 2>"$folder/built" || { cat "$folder/built" >&2; exit 1; }
}
# run PROGRAM ARGUMENT...: runs tests under Wine, and prints what fails.
run() {
    if ! timeout 2400 "$wine" "$@" >"$folder/output" 2>&1; then
        cat "$folder/output" >&2
        echo "FAILED on Windows: $*" >&2
        exit 1
    fi
    grep '^test result' "$folder/output"
}

build --target "$target" -p memledger --features "$features" --lib
echo "the unit tests of the library, on Windows:"
run "$(built src/lib.rs)" --test-threads 2

build -p memledger-process-tests --test process
"$(built main.rs)" --list 2>/dev/null | sed -n 's/: test$//p' | sort >"$folder/all"
build --target "$target" -p memledger-process-tests --test process --test another_allocator_below
process=$(built main.rs)
"$wine" "$process" --list 2>/dev/null | tr -d '\r' | sed -n 's/: test$//p' | sort >"$folder/there"
not_there scripts/platforms/not_on_windows.txt "$folder/all" "$folder/there" >"$folder/not"
skip=()
while IFS=$'\t' read -r name _; do
    if grep -qxF "$name" "$folder/there"; then skip+=(--skip "$name"); fi
done <"$folder/not"
echo "tests of processes, on Windows:"
cd tests/process
run "$process" --test-threads 2 "${skip[@]}"
documented "$(passed) of the $(wc -l <"$folder/all") tests of whole processes"
run "$(built another_allocator_below.rs)"
cd "$root"
echo "not on Windows, of tests of processes: $(wc -l <"$folder/not")"
cut -f2 "$folder/not" | sort | uniq -c | sort -rn

timeout 1800 cargo build --quiet --profile test --target "$target" -p memledger-examples --example parse_sources
same_parser Windows "$wine"

# Functions and lines, as the program's own report has them on Windows, and the command here, from the same trace. One row is
# of the program itself.
timeout 1800 cargo build --quiet -p memledger-cli
(
    cd "$folder/$target"
    programs=$CARGO_TARGET_DIR/$target/debug/examples
    PARSERS=0 MEMLEDGER_STACKS=1 MEMLEDGER_TRACE=trace.utrace MEMLEDGER_REPORT=there.json \
        timeout 300 "$wine" "$programs/parse_sources.exe" ../sources >found
    "$CARGO_TARGET_DIR/debug/memledger" report trace.utrace --symbols "$programs" --format json >here.json
    for report in there here; do jq -S '[.by_function, .by_line]' $report.json >$report; done
    cmp there here
    # DWARF has it without its type.
    grep -q '"parse_sources::\(Found::\)\?merge"' here
    echo "call stacks on Windows: $(jq '.by_function | length' here.json) functions with the same figures in both reports"
)
