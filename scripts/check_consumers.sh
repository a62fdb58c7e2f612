#!/usr/bin/env bash
# Lints programs of every form that use memledger (tests/consumers): macros in odd places, in each edition, renamed, without the
# prelude, under the strictest lints, in a procedure macro; with the feature `enable` and without. Then an example library and its
# application (examples/library), each as its users build it.
#
#     scripts/check_consumers.sh
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --manifest-path tests/consumers/Cargo.toml --all --check
cp Cargo.lock tests/consumers/Cargo.lock
trap 'rm -f tests/consumers/Cargo.lock' EXIT
for features in "" enable; do
    cargo clippy --quiet --workspace --manifest-path tests/consumers/Cargo.toml --features "$features" \
        --target-dir "${CARGO_TARGET_DIR:-target}/misuse" -- -D warnings
    echo "${features:-no features}: ok"
done
cargo clippy --quiet -p memledger-library-example --lib -- -D warnings
printed=$(MEMLEDGER_REPORT=stderr cargo run --quiet -p memledger-library-example --example application 2>&1)
for part in '"let" occurs 2 times' 'Words' 'Index'; do
    [[ $printed == *"$part"* ]] || { echo "the application does not print $part:"; echo "$printed"; exit 1; }
done
echo "library and application: ok"
