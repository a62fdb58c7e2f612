#!/usr/bin/env bash
# Runs the commands of README.md and docs/*.md, and compares what they print with what the pages have (check_docs.py says which,
# and how). With --rewrite, the pages get what they print.
#
#     scripts/check_docs.sh [--rewrite] [PAGE ...]
#
# A page's commands run in a folder with the programs of tests/start (`./server`, `./batch`, `./books`, `./parser`,
# `main/indexer`, `branch/indexer`, `script.py`), `./budget_tests`, `./parse_sources` with its input in `sources`, and traces of
# `parse_sources sources`: `run.memledger`, `new.memledger` (the same), and `old.memledger` (of a part of the sources).
# `memledger`, `parse_sources` and `containers` are in PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/command.sh
if [ -z "${library:-}" ]; then
    cargo build --quiet --release --manifest-path preload/Cargo.toml --target-dir target/preload
    library=$PWD/target/preload/release/libmemledger_preload.so
fi
rewrite=
if [ "${1:-}" = --rewrite ]; then
    rewrite=$1
    shift
fi
[ $# -gt 0 ] || set -- README.md docs/*.md
mapfile -t pages < <(realpath "$@")
script=$PWD/scripts/check_docs.py
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{bin,lib,page/{main,branch}}
# As they are installed.
cp "$memledger" "$examples"/{parse_sources,containers} "$scratch/bin"
cp "$library" "$scratch/lib"
PATH=$scratch/bin:$PATH
cp tests/start/* "$scratch/page"
cp -r crates/export/src "$scratch/page/sources"
cd "$scratch/page"
# What is kept is that of this check.
export XDG_CACHE_HOME=$scratch/cache MEMLEDGER_CACHE=64MiB
# Pages have a path that is the same on each machine.
flags=(-g -O1 -fdebug-prefix-map="$PWD=/home/me")
for program in server batch books; do g++ "${flags[@]}" $program.cpp -o $program; done
gcc "${flags[@]}" parser.c -o parser
g++ "${flags[@]}" indexer.cpp -o main/indexer
g++ "${flags[@]}" -DROOM=60000 indexer.cpp -o branch/indexer
cp "$examples/budget_tests" .
ln -s "$scratch/bin/parse_sources" program
ln -s program parse_sources
memledger run --stacks --report off --trace old.memledger -- parse_sources sources/text >/dev/null
memledger run --stacks --report off --trace run.memledger -- parse_sources sources >/dev/null
cp run.memledger new.memledger
python3 "$script" "$scratch/page" $rewrite "${pages[@]}"
