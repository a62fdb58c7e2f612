"""Opens each NAME.dhat.json of a folder in DHAT's viewer; called by dhat.sh.

    dhat.py DH_VIEW_HTML FOLDER SCREENSHOTS
"""

import json
import pathlib
import re
import sys

from browser import Browser, all_reports, expected_figures, fail

page, folder, screenshots = map(pathlib.Path, sys.argv[1:])
# The lines of the root on the page, and the figures in them.
LINES = {
    "Total": ("allocated_bytes", "allocated_blocks"),
    "At t-gmax": ("live_bytes_at_peak", "live_blocks_at_peak"),
    "At t-end": ("live_bytes", "live_blocks"),
}
METRICS = ("Total (bytes)", "Total (blocks), short-lived", "At t-gmax (bytes)", "At t-end (bytes)")

for name, report in all_reports(folder):
    path = folder / f"{name}.dhat.json"
    expected = expected_figures(report)
    points = json.loads(path.read_text())["pps"]
    for point in points:
        if not (point["gb"] <= point["mb"] and point["eb"] <= point["mb"] and point["tl"] >= 0):
            fail(f"{name}: a program point contradicts itself: {point}")
    with Browser(folder) as browser:
        browser.open(page)
        browser.choose("input[type=file]", path)
        browser.wait_for_text("significance threshold")
        text = browser.text()
        for metric in METRICS:
            browser.select("select", metric)
            browser.wait_for_text("significance threshold")
        browser.screenshot(screenshots / f"dhat-{name}.png")
        browser.no_errors()
    for line, keys in LINES.items():
        found = re.search(re.escape(line) + r":\s+([\d,]+) bytes \(.*?\) in ([\d,]+) blocks", text)
        if not found:
            fail(f"{name}: the page has no line {line!r}:\n{text[:1500]}")
        for shown, key in zip(found.groups(), keys):
            shown, (exact, margin) = int(shown.replace(",", "")), expected[key]
            if abs(shown - exact) > margin:
                fail(f"{name}: dh_view.html has {shown} as {key}, the report {exact} (within {margin:.0f})")
    print(f"dhat        {name:20} {path.stat().st_size:9} bytes, {len(points)} program points, as in the report")
