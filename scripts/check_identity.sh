#!/usr/bin/env bash
# Programs that change their user and their namespaces, and that use, close and count descriptors, under `memledger run`: output,
# errors and status are those without it, and the trace is whole. As root, because most of them need that.
#
#     scripts/check_identity.sh
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "scripts/check_identity.sh: run it as root" >&2; exit 1; }
. scripts/command.sh
library=${library:-$PWD/target/preload/release/libmemledger_preload.so}
[ -e "$library" ] ||
    cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# What a changed user replaces itself by has a trace, too.
chmod 777 "$folder"
cp tests/identity/keep.c "$folder"
for name in keep descriptors late; do gcc -O1 -w -o "$folder/$name" tests/identity/$name.c; done

failed=0
check() { # check NAME COMMAND...: the same with and without the tracker
    local name=$1 plain tracked trace
    shift
    (cd "$folder" && timeout 600 "$@") >"$folder/plain.out" 2>"$folder/plain.err" </dev/null && plain=0 || plain=$?
    trace=$folder/trace.utrace
    rm -f "$folder"/*.utrace
    (cd "$folder" && timeout 600 "$memledger" run --preload "$library" --report off --trace "$folder/trace.%p.utrace" -- "$@") \
        >"$folder/tracked.out" 2>"$folder/tracked.err" </dev/null && tracked=0 || tracked=$?
    # NOTE: says where the trace of a program is that has replaced itself.
    # And where a program has become a user who may not write the trace of the program that it has been.
    sed -i -e '/ is in use by another process, so /d' -e '/ cannot create .*: Permission denied/d' "$folder/tracked.err"
    local incomplete=0 count=0
    for trace in "$folder"/trace.*.utrace; do
        count=$((count + 1))
        # NOTE: who may not read its own memory is not weighed.
        "$memledger" report "$trace" 2>/dev/null | head -1 | grep -q ", complete" || incomplete=1
    done
    if [ "$plain" = "$tracked" ] && cmp -s "$folder/plain.out" "$folder/tracked.out" &&
        cmp -s "$folder/plain.err" "$folder/tracked.err" && [ "$count" -gt 0 ] && [ "$incomplete" = 0 ]; then
        echo "$name: ok, $count traces"
    else
        failed=1
        echo "$name: status $tracked instead of $plain, $count traces, incomplete: $incomplete"
        diff "$folder/plain.out" "$folder/tracked.out" || true
        diff "$folder/plain.err" "$folder/tracked.err" || true
    fi
}

check "rights that are kept" "$folder/keep"
check "setpriv" setpriv --reuid=65534 --regid=65534 --clear-groups id -u
check "unshare -U" unshare -U true
check "unshare -Urm" unshare -Urm id -u
check "unshare -Urpf" unshare -Urpf id -u
sleep 600 &
other=$!
check "nsenter -m" nsenter -t "$other" -m true
check "nsenter -a" nsenter -t "$other" -a true
kill "$other"
check "a user that changes after the PID namespace" "$folder/late"
check "numbers" bash -c 'exec 3>three; echo text >&3; exec 3>&-; cat three; ls /proc/self/fd; exec 9>&1; exec "$0"' "$folder/descriptors"
check "closed streams" bash -c 'exec 9>&1; exec 0<&- 1>&- 2>&-; exec "$0"' "$folder/descriptors"
check "five descriptors" bash -c 'ulimit -n 5; cat keep.c | md5sum'
check "closefrom" ssh -V
exit "$failed"
