#!/usr/bin/env bash
# Lints programs of every form that use memledger (tests/consumers): macros in odd places, in each edition, renamed, without the
# prelude, under the strictest lints, in a procedure macro, as tests with budgets and as a bench of criterion; with the feature
# `enable` and without. Runs the tests with budgets in parallel, and each in a process of its own, as nextest does (with nextest
# itself where `cargo nextest` is installed); and that such a build names the feature of a format that it lacks. Then an example library and its application (examples/library),
# each as its users build it, and a program with the feature `enable` alone, which records and leaves the report to the command.
#
#     scripts/check_consumers.sh [--bench]
#
# With --bench, the bench of criterion, too, which takes 50 s to build: .ci/run leaves it out.
set -euo pipefail
cd "$(dirname "$0")/.."

cp Cargo.lock tests/consumers/Cargo.lock
trap 'rm -f tests/consumers/Cargo.lock' EXIT
target=${CARGO_TARGET_DIR:-target}/misuse
members=(--workspace --exclude criterion-bench)
[ "${1:-}" != --bench ] || members=(--workspace)
for features in "" enable; do
    cargo clippy --quiet "${members[@]}" --all-targets --manifest-path tests/consumers/Cargo.toml --features "$features" \
        --target-dir "$target" -- -D warnings
    echo "${features:-no features}: ok"
done
budgets=(--manifest-path tests/consumers/Cargo.toml -p budgets --test budgets --features enable --target-dir "$target")
cargo test --quiet "${budgets[@]}"
names=$(cargo test --quiet "${budgets[@]}" -- --list --format terse | sed -n 's/: test$//p')
for name in $names; do
    [[ $(cargo test --quiet "${budgets[@]}" -- --exact "$name") == *"1 passed"* ]] || { echo "$name fails in a process of its own"; exit 1; }
done
echo "budgets, in parallel and $(wc -w <<<"$names") in processes of their own: ok"
# A build without a format of a report says which feature it needs.
printed=$(MEMLEDGER_REPORT=run.html cargo test --quiet "${budgets[@]}" 2>&1)
[[ $printed == *'`.html` needs the feature `html`'* ]] || { echo "$printed"; exit 1; }
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run "${budgets[@]}"
    echo "budgets, under nextest: ok"
else
    echo "budgets, under nextest: skipped, because cargo-nextest is not installed"
fi
if [ "${1:-}" = --bench ]; then
    cargo test --quiet --manifest-path tests/consumers/Cargo.toml -p criterion-bench --bench capitals --features enable \
        --target-dir "$target"
    echo "a bench of criterion: ok"
fi
cargo clippy --quiet -p memledger-library-example --lib -- -D warnings
printed=$(MEMLEDGER_REPORT=stderr cargo run --quiet -p memledger-library-example --example application 2>&1)
for part in '"let" occurs 2 times' 'Words' 'Index'; do
    [[ $printed == *"$part"* ]] || { echo "the application does not print $part:"; echo "$printed"; exit 1; }
done
echo "library and application: ok"
scripts/check_light_build.sh
