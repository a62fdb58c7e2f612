"""Runs the commands of pages, and compares what they print with what the pages have.

    check_docs.py FOLDER [--rewrite] PAGE...

Each page gets a copy of FOLDER to run in. A block ```console is a session: a line that begins with "$ " is a command, and what
follows is its output. The words are compared, wherever lines are wrapped. Figures differ from run to run, and so do the lines about
the resident memory and the shape over time, and how well the moment of the peak is known. A line "…" stands for any lines.
With --rewrite, the page gets the output of now, shortened at the same places.

Commands in tables (`memledger ...`) and in blocks ```sh run in a second copy, if they read a trace that is there or run ./program;
they must end well. Words in capitals, such as ADDR, stand for something that the reader knows, and other tools may be missing.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DEADLINE_S = 1200
# All pages together have more commands.
LEAST = 60
# The programs end in less than two seconds: on a busy machine, what is said of their times can differ.
TRIES = 3
MORE = "…"
FIGURE = re.compile(r"[+-]?\d[\d.,]*( ?(KiB|MiB|GiB|B|ms|s|%))?")
VARIES = ("  resident", "  over time")

TRACE = re.compile(r"\b(run|old|new)\.memledger\b")
PROGRAM = "-- ./program"
READING = re.compile(r"memledger (report|diff|query|leaks|info|events|export|symbolize) ")
RUNNING = re.compile(r"memledger run (?!.*(--top|--view|--preload))")
PIPED_TO = re.compile(r"\| *([\w-]+)")
PLACEHOLDER = re.compile(r"\b(ADDR|CHANNEL|FILE|FOLDER|DIR|HOST|ID|NAME|PID|PORT|SCOPE|TEXT|TIME|TRACE)\b")


def blocks(language):
    return re.compile(rf"(?<=^```{language}\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def words(lines):
    """The words without figures, and without lines that vary and their continuations."""
    kept, varies = "", False
    for line in lines:
        varies = line.startswith(VARIES) or varies and line.startswith(" " * 15)
        if line.startswith("  peak "):
            line = re.sub(r"(blocks?) .*", r"\1", line)
        if not varies:
            kept += " " + " ".join(line.split())
    # A line may end between a figure and its unit.
    return FIGURE.sub("#", kept).split()


def parts(output):
    """What is between the lines "…"."""
    found = [[]]
    for line in output:
        if line.strip() == MORE:
            found.append([])
        else:
            found[-1].append(line)
    return found


def is_shape_of(expected, printed):
    """Whether the parts of the expected output come in this order, the first at the start and the last at the end."""
    wanted, got = [words(part) for part in parts(expected)], words(printed)
    if len(wanted) == 1:
        return wanted[0] == got
    last = len(got) - len(wanted[-1])
    if got[: len(wanted[0])] != wanted[0] or wanted[-1] and got[last:] != wanted[-1]:
        return False
    at = len(wanted[0])
    for part in wanted[1:-1]:
        places = (place for place in range(at, last + 1) if got[place : place + len(part)] == part)
        place = next(places, None)
        if place is None:
            return False
        at = place + len(part)
    return at <= last


def rewritten(expected, printed):
    """The lines of the printed output that the expected output has."""
    found, last = parts(expected), len(parts(expected)) - 1
    if last == 0:
        return printed
    lines, at = [], 0
    for number, part in enumerate(found):
        if number > 0:
            lines.append(MORE)
        if not part:
            continue
        begins = FIGURE.sub("#", part[0]).split()[:3]
        places = (place for place in range(at, len(printed)) if FIGURE.sub("#", printed[place]).split()[:3] == begins)
        place = 0 if number == 0 else next(places, max(at, len(printed) - len(part)))
        at = len(printed) if number == last else place + len(part)
        lines += printed[place:at]
    return lines


def run(command, folder):
    return subprocess.run(["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, timeout=DEADLINE_S)


def session(block, folder, failed):
    """The same block with the output of now."""
    pieces = re.split(r"^(\$ .*)\n", block, flags=re.MULTILINE)[1:]
    now = ""
    for command, output in zip(pieces[::2], pieces[1::2]):
        expected = output.rstrip("\n").split("\n") if output.strip() else []
        text = run(command[2:], folder).stdout.rstrip("\n")
        printed = text.split("\n") if text else []
        if not is_shape_of(expected, printed):
            failed.append("\n".join([f"{command}\nprints", *printed, "and not", *expected]))
        now += "".join(line + "\n" for line in [command, *rewritten(expected, printed)])
    return now


def single_commands(text):
    """The commands of tables and of blocks ```sh that can run anywhere."""
    rows = [line for line in text.split("\n") if line.startswith("|")]
    found = [command.replace(r"\|", "|") for row in rows for command in re.findall(r"`(memledger [^`]*)`", row)]
    found += [line for block in blocks("sh").findall(text) for line in block.split("\n")]
    can_run = [command for command in found if READING.match(command) and TRACE.search(command)
               or RUNNING.match(command) and PROGRAM in command]
    is_missing = lambda command: PLACEHOLDER.search(command) or not all(map(shutil.which, PIPED_TO.findall(command)))
    return sorted({command for command in can_run if not is_missing(command)})


def check(page, text, prepared, rewrites):
    """Runs the commands of a page; returns how many, its text with the output of now, and what has failed."""
    with tempfile.TemporaryDirectory() as scratch:
        sessions, singles = (shutil.copytree(prepared, Path(scratch, name), symlinks=True) for name in ("one", "two"))
        failed = []
        now = blocks("console").sub(lambda block: session(block.group(), sessions, failed), text)
        commands = [] if rewrites else single_commands(text)
        for command in commands:
            ended = run(command.replace(PROGRAM, PROGRAM + " sources"), singles)
            # A condition in an example may hold.
            if ended.returncode not in ((0, 3) if "--fail-if" in command else (0,)):
                failed.append(f"{command}\nends with {ended.returncode}, and prints\n{ended.stdout}")
    count = sum(block.count("\n$ ") + 1 for block in blocks("console").findall(text)) + len(commands)
    return count, now, [f"{page}: {one}" for one in failed]


def main():
    prepared, *pages = sys.argv[1:]
    rewrites = pages[0] == "--rewrite"
    pages = pages[rewrites:]
    total, faults = 0, []
    for page in pages:
        text = Path(page).read_text(encoding="utf-8")
        for _ in range(1 if rewrites else TRIES):
            count, now, failed = check(page, text, prepared, rewrites)
            if not failed:
                break
        total += count
        if rewrites:
            Path(page).write_text(now, encoding="utf-8")
        elif count > 0:
            print(f"{page}: {count} commands, {len(failed)} of them with another result", flush=True)
            faults += failed
    if faults:
        print(*faults, sep="\n\n", file=sys.stderr)
        sys.exit("\n--rewrite writes what commands print to the pages")
    if len(pages) > 10 and not rewrites and total < LEAST:
        sys.exit(f"only {total} commands were found")


if __name__ == "__main__":
    main()
