#!/bin/sh
# Traces of many shapes, each read by an independent checker whose totals must be ours: no event,
# one thread, eight threads, 100 000 short threads, more events than a serial's 24 bits can number.
#
#     scripts/check_traces.sh [CHECKER]     (default: ../shared/tools/utrace_check.py)
set -eu
cd "$(dirname "$0")/.."

checker=$(realpath "${1:-../shared/tools/utrace_check.py}")
program=$(cargo test --release -p memledger-process-tests --test process --no-run --message-format json 2>/dev/null |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == "process":
        print(message["executable"])')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# play NAME SCENARIO [VARIABLE=VALUE ...]: leaves NAME/trace.utrace and NAME/report.json
play() {
    name=$1 scenario=$2
    shift 2
    mkdir "$folder/$name"
    (cd "$folder/$name" && env "$@" TEST_SCENARIO="$scenario" "$program" >/dev/null)
    python3 "$checker" --json "$folder/$name/trace.utrace" >"$folder/$name/check.json" || true
    python3 - "$name" "$folder/$name" <<'PYTHON'
import json, sys

name, folder = sys.argv[1:]
check = json.load(open(f"{folder}/check.json"))
report = json.load(open(f"{folder}/report.json"))
totals, memory = report["totals"], check["memory"]
# The checker counts both halves of a reallocation.
pairs = {
    "allocations": (totals["allocations"] + totals["reallocations"], memory["allocs"]),
    "frees": (totals["frees"] + totals["reallocations"], memory["frees"]),
    "reallocations": (totals["reallocations"], memory["reallocs"]),
    "allocated_bytes": (totals["allocated_bytes"], memory["allocated_bytes_total"]),
    "live_blocks": (totals["live_blocks"], memory["live_blocks"]),
    "live_bytes": (totals["live_bytes"], memory["live_bytes"]),
    "peak_bytes": (totals["peak_bytes"], memory["peak_bytes"]),
    "peak_blocks": (totals["peak_blocks"], memory["peak_blocks"]),
}
wrong = [f"{key}: {ours} in the report, {theirs} in the trace"
         for key, (ours, theirs) in pairs.items() if ours != theirs]
wrong += check["violations"]
if not report["trace"]["complete"]:
    wrong.append("the report is not complete")
print(f"{name}: {totals['allocations']} allocations, {report['trace']['events']} events, "
      f"{len(check['threads'])} threads, {check['file_bytes']} bytes: "
      + ("conforms, totals agree" if not wrong else "FAILED"))
for sentence in wrong[:20]:
    print("   ", sentence)
sys.exit(bool(wrong))
PYTHON
}

files="MEMLEDGER_TRACE=trace.utrace MEMLEDGER_REPORT=report.json"
# shellcheck disable=SC2086  # two variables
{
    play no_event "without variables nothing happens" $files MEMLEDGER_CHANNELS=scope
    play one_thread "without variables nothing happens" $files
    play eight_threads "eight threads agree with the report to the byte" TEST_OPERATIONS=1000000
    play short_threads "thousands of short threads have ids of their own and bounded memory" \
        TEST_THREADS=100000
    play wrapped_serials "serials that wrap agree with the report to the byte" TEST_OPERATIONS=0
}
