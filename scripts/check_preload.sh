#!/usr/bin/env bash
# Loads the library of preload/ into programs that have no tracker: figures are those of an independent counter
# (tests/preload/count.c) on a dozen of Debian's programs, and heaptrack's on five; mapped memory is that of another counter
# (tests/preload/count_mapped.c) on three; what is hard for a tracker of malloc (tests/preload/hostile.c) ends as without
# it; other allocators below; other libraries before and after; libraries that are opened with RTLD_DEEPBIND (tests/preload/opens.c);
# children that cannot load the library (tests/preload/executes.c); programs whose launcher drops it from the environment; a server of two processes; workers of servers that are killed (nginx, gunicorn); what cannot be tracked is refused. Then the checks of
# scripts/check_signals.py: interpreters and C programs (tests/preload/endings.c) under signals, the ends of their last threads, and crashes in their first moments
# are as alone. Memory that is in no block is said, and stacks of ended threads are not that (scripts/check_resident.py).
# Also the `malloc` of a static program.
#
#     scripts/check_preload.sh
set -euo pipefail
cd "$(dirname "$0")/.."

libraries=/usr/lib/$(gcc -print-multiarch)
. scripts/command.sh
export memledger
cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
export library=$PWD/target/preload/release/libmemledger_preload.so
export folder
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# NOTE: its functions call each other, not those of memledger.
gcc -O2 -Wall -Werror -shared -fPIC -Wl,-Bsymbolic -o "$folder/libcount.so" tests/preload/count.c
gcc -O2 -Wall -Werror -shared -fPIC -o "$folder/libcount_mapped.so" tests/preload/count_mapped.c
gcc -O2 -Wall -Werror -fno-builtin -shared -fPIC -DZEROING -o "$folder/libzeroing.so" tests/preload/shims.c
gcc -O2 -Wall -Werror -Wno-address -fno-builtin -shared -fPIC -o "$folder/libchecking.so" tests/preload/shims.c
gcc -O1 -Wall -Werror -fno-builtin -o "$folder/nested" tests/preload/nested.c
gcc -O1 -Wall -Werror -fno-builtin -rdynamic -o "$folder/interrupted" tests/preload/nested.c
gcc -O1 -Wall -Wextra -Werror -fno-builtin -o "$folder/names" tests/preload/names.c
gcc -O1 -Wall -Wextra -Werror -o "$folder/executes" tests/preload/executes.c
gcc -O1 -Wall -Wextra -Werror -static -o "$folder/executes_static" tests/preload/executes.c
musl-gcc -O1 -Wall -Wextra -Werror -o "$folder/executes_musl" tests/preload/executes.c
gcc -m32 -O1 -Wall -Wextra -Werror -DALONE -nostdlib -static -ffreestanding -fno-pie -no-pie -fno-stack-protector -o "$folder/executes_32" tests/preload/executes.c
for sanitizer in address leak; do
    gcc -O1 -w -fsanitize=$sanitizer -o "$folder/executes_$sanitizer" tests/preload/executes.c
done
printf '#!%s %s\n' "$folder/executes_static" 1 >"$folder/executes_script" && chmod +x "$folder/executes_script"
mkdir "$folder/sub"
gcc -O1 -Wall -Wextra -Werror -fno-builtin -pthread -o "$folder/opens" tests/preload/opens.c
gcc -O1 -Wall -Wextra -Werror -fno-builtin -shared -fPIC -DCALLER -Wl,--enable-new-dtags,-rpath,'$ORIGIN/sub' -o "$folder/libcaller.so" tests/preload/opens.c
gcc -O1 -Wall -Wextra -Werror -fno-builtin -shared -fPIC -DPLUGIN -Wl,-z,relro -o "$folder/sub/libplugin.so" tests/preload/opens.c
for i in 0 1 2 3; do cp "$folder/sub/libplugin.so" "$folder/sub/libplugin$i.so"; done
gcc -O1 -w -fno-builtin -pthread -o "$folder/hostile" tests/preload/hostile.c
gcc -O1 -w -fno-builtin -pthread -static -o "$folder/static" tests/preload/hostile.c
for sanitizer in address leak thread; do
    gcc -O1 -w -fno-builtin -pthread -fsanitize=$sanitizer -o "$folder/$sanitizer" tests/preload/hostile.c
done
echo 'unsigned la_version(unsigned version) { return version; }' | gcc -O1 -shared -fPIC -x c - -o "$folder/libaudit.so"
cp "$folder/hostile" "$folder/privileged" && chmod u+s "$folder/privileged"
printf '#!%s nothing\n' "$folder/hostile" >"$folder/script" && chmod +x "$folder/script"
for i in $(seq 0 99); do
    [ "$i" = 0 ] && echo 'static __thread int at[4096]; void *value(void) { return at; }' |
        gcc -O1 -shared -fPIC -x c - -o "$folder/libtls0.so"
    [ "$i" = 0 ] || cp "$folder/libtls0.so" "$folder/libtls$i.so"
done
another_clock="$libraries/faketime/libfaketime.so.1" \
    other_allocators="$libraries/libjemalloc.so.2 $libraries/libtcmalloc_minimal.so.4 $libraries/libmimalloc.so.2" \
    python3 scripts/check_preload.py
gcc -O1 -Wall -Wextra -Wno-deprecated-declarations -Werror -pthread -o "$folder/endings" tests/preload/endings.c
gcc -O1 -Wall -Wextra -Werror -pthread -o "$folder/resident" tests/preload/resident.c
python3 scripts/check_signals.py
scripts/check_resident.py "$memledger" "$library" "$folder/resident"

# The heap "C" in a Rust program that is linked with a static glibc.
target=$(rustc -vV | sed -n 's/^host: //p')
for flags in "" "-C target-feature=+crt-static -C link-arg=-Wl,-z,muldefs"; do
    # NOTE: with a target, these flags are not those of build scripts.
    RUSTFLAGS=$flags cargo build --quiet --target "$target" --manifest-path tests/programs/Cargo.toml -p c-malloc \
        --target-dir target/programs
    MEMLEDGER_REPORT="$folder/static.json" "target/programs/$target/debug/c-malloc"
    python3 - "$folder/static.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
largest = [block["bytes"] for block in report["largest_live"][:5]]
assert largest == [4 << 20, 3 << 20, 2000004, 2000004, 1000003], largest
heaps = {row["name"]: row["live_bytes"] for row in report["by_heap"]}
assert 0 <= heaps["Mapped"] - (7 << 20) < 100000, heaps
assert 0 <= heaps["Rust"] - 3000007 < 10000 and 0 <= heaps["C"] - 2000004 < 100000, heaps
assert report["losses"]["unmatched_frees"] == 0
figures = {figure["name"]: figure["bytes"] for figure in report["rss"]["allocators"][0]["figures"]}
assert figures["in use"] + figures["mapped"] > 5_000_000, report["rss"]
PYTHON
    echo "malloc and mmap beside Rust's allocator, linked ${flags:+statically}${flags:-dynamically}: ok" | sed 's/linked statically.*:/linked statically:/'
done
