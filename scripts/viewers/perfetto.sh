#!/usr/bin/env bash
# Exports traces for Perfetto, decodes them with the protos of PyPI's `perfetto`, reads them by the rules of its trace
# processor, and compares with `memledger report`, to the byte: what each heap profile sums to, the last point of each
# counter, the peak, and what was allocated in slices. Numbers of names and callstacks are followed, slices nest. NOTE: this
# is not the trace processor itself, a program that `perfetto` downloads from a place that is no package registry.
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
