#!/usr/bin/env bash
# Exports traces as tables of Parquet and of CSV, and compares DuckDB's sums over them with `memledger report`, to the
# byte: all columns, by scope, name, thread and stack, and the peak. Prints the size and the time of each export.
# Installs DuckDB with pip, into a folder that is removed; fails if it cannot.
#
#     scripts/viewers/parquet.sh [MEMLEDGER FOLDER_WITH_TRACES]
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ $# = 2 ]; then
    memledger=$(realpath "$1") traces=$(realpath "$2")
    scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
    out=$scratch/out && mkdir "$out"
else
    . scripts/viewers/record.sh
fi
if ! python3 -c 'import duckdb' 2>/dev/null; then
    python3 -m pip install --quiet --disable-pip-version-check --target "$scratch/python" duckdb
    export PYTHONPATH=$scratch/python
fi
python3 scripts/viewers/helpers/parquet.py "$memledger" "$traces" "$out"
