#!/usr/bin/env bash
# A tracked program behaves as it does alone: 77 programs of Debian, and programs in C and in Rust, each alone and in two modes of
# `memledger run`, to their end, under signals, and with closed and ignored streams. Compared are output, errors, status,
# descriptors, dispositions and masks of signals, rights, limits, children, and the files and processes that are left.
# What cannot be the same is the table of docs/faults.md. Each program also runs twice alone, and what differs
# then is masked and named. Planted differences must be found first. With --short, programs that are not there are
# left out, and named.
#
#     scripts/check_transparency.sh [--short] [--known] [--event=EVENT ...] [PROGRAM_PATTERN ...]
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/command.sh
cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
export memledger base probe library rust
# NOTE: programs of other users read the library and run the probe.
base=$(mktemp -d /var/tmp/transparency.XXXXXX)
chmod 755 "$base"
trap 'rm -rf "$base"' EXIT
library=$base/libmemledger_preload.so
probe=$base/programs
rust=$base/transparent
install -m 755 target/preload/release/libmemledger_preload.so "$library"
install -m 755 "$examples/transparent" "$rust"
gcc -O1 -w -pthread -o "$probe" tests/transparency/programs.c
for planted in handler descriptor line mask right file child status; do
    gcc -O1 -w -shared -fPIC -DPLANTED="\"$planted\"" -o "$base/planted-$planted.so" tests/transparency/planted.c
done
python3 scripts/transparency/check.py "$@"
