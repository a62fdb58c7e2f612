"""The generator and the judge of scripts/check_complete.sh, which says what they are for and sets the environment.

A script is words: `alloc,DOOR,COUNT,BYTES`, `free,COUNT,BY`, `map,DOOR,KIB`, `unmap`, `break,KIB`, `static,KIB`, `stack,KIB`,
`threads,COUNT,STACK_KIB,BLOCKS,BYTES,HOW`, `filter,ACTION,WIDTH,DOOR`, `files,N`, `user`, `sleep,MS`, `exec,HOW,ENVIRONMENT,PROGRAM` (which goes on
with the rest), `fork .. done` (a child), `start,HOW,ENVIRONMENT,PROGRAM .. done` (a child that is a program), `end,HOW`.

Memory by a system call is unseen, and so is what was started without the library. With a slack of 15 % and 256 KiB on both sides:
- more than 1 MiB and 5 % of RSS unseen for 150 ms, at `exit`, or as a new maximum of RSS: INCOMPLETE; also where a program that follows is not recorded;
- more than 1 MiB and 1 %: not "complete"; also where a program ends otherwise with so much, and may not have been weighed;
- all the rest: never INCOMPLETE; and "complete", where the end is `exit`, without a filter.
What is between two thresholds or gone before it can be seen is not judged for the word, and counted.
"""

import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

FOLDER, MEMLEDGER, LIBRARIES = (os.environ[name] for name in ["folder", "memledger", "libraries"])
DEADLINE_S = 60
TRUTH_BYTES, HEADER_BYTES, IMAGE_BYTES = 256 * 61, 256, 256
FIELDS = ("pid program end allocations reallocations live_blocks live_bytes peak_bytes unseen most_unseen pending surely_incomplete maybe_incomplete "
          "surely_for maybe_for large_once threads filter inherited is_fork is_vague below").split()
EXITS = EXIT, RETURN = 1, 5
MIB = 1 << 20
WORDS = {"complete", "complete_for", "incomplete"}
ALLOCATOR_NAMES = ["jemalloc.so.2", "tcmalloc_minimal.so.4", "mimalloc.so.2"]
ALLOCATORS = {name: path for name in ALLOCATOR_NAMES
              if os.path.exists(path := os.path.join(LIBRARIES, f"lib{name}"))}
HAS_PREFIX = os.path.exists(os.path.join(FOLDER, "libprefix.so"))
IS_ROOT = os.getuid() == 0
WITHOUT_PROC = ["unshare", "-m", "sh", "-c", 'umount -l /proc; exec "$@"', "sh"]
PROGRAMS = ["c", "cpp", "rust"] + (["je"] if HAS_PREFIX else [])

# Of each number of the list of defects of commit cbd16d97: what finds it. Each fails there.
ATTACKS = [
    ("1 env -i", "c exec,execve,empty,cpp alloc,native,10000,100 end,exit"),
    ("1 exec by a system call", "c exec,raw,empty,cpp alloc,native,10000,100 end,exit"),
    ("1 a launcher that sets LD_PRELOAD", "c exec,execv,/usr/lib/x86_64-linux-gnu/libjemalloc.so.2,cpp alloc,native,10000,100 end,exit"),
    ("1 a static program", "c exec,execve,keep,static alloc,malloc,10000,100 end,exit"),
    ("1 a child without environment", "follow=1 c start,spawn,empty,cpp alloc,native,10000,100 end,exit done end,exit"),
    ("2 free by a handle", "c alloc,strdup,5000,999 free,5000,handle end,exit"),
    ("2 malloc by a handle", "c alloc,handle,5000,1000 end,exit"),
    ("3 jemalloc with a prefix, loaded later", "c alloc,prefix,80000,1000 end,exit"),
    ("4a a maximum between two readings", "c sleep,200 map,raw,60000 unmap sleep,200 end,exit"),
    ("4a no new maximum (every other time)", "c map,anon,60000 sleep,20 unmap map,raw,30000 sleep,160 unmap sleep,400 end,exit"),
    ("4b _exit", "c map,raw,40000 end,_exit"),
    ("4b killed", "c map,raw,40000 end,kill"),
    ("4b exec", "c map,raw,40000 exec,execve,keep,cpp end,exit"),
    ("4c a child", "follow=1 c fork map,raw,40000 sleep,500 end,exit done end,exit"),
    ("4 not weighed", "rss=off c map,raw,20000 end,exit"),
    ("5 without /proc", "proc=0 je alloc,native,10000,100 end,exit"),
    ("6 300 threads with small stacks", "c threads,300,64,20,100,joined sleep,300 end,exit"),
    ("7 a filter that kills", "c alloc,malloc,100,100 filter,kill,strict,prctl end,_exit"),
    ("7 a filter that kills, exit", "c alloc,malloc,100,100 filter,kill,strict,syscall end,exit"),
    ("7 a filter that ends a thread", "c alloc,malloc,100,100 filter,thread,strict,prctl end,_exit"),
    ("8 shared memory by a system call", "c map,raw-memfd,4096 end,exit"),
    ("9 between 1 and 5 %", "c alloc,malloc,900,1048576 map,raw,40960 end,exit"),
]
# Found by random programs since.
FOUND = [
    ("blocks that come after the last reading", "c alloc,malloc,40000,40 alloc,malloc,640,4000 end,_exit"),
    ("a maximum, and more blocks after it", "rust sleep,200 map,raw,8036 unmap sleep,200 alloc,native,6245,5000 end,exit"),
    ("static data before a kill", "c sleep,160 static,2149 sleep,20 end,abort"),
    ("an exec by a system call in a followed child", "follow=1 c fork exec,raw,nopreload,rust alloc,native,10,40 end,exit done end,zero"),
    ("a filter without /proc", "proc=0 rust alloc,malloc,400,100 free,400,own filter,kill,strict,syscall end,zero"),
]
FOUND += [(f"a handle below {name}", f"preload={name} c alloc,handle,300,2000 free,100,own end,exit") for name in ALLOCATORS]
FOUND += [(f"1.5 MiB below {name}", f"preload={name} c map,raw,1600 end,exit") for name in ALLOCATORS]
if HAS_PREFIX:
    FOUND += [("stacks of threads that have ended, whose sizes are no number of pages", "rust threads,300,32,30,72,leak alloc,prefix,9543,40 end,return"),
              ("free by a handle beside an allocator in the program", "je alloc,handle,443,40 free,135,own end,return"),
              ("memory beside an allocator with a prefix", "rust map,raw,2376 alloc,prefix,40000,40 end,return")]
HARMLESS = [
    "ls -lR /usr/share/doc/gcc", "sort /etc/services", "sed s/a/b/ /etc/services", "awk '{ n += NF } END { print n }' /etc/services", "cat /etc/passwd", "cp /etc/services x.txt",
    "grep -rc memory /usr/include/linux", "find /usr/include -name '*.h'", "wc /etc/services", "head /etc/services", "tail /etc/services", "cut -d: -f1 /etc/passwd", "tr a b", "uniq /etc/services",
    "tac /etc/services", "nl /etc/services", "od -x /etc/services", "md5sum /etc/services", "sha256sum /etc/services", "du -s /usr/include", "df", "date", "env", "id", "uname -a", "stat /etc/passwd",
    "seq 100000", "factor 1234567890", "expr 1 + 1", "printf %s x", "true", "sleep 0.1", "split -l 100 /etc/services", "paste /etc/passwd /etc/group", "join /etc/passwd /etc/passwd", "comm /etc/passwd /etc/passwd",
    "diff /etc/passwd /etc/group", "cmp /etc/passwd /etc/group", "tar cf x.tar /usr/include/linux", "gzip -kc /etc/services", "bzip2 -kc /etc/services", "xz -kc /etc/services", "zstd -qc /etc/services",
    "bash -c 'for i in {1..20000}; do x+=$i; done'", "dash -c 'echo x'", "perl -e 'my @x = map { $_ } 1 .. 300000'", "/usr/bin/python3 -c 'x = [str(i) for i in range(300000)]'",
    "/usr/bin/python3 -c 'import json; json.dumps(list(range(200000)))'", "/usr/bin/python3 -c 'import threading; [threading.Thread(target=print).start() for i in range(300)]'",
    "git -C REPOSITORY --no-pager log --stat -20", "git -C REPOSITORY status", "gcc -O2 -c -o x.o REPOSITORY/tests/doors/calls.c", "g++ -fsyntax-only REPOSITORY/tests/doors/new.cpp", "ld --version", "as --version",
    "objdump -d /bin/true", "nm -D /bin/ls", "readelf -a /bin/ls", "strings /bin/ls", "make --version", "sqlite3 :memory: 'select 1'", "openssl speed -seconds 1 sha256", "jq -n '[range(100000)]'", "curl --version",
    "file /bin/ls", "m4 /etc/services", "ps aux", "dpkg -l", "apt-cache search xyz", "vim --version", "less /etc/services", "ssh -V", "rsync --version", "man --version", "locale -a", "getent passwd",
    "ruby -e 'x = (1..300000).map(&:to_s)'", "xxd /etc/services",
]


class Launch:
    """How a script is started: its program, and what is `NAME=VALUE` in front of it."""

    def __init__(self, words):
        self.settings = {}
        while "=" in words[0]:
            name, value = words[0].split("=", 1)
            self.settings[name] = value
            words = words[1:]
        self.program, self.script = words[0], words[1:]

    def __str__(self):
        return " ".join([*(f"{name}={value}" for name, value in self.settings.items()), self.program, *self.script])

    def get(self, name):
        return self.settings.get(name)

    def environment(self):
        kind = self.get("env")
        values = {} if kind == "none" else {"PATH": os.environ["PATH"], "HOME": FOLDER, "LC_ALL": "C.UTF-8"}
        if kind == "neutral":
            values |= {"MEMLEDGER_WATCH": "1", "MEMLEDGER_BUFFER_LIMIT": "8MiB", "MEMLEDGER_ON_FULL": "wait", "MEMLEDGER_RSS": "100ms"}
        if kind == "folder":
            os.makedirs(f"{FOLDER}/an odd ñame", exist_ok=True)
            values["TMPDIR"] = f"{FOLDER}/an odd ñame"
        if self.get("rss"):
            values["MEMLEDGER_RSS"] = self.get("rss")
        if self.get("preload"):
            values["LD_PRELOAD"] = ALLOCATORS[self.get("preload")]
        if "prefix" in str(self):
            # Its thread-local memory is static.
            values["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=8192"
        return values

    def limit(self):
        for name, which in [("stack", resource.RLIMIT_STACK), ("as", resource.RLIMIT_AS)]:
            if self.get(name):
                resource.setrlimit(which, (int(self.get(name)), int(self.get(name))))


class Generator:
    """A random script. Its constraints are those of the judge: nothing is made that is true only by chance."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.settings = {}
        self.may_move = True  # No mapping of a block has been freed, so that no system call takes its addresses.

    def chance(self, probability):
        return self.random.random() < probability

    def log(self, least, most):
        return int(least * (most / least) ** self.random.random())

    def make(self):
        program = self.random.choices(PROGRAMS, [4, 3, 3, 1][:len(PROGRAMS)])[0]
        if self.chance(0.03) and IS_ROOT:
            self.settings["proc"] = "0"
            program = self.random.choice(PROGRAMS)
        self.is_glibc = program != "je"
        if ALLOCATORS and self.is_glibc and self.chance(0.15):
            self.settings["preload"] = self.random.choice(list(ALLOCATORS))
            self.is_glibc = False
        if self.chance(0.3):
            self.settings["env"] = self.random.choice(["none", "neutral", "folder"])
        if self.chance(0.04) and self.settings.get("env") != "neutral":
            self.settings["rss"] = "off"
        if self.chance(0.1):
            self.settings["stack"] = self.random.choice(["1048576", "67108864"])
        if self.chance(0.05):
            self.settings["as"] = str(64 << 30)
        if self.chance(0.05):
            self.settings["stacks"] = "1"
        words = self.body(program, 0)
        if re.search("fork|start|exec", " ".join(words)):
            self.settings.pop("proc", None)  # Reports name no program then.
        if re.search("fork|start", " ".join(words)) and self.chance(0.6):
            self.settings["follow"] = "1"
        elif not re.search("fork|start|exec", " ".join(words)) and self.chance(0.2):
            self.settings["text"] = "1"
        return Launch([*(f"{name}={value}" for name, value in self.settings.items()), program, *words])

    def body(self, program, depth):
        words = []
        for _ in range(self.random.randint(1, 6)):
            operations = [self.alloc, self.free, self.map, self.unseen, self.other, self.threads, self.sleep, self.child, self.execute]
            weights = [6, 3, 3, 2.5, 1.5, 1, 1, 0.8 if depth < 2 else 0, 0.7 if depth < 3 else 0]
            made = self.random.choices(operations, weights)[0](program, depth)
            words += made
            if made and made[-1].startswith("end"):
                return words
        return words + self.end(program)

    def alloc(self, program, _=0, most=40 * MIB):
        doors = {"native": 6, "malloc": 2, "calloc": 1, "realloc": 1, "memalign": 1, "aligned": 1, "strdup": 1}
        if program != "static":
            doors |= {"handle": 1, "handle-calloc": 0.5, "handle-strdup": 0.5}
            doors |= {"prefix": 0.7} if HAS_PREFIX and not self.settings.get("env") == "none" else {}
            doors |= {"mi": 0.4} if "mimalloc.so.2" in ALLOCATORS and self.settings.get("preload") != "mimalloc.so.2" else {}
        door = self.random.choices(list(doors), list(doors.values()))[0]
        size = 8 * self.random.choice([2, 5, 12, 125, 500]) if door.endswith("strdup") or self.chance(0.8) else self.random.choice([5000, 200000, 3 * MIB])
        return [f"alloc,{door},{max(1, min(40000, self.log(1000, most) // size))},{size}"]

    def free(self, program, _):
        self.may_move = False
        # Allocators do not take one another's blocks.
        by = self.random.choice(["own", "free", "handle"]) if self.is_glibc and program not in ("je", "static") else "own"
        return [f"free,{self.log(1, 40000)},{by}"]

    def map(self, *_):
        if self.chance(0.3):
            self.may_move = False
            return ["unmap"]
        door = self.random.choice(["anon", "anon", "shared", "memfd", "file", "file-shared", "noreserve"])
        return [f"map,{door},{self.log(4, 40000) // 4 * 4}"]

    def unseen(self, *_):
        kib = 4 * self.random.choice([self.log(1, 120), self.log(500, 1000), self.log(1000, 15000), self.log(1000, 15000)])
        door = self.random.choice(["raw", "raw", "raw-memfd", "raw-anywhere" if self.may_move and self.is_glibc else "raw"])
        if self.chance(0.15):
            return [f"break,{max(kib, 6000)}"]
        if self.chance(0.08):
            return [f"alloc,malloc,{self.random.randint(100, 300)},1048576", f"map,raw,{self.random.randint(5000, 8000) // 4 * 4}"]
        made = [f"map,{door},{kib}"]
        if self.chance(0.1):
            return [f"map,anon,{2 * kib}", "sleep,20", "unmap", f"map,raw,{kib}", "sleep,160", "unmap", "sleep,200"]
        if self.chance(0.3):
            made += ["sleep,200"] * self.chance(0.5) + ["unmap"]
            return ["sleep,200", *made, "sleep,200"]
        return made

    def other(self, *_):
        most = 700 if self.settings.get("stack") == "1048576" else 6000
        return [self.random.choice([f"static,{self.log(4, 60000)}", f"stack,{self.log(4, most)}", "files,40"])]

    def threads(self, *_):
        count = self.random.choice([1, 3, 10, 40, 300])
        how = self.random.choice(["joined", "joined", "unjoined", "detached", "alive", "leak"])
        return [f"threads,{count},{self.random.choice([32, 64, 256, 2048])},{self.log(1, 60)},{8 * self.log(1, 60)},{how}"]

    def sleep(self, *_):
        return [f"sleep,{self.random.choice([20, 160, 250])}"]

    def start_of(self, forms):
        kinds = ["keep", "keep", "empty", "nopreload", *([ALLOCATORS["jemalloc.so.2"]] if "jemalloc.so.2" in ALLOCATORS else [])]
        target = self.random.choices(["c", "cpp", "rust", "static"], [3, 3, 3, 1])[0]
        return self.random.choice(forms), self.random.choice(kinds), target

    def within(self, program, depth, kind):
        """The body of another program or process; what is free in it again, is only so there."""
        kept = self.is_glibc, self.may_move
        self.may_move = kind == "" and self.may_move
        if kind:
            self.is_glibc = program != "je" and not kind.startswith("/") and (kind in ("empty", "nopreload") or not self.settings.get("preload"))
        kept_env = self.settings.get("env")
        if kind == "empty":
            self.settings["env"] = "none"  # No door that needs a variable.
        words = self.body(program, depth + 1)
        if kind == "empty":
            self.settings.pop("env")
            if kept_env:
                self.settings["env"] = kept_env
        self.is_glibc, self.may_move = kept
        return words

    def child(self, program, depth):
        if self.chance(0.6):
            return ["fork", *self.within(program, depth, ""), "done"]
        how, kind, target = self.start_of(["spawn", "execve", "execv", "raw"])
        return [f"start,{how},{kind},{target}", *self.within(target, depth, kind), "done"]

    def execute(self, program, depth):
        how, kind, target = self.start_of(["execve", "execve", "execv", "fexecve", "raw"])
        user = ["user"] if IS_ROOT and depth == 0 and self.chance(0.1) else []
        return [*user, f"exec,{how},{kind},{target}", *self.within(target, depth, kind)]

    def end(self, program):
        ends = ["return", "return", "exit", "exit", "zero", "zero", "_exit", "abort", "kill", "term"]
        # Only glibc's allocator is known to need no other system call.
        if not self.is_glibc or not self.chance(0.1):
            return [f"end,{self.random.choice(ends)}"]
        width = self.random.choice(["strict", "wide"])
        if program == "rust":
            ends = ends[2:]  # At the end of `main`, std asks for more.
        made = ["alloc,malloc,400,100", "free,400,own"]
        made += [f"filter,{self.random.choice(['kill', 'thread', 'errno'])},{width},{self.random.choice(['prctl', 'syscall'])}", f"alloc,malloc,{self.log(1, 200)},80"]
        return [*made, f"end,{self.random.choice(ends[:-3] if width == 'strict' else ends)}"]


class Run:
    """One run of a script, alone or recorded: its output, status, images and reports."""

    def __init__(self, launch, number, options=None):
        self.base = f"{FOLDER}/run{number}"
        shutil.rmtree(self.base, ignore_errors=True)
        os.makedirs(self.base)
        os.chmod(self.base, 0o777)
        truth = f"{self.base}/truth"
        open(truth, "wb").truncate(TRUTH_BYTES)
        os.chmod(truth, 0o666)
        command = [f"{FOLDER}/{launch.program}", truth, *launch.script]
        if options is not None:
            ending = "txt" if launch.get("text") else "json"
            report = f"{self.base}/report{'.%p' if launch.get('follow') else ''}.{ending}"
            command = [MEMLEDGER, "run", "--preload", f"{FOLDER}/libmemledger_preload.so", "-o", report, *options, "--", *command]
        if launch.get("proc") == "0":
            command = WITHOUT_PROC + command
        process = subprocess.Popen(command, env=launch.environment(), cwd=self.base, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True, preexec_fn=launch.limit)
        try:
            self.out, self.err = process.communicate(timeout=DEADLINE_S)
            self.status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.out, self.err = process.communicate()
            self.status = "the deadline"
        self.images = self.read_images(truth)
        self.text = open(f"{self.base}/report.txt", errors="replace").readline() if os.path.exists(f"{self.base}/report.txt") else None
        self.reports = self.read_reports()

    def read_images(self, truth):
        data = open(truth, "rb").read()
        images = []
        for number in range(struct.unpack_from("q", data)[0]):
            at = HEADER_BYTES + number * IMAGE_BYTES
            image = dict(zip(FIELDS, struct.unpack_from(f"{len(FIELDS)}q", data, at)))
            image["program"] = data[at + 8:at + 16].rstrip(b"\0").decode()
            images.append(image)
        return images

    def read_reports(self):
        """The reports of each process, in the order of its programs: all but the last one have its number at the end."""
        found = {}
        for name in os.listdir(self.base):
            if name.startswith("report") and name.endswith(".json"):
                report = json.load(open(os.path.join(self.base, name)))
                pid = report["trace"]["pid"]
                before = re.fullmatch(rf"report(\.{pid})?\.{pid}(\.(\d+))?\.json", name)
                is_last = before is None or name == f"report.{pid}.json" and os.path.exists(f"{self.base}/report.{pid}.{pid}.json")
                found.setdefault(pid, []).append((1000 if is_last else int(before[3] or 1), report))
        return {pid: [report for _, report in sorted(reports, key=lambda pair: pair[0])] for pid, reports in found.items()}


def word(report):
    coverage = report["trace"].get("coverage")
    return coverage["word"] if coverage else "complete" if report["trace"]["complete"] else "incomplete"


def facts(report):
    """What the report has of its word."""
    return report and (report["trace"].get("coverage") or report.get("untracked", {}).get("weighed"))


def word_of_text(line):
    if "INCOMPLETE" in line:
        return "incomplete"
    return "complete_for" if re.search("complete (but )?for", line) else "complete"


baselines, baselines_lock = {}, threading.Lock()


def baseline(program, *settings):
    """What the program has beside its script: the totals at `exit`, after `main`, and at `_exit`, when all is live."""
    with baselines_lock:
        if (program, settings) not in baselines:
            totals = []
            for end in ["exit", "return", "_exit"]:
                run = Run(Launch([*settings, program, f"end,{end}"]), "-base", [])
                totals.append(next(iter(run.reports.values()))[0]["totals"])
            baselines[program, settings] = totals
        return baselines[program, settings]


def figures(launch, image, report):
    """What is not as it should be, in words."""
    settings = [f"preload={ALLOCATOR_NAMES[image['below'] - 1]}"] * bool(image["below"]) + ["proc=0"] * (launch.get("proc") == "0")
    at_exit, at_return, in_life = baseline(image["program"], *settings)
    last = {EXIT: at_exit, RETURN: at_return}.get(image["end"], in_life)
    totals = report["totals"]
    # The C library has a block for each thread, std a few more and a stack of signals; the loader has some for each library.
    per_thread = (16, 32 << 10) if image["program"] == "rust" else (2, 2 << 10)
    slack_blocks, slack_bytes = (image["threads"] * part for part in per_thread)
    if re.search("prefix|,mi,", str(launch)):
        # Without /proc, jemalloc does not know that it may reserve: what it maps as it is loaded counts.
        slack_blocks, slack_bytes = slack_blocks + 100, slack_bytes + (8 * MIB if launch.get("proc") == "0" else 64 << 10)
    wanted = {
        "allocations": image["allocations"] + (image["inherited"] + in_life["live_blocks"] if image["is_fork"] else last["allocations"]),
        "live_blocks": image["live_blocks"] + last["live_blocks"],
        "live_bytes": image["live_bytes"] + last["live_bytes"],
        "peak_bytes": max(last["peak_bytes"] * (not image["is_fork"]), image["peak_bytes"] + in_life["live_bytes"]),
    }
    found = []
    for name, value in wanted.items():
        slack = slack_bytes if name.endswith("bytes") else slack_blocks
        if not value <= totals[name] <= value + slack:
            found.append(f"{name} {totals[name]}, expected {value}" + (f" to {value + slack}" if slack else ""))
    return found


def allowed_words(launch, image, is_followed_by_unrecorded):
    """Which words are true."""
    if is_followed_by_unrecorded:
        return {"incomplete"}
    is_weighable = launch.get("rss") != "off" and launch.get("proc") != "0"
    if image["is_vague"]:
        return WORDS
    if not is_weighable:
        return WORDS - {"complete"} if image["unseen"] > 2 * MIB else WORDS - {"incomplete"} if image["most_unseen"] == 0 else WORDS
    if image["surely_incomplete"]:
        return {"incomplete"}
    words = set(WORDS)
    if not image["maybe_incomplete"]:
        words -= {"incomplete"}
    if image["surely_for"] or image["large_once"] and image["unseen"] > 0 and image["end"] not in EXITS and not image["is_fork"]:
        words -= {"complete"}
    if not image["maybe_for"] and image["end"] in EXITS and not image["filter"] and not image["is_fork"]:
        words = {"complete"}
    return words


def is_of(trace, image):
    """Whether a report is of this image; that of a fork begins with what its parent had."""
    name = (trace["program"] or image["program"]).rsplit("/")[-1]
    return name == image["program"] and (trace["recording_since_ns"] > 0) == (image["is_fork"] > 0)


def judge(launch, alone, recorded, condition):
    """What is wrong, in sentences, and whether a word could not be judged."""
    found, unjudged = [], False
    if alone.out != recorded.out:
        found.append(f"output {recorded.out!r}, alone {alone.out!r}")
    words_of_first = WORDS
    may_follow = launch.get("follow") == "1"
    first = recorded.images[0]["pid"] if recorded.images else None
    used = {pid: 0 for pid in recorded.reports}
    seen = []  # Of each image: its report, or None.
    for image in recorded.images:
        reports = recorded.reports.get(image["pid"], [])
        number = used.get(image["pid"], 0)
        is_its = number < len(reports) and is_of(reports[number]["trace"], image)
        used[image["pid"]] = number + is_its
        seen.append(reports[number] if is_its else None)
    # The files of a forked child that executes a program are those of that program, if it is recorded (docs/production.md).
    pids = [image["pid"] for image in recorded.images]
    replaced = [number for number, image in enumerate(recorded.images) if image["is_fork"]
                and any(seen[after] is not None for after in range(number + 1, len(seen)) if pids[after] == image["pid"])]
    lost = [other for other, report in enumerate(seen) if report is None and other not in replaced]
    for number, image in enumerate(recorded.images):
        if image["pid"] != first and not may_follow:
            continue
        name = f"{image['program']} (image {number})"
        chain = [other for other, of in enumerate(recorded.images) if of["pid"] == image["pid"]]
        before = [other for other in chain if other < number]
        after = [other for other in chain if other > number]
        if launch.get("text") and recorded.text is not None:
            said = word_of_text(recorded.text)
        elif seen[number] is None and (image["is_fork"] == 2 or number in replaced):
            if number in lost and not any(report and word(report) == "incomplete" for report in seen):
                found.append(f"{name}: is a child without a trace, and no report is INCOMPLETE")
            continue
        elif seen[number] is None:
            if recorded.text is None and not before and image["program"] != "static" and image["pid"] == first:
                found.append(f"{name}: no report: {recorded.err[-300:]!r}")
            elif image["program"] != "static" and not is_excused(launch):
                found.append(f"{name}: is not recorded")
            if not before and image["pid"] != first and not any(report and word(report) == "incomplete" for report in seen):
                found.append(f"{name}: is a child without a trace, and no report is INCOMPLETE")
            continue
        else:
            said = word(seen[number])
            # Without /proc, an allocator that is not found may be said to be there.
            if said == "incomplete" and launch.get("proc") == "0" and (launch.get("preload") or image["program"] == "je"):
                continue
            found += [f"{name}: {text}" for text in figures(launch, image, seen[number])]
        has_gap = bool(after) and after[0] in lost
        # The parent of a child without a trace may have its word.
        words = allowed_words(launch, image, has_gap)
        if may_follow and any(recorded.images[other]["pid"] != image["pid"] for other in lost):
            words = words | {"incomplete"}
        unjudged |= words == WORDS
        words_of_first = words if number == 0 else words_of_first
        if said not in words:
            found.append(f"{name}: {said}, expected {' or '.join(sorted(words))}; unseen {image['unseen']}, at most {image['most_unseen']}; {facts(seen[number])}")
    wanted = {alone.status}
    if alone.status == 0 and condition:
        wanted = {3} if condition[0] == "holds" else {0} if words_of_first <= {"complete", "complete_for"} else {0, 1}
    if recorded.status not in wanted:
        found.append(f"status {recorded.status}, expected {' or '.join(map(str, wanted))} (alone {alone.status}) {recorded.err[-200:]!r}")
    return found, unjudged


def is_excused(launch):
    """Whether the library cannot be in some program: of a system call where the environment lacks it, of another user, below a static one, or a filter."""
    text = str(launch)
    return bool(re.search(r",raw,", text) and re.search(r",(empty|nopreload|/\S+),", text) or re.search(r",static\b(?!,)|user|filter", text))


def check(launch, number):
    alone = Run(launch, f"{number}a")
    options, condition = [], None
    if launch.get("follow"):
        options.append("--follow-children")
    if launch.get("stacks"):
        options.append("--stacks")
    # Without others, so that there is one report.
    if alone.status == 0 and len(alone.images) == 1 and not launch.get("text"):
        peak = alone.images[0]["peak_bytes"]
        condition = ("holds", peak - 1) if peak % 2 else ("does not", 64 << 30)
        options += ["--fail-if", f"peak_bytes > {condition[1]}B"]
    return judge(launch, alone, Run(launch, f"{number}r", options), condition)


def result(numbered):
    number, launch = numbered
    try:
        found, unjudged = check(launch, number)
        # A failure that is not there again is one, too: it is said.
        again = sum(bool(check(launch, number)[0]) for _ in range(2)) if found else 0
        return launch, found, unjudged, again
    except Exception as error:
        return launch, [f"the check: {error!r}"], False, 0
    finally:
        for kind in "ar":
            shutil.rmtree(f"{FOLDER}/run{number}{kind}", ignore_errors=True)


def run_all(jobs, is_strict=True):
    """The number of failures; `jobs` are names with scripts. If it is not strict, one that is not there again is said, and no failure: the machine
    was busy."""
    passed = failed = not_judged = 0
    began = time.monotonic()
    with ThreadPoolExecutor(int(os.environ.get("jobs", "2"))) as pool:
        results = pool.map(result, enumerate(launch for _, launch in jobs))
        for (name, _), (launch, found, unjudged, again) in zip(jobs, results):
            is_failure = bool(found) and (is_strict or again == 2)
            passed, failed, not_judged = passed + (not found), failed + is_failure, not_judged + (unjudged and not found)
            if found:
                print(f"{'FAIL' if is_failure else 'ONCE'} {name}: {launch}", *found, f"again in {again} of 2", sep="\n     ", flush=True)
    print(f"{passed - not_judged} passed, {failed} failed, {not_judged} not judged (their words; all else is right); {time.monotonic() - began:.0f} s")
    return failed


def harmless():
    failed = 0
    folder = f"{FOLDER}/harmless"
    os.makedirs(folder)
    programs = ["REPOSITORY"]
    for command in HARMLESS:
        command = command.replace("REPOSITORY", os.getcwd())
        if shutil.which(command.split()[0]) is None:
            print("not there:", command)
            continue
        programs.append(command)
    for how in ["joined", "unjoined", "detached", "alive"]:
        open(f"{folder}/truth", "wb").truncate(TRUTH_BYTES)
        programs += [f"{FOLDER}/{program} {folder}/truth threads,300,{stack},20,100,{how} sleep,300 end,exit" for program in PROGRAMS for stack in [32, 64, 2048]]
    for command in programs[1:]:
        report = f"{folder}/report.json"
        if os.path.exists(report):
            os.remove(report)
        if "truth" in command:
            open(f"{folder}/truth", "wb").truncate(TRUTH_BYTES)
        ended = subprocess.run([MEMLEDGER, "run", "--preload", f"{FOLDER}/libmemledger_preload.so", "-o", report, "--", "sh", "-c", f"exec {command}"], cwd=folder,
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S * 2)
        if not os.path.exists(report):
            failed += 1
            print("FAIL", command[:60], "no report:", ended.stderr[-200:])
            continue
        report = json.load(open(report))
        is_right = word(report) != "incomplete"
        failed += not is_right
        print("ok  " if is_right else "FAIL", word(report), f"{report['totals']['allocations']} allocations, {report['totals']['peak_bytes']} bytes at the peak,",
              facts(report), command.replace(FOLDER + "/", "")[:70], flush=True)
    print(f"{len(programs) - 1 - failed} passed, {failed} failed")
    return failed


def main(words):
    if words[:1] == ["--harmless"]:
        return harmless()
    known = [(name, Launch(script.split())) for name, script in ATTACKS + FOUND]
    if words[:1] == ["--attacks"]:
        return run_all(known)
    if words[:1] == ["--script"]:
        return run_all([("script", Launch(" ".join(words[1:]).split()))])
    if words[:1] == ["--one"]:
        launch = Generator(int(words[1])).make()
        print(launch)
        return run_all([(words[1], launch)])
    is_short = words[:1] == ["--short"]
    count = 100 if is_short else 3000
    words = [word for word in words if not word.startswith("--")]
    count = int(words[0]) if words else count
    # In CI the programs are the same each time.
    seed = int(words[1]) if len(words) > 1 else 20261128 if is_short else time.time_ns() // 1000 % 10**9
    print(f"{count} programs from seed {seed} on", flush=True)
    programs = [(f"--one {number}", Generator(number).make()) for number in range(seed, seed + count)]
    return run_all(known * is_short + programs, is_strict=not is_short)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
