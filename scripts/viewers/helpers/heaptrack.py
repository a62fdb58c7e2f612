"""Called by heaptrack.sh: MEMLEDGER FOLDER_WITH_TRACES FOLDER_FOR_OUTPUT."""
import json, os, re, subprocess, sys

memledger, traces, out = sys.argv[1:]

def run(*arguments):
    """Standard output. A trace without its end is exported, and its report printed, with status 1."""
    done = subprocess.run([memledger, *arguments], capture_output=True)
    if done.returncode > 1 or done.returncode == 1 and b"no end" not in done.stderr and b"damaged" not in done.stderr:
        sys.exit("%s: %s" % (arguments, done.stderr.decode()))
    return done.stdout

def heaptrack(*arguments):
    done = subprocess.run(["heaptrack_print", *arguments], capture_output=True, text=True, errors="replace")
    problems = [line for line in done.stderr.splitlines() if re.search("fail|unexpected|bounds|corrupt|version", line)]
    if done.returncode or problems:
        sys.exit("heaptrack_print %s: %d %s" % (arguments, done.returncode, problems[:5]))
    return done.stdout

def flame(file, cost):
    """The sum of a cost over all stacks. NOTE: heaptrack_print rounds the bytes in its text, but not here."""
    stacks = os.path.join(out, "stacks.txt")
    heaptrack("-f", file, "-p0", "-a0", "-T0", "-F", stacks, "--flamegraph-cost-type", cost)
    with open(stacks, errors="replace") as lines:
        return sum(int(line.rpartition(" ")[2]) for line in lines)

for trace in sorted(os.listdir(traces)):
    path = os.path.join(traces, trace)
    totals = json.loads(run("report", path, "--format", "json"))["totals"]
    for ending in ["", ".gz", ".zst"]:
        file = os.path.join(out, trace + ".heaptrack" + ending)
        run("export", path, "--to", "heaptrack", "-o", file)
        text = heaptrack("-f", file, "-p0", "-a0", "-T0")
        calls = int(re.search(r"calls to allocation functions: (\d+)", text)[1])
        if ending:
            # The text is the same; one reading shows that it can be unpacked.
            theirs = (calls, *theirs[1:])
        else:
            theirs = (calls, flame(file, "allocations"), flame(file, "peak"), flame(file, "leaked"))
        expected = totals["allocations"] + totals["reallocations"]
        ours = (expected, expected, totals["peak_bytes"], totals["live_bytes"])
        if ours != theirs:
            sys.exit("%s: calls, calls by stack, peak, leaked: %s of memledger, %s of heaptrack" % (file, ours, theirs))
    temporary = int(re.search(r"temporary memory allocations: (\d+)", text)[1])
    print("%-24s %9d calls, peak %d, leaked %d, temporary %d (short-lived: %d)" % (
        trace, calls, theirs[2], theirs[3], temporary, totals["short_lived"]))
print("heaptrack_print's totals are those of memledger report")
