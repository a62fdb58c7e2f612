#!/usr/bin/env bash
# Runs one program, which parses 30 sources of this library, under heaptrack and under memledger with stacks, and
# compares the bytes that each function has allocated, its callees included. The 20 functions with the most bytes
# must be the same in both, in the same order, and their bytes must differ by less than 1 %. Prints both, and the
# times. Functions are compared by their last names. Left out are closures and allocators, whose names many
# functions have, and functions whose names heaptrack does not demangle. Needs Python, zstd and heaptrack.
#
#     scripts/check_heaptrack.sh
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --release -p memledger-benches --bin program_memledger
cargo build --quiet --release -p memledger-cli
program=$(realpath "$target/release/program_memledger")
memledger=$(realpath "$target/release/memledger")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
find "$PWD/src" -name '*.rs' | sort | sed -n 1,30p >"$folder/sources.txt"
unset MEMLEDGER_TRACE MEMLEDGER_REPORT MEMLEDGER_CHANNELS MEMLEDGER_STACKS

# timed NAME COMMAND...
TIMEFORMAT='%R'
timed() {
    local name=$1 seconds
    shift
    seconds=$({ time "$@" >"$folder/$name.out" 2>&1; } 2>&1) || { cat "$folder/$name.out"; exit 1; }
    printf '%-24s %8s s\n' "$name" "$seconds"
}
timed plain "$program" syn "$folder/sources.txt"
timed memledger env MEMLEDGER_STACKS=1 MEMLEDGER_REPORT=off MEMLEDGER_TRACE="$folder/run.memledger" \
    "$program" syn "$folder/sources.txt"
timed heaptrack heaptrack -o "$folder/run" "$program" syn "$folder/sources.txt"
"$memledger" export "$folder/run.memledger" --to folded --column allocated --all-frames -o "$folder/run.folded"
zstd --quiet -dc "$folder"/run*.zst >"$folder/run.heaptrack"

python3 - "$folder/run.heaptrack" "$folder/run.folded" <<'PYTHON'
import collections, sys

def last_name(name):
    """A function without its crate and modules: heaptrack does not have those of inlined functions."""
    if name.startswith(("_", "<")):
        return name
    path, less, generic = name.partition("<")
    return path.rpartition("::")[2] + less + generic

def of_heaptrack(path):
    """The allocated bytes of each function with its callees. The format is that of heaptrack_interpret: lines of
    strings, instruction pointers, traces, sizes with their traces, allocations; numbers are hexadecimal."""
    strings, pointers, traces, sizes = [""], [()], [(0, 0)], []
    bytes_of_trace = collections.Counter()
    for line in open(path, encoding="utf-8", errors="replace"):
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "s":
            strings.append(rest.partition(" ")[2])
        elif kind in ("i", "t", "a", "+"):
            numbers = [int(number, 16) for number in rest.split()]
            if kind == "i":
                # After the address and the module: function, file and line of each inlined function.
                pointers.append(tuple(strings[function] for function in numbers[2::3]))
            elif kind == "t":
                traces.append(tuple(numbers))
            elif kind == "a":
                sizes.append(tuple(numbers))
            else:
                size, trace = sizes[numbers[0]]
                bytes_of_trace[trace] += size
    result = collections.Counter()
    for trace, size in bytes_of_trace.items():
        names = set()
        while trace:
            pointer, trace = traces[trace]
            names.update(map(last_name, pointers[pointer]))
        for name in names:
            result[name] += size
    return result

def of_memledger(path):
    result = collections.Counter()
    for line in open(path, encoding="utf-8"):
        stack, _, size = line.rstrip("\n").rpartition(" ")
        for name in set(map(last_name, stack.split(";"))):
            result[name] += int(size)
    return result

# Names of functions of several allocators.
ALLOCATORS = {"alloc", "realloc", "alloc_zeroed", "allocate", "grow"}

def top(figures):
    names = [name for name in figures
             if "{" not in name and "+0x" not in name and not name.startswith(("_", "<")) and name not in ALLOCATORS]
    return sorted(names, key=lambda name: (-figures[name], name))[:20]

heaptrack, memledger = of_heaptrack(sys.argv[1]), of_memledger(sys.argv[2])
print("%14s %14s  function" % ("memledger", "heaptrack"))
for name in top(memledger):
    print("%14d %14d  %s" % (memledger[name], heaptrack[name], name[:100]))
wrong = [name for name in set(top(memledger)) | set(top(heaptrack))
         if abs(memledger[name] - heaptrack[name]) > max(memledger[name], heaptrack[name]) / 100]
if wrong or top(memledger) != top(heaptrack):
    sys.exit("heaptrack has others: %s %s" % (wrong, top(heaptrack)))
print("the 20 functions that allocate most are the same")
PYTHON
