#!/usr/bin/env bash
# Runs the command for x86-64 Windows, under wine, and compares what it writes with what the command writes here, byte by
# byte: every report and every format of every trace among the samples.
#
#     scripts/platforms/run_on_windows.sh [TRACE ...]     also of these traces
#
# Needs wine64, gcc-mingw-w64-x86-64, curl and jq, and says which of them is not installed. Works in target/platforms.
set -euo pipefail
traces=()
for trace in "$@"; do traces+=("$(realpath "$trace")"); done
cd "$(dirname "$0")/../.."

. scripts/platforms/wine.sh
# No key of this environment changes what is written.
unset NO_COLOR MEMLEDGER_CACHE DEBUGINFOD_URLS XDG_CACHE_HOME

timeout 1800 cargo build --quiet -p memledger-cli --target "$target"
timeout 1800 cargo build --quiet -p memledger-cli
linux=$CARGO_TARGET_DIR/debug/memledger
windows=$CARGO_TARGET_DIR/$target/debug/memledger.exe
fail() {
    echo "FAILED on Windows: $*" >&2
    exit 1
}
mkdir "$folder/linux" "$folder/windows"
# on SYSTEM ARGUMENT...: the command, in the folder of that system.
on() {
    local command=("$linux")
    if [ "$1" = windows ]; then command=("$wine" "$windows"); fi
    (cd "$folder/$1" && timeout 120 "${command[@]}" "${@:2}")
}
ran=0
# both ARGUMENT...: the command on both systems, with its output, its sentences and its status in files. With $input, it
# reads that file.
both() {
    ran=$((ran + 1))
    for system in linux windows; do
        local status=0 name=$folder/$system/$ran
        echo "memledger $*" >"$name.command"
        on $system "$@" >"$name.out" 2>"$name.err" <"${input:-/dev/null}" || status=$?
        echo $status >"$name.status"
    done
}
# Says what is not the same, with the commands that wrote it.
compare() {
    diff -r "$folder/linux" "$folder/windows" >"$folder/difference" && return
    head -c 4000 "$folder/difference" >&2
    for found in $(grep -o '/windows/[0-9]*' "$folder/difference" | sort -u | head -n 20); do
        cat "$folder$found.command" >&2
    done
    fail "the differences are above"
}

mapfile -t samples < <(find tests/samples cli/tests/traces -name '*.utrace' -o -name '*.memledger')
for trace in "${samples[@]}" "${traces[@]}"; do
    name=$(basename "$trace")
    # A trace that is cut, and one with a damaged packet.
    { head -c $(($(stat -c %s "$trace") * 2 / 3)) "$trace"; } >"$folder/cut-$name"
    { head -c 2000 "$trace"; printf 'damage'; tail -c +2007 "$trace"; } >"$folder/damaged-$name"
    for trace in "$trace" "$folder/cut-$name" "$folder/damaged-$name"; do
        for system in linux windows; do cp "$trace" "$folder/$system/$(basename "$trace")"; done
    done
    both report "$name"
    both report "$name" --verbose --findings
    both report "$name" --format json
    both report "$name" -o "$name.html"
    both report "$name" --at peak --by thread --sort peak --fail-if 'peak_bytes > 1'
    both info "$name"
    both info "$name" --format json
    both events "$name"
    both events "$name" --format json
    both query "$name" --rule leaked --format json
    both leaks "$name"
    both diff "$name" "cut-$name"
    both symbolize "$name" -o "symbolized-$name"
    for format in utrace memledger folded speedscope dhat pprof parquet csv firefox heaptrack perfetto; do
        both export "$name" --to $format -o "$name.$format"
    done
    both export "$name" --to memledger --packed -o "$name.packed"
    both report "$name.packed"
    both export "$name" --to csv --table blocks -o -
    input=$trace both report -
    for bad in "cut-$name" "damaged-$name"; do
        both report "$bad"
        both info "$bad"
    done
done
small=memledger-small.utrace

# Sentences. What the system says itself is in its own words, so none of these has it.
: >"$folder/linux/empty.utrace"
cp "$folder/linux/empty.utrace" "$folder/windows"
both report missing.utrace
both report empty.utrace
both report .
both report 1.command
both report $small --bye thread
both reprot
both report $small --fail-if 'peak > 1'
both export $small --to utrace -o $small
for system in linux windows; do mkdir "$folder/$system/other" && cp tests/samples/$small "$folder/$system/other"; done
both export $small --to csv -o other
both export $small --to csv -o "$small.csv"
both view -
both top $small
both top 1985
both traces --store .
both serve --folder $small
both serve --folder a/b/c
both run -- missing
for page in --help "report --help" --version; do both $page; done

# Names: with spaces, other letters, and each folder by the separator of the system.
for system in linux windows; do
    mkdir "$folder/$system/Größe 日本"
    cp "$folder/$system/$small" "$folder/$system/Größe 日本/a b.utrace"
done
both report "Größe 日本/a b.utrace" -o "Größe 日本/ü.json"
both export "Größe 日本/a b.utrace" --to csv -o "Größe 日本/csv"
on windows info 'Größe 日本\a b.utrace' | tail -n +2 | cmp - <(on linux info "Größe 日本/a b.utrace" | tail -n +2)
on windows info "Z:${folder//\//\\}\\windows\\$small" | tail -n +2 | cmp - <(on linux info $small | tail -n +2)

# Nowhere, and to a reader that ends first.
on windows export $small --to utrace -o NUL || fail "NUL cannot be written"
on windows info NUL 2>"$folder/nul" && fail "NUL is no trace"
grep -q '^memledger: NUL: ' "$folder/nul" || fail "NUL: $(cat "$folder/nul")"
on windows events mem-2t-40k.utrace 2>"$folder/closed" | head -n 1 >/dev/null
[ "${PIPESTATUS[0]}" = 0 ] && ! [ -s "$folder/closed" ] || fail "a closed pipe: $(cat "$folder/closed")"

compare

# waits FILE: until a program that runs has written to it.
waits() {
    for _ in $(seq 100); do
        if [ -s "$1" ]; then return; fi
        sleep 0.1
    done
    fail "nothing is written to $1"
}
# interrupts PROCESS: sends it Ctrl-C, which wine makes of SIGINT, and sees it end well.
interrupts() {
    kill -INT "$1"
    wait "$1" || fail "status $? after Ctrl-C"
}
cd "$folder/windows"

# A program that has the tracker's section, as memledger run finds it.
x86_64-w64-mingw32-gcc -O2 -o has_tracker.exe "$root/scripts/platforms/has_tracker.c"
expect() {
    local status=0
    on windows run -o report.txt -- "${@:2}" >run.out 2>run.err || status=$?
    [ $status = "$1" ] || fail "run ${*:2}: status $status: $(cat run.err)"
}
expect 0 ./has_tracker $small 0
expect 7 '.\has_tracker.exe' $small 7
expect 127 ./missing
grep -q 'there is no such program' run.err || fail "$(cat run.err)"
rm report.txt
expect 125 "$windows" --version
grep -q 'cannot be tracked: it does not use memledger::TrackingAllocator, and programs' run.err || fail "$(cat run.err)"
expect 0 ./has_tracker $small 0
sed 1d report.txt | cmp - <(on linux report $small | sed 1d)
# The whole of a status has 32 bits, of which Linux shows 8.
for status in 300 -1073741819; do
    line=".\\has_tracker.exe $small $status & echo !errorlevel!"
    "$wine" cmd /v:on /c "Z:${windows//\//\\} run -o off -- $line" >run.out 2>run.err || true
    [ "$(tr -d '\r' <run.out)" = $status ] || fail "status $(cat run.out run.err), not $status"
done
# Ctrl-C ends the program, and the command after it.
"$wine" "$windows" run -o interrupted.txt -- "$PWD/has_tracker" $small wait >run.out 2>run.err &
run=$!
waits run.out
kill -INT $run
sleep 1
kill -0 $run || fail "Ctrl-C has ended the command before the program"
kill -INT "$(pgrep -f "^$PWD/has_tracker")"
# NOTE: with status 0 in wine, and 0xC000013A in Windows.
wait $run || fail "status $? of a program that Ctrl-C has ended"
cmp report.txt interrupted.txt

# The store, from both systems, and the page.
mkdir store
"$wine" "$windows" serve --folder store --recorder-port 0 --store-port 0 --format json >serve.out 2>serve.err &
server=$!
waits serve.out
recorder=$(jq -r '.recorder[0]' serve.out) store=$(jq -r .store serve.out)
cat $small >"/dev/tcp/${recorder/://}"
until [ "$(on linux traces --store "$store" --format json | jq -r '.traces[0].live')" = false ]; do sleep 0.1; done
id=$(on linux traces --store "$store" --format json | jq -r '.traces[0].id')
for system in linux windows; do
    on $system traces --store "$store" >"traces.$system"
    on $system fetch "$id" --store "$store" -o - | cmp - $small
done
cmp traces.linux traces.windows
cmp store/*.utrace $small
on windows serve --folder store --recorder-port 0 --store-port 0 2>second.err && fail "two stores in one folder"
grep -q 'cannot keep traces in store: .*memledger serve' second.err || fail "$(cat second.err)"
interrupts $server
[ "$(wc -l <serve.out)" = 1 ] || fail "serve: $(cat serve.out)"

"$wine" "$windows" view $small >view.out 2>view.err &
viewer=$!
(cd "$folder/linux" && exec "$linux" view $small >view.out 2>view.err) &
other=$!
for system in linux windows; do
    waits "$folder/$system/view.out"
    url=$(tr -d '\n' <"$folder/$system/view.out")
    curl -sSf "$url" | sed 's/"token":"[0-9a-f]*"/"token":""/' >"$folder/$system.html"
    curl -sSf "${url/'/?'//api/page?}" >"$folder/$system.page"
done
interrupts $viewer
kill $other
cmp "$folder/linux.html" "$folder/windows.html"
cmp "$folder/linux.page" "$folder/windows.page"
cd "$root"
echo "the command writes the same on Windows: $ran commands with $((${#samples[@]} + ${#traces[@]})) traces"

echo "unit tests on Windows:"
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$wine
crates=(-p memledger-format -p memledger-document -p memledger-analysis -p memledger-export -p memledger-store -p memledger-cli)
if ! timeout 1800 cargo test --quiet --no-fail-fast --target "$target" "${crates[@]}" --lib >"$folder/tests" 2>&1; then
    cat "$folder/tests" >&2
    fail "unit tests"
fi
grep '^test result' "$folder/tests"
