"""A page in headless Chromium, used as a person uses it: clicks, chosen files, downloads; and the figures to expect.

Needs Debian's chromium, chromium-driver and python3-selenium. Only files and servers of this machine are loaded:
a page that needs the network fails.

    with Browser(folder) as browser:
        browser.open("/usr/libexec/valgrind/dh_view.html")
        browser.choose("input[type=file]", "run.dhat.json")
        browser.wait_for_text("At t-gmax")
        browser.no_errors()
"""

import json
import pathlib
import sys

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

TIMEOUT_S = 60


class Browser:
    def __init__(self, downloads, width=1600, height=1000, webgl=True):
        """`downloads` is the folder in which the browser saves files. Without `webgl`, drawing takes less time."""
        self.downloads = pathlib.Path(downloads).resolve()
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in (
            "--headless=new",
            "--no-sandbox",  # root, as in a container of CI, may not use the sandbox
            "--disable-dev-shm-usage",
            # WebGL without a graphics card.
            *(("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist") if webgl else ("--disable-gpu",)),
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--window-size={width},{height}",
        ):
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"download.default_directory": str(self.downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_page_load_timeout(TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def open(self, path):
        """Opens a local page."""
        self.driver.get(pathlib.Path(path).resolve().as_uri())

    def choose(self, css, path):
        """Chooses a file in an <input type=file>, which may be hidden."""
        self.driver.find_element(By.CSS_SELECTOR, css).send_keys(str(pathlib.Path(path).resolve()))

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "body").text

    def wait_for_text(self, text):
        self._wait(lambda: text in self.text(), f"the page does not show {text!r}")

    def click_text(self, text):
        """Clicks on the innermost element with this text, at its place on the screen."""
        path = f"//*[contains(normalize-space(text()), {text!r})]"
        self._wait(lambda: self.driver.find_elements(By.XPATH, path), f"nothing to click has {text!r}")
        self.driver.find_element(By.XPATH, path).click()

    def select(self, css, text):
        """Chooses the entry with this text of a <select>."""
        Select(self.driver.find_element(By.CSS_SELECTOR, css)).select_by_visible_text(text)

    def downloaded(self, pattern):
        """The file that matches `pattern`, when it is there as a whole."""
        found = lambda: [path for path in self.downloads.glob(pattern) if path.suffix != ".crdownload"]
        self._wait(found, f"nothing like {pattern} was downloaded")
        return found()[0]

    def screenshot(self, path):
        self.driver.save_screenshot(str(path))

    def console(self):
        """All lines that the page has written to the console since the last call."""
        return self.driver.get_log("browser")

    def no_errors(self):
        """Fails if the page has written an error to the console."""
        errors = [line["message"] for line in self.console() if line["level"] == "SEVERE"]
        if errors:
            fail(f"the console of {self.driver.title!r} has errors: {errors}")

    def _wait(self, condition, message):
        try:
            WebDriverWait(self.driver, TIMEOUT_S, poll_frequency=0.05).until(lambda _: condition())
        except TimeoutException:
            fail(f"after {TIMEOUT_S} s, {message}:\n{self.text()[:2000]}")


def fail(sentence):
    sys.exit(sentence)


def all_reports(folder):
    """The name and the report of each trace that export_all has exported to a folder."""
    for path in sorted(folder.glob("*.report.json")):
        yield path.name.removesuffix(".report.json"), json.loads(path.read_text())


def expected_figures(report):
    """By column: the total that an export must have, and by how much it may differ: 0, but for a sample of stacks, whose
    estimates are rounded for each stack, and compared with the estimates of the report."""
    totals = report["totals"]
    figures = {
        "live_bytes_at_peak": totals["peak_bytes"],
        "live_blocks_at_peak": totals["blocks_at_peak"],
        **{key: totals[key] for key in ("live_bytes", "live_blocks", "allocated_bytes", "allocations", "reallocations")},
    }
    margin = 0
    if report.get("stack_sampling_bytes"):
        rows = [row["estimates"] for row in report["by_stack"] if "estimates" in row]
        figures = {key: sum(row[key]["value"] for row in rows) for key in figures}
        margin = len(rows)
    figures["allocated_blocks"] = figures["allocations"] + figures["reallocations"]
    return {key: (figure, margin) for key, figure in figures.items()}
