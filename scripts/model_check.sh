#!/usr/bin/env bash
# Checks the order of events in every interleaving (models/ordering): with the real order.rs, under
# the C11 memory model, and that planted faults are seen. With --short as in CI, about a minute with
# the build; else four.
#
#     scripts/model_check.sh [--short]
set -euo pipefail
cd "$(dirname "$0")/../models/ordering"

if [ "${1-}" != --short ]; then
    export MODEL_FULL=1
fi
# NOTE: a planted fault panics, and says so at length, before its test passes.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cargo test --lib -- --nocapture >"$log" 2>&1; then
    grep -E '^error|^test .*FAILED|panicked|in wrong order|before its cause|^late|read wrongly|is gone' "$log" | tail -40
    tail -n 20 "$log"
    exit 1
fi
echo "| model | preemptions at most | executions | time |"
grep -E '^\| [^-]' "$log"
grep -E '^test .*should panic.* ok$|^test result' "$log"
