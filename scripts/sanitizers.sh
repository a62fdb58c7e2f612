#!/usr/bin/env bash
# Runs tests under the address sanitizer, and under the thread sanitizer.
# Heavy: everything is compiled once more for each. Linux on x86-64.
#
#     scripts/sanitizers.sh [address|thread] [--short]     both and all by default
#
# The address sanitizer works on a stable toolchain. The thread sanitizer has to instrument the standard
# library too, and needs `rustup toolchain install nightly --component rust-src`.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
what=both short=
for argument; do
    if [ "$argument" = --short ]; then short=1; else what=$argument; fi
done

if [ "$what" != thread ]; then
    # Names are kept for the life of the program on purpose, in pages the leak checker cannot see.
    printf 'leak:memledger::scopes::context::keep_text\n' > target/lsan.supp
    LSAN_OPTIONS="suppressions=$PWD/target/lsan.supp" RUSTC_BOOTSTRAP=1 \
        RUSTFLAGS="-Zsanitizer=address" \
        cargo test --target "$target" --target-dir target/asan --lib
fi
[ "$what" = address ] && exit

# NOTE: the sanitizer does not know membarrier(2), nor fences. It has reported nothing for that so far, so
# there is no list of suppressions: when blocks were taken away, a thread comes by an acquiring load
# (`enter_cold`) before it reads what the worker has reset.
tsan() {
    RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS="log_path=$reports/report" \
        cargo +nightly test -Zbuild-std --target "$target" --target-dir target/tsan "$@"
}
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
status=0
if [ -z "$short" ]; then tsan --lib || status=1; fi

# Whole processes. The rest of `tests/process` forks, counts the program's threads (the sanitizer has one
# of its own), records a thread's first event after the sanitizer has forgotten the thread, or has
# deadlines that are too short for a program that is ten times as slow.
scenarios=(threads::eight threads::ledgers threads::threads_that_take_turns)
[ -n "$short" ] || scenarios+=(threads::two_thousand threads::thread_names exit::return travel:: jumps::)
for scenario in "${scenarios[@]}"; do
    tsan -p memledger-process-tests --test process -- --test-threads 2 "$scenario" || status=1
done
if [ -n "$(ls "$reports")" ]; then
    cat "$reports"/*
    status=1
fi
exit $status
