"""Runs the commands of docs/start.md, and compares what they print with what the page has.

    check_start.py PAGE [--rewrite]

A block of the page is a session: a line that begins with "$ " is a command, and what follows is its output. Figures, and the
lines about the resident memory, differ from run to run and are not compared. A last line with "…" alone says that there is more.
With --rewrite, the page gets the output of now, as many lines of it as it had before "…".
"""

import re
import subprocess
import sys

DEADLINE_S = 120
MORE = "…"
FIGURE = re.compile(r"[+-]?\d[\d.,]*( ?(KiB|MiB|GiB|B|ms|s|%))?")


def words(line):
    return re.sub(r"\s+", " ", FIGURE.sub("#", line)).strip()


def comparable(lines):
    """The lines without figures; those about the resident memory are left out, with their continuations."""
    kept, of_resident = [], False
    for line in lines:
        of_resident = line.startswith("  resident") or of_resident and line.startswith(" " * 15)
        if not of_resident:
            kept.append(words(line))
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
        if comparable(shown) != comparable(expected):
            failed.append((command, expected, printed))
        now += "".join(line + "\n" for line in [command, *shown, *([MORE] if more else [])])
    return now


def main():
    page, rewrites = sys.argv[1], sys.argv[2:] == ["--rewrite"]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    failed = []
    blocks = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
    count = sum(block.count("\n$ ") + 1 for block in blocks.findall(text))
    now = blocks.sub(lambda block: session(block.group(), failed), text)
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
