#!/bin/sh
# What a scope cannot do does not compile, and the compiler names what to do instead.
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

# check PROGRAM: the compiler's complaint, in `$folder/stderr`.
check() {
    cargo check --quiet --manifest-path "$folder/Cargo.toml" --bin "$1" \
        --target-dir "${CARGO_TARGET_DIR:-target}/misuse" 2>"$folder/stderr"
}

check right || { cat "$folder/stderr"; exit 1; }
for program in sent_away shared across_await context_across_await; do
    if check "$program"; then
        echo "$program: compiles"
        exit 1
    fi
    # In the error or its help, not somewhere in a trail of notes.
    grep -Eq '^(error|  += help).*ForFuturesUseTheirMethodAllocScopeForThreadsUseContext' \
        "$folder/stderr" || {
        echo "$program: the message does not name the cure"
        cat "$folder/stderr"
        exit 1
    }
    echo "$program: ok"
done
