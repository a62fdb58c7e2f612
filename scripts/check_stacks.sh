#!/usr/bin/env bash
# Compares memledger's stacks with those of the `backtrace` crate, frame by frame: a random sample of
# allocations is made twice at the same place, in two programs (tests/stacks) that are built in many
# ways, and in the test suites of hashbrown and regex as they are published, with one line at the end of each
# crate root that declares the allocator, in a release build. Fails if a frame differs without one of these reasons:
#
#   - Where a signal has interrupted code, our frame is 1 higher: readers take 1 off each frame, to be in the call.
#   - At most 255 frames are taken.
#   - Ours ends in code without unwind information, and with a rule that the table cannot hold (`longjmp` and `swapcontext`
#     of glibc). Frames with a mark are not compared, because `backtrace` ends there.
#   - Ours ends in a library that was just loaded.
#   - With musl, ours has one frame more, of the code in which both end.
#
#     scripts/check_stacks.sh [--short | BUILD...]     BUILD: release, opt-level=0, opt-level=s, stripped, abort, lto,
#                                                      lto-abort-stripped, frame-pointers, musl, hashbrown or regex;
#                                                      aarch64, aarch64-opt-level=0, aarch64-no-frame-pointers,
#                                                      aarch64-signed;
#                                                      windows, windows-opt-level=0, windows-frame-pointers;
#                                                      windows-msvc, windows-msvc-opt-level=0
#
# The builds for ARM run under qemu-aarch64, only if they are named. They need the target aarch64-unknown-linux-gnu,
# qemu-user, gcc-aarch64-linux-gnu and libc6-dev-arm64-cross. In aarch64-signed, all functions of the programs but those of
# Rust's and C's standard libraries sign their return addresses: those of Rust with one key, and those of C with another.
# So do those for Windows, under wine, where `backtrace` goes by RtlVirtualUnwind. They need the target x86_64-pc-windows-gnu,
# gcc-mingw-w64-x86-64 and wine64; WINE is its program, and WINEPREFIX its folder. Those with `msvc` are for the target
# x86_64-pc-windows-msvc, as scripts/platforms/msvc.sh links it, with clang and llvm. Signals have no place there, and the
# samples of the tracker's own threads count as `no event`.
# Without arguments: some 900,000 samples, in all other builds. With --short, as in CI: 20,000 in a release build. Needs Rust, a C compiler and crates.io; for musl, the target x86_64-unknown-linux-musl.
# Works in target/stacks. Prints a table:
#
#   compared    samples of which both have a stack
#   equal       with the same frames
#   limit       with the same first 255 frames, of more
#   no tables   with the same frames up to code without unwind information, where the program has such code
#   different   with another frame
#   no event    samples that are the tracker's own, and no events
#   no stack    samples from before the stacks were turned on
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/fetch_crate.sh

short=false
wanted=" $* "
case "${1-}" in
    --short) short=true wanted=" release " ;;
    -*) echo "usage: $0 [--short | BUILD...]" >&2; exit 2 ;;
esac
is_wanted() { [ "$wanted" = "  " ] || [[ $wanted == *" $1 "* ]]; }

root=$PWD
work=$root/target/stacks
export CARGO_TARGET_DIR=$work CARGO_TERM_COLOR=never CARGO_PROFILE_RELEASE_DEBUG=0
unset RUSTFLAGS MEMLEDGER_TRACE MEMLEDGER_REPORT MEMLEDGER_CHANNELS
run=$work/run
rm -rf "$run"
mkdir -p "$run/libraries"
failures=0

# The libraries that `stack-places` loads.
sources=$root/tests/stacks/libraries
# build_libraries FOLDER COMPILER [ARGUMENT OF RUSTC...]
build_libraries() {
    local folder=$1 cc=$2 ending=so
    shift 2
    if [[ $cc == *mingw* ]]; then ending=dll; fi
    mkdir -p "$folder"
    rustc --edition 2024 --crate-type cdylib -O "$@" -o "$folder/rust.$ending" "$sources/rust.rs"
    "$cc" -O2 -shared -fPIC ${signed:+"$signed"} -o "$folder/one.$ending" "$sources/c.c"
    "$cc" -O2 -shared -fPIC ${signed:+"$signed"} -DVARIANT -o "$folder/two.$ending" "$sources/c.c"
}
build_libraries "$run/libraries" cc

everywhere="calls qsort thread recursion async coroutine assembly"

# compare NAME LIMIT PLACES PROGRAM [ARGUMENT...]: runs a program, and compares its stacks.
compare() {
    local name=$1 limit=$2 places=$3 status=0
    shift 3
    rm -f "$run"/*.utrace "$run/samples"
    MEMLEDGER_STACKS=1 MEMLEDGER_TRACE=$run/trace.utrace MEMLEDGER_REPORT=off STACK_SAMPLES=$run/samples \
        STACK_SAMPLES_LIMIT=$limit STACK_SAMPLES_EVERY=${every-5} timeout 600 "$@" >"$run/stdout" 2>"$run/stderr" || status=$?
    if [ "$status" != 0 ]; then
        echo "FAILED: $name ended with status $status:" >&2
        tail -n 20 "$run/stdout" "$run/stderr" >&2
        failures=$((failures + 1))
        return
    fi
    # shellcheck disable=SC2086
    if ! "$comparer" "$name" "$run/trace.utrace" "$run/samples" $places >>"$run/table"; then
        echo "FAILED: stacks of $name differ" >&2
        failures=$((failures + 1))
    fi
}

cargo build --quiet --release --manifest-path tests/stacks/Cargo.toml -p stack-compare
# Other builds may replace it.
comparer=$run/stack-compare
cp "$work/release/stack-compare" "$comparer"

# build NAME SAMPLES [ARGUMENT OF CARGO...]: builds both programs and compares their stacks. SAMPLES are
# those of `stack-places`; a third as many are of `stack-documents`.
build() {
    is_wanted "$1" || return 0
    if $short; then set -- "$1" 8000; fi
    local name=$1 samples=$2 documents=$(($2 / 3)) folder=$work/release places="$everywhere signal library"
    shift 2
    if ! $short; then places="$places reloaded"; fi
    case "$*" in
        *windows*) folder=$work/${*: -1}/release places=${places/ signal/} ;;
        *musl*) folder=$work/x86_64-unknown-linux-musl/release places=$everywhere ;;
        *aarch64*) folder=$work/aarch64-unknown-linux-gnu/release ;;
    esac
    echo "== $name" >&2
    cargo build --quiet --release --manifest-path tests/stacks/Cargo.toml -p stack-places -p stack-documents "$@"
    # The release build's programs: to build them again would give the same code.
    if [ "$name" = stripped ]; then
        strip -o "$run/stack-places" "$folder/stack-places"
        strip -o "$run/stack-documents" "$folder/stack-documents"
        folder=$run
    fi
    # In parts whose stacks fit in the tracker's tree.
    local part arguments=() emulator=() ending=
    if [[ $folder == *windows* ]]; then ending=.exe; fi
    if [[ $places == *library* ]]; then arguments=("$run/libraries"); fi
    if [[ $folder == *aarch64* ]]; then
        emulator=(qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_PRELOAD=$run/under_emulation.so")
        arguments=("$run/libraries-aarch64")
    elif [[ $folder == *windows* ]]; then
        emulator=("${WINE:-wine64}")
        arguments=("$run/libraries-windows")
    fi
    for ((; samples > 0; samples -= part)); do
        part=$((samples < 30000 ? samples : 30000))
        compare "places, $name" "$part" "$places" "${emulator[@]}" "$folder/stack-places$ending" "${arguments[@]}"
    done
    compare "documents, $name" "$documents" anywhere "${emulator[@]}" "$folder/stack-documents$ending"
}

build release 120000
CARGO_PROFILE_RELEASE_OPT_LEVEL=0 build opt-level=0 90000
CARGO_PROFILE_RELEASE_OPT_LEVEL=s build opt-level=s 60000
build stripped 60000
CARGO_PROFILE_RELEASE_PANIC=abort build abort 90000
CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 build lto 90000
CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_STRIP=true \
    CARGO_PROFILE_RELEASE_PANIC=abort build lto-abort-stripped 90000
RUSTFLAGS="-C force-frame-pointers=yes" build frame-pointers 90000
build musl 60000 --target x86_64-unknown-linux-musl

# build_for_arm NAME SAMPLES: the same for ARM.
build_for_arm() {
    [[ $wanted == *" $1 "* ]] || return 0
    local cc=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cc
    build_libraries "$run/libraries-aarch64" "$cc" --target aarch64-unknown-linux-gnu -C "linker=$cc"
    "$cc" -O2 -shared -fPIC -o "$run/under_emulation.so" "$root/tests/stacks/under_emulation.c"
    build "$1" "$2" --target aarch64-unknown-linux-gnu
}
build_for_arm aarch64 60000
CARGO_PROFILE_RELEASE_OPT_LEVEL=0 build_for_arm aarch64-opt-level=0 30000
RUSTFLAGS="-C force-frame-pointers=no" build_for_arm aarch64-no-frame-pointers 60000
# The option is not stable yet.
signed=-mbranch-protection=pac-ret+leaf RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Z branch-protection=pac-ret,leaf,b-key" \
    build_for_arm aarch64-signed 60000

# build_for_windows NAME SAMPLES: the same for Windows.
build_for_windows() {
    [[ $wanted == *" $1 "* ]] || return 0
    local target=x86_64-pc-windows-gnu linker=x86_64-w64-mingw32-gcc
    export WINEDEBUG=-all
    if [[ $1 == *msvc* ]]; then
        target=x86_64-pc-windows-msvc linker=rust-lld
        . scripts/platforms/common.sh
        . scripts/platforms/msvc.sh
        prepare_msvc "$run/msvc"
    fi
    build_libraries "$run/libraries-windows" x86_64-w64-mingw32-gcc --target $target -C linker=$linker
    build "$1" "$2" --target $target
}
build_for_windows windows 60000
CARGO_PROFILE_RELEASE_OPT_LEVEL=0 build_for_windows windows-opt-level=0 30000
RUSTFLAGS="-C force-frame-pointers=yes" build_for_windows windows-frame-pointers 30000
build_for_windows windows-msvc 60000
CARGO_PROFILE_RELEASE_OPT_LEVEL=0 build_for_windows windows-msvc-opt-level=0 30000

# suite NAME VERSION SAMPLES FEATURES ROOT...: compares the stacks of each test binary of a crate, SAMPLES at most in
# each. ROOTs are the crate roots of its test binaries.
suite() {
    is_wanted "$1" || return 0
    local name=$1 version=$2 samples=$3 features=$4 file path binary
    shift 4
    echo "== $name $version" >&2
    fetch_crate "$name" "$version" "$work" stack-sampler "$root/tests/stacks/sampler"
    cd "$work/src/$name"
    for file in "$@"; do
        # A root's last line may lack its line feed.
        printf '\n%s\n' "$line" >>"$file"
    done
    # A lint of theirs must not stop the build over our line.
    if ! RUSTFLAGS="--cap-lints warn" cargo test --release --lib --tests --no-run --features "$features" \
        >"$run/build.log" 2>&1; then
        tail -n 40 "$run/build.log" >&2
        exit 1
    fi
    sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$run/build.log" >"$run/binaries"
    while read -r path; do
        binary=$(basename "$path")
        CARGO_MANIFEST_DIR=$PWD every=2 compare "$name $version, ${binary%-*}" "$samples" anywhere "$path" </dev/null
    done <"$run/binaries"
    cd "$root"
}
line='#[cfg(test)] #[global_allocator] static __SAMPLING: stack_sampler::Sampling = stack_sampler::Sampling::new();'

suite hashbrown 0.17.1 60000 rayon,serde src/lib.rs tests/equivalent_trait.rs tests/hasher.rs \
    tests/hasher_unwind.rs tests/rayon.rs tests/serde.rs tests/set.rs
# The version before the test data was left out of the published crate.
suite regex 1.12.2 60000 "" src/lib.rs tests/lib.rs

echo "| program and build | place | compared | equal | limit | no tables | different | no event | no stack |"
echo "|---|---|---|---|---|---|---|---|---|"
cat "$run/table"
awk -F'|' '{ compared += $4; different += $8 } END { printf "%d samples compared, %d different\n", compared, different }' "$run/table"
[ "$failures" = 0 ]
