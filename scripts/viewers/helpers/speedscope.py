"""Opens each NAME.speedscope.json of a folder in speedscope; called by speedscope.sh.

    speedscope.py PACKAGE FOLDER SCREENSHOTS
"""

import json
import pathlib
import sys
import tempfile

import jsonschema
from browser import Browser, all_reports, expected_figures, fail

package, folder, screenshots = map(pathlib.Path, sys.argv[1:])
schema = json.loads((package / "dist/release/file-format-schema.json").read_text())
PROFILES = {
    "bytes live at the peak": "live_bytes_at_peak",
    "bytes live at the end": "live_bytes",
    "bytes allocated": "allocated_bytes",
    "allocations": "allocations",
}

for name, report in all_reports(folder):
    path = folder / f"{name}.speedscope.json"
    document = json.loads(path.read_text())
    jsonschema.validate(document, schema)
    expected = expected_figures(report)
    with tempfile.TemporaryDirectory() as downloads, Browser(downloads) as browser:
        browser.open(package / "dist/release/index.html")
        browser.choose("input[type=file]", path)
        # The name and number of the profile, in the bar at the top.
        browser.wait_for_text("(1/4)")
        for view in ("Time Order", "Sandwich", "Left Heavy"):
            browser.click_text(view)
            browser.screenshot(screenshots / f"speedscope-{name}-{view.replace(' ', '-')}.png")
        browser.click_text("Export")
        again = json.loads(browser.downloaded("*.speedscope.json").read_text())
        browser.no_errors()
    if len(again["profiles"]) != len(PROFILES):
        fail(f"{name}: speedscope has {len(again['profiles'])} profiles, not {len(PROFILES)}")
    for (title, key), profile in zip(PROFILES.items(), again["profiles"]):
        if not profile["name"].startswith(title):
            fail(f"{name}: a profile has the name {profile['name']!r}, not {title!r}")
        exact, margin = expected[key]
        # Speedscope sums the weights of the samples itself.
        if abs(profile["endValue"] - exact) > margin:
            fail(f"{name}: speedscope has {profile['endValue']} {title}, the report {exact} (within {margin:.0f})")
    print(f"speedscope  {name:20} {path.stat().st_size:9} bytes, {expected['allocated_bytes'][0]} bytes allocated")
