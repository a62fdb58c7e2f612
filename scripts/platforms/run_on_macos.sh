#!/usr/bin/env bash
# Links for macOS, on both processors: tests, an example and the command. The linker is that of Rust; the
# lists of macOS's functions, and a compiler of C, are those of Zig: of macOS 10.15 for Intel's processors, of
# macOS 11 for Apple's. What is not in them is an error. Then runs on this machine what is for Intel's: the
# library's unit tests, tests of whole processes, and an example, whose report is that of the example on this
# machine. What does not run is in not_on_macos.txt, with reasons.
#
#     scripts/platforms/run_on_macos.sh
#
# No macOS runs: the loader of scripts/platforms/macos has Linux's functions under the names of macOS's.
#
# Needs gcc, jq, dsymutil and llvm-objdump of llvm, and pip, which gets the package `ziglang` (50 MB), and says which of them is not
# there. Works in target/platforms and target/stacks.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/platforms/common.sh
root=$PWD
host=$(rustc -vV | sed -n 's/^host: //p')
target=x86_64-apple-darwin
features=perfetto,containers,serde,tracing

need gcc gcc
need jq jq
need pip python3-pip
need dsymutil llvm
need llvm-objdump llvm
ready macOS $target
ready macOS aarch64-apple-darwin

export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$PWD/target/platforms
mkdir -p "$CARGO_TARGET_DIR"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# This version has the list of macOS 10.15, as no later one has.
zig=$CARGO_TARGET_DIR/zig/ziglang
if ! [ -d "$zig" ] && ! timeout 300 pip install --quiet --target "$CARGO_TARGET_DIR/zig" ziglang==0.9.1; then
    echo "SKIPPED: nothing is linked for macOS, since pip cannot install ziglang" >&2
    exit 0
fi
export ZIG_GLOBAL_CACHE_DIR=$CARGO_TARGET_DIR/zig/cache ZIG_LOCAL_CACHE_DIR=$CARGO_TARGET_DIR/zig/cache

# for_processor NAME VERSION LIST: a folder like that of macOS's SDK, a compiler of C, and what cargo needs to
# know of them.
for_processor() {
    local name=${1}_apple_darwin sdk=$CARGO_TARGET_DIR/macos-$1
    local upper=${name^^} library
    mkdir -p "$sdk/usr/lib"
    cp "$zig/lib/libc/darwin/libSystem.$3.tbd" "$sdk/usr/lib/libSystem.tbd"
    for library in c m iconv; do ln -sf libSystem.tbd "$sdk/usr/lib/lib$library.tbd"; done
    # By these the command asks for the time zone. They are in each macOS, and Zig has no list of them.
    library=CoreFoundation
    mkdir -p "$sdk/System/Library/Frameworks/$library.framework"
    cat >"$sdk/System/Library/Frameworks/$library.framework/$library.tbd" <<END
--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: /System/Library/Frameworks/$library.framework/Versions/A/$library
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ _CFRelease, _CFStringGetBytes, _CFStringGetCStringPtr, _CFStringGetLength, _CFTimeZoneCopySystem,
               _CFTimeZoneGetName, _CFTimeZoneResetSystem ]
...
END
    # Zig has other names for what the first options say.
    cat >"$sdk/cc" <<END
#!/usr/bin/env bash
arguments=()
while [ \$# -gt 0 ]; do
    case \$1 in
    -arch) shift ;;
    --target=* | -mmacosx-version-min=*) ;;
    *) arguments+=("\$1") ;;
    esac
    shift
done
exec "$zig/zig" cc -target $1-macos.$2 "\${arguments[@]}"
END
    printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$zig/zig" >"$sdk/ar"
    chmod +x "$sdk/cc" "$sdk/ar"
    export "CC_$name=$sdk/cc" "AR_$name=$sdk/ar"
    export "CARGO_TARGET_${upper}_RUSTFLAGS=-Clinker-flavor=ld64.lld"
    export "CARGO_TARGET_${upper}_LINKER=$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld"
}
for_processor x86_64 10.12 10
for_processor aarch64 11.0 11

# on PROCESSOR COMMAND...: cargo's command for macOS on that processor, with what it says in $folder/built.
on() {
    SDKROOT=$root/target/platforms/macos-$1 timeout 3600 cargo "${@:2}" --target "$1-apple-darwin" 2>"$folder/built" && return
    cat "$folder/built" >&2
    echo "FAILED on macOS: cargo ${*:2}" >&2
    exit 1
}
on aarch64 build --profile test -p memledger-examples --example parse_sources
on aarch64 build -p memledger-cli
on x86_64 build -p memledger-cli
echo "an example and the command have all functions in macOS 11 on Apple's processors, the command in 10.15 on Intel's"

loader=$CARGO_TARGET_DIR/macos_loader
gcc -O2 -g -Wall -Wextra -Werror -o "$loader" scripts/platforms/macos/*.c -lm
# run PROGRAM ARGUMENT...: runs tests by the loader, and prints what fails.
run() {
    if ! timeout 2400 "$loader" "$@" >"$folder/output" 2>&1; then
        cat "$folder/output" >&2
        echo "FAILED on macOS: $*" >&2
        exit 1
    fi
    grep '^test result' "$folder/output"
}

on x86_64 test --no-run -p memledger --features "$features" --lib
unit=$(built src/lib.rs)
echo "the unit tests of the library, on macOS 14.4 and on older ones, which lack os_sync_wait_on_address:"
run "$unit" --test-threads 2
MACOS_LACKS=os_sync_ run "$unit" --test-threads 2

timeout 3600 cargo test --no-run -p memledger-process-tests --test process 2>"$folder/built"
"$(built main.rs)" --list 2>/dev/null | sed -n 's/: test$//p' | sort >"$folder/all"
on x86_64 test --no-run -p memledger-process-tests --test process
process=$(built main.rs)
# The debug information, which cargo leaves in the object files.
dsymutil "$process"
"$loader" "$process" --list 2>/dev/null | sed -n 's/: test$//p' | sort >"$folder/there"
not_there scripts/platforms/not_on_macos.txt "$folder/all" "$folder/there" >"$folder/not"
skip=()
while IFS=$'\t' read -r name _; do
    if grep -qxF "$name" "$folder/there"; then skip+=(--skip "$name"); fi
done <"$folder/not"
echo "tests of processes, on macOS:"
cd tests/process
run "$process" --test-threads 2 "${skip[@]}"
documented "$(passed) of the $(wc -l <"$folder/all") tests of whole processes"
cd "$root"
echo "not on macOS, of tests of processes: $(wc -l <"$folder/not")"
cut -f2 "$folder/not" | sort | uniq -c | sort -rn

on x86_64 build --profile test -p memledger-examples --example parse_sources
same_parser macOS "$loader"

# `memledger run`: a program without the tracker, by the library, says itself what it has allocated; in one with the
# tracker the library does nothing.
(cd preload && on aarch64 build && on x86_64 build)
command=$CARGO_TARGET_DIR/$target/debug/memledger library=$CARGO_TARGET_DIR/$target/debug/libmemledger_preload.dylib
# What it does not find in the lists must be what newer ones may have.
if llvm-objdump --macho --bind "$library" | grep flat-namespace | grep -v weak_import; then
    echo "FAILED on macOS: the library for other programs needs these functions" >&2
    exit 1
fi
"$zig/zig" cc -target x86_64-macos.10.15 -O1 -g -o "$folder/memory" scripts/platforms/macos_memory.c
cd "$folder"
timeout 900 "$root/scripts/platforms/macos_memory.sh" "$command" "$library" ./memory "$loader"
if "$loader" "$command" run ./memory returns 1 >said 2>&1 || ! grep -q 'has run on no Mac' said; then
    echo "FAILED on macOS: memledger run takes the library by itself" >&2
    exit 1
fi
own=$CARGO_TARGET_DIR/$target/debug/examples/parse_sources
PARSERS=0 timeout 300 "$loader" "$command" run --report own.json "$own" sources >said
parser() { jq -c ".by_scope[] | select(.path[-1] == \"parse\") | {$figures}" "$1"; }
diff <(parser own.json) <(parser "$target/report.json")
PARSERS=0 MEMLEDGER_REPORT=stderr DYLD_INSERT_LIBRARIES=$library timeout 300 "$loader" "$own" sources >said 2>&1
if [ "$(grep -c '^Memory of' said)" != 1 ]; then
    echo "FAILED on macOS: a program with the tracker and the library has not one report" >&2
    exit 1
fi
echo "memledger run on macOS, with a program that has the tracker: the same figures; with the library in it, too, one report"
cd "$root"

# Call stacks are those of the crate `backtrace`, which goes by tables that the loader makes.
export CARGO_TARGET_DIR=$root/target/stacks
stacks=(--release --manifest-path tests/stacks/Cargo.toml)
timeout 1800 cargo build --quiet "${stacks[@]}" -p stack-compare
on x86_64 build "${stacks[@]}" -p stack-places -p stack-documents
# compare PROGRAM SAMPLES PLACE...
compare() {
    rm -f "$folder"/*.utrace
    MEMLEDGER_STACKS=1 MEMLEDGER_TRACE=$folder/stacks.utrace MEMLEDGER_REPORT=off STACK_SAMPLES=$folder/samples \
        STACK_SAMPLES_LIMIT=$2 STACK_SAMPLES_EVERY=5 timeout 600 "$loader" "$CARGO_TARGET_DIR/$target/release/$1" >/dev/null
    "$CARGO_TARGET_DIR/release/stack-compare" "$1" "$folder/stacks.utrace" "$folder/samples" "${@:3}"
}
echo "call stacks: | program | place | samples | equal | equal up to the limit | up to code without a table | other | ..."
compare stack-places 30000 calls qsort thread recursion async coroutine assembly
compare stack-documents 10000 anywhere
