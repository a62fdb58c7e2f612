#!/usr/bin/env bash
# A program with the tracker passes its tests under Miri, where nothing is recorded. Needs
# `rustup toolchain install nightly --component miri,rust-src`.
#
#     scripts/check_miri.sh
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src"
cp Cargo.lock "$folder/"
cat >"$folder/Cargo.toml" <<END
[package]
name = "under-miri"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
memledger = { path = "$root" }
END
cat >"$folder/src/lib.rs" <<'END'
use memledger::{Error, Ledger, TrackingAllocator, alloc_scope, group, tag, tagged};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();
group! { RENDERING = "Rendering"; }

#[test]
fn scopes_and_tags_do_nothing() {
    let _ledger = Ledger::from_env();
    let bytes = alloc_scope!("load", { tagged(tag!(RENDERING, "mesh"), || vec![1_u8; 100]) });
    assert_eq!(bytes.len(), 100);
}

#[test]
fn a_ledger_says_that_it_cannot_start() {
    assert!(matches!(Ledger::builder().start(), Err(Error::UnsupportedPlatform)));
}
END
cd "$folder"
timeout 1200 cargo +nightly miri test --lib --target-dir "$root/target/miri"
