#!/usr/bin/env bash
# Compiles the crate with all its features, and the command, for platforms other than this one. For WebAssembly and with
# Microsoft's linker, the crate only: tokio has no sockets there, and C in the command needs that linker's headers. Then
# runs what can be run here: WebAssembly by node, Linux on ARM under qemu, Windows under Wine (both targets), and
# on this machine the tests of the library and of whole processes with the tracker's own pages of 64 KiB, which Linux on ARM
# can have.
#
#     scripts/check_platforms.sh [--short | TARGET ...]     --short, as in CI: the crate only
#
# `cargo check` reads Rust only, but two crates below the command have C, too (zstd, ring). What comes of that is
# linked into nothing here, so an empty file stands for each object: no compiler for the target is needed. Needs the
# targets of rustup; works in target/platforms.
set -euo pipefail
cd "$(dirname "$0")/.."

crate_only='@(wasm32-*|*-msvc)'
shopt -s extglob
if [ "${1:-}" = --short ]; then
    shift
    crate_only='*'
fi
run_here=
if [ $# -eq 0 ] && [ "$crate_only" != '*' ]; then
    run_here=yes
    set -- x86_64-apple-darwin x86_64-pc-windows-msvc aarch64-pc-windows-msvc
fi
if [ -n "$run_here" ] || [ $# -eq 0 ]; then
    set -- "$@" aarch64-apple-darwin x86_64-pc-windows-gnu aarch64-unknown-linux-gnu x86_64-unknown-freebsd \
        wasm32-unknown-unknown
fi
targets=("$@")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/no-compiler" <<'END'
#!/bin/sh
# Stands for a compiler of C and an archiver: makes the file that is asked for, with nothing in it.
while [ $# -gt 0 ]; do
    case $1 in
    -o) : >"$2" ;;
    *.a) : >"$1" ;;
    esac
    shift
done
END
chmod +x "$folder/no-compiler"

export CARGO_INCREMENTAL=0 RUSTFLAGS="-D warnings" CARGO_TARGET_DIR=target/platforms
both=() crate=()
for target in "${targets[@]}"; do
    name=${target//-/_}
    export "CC_$name=$folder/no-compiler" "AR_$name=$folder/no-compiler"
    if [[ $target = $crate_only ]]; then crate+=(--target "$target"); else both+=(--target "$target"); fi
done
# All targets at once: what runs while they are compiled is built once.
if [ ${#both[@]} -gt 0 ]; then
    timeout 1800 cargo check --quiet --keep-going "${both[@]}" --all-features -p memledger -p memledger-cli
    echo "memledger and its command compile: ${both[*]}"
fi
if [ ${#crate[@]} -gt 0 ]; then
    timeout 600 cargo check --quiet --keep-going "${crate[@]}" --all-features -p memledger
    echo "memledger compiles: ${crate[*]}"
fi
if [ -n "$run_here" ]; then
    RUSTFLAGS="--cfg memledger_large_pages" timeout 3600 cargo test --quiet --tests -p memledger -p memledger-process-tests
    # Other flags, with which all would be compiled again, and a compiler of C.
    for script in run_on_wasm.sh run_on_arm.sh test_on_windows.sh "test_on_windows.sh x86_64-pc-windows-msvc" run_on_windows.sh; do
        # shellcheck disable=SC2086
        env -u RUSTFLAGS -u CC_aarch64_unknown_linux_gnu -u AR_aarch64_unknown_linux_gnu \
            -u CC_x86_64_pc_windows_gnu -u AR_x86_64_pc_windows_gnu scripts/platforms/$script
    done
fi
