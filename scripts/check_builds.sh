#!/bin/sh
# Programs built as releases are: with link-time optimisation, with panics that abort, and with the
# allocator in a dependency that the program itself never names. Their environment must start them
# before `main`, a panic must give the report, and the channel of a dependency must be known.
#
#     scripts/check_builds.sh
set -eu
cd "$(dirname "$0")/.."

root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/allocator/src" "$folder/quiet/src" "$folder/src"
# Nothing calls into this one; its channel must be known all the same.
cat >"$folder/quiet/Cargo.toml" <<TOML
[package]
name = "quiet"
version = "0.0.0"
edition = "2021"
[dependencies]
memledger = { path = "$root" }
TOML
cat >"$folder/quiet/src/lib.rs" <<'RUST'
#![forbid(unsafe_code)]
memledger::channel! { QUIET = "Quiet"; }
RUST
cat >"$folder/allocator/Cargo.toml" <<TOML
[package]
name = "allocator"
version = "0.0.0"
edition = "2024"
[dependencies]
memledger = { path = "$root" }
quiet = { path = "../quiet" }
TOML
cat >"$folder/allocator/src/lib.rs" <<'RUST'
use quiet as _;
#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();
RUST
cat >"$folder/Cargo.toml" <<'TOML'
[package]
name = "program"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
allocator = { path = "allocator" }
[profile.release]
# PERF: level 3 takes twice as long, and what link-time optimisation may remove is the same.
opt-level = 1
lto = "fat"
codegen-units = 1
strip = true
[profile.aborting]
inherits = "release"
panic = "abort"
TOML
cat >"$folder/src/main.rs" <<'RUST'
use allocator as _;
fn main() {
    std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(1_000_003)));
    let panic = std::env::args().len() > 1;
    std::thread::spawn(move || assert!(!panic, "as asked")).join().unwrap();
}
RUST

# check NAME EXPECTED_STATUS PROGRAM [ARGUMENT]
check() {
    name=$1 expected=$2
    shift 2
    rm -f "$folder/trace.utrace" "$folder/report.json"
    status=0
    (cd "$folder" && RUST_BACKTRACE=0 MEMLEDGER_FILE=trace.utrace MEMLEDGER_REPORT=report.json MEMLEDGER_TRACE=default,quiet "$@" 2>stderr) || status=$?
    [ "$status" = "$expected" ] || { echo "$name: status $status, not $expected"; exit 1; }
    ! grep "no channel" "$folder/stderr" || { echo "$name: a channel of a dependency is not known"; exit 1; }
    python3 - "$folder/report.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["trace"]["complete"] and report["trace"]["from_process_start"], report["trace"]
assert report["losses"]["unmatched_frees"] == 0, report["losses"]
assert any(block["bytes"] == 1000003 for block in report["largest_live"])
PYTHON
    echo "$name: ok"
}

for profile in release aborting; do
    cargo build --quiet --manifest-path "$folder/Cargo.toml" --profile "$profile" \
        --target-dir "${CARGO_TARGET_DIR:-target}/check_builds"
    program=$(realpath "${CARGO_TARGET_DIR:-target}/check_builds/$profile/program")
    check "$profile, ends well" 0 "$program"
    if [ "$profile" = release ]; then
        check "$profile, panics" 101 "$program" panic
    else
        check "$profile, panics" 134 "$program" panic
    fi
done
