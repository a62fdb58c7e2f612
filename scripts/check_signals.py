"""Programs under `memledger run` mean the same by signals, and end in the same way, as alone. A part of scripts/check_preload.sh, which
sets the environment: `folder`, `memledger`, `library`; `endings` in the folder is tests/preload/endings.c.

Each program runs alone and under `memledger run`, with a watcher and without one; output, errors and status are compared.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

FOLDER, MEMLEDGER, LIBRARY = (os.environ[name] for name in ["folder", "memledger", "library"])
ENDINGS = os.path.join(FOLDER, "endings")
ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": FOLDER, "TMPDIR": FOLDER}
# A program that hangs is a failure.
DEADLINE_S = 60
# How many crashes of each kind. Each must have a report.
CRASHES = int(os.environ.get("crashes", "1000"))

PYTHON_KEYBOARD = """
import atexit, signal, sys, time
atexit.register(lambda: print("atexit"))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
print("up", flush=True)
try:
    time.sleep(60)
    print("code after sleep ran")
except KeyboardInterrupt:
    print("KeyboardInterrupt")
finally:
    print("finally")
"""
PYTHON_ASYNCIO = """
import asyncio
async def main():
    try:
        print("up", flush=True)
        await asyncio.sleep(60)
    finally:
        print("finally")
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""
PYTHON_DEFAULT = """
import signal, time
def handle(*_): print("handled", flush=True)
for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
    print(signal.signal(number, handle) is not None, signal.signal(number, signal.SIG_DFL) is handle)
print("up", flush=True)
time.sleep(60)
print("code after sleep ran", flush=True)
"""
PYTHON_SERVER = """
import http.server, sys
sys.argv = ["server", "--bind", "127.0.0.1", "0"]
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print("up", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    print("Keyboard interrupt received, exiting.")
    sys.exit(0)
"""
PERL = """
$| = 1;
END { print "END\\n"; }
print "up\\n";
sleep 60;
print "code after sleep ran\\n";
"""
PERL_HANDLER = """
$| = 1;
$SIG{INT} = sub { print "handled\\n"; exit 4; };
END { print "END\\n"; }
print "up\\n";
sleep 60;
"""
RUBY = """
$stdout.sync = true
begin
  puts "up"
  sleep 60
rescue Interrupt
  puts "Interrupt"
ensure
  puts "ensure"
end
"""
NODE = """
process.on("SIGINT", () => { console.log("handled"); process.exit(3); });
process.on("exit", () => console.log("exit"));
setTimeout(() => console.log("code after the wait ran"), 60000);
console.log("up");
"""
NODE_DEFAULT = """
process.on("exit", () => console.log("exit"));
setTimeout(() => console.log("code after the wait ran"), 60000);
console.log("up");
"""
SHELL = 'trap "echo trapped; exit 3" INT; trap "echo left" EXIT; echo up; while :; do sleep 0.1; done'
SHELL_DEFAULT = 'trap - INT TERM HUP; trap; echo up; exec sleep 60'
INTERPRETERS = [
    [sys.executable, "-c", PYTHON_KEYBOARD], [sys.executable, "-c", PYTHON_ASYNCIO], [sys.executable, "-c", PYTHON_DEFAULT],
    [sys.executable, "-c", PYTHON_SERVER], ["perl", "-e", PERL], ["perl", "-e", PERL_HANDLER], ["ruby", "-e", RUBY],
    ["node", "-e", NODE], ["node", "-e", NODE_DEFAULT], ["dash", "-c", SHELL], ["bash", "-c", SHELL],
    [ENDINGS, "after-sleep"],
]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
WAYS = {"with a watcher": {}, "without one": {"MEMLEDGER_WATCH": "0"}}


def require(condition, *facts):
    if not condition:
        sys.exit(" ".join(str(fact) for fact in facts))


def tracked(command, *flags):
    return [MEMLEDGER, "run", "--preload", LIBRARY, "--report", "off", *flags, "--", *command]


def reset():
    """As a terminal starts a program."""
    for number in SIGNALS + [signal.SIGQUIT, signal.SIGPIPE]:
        signal.signal(number, signal.SIG_DFL)


def end(command, number=None, environment=None, start=reset, stdin=subprocess.DEVNULL):
    """What the program printed, and its status as shells have it. With `number`, that signal is sent once it is up."""
    process = subprocess.Popen(command, env=ENVIRONMENT | (environment or {}), cwd=FOLDER, stdin=stdin,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=start)
    said = ""
    try:
        if number is not None:
            while "up" not in said:
                line = process.stdout.readline()
                require(line, command, "is not up:", said, process.stderr.read() if not line else "")
                said += line
            # The lines that it prints at once are read; it is about to wait.
            time.sleep(0.3)
            process.send_signal(number)
        output, errors = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"{command} {environment} {number} hangs: {said!r}")
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return said + output, errors, status


def compare(commands, numbers, what):
    def one(job):
        command, number = job
        alone = end(command, number)
        for way, environment in WAYS.items():
            found = end(tracked(command, "--allow-untracked"), number, environment)
            if command[0] == "node" and way == "without one":
                # Its own handler ends it, by a signal that the kernel has reset (SA_RESETHAND): nothing can complete its trace.
                found = found[0], re.sub("^memledger: the trace of node .* has no end: .*\\n", "", found[1]), found[2]
            require(found == alone, command[:2], number, way, found, "but alone", alone)

    jobs = [(command, number) for command in commands for number in numbers]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, jobs))
    print(f"{what}, {len(jobs)} runs alone and under memledger run: ok")


def interpreters():
    compare(INTERPRETERS, SIGNALS, "handlers, finally, ensure, END, atexit and what comes after a wait")


def actions():
    compare([[ENDINGS, "shown"]], [None], "what handles each signal, as the program sees it")
    # The handlers of the tracker, as the kernel says: ABRT, SEGV, BUS, ILL, FPE, TERM, INT and HUP.
    expected = sum(1 << number - 1 for number in [6, 11, 7, 4, 8, 15, 2, 1])
    masks = [int(end(tracked([ENDINGS, "caught"]), None, environment)[0].split()[1], 16) & expected for environment in WAYS.values()]
    require(masks == [0, expected], "handlers with a watcher and without:", masks)


def traces_are_whole():
    """What a signal ends has a whole trace, with a watcher and without one, also where the program has set the default again."""
    for command in [[ENDINGS, "after-sleep"], [sys.executable, "-c", PYTHON_DEFAULT]]:
        for way, environment in WAYS.items():
            trace = os.path.join(FOLDER, "signal.utrace")
            end(tracked(command, "--trace", trace), signal.SIGTERM, environment)
            require_whole(trace, command, way)
    print("traces of programs that a signal ends: ok")


def require_whole(trace, *facts):
    printed = subprocess.run([MEMLEDGER, "report", trace, "--format", "json"], capture_output=True, text=True)
    require(printed.stdout, *facts, "has no trace:", printed.stderr)
    report = json.loads(printed.stdout)
    # What V8 has beside blocks is another matter (scripts/check_doors.sh).
    is_whole = report["trace"]["coverage"]["word"] != "incomplete" or report["trace"]["ended"] and report["untracked"]["known"]
    require(is_whole, *facts, "is incomplete:", printed.stderr)
    os.remove(trace)
    return report


def last_threads():
    statuses = [end(tracked([ENDINGS, "last", "statuses-differ"]), None, environment)[2] for environment in WAYS.values()]
    require(statuses == [5, 5], "the status of the first thread:", statuses)
    hows = ["alone", "return", "exit", "detached", "cancel", "join", "many", "c11", "fork", "timer", "system-call", "system-call-alone"]
    compare([[ENDINGS, "last", how] for how in hows], [None], "programs whose last thread ends")
    for how in hows:
        for way, environment in WAYS.items():
            trace = os.path.join(FOLDER, "last.utrace")
            end(tracked([ENDINGS, "last", how], "--trace", trace, "--stacks"), None, environment)
            report = require_whole(trace, how, way)
            kept = [block["bytes"] for block in report["largest_live"]].count(1000003)
            require(kept == 1, how, way, "the block that is left:", kept)
    print("their traces: ok")


def crashes():
    """A crash at the first statement of main, and when the eighth thread starts: each has a report."""
    def one(job):
        number, what, way = job
        report = os.path.join(FOLDER, f"crash-{number}.json")
        environment = ENVIRONMENT | WAYS[way] | {
            "LD_PRELOAD": LIBRARY, "MEMLEDGER_REPORT_ON_SIGNALS": "1", "MEMLEDGER_REPORT": report}
        ended = subprocess.run([ENDINGS, what], env=environment, cwd=FOLDER, timeout=DEADLINE_S, capture_output=True, text=True)
        require(ended.returncode == -signal.SIGSEGV and not ended.stderr, what, way, ended)
        begin = time.monotonic()
        while True:
            text = open(report).read() if os.path.exists(report) else ""
            if text.endswith("}\n") or text.endswith("}"):
                break
            # A watcher writes it after the end.
            if way == "without one" or time.monotonic() - begin > DEADLINE_S:
                return f"{what} {way}: no report"
            time.sleep(0.005)
        os.remove(report)
        return None if json.loads(text)["trace"]["coverage"]["word"] != "incomplete" else f"{what} {way}: incomplete"

    for what in ["crash", "crash-in-eighth"]:
        for way in WAYS:
            with ThreadPoolExecutor(4) as pool:
                wrong = [line for line in pool.map(one, [(number, what, way) for number in range(CRASHES)]) if line]
            require(not wrong, len(wrong), "of", CRASHES, wrong[:3])
            print(f"{what}, {way}: {CRASHES} of {CRASHES} have a report: ok")


def inherited():
    """Closed descriptors and ignored signals are handed on."""
    show = ("import os, signal, sys\n"
            "fds = sorted(int(fd) for fd in os.listdir('/proc/self/fd') if int(fd) < 3 and os.path.exists('/proc/self/fd/' + fd))\n"
            "status = open('/proc/self/status').read()\n"
            "line = [line for line in status.splitlines() if line[:6] == 'SigIgn'][0]\n"
            "sys.__stdout__ and print(fds, line, flush=True)\n"
            "open(sys.argv[1], 'w').write(f'{fds} {line}')\n")
    # NOTE: by a shell, because `subprocess` and posix_spawn would change signals themselves; without the library, so that nothing
    # but the command is between.
    for closed in ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"]:
        for ignored in ["", "PIPE", "HUP PIPE"]:
            found = []
            for command in [[], [MEMLEDGER, "run", "--preload", "off", "--report", "off", "--"]]:
                path = os.path.join(FOLDER, "inherited.txt")
                script = f"{f'trap {chr(39)}{chr(39)} {ignored};' if ignored else ''} exec {closed}; exec \"$@\""
                end(["sh", "-c", script, "sh", *command, "/usr/bin/env", "-i", sys.executable, "-S", "-c", show, path])
                found.append(open(path).read())
                os.remove(path)
            require(found[0] == found[1], "closed", closed, "ignored", ignored, found)
    print("closed descriptors and ignored signals: ok")


checks = [actions, interpreters, traces_are_whole, last_threads, inherited, crashes]
for check in checks:
    if len(sys.argv) < 2 or check.__name__ in sys.argv[1:]:
        check()
