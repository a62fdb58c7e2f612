#!/usr/bin/env bash
# Runs tests under the address sanitizer, and the lock-free parts' under the thread sanitizer.
# Heavy: everything is compiled twice more. Linux on x86-64; works on a stable toolchain.
#
#   scripts/sanitizers.sh [address|thread]     both by default
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
what=${1:-both}
export RUSTC_BOOTSTRAP=1

if [ "$what" != thread ]; then
    # Names are kept for the life of the program on purpose, in pages the leak checker cannot see.
    printf 'leak:memledger::scopes::context::keep_text\n' > target/lsan.supp
    LSAN_OPTIONS="suppressions=$PWD/target/lsan.supp" \
        RUSTFLAGS="-Zsanitizer=address" \
        cargo test --target "$target" --target-dir target/asan --lib
fi

if [ "$what" != address ]; then
    # The standard library is not instrumented, so its test harness looks like a race.
    printf 'race:test::\n' > target/tsan.supp
    TSAN_OPTIONS="suppressions=$PWD/target/tsan.supp" \
        RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
        cargo test --target "$target" --target-dir target/tsan --lib
fi
