# Sourced by scripts that run the command: `$memledger` is the command, and `$examples` a folder with four examples, unless
# they were set. Both are built as `cargo test --workspace` builds them, so that nothing is built twice in CI.

if [ -z "${memledger:-}" ] || [ -z "${examples:-}" ]; then
    # NOTE: without an example, Cargo leaves out features that only tests and examples need, and builds much again.
    cargo build --quiet --workspace --profile test --bin memledger --example parse_sources --example containers --example transparent --example budget_tests
    memledger=${memledger:-$(realpath "${CARGO_TARGET_DIR:-target}/debug/memledger")}
    examples=$(realpath "${CARGO_TARGET_DIR:-target}/debug/examples")
fi
# No check keeps symbols in the user's cache folder, or finds those of an earlier one.
export MEMLEDGER_CACHE=off
