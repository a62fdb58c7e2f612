#!/usr/bin/env python3
"""Whether memory that is in no block is said, and what only looks so is not (tests/preload/resident.c). Called by
scripts/check_preload.sh.

    scripts/check_resident.py MEMLEDGER LIBRARY PROGRAM
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

MIB = 1 << 20
memledger, library, program = (os.path.abspath(path) for path in sys.argv[1:])


def reports(*arguments, options=()):
    """The reports of all processes, by the number that they have in the order of their names."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/file", "wb") as file:
            file.write(bytes(64 * MIB))
        command = [memledger, "run", "--preload", library, "--follow-children", "-o", "r-%p.json", *options, "--", program]
        arguments = [argument.replace("FILE", f"{folder}/file") for argument in arguments]
        result = subprocess.run(command + arguments, cwd=folder, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result
        found = [json.load(open(path)) for path in sorted(glob.glob(f"{folder}/r*.json"))]
        assert found, result
        return found


def untracked(report):
    weighed = report["untracked"]["weighed"]
    return None if weighed is None else weighed["untracked_bytes"]


def check_parts(report):
    end = report["rss"]["end"]
    others = {"at_ns", "rss_bytes", "live_not_resident_bytes", "huge_page_bytes", "swapped_bytes", "tracker_block_bytes"}
    parts = sum(value for key, value in end.items() if key not in others and isinstance(value, int))
    assert parts == end["rss_bytes"], end
    return end


for way in ["exits", "executes", "forks", "shares"]:
    found = reports(way)
    unseen = [report for report in found if (untracked(report) or 0) > 30 * MIB]
    if way == "forks" and not unseen:
        # The child waits 5 ms for its weighing: beside other programs that can be too short, and then it says so.
        unseen = [report for report in found if untracked(report) is None]
    assert len(unseen) == 1 and not unseen[0]["trace"]["complete"], (way, [untracked(report) for report in found])
    print(f"unseen memory of a program that {way}: ok")

for count, kib in [(300, 32), (300, 64), (3000, 64), (5000, 32)]:
    [report] = reports("threads", str(count), str(kib))
    assert report["trace"]["complete"] and untracked(report) < MIB, report["untracked"]
    end = check_parts(report)
    assert end["ended_stack_bytes"] > 300 * 4096, end
print("stacks of threads that have ended: ok")

for arguments, part, most in [(["changes", "FILE"], "changed_file_bytes", 20), (["reserves"], "unreserved_bytes", 40)]:
    [report] = reports(*arguments, options=["--stacks"])
    # A page or more is said to be of the mapping beside it, where the kernel has made one of both.
    least = most * MIB - 65536
    assert report["trace"]["complete"] and check_parts(report)[part] >= least, report["rss"]
    assert report["totals"]["peak_bytes"] < MIB, report["totals"]
    [row] = report["mapped_by"]
    assert row["function"] == "main" and least <= row["bytes"] <= most * MIB, row
    assert report["by_stack"][row["stack"]]["frames"], row
print("changed pages of files, and mappings without reservation: ok")

[report] = reports("fills", options=["--stacks"])
rows = {row["variable"]: row for row in report["static_variables"]}
assert rows["table"]["size"] == 80 * MIB, rows
assert abs(rows["table"]["bytes"] - 8 * MIB) <= 8192 and abs(rows["cells"]["bytes"] - MIB // 4) <= 8192, rows
assert "unused" not in rows or rows["unused"]["bytes"] <= 8192, rows
assert sum(row["bytes"] for row in report["static_variables"]) <= check_parts(report)["data_bytes"], report["rss"]
print("static variables: ok")
