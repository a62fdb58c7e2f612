"""The checks of scripts/check_findings.sh, which sets `memledger` and `library`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "tests/findings"
DEADLINE = 60
# Kinds of findings about memory that is held. All others are about what is cheap to speed up.
HELD = {"only_grows", "left_behind", "holds_peak", "freed_elsewhere", "kept_by_malloc", "stays_after_peak"}
LINES = 15
# By program: the kinds that its first finding may have, and a function that it names.
PROBLEMS = {
    "server.rs": ({"only_grows"}, "recommendations_for"),
    "batch.rs": ({"holds_peak"}, "clean"),
    "pipeline.rs": ({"freed_elsewhere"}, "decode"),
    "frag.cpp": ({"kept_by_malloc"}, "Book::add"),
    "leak.cpp": ({"only_grows"}, "Resolver::resolve"),
    "rc_cycle.rs": ({"only_grows"}, "node"),
    "burst_map.rs": ({"stays_after_peak"}, "Sessions::open"),
    "idle_buffers.rs": ({"only_grows"}, "Connection::open"),
    "same_string.rs": ({"one_size"}, "load"),
    "error_path.c": ({"left_behind"}, "copy_of"),
    "slow_logger.rs": ({"freed_elsewhere"}, "log"),
}
# Beside these, "keeps.cpp" is ended in several ways.
# What was said of such programs, and helped nobody.
WRONG = ["Give the blocks back", "live at the end with"]


def compiled(source, folder):
    program = folder / source.stem
    command = {
        ".rs": ["rustc", "--edition", "2024", "-O", "-g"],
        ".c": ["cc", "-O1", "-g"],
        ".cpp": ["c++", "-O1", "-g"],
    }[source.suffix]
    subprocess.run([*command, "-o", program, source], check=True)
    return program


def recorded(name, command, folder, **options):
    """The trace of a program, which the command runs."""
    trace = folder / f"{name}.memledger"
    run = [os.environ["memledger"], "run", "--preload", os.environ["library"], "--stacks", "--report", "off"]
    run += ["--trace", trace, "--", *command]
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "timeout": DEADLINE, "cwd": folder, **options}
    ended = subprocess.run(run, **output)
    assert ended.returncode == 0, f"{name}: {ended.returncode}, {ended.stderr.decode()}"
    return trace


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
    trace = recorded(source.stem, [compiled(source, folder)], folder)
    found, lines = findings(trace)
    first = found[0] if found else {"kind": "no finding", "place": {}}
    place, shown = first["place"], " ".join(" ".join(lines[:LINES]).split())
    marked = [number for number, line in enumerate(source.read_text().splitlines(), 1) if "found here" in line]
    said = f"{source.name}: {json.dumps(first, indent=1)}\n" + "\n".join(lines[:LINES])
    assert first["kind"] in kinds, said
    assert function in (place["function"] or ""), said
    assert Path(place["file"]).name == source.name and place["line"] in marked, said
    assert function in shown and any(f"{source.name}:{line}" in shown for line in marked), said
    assert not any(wrong in " ".join(lines) for wrong in WRONG), said
    print(f"{source.name}: {first['kind']} in {function}, line {place['line']}")


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
    program = compiled(source, folder)
    marked = [number for number, line in enumerate(source.read_text().splitlines(), 1) if "found here" in line]

    def check(trace, *at):
        found, lines = findings(trace, *at)
        report = json.loads(reported(trace, *at, "--format", "json"))
        kept = found[0] if found else {"kind": "no finding"}
        said = f"{trace.name} {at}: {json.dumps(kept, indent=1)}\n" + "\n".join(lines[:LINES])
        assert kept["kind"] == "kept_by_malloc" and function in kept["place"]["function"], said
        assert kept["place"]["line"] in marked, said
        figures = kept["figures"]
        assert figures["kept_bytes"] > 30 << 20 and figures["live_bytes"] < 2 << 20 and figures["blocks"] >= 8000, said
        # A document is on two pages or three, one of which has an entry.
        assert figures["kept_bytes"] // 5 < figures["returnable_bytes"] < figures["kept_bytes"] * 2 // 3, said
        end = report["rss"]["end"]
        assert end is None or end["live_bytes"] <= report["totals"]["live_bytes"], said
        print(f"{trace.name} {' '.join(at)}: kept_by_malloc in {function}, line {kept['place']['line']}")
        return figures["before_end_ns"]

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
    options = ["-imultiarch", cc("-print-multiarch"), "-quiet", "-O1", "-g", "-o", folder / "compiled.s"]
    compiler = lambda of: [cc(f"-print-prog-name={of}"), *options]
    return [
        ("git", ["git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"], False),
        ("git-status", ["git", "-C", repository, "status"], False),
        ("sqlite3", ["sqlite3", ":memory:", table], False),
        ("cc1", [*compiler("cc1"), SOURCES / "error_path.c"], False),
        ("python3", ["python3", "-c", "pass"], False),
        ("sort", ["sort", "-n", text], False),
        ("tar", ["tar", "-cf", folder / "all.tar", "-C", repository, "."], False),
        ("grep", ["grep", "-c", "9.*text", text], False),
        ("sed", ["sed", "-n", "s/line/row/p", text], False),
        ("awk", ["awk", "{ sum[$1 % 100] += $1 } END { for (key in sum) print key, sum[key] }", text], False),
        ("xz", ["xz", "-0", "-k", "-c", text], False),
        ("server", [sys.executable, __file__, "--serve"], True),
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
                of(*arguments)
            except (AssertionError, subprocess.SubprocessError) as error:
                failed.append(str(error))

        for source, (kinds, function) in PROBLEMS.items():
            check(check_problem, SOURCES / source, kinds, function, folder)

        check(check_kept, SOURCES / "keeps.cpp", "Index::note", folder)

        def check_healthy(name, command):
            found, lines = findings(recorded(name, command, folder))
            held = [finding for finding in found if finding["kind"] in HELD]
            assert not held, f"{name}: {json.dumps(held[0], indent=1)}"
            print(f"{name}: nothing that is held")

        for name, command, is_long in healthy(folder):
            if not shutil.which(command[0]):
                print(f"{name}: NOT CHECKED, it is not installed")
            elif not (is_long and "--short" in sys.argv):
                check(check_healthy, name, command)
    for sentence in failed:
        print(sentence, file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
