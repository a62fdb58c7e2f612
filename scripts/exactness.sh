#!/bin/sh
# The report against an allocator's own count, to the byte: 8 threads, 50 million operations unless
# told otherwise, and serials that wrap. The traces are also read by an independent checker, where
# there is one (UTRACE_CHECK names it; empty for none).
#
#     scripts/exactness.sh [OPERATIONS]
set -eu
cd "$(dirname "$0")/.."

checker=${UTRACE_CHECK-../shared/tools/utrace_check.py}
if [ -n "$checker" ] && [ -x "$checker" ]; then
    TEST_UTRACE_CHECK=$(realpath "$checker")
    export TEST_UTRACE_CHECK
    echo "every trace is also read by $TEST_UTRACE_CHECK"
fi
TEST_OPERATIONS=${1:-50000000} cargo test --release -p memledger-process-tests --test process -- --include-ignored exactness
