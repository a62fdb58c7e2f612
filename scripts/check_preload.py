"""The checks of scripts/check_preload.sh, which says what they are and sets the environment."""

import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

FOLDER, MEMLEDGER, LIBRARY = (os.environ[name] for name in ["folder", "memledger", "library"])
# The same in all runs of a program, so that they allocate the same.
ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": FOLDER, "PERL_HASH_SEED": "0"}
# A program that hangs is a failure.
DEADLINE_S = 300


def file(name):
    return os.path.join(FOLDER, name)


def program(command, **environment):
    return subprocess.run(
        command, env=ENVIRONMENT | environment, cwd=FOLDER, timeout=DEADLINE_S, capture_output=True, text=True,
        errors="replace")


def tracked(command, *flags, **environment):
    """The end of a program under `memledger run`, and its report."""
    report = file("report.json")
    if os.path.exists(report):
        os.remove(report)
    run = [MEMLEDGER, "run", "--preload", LIBRARY, "--report", report, *flags, "--", *command]
    ended = program(run, **environment)
    return ended, json.load(open(report)) if os.path.exists(report) else None


def require(condition, *facts):
    if not condition:
        sys.exit(" ".join(str(fact) for fact in facts))


def is_untracked(report):
    return report["trace"]["ended"] and report["untracked"]["known"]


def require_complete(command, ended, report):
    require(report is not None, command, "has no report:", ended)
    # What V8 or an allocator below has beside blocks is another matter (scripts/check_doors.sh).
    require(report["trace"]["coverage"]["word"] != "incomplete" or is_untracked(report), command, "is incomplete:", report["losses"])
    # Stacks in a library that was just loaded are another matter.
    losses = {name: value for name, value in report["losses"].items() if value and not name.startswith("stacks_")}
    require(not losses, command, "has losses:", losses)


def of_malloc(report):
    """The figures of the heap of malloc. A report of one heap has no others."""
    return next((heap for heap in report.get("by_heap", []) if heap["name"] == "C"), report["totals"])


def functions():
    for stacks in ["off", "on"]:
        ended, report = tracked([file("hostile"), "functions"], f"--stacks={stacks}")
        require_complete("functions", ended, report)
        found = [of_malloc(report)[name] for name in
                 ["allocations", "frees", "reallocations", "allocated_bytes", "live_bytes"]]
        require(found == [10, 9, 2, 106147, 1], "the functions of malloc gave", found)
    print("each function of malloc: ok")


def hostile():
    for stacks in ["off", "on"]:
        for case in [["forks"], ["libraries", FOLDER, "100"], ["threads", FOLDER, "100"], ["handlers"]]:
            command = [file("hostile"), *case]
            alone = program(command)
            ended, report = tracked(command, f"--stacks={stacks}")
            require(ended.returncode == alone.returncode == 0, case, ended.returncode, ended.stderr)
            require(ended.stdout == alone.stdout, case, "printed", ended.stdout)
            require_complete(case, ended, report)
    print("forks, thread-local values, libraries and signals: ok")


def ends():
    """Forked children that end by _exit have whole traces."""
    run = [MEMLEDGER, "run", "--preload", LIBRARY, "--follow-children", "--report", file("ends-%p.json"), "--"]
    ended = program([*run, file("hostile"), "ends"])
    require(ended.returncode == 0 and ended.stdout == "20 children\n", "ends", ended)
    reports = [json.load(open(name)) for name in glob.glob(file("ends-*.json"))]
    for report in reports:
        require_complete("ends", ended, report)
    kept = sorted([block["bytes"] for block in report["largest_live"]].count(12345) for report in reports)
    require(kept == [0] + 20 * [10], "the blocks of children:", kept)
    print("children that end by _exit: ok")


def numbers():
    """A file to work on."""
    with open(file("numbers"), "w") as out:
        out.writelines(f"{number * 7919 % 200003}\n" for number in range(200000))
    return file("numbers")


def programs():
    path = numbers()
    return [
        ["sort", path], ["gzip", "-kc", path], ["xz", "-T1", "-kc", path], ["xz", "-T2", "-kc", path],
        ["mawk", "{ of[$1] = $1 } END { print length(of) }", path], ["sed", "s/1/2/", path],
        ["grep", "-c", "9", path], ["find", "/usr/share/doc", "-name", "*.gz"],
        ["tar", "cf", "-", "/usr/include/linux"], ["diff", path, "/etc/passwd"], ["openssl", "version", "-a"],
        ["sqlite3", ":memory:", "select 1"],
        ["perl", "-e", "my %of; $of{$_} = $_ x 3 for 1 .. 20000; print scalar keys %of"],
    ]


def report_of(trace):
    printed = subprocess.run([MEMLEDGER, "report", trace, "--format", "json"], capture_output=True, text=True)
    return json.loads(printed.stdout)


def calls(report):
    """What a program has called, and how many bytes it has got, with what it did after its report."""
    after = report["after_report"]
    return [of_malloc(report)[name] + after.get(name, 0)
            for name in ["allocations", "frees", "reallocations", "allocated_bytes"]]


def counted():
    """Two runs, each with both libraries, so that both have the same environment and thread-local memory: in one
    the counter is the first to be called, and memledger records nothing."""
    for command in programs():
        output = program(command, LD_PRELOAD=f"{file('libcount.so')}:{LIBRARY}",
                         MEMLEDGED_TRACE=file("trace.memledger"), COUNT_FILE=file("count.txt"))
        expected = [int(word) for word in open(file("count.txt")).read().split()]
        os.remove(file("count.txt"))
        ended = program(command, LD_PRELOAD=f"{LIBRARY}:{file('libcount.so')}",
                        MEMLEDGER_TRACE=file("trace.memledger"), COUNT_FILE=file("count.txt"))
        require(ended.returncode == output.returncode and ended.stdout == output.stdout, command, ended.stderr)
        report = report_of(file("trace.memledger"))
        require_complete(command, ended, report)
        found = calls(report)
        require(found == expected, command, "has", found, "but the counter has", expected)
        for name in ["trace.memledger", "count.txt"]:
            os.remove(file(name))
    print(f"figures of {len(programs())} programs are those of a counter: ok")


def heaptrack():
    """heaptrack counts reallocations as allocations, and one allocation of the C++ library, which it loads. (Not gawk: it allocates for each variable.)"""
    for command in [command for command in programs() if command[0] in ["sort", "mawk", "grep", "openssl", "sqlite3"]]:
        program(["heaptrack", "-o", file("heaptrack"), *command])
        [written] = [name for name in os.listdir(FOLDER) if name.startswith("heaptrack.")]
        printed = program(["heaptrack_print", "-f", file(written)]).stdout
        os.remove(file(written))
        expected = int(re.search(r"^calls to allocation functions: (\d+)", printed, re.M)[1])
        ended, report = tracked(command)
        require_complete(command, ended, report)
        found = of_malloc(report)["allocations"] + of_malloc(report)["reallocations"]
        require(found + 1 == expected, command, "has", found, "but heaptrack has", expected)
    print("counts of 5 programs are heaptrack's: ok")


def mapped():
    """Programs that map memory by themselves, under both libraries at once: each call passes through both."""
    compiler = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
    with open(file("small.c"), "w") as source:
        source.writelines(f"int of_{number}(int n) {{ return n * {number} % 7; }}\n" for number in range(3000))
    programs = [
        ["python3", "-c", "kept = [str(n) for n in range(200000)]; del kept; kept = [bytes(n) for n in range(9000)]"],
        ["node", "-e", "const kept = []; for (let n = 0; n < 300000; n++) kept.push({ n }); console.log(kept.length)"],
        [compiler, "-quiet", "-O2", file("small.c"), "-o", file("small.s")],
    ]
    for command in programs:
        ended = program(command, LD_PRELOAD=f"{file('libcount_mapped.so')}:{LIBRARY}",
                        MEMLEDGER_TRACE=file("trace.memledger"), COUNT_FILE=file("count.txt"))
        require(ended.returncode == 0, command, ended.returncode, ended.stderr)
        report = report_of(file("trace.memledger"))
        require_complete(command, ended, report)
        heap = next(heap for heap in report["by_heap"] if heap["name"] == "Mapped")
        found = [heap["live_bytes"], heap["peak_bytes"]]
        expected = [int(word) for word in open(file("count.txt")).read().split()]
        require(found == expected, command, "has mapped", found, "but the counter has", expected)
        for name in ["trace.memledger", "count.txt"]:
            os.remove(file(name))
    print("mapped memory of python3, node and cc1 is that of a counter: ok")


def mappings():
    for stacks in ["off", "on"]:
        ended, report = tracked([file("hostile"), "mappings"], f"--stacks={stacks}")
        require_complete("mappings", ended, report)
        heap = next(heap for heap in report["by_heap"] if heap["name"] == "Mapped")
        require(heap["live_bytes"] == int(ended.stdout), "mapped are", heap, "but should be", ended.stdout)
        unknown = [report["losses"][name] for name in ["unmatched_frees", "duplicate_allocations"]]
        require(unknown == [0, 0], "mappings:", report["losses"])
    print("mappings of eight threads: ok")


def replaced():
    """A process that replaces itself by `exec`: each of its programs has a trace and a report."""
    run = [MEMLEDGER, "run", "--preload", LIBRARY, "--", "env", "env", "env", "true"]
    ended = program(run)
    reports = re.findall(r"^Memory of (\w+) \(process \d+\), [^,]+, complete", ended.stderr, re.M)
    require(ended.returncode == 0 and reports == ["true", "env", "env", "env"], reports, ended.stderr)
    require("in use" not in ended.stderr, ended.stderr)
    print("programs that replace themselves: ok")


def forks_of_python():
    """`os.fork` of Python 3.12 and later warns of the tracker's thread (tests/faults.md, 122). Nothing else differs."""
    warning = re.compile(r"^.*DeprecationWarning: This process .* is multi-threaded, .*\n.*\n", re.M)
    script = "import os, sys; pid = os.fork(); print(bool(pid), file=sys.stderr); pid and os.waitpid(pid, 0)"
    for name in ["python3", "python3.12", "python3.13", "python3.14"]:
        python = shutil.which(name)
        # NOTE: pyenv has a command of this name also for versions that are not chosen.
        if not python or program([python, "--version"]).returncode != 0:
            continue
        with open(file("forks.py"), "w") as out:
            out.write(script.replace("; ", "\n") + "\n")
        command = [python, file("forks.py")]
        alone = program(command)
        ended = program([MEMLEDGER, "run", "--preload", LIBRARY, "--report", "off", "--", *command])
        without = warning.sub("", ended.stderr)
        require(ended.returncode == alone.returncode == 0, name, ended.stderr)
        require(sorted(without.splitlines()) == sorted(alone.stderr.splitlines()), name, ended.stderr)
        print(f"a fork of {name}: ok{'' if without == ended.stderr else ', but for the warning'}")


def other_allocators():
    libraries = os.environ["other_allocators"].split()
    require(len(libraries) == 3, "other allocators:", libraries)
    for library in libraries:
        for case in ["forks", "handlers"]:
            ended, report = tracked([file("hostile"), case], LD_PRELOAD=library)
            require(ended.returncode == 0, library, case, ended.returncode, ended.stderr)
            require_complete(case, ended, report)
            mapped = [heap for heap in report.get("by_heap", []) if heap["name"] == "Mapped"]
            require(not mapped, library, "has recorded what it maps for its blocks:", mapped)
    print("jemalloc, tcmalloc and mimalloc below: ok")


def nested_calls():
    """Libraries below whose functions call each other: what the program calls is counted once, and nothing else."""
    expected = {"allocations": 5000, "reallocations": 1000, "frees": 1000, "live_blocks": 4000, "live_bytes": 1_000_000}
    zeroing, checking = file("libzeroing.so"), file("libchecking.so")
    for preload in [zeroing, checking]:
        for flags in [[], ["--stacks"]]:
            ended, report = tracked([file("nested")], *flags, LD_PRELOAD=preload)
            require(ended.returncode == 0, preload, "ended with", ended.returncode, ended.stderr)
            require_complete(preload, ended, report)
            found = {name: of_malloc(report)[name] for name in expected}
            require(found == expected, preload, flags, "found", found, "instead of", expected)
    # A handler of signals that runs meanwhile is the program, but within a reallocation it comes too early.
    ended, report = tracked([file("interrupted")], LD_PRELOAD=checking)
    require(ended.returncode == 0, "with a handler:", ended.returncode, ended.stderr)
    found = [of_malloc(report)["allocations"], report["losses"]["lost_events"]]
    require(found == [10_000, 1000], "with a handler:", found)
    print("calls within calls: ok")


def other_names():
    """glibc's other names of the functions."""
    expected = {"allocations": 7000, "reallocations": 1000, "frees": 3000, "live_blocks": 4000, "live_bytes": 1_000_000}
    for flags in [[], ["--stacks"]]:
        ended, report = tracked([file("names")], *flags)
        require_complete("other names", ended, report)
        found = {name: of_malloc(report)[name] for name in expected}
        require(found == expected, "other names:", flags, "found", found, "instead of", expected)
    print("glibc's other names: ok")


def preload_lists():
    """Other libraries before and after: each call of the program is recorded once, as it comes from the library before."""
    expected = {"allocations": 5000, "reallocations": 1000, "frees": 1000, "live_blocks": 4000}
    # That one allocates, copies and frees for a reallocation.
    of_checking = expected | {"allocations": 6000, "reallocations": 0, "frees": 2000}
    unrelated = f"{os.path.dirname(os.environ['other_allocators'].split()[0])}/libm.so.6"
    zeroing, checking, count = (file(f"lib{name}.so") for name in ["zeroing", "checking", "count"])
    for before in [[], [unrelated], [zeroing], [checking], [unrelated, zeroing, unrelated]]:
        for after in [[], [unrelated], [zeroing], [checking], [count], [unrelated, count], [zeroing, count], [checking, count]]:
            if {zeroing, checking} <= {*before, *after}:
                # These two call each other for ever, also alone.
                continue
            for separator in ":", " ":
                preload = separator.join([*before, LIBRARY, *after])
                environment = {"MEMLEDGER_TRACE": file("trace.memledger"), "MEMLEDGER_REPORT": "off"}
                ended = program([file("nested")], LD_PRELOAD=preload, COUNT_FILE=file("count.txt"), **environment)
                require(ended.returncode == 0 and not ended.stderr, preload, ended)
                report = report_of(file("trace.memledger"))
                require_complete(preload, ended, report)
                found = {name: of_malloc(report)[name] for name in expected}
                require(found == (of_checking if checking in before else expected), preload, "has", found)
                if checking not in before:
                    require(of_malloc(report)["live_bytes"] == 1_000_000, preload, report["totals"])
                os.remove(file("trace.memledger"))
    print("other libraries before and after: ok")


def opens():
    """Libraries that are opened with RTLD_DEEPBIND: what came of it is as alone, and what they allocate and free is recorded."""
    command = [file("opens"), FOLDER]
    alone = program(command)
    require(alone.returncode == 0 and alone.stdout.count("it is sub/libplugin.so") == 6, "opens:", alone)
    for flags in [[], ["--stacks"]]:
        for now in ["", "1"]:
            ended, report = tracked(command, *flags, LD_BIND_NOW=now)
            require((ended.returncode, ended.stdout) == (0, alone.stdout), "opens:", ended.stdout, ended.stderr)
            require_complete("opens", ended, report)
            of_program = [of_malloc(report)[name] >= count for name, count in
                          [("allocations", 30_000), ("reallocations", 6000), ("frees", 30_000)]]
            live = [block["bytes"] for block in report["largest_live"]]
            require(all(of_program) and not {5, 100, 200, 300, 50} & set(live), "opens:", report["totals"], live)
    # A library can be where another thread has just closed one.
    for flags in [[], ["--stacks"]]:
        ended, report = tracked([*command, "threads"], *flags)
        require(ended.returncode == 0, "opens, threads:", ended)
        require_complete("opens, threads", ended, report)
        require(of_malloc(report)["allocations"] >= 8000, "opens, threads:", report["totals"])
    print("libraries opened with RTLD_DEEPBIND: ok")


def executes():
    """Programs that cannot load the library are started without it; the rest of their environment is as alone."""
    ways = ["execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "fexecve of a path", "execveat",
            "posix_spawn", "posix_spawnp", "vfork"]
    unrelated = [f"{os.path.dirname(os.environ['other_allocators'].split()[0])}/lib{name}.so" for name in ["m", "mvec"]]
    unrelated = [f"{name}.{number}" for name, number in zip(unrelated, [6, 1])]
    path = f"/nowhere::{FOLDER}:/bin"
    for kind in ["static", "script", "32", "musl", "address", "leak"]:
        target = file(f"executes_{kind}")
        if kind == "32" and subprocess.run([target], capture_output=True, check=False).returncode != 0:
            print("programs of 32 bits: this system runs none")
            continue
        # The other libraries would be wrong for musl, and come before the sanitizer.
        for others in [[], unrelated] if kind in ["static", "script", "32"] else [[]]:
            for way in [*ways, "many 100", "many 1000", "many 8000"]:
                if kind == "script" and way.startswith(("fexecve", "execveat")):
                    # A script that is closed when it starts cannot be read.
                    continue
                way, *size = way.split() if way.startswith("many") else [way]
                command = [file("executes"), way, target, *size]
                environment = {"PATH": path, "BEFORE": "1", "LC_ALL": "C", "HOME": FOLDER}
                environment |= {"LD_PRELOAD": ":".join(others)} if others else {}
                run = [MEMLEDGER, "run", "--preload", LIBRARY, "--report", "off"]
                for flags in [[], ["--follow-children"]]:
                    alone, ended = (
                        subprocess.run([*start, *command], env=environment, capture_output=True, text=True, timeout=DEADLINE_S)
                        for start in [[], [*run, *flags, "--"]])
                    facts = kind, way, others, flags, ended, alone
                    require((ended.returncode, ended.stderr) == (alone.returncode, alone.stderr), *facts)
                    # `run` sets the variable, so it comes last where it was not there.
                    require(sorted(ended.stdout.splitlines()) == sorted(alone.stdout.splitlines()), *facts)
                    require("BEFORE=1" in alone.stdout or size, *facts)
    # One that can load it, has it.
    ended, _ = tracked([file("executes"), "execl", file("executes")])
    require(f"LD_PRELOAD={LIBRARY}\n" in ended.stdout, "executes:", ended)
    print("programs that cannot load the library: ok")


def static_children():
    """Static children end the traces of the shell's children that they replace, and are said to have none."""
    for command in ["/sbin/ldconfig -p >/dev/null; true", f"{file('executes_static')} >/dev/null; true"]:
        run = [MEMLEDGER, "run", "--preload", LIBRARY, "--follow-children", "--report", "off"]
        ended = program([*run, "--fail-if", "peak_bytes > 1GiB", "--", "bash", "-c", command])
        require(ended.returncode == 1, command, ended)
        require(re.search(r"(ldconfig|executes_static)( at .*| \(process \d+\) has no trace): what", ended.stderr), command, ended)
    alone, ended = program(["ldd", file("hostile")]), tracked(["ldd", file("hostile")])[0]
    shown = [[line.split(" (0x")[0] for line in one.stdout.splitlines()] for one in [alone, ended]]
    require(shown[0] == shown[1] and len(shown[0]) > 2, "ldd:", shown)
    print("static children, and ldd: ok")


def launchers():
    """Programs whose launcher has dropped the library from the environment have it again; where they cannot, it is said."""
    nested, static = file("nested"), file("executes_static")
    python = "import os, subprocess, sys; n = sys.argv[1]; "
    with open(file("by_env"), "w") as script:
        script.write(f"#!/usr/bin/env -S -i {nested}\n")
    os.chmod(file("by_env"), 0o755)
    jemalloc = os.environ["other_allocators"].split()[0]
    replacing = [
        ["env", "-i", nested], ["env", "-u", "LD_PRELOAD", nested], ["env", "LD_PRELOAD=", nested], [file("by_env")],
        ["sh", "-c", f"exec env -i {nested}"], ["sh", "-c", f"LD_PRELOAD={jemalloc} exec {nested}"],
        ["env", "-i", "env", "A=1", "sh", "-c", f"exec env -i {nested}"],
        ["python3", "-c", python + "os.environ.clear(); os.execv(n, [n])", nested],
        ["python3", "-c", python + "os.execve(n, [n], {})", nested],
    ]
    starting = [
        ["python3", "-c", python + "subprocess.run([n], env={}, check=True)", nested],
        ["python3", "-c", python + "os.waitpid(os.posix_spawn(n, [n], {}), 0)", nested],
        ["bash", "-c", f"LD_PRELOAD= {nested}; true"], ["sh", "-c", f"env -i {nested}; true"],
    ]
    # Only the program at the end makes so many of this size.
    condition = ["--fail-if", "allocations >= 5000"]
    for command in replacing:
        ended, report = tracked(command, *condition)
        require(ended.returncode == 3 and report["trace"]["program"] == "nested", command, ended)
        # jemalloc makes a block at its start.
        require(report["trace"]["coverage"]["word"] != "incomplete" and of_malloc(report)["allocations"] in [5000, 5001], command, report["totals"])
    for command in starting:
        run = [MEMLEDGER, "run", "--preload", LIBRARY, "--follow-children", *condition]
        ended = program([*run, "--", *command])
        require(ended.returncode == 3 and "Memory of nested" in ended.stderr, command, ended)
        require("INCOMPLETE" not in ended.stderr, command, ended)
    # Without that option, what was started is named.
    for command, names in zip([*starting, ["true"]], ["nested", "nested", "its forks", "env", None]):
        ended = program([MEMLEDGER, "run", "--preload", LIBRARY, "--", *command])
        said = re.search(r"^  children +not in this report: (.*)$", ended.stderr, re.M)
        require((names in said[1]) if names and said else not names and not said, command, ended)
    # A shell of C's own functions has the environment of the process, and no other one.
    shell = "import ctypes, sys; c = ctypes.CDLL(None); c.popen.restype = ctypes.c_void_p; c.popen.argtypes = [ctypes.c_char_p] * 2; " \
        "c.pclose.argtypes = [ctypes.c_void_p]; n = sys.argv[1].encode(); "
    for call in ["c.system(n)", "c.pclose(c.popen(n, b'r'))"]:
        for clear, status, word in [["c.clearenv(); ", 1, "INCOMPLETE, sh has no trace"], ["", 3, "Memory of nested"]]:
            run = [MEMLEDGER, "run", "--preload", LIBRARY, "--follow-children", *condition]
            ended = program([*run, "--", sys.executable, "-c", shell + clear + call, nested])
            require(ended.returncode == status and word in ended.stderr, call, clear, ended)
            require(("INCOMPLETE" in ended.stderr) == bool(clear), call, clear, ended)
    # What a program finds is what its launcher has given it.
    show = "import ctypes; c = ctypes.CDLL(None); e = ctypes.POINTER(ctypes.c_char_p).in_dll(c, 'environ'); i = 0\n" \
        "while e[i]: print(e[i]); i += 1"
    for command in [["env", "-i", "B=2", "A=1", "env"], ["env", "LD_PRELOAD=" + jemalloc, "env", "-i", "C=3", sys.executable, "-c", show],
                    ["env", "-i", "LD_PRELOAD=" + jemalloc, "A=1", "env"], ["env", "-i", "LD_PRELOAD=", "A=1", "env"]]:
        alone, ended = program(command), tracked(command)[0]
        require(ended.stdout == alone.stdout and alone.stdout, command, ended.stdout, alone.stdout)
    for command in [["sh", "-c", f"exec {static} 1"], ["env", "-i", static, "1"]]:
        ended, report = tracked(command, *condition)
        require(ended.returncode == 1 and report["untracked"]["reasons"][0]["kind"] == "replaced", command, ended)
        require(f"replaced by {static} at " in ended.stderr, command, ended)
    print("what a launcher has dropped: ok")


def another_clock():
    ended, report = tracked([file("nested")], LD_PRELOAD=os.environ["another_clock"], FAKETIME="+1d")
    require(ended.returncode == 0, "libfaketime:", ended.returncode, ended.stderr)
    require_complete("libfaketime", ended, report)
    require(report["trace"]["duration_ns"] < 3600e9, "libfaketime:", report["trace"])
    print("libfaketime: ok")


def loader():
    """The dynamic loader with a program as its argument, and with an auditor."""
    loader = "/lib64/ld-linux-x86-64.so.2"
    for options in [[], ["--argv0", "other", "--library-path", "/nowhere"]]:
        ended, report = tracked([loader, *options, file("nested")])
        require_complete("by the loader", ended, report)
        require(of_malloc(report)["allocations"] == 5000, "by the loader:", report["totals"])
        require(report["trace"]["program"] == "nested", "by the loader:", report["trace"])
    ended, report = tracked([loader, file("static")])
    require(ended.returncode == 125 and "linked statically" in ended.stderr, "by the loader, static:", ended)
    # With an auditor, glibc gives threads the memory of libraries when they ask for it, by `malloc`.
    for command in [[file("nested")], [file("hostile"), "libraries"]]:
        alone = program(command, LD_AUDIT=file("libaudit.so"))
        ended, report = tracked(command, LD_AUDIT=file("libaudit.so"))
        require((ended.returncode, ended.stdout) == (alone.returncode, alone.stdout), "with an auditor:", ended)
        require(report is None and "while LD_AUDIT is set" in ended.stderr, "with an auditor:", ended.stderr)
    # What has ended a program comes first.
    ended, report = tracked(["sh", "-c", "kill -SEGV $$"], LD_AUDIT=file("libaudit.so"))
    require(ended.returncode == 139 and "memledger: SIGSEGV has ended sh; " in ended.stderr, "a signal:", ended)
    print("the loader with a program, with an auditor: ok")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def nginx_at(port):
    paths = [f"{part}_temp_path {file(part)};" for part in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]]
    with open(file("nginx.conf"), "w") as out:
        out.write(f"""user root; worker_processes 1; daemon off; pid {file("nginx.pid")}; error_log {file("error.log")};
            events {{}}
            http {{ {" ".join(paths)} access_log {file("access.log")}; gzip on; gzip_min_length 1; gzip_types *;
                server {{ listen 127.0.0.1:{port}; location / {{ root {FOLDER}; }} }} }}""")
    return ["nginx", "-p", FOLDER, "-c", file("nginx.conf"), "-e", file("error.log")]


def answers_of(running, port, count):
    """A connection at a time, so that the server allocates the same each time."""
    begin, answers = time.monotonic(), []
    while len(answers) < count:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/nginx.conf", headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            answers.append((answer.status, answer.read()))
        except ConnectionRefusedError:
            require(running.poll() is None and not answers, running.args, "has ended:", running.returncode)
            require(time.monotonic() - begin < DEADLINE_S, running.args, "does not listen")
            time.sleep(0.01)
        connection.close()
    return answers


def start(command, **environment):
    return subprocess.Popen(command, env=ENVIRONMENT | environment, cwd=FOLDER, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def server():
    """nginx: a process, and another that serves, which it forks. SIGQUIT ends both."""
    port = free_port()
    nginx = nginx_at(port)

    def serve(command, **environment):
        running = start(command, **environment)
        try:
            answers = answers_of(running, port, 300)
            running.send_signal(signal.SIGQUIT)
            output, errors = running.communicate(timeout=DEADLINE_S)
        finally:
            running.kill()
        return (running.returncode, output, answers), errors

    alone, errors = serve(nginx)
    require(alone[0] == 0 and not errors, "nginx", alone[0], errors)
    counted, errors = serve(nginx, LD_PRELOAD=f"{file('libcount.so')}:{LIBRARY}", COUNT_FILE=file("calls"))
    expected = [[int(word) for word in open(name).read().split()][:3] for name in sorted(glob.glob(file("calls*")))]
    require(counted == alone and len(expected) == 2, "the counter in nginx", counted[:2], errors, expected)
    run = [MEMLEDGER, "run", "--preload", LIBRARY, "--follow-children", "--trace", file("server-%p.utrace"), "--"]
    found, errors = serve([*run, *nginx], LD_PRELOAD=file("libcount.so"), COUNT_FILE=file("calls"))
    require(found == alone, "nginx under memledger run", found[:2], errors)
    table = re.search(r"^Processes .*\n  nginx \((\d+)\) .*\n    nginx \((\d+)\) .*\n  all 2 ", errors, re.M)
    require(table, "the processes of nginx:", errors)
    for process, calls_of_counter in zip(table.groups(), expected):
        report = report_of(file(f"server-{process}.utrace"))
        require_complete(nginx, None, report)
        found = calls(report)[:3]
        require(found == calls_of_counter, "nginx", process, "has", found, "but the counter has", calls_of_counter)
    print("a server of two processes, under load: ok")


def children_of(process):
    with open(f"/proc/{process}/task/{process}/children") as children:
        return children.read().split()


def killed():
    """SIGKILL of the workers of a server costs no event: each is killed while it waits, and has what the counter has counted. The server
    forks others in their place."""
    gunicorn = "/usr/bin/python3 -m gunicorn.app.wsgiapp --workers 2 --log-level critical --chdir".split()
    with open(file("killed_app.py"), "w") as out:
        out.write("""def app(environ, start_response):
    body = b"".join(bytes([n % 251]) * n for n in range(2000))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
""")
    for name in ["nginx", "gunicorn"]:
        port = free_port()
        command = nginx_at(port) if name == "nginx" else [
            *gunicorn, FOLDER, "--bind", f"127.0.0.1:{port}", "killed_app:app"]
        for left in glob.glob(file("killed-*")):
            os.remove(left)
        run = [MEMLEDGER, "run", "--preload", LIBRARY, "--follow-children", "--trace", file("killed-%p.utrace"), "--"]
        environment = {"LD_PRELOAD": file("libcount.so"), "COUNT_FILE": file("killed-calls"), "COUNT_KILLED": "1"}
        running = start([*run, *command], **environment)
        workers = []
        try:
            for _ in range(4):
                answers = answers_of(running, port, 100)
                require(all(status == 200 for status, _ in answers), name, answers)
                master = next(child for child in children_of(running.pid) if children_of(child))
                worker = children_of(master)[0]
                wait_until_idle(worker)
                os.kill(int(worker), signal.SIGKILL)
                workers.append(worker)
                begin = time.monotonic()
                while worker in children_of(master) or not children_of(master):
                    require(time.monotonic() - begin < DEADLINE_S, name, "forks no other worker")
                    time.sleep(0.01)
            running.send_signal(signal.SIGTERM)
            _, errors = running.communicate(timeout=DEADLINE_S)
        finally:
            running.kill()
        require("has no end" not in errors and "no watcher" not in errors, name, errors)
        for_threads = set()
        for worker in workers:
            report = report_of(file(f"killed-{worker}.utrace"))
            require_complete(command, errors, report)
            with open(file(f"killed-calls.{worker}.live"), "rb") as counts:
                expected = struct.unpack("3Q", counts.read(24))
            found = calls(report)[:3]
            # The counter, which is below, also sees the few blocks of the C library for the tracker's own threads.
            more = [one - other for one, other in zip(expected, found)]
            for_threads.add(more[0] - more[1])
            require(more[1] in range(9) and more[2] == 0 and len(for_threads) == 1 and for_threads <= set(range(9)),
                    name, worker, "has", found, "but the counter has", expected, for_threads)
            require(sum(found) > 1000, name, worker, "has only", found)
    print("workers of nginx and gunicorn that are killed lose no event: ok")


def wait_until_idle(process):
    """Until its main thread sleeps and takes no processor time: a call of malloc could be counted in one place only."""
    begin, same, before = time.monotonic(), 0, None
    while same < 5:
        with open(f"/proc/{process}/task/{process}/stat") as stat:
            fields = stat.read().rsplit(") ", 1)[1].split()
        with open(f"/proc/{process}/task/{process}/schedstat") as schedstat:
            now = (fields[0], schedstat.read().split()[0])
        same = same + 1 if now == before and now[0] == "S" else 0
        before = now
        require(time.monotonic() - begin < DEADLINE_S, process, "is never idle")
        time.sleep(0.01)


def refused():
    sanitizers = [("address", "AddressSanitizer"), ("leak", "LeakSanitizer"), ("thread", "ThreadSanitizer")]
    for name, why in [("static", "linked statically"), ("privileged", "more rights"), *sanitizers]:
        ended, report = tracked([file(name), "nothing"])
        require(ended.returncode == 125 and report is None, name, ended)
        require(ended.stderr.count("\n") == 1 and why in ended.stderr, name, ended.stderr)
    ended, report = tracked([file("script")])
    require(ended.returncode == 0 and report["trace"]["program"] == "script", "a script", ended, report)
    # A library that is not there.
    run = [MEMLEDGER, "run", "--preload", file("none.so"), "--", file("hostile"), "nothing"]
    ended = program(run)
    require(ended.returncode == 125 and "none.so cannot be used" in ended.stderr, "no library", ended)
    print("what cannot be tracked is refused: ok")


checks = [
    functions, hostile, mappings, ends, replaced, forks_of_python, counted, mapped, heaptrack, other_allocators,
    nested_calls, other_names, preload_lists, opens, executes, static_children, launchers, another_clock, loader, server, killed, refused,
]
for check in checks:
    check()
