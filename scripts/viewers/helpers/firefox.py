"""Called by firefox.sh: MEMLEDGER FOLDER_WITH_TRACES FOLDER_FOR_OUTPUT."""
import collections, json, os, subprocess, sys

memledger, traces, out = sys.argv[1:]

def run(*arguments):
    """Standard output. A trace without its end is exported, and its report printed, with status 1."""
    done = subprocess.run([memledger, *arguments], capture_output=True)
    if done.returncode > 1 or done.returncode == 1 and b"no end" not in done.stderr and b"damaged" not in done.stderr:
        sys.exit("%s: %s" % (arguments, done.stderr.decode()))
    return done.stdout

def columns(table, *names):
    """The columns of a table; all have its length."""
    for name in names:
        assert len(table[name]) == table["length"], (name, len(table[name]), table["length"])
    return [table[name] for name in names]

def check_thread(thread, profile):
    """What the type definitions of the profiler ask for. Returns the paths of function names, by stack."""
    strings = thread["stringArray"]
    names, resources, files, *_ = columns(
        thread["funcTable"], "name", "resource", "fileName", "isJS", "relevantForJS", "lineNumber", "columnNumber")
    assert all(name in range(len(strings)) for name in names)
    assert all(file is None or file in range(len(strings)) for file in files)
    libs, lib_names, *_ = columns(thread["resourceTable"], "lib", "name", "host", "type")
    assert all(lib in range(len(profile["libs"])) for lib in libs)
    assert all(name in range(len(strings)) for name in lib_names)
    assert all(resource == -1 or resource in range(len(libs)) for resource in resources)
    funcs, categories, depths, *_ = columns(
        thread["frameTable"], "func", "category", "inlineDepth", "address", "subcategory", "nativeSymbol",
        "innerWindowID", "line", "column")
    assert all(func in range(len(names)) for func in funcs)
    assert all(category in range(len(profile["meta"]["categories"])) for category in categories)
    prefixes, frames = columns(thread["stackTable"], "prefix", "frame")
    paths = []
    for stack, (prefix, frame) in enumerate(zip(prefixes, frames)):
        assert prefix is None or prefix < stack, "a caller comes before what it calls"
        path = () if prefix is None else paths[prefix]
        assert depths[frame] == 0 or depths[frame] == depths[frames[prefix]] + 1, "inlined into its caller"
        paths.append(path + (strings[names[funcs[frame]]],))
    columns(thread["markers"], "category", "data", "endTime", "name", "phase", "startTime")
    return paths

for trace in sorted(os.listdir(traces)):
    path = os.path.join(traces, trace)
    report = json.loads(run("report", path, "--format", "json"))
    file = os.path.join(out, trace + ".firefox.json")
    run("export", path, "--to", "firefox", "-o", file)
    with open(file) as text:
        profile = json.load(text)
    assert profile["meta"]["preprocessedProfileVersion"] == 55
    by_thread, samples, live_by_scope = {}, 0, collections.Counter()
    for thread in profile["threads"]:
        paths = check_thread(thread, profile)
        table = thread["nativeAllocations"]
        times, weights, stacks, addresses, _ = columns(table, "time", "weight", "stack", "memoryAddress", "threadId")
        assert times == sorted(times)
        live = {}
        for weight, stack, address in zip(weights, stacks, addresses):
            # As the profiler finds what is retained.
            if weight > 0 or weight == 0 and address not in live:
                assert address not in live
                live[address] = (weight, stack)
            else:
                assert live.pop(address) == (-weight, stack)
        for weight, stack in live.values():
            live_by_scope[paths[stack][0]] += weight
        samples += len(weights)
        by_thread[thread["name"], thread["tid"]] = (sum(w for w in weights if w > 0), sum(w for w, _ in live.values()))
    ours = {(row["name"] or "thread %d" % row["id"], row["system_id"] or row["id"]): (row["allocated_bytes"], row["live_bytes"])
            for row in report["by_thread"]}
    if ours != by_thread:
        sys.exit("%s: allocated and live by thread: %s in the report, %s in the profile" % (trace, ours, by_thread))
    if sum(live_by_scope.values()) != report["totals"]["live_bytes"]:
        sys.exit("%s: %s live" % (trace, live_by_scope))
    for counter in profile["counters"]:
        counts, *_ = columns(counter["samples"], "count", "timeDeltas", "number")
        assert sum(counts) == report["totals"]["live_bytes"], sum(counts)
    marks = [data["text"] for thread in profile["threads"] for data in thread["markers"]["data"]]
    assert marks == [mark["name"] for mark in report.get("bookmarks", [])] or not profile["threads"], marks
    print("%-24s %8d samples, %9d bytes of JSON, %d bytes allocated" % (
        trace, samples, os.path.getsize(file), sum(allocated for allocated, _ in by_thread.values())))
print("sums over the samples are those of memledger report")
