#!/usr/bin/env bash
# What findings say of programs: of those in tests/findings/, each of which has one problem, the problem and the line that has
# the mark "found here" stand in the first 15 lines that `memledger run --stacks` prints, and on the first card of the page in
# Chromium; of healthy programs, no finding is about memory that is held.
# Compiles the programs with cc, c++ and rustc. A healthy program that is not installed is left out.
#
#     scripts/check_findings.sh [--short]
#
# The short form leaves out the healthy programs that need more than a second.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/command.sh
export memledger
cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
export library=$PWD/target/preload/release/libmemledger_preload.so
exec /usr/bin/python3 scripts/check_findings.py "$@"
