#!/usr/bin/env bash
# Fuzzes the parsers (fuzz/README.md), each for some seconds, from its seeds and the inputs kept
# from earlier runs. Saves each finding, prints how to make a test of it, and exits with status 1.
# Needs a C++ compiler; works on a stable toolchain.
#
#     scripts/fuzz.sh [SECONDS [TARGET...]]     10 seconds and all targets by default
#     scripts/fuzz.sh short [TARGET...]         from the seeds alone, a fixed number of
#                                               inputs, a fixed seed: the same ones until the code changes
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-10}
shift $(($# > 0))
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for source in src/bin/*.rs; do targets+=("$(basename "$source" .rs)"); done
fi

# With an explicit target, so that the flags do not apply to build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
flags=(-Cpasses=sancov-module)
# PERF: without tracing of comparisons, which takes half of the time: the seeds contain the words.
for llvm in -sanitizer-coverage-level=3 -sanitizer-coverage-inline-8bit-counters \
    -sanitizer-coverage-pc-table -simplifycfg-branch-fold-threshold=0; do
    flags+=("-Cllvm-args=$llvm")
done
echo "building"
RUSTFLAGS="${flags[*]}" cargo build --quiet --release --locked --target "$host" \
    "${targets[@]/#/--bin=}"
programs=$PWD/target/$host/release

# The panic message has the place; a backtrace would take seconds.
export RUST_BACKTRACE=0
failed=0
printf '%-16s %12s %14s %10s %8s\n' target executions "a CPU second" coverage corpus
for target in "${targets[@]}"; do
    corpus=target/corpus/$target new=target/corpus/$target.new log=target/$target.log
    case $target in
        analyzer | convert | packets) longest=2048 runs=2000 ;;
        *) longest=512 runs=6000 ;;
    esac
    if [ "$seconds" = short ]; then
        corpus=target/short/$target
        rm -rf "$corpus"
        # Without -reload, which rereads the corpus every second.
        limit=(-runs=$runs -seed=1 -reload=0)
    else
        limit=(-max_total_time="$seconds")
    fi
    mkdir -p "$corpus" target/found
    FUZZ_SEEDS=$corpus "$programs/$target" 2>"$log"
    # libFuzzer's memory limit is for the process; src/lib.rs has a smaller one.
    status=0
    TIMEFORMAT='%U %S'
    cpu=$({ time nice -n 19 "$programs/$target" "$corpus" "${limit[@]}" -timeout=20 \
        -rss_limit_mb=512 -malloc_limit_mb=64 -max_len=$longest -print_final_stats=1 \
        -artifact_prefix="target/found/$target-" >"$log" 2>&1; } 2>&1) || status=$?
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    # In CPU time, so that the result does not depend on the machine's load.
    speed=$(awk -v n="${executions:-0}" '{ printf "%d", n / ($1 + $2) }' <<<"$cpu")
    coverage=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1 | cut -d' ' -f2 || true)
    if [ "$status" != 0 ]; then
        failed=1
        grep -E 'panicked|^[a-z].*|ERROR' "$log" | grep -vE '^(stat|INFO|MS)' | tail -n 12
        found=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
        echo "$target: found by ${found:-$log}; to make a test of it: mkdir -p fuzz/regressions/$target && cp fuzz/$found fuzz/regressions/$target/WHAT_IT_IS"
    elif [ "$seconds" != short ]; then
        # Keeps the smallest of the inputs that show the same finding.
        rm -rf "$new" && mkdir "$new"
        nice -n 19 "$programs/$target" -merge=1 "$new" "$corpus" >>"$log" 2>&1 || true
        rm -rf "$corpus" && mv "$new" "$corpus"
    fi
    printf '%-16s %12s %14s %10s %8s\n' "$target" "${executions:--}" "${speed:--}" "${coverage:--}" \
        "$(find "$corpus" -type f | wc -l)"
done
exit "$failed"
