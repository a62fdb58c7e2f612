#!/bin/sh
# Runs a static musl program without optimisation, where stack frames are largest and a thread has
# 128 KiB of stack unless it asks for more: with file, report and control server, from before
# `main`. Runs it again with the smallest stack that the system gives threads. Needs the target.
#
#     scripts/check_musl.sh [TARGET]     x86_64-unknown-linux-musl, or aarch64-unknown-linux-musl,
#                                        whose program qemu-aarch64 runs, once: the stack is qemu's
set -eu
cd "$(dirname "$0")/.."

target=${1:-x86_64-unknown-linux-musl}
emulator= stacks="unlimited 64"
case $target in aarch64*)
    emulator=qemu-aarch64 stacks=unlimited
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
    ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
folders=${CARGO_TARGET_DIR:-target}/programs
cargo build --quiet --manifest-path tests/programs/Cargo.toml -p static-program --target "$target" --target-dir "$folders"
program=$(realpath "$folders/$target/debug/static-program")
for stack in $stacks; do
    rm -f "$folder"/*.utrace "$folder"/*.json
    status=0
    (
        cd "$folder"
        ulimit -s "$stack"
        MEMLEDGER_TRACE=trace.utrace MEMLEDGER_REPORT=report.json MEMLEDGER_CONTROL=0 \
            timeout 600 $emulator "$program" 2>stderr
    ) || status=$?
    [ "$status" = 0 ] || { echo "stack $stack: status $status"; cat "$folder/stderr"; exit 1; }
    python3 - "$folder" <<'PYTHON'
import json, os, sys
report = json.load(open(sys.argv[1] + "/report.json"))
assert report["trace"]["complete"] and report["trace"]["from_process_start"], report["trace"]
losses = report["losses"]
assert losses["lost_events"] == losses["unmatched_frees"] == 0, losses
assert sum(block["bytes"] == 1000003 for block in report["largest_live"]) == 4
assert os.path.getsize(sys.argv[1] + "/trace.utrace") > 40000
PYTHON
    echo "$target, stack $stack: ok"
done
