"""The page in headless Chromium, and what its tests share: opening it, waiting for it, and comparing its figures."""

import base64
import gzip
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/viewers/helpers")]
import browser as browser_helper  # noqa: E402
from browser import fail  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

# At a load of 20, a browser on two cores has been seen to take 60 s for one page.
browser_helper.TIMEOUT_S = 300
OBSERVE = """
window.tasks = [];
addEventListener("load", () => {
  const text = (css) => document.querySelector(css)?.textContent ?? "";
  window.atLoad = { ready: document.body.dataset.ready, tiles: text("#tiles"), crumbs: text(".crumbs .value"), rows: document.querySelectorAll(".row").length };
});
new PerformanceObserver((list) => list.getEntries().forEach((task) => window.tasks.push(task.duration))).observe({ entryTypes: ["longtask"] });
"""
KEYS = ("live_bytes", "live_blocks", "live_bytes_at_peak", "allocated_bytes", "allocations", "reallocations", "frees", "short_lived")


class Page:
    def __init__(self, browser):
        self.browser, self.driver = browser, browser.driver
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": OBSERVE})
        # In the time of the processor, which a loaded machine does not stretch.
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})

    def open(self, path, fragment=""):
        self.driver.get("about:blank")
        self.driver.get(pathlib.Path(path).resolve().as_uri() + fragment)
        self.wait("document.body.dataset.ready === 'true' && document.querySelector('canvas[data-view]') && document.querySelector('.row, .rows .empty')", path)

    def js(self, script, *arguments):
        return self.driver.execute_script(f"return {script}", *arguments)

    def wait(self, condition, what):
        self.browser._wait(lambda: self.js(f"Boolean({condition})"), f"{what}: not {condition}")

    def element(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def click(self, css):
        """Clicks, and waits until the graph and the table have been drawn anew."""
        self.element(css).click()
        self.settle()

    def settle(self):
        """Waits until the worker has answered all that it was asked."""
        self.driver.execute_async_script("const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => setTimeout(done, 60)), 60)")

    def key(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()
        self.settle()

    def text(self, css):
        return self.js("document.querySelector(arguments[0])?.textContent ?? ''", css)

    def cpu_ms(self):
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return 1000 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def no_errors(self, what):
        self.browser.no_errors()
        requests = self.js("performance.getEntriesByType('resource').filter((entry) => !/^(data|blob):/.test(entry.name)).map((entry) => entry.name)")
        check(requests, [], f"{what}: requests to elsewhere")


def check(found, expected, what):
    if found != expected:
        fail(f"{what}: {found!r}, not {expected!r}")


def number(title):
    """The exact figure that a cell has as its title."""
    return int(re.match(r"-?[\d,]+", title).group().replace(",", "")) if title else 0


def shown_path(path):
    """A scope stack as the page shows it."""
    return " > ".join("(whole program)" if at == 0 and name == "GlobalScope" else name for at, name in enumerate(path))


def document_of(path):
    data = re.search(r'id="memledger-data">([^<]*)<', pathlib.Path(path).read_text()).group(1)
    return json.loads(gzip.decompress(base64.b64decode(data)))


def figures_are_those_of(page, document, what):
    """Tiles and each table against the document."""
    totals = document["totals"]
    for metric, key in (("live", "live_bytes"), ("peak", "peak_bytes"), ("allocated", "allocated_bytes"), ("count", "allocations")):
        title = page.element(f"#tiles [data-metric={metric}]").get_attribute("title")
        check(number(title.split(": ")[1]), totals[key], f"{what}: the tile {metric}")
    for table, rows, name in (
        ("scopes", "by_scope", lambda row: shown_path(row["path"])),
        ("groups", "by_group", lambda row: " > ".join(row["group"])),
        ("names", "by_name", lambda row: f"{' > '.join(row['group'])} / {row['name']}"),
        ("threads", "by_thread", lambda row: f"{row['name']} ({row['id']})" if row["name"] else f"thread {row['id']}"),
    ):
        page.click(f"#tables [data-value={table}]")
        page.wait("document.querySelector('.row')", table)
        shown = page.js(TABLE)
        inclusive = table in ("scopes", "groups")
        expected = {name(row): row["inclusive"] if inclusive else row for row in document[rows]}
        if not shown:
            fail(f"{what}: the table {table} is empty")
        for row in shown:
            for key in KEYS:
                if key in row["figures"]:
                    check(number(row["figures"][key]), expected[row["name"]][key], f"{what}: {table}, {row['name']}, {key}")


def tags_are_those_of(page, document, what):
    """The table of the engine's memory tags."""
    tags = document["llm_tags"]
    page.click("#tables [data-value=tags]")
    page.wait(f"document.querySelectorAll('.row').length === {len(tags)}", f"{what}: the tags")
    page.click(".head [data-sort=tag_peak_bytes]")
    wanted = sorted(tags, key=lambda tag: -tag["peak_bytes"])
    columns = {"last_bytes": "last_bytes", "tag_peak_bytes": "peak_bytes", "peak_at_ns": "peak_at_ns", "min_bytes": "min_bytes", "first_bytes": "first_bytes", "samples": "samples"}
    shown = page.js(TABLE)
    check(len({tag["tracker"] for tag in tags}) > 1, any(row["name"].startswith("Default: ") for row in shown), f"{what}: names with their trackers")
    for row, tag in zip(shown, wanted):
        check(row["name"].split(" > ")[0].split(": ")[-1], tag["path"][0], f"{what}: the order of the tags")
        for column, key in columns.items():
            check(number(row["figures"][column]), tag[key], f"{what}: the tag {tag['path']}, {key}")


TABLE = """(() => {
  const keys = [...document.querySelectorAll(".head [data-sort]")].map((button) => button.dataset.sort).slice(1);
  return [...document.querySelectorAll(".row")].map((row) => ({
    name: row.firstChild.title,
    figures: Object.fromEntries([...row.children].slice(1).map((cell, at) => [keys[at], cell.title])),
  }));
})()"""


def as_figure(key, value):
    """As src/text.ts has it, for what is less than a tebibyte."""
    if key == "allocations":
        return f"{value:,}"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1023.95 or unit == "GiB":
            return f"{value} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
