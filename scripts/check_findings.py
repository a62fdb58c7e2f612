"""The checks of scripts/check_findings.sh, which sets `memledger` and `library`."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from check_figures import check_trace

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts/viewers/helpers"), str(ROOT / "page/tests")]
# The server is a program of its own, without a browser.
if "--serve" not in sys.argv:
    from browser import Browser
    from shown import document_of

SOURCES = ROOT / "tests/findings"
# A Python that writes the names of its functions for `perf`, if there is one.
NAMES_PYTHON = next(map(str, filter(Path.exists, [
    *(Path(found) for found in map(shutil.which, ["python3.13", "python3.12"]) if found and "shims" not in found),
    *sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3"))])), None)
DEADLINE = 60
# Kinds of findings about memory that is held. All others are about work.
HELD = {"left_behind", "no_longer_freed", "queue", "temporary", "fragmentation"}
LINES = 15
# By program: the kinds that its first finding may have, and a function that it names. Where only the fact of who has
# the peak says it (`peak_by`), there is no finding about memory that is held.
PROBLEMS = {
    "server.rs": ({"peak_by"}, "recommendations_for"),
    "batch.rs": ({"temporary"}, "read_entries"),
    "pipeline.rs": ({"queue"}, "decode"),
    "frag.cpp": ({"fragmentation"}, "Book::add"),
    "leak.cpp": ({"peak_by"}, "Resolver::resolve"),
    "rc_cycle.rs": ({"peak_by"}, "node"),
    "burst_map.rs": ({"peak_by"}, "payload"),
    "idle_buffers.rs": ({"peak_by"}, "Connection::open"),
    "error_path.c": ({"left_behind"}, "copy_of"),
    "slow_logger.rs": ({"queue"}, "log"),
    "late_table.rs": ({"no_longer_freed"}, "render"),
    "rules.rs": ({"again_and_again"}, "parse_rules"),
    "lines.cpp": ({"grows_stepwise"}, "read_all"),
    "keep.py": ({"peak_by"}, "keep.thumbnails.<locals>.thumbnail" if NAMES_PYTHON else ""),
}
# Beside these, "keeps.cpp" is ended in several ways.


def command_of(source, folder):
    """The command of a program, which is compiled first."""
    if source.suffix == ".py":
        return [NAMES_PYTHON, "-X", "perf", source] if NAMES_PYTHON else [sys.executable, source]
    program = folder / source.stem
    command = {
        ".rs": ["rustc", "--edition", "2024", "-O", "-g"],
        ".c": ["cc", "-O1", "-g"],
        ".cpp": ["c++", "-O1", "-g"],
    }[source.suffix]
    subprocess.run([*command, "-o", program, source], check=True)
    return [program]


def tracked(name, command, folder):
    """The command that runs a program and makes the page of its report, and the page."""
    page = folder / f"{name}.html"
    run = [os.environ["memledger"], "run", "--preload", os.environ["library"], "--stacks", "--html", page]
    return [*run, "--trace", page.with_suffix(".memledger"), "--", *command], page


def recorded(name, command, folder):
    """What `memledger run --stacks` says of a program: the lines of its report, and the page."""
    run, page = tracked(name, command, folder)
    files = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    ended = subprocess.run(run, timeout=DEADLINE, cwd=folder, **files)
    lines = ended.stderr.decode().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("Memory of")]
    assert ended.returncode == 0 and starts, f"{name}: {ended.returncode}, {ended.stderr.decode()}"
    return lines[starts[0] :], page


def recorded_server(name, command, folder, port, request):
    """No lines, and the page of a server that answers requests for a second, and is idle then."""
    run, page = tracked(name, command, folder)
    server = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    try:
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, f"{name} does not listen"
                time.sleep(0.01)
        end, number = time.monotonic() + 1, 0
        while time.monotonic() < end:
            request(port, number)
            number += 1
        time.sleep(1)
        server.send_signal(signal.SIGTERM)
        ended = server.wait(DEADLINE)
        assert ended == 0, f"{name}: {ended}"
    finally:
        server.kill()
    return [], page


def reported(trace, *more):
    """What a report of a trace is, which is also that of a program that runs still."""
    report = [os.environ["memledger"], "report", trace.name, *more]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "timeout": DEADLINE, "cwd": trace.parent}
    return subprocess.run(report, **options).stdout


def findings(trace, *more):
    """The findings as they are in JSON, and the lines of the first screen."""
    found = json.loads(reported(trace, *more, "--findings", "--format", "json"))["findings"]
    return found, reported(trace, *more).decode().splitlines()


def check_problem(source, kinds, function, folder):
    """The report has the problem and its place; returns the page, and the texts that its first card has."""
    lines, page = recorded(source.stem, command_of(source, folder), folder)
    document = document_of(page)
    found = document["findings"]
    first = found[0] if found else {"kind": "no finding", "heading": "", "place": {}}
    if kinds == {"peak_by"} and not {finding["kind"] for finding in found} & HELD:
        first = {"kind": "peak_by", "heading": "peak by", **document["peak_by"]}
    place, shown = first["place"], " ".join(" ".join(lines[:LINES]).split())
    said = f"{source.name}: {json.dumps(first, indent=1)}\n" + "\n".join(lines[:LINES])
    assert first["kind"] in kinds, said
    assert first["heading"] in shown and function in place["function"] and function in shown, said
    texts = [first["heading"], function]
    if source.suffix == ".py":
        check_python(place, source, lines, said)
    else:
        marked = [number for number, line in enumerate(source.read_text().splitlines(), 1) if "found here" in line]
        assert Path(place["file"]).name == source.name and place["line"] in marked, said
        texts.append(f"{source.name}:{place['line']}")
    assert all(text in shown for text in texts), said
    figures = check_trace(page.with_suffix(".memledger"))
    print(f"{source.name}: {first['kind']} in {place['function']}, line {place['line']}; {figures} figures by SQL")
    return page, texts


def check_python(place, source, lines, said):
    """Functions of Python have no lines; before Python 3.12 they have no names, which the report says."""
    if NAMES_PYTHON:
        assert place["file"] is None, said
    else:
        assert "Python's own functions: python3 -X perf" in " ".join(" ".join(lines).split()), said


def check_cards(pages):
    """What the first finding of each page shows in a browser."""
    with tempfile.TemporaryDirectory() as folder, Browser(folder, webgl=False) as browser:
        for path, texts in pages:
            browser.open(path)
            of_all = "return [...document.querySelectorAll('#findings .card')].slice(0, 2).map((card) => card.textContent.toLowerCase())"
            browser._wait(lambda: browser.driver.execute_script(of_all), f"{path} has no finding")
            cards = browser.driver.execute_script(of_all)
            has_all = any(all(text.lower() in card for text in texts) for card in cards)
            assert has_all, f"{path}: {texts} are not all in one of the first cards of the page: {cards}"
            browser.no_errors()
    print(f"the pages of {len(pages)} programs: the same in their first finding")


def ended(program, end, folder):
    """The trace of a program that waits, which is ended then: by a signal, or by the end of its input if that is None."""
    trace = folder / f"{program.name}-{end.name if end else 'end'}.memledger"
    run = [os.environ["memledger"], "run", "--preload", os.environ["library"], "--stacks", "--report", "off"]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "cwd": folder}
    with subprocess.Popen([*run, "--trace", trace, "--", program], **options) as running:
        number = int(running.stdout.readline())
        # That the program waits says nothing of the thread that looks into what is resident.
        deadline, is_idle = time.monotonic() + DEADLINE, False
        while not is_idle:
            assert time.monotonic() < deadline, f"{trace.name}: what is resident was not read in {DEADLINE} s"
            report = json.loads(reported(trace, "--format", "json") or "{}")
            now = report.get("rss") and report["rss"]["end"]
            is_idle = now and now["live_bytes"] < 2 << 20
        if end:
            os.kill(number, end)
        running.communicate(timeout=DEADLINE)
    return trace


def check_kept(source, function, folder):
    """However a program ends, and whenever it is asked: what malloc keeps lies between the blocks that are live then."""
    [program] = command_of(source, folder)
    marked = [number for number, line in enumerate(source.read_text().splitlines(), 1) if "found here" in line]

    def check(trace, *at):
        found, lines = findings(trace, *at)
        report = json.loads(reported(trace, *at, "--format", "json"))
        kept = found[0] if found else {"kind": "no finding"}
        said = f"{trace.name} {at}: {json.dumps(kept, indent=1)}\n" + "\n".join(lines[:LINES])
        assert kept["kind"] == "fragmentation" and function in (kept["place"].get("function") or ""), said
        assert kept["place"]["line"] in marked, said
        figures = {figure["key"]: figure["value"] for figure in kept["figures"]}
        assert figures["kept_bytes"] > 30 << 20 and figures["live_bytes"] < 2 << 20 and figures["blocks"] >= 8000, said
        end = report["rss"]["end"]
        assert end is None or end["live_bytes"] <= report["totals"]["live_bytes"], said
        print(f"{trace.name} {' '.join(at)}: fragmentation in {function}, line {kept['place']['line']}")
        return figures.get("before_end_ns")

    for end in (signal.SIGTERM, signal.SIGKILL):
        assert check(ended(program, end, folder)) is None
    trace = ended(program, None, folder)
    before_end = check(trace)
    assert before_end, f"{trace.name}: judged after all was freed"
    check(trace, "--at", f"{before_end - 1_000_000}ns")


def healthy(folder):
    """Programs without a problem: their names and commands, and whether they need more than a second."""
    text = folder / "text"
    text.write_text("".join(f"{number * 7919 % 100_003} a line of some text\n" for number in range(60_000)))
    table = "create table t(a, b); with recursive n(x) as (select 1 union all select x + 1 from n where x < 50000) "
    table += "insert into t select x, x || ' text' from n; create index i on t(b); select count(*) from t where b > '3';"
    repository = folder / "repository"
    for command in (["init", "-q", "repository"], ["-C", "repository", "add", "-A"]):
        if command[0] == "-C":
            [(repository / f"{number}.txt").write_text(f"file {number}\n" * 50) for number in range(300)]
        subprocess.run(["git", *command], cwd=folder, check=True)
    # What cc starts, because a trace is of one process.
    cc = lambda of: subprocess.run(["cc", of], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    options = lambda level: ["-imultiarch", cc("-print-multiarch"), "-quiet", level, "-g", "-o", folder / "compiled.s"]
    compiler = lambda of, level: [cc(f"-print-prog-name={of}"), *options(level)]
    numbers = folder / "numbers.json"
    numbers.write_text(json.dumps([{"id": number, "name": f"name {number}"} for number in range(50_000)]))
    count = "import json, collections; all = json.load(open('numbers.json')); json.dumps(all); "
    count += "print(collections.Counter(one['name'][-2:] for one in all))"
    words = "my %of; while (<>) { $of{(split)[0]} .= $_ } print scalar(sort keys %of)"
    itself = os.environ["memledger"]
    return [
        ("git", ["git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"], False),
        ("git-status", ["git", "-C", repository, "status"], False),
        ("sqlite3", ["sqlite3", ":memory:", table], False),
        ("cc1", [*compiler("cc1", "-O1"), SOURCES / "error_path.c"], False),
        ("python3", ["python3", "-c", "pass"], False),
        ("sort", ["sort", "-n", text], False),
        ("tar", ["tar", "-cf", folder / "all.tar", "-C", repository, "."], False),
        ("grep", ["grep", "-c", "9.*text", text], False),
        ("sed", ["sed", "-n", "s/line/row/p", text], False),
        ("awk", ["awk", "{ sum[$1 % 100] += $1 } END { for (key in sum) print key, sum[key] }", text], False),
        ("xz", ["xz", "-0", "-k", "-c", text], False),
        ("cc1plus", [*compiler("cc1plus", "-O2"), "-D_GNU_SOURCE", SOURCES / "frag.cpp"], True),
        ("rustc", ["rustc", "--edition", "2024", "-O", "-g", "-o", folder / "compiled", SOURCES / "server.rs"], True),
        ("git-log", ["git", "-C", SOURCES, "log", "-p", "--stat", "-200"], True),
        ("git-grep", ["git", "-C", SOURCES.parent.parent, "grep", "-c", "memory"], True),
        ("git-pack", ["git", "-C", repository, "pack-objects", "--all", "--stdout", "--no-reuse-delta"], True),
        ("readelf", ["readelf", "-wi", itself], True),
        ("nm", ["nm", "-C", itself], True),
        ("find", ["find", "/usr", "-name", "*.py"], True),
        ("perl", ["perl", "-e", words, text], True),
        ("python3-json", ["python3", "-c", count], True),
        ("jq", ["jq", "-c", "map(select(.id % 3 == 0)) | group_by(.name) | length", numbers], True),
        ("node", ["node", "-e", "console.log(JSON.parse(fs.readFileSync('numbers.json')).sort().length)"], True),
        ("vim", ["vim", "-es", "-N", "-u", "NONE", "-c", "%s/line/row/g", "-c", "sort n", "-c", "qa!", text], True),
        ("zstd", ["zstd", "-10", "-T2", "-c", text], True),
        ("server", [sys.executable, __file__, "--serve"], True),
    ]


def ask_nginx(port, _):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/text") as answer:
        answer.read()


def ask_redis(port, number):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for key in range(100):
            connection.sendall(f"SET key:{(number * 31 + key) % 1000} {number}\r\nGET key:{key}\r\n".encode())
        connection.sendall(b"QUIT\r\n")
        while connection.recv(1 << 16):
            pass


def servers(folder):
    """Servers without a problem: their names and commands, ports, and what makes a request."""
    with socket.socket() as one, socket.socket() as other:
        [of.bind(("127.0.0.1", 0)) for of in (one, other)]
        ports = [of.getsockname()[1] for of in (one, other)]
    conf = folder / "nginx.conf"
    server = f"server {{ listen 127.0.0.1:{ports[0]}; root {folder}; }}"
    conf.write_text(
        f"daemon off; master_process off; error_log /dev/null; pid {folder}/nginx.pid; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; {server} }}\n"
    )
    return [
        ("nginx", ["nginx", "-p", folder, "-c", conf], ports[0], ask_nginx),
        ("redis", ["redis-server", "--port", str(ports[1]), "--save", ""], ports[1], ask_redis),
    ]


def serve():
    """A server under load, which is idle then."""
    import functools, http.server, threading

    os.chdir(tempfile.gettempdir())
    handler = functools.partial(http.server.SimpleHTTPRequestHandler)
    http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever).start()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
            answer.read()
    time.sleep(1)
    server.shutdown()


def main():
    if "--serve" in sys.argv:
        return serve()
    failed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def check(of, *arguments):
            try:
                return of(*arguments)
            except (AssertionError, subprocess.SubprocessError) as error:
                failed.append(str(error))

        problems = PROBLEMS.items()
        pages = [check(check_problem, SOURCES / source, *problem, folder) for source, problem in problems]
        check(check_cards, [page for page in pages if page])

        check(check_kept, SOURCES / "keeps.cpp", "Index::note", folder)

        def check_healthy(name, command, record=recorded, *more):
            _, page = record(name, command, folder, *more)
            found = document_of(page)["findings"]
            held = [finding for finding in found if finding["kind"] in HELD]
            assert not held, f"{name}: {json.dumps(held[0], indent=1)}"
            print(f"{name}: nothing that is held")

        for name, command, is_long in healthy(folder):
            if not shutil.which(command[0]):
                print(f"{name}: NOT CHECKED, it is not installed")
            elif not (is_long and "--short" in sys.argv):
                check(check_healthy, name, command)
        for name, command, port, request in servers(folder):
            if not shutil.which(command[0]):
                print(f"{name}: NOT CHECKED, it is not installed")
            elif "--short" not in sys.argv:
                check(check_healthy, name, command, recorded_server, port, request)
    for sentence in failed:
        print(sentence, file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
