#!/usr/bin/env bash
# Makes the same track events through Perfetto's C library and through memledger, decodes both files by Perfetto's
# own protos (the package `perfetto` of PyPI), and compares them packet by packet. The C library takes g++ about a minute.
#
#     scripts/check_perfetto_golden.sh [FOLDER]
#
# The files are kept if a folder is given.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"

python=${PERFETTO_PYTHON:-}
if [ -z "$python" ]; then
    venv=target/perfetto-venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -c "import perfetto" 2>/dev/null || "$venv/bin/pip" install --quiet "perfetto>=0.59"
    python=$venv/bin/python
fi

# PERF: nearly all of the time is g++'s, which takes half as long without optimisation. In a folder of its own, so that
# no other build waits for it.
CARGO_TARGET_DIR=target/golden CARGO_PROFILE_DEV_DEBUG=0 \
    cargo run --quiet -p memledger-bench-perfetto --features sdk --bin golden -- "$folder"
"$python" scripts/perfetto_golden.py "$folder"
