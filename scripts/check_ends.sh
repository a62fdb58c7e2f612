#!/bin/sh
# Ends a program of eight threads that allocate 1,000 times: by exit, and by abort with a watcher; with call stacks, and without.
# Each allocation that a counter below the tracker has seen must be in the totals, or counted as in flight. Takes some minutes.
#
#   scripts/check_ends.sh [ENDS]     of each of the four kinds; 250 by default
set -eu
cd "$(dirname "$0")/.."
TEST_ENDS="${1:-250}" cargo test -p memledger-process-tests --test in_flight -- --nocapture
