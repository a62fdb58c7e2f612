#!/usr/bin/env bash
# Exports real traces to callgrind's format, and compares what `callgrind_annotate` prints of them with `memledger
# report`, to the byte: the totals, and each function, alone and with all that it called. Needs Python and Debian's
# valgrind, and installs the latter if it is missing.
#
#     scripts/viewers/callgrind.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

command -v callgrind_annotate >/dev/null || { apt-get update && apt-get install -y valgrind; }
. scripts/viewers/record.sh

for trace in "$traces"/*.memledger; do
    name=$(basename "$trace" .memledger)
    "$memledger" export "$trace" --to callgrind -o "$out/$name.callgrind" || [ "$name" = cut ]
    "$memledger" report "$trace" --format json --allow-incomplete >"$out/$name.json"
    for inclusive in yes no; do
        callgrind_annotate --threshold=100 --auto=no --show-percs=no --inclusive=$inclusive "$out/$name.callgrind" \
            >"$out/$name.$inclusive.txt" 2>"$out/errors.txt"
        if [ -s "$out/errors.txt" ]; then
            cat "$out/errors.txt" >&2
            exit 1
        fi
    done
done
python3 - "$out" <<'PYTHON'
import collections, glob, json, os, re, sys

def costs(row):
    """In the order of the events."""
    of_total = "peak_bytes_at_ns" in row
    return (
        row["peak_bytes" if of_total else "live_bytes_at_peak"],
        row["blocks_at_peak" if of_total else "live_blocks_at_peak"],
        row["live_bytes"], row["live_blocks"], row["allocated_bytes"], row["allocations"] + row["reallocations"],
    )

def annotated(path):
    """The totals, and the costs of each function: an entry for each file that its code is from."""
    totals, functions = None, collections.defaultdict(list)
    for line in open(path):
        row = re.match(r"\s*((?:(?:[\d,]+|\.)\s+){6})(.*)", line)
        if not row:
            continue
        numbers = tuple(0 if column == "." else int(column.replace(",", "")) for column in row[1].split())
        if "PROGRAM TOTALS" in line:
            totals = numbers
        else:
            function = re.sub(r" \[[^]]*\]$", "", row[2]).split(":", 1)[1]
            functions[function].append(numbers)
    return totals, functions

def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}:\n  callgrind_annotate has {found}\n  the report has         {expected}")

checked = 0
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.json"))):
    name = os.path.basename(path).removesuffix(".json")
    if name == "sampled":
        continue
    report = json.load(open(path))
    for inclusive in (False, True):
        totals, functions = annotated(path.removesuffix("json") + ("yes" if inclusive else "no") + ".txt")
        same(f"{name}: totals", totals, costs(report["totals"]))
        checked += 1
        for row in report.get("by_function", []):
            expected = costs(row["inclusive"] if inclusive else row)
            # callgrind_annotate leaves out what is 0 in the first column.
            if expected[0] == 0 or row["function"] == "(no stack)":
                continue
            found = functions[row["function"]]
            if not inclusive:
                # Calls of the function from within itself are another entry.
                found = found + functions[row["function"] + "'2"]
            total = tuple(map(sum, zip((0,) * 6, *found)))
            if inclusive and len(found) > 1:
                # Entries of two files can be on one stack, which then counts in both.
                most = tuple(map(max, zip(*found)))
                if all(a <= b <= c for a, b, c in zip(most, expected, total)):
                    continue
            same(f"{name}: {row['function']}", total, expected)
            checked += 1
print(f"callgrind_annotate and memledger report agree in {checked} rows")
PYTHON
