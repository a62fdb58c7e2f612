"""The page of a report in headless Chromium, used as a person uses it: figures on the page are those of the document,
names are text, nothing leaves the machine, and no task of the page is long.

    python3 page/tests/check.py FOLDER STACKS MEMLEDGER [REPORT.html REPORT.json]...

FOLDER is for files of its own, MEMLEDGER the command, whose `view` serves the page.
"""

import base64
import json
import pathlib
import subprocess
import sys
import time

import documents
import view
from shown import KEYS, ROOT, TABLE, Page, as_figure, check, document_of, figures_are_those_of, number, tags_are_those_of
from browser import Browser, fail  # in the path since `shown`
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

LONGEST_TASK_MS = 200


def small(page, folder):
    document = documents.small().document()
    path = folder / "small.html"
    documents.page(document, path)
    page.open(path)
    figures_are_those_of(page, document, "small")
    at_load = page.js("window.atLoad")
    check(at_load["ready"], "true", "a small page when it has been loaded")
    check(as_figure("bytes", document["totals"]["peak_bytes"]) in at_load["tiles"], True, "its totals then")
    check(bool(at_load["crumbs"]) and at_load["rows"] > 0, True, "its graph and its rows then")

    # The graph: the node under the pointer has the figures of the document, for each figure that is shown.
    page.click("#graph [data-value=scope]")
    canvas = page.element("#graph canvas")
    page.js("document.querySelector('#graph-title').scrollIntoView()")
    left, rows = -canvas.size["width"] // 2, -canvas.size["height"] // 2
    ActionChains(page.driver).move_to_element_with_offset(canvas, left + 30, rows + 28).perform()
    page.wait("document.querySelector('#details h3')?.textContent === '(whole program)'", "details")
    outer = next(row for row in document["by_scope"] if row["path"] == ["GlobalScope"])["inclusive"]
    for key in KEYS:
        title = page.js("document.querySelector(`#details [data-key=${arguments[0]}]`).parentElement.title", key)
        check(number(title.split(": ")[1]), outer[key], f"details of the whole program, {key}")
    for metric, key in (("live", "live_bytes"), ("allocated", "allocated_bytes"), ("count", "allocations"), ("peak", "peak_bytes")):
        page.click(f"#graph .metrics [data-value={metric}]")
        total = document["totals"][key]
        shown = page.text(".crumbs .value")
        check(shown.split(f" {metric}")[0], as_figure(key, total), f"the graph of {metric}")

    # Every button works, and says so.
    for name in ("group", "stack", "crate", "thread", "stack"):
        page.click(f"#graph [data-value={name}]")
        check(page.element(f"#graph [data-value={name}]").get_attribute("aria-pressed"), "true", f"the button {name}")
    for name in ("flame", "treemap", "icicle", "up", "down", "time", "heavy"):
        page.click(f"#graph [data-value={name}]")
        check(page.element(f"#graph [data-value={name}]").get_attribute("aria-pressed"), "true", f"the button {name}")
    for name in ("blocks", "stacked", "lines", "bytes"):
        page.click(f"#timeline [data-value={name}]")
    page.click("#all-frames")
    page.click("#all-frames")
    lines(page, document)

    # A search says the sum of what it has found.
    page.element("#graph-search").send_keys("step_1")
    page.wait("document.querySelector('#graph .sum').textContent", "search")
    rows = [bucket for bucket in BUCKETS if bucket["function"] == "small::step_1"]
    wanted = sum(bucket["live_bytes_at_peak"] for bucket in rows)
    check(page.text("#graph .sum").split(" · ")[0], as_figure("bytes", wanted), "the sum of the search")
    page.element("#graph-search").send_keys(Keys.ESCAPE)
    page.settle()

    # A click zooms; the fragment has it, so that a reload and "back" do as they should.
    page.js("document.querySelector('#graph-title').scrollIntoView()")
    ActionChains(page.driver).move_to_element_with_offset(page.element("#graph canvas"), left + 30, -page.element("#graph canvas").size["height"] // 2 + 47).click().perform()
    page.wait("location.hash.includes('focus=')", "zoom")
    page.settle()
    crumbs = page.text(".crumbs")
    page.open(path, page.js("location.hash"))
    check(page.text(".crumbs"), crumbs, "the view after a reload")
    ActionChains(page.driver).send_keys_to_element(page.element("#graph canvas"), Keys.BACKSPACE).perform()
    page.settle()
    check("focus=" in page.js("location.hash"), False, "zoomed after Backspace")

    # A row of a table is shown in the graph.
    page.click("#tables [data-value=scopes]")
    row = next(row for row in page.driver.find_elements(By.CSS_SELECTOR, ".row") if "parse" in row.text)
    row.click()
    page.wait("document.querySelector('.crumbs').textContent.includes('parse')", "the row in the graph")
    page.element("#table-search").send_keys("physics")
    page.wait("document.querySelectorAll('.row').length === 1", "found rows")
    page.element("#table-search").clear()
    page.click(".head [data-sort=name]")
    check(page.js("document.querySelector('.check.rss')"), None, "no resident memory in a trace without")
    page.no_errors("small")
    keyboard(page)
    looks(page)


BUCKETS = []


def remember_buckets():
    """The functions of the buckets of the small document, as its maker knows them."""
    made = documents.small()
    made.document()
    for scope, name, thread, stack, figures in made.buckets:
        functions = []
        while stack >= 0:
            stack, frame = made.nodes[stack]
            functions.append(made.strings[made.frames[frame][0]])
        BUCKETS.append({**figures, "function": next(name for name in functions if "step_" in name)})


def keyboard(page):
    page.js("document.body.focus()")
    page.key("?")
    check(page.js("document.querySelector('#help').open"), True, "the list of keys")
    page.key(Keys.ESCAPE)
    check(page.js("document.querySelector('#help').open"), False, "the list of keys after Escape")
    reached = set()
    for _ in range(80):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        reached.add(page.js("(document.activeElement.id || document.activeElement.className || document.activeElement.tagName).toString()"))
        if {"plots", "CANVAS", "graph-search", "table-search", "grid"} <= reached:
            break
    else:
        fail(f"Tab does not reach everything: {sorted(reached)}")
    unnamed = page.js("[...document.querySelectorAll('button, input, select, [tabindex=\"0\"]')].filter((e) => !(e.textContent.trim() || e.ariaLabel || e.title || e.labels?.length)).length")
    check(unnamed, 0, "controls without a name")
    canvas = page.element("#graph canvas")
    ActionChains(page.driver).send_keys_to_element(canvas, Keys.HOME, Keys.ARROW_DOWN).perform()
    page.wait("document.querySelector('#announcement').textContent.includes('%')", "what is said of a node")
    ActionChains(page.driver).send_keys_to_element(canvas, Keys.ENTER).perform()
    page.wait("location.hash.includes('focus=')", "Enter")
    page.key(Keys.ESCAPE)
    for key, part in (("m", "graph=treemap"), ("u", "direction=up"), ("1", "metric=live"), ("s", "by=scope")):
        page.key(key)
        check(part in page.js("location.hash"), True, f"the key {key}: {part} in {page.js('location.hash')}")
    page.no_errors("keyboard")


def looks(page):
    """Light, dark, narrow and paper."""
    paper = lambda: page.js("getComputedStyle(document.body).backgroundColor")

    def prefer(scheme):
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        # The page hears of it when it is drawn next, which may be after this.
        page.wait(f"document.documentElement.dataset.theme === '{scheme}'", f"the colours of a reader who prefers {scheme}")
        return paper()

    dark, light = prefer("dark"), prefer("light")
    check(dark != light, True, "dark and light are different")
    page.key("d")
    check(paper(), dark, "the other colours by a key")
    page.key("d")
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 600, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    page.settle()
    check(page.js("document.documentElement.scrollWidth <= 600"), True, "nothing is wider than a narrow window")
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.wait("getComputedStyle(document.querySelector('#tools')).display === 'none'", "tools on paper")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    pdf = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    check(pdf[:5] == b"%PDF-" and len(pdf) > 10_000, True, "a PDF")
    page.no_errors("looks")


def nasty(page, folder):
    """Names are text: nothing in them is run, nothing becomes an element, and what cannot be seen is shown."""
    path = folder / "nasty.html"
    document = documents.nasty()
    documents.page(document, path)
    page.open(path)
    for table in ("scopes", "names", "threads", "functions", "stacks", "blocks"):
        page.click(f"#tables [data-value={table}]")
        shown = page.js("document.querySelector('.grid').textContent")
        for text in ("<script>document.title = 'run'</script>", "user\\u{202e}txt.exe", "a\\u{0}b\\u{1b}[31mred\\u{7}", "line\\nbreak\\ttab", "zero\\u{200b}width"):
            check(text in shown, True, f"{text} in the table {table}")
    text = page.js("document.body.textContent")
    for at in "\u202e\u2066\u2069\u200b\u0000\u001b":
        check(at in page.js("document.querySelector('main').textContent"), False, f"the character {ord(at):x} as it is")
    check("after\\u{202e} load" in text or "\\u{202e}" in text, True, "escapes")
    check(page.js("document.querySelectorAll('main img, main script, header img').length"), 0, "elements made of names")
    for by in ("scope", "group", "stack", "crate", "thread"):
        page.click(f"#graph [data-value={by}]")
    page.click("#graph [data-value=treemap]")
    check(page.driver.title, "memledger", "the title, which a name tried to set")
    page.no_errors("nasty")


def long_names(page, folder):
    """Names of kilobytes are short and apart, cut in the middle, and whole on demand."""
    path = folder / "long-names.html"
    document = documents.long_names()
    documents.page(document, path)
    page.open(path)
    page.wait("document.querySelectorAll('.row').length > 2", "rows of functions")
    wholes = [text for text in document["strings"] if len(text) > 1000]
    for whole, short in zip(wholes, document["short"]["text"]):
        row = page.js("[...document.querySelectorAll('.row .name')].filter((e) => e.title === arguments[0]).map((e) => [e.textContent, e.scrollWidth <= e.clientWidth])", whole)
        check(row, [[short, True]], "a row: what is shown, its end is in sight, and the title")
        card = page.js("[...document.querySelectorAll('.card h3 button')].filter((e) => e.title.includes(arguments[0])).map((e) => e.textContent)", whole)
        check(card, [short], "a finding")
    check(page.js("document.documentElement.scrollWidth <= innerWidth"), True, "nothing is wider than the window")
    page.js("[...document.querySelectorAll('.row.linked')].find((e) => e.querySelector('.name').title.length > 1000).click()")
    page.wait("document.querySelector('#details details p')", "details of the function")
    check(page.js("document.querySelector('#details details p').textContent") in wholes, True, "the whole name in the details")
    page.no_errors("long-names")


def wrong(page, folder):
    """Other documents, and what is no document."""
    for name in ("no-stacks", "damaged", "sampled", "changed"):
        documents.page(documents.ALL[name](), folder / f"{name}.html")
        page.open(folder / f"{name}.html", "#focus=99999.5&by=stack&filter=thread-77.x&metric=none&graph=cube&from=x")
        page.no_errors(name)
        if name == "no-stacks":
            check(page.element("#graph [data-value=stack]").is_enabled(), False, "stacks without stacks")
        if name == "damaged":
            check("not of the whole run" in page.text("#notes") and "1,234 events are missing" in page.text("#notes"), True, "what is missing")
        if name == "changed":
            check("old<b>.memledger" in page.text("#changes") and page.js("document.querySelectorAll('#changes tbody tr').length") > 3, True, "the changes")
            differences(page, documents.ALL[name]())
    broken = folder / "broken.html"
    broken.write_text(documents.TEMPLATE.read_text().replace(documents.MARKER, '<script type="application/gzip;base64" id="memledger-data">H4sIAAAA</script>'))
    page.driver.get(broken.resolve().as_uri())
    page.wait("document.body.dataset.ready === 'failed'", "a broken file")
    check("cannot be shown" in page.text("#status"), True, "a sentence about the broken file")


def tags(page, folder, memledger):
    """What an engine counted, without blocks and beside them."""
    document = documents.tags()
    documents.page(document, folder / "tags.html")
    page.open(folder / "tags.html")
    check(page.element("#tables [data-value=tags]").get_attribute("aria-pressed"), "true", "the tags are the first table of a trace without blocks")
    tags_are_those_of(page, document, "tags")
    shown = page.js("document.querySelector('.grid').textContent")
    check("user\\u{202e}txt.exe" in shown and "-" in shown, True, "names and values below 0")
    page.no_errors("tags")
    trace = ROOT / "tests/samples/unreal4/p4-tid-ue426.utrace"
    html, report = folder / "engine.html", folder / "engine.json"
    for out, form in ((html, "html"), (report, "json")):
        subprocess.run([memledger, "report", trace, "--format", form, "-o", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    real(page, html, report)
    tags_are_those_of(page, json.loads(report.read_text()), str(trace))


def lines(page, document):
    """With lines, a function is in the graph once for each of its lines, and a search by line has what was allocated there."""
    page.click("#graph [data-value=stack]")
    page.click("#lines")
    made = documents.small()
    made.document()
    by_line = {}
    for *_, stack, figures in made.buckets:
        lines = set()
        while stack >= 0:
            stack, frame = made.nodes[stack]
            name, _, line, *_ = made.frames[frame]
            lines.add(f"{made.strings[name]}:{line}")
        for line in lines:
            by_line[line] = by_line.get(line, 0) + figures["live_bytes_at_peak"]
    line, wanted = max(((line, wanted) for line, wanted in by_line.items() if "step_" in line), key=lambda pair: pair[1])
    # One that no other line begins with.
    check(sum(other.startswith(line) for other in by_line), 1, "one such line")
    page.element("#graph-search").send_keys(line)
    page.wait("document.querySelector('#graph .sum').textContent", "search of a line")
    check(page.text("#graph .sum").split(" · ")[0], as_figure("bytes", wanted), f"the sum of {line}")
    page.element("#graph-search").send_keys(Keys.ESCAPE)
    check("lines=true" in page.js("location.hash") or "lines=1" in page.js("location.hash"), True, "in the address")
    page.click("#lines")
    page.click("#graph [data-value=scope]")
    check(page.js("document.querySelector('#lines').parentElement.hidden"), True, "scopes have no lines")
    page.click("#graph [data-value=stack]")
    page.settle()


def resident(page, folder):
    """The resident memory in the timeline: what was read last, and drawn where live bytes can be seen beside it."""
    readings = [(100_000_000, 3 << 20), (700_000_000, 5 << 20), (1_999_000_000, 4 << 20)]
    of_color = "const [r, g, b] = getComputedStyle(document.querySelector('.check.rss i')).borderTopColor.match(/\\d+/g).map(Number);"
    drawn = of_color + """const canvas = document.querySelector('#timeline canvas');
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let found = 0;
        for (let at = 0; at < data.length; at += 4) found += data[at] === r && data[at + 1] === g && data[at + 2] === b && data[at + 3] > 250;
        return found"""
    for factor, is_on in ((1, True), (1000, False)):
        document = documents.resident(readings, factor)
        peak = document["totals"]["peak_bytes"]
        path = folder / f"resident-{factor}.html"
        documents.page(document, path)
        page.open(path)
        page.settle()
        bytes_of = [value * peak * factor >> 21 for _, value in readings]
        check(page.text(".tile.wide"), "resident (RSS)4 MiBat end = 3.0 live + 1.0 files; 5.0 MiB at most", "the resident memory as a sum")
        check(page.text("#findings .empty"), "None: blocks left behind. Resident: 4 MiB = 3.0 live + 1.0 files.", "why there are no findings")
        box = page.element(".check.rss input")
        check(box.is_selected(), is_on, f"resident memory is drawn, {max(bytes_of)} bytes beside {peak}")
        page.wait(f"(() => {{ {drawn} }})() {'>' if is_on else '==='} 0", "the line of the resident memory")
        check(page.text("#timeline .readout .rss"), f"resident {as_figure('bytes', bytes_of[-1])}", "at the end")
        over = page.element("#timeline .u-over")
        for share, expected in ((0.2, 0), (0.5, 1), (0.01, None)):
            offset = round(over.size["width"] * (share - 0.5))
            ActionChains(page.driver).move_to_element_with_offset(over, offset, 20).perform()
            page.wait("!document.querySelector('#timeline .readout .at').textContent.startsWith('end')", "the cursor")
            shown = page.js("document.querySelector('#timeline .readout .rss')?.textContent ?? null")
            check(shown, expected if expected is None else f"resident {as_figure('bytes', bytes_of[expected])}", f"at {share} of the time")
        page.click(".check.rss input")
        page.wait(f"(() => {{ {drawn} }})() {'===' if is_on else '>'} 0", "the other way round")
        check(f"rss={'off' if is_on else 'on'}" in page.js("location.hash"), True, "in the address")
        page.click("#timeline [data-value=blocks]")
        check(page.js("document.querySelector('.check.rss input').disabled"), True, "not beside blocks")
        page.no_errors("resident")


def differences(page, document):
    """The graph of what has changed: its widths are the sums of what differs, its colours the direction."""
    rows = document["diff"]["tables"][0]["rows"]
    own = [(row["path"], (row["old"] or {}).get("live_bytes_at_peak", 0), (row["new"] or {}).get("live_bytes_at_peak", 0)) for row in rows]
    shown = page.js("[...document.querySelectorAll('.difference button')].map((part) => [part.firstChild.textContent.trim(), part.className, part.style.width, part.title])")
    outermost = next(part for part in shown if part[0] == "(whole program)")
    inside = [(old, new) for path, old, new in own if path[0] == "GlobalScope"]
    width = sum(abs(new - old) for old, new in inside) / sum(abs(new - old) for _, old, new in own)
    check(abs(float(outermost[2].rstrip("%")) - 100 * width) < 0.01, True, f"the width {outermost} is {100 * width} %")
    before, after = (sum(column) for column in zip(*inside))
    check(outermost[1], "grew" if after > before else "shrank" if after < before else "even", "the colour")
    check(f"{as_figure('bytes', before)} → {as_figure('bytes', after)}" in outermost[3], True, outermost[3])
    page.element(".difference button:last-child").click()
    page.wait("document.querySelector('#changes input').value", "the rows of the part that was clicked")
    check("before:" in page.text("#timeline .readout"), True, "the old trace in the timeline")


def many(page, folder, stacks):
    """A large document: whatever is done, no task of the page is long."""
    path = folder / "many.html"
    documents.page(documents.many_stacks(stacks), path)
    steps = [("open", lambda: page.open(path))] + [
        (f"click {name}", lambda name=name: page.click(f"#graph [data-value={name}]"))
        for name in ("allocated", "up", "flame", "time", "treemap", "down", "icicle", "scope", "crate", "stack")
    ] + [("search", lambda: (page.element("#graph-search").send_keys("module_3"), page.wait("document.querySelector('#graph .sum').textContent", "search"))),
         ("stacks", lambda: (page.click("#tables [data-value=stacks]"), page.wait("document.querySelector('#tables .sum').textContent.includes(',')", "stacks"))),
         ("sort", lambda: page.click(".head [data-sort=live_bytes]")),
         ("scroll", lambda: (page.js("document.querySelector('.grid').scrollTop = 900000"), page.settle()))]
    worst = ("", 0)
    for name, step in steps:
        longest = 1e9
        # A loaded machine stretches a task. The processor's time of all tasks of a step is at least that of the longest,
        # and what is long whenever it is done is long by itself.
        for _ in range(5 if name == "open" else 1):
            before = page.cpu_ms()
            page.js("window.tasks && (window.tasks.length = 0)")
            step()
            wall = max(page.js("window.tasks") or [0])
            longest = min(longest, wall, *([] if name == "open" else [page.cpu_ms() - before]))
            if longest < LONGEST_TASK_MS:
                break
        if longest > worst[1]:
            worst = (name, longest)
    print(f"{stacks} stacks: the longest task is {worst[1]:.0f} ms ({worst[0]}); first paint {page.js('performance.getEntriesByName(`first-paint`)[0]?.startTime | 0')} ms")
    if worst[1] >= LONGEST_TASK_MS:
        fail(f"a task takes {worst[1]:.0f} ms of the processor at the step {worst[0]!r}, not less than {LONGEST_TASK_MS}")
    page.no_errors("many stacks")


def real(page, html, report):
    """The page of a recorded trace, against the JSON of its report."""
    report = json.loads(pathlib.Path(report).read_text())
    document = document_of(html)
    for key in ("totals", "losses", "by_scope", "by_name", "by_thread", "by_size"):
        check(document[key] == report[key], True, f"{html}: {key} as in the report")
    page.open(html)
    figures_are_those_of(page, report, html)
    if report.get("by_function"):
        page.click("#tables [data-value=functions]")
        page.wait("document.querySelector('.row') && document.querySelector('#tables .sum').textContent.includes('functions')", "functions")
        expected = {row["function"]: row["inclusive"] for row in report["by_function"]}
        for row in page.js(TABLE):
            for key in ("live_bytes", "allocated_bytes", "allocations"):
                check(number(row["figures"][key]), expected[row["name"]][key], f"{html}: {row['name']}, {key}")
    page.no_errors(html)


def main():
    folder, stacks, memledger = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    remember_buckets()
    with Browser(folder, 1280, 800, webgl=False) as browser:
        page = Page(browser)
        parts = {
            "small": lambda: small(page, folder),
            "nasty": lambda: nasty(page, folder),
            "long-names": lambda: long_names(page, folder),
            "wrong": lambda: wrong(page, folder),
            "resident": lambda: resident(page, folder),
            "tags": lambda: tags(page, folder, memledger),
            "many": lambda: many(page, folder, stacks),
            "view": lambda: view.check_all(page, folder, memledger),
        }
        parts |= {html: lambda pair=(html, report): real(page, *pair) for html, report in zip(sys.argv[4::2], sys.argv[5::2])}
        for name, part in parts.items():
            started = time.monotonic()
            part()
            print(f"{name}: {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
