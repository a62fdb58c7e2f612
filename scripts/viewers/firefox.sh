#!/usr/bin/env bash
# Exports traces for the Firefox Profiler, reads them with Python, follows each index in them as the profiler does, and
# compares sums with `memledger report`, to the byte: of all positive weights the allocated bytes, of all weights the live
# bytes, by thread and in all. NOTE: this is not the profiler itself, which is a web page without a package.
#
#     scripts/viewers/firefox.sh [MEMLEDGER FOLDER_WITH_TRACES]
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ $# = 2 ]; then
    memledger=$(realpath "$1") traces=$(realpath "$2")
    scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
    out=$scratch/out && mkdir "$out"
else
    . scripts/viewers/record.sh
fi
python3 scripts/viewers/helpers/firefox.py "$memledger" "$traces" "$out"
