#!/bin/sh
# What cannot be meant does not compile, and the compiler names what to do instead.
#
#     scripts/misuse_is_refused.sh
set -eu
cd "$(dirname "$0")/.."

root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/src/bin"
cat >"$folder/Cargo.toml" <<TOML
[package]
name = "misuse"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
memledger = { path = "$root", default-features = false }
[features]
c-malloc = ["memledger/c-malloc"]
TOML
cp Cargo.lock "$folder/"

cat >"$folder/src/bin/sent_away.rs" <<'RUST'
fn main() {
    let scope = memledger::ScopeGuard::enter("load");
    std::thread::spawn(move || drop(scope));
}
RUST
cat >"$folder/src/bin/shared.rs" <<'RUST'
fn main() {
    let scope = memledger::ScopeGuard::enter("load");
    std::thread::scope(|threads| {
        threads.spawn(|| drop(&scope));
    });
}
RUST
cat >"$folder/src/bin/across_await.rs" <<'RUST'
fn spawn(_task: impl Future + Send + 'static) {}
async fn receive() {}
fn main() {
    spawn(async {
        memledger::alloc_scope!("load");
        receive().await;
    });
}
RUST
cat >"$folder/src/bin/context_across_await.rs" <<'RUST'
fn spawn(_task: impl Future + Send + 'static) {}
async fn receive() {}
fn main() {
    let context = memledger::Context::current();
    spawn(async move {
        let _entered = context.enter();
        receive().await;
    });
}
RUST
# A conversion would hide that each text is kept for good.
cat >"$folder/src/bin/text_made_at_run_time.rs" <<'RUST'
fn main() {
    memledger::alloc_scope!(format!("request {}", 7));
}
RUST
cat >"$folder/src/bin/lost.rs" <<'RUST'
#![deny(unused_must_use)]
fn main() {
    memledger::Ledger::builder().report_on_exit(memledger::ReportTo::stderr());
    memledger::ReportTo::stderr().verbose();
    memledger::Destination::file("run.utrace");
    memledger::Context::current();
}
RUST
# Code that must compile, so that the code above fails for its own reason.
cat >"$folder/src/bin/right.rs" <<'RUST'
use memledger::{AllocScope, Context, alloc_scope};
fn spawn(_task: impl Future + Send + 'static) {}
async fn receive() {}
fn main() {
    let context = Context::current();
    std::thread::spawn(move || context.run(|| ()));
    spawn(async { receive().alloc_scope("receive").await }.alloc_scope("load"));
    spawn(async {
        alloc_scope!("parse", {});
        receive().await;
    });
}
RUST

cat >"$folder/src/bin/forbids_unsafe.rs" <<'RUST'
#![forbid(unsafe_code)]
#[cfg(feature = "c-malloc")]
memledger::track_c_malloc!();
#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();
fn main() {}
RUST

# check PROGRAM [OPTION...]: the compiler's complaint, in `$folder/stderr`.
check() {
    cargo check --quiet --manifest-path "$folder/Cargo.toml" --bin "$@" \
        --target-dir "${CARGO_TARGET_DIR:-target}/misuse" 2>"$folder/stderr"
}

check right || { cat "$folder/stderr"; exit 1; }
check forbids_unsafe --features c-malloc || { cat "$folder/stderr"; exit 1; }
# refused PROGRAM WHAT: does not compile, and the error or its help says WHAT, not somewhere in a trail of notes.
refused() {
    if check "$1"; then
        echo "$1: compiles"
        exit 1
    fi
    grep -Eq "^(error|  += (help|note)).*$2" "$folder/stderr" || {
        echo "$1: the message does not name the cure"
        cat "$folder/stderr"
        exit 1
    }
    echo "$1: ok"
}
for program in sent_away shared across_await context_across_await; do
    refused "$program" ForFuturesUseTheirMethodAllocScopeForThreadsUseContext
done
refused text_made_at_run_time 'Name: .*From<.*String>'
for lost in LedgerBuilder ReportTo Destination Context; do
    refused lost "unused .*$lost.* that must be used"
done
