#!/usr/bin/env python3
"""What `memledger top` costs a program that does little but allocate (examples/busy_scopes.rs), beside a report in process.

    scripts/top_cost.py [--rounds N] [--millions N] [--programs FOLDER]

Runs the program in turns: with a report in process and nobody beside it, with a control server that nobody asks, with
`memledger top` at that server, and under `memledger run --top`. `top` has a terminal of 100 x 40 characters. Prints for each
the medians of the time by the clock, of the processor's time of the thread that allocates, and of that of all threads of
the program, and their ratios to a report in process: only these count, and only within one run of this script.
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINE = re.compile(rb"(\d+\.\d{3}) (\d+\.\d{3}) (\d+\.\d{3})\r?\n")
FIGURES = ("by the clock", "its thread", "all its threads")
BASE = "report in process"


@contextlib.contextmanager
def terminal():
    """A terminal, its other end, and what is written to it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    written = bytearray()

    def drain():
        with contextlib.suppress(OSError):
            while data := os.read(master, 65536):
                written.extend(data)

    reader = threading.Thread(target=drain)
    reader.start()
    yield slave, master, written
    os.close(slave)
    reader.join()
    os.close(master)


def figures_of(out, how):
    found = LINE.search(out)
    if not found:
        sys.exit(f"{how}: the program printed no figures: {bytes(out[-400:])!r}")
    return [float(figure) for figure in found.groups()]


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def run_alone(program, variables, how, beside=None):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMLEDGER_")} | variables
    running = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with beside() if beside else contextlib.nullcontext():
        out, _ = running.communicate()
    return figures_of(out, how)


@contextlib.contextmanager
def top_at(memledger, port, screens):
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"nobody listens at port {port}")
            time.sleep(0.001)
    with terminal() as (slave, _, written):
        top = subprocess.Popen([memledger, "top", str(port)], stdin=slave, stdout=slave, stderr=slave)
        yield
        top.terminate()
        top.wait()
    screens.append(bytes(written))


def has_children(pid):
    children = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    with contextlib.suppress(OSError):
        return any(path.read_text().strip() for path in children)
    return True


def under_top(memledger, program, how):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMLEDGER_")}
    command = [memledger, "run", "--top", "--report", "off", "--", *program]
    with terminal() as (slave, master, written):
        running = subprocess.Popen(command, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        while not has_children(running.pid) and running.poll() is None:
            time.sleep(0.01)
        # What the program prints comes when the screen is closed, which stays after the program's end.
        while running.poll() is None:
            if not has_children(running.pid):
                os.write(master, b"q")
            time.sleep(0.05)
    return figures_of(written, how)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--millions", type=int, default=10)
    parser.add_argument("--programs", type=pathlib.Path, help="a folder with memledger and examples/busy_scopes; without it, they are built")
    arguments = parser.parse_args()
    folder = arguments.programs
    if not folder:
        subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "memledger-cli", "--bin", "memledger"], cwd=ROOT, check=True)
        subprocess.run(["cargo", "build", "--quiet", "--release", "--example", "busy_scopes"], cwd=ROOT, check=True)
        folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    memledger, program = folder / "memledger", [folder / "examples/busy_scopes", str(arguments.millions)]
    screens = []
    with tempfile.TemporaryDirectory() as out:
        report = {"MEMLEDGER_REPORT": f"{out}/report.txt"}

        def control(beside):
            port = free_port()
            return {"MEMLEDGER_REPORT": "off", "MEMLEDGER_CONTROL": str(port)}, (lambda: top_at(memledger, port, screens)) if beside else None

        ways = {
            BASE: lambda how: run_alone(program, report, how),
            "a control server": lambda how: run_alone(program, control(False)[0], how),
            "memledger top": lambda how: run_alone(program, *(lambda made: (made[0], how, made[1]))(control(True))),
            "memledger run --top": lambda how: under_top(memledger, program, how),
        }
        figures = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, run in ways.items():
                figures[way].append(run(way))
    shown = sum(b"busy_scopes" in screen for screen in screens)
    if shown < len(screens):
        sys.exit(f"the screen of top showed the program in {shown} of {len(screens)} runs")
    print(f"{arguments.millions} million blocks, {arguments.rounds} rounds; seconds, and the ratio to a report in process")
    print(f"{'':22}" + "".join(f"{name:>24}" for name in FIGURES))
    for way, runs in figures.items():
        cells = []
        for at in range(len(FIGURES)):
            median = statistics.median(run[at] for run in runs)
            ratio = statistics.median(run[at] / base[at] for run, base in zip(runs, figures[BASE]))
            cells.append(f"{median:14.2f}  {ratio:8.2f}")
        print(f"{way:22}" + "".join(cells))


if __name__ == "__main__":
    main()
