#!/bin/sh
# What cannot be meant does not compile, and the compiler names what to do instead: with the feature `enable` and
# without it alike, and `cargo check` sees it. Each file of tests/misuse begins with what the compiler must say.
#
#     scripts/misuse_is_refused.sh
set -eu
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/src"
ln -s "$PWD/tests/misuse" "$folder/src/bin"
cat >"$folder/Cargo.toml" <<TOML
[package]
name = "misuse"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
memledger = { path = "$PWD", default-features = false, features = ["perfetto"] }
[features]
enable = ["memledger/enable"]
c-malloc = ["enable", "memledger/c-malloc"]
TOML
cp Cargo.lock "$folder/"

for features in "" c-malloc; do
    cargo check --quiet --keep-going --bins --message-format json --features "$features" \
        --manifest-path "$folder/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-target}/misuse" \
        >"$folder/messages" 2>"$folder/stderr" && { echo "all of them compile"; exit 1; }
    python3 scripts/misuse_is_refused.py "$folder/messages" || { cat "$folder/stderr"; exit 1; }
    echo "${features:-no features}: ok"
done
