#!/usr/bin/env bash
# Exports real traces to pprof's format, and compares what Go's `pprof` reads there with `memledger report`, to the
# byte: the totals of each type of samples; of each scope, group, name and thread (-tags, -tagfocus); of each
# function.
#
#     scripts/viewers/pprof.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

. scripts/viewers/record.sh

for trace in "$traces"/*.memledger; do
    name=$(basename "$trace" .memledger)
    "$memledger" export "$trace" --to pprof -o "$out/$name.pb.gz" || [ "$name" = cut ]
    "$memledger" report "$trace" --format json --allow-incomplete >"$out/$name.json"
done
python3 - "$out" <<'PYTHON'
import glob, json, os, re, subprocess, sys

UNITS = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_objects", "peak_space"]

def pprof(path, *options):
    # Exact numbers: bytes without units. No network, and no symbols but those of the file.
    command = ["go", "tool", "pprof", "-symbolize=none", "-unit=B", "-nodecount=1000000", "-nodefraction=0", *options, path]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout

def number(text):
    return int(re.fullmatch(r"(-?\d+)B?", text)[1])

def figures(row):
    of_total = "peak_bytes_at_ns" in row
    return dict(zip(UNITS, [
        row["allocations"] + row["reallocations"], row["allocated_bytes"], row["live_blocks"], row["live_bytes"],
        row["blocks_at_peak" if of_total else "live_blocks_at_peak"],
        row["peak_bytes" if of_total else "live_bytes_at_peak"],
    ]))

def top(path, unit, *options):
    """The total, and for each function what it allocated itself and with callees."""
    text = pprof(path, "-top", f"-sample_index={unit}", *options)
    total = re.search(r"of (\S+) total", text)
    rows = {}
    for line in text[text.index("flat%"):].splitlines()[1:]:
        flat, _, _, cum, _, function = line.split(None, 5)
        rows[function.removesuffix(" (inline)").removesuffix(" (partial-inline)")] = (number(flat), number(cum))
    return number(total[1]) if total else 0, rows

def tags(path, unit):
    """The sums by key and value."""
    sums, key = {}, None
    for line in pprof(path, "-tags", f"-sample_index={unit}").splitlines():
        if match := re.match(r"\s*(\w+): Total (\S+)", line):
            key = match[1]
        elif (match := re.match(r"\s*(-?\d+)(?:\.0)?B?\s*\([^)]*\): (.*)", line)) and key:
            # A label whose samples have nothing of this type is listed with 0.
            if int(match[1]):
                sums[key, match[2]] = int(match[1])
    return sums

def expected_tags(report, unit):
    sums = {}
    def add(key, value, row):
        if figures(row)[unit]:
            sums[key, value] = sums.get((key, value), 0) + figures(row)[unit]
    for row in report["by_scope"]:
        add("scope", " > ".join(row["path"]), row)
    for row in report["by_group"]:
        add("group", " > ".join(row["group"]), row)
    for row in report["by_name"]:
        add("name", row["name"], row)
    for row in report["by_thread"]:
        add("thread", row["name"] or f"thread {row['id']}", row)
    return sums

def same(what, found, expected):
    if found != expected:
        if isinstance(found, dict):
            found, expected = ({k: v for k, v in a.items() if b.get(k) != v} for a, b in ((found, expected), (expected, found)))
        sys.exit(f"{what}:\n  pprof has   {found}\n  the report  {expected}")

checked = 0
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.pb.gz"))):
    name = os.path.basename(path).removesuffix(".pb.gz")
    report = json.load(open(path.removesuffix("pb.gz") + "json"))
    comments = pprof(path, "-comments")
    if name == "cut":
        same(f"{name}: says that it is not whole", "not whole: " in comments, True)
    if name == "sampled":
        # Estimates: of the allocated bytes, within 10 % of the exact ones, which the comment has.
        same(f"{name}: says that it is sampled", "sampled: the figures are estimates" in comments, True)
        total, exact = top(path, "alloc_space")[0], report["totals"]["allocated_bytes"]
        same(f"{name}: {total} is near {exact}", abs(total - exact) < exact / 10, True)
        continue
    for unit in UNITS:
        total, rows = top(path, unit)
        same(f"{name}: total of {unit}", total, figures(report["totals"])[unit])
        same(f"{name}: -tags of {unit}", tags(path, unit), expected_tags(report, unit))
        checked += 2
        if report.get("by_function"):
            expected = {row["function"]: (figures(row)[unit], figures(row["inclusive"])[unit]) for row in report["by_function"]}
            # pprof shows functions without figures of this type in some versions; they are 0 in both.
            found = {function: row for function, row in rows.items() if any(row)}
            same(f"{name}: functions by {unit}", found, {k: v for k, v in expected.items() if any(v)})
            checked += len(expected)
    # The rows of a scope, whose name can have characters with a meaning in regular expressions.
    for row in report["by_scope"]:
        scope = "^" + re.escape(" > ".join(row["path"])).replace(r"\ ", " ") + "$"
        if row["allocated_bytes"] and "," not in scope and ":" not in scope:
            found = sum(flat for flat, _ in top(path, "alloc_space", f"-tagfocus=scope={scope}")[1].values())
            same(f"{name}: -tagfocus=scope={scope}", found, row["allocated_bytes"])
            checked += 1
print(f"go tool pprof and memledger report agree in {checked} figures and tables")
PYTHON
