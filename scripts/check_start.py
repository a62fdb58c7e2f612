"""Runs the commands of docs/start.md, and compares what they print with what the page has.

    check_start.py PAGE [--rewrite]

A block of the page is a session: a line that begins with "$ " is a command, and what follows is its output. The words are compared.
Figures, where lines are wrapped, the lines about the resident memory and the shape over time, and how well the moment of the peak
is known, differ from run to run. A last line with "…" alone says that there is more.
With --rewrite, the page gets the output of now, as many lines of it as it had before "…".
"""

import re
import subprocess
import sys

DEADLINE_S = 120
# These programs end in less than two seconds: on a busy machine, what is said of their times can differ.
TRIES = 3
MORE = "…"
FIGURE = re.compile(r"[+-]?\d[\d.,]*( ?(KiB|MiB|GiB|B|ms|s|%))?")


VARIES = ("  resident", "  over time", "  by whom")


def words(lines):
    """The words without figures, and without lines that vary and their continuations."""
    kept, varies = [], False
    for line in lines:
        varies = line.startswith(VARIES) or varies and line.startswith(" " * 15)
        if line.startswith("  peak "):
            line = re.sub(r"(blocks?) .*", r"\1", line)
        if not varies:
            kept += FIGURE.sub("#", line).split()
    return kept


def run(command):
    ended = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           stdin=subprocess.DEVNULL, timeout=DEADLINE_S)
    return ended.stdout.rstrip("\n").split("\n")


def session(block, failed):
    """The same block with the output of now."""
    parts = re.split(r"^(\$ .*)\n", block, flags=re.MULTILINE)[1:]
    now = ""
    for command, output in zip(parts[::2], parts[1::2]):
        expected = output.rstrip("\n").split("\n") if output.strip() else []
        more = expected[-1:] == [MORE]
        if more:
            expected.pop()
        printed = run(command[2:])
        if not any(printed):
            printed = []
        shown = printed[:len(expected)] if more else printed
        wanted, got = words(expected), words(printed)
        if wanted != (got[:len(wanted)] if more else got):
            failed.append((command, expected, printed))
        now += "".join(line + "\n" for line in [command, *shown, *([MORE] if more else [])])
    return now


def main():
    page, rewrites = sys.argv[1], sys.argv[2:] == ["--rewrite"]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    blocks = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
    count = sum(block.count("\n$ ") + 1 for block in blocks.findall(text))
    for _ in range(1 if rewrites else TRIES):
        failed = []
        now = blocks.sub(lambda block: session(block.group(), failed), text)
        if not failed:
            break
    if rewrites:
        with open(page, "w", encoding="utf-8") as file:
            file.write(now)
        return
    for command, expected, printed in failed:
        print(command, "prints", *printed, "and not", *expected, sep="\n", file=sys.stderr)
    if failed or count < 20:
        sys.exit(f"{len(failed)} of {count} commands of {page} print something else; --rewrite writes it there")
    print(f"{count} commands of {page} print what it says")


main()
