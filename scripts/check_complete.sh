#!/usr/bin/env bash
# "Complete" means complete: random programs, each alone and recorded. Output and status are the same, figures are what the program did, and the word
# of the report (complete, complete but for N, INCOMPLETE) is what is true of its memory. A program is a script for one of the interpreters of
# tests/complete, in C, C++ and Rust, which keep the truth in a file of their own. scripts/check_complete.py says how it is judged.
# A program is its seed: a failure names it. Allocators of Debian are used where they are installed; some scripts need root.
#
#     scripts/check_complete.sh [COUNT [SEED]]            3,000 programs, about 20 minutes; the seed is drawn from the clock
#     scripts/check_complete.sh --short                   100, the same each time, and --attacks; what is not there again is no failure
#     scripts/check_complete.sh --one SEED                one program, with all that was found
#     scripts/check_complete.sh --script 'WORD ..'        this script; the first words may be NAME=VALUE, as a failure shows them
#     scripts/check_complete.sh --attacks                 the defects that were found by hand in commit cbd16d97, and by this check later
#     scripts/check_complete.sh --harmless                300 threads and programs of Debian: none is INCOMPLETE
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/command.sh
if [ -z "${library:-}" ]; then
    cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
    library=$PWD/target/preload/release/libmemledger_preload.so
fi
# NOTE: programs of other users read the library and write the truth.
folder=$(mktemp -d /var/tmp/complete.XXXXXX)
chmod 755 "$folder"
trap 'rm -rf "$folder"' EXIT
install -m 755 "$library" "$folder/libmemledger_preload.so"
export memledger folder libraries
libraries=/usr/lib/$(gcc -print-multiarch)
source=tests/complete/interpreter.c
options="-O1 -fno-builtin -Wall -Wextra -pthread"
# shellcheck disable=SC2086
{
    gcc $options -Wno-missing-field-initializers -o "$folder/c" $source
    gcc $options -Wno-missing-field-initializers -DSTATIC -static -o "$folder/static" $source
    g++ -x c++ -std=c++17 $options -o "$folder/cpp" $source
    gcc $options -Wno-missing-field-initializers -DRUST -c -o "$folder/core.o" $source
    rustc --edition 2024 -O -o "$folder/rust" tests/complete/rust.rs -C link-arg="$folder/core.o"
    if [ -e "$libraries/libjemalloc_pic.a" ]; then
        g++ -x c++ -std=c++17 $options -o "$folder/je" $source -x none "$libraries/libjemalloc.a" -ldl -lm
        # A jemalloc with a prefix, in a library that is loaded later.
        nm "$libraries/libjemalloc_pic.a" 2>/dev/null | awk '$2 == "T" && $3 !~ /^je_|^_Z/ { print $3, "xyz_je_" $3 }' | sort -u >"$folder/names"
        objcopy --redefine-syms="$folder/names" "$libraries/libjemalloc_pic.a" "$folder/prefix.a"
        ar d "$folder/prefix.a" jemalloc_cpp.pic.o
        gcc -shared -o "$folder/libprefix.so" -Wl,--whole-archive "$folder/prefix.a" -Wl,--no-whole-archive -pthread -lm -ldl
    fi
}
python3 scripts/check_complete.py "$@"
