#!/usr/bin/env bash
# Exports real traces to each format of other tools, and opens them in the tools themselves: each script of
# scripts/viewers compares what its tool has read with `memledger report`. Prints how long each took. With names, only these.
#
#     scripts/check_viewers.sh [NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."

names=("$@")
if [ ${#names[@]} = 0 ]; then
    for script in scripts/viewers/*.sh; do
        name=$(basename "$script" .sh)
        [ "$name" = record ] || names+=("$name")
    done
fi

# One recording for all: their own is skipped if these are set.
. scripts/viewers/record.sh
export memledger traces
for name in "${names[@]}"; do
    started=$SECONDS
    "scripts/viewers/$name.sh" || { echo "scripts/viewers/$name.sh failed" >&2; exit 1; }
    echo "$name: $((SECONDS - started)) s"
done
