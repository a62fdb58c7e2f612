"""The comparison of scripts/check_transparency.sh, which says what it is and sets the environment."""

import difflib
import fnmatch
import functools
import multiprocessing
import os
import re
import shutil
import sys

import process
import programs
from known import KNOWN

BASE, MEMLEDGER, LIBRARY, PROBE, RUST = (os.environ[name] for name in ["base", "memledger", "library", "probe", "rust"])
ENVIRONMENT = {
    "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "vt100", "PERL_HASH_SEED": "0", "PYTHONHASHSEED": "0", "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z", "MAN_DISABLE_SECCOMP": "1", "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", ""),
    "CARGO_HOME": os.environ.get("CARGO_HOME", ""), "SOURCE_DATE_EPOCH": "0",
}
# What V8, Go and the like have beside malloc would be said after the end.
RUN = [MEMLEDGER, "run", "--preload", LIBRARY, "--report", "off", "--allow-untracked"]
# The start of the command line, and whether signals go to the command, which passes them on.
MODES = {"run": ([*RUN, "--"], True), "stacks, children": ([*RUN, "--stacks", "--follow-children", "--"], False)}
PLANTED = ["handler", "descriptor", "line", "mask", "right", "file", "child", "status"]
# How often a program is asked alone whether a difference is its own.
OWN_RUNS = 3
# How much of a difference is shown.
MOST_LINES = 12
ALL = object()


def run(case, event, mode, number, is_same=None):
    """What is seen of one run; `mode` is one of MODES, the name of what is planted, or None for the program alone."""
    launch, through = MODES.get(mode, ([], False))
    environment = dict(ENVIRONMENT)
    if mode in PLANTED:
        environment["LD_PRELOAD"] = f"{BASE}/planted-{mode}.so"
    seen = process.Run(case, event, launch, environment, f"{BASE}/{number}", through, is_same).go()
    return all_normal(seen)


def all_normal(seen):
    numbers = {}
    return {normal(name, {}): normal(value, numbers) for name, value in seen.items()}


def normal(text, numbers):
    """Numbers of pipes and the like in the order in which they come. What no two runs have in common is named here."""
    text = re.sub(r"\b(pipe|socket|mnt|net|pid|user|cgroup|ipc|uts|time):\[(\d+)\]",
                  lambda found: f"{found[1]}:[#{numbers.setdefault(found[0], len(numbers))}]", text)
    text = re.sub(r"/dev/pts/\d+", "/dev/pts/#", text)
    # glibc handles signal 33 in each program with threads; see docs/faults.md.
    text = re.sub(r"\b(cc|pp)\w{6}(?=\.|$)", r"\1######", text)
    text = re.sub(r"^_=\*\d+\*", "_=*#*", text, flags=re.M)
    text = re.sub(r"\d\d \w{3} \d{4} \d\d:\d\d:\d\d", "(time)", text)
    return re.sub(r"^( ?Sig(?:Cgt|Ign):\s*)?([0-9a-f]{16})$", unthreaded, text, flags=re.M)


def unthreaded(found):
    return f"{found[1] or ''}{int(found[2], 16) & ~(1 << 32):016x}"


def words(text):
    return [re.split(r"(\W+)", line) for line in text.split("\n")]


def mask_of(one, other, mask):
    """Adds to `mask` what differs between two runs of a program alone: words of lines where the shape is the same, else all."""
    for name in one.keys() | other.keys():
        first, second = one.get(name), other.get(name)
        if first == second or mask.get(name) is ALL:
            continue
        if first is None or second is None:
            mask[name] = ALL
            continue
        first, second = words(first), words(second)
        if [len(line) for line in first] != [len(line) for line in second]:
            mask[name] = ALL
            continue
        differing = mask.setdefault(name, set())
        for line, (left, right) in enumerate(zip(first, second)):
            differing.update((line, word) for word, (a, b) in enumerate(zip(left, right)) if a != b)


def masked(text, places):
    if text is None or not places:
        return text
    lines = words(text)
    for line, word in places:
        if line < len(lines) and word < len(lines[line]):
            lines[line][word] = "*"
    return "\n".join("".join(line) for line in lines)


def differences(alone, tracked, mask):
    """What differs, by name: both values."""
    found = {}
    for name in sorted(alone.keys() | tracked.keys()):
        places = mask.get(name, ())
        # NOTE: of one that has ended, only that is told.
        has_ended = "ready: has ended" in alone.keys() ^ tracked.keys() and name.startswith("ready: process")
        if places is ALL or has_ended:
            continue
        values = masked(alone.get(name), places), masked(tracked.get(name), places)
        if values[0] != values[1]:
            found[name] = values
    return found


def compare(case, event, modes, number):
    """What is seen of the program alone, the differences of each mode with the known ones, and the mask."""
    alone = run(case, event, None, number)
    mask = {}
    mask_of(alone, run(case, event, None, number), mask)
    found = {}

    def is_same(mode, where, seen):
        def there(all_seen):
            return {name: value for name, value in all_seen.items() if name.startswith(where)}

        return not split(case.name, event, mode, differences(there(alone), there(all_normal(seen)), mask))[0]

    for mode in modes:
        tracked = run(case, event, mode, number, functools.partial(is_same, mode) if mode in MODES else None)
        # Whether the program does so alone, too: it only has to do it once.
        for _ in range(OWN_RUNS):
            unknown, used = split(case.name, event, mode, differences(alone, tracked, mask))
            if not unknown or mode in PLANTED:
                break
            again = run(case, event, None, number)
            mask_of(alone, again, mask)
            for name in unknown:
                if mask.get(name) is not ALL and masked(again.get(name), mask.get(name, ())) == masked(tracked.get(name), mask.get(name, ())):
                    mask[name] = ALL
        found[mode] = split(case.name, event, mode, differences(alone, tracked, mask))
    return alone, found, mask


def work(number, jobs, queue, results):
    process.adopt_orphans()
    while True:
        job = queue.get()
        if job is None:
            return
        case, event, modes = jobs[job]
        try:
            results.put((case.name, event, *compare(case, event, modes, number)))
        except Exception as error:  # It is told, and fails the check.
            results.put((case.name, event, {}, {"alone": ({"the check": [repr(error)]}, {})}, {}))


def compare_all(jobs):
    """The results of all jobs, two at a time."""
    context = multiprocessing.get_context("fork")
    queue, results = context.Queue(), context.Queue()
    for job in range(len(jobs)):
        queue.put(job)
    workers = [context.Process(target=work, args=(number, jobs, queue, results)) for number in range(2)]
    for worker in workers:
        queue.put(None)
        worker.start()
    for _ in jobs:
        yield results.get()
    for worker in workers:
        worker.join()


def changed(values):
    """The lines that only one of two values has, each after its sign."""
    first, second = ([] if value is None else value.splitlines() for value in values)
    # NOTE: lines that come often, as those of limits, are no junk.
    steps = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    lines = []
    for kind, begin, end, other_begin, other_end in steps:
        if kind != "equal":
            lines += [f"-{line}" for line in first[begin:end]] + [f"+{line}" for line in second[other_begin:other_end]]
    return lines or ["-(nothing)" if values[0] is None else "+(nothing)"]


def split(name, event, mode, differing):
    """The differences without those that are known, each with its lines, and the lines of the known ones by their numbers."""
    unknown, used = {}, {}
    for what, values in differing.items():
        for line in changed(values):
            number = None if mode in PLANTED else known(name, event, mode, what, line)
            if number is None:
                unknown.setdefault(what, []).append(line)
            else:
                used.setdefault(number, []).append(f"{what}: {line}")
    return unknown, used


def known(name, event, mode, what, line):
    for number, (program, modes, events, where, lines, _) in enumerate(KNOWN):
        patterns = [(name, program), (mode, modes), (event, events), (what, where), (line, lines)]
        if all(re.fullmatch(pattern, text) for text, pattern in patterns):
            return number
    return None


def shown(lines):
    more = [f"      and {len(lines) - MOST_LINES} lines"] if len(lines) > MOST_LINES else []
    return "\n".join([f"      {line[:200]}" for line in lines[:MOST_LINES]] + more)


def find_planted():
    """The comparison finds what a library plants, which is no tracker."""
    reads = programs.Case("planted", ["cat"], ["cat"])
    for _, _, _, found, _ in compare_all([(reads, "TERM", PLANTED)]):
        expected = {
            "handler": "SigCgt", "descriptor": "descriptor 3", "line": "stderr", "mask": "SigBlk", "right": "CapBnd", "file": "file work/planted",
            "child": "left", "status": "Umask",
        }
        for planted, where in expected.items():
            differing = found.get(planted, ({}, {}))[0]
            if not any(where in what for what in differing):
                sys.exit(f"a planted {planted} is not found: {differing}")
    print(f"{len(PLANTED)} planted differences are found")


def main():
    is_short = "--short" in sys.argv
    wanted = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith("--event=")]
    patterns = [word for word in sys.argv[1:] if not word.startswith("--")]
    find_planted()
    jobs = []
    for case in programs.cases(PROBE) + programs.rust_cases(RUST):
        events = [event for event in programs.EVENTS if event not in case.without]
        events = [event for event in events if case.waits or event not in programs.SIGNALS]
        if is_short:
            events = [event for event in events if event in case.short]
        events = [event for event in events if not wanted or event in wanted]
        if patterns and not any(fnmatch.fnmatchcase(case.name, pattern) for pattern in patterns):
            continue
        # NOTE: the short form installs nothing.
        if is_short and events and not shutil.which(case.ends[0]):
            print(f"left out, because it is not there: {case.name}")
            continue
        jobs += [(case, event, [] if "--alone" in sys.argv else list(MODES)) for event in events]
    failed, used, masks, count = [], {}, {}, 0
    for name, event, alone, by_mode, mask in compare_all(jobs):
        count += 1
        for what in alone:
            if what in ("hangs", "ready: has ended"):
                failed.append(f"{name} x {event}: alone, {what}: {alone[what]}")
        for what, places in mask.items():
            masks.setdefault(what, set()).add(f"{name} x {event}")
        for mode, found in by_mode.items():
            unknown, of_mode = found
            for number, lines in of_mode.items():
                used.setdefault(number, {})[f"{name} x {event} x {mode}"] = lines
            for what, lines in unknown.items():
                failed.append(f"{name} x {event} x {mode}: {what}\n{shown(lines)}")
                print(failed[-1], flush=True)
    for what, where in sorted(masks.items()):
        print(f"masked, because the program alone varies: {what} of {len(where)}: {', '.join(sorted(where)[:3])}")
    if not (is_short or patterns or wanted):
        failed += [f"a known difference has gone, so take it out: {entry}" for number, entry in enumerate(KNOWN) if number not in used]
    print(f"{count} comparisons of {len({job[0].name for job in jobs})} programs with {len(MODES)} modes each: {len(failed)} differ")
    for number in sorted(used):
        print(f"known: {KNOWN[number][-1]}: {', '.join(sorted({run.rpartition(' x ')[0] for run in used[number]}))}")
        if "--known" in sys.argv:
            print("\n".join(f"  {run}: {line[:200]}" for run, lines in sorted(used[number].items()) for line in lines))
    shutil.rmtree(f"{BASE}/0", ignore_errors=True)
    if failed:
        sys.exit("\n".join(["", *failed]))


main()
