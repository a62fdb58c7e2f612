#!/usr/bin/env bash
# Runs each command of `docs/questions.md`, and those of `docs/query.md` in its text, on a trace of `parse_sources`, and fails if one of them does. Commands that
# need a running program (ADDR) are not among them.
#
#     scripts/check_questions.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/viewers/record.sh
. scripts/command.sh
cd "$out"
ln -s "$examples/parse_sources" program
mkdir bin
ln -s "$memledger" bin/memledger
# Enough of them that the peak is late in the run, as the commands expect it.
cp -r "$OLDPWD/crates/analysis/src/dump" sources
PATH=$out/bin:$PATH
memledger run --report off --trace run.memledger --stacks -- ./program sources >/dev/null
cp run.memledger old.memledger
cp run.memledger new.memledger
count=0
while read -r command; do
    case $command in *ADDR* | *TEXT* | "memledger query") continue ;; esac
    bash -c "${command/.\/program/.\/program sources}" >output 2>&1 || {
        cat output
        echo "failed: $command" >&2
        exit 1
    }
    count=$((count + 1))
done < <(
    cat "$OLDPWD/docs/questions.md" <(grep '`memledger query run\.memledger ' "$OLDPWD/docs/query.md") |
        grep -o '`memledger [^`]*`' | tr -d '`' | sort -u
)
echo "$count commands of docs/questions.md and docs/query.md work"
[ "$count" -ge 28 ]
