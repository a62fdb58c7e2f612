"""Makes the pictures of docs/viewers.md and of README.md from the pages of two reports, and compresses them.

    cargo build --release --bin memledger -p memledger-examples --example parse_sources --example leaking_server
    export MEMLEDGER_REPORT=off MEMLEDGER_STACKS=on
    MEMLEDGER_TRACE=/tmp/parse.memledger target/release/examples/parse_sources crates/export/src
    MEMLEDGER_TRACE=/tmp/leak.memledger MEMLEDGER_REPORT_ON_SIGNALS=1 timeout 20 target/release/examples/leaking_server
    for name in parse leak; do target/release/memledger report /tmp/$name.memledger --findings -o /tmp/$name.html; done
    python3 page/tests/screenshots.py /tmp/parse.html /tmp/leak.html docs/images

Needs Debian's chromium, chromium-driver, python3-selenium and pngquant.
"""

import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/viewers/helpers"))
from browser import Browser, fail  # noqa: E402

WIDTH, HEIGHT = 1280, 960
MOST_BYTES = 150_000
# By picture: which report, the colours, what is looked at, and whether from the graph on.
PICTURES = {
    "page-light": (0, "light", "#by=stack", False),
    "page-flame": (0, "light", "#graph=flame&by=stack&metric=allocated&search=buffer", True),
    "page-treemap": (0, "dark", "#graph=treemap&by=stack&metric=peak", True),
    "page-leak": (1, "light", "#by=scope&metric=live", False),
}


def main():
    *reports, folder = [pathlib.Path(path).resolve() for path in sys.argv[1:]]
    folder.mkdir(parents=True, exist_ok=True)
    with Browser(folder, WIDTH, HEIGHT, webgl=False) as browser:
        driver = browser.driver
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for name, (number, colours, fragment, is_graph) in PICTURES.items():
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": colours}]})
            driver.get("about:blank")
            driver.get(reports[number].as_uri() + fragment)
            drawn = "return document.body.dataset.ready === 'true' && Boolean(document.querySelector('canvas[data-view]')) && Boolean(document.querySelector('.row'))"
            browser._wait(lambda: driver.execute_script(drawn), f"{name} is not drawn")
            if is_graph:
                driver.execute_script("document.querySelector('#graph').scrollIntoView()")
            time.sleep(0.5)
            path = folder / f"{name}.png"
            browser.screenshot(path)
            subprocess.run(["pngquant", "--force", "--speed", "1", "--output", path, "64", path], check=True)
            size_of = path.stat().st_size
            print(path, size_of)
            if size_of > MOST_BYTES:
                fail(f"{path} has {size_of} bytes, more than {MOST_BYTES}")


if __name__ == "__main__":
    main()
