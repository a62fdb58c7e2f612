#!/usr/bin/env bash
# Exports traces for heaptrack, plain and compressed, has `heaptrack_print` read them, and compares with `memledger
# report`: calls to allocation functions (allocations and reallocations), and to the byte the peak and what is live at the
# end.
#
#     scripts/viewers/heaptrack.sh [MEMLEDGER FOLDER_WITH_TRACES]
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ $# = 2 ]; then
    memledger=$(realpath "$1") traces=$(realpath "$2")
    scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
    out=$scratch/out && mkdir "$out"
else
    . scripts/viewers/record.sh
fi
python3 scripts/viewers/helpers/heaptrack.py "$memledger" "$traces" "$out"
