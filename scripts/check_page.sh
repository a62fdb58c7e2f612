#!/usr/bin/env bash
# Builds the page of a report from page/ and checks that crates/export/src/html/page.html is what comes out, then uses it in
# headless Chromium: page/tests/check.py says what is looked at. With --short, 20,000 stacks instead of 100,000; with reports, their figures too.
# $memledger is the command whose `view` is used; without it, one is built.
#
#     scripts/check_page.sh [--short] [REPORT.html REPORT.json]...
set -euo pipefail
cd "$(dirname "$0")/.."

stacks=100000
if [ "${1:-}" = --short ]; then stacks=20000; shift; fi

[ -n "${memledger:-}" ] || . scripts/command.sh

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd page && npm ci --no-audit --no-fund --loglevel=error && npm run --silent check && node build.mjs "$out/page.html")
cmp "$out/page.html" crates/export/src/html/page.html || { echo "crates/export/src/html/page.html is not what page/ builds: run npm run build there" >&2; exit 1; }
git diff --exit-code -- page/LICENSES

/usr/bin/python3 -u page/tests/check.py "$out" "$stacks" "$memledger" "$@"
