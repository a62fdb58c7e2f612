#!/usr/bin/env bash
# Runs on AArch64, which qemu emulates, an example, whose report is that of the example on this machine, the library's
# unit tests and tests of whole processes. What does not run is in not_under_qemu.txt, with reasons.
#
#     scripts/platforms/run_on_arm.sh
#
# Needs qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and jq, and says which of them is not installed. The tests
# of processes start programs of AArch64 directly, which Linux does where binfmt_misc has qemu for them. Root has it have
# it as long as this runs. Works in target/platforms.
set -euo pipefail
cd "$(dirname "$0")/../.."

export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$PWD/target/platforms
. scripts/platforms/aarch64.sh

folder=$(mktemp -d)
handlers=/proc/sys/fs/binfmt_misc
own_handler=
finish() {
    if [ -n "$own_handler" ]; then echo -1 >"$own_handler" || true; fi
    rm -rf "$folder"
}
trap finish EXIT

# The same work on one thread makes the same allocations on both. Both are built for a named target: without one, the
# parser may get features that the compiler's plugins need.
host=$(rustc -vV | sed -n 's/^host: //p')
figures='allocations, frees, reallocations, allocated_bytes, live_blocks, live_bytes, peak_bytes'
cp -r src/events "$folder/sources"
for machine in "$host" "$target"; do
    timeout 900 cargo build --quiet --profile test --target "$machine" -p memledger-examples --example parse_sources
    mkdir "$folder/$machine"
    cp "$CARGO_TARGET_DIR/$machine/debug/examples/parse_sources" "$folder/$machine"
    (
        cd "$folder/$machine"
        command=(./parse_sources "$folder/sources")
        if [ "$machine" = "$target" ]; then command=(qemu-aarch64 "${command[@]}"); fi
        PARSERS=0 MEMLEDGER_REPORT=report.json timeout 300 "${command[@]}" >found
        jq "{totals: (.totals | {$figures}), scopes: [.by_scope[] | {path, entries, $figures}] | sort_by(.path)}" \
            report.json >compared
    )
done
for file in found compared; do diff "$folder/$host/$file" "$folder/$target/$file"; done
echo "parse_sources on AArch64: $(cat "$folder/$target/found"); its report is that of $host"

timeout 1800 cargo test --no-run --target "$target" -p memledger -p memledger-process-tests \
    --lib --test process --test c_malloc --test another_allocator_below 2>"$folder/built" ||
    { cat "$folder/built" >&2; exit 1; }

# run [OPTION...] PROGRAM ARGUMENT...: runs tests under qemu in their package's folder, and prints what fails.
run() {
    if ! timeout 3600 qemu-aarch64 "$@" >"$folder/output" 2>&1; then
        cat "$folder/output" >&2
        echo "FAILED on AArch64: $*" >&2
        exit 1
    fi
    grep '^test result' "$folder/output"
}
echo "the unit tests of the library, on AArch64:"
# With what qemu lacks for call stacks.
aarch64-linux-gnu-gcc -O2 -shared -fPIC -o "$folder/under_emulation.so" tests/stacks/under_emulation.c
# qemu does not know which pages of a program are in memory.
run -E "LD_PRELOAD=$folder/under_emulation.so" "$(built src/lib.rs)" \
    --exact --skip platform::os::linux::resident::tests::what_is_resident_here_is_told_apart

process=$(built main.rs)
starts() { "$process" --list >/dev/null 2>&1; }
if ! starts && [ "$(id -u)" = 0 ]; then
    [ -e $handlers/register ] || mount -t binfmt_misc binfmt_misc $handlers || true
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    if echo ":memledger-aarch64:M::$magic:$mask:$(command -v qemu-aarch64):P" 2>/dev/null >$handlers/register; then
        own_handler=$handlers/memledger-aarch64
    fi
fi
qemu-aarch64 "$process" --list 2>/dev/null | sed -n 's/: test$//p' | sort | tee "$folder/all" >"$folder/there"
not_there scripts/platforms/not_under_qemu.txt "$folder/all" "$folder/there" >"$folder/not"
skip=()
while IFS=$'\t' read -r name _; do skip+=(--skip "$name"); done <"$folder/not"
cd tests/process
if starts; then
    echo "tests of processes, on AArch64:"
    run "$process" --test-threads 2 --exact "${skip[@]}"
    echo "not under qemu, of tests of processes: $(wc -l <"$folder/not")"
    cut -f2 "$folder/not" | sort | uniq -c | sort -rn
else
    echo "SKIPPED: no tests of processes run on AArch64, since binfmt_misc does not have qemu for its programs" >&2
fi
run "$(built c_malloc.rs)"
run "$(built another_allocator_below.rs)"
