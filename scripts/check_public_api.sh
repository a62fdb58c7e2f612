#!/usr/bin/env bash
# Compares the public items of memledger with docs/public-api.txt, so that a change of the interface is a diff that is read.
#
#     scripts/check_public_api.sh              # shows the difference, and fails if there is one
#     scripts/check_public_api.sh --rewrite    # writes the file
#
# The features are those that add an interface of ours; that of the containers is the standard library's. Items that
# derive, blanket and auto impls add are left out. Needs `cargo +nightly install cargo-public-api`; what
# it prints depends on the toolchain, so with another one than that in the file the script says so and ends with status 77.
set -euo pipefail
cd "$(dirname "$0")/.."

list=docs/public-api.txt
toolchain=$(rustc +nightly --version)
if [ "${1:-}" != --rewrite ] && ! grep -qxF "# $toolchain" "$list"; then
    echo "$list is of $(sed -n '2s/^# //p' "$list"), and here is $toolchain"
    exit 77
fi
found=$(mktemp)
trap 'rm -f "$found" "$found.log"' EXIT
{
    echo "# Public items of memledger, by scripts/check_public_api.sh --rewrite"
    echo "# $toolchain"
    CARGO_TARGET_DIR=target/public_api cargo +nightly public-api -p memledger -sss \
        --features c-malloc,perfetto,tracing 2>"$found.log" || { cat "$found.log" >&2; exit 1; }
} >"$found"
if [ "${1:-}" = --rewrite ]; then
    cp "$found" "$list"
else
    diff -u "$list" "$found" || {
        echo "FAILED: the interface has changed; if that is meant, run scripts/check_public_api.sh --rewrite" >&2
        exit 1
    }
fi
lines=$(grep -vc '^#' "$found")
echo "$lines public items"
[ "$lines" -le 700 ] || { echo "FAILED: that is more than 700" >&2; exit 1; }
