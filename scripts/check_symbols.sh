#!/usr/bin/env bash
# Names, files and lines from where distributions and compilers put them: each form is made with the distribution's own
# tools (gcc, dwp, dwz, objcopy, Debian's libc6-dbg and debuginfod), and the stack of one known allocation is compared.
# Nothing is written outside of a temporary folder.
#
#     scripts/check_symbols.sh
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/command.sh
cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
run=("$memledger" run --preload "$PWD/target/preload/release/libmemledger_preload.so" --stacks --report off)
folder=$(mktemp -d)
servers=()
trap '[ ${#servers[@]} = 0 ] || kill "${servers[@]}"; rm -rf "$folder"' EXIT
cp tests/symbols/program.c "$folder"
cd "$folder"
unset DEBUGINFOD_URLS
export DEBUGINFOD_CACHE_PATH=$folder/cache
# The same, so that two files share debug information.
sed 's/outer/other/g' program.c >other.c

# build FOLDER [FLAG]...: the program, in a folder of its own.
build() {
    mkdir -p "$1"
    (cd "$1" && gcc -O1 -fno-builtin -g -gdwarf-4 "${@:2}" -o program ../program.c)
}

fail() { echo "$*" >&2; exit 1; }

# stack TRACE [ARGUMENT]...: functions with their lines of the allocation of 1,000,003 bytes, the innermost first.
stack() {
    timeout 600 "$memledger" report "$1" --format json "${@:2}" 2>notes | jq -r '
        .frames as $frames | .by_stack[] | select(.allocated_bytes == 1000003)
        | [.frames[] | $frames[.].functions[] | .function + (if .line then ":\(.line)" else "" end)] | join(" ")'
}

# expect NAME STACK TRACE [ARGUMENT]...
expect() {
    local found
    found=$(stack "${@:3}")
    [[ $found == "$2"* ]] || { cat notes >&2; fail "$1: \"$found\" instead of \"$2\""; }
    echo "$1: $found"
}

# record FOLDER: the trace is t.memledger there.
record() { (cd "$1" && timeout 600 "${run[@]}" --trace t.memledger -- ./program >output); }

# The functions that are inlined are in the debug information only.
lines="in_line:7 inner:11 outer:15 main:20"

build plain
record plain
expect "debug information in the program" "$lines" plain/t.memledger

for form in zlib zstd; do
    build "$form"
    if objcopy --compress-debug-sections="$form" "$form/program" 2>error; then
        readelf -SW "$form/program" | grep -A1 '\.debug_info' | grep -q ' C ' || fail "$form: the sections are not compressed"
        record "$form"
        expect "sections compressed by $form" "$lines" "$form/t.memledger"
    else
        echo "sections compressed by $form: not tried, because this objcopy says: $(head -1 error)"
    fi
done

build split -gsplit-dwarf
record split
expect "split debug information (.dwo)" "$lines" split/t.memledger
(cd split && dwp -e program -o program.dwp && rm ./*.dwo)
expect "its package (.dwp)" "$lines" split/t.memledger
rm split/program.dwp
expect "neither of them" "inner:7 outer:15 main:20" split/t.memledger

# separate FOLDER: the debug information is in program.debug, the program is stripped and has a link to it.
separate() {
    (cd "$1" && objcopy --only-keep-debug program program.debug && strip program && objcopy --add-gnu-debuglink=program.debug program)
}

build link -Wl,--build-id=none
separate link
record link
expect ".gnu_debuglink, by its CRC" "$lines" link/t.memledger
printf x >>link/program.debug
expect ".gnu_debuglink with another CRC" "" link/t.memledger
grep -q 'program.debug is not the debug information of .*: its CRC is' notes || { cat notes >&2; fail "the CRC is not said"; }

build dwz
(cd dwz && gcc -O1 -fno-builtin -g -gdwarf-4 -o other ../other.c && dwz -m common.debug -M common.debug program other)
readelf -SW dwz/program | grep -q gnu_debugaltlink || fail "dwz has found nothing to share"
record dwz
expect "what dwz has put into a file of its own (.gnu_debugaltlink)" "$lines" dwz/t.memledger

# Debian's package: the C library's own functions, from /usr/lib/debug by the build id. Compressed, and by dwz.
in_libc=$(timeout 600 "$memledger" report plain/t.memledger --format json 2>notes | jq -r '
    [.frames[].functions[] | select(.function | test("IO_file_doallocate")) | "\(.function) \(.file):\(.line)"] | first')
[[ $in_libc == *filedoalloc.c:* ]] || { cat notes >&2; fail "libc6-dbg: \"$in_libc\""; }
echo "/usr/lib/debug, by the build id: $in_libc"

# Debian's debuginfod, with the debug information in its folder.
build served
id=$(readelf -n served/program | awk '/Build ID/ { print $3 }')
separate served
record served
mkdir store
mv served/program.debug store/
expect "no debug information" "" served/t.memledger
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
debuginfod -d "$folder/debuginfod.sqlite" -p "$port" -F "$folder/store" >server.log 2>&1 &
servers+=($!)
# The server has the file when it has looked through the folder.
for ((tries = 600; tries > 0; tries--)); do
    code=$(python3 - "http://127.0.0.1:$port/buildid/$id/debuginfo" <<'PYTHON'
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).status)
except OSError as error:
    print(getattr(error, "code", 0))
PYTHON
    )
    [ "$code" != 200 ] || break
    kill -0 "${servers[0]}" || { cat server.log >&2; fail "debuginfod has ended"; }
done
[ "$code" = 200 ] || { cat server.log >&2; fail "debuginfod does not have the file"; }
DEBUGINFOD_URLS=http://127.0.0.1:$port expect "debuginfod" "$lines" served/t.memledger
[ -s "cache/$id/debuginfo" ] || fail "what debuginfod has sent is not kept"
