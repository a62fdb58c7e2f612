#!/usr/bin/env bash
# The test suites of hashbrown, regex and rayon with memledger as the global allocator, every event
# traced to a file and kept account of in a report.
#
#   scripts/third_party_suites.sh [--short]        --short: hashbrown only
#
# The sources are those published on crates.io, unchanged but for the dependency on memledger in
# Cargo.toml and ONE line at the end of the crate root of each test binary, which declares the
# allocator (and an empty module in regex, see `fetch_crate`). Every suite is built and run twice, the second time with that line. It fails if
#   - a test that passes without the line does not pass with it, or fewer tests run;
#   - a report is missing, not complete, or counts a lost event, a hole in the serials, an unmatched
#     free or an address that was allocated twice.
# A test binary runs its tests in one process, so there is one trace and one report per binary.
# Doc tests are not run. Needs Rust, crates.io and a POSIX shell's tools. Works in target/suites.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/fetch_crate.sh

short=false
case "${1-}" in
    "") ;;
    --short) short=true ;;
    *) echo "usage: $0 [--short]" >&2; exit 2 ;;
esac

root=$PWD
work=$root/target/suites
export CARGO_TERM_COLOR=never CARGO_TARGET_DIR=$work/build
# A lint of theirs must not stop the build over our line.
export RUSTFLAGS="--cap-lints warn"
unset MEMLEDGER_TRACE MEMLEDGER_REPORT MEMLEDGER_CHANNELS
line='#[cfg(test)] #[global_allocator] static __MEMLEDGER: memledger::TrackingAllocator = memledger::TrackingAllocator::system();'
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# run_all NAME MODE FEATURES: builds and runs every test binary of a suite; results at
# $work/run/NAME/MODE: BINARY.log, BINARY.json, and in `passed` a line "BINARY test" each.
run_all() {
    local name=$1 mode=$2 features=$3
    local out=$work/run/$name/$mode
    rm -rf "$out"
    mkdir -p "$out"
    cd "$work/src/$name"
    # The tracker optimised, as in our own tests: its worker would fall behind unoptimised.
    if ! cargo test --config 'profile.dev.package.memledger.opt-level=2' \
        --config 'profile.dev.package.lz4_flex.opt-level=2' \
        --lib --tests --no-run --features "$features" >"$out/build.log" 2>&1; then
        tail -n 40 "$out/build.log" >&2
        echo "$name does not build, $mode; see $out/build.log" >&2
        exit 1
    fi
    sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$out/build.log" >"$out/binaries"
    local binary path status
    while read -r path; do
        binary=$(basename "$path")
        binary=${binary%-*}
        [ -e "$out/$binary.log" ] && binary=$binary-2
        status=0
        if [ "$mode" = traced ]; then
            CARGO_MANIFEST_DIR=$PWD MEMLEDGER_TRACE=$out/$binary-%p.utrace \
                MEMLEDGER_REPORT=$out/$binary-%p.json \
                "$path" --color never </dev/null >"$out/$binary.log" 2>"$out/$binary.err" || status=$?
            cat "$out"/*.utrace 2>/dev/null | wc -c >"$out/$binary.bytes"
            rm -f "$out"/*.utrace
        else
            CARGO_MANIFEST_DIR=$PWD \
                "$path" --color never </dev/null >"$out/$binary.log" 2>"$out/$binary.err" || status=$?
        fi
        # 101 is how the test runner says that tests failed.
        case $status in 0 | 101) ;; *) fail "$name: $binary ended with status $status, $mode" ;; esac
        grep -q '^test result: ' "$out/$binary.log" || fail "$name: $binary has no result, $mode"
        # What a test prints to a descriptor of its own may precede its result.
        sed -n "s/^test \(.*\) \.\.\. .*ok$/$binary \1/p" "$out/$binary.log" >>"$out/passed"
    done <"$out/binaries"
    sort -o "$out/passed" "$out/passed"
    cd "$root"
}

# count MODE-FOLDER: how many tests ran, passed or not.
count() {
    cat "$1"/*.log | awk '/^test result: / { run += $4 + $6 } END { print run + 0 }'
}

# value KEY FILE: the first value of a key in a report; each stands on a line of its own.
value() {
    awk -v key="\"$1\":" '$1 == key { gsub(/[",]/, "", $2); print $2; exit }' "$2"
}

# check_reports NAME: looks at every report of a suite, and adds up the events into $events.
check_reports() {
    local name=$1 out=$work/run/$1/traced report binary key
    events=0
    while read -r binary; do
        binary=$(basename "$binary")
        binary=${binary%-*}
        ls "$out/$binary"-*.json >/dev/null 2>&1 || fail "$name: $binary wrote no report"
    done <"$out/binaries"
    for report in "$out"/*.json; do
        [ -s "$report" ] || { fail "$report is empty"; continue; }
        [ "$(value complete "$report")" = true ] || fail "$report is not complete"
        [ "$(value from_process_start "$report")" = true ] || fail "$report misses the start"
        for key in lost_events serial_holes unmatched_frees duplicate_allocations; do
            [ "$(value $key "$report")" = 0 ] || fail "$report: $key is $(value $key "$report")"
        done
        events=$((events + $(value events "$report")))
    done
}

# suite NAME VERSION FEATURES ROOT...: runs a suite both ways. ROOTs are the crate roots of its
# test binaries.
suite() {
    local name=$1 version=$2 features=$3 file plain traced bytes
    shift 3
    echo "== $name $version" >&2
    fetch_crate "$name" "$version" "$work" memledger "$root"
    run_all "$name" plain "$features"
    for file in "$@"; do
        # A root's last line may lack its line feed.
        printf '\n%s\n' "$line" >>"$work/src/$name/$file"
    done
    run_all "$name" traced "$features"
    plain=$(count "$work/run/$name/plain")
    traced=$(count "$work/run/$name/traced")
    check_reports "$name"
    bytes=$(cat "$work/run/$name/traced/"*.bytes | awk '{ sum += $1 } END { print sum + 0 }')
    [ "$plain" -gt 0 ] || fail "$name: no test ran"
    [ "$traced" -ge "$plain" ] || fail "$name: $traced tests ran, but $plain without the line"
    comm -23 "$work/run/$name/plain/passed" "$work/run/$name/traced/passed" >"$work/run/$name/broken"
    if [ -s "$work/run/$name/broken" ]; then
        fail "$name: these tests pass without the line only: $(tr '\n' ';' <"$work/run/$name/broken")"
    fi
    printf '| %s %s | %s | %s | %s | %s | %s |\n' "$name" "$version" \
        "$(wc -l <"$work/run/$name/traced/binaries" | tr -d ' ')" "$plain" "$traced" "$events" \
        "$bytes" >>"$work/table"
}

mkdir -p "$work"
cat >"$work/table" <<'END'
| suite | test binaries | tests run without us | with us | events traced | bytes of trace |
|---|---|---|---|---|---|
END

suite hashbrown 0.17.1 rayon,serde src/lib.rs tests/equivalent_trait.rs tests/hasher.rs \
    tests/hasher_unwind.rs tests/rayon.rs tests/serde.rs tests/set.rs
if ! $short; then
    # The version before the test data was left out of the published crate.
    suite regex 1.12.2 "" src/lib.rs tests/lib.rs
    suite rayon 1.12.0 "" src/lib.rs tests/chars.rs tests/clones.rs tests/collect.rs \
        tests/cross-pool.rs tests/debug.rs tests/drain_vec.rs tests/intersperse.rs \
        tests/issue671-unzip.rs tests/issue671.rs tests/iter_panic.rs tests/named-threads.rs \
        tests/octillion.rs tests/par_bridge_recursion.rs tests/producer_split_at.rs \
        tests/sort-panic-safe.rs tests/str.rs
fi

cat "$work/table"
if [ "$failures" -gt 0 ]; then
    echo "$failures failures; logs and reports are in $work/run" >&2
    exit 1
fi
echo "every test that passes without us passes with us; nothing lost, nothing unmatched"
