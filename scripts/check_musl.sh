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
mkdir "$folder/src"
cat >"$folder/Cargo.toml" <<TOML
[package]
name = "static_program"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
memledger = { path = "$PWD" }
TOML
cp Cargo.lock "$folder/"
cat >"$folder/src/main.rs" <<'RUST'
use memledger::{Ledger, TrackingAllocator, alloc_scope};
use std::io::{Read, Write};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

fn main() {
    let ledger = Ledger::from_env();
    let work = || {
        alloc_scope!("work");
        for size in 1..10_000_usize {
            drop(std::hint::black_box(vec![1_u8; size % 1000 + 1]));
        }
        std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(1_000_003)));
        assert!(ledger.snapshot().unwrap().figures().live_bytes > 1_000_003);
    };
    std::thread::scope(|threads| {
        for _ in 0..4 {
            std::thread::Builder::new().stack_size(16 << 10).spawn_scoped(threads, work).unwrap();
        }
    });
    let mut client = std::net::TcpStream::connect(ledger.control_address().unwrap()).unwrap();
    client.write_all(b"Status\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("pid "), "{answer}");
    let _ = ledger.trace_to_file("late.memledger").unwrap();
}
RUST

cargo build --quiet --manifest-path "$folder/Cargo.toml" --target "$target" \
    --target-dir "${CARGO_TARGET_DIR:-target}/check_musl"
program=$(realpath "${CARGO_TARGET_DIR:-target}/check_musl/$target/debug/static_program")
for stack in $stacks; do
    rm -f "$folder"/*.utrace "$folder"/*.json
    status=0
    (
        cd "$folder"
        ulimit -s "$stack"
        MEMLEDGER_TRACE=trace.utrace MEMLEDGER_REPORT=report.json MEMLEDGER_CONTROL=0 \
            timeout 60 $emulator "$program" 2>stderr
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
