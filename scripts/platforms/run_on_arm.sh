#!/usr/bin/env bash
# Runs on AArch64, which qemu emulates, with glibc and with musl: an example, whose report is that of the example on
# this machine, and the library's unit tests. With glibc also tests of whole processes, and the command. What does not
# run is in not_under_qemu.txt, with reasons.
#
#     scripts/platforms/run_on_arm.sh
#
# Needs qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and jq, and says which of them is not installed. The
# tests of processes and `memledger run` start programs of AArch64 directly, which Linux does where binfmt_misc has qemu
# for them. Root has it have it as long as this runs. Works in target/platforms.
set -euo pipefail
cd "$(dirname "$0")/../.."

export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$PWD/target/platforms
. scripts/platforms/aarch64.sh
musl=aarch64-unknown-linux-musl

folder=$(mktemp -d)
handlers=/proc/sys/fs/binfmt_misc
own_handler=
finish() {
    if [ -n "$own_handler" ]; then echo -1 >"$own_handler" || true; fi
    rm -rf "$folder"
}
trap finish EXIT
fail() {
    echo "FAILED on AArch64: $*" >&2
    exit 1
}

# What qemu lacks for call stacks. Programs with musl are static, so it is linked into them.
aarch64-linux-gnu-gcc -O2 -shared -fPIC -o "$folder/under_emulation.so" tests/stacks/under_emulation.c
aarch64-linux-gnu-gcc -O2 -c -o "$CARGO_TARGET_DIR/under_emulation.o" tests/stacks/under_emulation.c
cat >"$CARGO_TARGET_DIR/aarch64-musl-gcc" <<LINKER
#!/bin/sh
exec aarch64-linux-gnu-gcc "$CARGO_TARGET_DIR/under_emulation.o" "\$@"
LINKER
chmod +x "$CARGO_TARGET_DIR/aarch64-musl-gcc"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=$CARGO_TARGET_DIR/aarch64-musl-gcc

# The same work on one thread makes the same allocations on all. All are built for a named target: without one, the
# parser may get features that the compiler's plugins need. Before `main`, std makes two blocks, of 4 and 544 bytes, and
# the second stays. With musl it does not.
host=$(rustc -vV | sed -n 's/^host: //p')
figures='allocations, frees, reallocations, allocated_bytes, live_blocks, live_bytes, peak_bytes'
of_std='.allocations += 2 | .frees += 1 | .allocated_bytes += 548'
of_std+=' | .live_blocks += 1 | .live_bytes += 544 | .peak_bytes += 548'
# figures_of REPORT [CHANGE]: the figures of a report and of its scopes; CHANGE is of those of the whole program.
figures_of() {
    jq "(.totals, (.by_scope[] | select(.path == [\"GlobalScope\"]))) |= (${2:-.}) |
        {totals: (.totals | {$figures}), scopes: [.by_scope[] | {path, entries, $figures}] | sort_by(.path)}" "$1"
}
cp -r src/events "$folder/sources"
for machine in "$host" "$target" "$musl"; do
    timeout 900 cargo build --quiet --profile test --target "$machine" -p memledger-examples --example parse_sources
    mkdir "$folder/$machine"
    cp "$CARGO_TARGET_DIR/$machine/debug/examples/parse_sources" "$folder/$machine"
    (
        cd "$folder/$machine"
        command=(./parse_sources "$folder/sources") change=.
        if [ "$machine" != "$host" ]; then command=(qemu-aarch64 "${command[@]}"); fi
        if [ "$machine" = "$musl" ]; then change=$of_std; fi
        PARSERS=0 MEMLEDGER_REPORT=report.json MEMLEDGER_TRACE=trace.memledger timeout 300 "${command[@]}" >found
        figures_of report.json "$change" >compared
    )
    for file in found compared; do diff "$folder/$host/$file" "$folder/$machine/$file"; done
done
echo "parse_sources on AArch64: $(cat "$folder/$target/found"); its report is that of $host, with glibc and with musl"

timeout 1800 cargo test --no-run --target "$target" -p memledger -p memledger-process-tests \
    --lib --test process --test c_malloc --test another_allocator_below --test in_flight 2>"$folder/built" ||
    { cat "$folder/built" >&2; exit 1; }

# run [OPTION...] PROGRAM ARGUMENT...: runs tests under qemu in their package's folder, and prints what fails.
run() {
    if ! timeout 3600 qemu-aarch64 "$@" >"$folder/output" 2>&1; then
        cat "$folder/output" >&2
        fail "$*"
    fi
    grep '^test result' "$folder/output"
}
echo "the unit tests of the library, on AArch64:"
# qemu does not know which pages of a program are in memory.
resident=platform::os::linux::resident::tests::what_is_resident_here_is_told_apart
run -E "LD_PRELOAD=$folder/under_emulation.so" "$(built src/lib.rs)" --exact --skip $resident

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
# These are the tests of Linux but for three of code of x86-64, so none needs a reason for not being there.
qemu-aarch64 "$process" --list 2>/dev/null | sed -n 's/: test$//p' | sort >"$folder/there"
not_there scripts/platforms/not_under_qemu.txt /dev/null "$folder/there" >"$folder/not"
skip=()
while IFS=$'\t' read -r name _; do skip+=(--skip "$name"); done <"$folder/not"
cd tests/process
if starts; then
    echo "tests of processes, on AArch64:"
    run "$process" --test-threads 2 --exact "${skip[@]}"
    documented "$(passed) of its $(wc -l <"$folder/there") tests of whole processes"
    echo "not under qemu, of the $(wc -l <"$folder/there") tests of processes: $(wc -l <"$folder/not")"
    cut -f2 "$folder/not" | sort | uniq -c | sort -rn
else
    echo "SKIPPED: no tests of processes run on AArch64, since binfmt_misc does not have qemu for its programs" >&2
fi
run "$(built c_malloc.rs)"
run "$(built another_allocator_below.rs)"
# qemu has a thread of its own, so no program in it has a watcher.
run "$(built in_flight.rs)" --skip abort_while_threads_allocate
cd "$root"

timeout 1800 cargo build --quiet -p memledger-cli
timeout 1800 cargo build --quiet --target "$target" -p memledger-cli
here=$CARGO_TARGET_DIR/debug/memledger
command=$CARGO_TARGET_DIR/$target/debug/memledger
written=0
# same ARGUMENT...: the command writes the same on both, and ends with the same status.
same() {
    "$here" "$@" >"$folder/here" 2>&1 || echo "status $?" >>"$folder/here"
    timeout 300 qemu-aarch64 "$command" "$@" >"$folder/output" 2>&1 || echo "status $?" >>"$folder/output"
    cmp "$folder/here" "$folder/output" || fail "memledger $*"
    written=$((written + 1))
}
for trace in tests/samples/*.utrace tests/samples/unreal4/*.utrace "$folder/$host/trace.memledger" \
    "$folder/$target/trace.memledger"; do
    same report "$trace"
    same report "$trace" --format json
    same query "$trace" --rule leaked --format json
    for format in utrace memledger folded pprof perfetto heaptrack; do same export "$trace" --to $format -o -; done
    same export "$trace" --to csv --table blocks -o -
done
echo "the command on AArch64 writes what it writes on $host: $written times"

if starts; then
    timeout 1800 cargo build --quiet --release --manifest-path preload/Cargo.toml --target "$target"
    cd "$folder/$target"
    # The program with the tracker, and one without it, which says itself what it allocates.
    PARSERS=0 timeout 300 "$command" run --report ran.json -- ./parse_sources "$folder/sources" >found.run 2>run.err ||
        fail "memledger run: $(cat run.err)"
    figures_of ran.json | diff compared -
    cmp found found.run
    cat >without.c <<'C'
#include <stdlib.h>
int main(void) {
    *(volatile char *)malloc(1000003) = 1;
    for (int size = 1; size <= 1000; size++) {
        volatile char *block = malloc(size);
        *block = 1;
        free((void *)block);
    }
    return 3;
}
C
    "$linker" -O1 -fno-builtin -o without without.c
    status=0
    library=$CARGO_TARGET_DIR/$target/release/libmemledger_preload.so
    timeout 300 "$command" run --preload "$library" --report without.json -- ./without 2>run.err || status=$?
    found=$(jq -c '[.losses.lost_events, (.totals | .allocations, .frees, .allocated_bytes, .live_bytes)]' without.json)
    [ "$status $found" = "3 [0,1001,1000,1500503,1000003]" ] ||
        fail "memledger run without: $status $found $(cat run.err)"
    status=0
    "$command" run -- "$here" --version 2>run.err || status=$?
    [ $status = 125 ] && grep -q 'for another processor' run.err || fail "a program of $host: $status $(cat run.err)"
    echo "memledger run on AArch64: figures of a program with the tracker and of one without it are the programs' own"
fi

cd "$root"
timeout 1800 cargo test --no-run --target $musl -p memledger --lib 2>"$folder/built" ||
    { cat "$folder/built" >&2; exit 1; }
echo "the unit tests of the library, on AArch64 with musl:"
# The first code of a program and of a thread has no unwind information there, so a stack has another end than the tests
# of these names expect.
run "$(built src/lib.rs)" --skip $resident --skip a_stack_goes_on_by_a_proved_frame_pointer \
    --skip a_frame_record_with_a_signed_return_address_leads_to_the_caller \
    --skip code_that_is_made_at_run_time_has_frame_pointers_or_ends_a_stack \
    --skip a_stack_goes_through_a_signal_handler --skip stacks_are_those_of_the_backtrace_crate \
    --skip the_innermost_frames_of_a_deep_recursion_are_kept
scripts/check_musl.sh $musl
