#!/usr/bin/env bash
# Runs the commands of docs/start.md on the programs of tests/start, and compares what they print with what the page has. With
# --rewrite, the page gets what they print.
#
#     scripts/check_start.sh [--rewrite]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/command.sh
library=${library:-$PWD/target/preload/release/libmemledger_preload.so}
if [ ! -e "$library" ]; then
    cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
fi
project=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder"/{bin,lib,main,branch}
# As they are installed.
cp "$memledger" "$folder/bin"
cp "$library" "$folder/lib"
cp tests/start/* "$folder"
cd "$folder"
# The page has a path that is the same on each machine.
flags=(-g -O1 -fdebug-prefix-map="$folder=/home/me")
for program in server batch books; do g++ "${flags[@]}" $program.cpp -o $program; done
gcc "${flags[@]}" parser.c -o parser
g++ "${flags[@]}" indexer.cpp -o main/indexer
g++ "${flags[@]}" -DROOM=60000 indexer.cpp -o branch/indexer
cp "$examples/budget_tests" .
PATH=$folder/bin:$PATH python3 "$project/scripts/check_start.py" "$project/docs/start.md" "$@"
