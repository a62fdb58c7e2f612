#!/usr/bin/env bash
# Memory that goes by another door than the C library's `malloc`: in each program (tests/doors) either the figures are right, to the byte where the
# program counts itself, or the report is not complete, says why, and no condition passes. With allocators of Debian below, within, and of Rust's
# crates; and programs of Debian, whose figures are right, where the report says no such thing.
# Fetches two crates.
#
#     scripts/check_doors.sh [--short]      --short: without Rust's crates
#     scripts/check_doors.sh --peers        only a table: what memledger, heaptrack and DHAT see of these programs
set -euo pipefail
cd "$(dirname "$0")/.."

libraries=/usr/lib/$(gcc -print-multiarch)
. scripts/command.sh
cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
export memledger library=$PWD/target/preload/release/libmemledger_preload.so libraries folder
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sources=tests/doors
g++ -O1 -Wall -Wextra -Werror -o "$folder/new" $sources/new.cpp
g++ -O1 -Wall -Wextra -Werror -o "$folder/new_jemalloc" $sources/new.cpp -Wl,--no-as-needed -ljemalloc
g++ -O1 -Wall -Wextra -Werror -o "$folder/new_static" $sources/new.cpp "$libraries/libjemalloc.a" -lpthread -ldl -lm
# Each form of C++'s operators, and the functions that only an allocator has; with allocators of Debian within.
g++ -std=c++17 -O1 -fno-builtin -Wall -Wextra -Werror -o "$folder/operators" $sources/operators.cpp
gcc -O1 -fno-builtin -Wall -Wextra -Werror -o "$folder/named" $sources/named.c
for static in jemalloc tcmalloc_minimal; do
    whole="-Wl,--whole-archive $libraries/lib$static.a -Wl,--no-whole-archive -lpthread -ldl -lm"
    # shellcheck disable=SC2086
    g++ -std=c++17 -O1 -fno-builtin -o "$folder/operators_$static" $sources/operators.cpp $whole
    # shellcheck disable=SC2086
    gcc -O1 -fno-builtin -rdynamic -o "$folder/named_$static" $sources/named.c $whole -lstdc++
    # What the C++ library asks the program for, stays in a stripped one.
    cp "$folder/operators_$static" "$folder/stripped_$static"
    strip "$folder/stripped_$static"
done
# Builds of an allocator whose names have a prefix of its own: `prefixed ARCHIVE PREFIX OUTPUT NAME..`.
prefixed() {
    local archive=$1 prefix=$2 output=$3 name
    shift 3
    for name in "$@"; do echo "$name $prefix$name"; done >"$folder/names"
    objcopy --redefine-syms="$folder/names" "$archive" "$folder/$output.a"
    # Without C++'s operators, which have no prefix.
    # shellcheck disable=SC2046
    ar d "$folder/$output.a" $(ar t "$folder/$output.a" | sed -n /cpp/p)
    local whole="-Wl,--whole-archive $folder/$output.a -Wl,--no-whole-archive -lpthread -ldl -lm"
    # shellcheck disable=SC2086
    gcc -shared -o "$folder/$output.so" $whole
    gcc -O1 -fno-builtin -Wall -Wextra -Werror -DPREFIX="\"$prefix\"" -o "$folder/$output" $sources/named.c
    # shellcheck disable=SC2086
    gcc -O1 -fno-builtin -rdynamic -DPREFIX="\"$prefix\"" -o "$folder/${output}_static" $sources/named.c $whole
}
prefixed "$libraries/libjemalloc_pic.a" own_je_ own_jemalloc malloc calloc posix_memalign aligned_alloc realloc free memalign valloc malloc_usable_size \
    mallocx rallocx xallocx sallocx dallocx sdallocx nallocx mallctl mallctlnametomib mallctlbymib malloc_stats_print
# What has names like that and is none.
gcc -shared -fPIC -o "$folder/no_jemalloc.so" $sources/no_jemalloc.c
for program in calls forks freed handles host maps reopens; do
    gcc -O0 -fno-builtin -Wall -Wextra -Werror -o "$folder/$program" $sources/$program.c
done
# A pointer to `malloc` in a program with a fixed address is an address of the program.
gcc -O0 -fno-builtin -no-pie -fno-pie -Wall -Wextra -Werror -o "$folder/fixed" $sources/fixed.c
gcc -O1 -shared -fPIC -DLIBRARY -Wall -Wextra -Werror -o "$folder/reopened.so" $sources/reopens.c
gcc -O1 -shared -fPIC -DLIBRARY -DTHREAD -Wall -Wextra -Werror -o "$folder/threaded.so" $sources/reopens.c
gcc -O1 -fno-builtin -o "$folder/forks_jemalloc" $sources/forks.c "$libraries/libjemalloc.a" -lstdc++ -lm
gcc -O1 -fno-builtin -shared -fPIC -o "$folder/calloc.so" $sources/calloc.c
# A library below that makes one function of another.
gcc -shared -fPIC -fno-builtin -o "$folder/between.so" $sources/between.c
gcc -O1 -shared -fPIC -Wall -Wextra -Werror -o "$folder/plugin.so" $sources/plugin.c
gcc -O1 -shared -fPIC -Wall -Wextra -Werror -DEARLY -o "$folder/early_plugin.so" $sources/plugin.c
GO111MODULE=off GOCACHE="$folder/cache" CGO_ENABLED=1 go build -ldflags=-s -o "$folder/go_program" $sources/go.go

if [ "${1:-}" != --short ]; then
    for crate in mimalloc tikv-jemallocator rpmalloc; do
        case $crate in
        mimalloc) version='{ version = "0.1", default-features = false }' type=mimalloc::MiMalloc ;;
        rpmalloc) version='"0.2"' type=rpmalloc::RpMalloc ;;
        *) version='"0.6"' type=tikv_jemallocator::Jemalloc ;;
        esac
        mkdir -p "$folder/$crate/src"
        cat >"$folder/$crate/Cargo.toml" <<TOML
[package]
name = "program"
version = "0.0.0"
edition = "2024"
[dependencies]
$crate = $version
[workspace]
TOML
        { echo "#[global_allocator] static ALLOC: $type = $type;" && cat $sources/layouts.rs; } >"$folder/$crate/src/main.rs"
        cargo build --quiet --release --manifest-path "$folder/$crate/Cargo.toml" --target-dir "$folder/target"
        cp "$folder/target/release/program" "$folder/rust_$crate"
        rm "$folder/target/release/program"
    done
    archive=$(find "$folder/target/release" -name libmimalloc.a | head -1)
    # shellcheck disable=SC2046
    prefixed "$archive" own_ own_mimalloc $(nm -g --defined-only "$archive" | awk '$3 ~ /^_?mi_/ { print $3 }')
fi
python3 scripts/check_doors.py "$@"
