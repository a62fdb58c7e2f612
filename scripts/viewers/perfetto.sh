#!/usr/bin/env bash
# Exports traces for Perfetto, decodes them with the protos of PyPI's `perfetto`, reads them by the rules of its trace
# processor, and compares with `memledger report`, to the byte: what each heap profile sums to, the last point of each
# counter, the peak, and what was allocated in slices. Numbers of names and callstacks are followed, slices nest. Then
# `memledger info` and `events` read the same files without a loss. NOTE: this is not the trace processor itself, a program
# that `perfetto` downloads from a place that is no package registry.
#
#     scripts/viewers/perfetto.sh [MEMLEDGER FOLDER_WITH_TRACES]
set -euo pipefail
cd "$(dirname "$0")/../.."

VERSION=0.59.1
if [ $# = 2 ]; then
    memledger=$(realpath "$1") traces=$(realpath "$2")
    scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
    out=$scratch/out && mkdir "$out"
else
    . scripts/viewers/record.sh
fi
if ! python3 -c 'import perfetto.protos.perfetto.trace.perfetto_trace_pb2' 2>/dev/null; then
    python3 -m pip install --quiet --disable-pip-version-check --target "$scratch/python" "perfetto==$VERSION" protobuf
    export PYTHONPATH=$scratch/python
fi
python3 scripts/viewers/helpers/perfetto_trace.py "$memledger" "$traces" "$out"
for file in "$out"/*.pftrace; do
    "$memledger" info "$file" --format json >"$scratch/info.json"
    python3 -c '
import json, sys
info = json.load(open(sys.argv[1]))
wrong = {key: info[key] for key in ("losses", "unknown_fields", "unfinished_dumps") if info[key]}
sys.exit(f"{sys.argv[2]}: {wrong}" if wrong or not info["complete"] else 0)' "$scratch/info.json" "$file"
    "$memledger" events "$file" --stacks >"$scratch/events.txt"
    if grep -n ' !\|iid [0-9]*"' "$scratch/events.txt" | head -3 | grep .; then
        echo "$file: events has losses" >&2
        exit 1
    fi
done
