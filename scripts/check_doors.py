"""The checks of scripts/check_doors.sh, which says what they are and sets the environment."""

import glob
import json
import os
import re
import signal
import subprocess
import sys

FOLDER, MEMLEDGER, LIBRARY, LIBRARIES = (os.environ[name] for name in ["folder", "memledger", "library", "libraries"])
DEADLINE_S = 300
# It holds in no program here, so it must not pass where figures are wrong.
CONDITION = "peak_bytes > 64GiB"
failures = []


def file(name):
    return os.path.join(FOLDER, name)


def run(command, *flags, preload=None, report=file("report.json"), outside=()):
    """The exit status, the text on stderr, and the report. `outside`: a command that runs the tool."""
    if os.path.exists(report):
        os.remove(report)
    environment = {"PATH": os.environ["PATH"], "HOME": FOLDER, "LC_ALL": "C.UTF-8"}
    environment |= {"LD_PRELOAD": preload} if preload else {}
    ended = subprocess.run(
        [*outside, MEMLEDGER, "run", "--preload", LIBRARY, "--report", report, "--fail-if", CONDITION, *flags, "--", *command],
        env=environment, cwd=FOLDER, timeout=DEADLINE_S, capture_output=True, text=True, errors="replace")
    return ended.returncode, ended.stderr, json.load(open(report)) if os.path.exists(report) else None


def check(name, condition, *facts):
    print("ok  " if condition else "FAIL", name, *facts)
    if not condition:
        failures.append(name)


def shown(status, report):
    untracked = report["untracked"]
    weighed = untracked["weighed"] or {}
    reasons = [(reason["kind"], reason["function"], os.path.basename(reason["file"])) for reason in untracked["reasons"]]
    return (f"status {status}, complete {report['trace']['complete']}, {report['totals']['peak_bytes']} bytes at the peak; "
            f"untracked {weighed.get('untracked_bytes')} of {weighed.get('rss_bytes')}, {reasons}")


def wrong(name, command, kind=None, preload=None, outside=()):
    """Figures of this program are wrong: it is said, and no condition passes. `kind`: of the reason."""
    status, err, report = run(command, preload=preload, outside=outside)
    if report is None:
        return check(name, False, "no report:", err)
    untracked, losses = report["untracked"], report["losses"]
    odd = losses["unmatched_frees"] + losses["duplicate_allocations"]
    is_said = untracked["known"] or odd > 0
    has_kind = kind is None or kind in [reason["kind"] for reason in untracked["reasons"]]
    # Where only so many bytes are missing, the condition is judged with them.
    kinds = {reason["kind"] for reason in report["trace"]["coverage"]["reasons"]}
    wanted = 0 if kinds <= {"unseen", "unseen_peak"} else 1
    check(name, is_said and has_kind and not report["trace"]["complete"] and status == wanted, shown(status, report), f"odd {odd}")
    if untracked["known"]:
        allowed, _, _ = run(command, "--allow-untracked", preload=preload, outside=outside)
        check(f"{name}, --allow-untracked", allowed == (1 if odd else 0), f"status {allowed}")


def right(name, command, preload=None, tries=1):
    """Figures of this program are right, so nothing is said."""
    for _ in range(tries):
        status, err, report = run(command, preload=preload)
        if report is not None and report["trace"]["complete"]:
            break
    if report is None:
        return check(name, False, "no report:", err)
    untracked = report["untracked"]
    check(name, not untracked["known"] and report["trace"]["complete"] and status == 0, shown(status, report), report["losses"] if not report["trace"]["complete"] else "")
    check(f"{name}, weighed", untracked["weighed"] is not None)


def blocks(report):
    """The figures of the blocks of allocators, without what these map."""
    return next((heap for heap in report.get("by_heap", []) if heap["name"] == "C"), report["totals"])


def exact(name, command, *arguments, preload=None, reallocates=True, outside=()):
    """A program that counts itself: what the report has of 1,000 rounds beyond that of none is its count, with and without stacks.
    `reallocates`: its allocator does so by itself, and not by an allocation and a free."""
    for flags in [(), ("--stacks",)]:
        status, err, report = run([*command, "1000", *arguments], *flags, preload=preload, outside=outside)
        _, _, none = run([*command, "0", *arguments], *flags, preload=preload, outside=outside)
        if report is None or none is None:
            check(name, False, "no report:", err)
            continue
        ended = subprocess.run([*outside, *command, "1000", *arguments], capture_output=True, text=True, timeout=DEADLINE_S,
                               env=dict(os.environ, LD_PRELOAD=preload or ""))
        wanted = [int(number) for number in ended.stdout.split()[:5]]
        if not reallocates:
            wanted = [wanted[0] + wanted[2], wanted[1] + wanted[2], 0, *wanted[3:]]
        fields = ["allocations", "frees", "reallocations", "live_bytes", "live_blocks"]
        got = [blocks(report)[field] - blocks(none)[field] for field in fields]
        is_right = got == wanted and report["trace"]["coverage"]["word"] != "incomplete" and status == 0 and not report["untracked"]["known"]
        check(" ".join([name, *flags]), is_right, got, "" if is_right else f"wanted {wanted}; {shown(status, report)} {report['losses']}")


def library(name):
    return os.path.join(LIBRARIES, name)


def peers():
    """The allocations that memledger, heaptrack and DHAT see of programs that count themselves, as a table: of 1,000 rounds beyond those of none."""
    def started(command, preload=None):
        environment = {"PATH": os.environ["PATH"], "HOME": FOLDER} | ({"LD_PRELOAD": preload} if preload else {})
        process = subprocess.Popen(command, cwd=FOLDER, env=environment, text=True, start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            return process.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise

    def memledger(command, preload):
        totals = run(command, preload=preload)[2]["totals"]
        return totals["allocations"] + totals["reallocations"]

    def heaptrack(command, preload):
        for old in glob.glob(file("heaptrack.*")):
            os.remove(old)
        started(["heaptrack", "-o", file("heaptrack"), *command], preload)
        printed = [started(["heaptrack_print", found])[0] for found in glob.glob(file("heaptrack.*"))]
        return int(re.search(r"calls to allocation functions: (\d+)", printed[0])[1])

    def dhat(command, preload):
        _, err = started(["valgrind", "--tool=dhat", "--dhat-out-file=/dev/null", *command], preload)
        return int(re.search(r"Total: +[\d,]+ bytes in ([\d,]+) blocks", err)[1].replace(",", ""))

    def seen(tool, command, preload):
        try:
            counts = [tool([command, rounds, "no_throw"], preload) for rounds in ["1000", "0"]]
            return f"{counts[0] - counts[1]:,}"
        except subprocess.TimeoutExpired:
            return "does not end"
        except (TypeError, IndexError):
            return "no figure"

    print("| program | its own count | memledger | heaptrack | DHAT |\n|---|---|---|---|---|")
    programs = [("operators", None), ("named", "jemalloc.so.2"), ("named", "mimalloc.so.2"), ("named", "tcmalloc_minimal.so.4")]
    programs += [("operators", name) for name in ["jemalloc.so.2", "tcmalloc_minimal.so.4", "mimalloc.so.2"]]
    programs += [(name, None) for name in ["operators_jemalloc", "operators_tcmalloc_minimal", "rust_mimalloc", "rust_tikv-jemallocator"]]
    for name, below in programs:
        preload = library(f"lib{below}") if below else None
        own = started([file(name), "1000", "no_throw"], preload)[0].split()
        cells = [seen(tool, file(name), preload) for tool in [memledger, heaptrack, dhat]]
        print(f"| {name}{f', lib{below} preloaded' if below else ''} | {int(own[0]) + int(own[2]):,} | {' | '.join(cells)} |", flush=True)


if "--peers" in sys.argv:
    peers()
    sys.exit()

rustc = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
open(file("hello.rs"), "w").write('fn main() { println!("hello"); }\n')

for name in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"]:
    # Debian's mimalloc ends the program where `new` is to throw.
    arguments = ["no_throw"] if "mimalloc" in name else []
    exact(f"new of {name}", [file("operators")], *arguments, preload=library(name))
    exact(f"functions of {name}", [file("named")], preload=library(name))
    # Debian's jemalloc cannot be opened: its thread-local memory is static.
    if "jemalloc" not in name:
        exact(f"functions of {name}, opened later", [file("named")], library(name))
    right(f"malloc of {name}", [file("calls")], library(name))
right("new of a library that is linked", [file("new_jemalloc")])
for name in ["jemalloc", "tcmalloc_minimal"]:
    exact(f"new of a static {name}", [file(f"operators_{name}")])
    exact(f"functions of a static {name}", [file(f"named_{name}")])
    exact(f"a static {name} without symbols", [file(f"stripped_{name}")])
# `PR_SET_MDWE`: no page becomes executable that was not (Linux 6.3), as systemd's `MemoryDenyWriteExecute` has it.
forbid = ("import ctypes, os, sys\n"
          "if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0: sys.exit('PR_SET_MDWE is not there')\n"
          "os.execv(sys.argv[1], sys.argv[1:])")
wrong("a static jemalloc where code cannot be changed", ["python3", "-c", forbid, file("operators_jemalloc"), "20000"], "allocator")
status, err, report = run([file("reopens"), file("reopened.so"), "200"])
of_none = run([file("reopens"), file("reopened.so"), "0"])[2]
live = [blocks(report)[field] - blocks(of_none)[field] for field in ["live_blocks", "live_bytes"]]
# The loader keeps a few blocks of its own where several threads open libraries at once.
is_right = 8000 <= live[0] < 8010 and 320000 <= live[1] < 330000
check("a library that four threads open and close", is_right and report["trace"]["complete"], live, shown(status, report))
wrong("a library that starts a thread", [file("reopens"), file("threaded.so"), "1"], "allocator")

# Handlers of forks, of the allocator and of the tracker, whose children go on recording.
for preload, name in [(None, "forks"), (library("libjemalloc.so.2"), "forks"), (None, "forks_jemalloc")]:
    status, err, _ = run([file(name)], "--follow-children", preload=preload, report=file("forked.%p.json"))
    reports = [json.load(open(found)) for found in glob.glob(file("forked.*.json"))]
    frees = sorted(blocks(report)["frees"] >= 100 for report in reports)
    complete = all(report["trace"]["coverage"]["word"] != "incomplete" for report in reports)
    check(f"{name}, {preload}", status == 0 and complete and frees == [False] + [True] * 10, f"status {status}, complete {complete}", frees, err)
    for found in glob.glob(file("forked.*.json")):
        os.remove(found)

right("rustc", [os.path.join(rustc, "bin/rustc"), "hello.rs"])
for crate in ["mimalloc", "tikv-jemallocator", "rpmalloc"]:
    if os.path.exists(file(f"rust_{crate}")):
        exact(f"Rust with {crate}", [file(f"rust_{crate}")], reallocates=crate != "rpmalloc")
wrong("Go", [file("go_program")], "go")
wrong("memory of the system", [file("maps")])

right("RTLD_DEEPBIND", [file("host"), file("plugin.so")])
live = json.load(open(file("report.json")))["largest_live"]
check("RTLD_DEEPBIND, blocks", not {50, 100, 200, 300} & {block["bytes"] for block in live}, live)
wrong("RTLD_DEEPBIND, blocks of constructors", [file("host"), file("early_plugin.so")])

# glibc's own functions, by a handle of its library.
exact("functions of a handle", [file("handles")])
right("functions of a handle, below another allocator", [file("handles"), "1000", "apart"], preload=library("libjemalloc.so.2"))
python = ("import ctypes; l = ctypes.CDLL('libc.so.6'); l.strdup.restype = ctypes.c_void_p; l.free.argtypes = [ctypes.c_void_p]\n"
          "v = [l.strdup(b'x' * 999) for i in range(5000)]\n"
          "for p in v: l.free(p)")
right("ctypes", ["/usr/bin/python3", "-c", python])
live = blocks(json.load(open(file("report.json"))))["live_bytes"]
check("ctypes, live at the end", live < 1 << 20, live)

# Allocators that have prefixes of their own. Debian's code of jemalloc needs static thread-local memory, of which the loader keeps little for later.
for name in ["own_jemalloc", "own_mimalloc"]:
    if os.path.exists(file(name)):
        exact(f"{name}, preloaded", [file(name)], preload=file(f"{name}.so"))
        exact(f"{name}, in the program", [file(f"{name}_static")])
        exact(f"{name}, opened later", [file(name)], file(f"{name}.so"), outside=["env", "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192"])
right("names of an allocator that is none", [file("own_jemalloc"), "1000", file("no_jemalloc.so")])
count = blocks(json.load(open(file("report.json"))))["allocations"]
check("names of an allocator that is none, allocations", count < 500, count)

# Without /proc, the program's file is found by the path, or else that is said.
no_proc = ["unshare", "-m", "sh", "-c", 'umount -l /proc && exec "$@"', "sh"]
if subprocess.run([*no_proc, "true"], capture_output=True).returncode == 0:
    for name in ["jemalloc", "tcmalloc_minimal"]:
        exact(f"a static {name} without /proc", [file(f"named_{name}")], outside=no_proc)
        exact(f"functions of lib{name} without /proc", [file("named")], preload=glob.glob(library(f"lib{name}.so.*"))[0], outside=no_proc)
    memory_file = ("import os, sys; f = os.memfd_create('it'); os.write(f, open(sys.argv[1], 'rb').read())\n"
                   "os.execve(f, ['it', '1000'], os.environ)")
    wrong("a file of memory without /proc", ["python3", "-c", memory_file, file("named_jemalloc")], "unreadable", outside=no_proc)
else:
    print("skipped: mounts cannot be changed here, so /proc cannot be taken away")

right("each function", [file("calls")])
right("a library that makes one function of another", [file("calls")], preload=file("between.so"))
right("a malloc that calls calloc", [file("calls")], preload=file("calloc.so"))
right("new", [file("new")])
# On a busy machine a reading of its memory can come 10 ms of its growth (11 MiB, 1 %) before the blocks that explain it: seen once in 40.
right("1 GiB of small blocks, freed", [file("freed")], tries=2)
right("a fixed address", [file("fixed")])
for command in [
        ["bash", "-c", "x=; for i in {1..20000}; do x+=$i; done"],
        ["python3", "-c", "x = [str(i) for i in range(300000)]; del x"],
        ["git", "-C", os.getcwd(), "--no-pager", "log", "--stat", "-50"],
        ["sqlite3", ":memory:", "create table t(a); with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) insert into t select i from n; select count(*) from t"],
        ["gcc", "-O2", "-c", "-o", "/dev/null", os.path.join(os.getcwd(), "tests/doors/calls.c")],
        ["perl", "-e", "my @x = map { 'a' . $_ } 1 .. 300000; undef @x"],
        ["g++", "-fsyntax-only", os.path.join(os.getcwd(), "tests/doors/new.cpp")],
        ["sort", "-R", "/usr/share/dict/words"] if os.path.exists("/usr/share/dict/words") else ["sort", "/etc/passwd"],
        ["xz", "-kc", LIBRARY],
        ["openssl", "speed", "-seconds", "1", "sha256"],
        ["awk", "BEGIN { for (i = 0; i < 200000; i++) x[i] = i }"],
]:
    right(" ".join(command)[:40], command)

# What V8 has in no block is more or less than 5 %.
status, err, report = run(["node", "-e", "let x = []; for (let i = 0; i < 1e5; i++) x.push({ i })"])
known, complete = report["untracked"]["known"], report["trace"]["complete"]
check("node", known != (report["trace"]["coverage"]["word"] != "incomplete") and (not known or status == 1), shown(status, report))

sys.exit(f"{len(failures)} failed: {', '.join(failures)}" if failures else 0)
