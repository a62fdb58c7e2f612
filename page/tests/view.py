"""`memledger view` in headless Chromium: who may ask, every rule, brushing, single blocks and their history, a trace that
grows, one that disappears, and a server that has ended."""

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from urllib.parse import parse_qsl, urlencode, urlsplit

from shown import ROOT, as_figure, check, figures_are_those_of, number
from browser import fail
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

SAMPLES = ROOT / "tests/samples"
# By rule: the moments to ask about, between which something has happened in the sample.
MOMENTS = {"a": "98%", "b": "peak", "c": "end", "d": "end"}
READY = "document.body.dataset.ready === 'true' && document.querySelector('canvas[data-view]') && document.querySelector('.row, .rows .empty')"


class Served:
    """A trace that is viewed."""

    def __init__(self, memledger, trace):
        environment = {**os.environ, "XDG_CACHE_HOME": str(trace.parent / "cache")}
        self.child = subprocess.Popen([memledger, "view", str(trace)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        self.url = self.child.stdout.readline().strip()
        self.host, self.token = self.url.split("/?token=")

    def ask(self, path, /, token=None, host=None, **values):
        """The status and the JSON of an answer."""
        values["token"] = self.token if token is None else token
        request = urllib.request.Request(f"{self.host}{path}?{urlencode(values)}", headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def end(self):
        self.child.kill()
        self.child.wait()


@contextlib.contextmanager
def served(memledger, trace):
    server = Served(memledger, trace)
    try:
        yield server
    finally:
        server.end()


def copied(folder, name, sample, part=1.0, is_old=True):
    """A copy of a sample, or of its first part; an old one does not grow any more."""
    trace = folder / name
    trace.mkdir(exist_ok=True)
    trace /= "run.utrace"
    whole = (SAMPLES / sample).read_bytes()
    trace.write_bytes(whole[: int(len(whole) * part)])
    if is_old:
        hour_ago = time.time() - 3600
        os.utime(trace, (hour_ago, hour_ago))
    return trace


def open_view(page, server, fragment=""):
    page.driver.get("about:blank")
    page.driver.get(server.url + fragment)
    page.wait(READY, "view")


def no_errors(page, but=()):
    """No error on the console, but of answers that the page shows as a sentence."""
    errors = [line["message"] for line in page.browser.console() if line["level"] == "SEVERE"]
    check([error for error in errors if not any(one in error for one in but)], [], "errors of the console")


def who_may_ask(page, server):
    """403 with a sentence for another token, another name of this machine, and a browser without the token."""
    for what, status_and_answer in {
        "no token": server.ask("/api/page", token=""),
        "another token": server.ask("/api/page", token="0" * 32),
        "another host": server.ask("/api/page", host="example.org"),
        "another port": server.ask("/", host="127.0.0.1:1"),
    }.items():
        status, answer = status_and_answer
        check((status, bool(answer["error"])), (403, True), what)
    page.driver.get(f"{server.host}/?token={'0' * 32}")
    check("the address lacks its token" in page.text("body"), True, "the sentence in the browser")
    no_errors(page, but=["403"])


def set_moments(page, moments):
    for name, text in moments.items():
        field = page.element(f"#moment-{name}")
        field.clear()
        field.send_keys(text)


def found(page):
    return page.text("#question .found")


def ask_rule(page, rule, moments):
    """Asks, and waits for the answer to this question."""
    Select(page.element("#rule")).select_by_value(rule)
    set_moments(page, moments)
    page.element("#question .ask").click()
    page.wait(f"document.querySelector('#question .found').textContent.startsWith('{rule}:')", rule)
    page.settle()


def rules(page, server):
    """Each rule by its form: the sentence, and the graph, have the figures of the answer."""
    names = page.js("[...document.querySelectorAll('#rule option')].map((option) => option.value)")
    check(len(names), 14, "rules")
    not_empty = 0
    for rule in names:
        page.js("document.querySelector('#question .found').textContent = ''")
        Select(page.element("#rule")).select_by_value(rule)
        asked = [name for name in MOMENTS if page.element(f"#moment-{name}").is_displayed()]
        moments = {name: MOMENTS[name] for name in asked}
        ask_rule(page, rule, moments)
        status, answer = server.ask("/api/query", rule=rule, **moments)
        check(status, 200, rule)
        totals = answer["totals"]
        expected = f"{rule}: {totals['blocks']:,} blocks, {as_figure('bytes', totals['bytes'])}"
        check(found(page).startswith(expected), True, f"{found(page)!r} begins with {expected!r}")
        if totals["bytes"]:
            not_empty += 1
            page.wait(f"document.querySelector('.crumbs .value')?.textContent.startsWith('{as_figure('bytes', totals['bytes'])}')", f"{rule}: the graph")
    if not_empty < 8:
        fail(f"only {not_empty} rules find something in the sample")
    no_errors(page)


def problems(page):
    """A question without an answer is a sentence."""
    for moments, says in (({"a": "yesterday", "b": "end"}, "yesterday"), ({"a": "end", "b": "start"}, "before")):
        Select(page.element("#rule")).select_by_value("grown")
        set_moments(page, moments)
        page.element("#question .ask").click()
        page.wait(f"document.querySelector('#question .found.bad')?.textContent.includes('{says}')", f"a sentence with {says}")
    no_errors(page, but=["400"])


def brushing(page, server):
    """Dragging over the timeline asks about what was dragged over; a reload asks again."""
    page.js("document.querySelector('#timeline-title').scrollIntoView()")
    over = page.element("#timeline .u-over")
    width = over.size["width"]
    drag = ActionChains(page.driver).move_to_element_with_offset(over, -width // 4, 0).click_and_hold()
    drag.move_by_offset(width // 4, 0).move_by_offset(width // 4, 0).release().perform()
    page.wait("document.querySelector('#question .found:not(.bad)').textContent.startsWith('grown:')", "what was dragged over")
    a, b = (int(page.element(f"#moment-{name}").get_attribute("value")) for name in "ab")
    duration = server.ask("/api/page")[1]["trace"]["duration_ns"]
    # The axis begins at or before the start and ends at or after the end.
    check(0 <= a < b <= duration * 1.2 and b - a > duration // 4, True, f"A {a} and B {b} of {duration} ns")
    status, answer = server.ask("/api/query", rule="grown", a=a, b=b)
    check(status, 200, "the question that was dragged")
    check(found(page).startswith(f"grown: {answer['totals']['blocks']:,} blocks"), True, found(page))
    page.settle()
    fragment = page.js("location.hash")
    open_view(page, server, fragment)
    page.wait("document.querySelector('#question .found').textContent.startsWith('grown:')", "the same after a reload")
    no_errors(page)


def single_blocks(page, server):
    """From a part of the graph to its blocks, to the history of one."""
    ask_rule(page, "freed-between", {"a": "98%", "b": "peak"})
    page.js("document.querySelector('#graph-title').scrollIntoView()")
    canvas = page.element("#graph canvas")
    ActionChains(page.driver).send_keys_to_element(canvas, Keys.HOME, Keys.ARROW_DOWN).perform()
    page.settle()
    page.wait("[...document.querySelectorAll('#details button')].some((button) => button.textContent === 'its blocks')", "the button of the blocks")
    next(button for button in page.driver.find_elements(By.CSS_SELECTOR, "#details button") if button.text == "its blocks").click()
    page.wait("document.querySelector('dialog .blocks tbody tr')", "blocks")
    # What the page has asked for: the blocks of the selected part.
    asked = page.js("performance.getEntriesByType('resource').map((entry) => entry.name).findLast((name) => name.includes('/api/blocks'))")
    values = dict(parse_qsl(urlsplit(asked).query))
    check((values["rule"], values["a"], values["b"], "bucket" in values), ("freed-between", "98%", "peak", True), asked)
    status, answer = server.ask("/api/blocks", **values)
    check(status, 200, "blocks")
    rows = page.js("[...document.querySelectorAll('dialog .blocks tbody tr')].map((row) => [row.children[0].title, row.children[5].textContent])")
    check([(number(title), address) for title, address in rows], [(block["bytes"], block["address"]) for block in answer["blocks"]], "the blocks")
    page.element("dialog .blocks tbody button").click()
    page.wait("document.querySelector('dialog .history li')", "history")
    event = answer["blocks"][0]["event"]
    history = server.ask("/api/block", event=event)[1]["history"]
    steps = page.js("[...document.querySelectorAll('dialog .history ol:not(.source) li')].map((step) => step.textContent)")
    check(len(steps), len(history), "steps of the history")
    check("allocated" in steps[0] and "freed" in steps[-1], True, f"the history {steps}")
    page.key(Keys.ESCAPE)
    page.wait("!document.querySelector('dialog.wide[open]')", "closed by Escape")
    next(button for button in page.driver.find_elements(By.CSS_SELECTOR, "#question button") if button.text == "back to the report").click()
    page.wait("!document.querySelector('#question .found').textContent && !location.hash.includes('rule=')", "the report again")
    no_errors(page)


def gone(page, server, trace):
    """The trace disappears, then the server."""
    trace.unlink()
    page.wait("document.querySelector('#notice.bad')?.textContent.includes('was removed')", "that the trace was removed")
    server.end()
    page.element("#question .ask").click()
    page.wait("document.querySelector('#question .found.bad')?.textContent.includes('does not answer')", "that the server has ended")
    no_errors(page, but=["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "410", "409"])


def growing(page, memledger, folder):
    """A trace that grows: the page says so, and shows the rest when it is wanted."""
    whole = (SAMPLES / "memledger-small.utrace").read_bytes()
    trace = copied(folder, "growing", "memledger-small.utrace", part=0.9, is_old=False)
    with served(memledger, trace) as server:
        open_view(page, server)
        before = server.ask("/api/page")[1]["totals"]["allocations"]
        with trace.open("ab") as file:
            file.write(whole[int(len(whole) * 0.9) :])
        page.wait("document.querySelector('#notice')?.textContent.includes('has grown')", "that it has grown")
        # Pictures are made while it grows: the last has the end.
        page.browser._wait(lambda: server.ask("/api/page")[1]["totals"]["allocations"] > before, "the figures of the rest")
        page.element("#notice button").click()
        page.wait("!document.querySelector('#notice') && " + READY, "the page anew")
        figures_are_those_of(page, server.ask("/api/page")[1], "grown")
        no_errors(page)


def check_all(page, folder, memledger):
    trace = copied(folder, "viewed", "mem-2t-40k.utrace")
    with served(memledger, trace) as server:
        who_may_ask(page, server)
        open_view(page, server)
        figures_are_those_of(page, server.ask("/api/page")[1], "view")
        rules(page, server)
        problems(page)
        brushing(page, server)
        single_blocks(page, server)
        gone(page, server, trace)
    growing(page, memledger, folder)
