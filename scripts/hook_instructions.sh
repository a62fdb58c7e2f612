#!/usr/bin/env bash
# Counts the instructions of the hook, and compares them with those in scripts/hook_instructions.txt.
#
#     scripts/hook_instructions.sh [aarch64]              # fails where a pair has over 1 % more, or less
#     scripts/hook_instructions.sh [aarch64] --rewrite    # writes the file
#
# A pair is an allocation of 64 bytes, which is freed at once. A busy machine changes nothing: what is counted is what
# the pair takes beyond `System`, with nothing recorded, recorded, and recorded with call stacks. The hook's code depends
# on the compiler, and the yardstick on the C library, so with others than those in the file the script says so and ends with status 77.
# A change elsewhere can move a count by one: the compiler then lays out the hook's code anew.
# callgrind counts, which needs valgrind. For AArch64, a plugin of qemu does, and the file is another one: needs qemu-user,
# gcc-aarch64-linux-gnu and libc6-dev-arm64-cross.
# Works in target/programs, where hook_has_no_panic.sh builds memledger in the same way.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/target/programs
argument=
numbers=scripts/hook_instructions.txt
if [ "${1:-}" = aarch64 ]; then
    argument=" $1"
    numbers=scripts/hook_instructions.aarch64.txt
    shift
    export CARGO_TARGET_DIR=$folder
    . scripts/platforms/aarch64.sh
    libc=$(qemu-aarch64 "$libraries/ld-linux-aarch64.so.1" --version | sed -n 's/^ld\.so .*version \(.*\)\.$/glibc \1/p')
else
    libc=$(getconf GNU_LIBC_VERSION)
fi
build="$(rustc --version), $libc"
counted=$(sed -n 's/^with //p' "$numbers")
if [ "${1:-}" != --rewrite ] && [ "$build" != "$counted" ]; then
    echo "the instructions in $numbers are those with $counted, and here is $build"
    exit 77
fi

work=$folder/pairs
mkdir -p "$work"
compile=(cargo build --quiet --release --manifest-path tests/programs/Cargo.toml -p pairs --target-dir "$folder")
if [ -n "$argument" ]; then
    "${compile[@]}" --target "$target"
    cc -O2 -shared -fPIC -o "$work/count_instructions.so" scripts/platforms/count_instructions.c
    aarch64-linux-gnu-gcc -O2 -shared -fPIC -o "$work/under_emulation.so" tests/stacks/under_emulation.c
    counter=(qemu-aarch64 -plugin "$work/count_instructions.so" -E "LD_PRELOAD=$work/under_emulation.so"
        "$folder/$target/release/pairs")
else
    "${compile[@]}"
    counter=(valgrind --tool=callgrind --callgrind-out-file=/dev/null "--toggle-collect=*counted_pairs*"
        "$folder/release/pairs")
fi

# Prints the instructions of a pair, rounded.
count() {
    local log=$work/$1.log
    if ! timeout 300 "${counter[@]}" "$1" >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
    awk '/Collected : / { printf "%.0f\n", $NF / 10000 }' "$log"
}
system=$(count system)
{
    echo "# Instructions of a pair, beyond those of System. Written by scripts/hook_instructions.sh$argument --rewrite"
    echo "with $build"
    echo "system $system"
    for mode in off recorded stacks; do
        all=$(count $mode)
        echo "$mode $((all - system))"
    done
} >"$work/found"

if [ "${1:-}" = --rewrite ]; then
    cp "$work/found" "$numbers"
    cat "$numbers"
elif [ "$(sed -n 's/^system //p' "$numbers")" != "$system" ]; then
    echo "a pair of System has $system instructions with this C library, and others in $numbers"
    exit 77
elif awk '/^(#|with)/ { next }
        NR == FNR { kept[$1] = $2; next }
        { if (($2 - kept[$1]) ^ 2 * 10000 > kept[$1] ^ 2) differs = 1; print $1, $2, "(" kept[$1] " in the file)" }
        END { exit differs }' "$numbers" "$work/found"; then
    :
else
    echo "FAILED: the hook has over 1 % more or less instructions than in $numbers. What has fewer is welcome, and what needs" \
        "more is argued in the commit: scripts/hook_instructions.sh$argument --rewrite" >&2
    exit 1
fi
