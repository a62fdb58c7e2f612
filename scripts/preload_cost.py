#!/usr/bin/env python3
"""What it costs programs to be tracked by the library of preload/, and by heaptrack.

    scripts/preload_cost.py [--short] [ROUNDS]

Runs each program in turn alone, recorded, by `memledger run --report off` (from its start to its end), recorded with call stacks,
and under heaptrack, 11 times by default. Prints the median wall time of each and its ratio to that of the program alone. Then what a fork
takes its process, and its child until that begins, alone and where children are followed. --short leaves out stacks and heaptrack. `$memledger` is the command, if it is set; otherwise it is built. Needs gcc, sqlite3, python3 with numpy, and
heaptrack; what is missing is said and left out."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SQL = """create table t(a integer primary key, b text, c real); begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
insert into t select i, 'row number ' || (i * 7919 % 300007), i / 3.0 from n; commit;
create index of_b on t(b); select count(*), sum(length(b)) from t where b like '%99%';
select b, count(*) from t group by substr(b, 1, 14) order by 2 desc limit 5;
update t set b = b || 'x' where a % 3 = 0; delete from t where a % 5 = 0; select sum(c) from t;"""
NUMPY = "import numpy; of = numpy.random.default_rng(1).random(3_000_000); of.sort(); print(of[0] < of[-1])"
JSON = "import json; text = json.dumps([{'a': i, 'b': [str(i)] * 5} for i in range(60000)]); " \
       "print(sum(len(json.loads(text)) for _ in range(4)))"
# 20 million pairs over 1,000 live blocks, and hardly anything else.
ALLOCATES = """#include <stdlib.h>
int main(void) {
    static char *blocks[1000];
    unsigned number = 1;
    for (int i = 0; i < 20000000; i++) {
        number = number * 1103515245 + 12345;
        char **block = &blocks[(number >> 8) % 1000];
        free(*block);
        if (!(*block = malloc(16 + (number >> 20) % 240))) return 1;
        **block = 1;
    }
}"""


def programs(folder):
    source = os.path.join(folder, "large.c")
    with open(source, "w") as out:
        out.writelines(f"int f{i}(int x) {{ return x * {i} + (x >> {i % 7}); }}\n" for i in range(3000))
    if shutil.which("gcc"):
        compiler = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
        yield "gcc -O2 (cc1), 3,000 functions", [compiler, "-O2", "-quiet", "-o", os.devnull, source], None
    if shutil.which("sqlite3"):
        yield "SQLite, 300,000 rows", ["sqlite3", ":memory:"], SQL
    python = os.path.realpath(shutil.which("python3") and sys.executable)
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
        yield "Python: import numpy, sort", [python, "-c", NUMPY], None
    yield "Python: JSON", [python, "-c", JSON], None
    if shutil.which("gcc"):
        allocates = os.path.join(folder, "allocates")
        subprocess.run(["gcc", "-O2", "-xc", "-", "-o", allocates], input=ALLOCATES, check=True, text=True)
        yield "C: malloc and free, no more", [allocates], None
    yield "true", ["/bin/true"], None


def forks(folder, run):
    program = f"{folder}/fork_cost"
    subprocess.run(["gcc", "-O1", "-o", program, f"{ROOT}/tests/preload/fork_cost.c"], check=True)
    followed = run[:-1] + ["--follow-children", "--trace", f"{folder}/%p.memledger", "--"]
    print("\nmedians of 300 forks                    parent      child")
    for name, before, environment in [("alone", [], {}), ("followed", followed, {}),
                                      ("followed, without watchers", followed, {"MEMLEDGER_WATCH": "0"})]:
        ended = subprocess.run(before + [program, "300"], env=os.environ | environment, check=True, capture_output=True, text=True)
        parent, child = ended.stdout.split()
        print(f"{name:34}{parent:>9} us{child:>8} us")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--short"]
    rounds = int(arguments[0]) if arguments else 11
    short = "--short" in sys.argv
    build = ["cargo", "build", "--quiet", "--release", "--manifest-path", f"{ROOT}/preload/Cargo.toml",
             "--target-dir", f"{ROOT}/target/preload"]
    subprocess.run(build, check=True)
    library = f"{ROOT}/target/preload/release/libmemledger_preload.so"
    memledger = os.environ.get("memledger")
    if not memledger:
        subprocess.run(["cargo", "build", "--quiet", "--release", "--workspace", "--bin", "memledger"], check=True, cwd=ROOT)
        memledger = f"{ROOT}/target/release/memledger"
    with tempfile.TemporaryDirectory() as folder:
        recorded = {"LD_PRELOAD": library, "MEMLEDGER_TRACE": f"{folder}/trace.memledger", "MEMLEDGER_REPORT": "off"}
        run = [memledger, "run", "--report", "off", "--preload", library, "--"]
        ways = {"alone": ({}, []), "recorded": (recorded, []), "memledger run": ({}, run)}
        if not short:
            ways["with stacks"] = (recorded | {"MEMLEDGER_STACKS": "on"}, [])
        if not short and shutil.which("heaptrack"):
            ways["heaptrack"] = ({}, ["heaptrack", "-o", f"{folder}/heaptrack"])
        for missing in [name for name in ["gcc", "sqlite3", "heaptrack"] if not shutil.which(name)]:
            print(f"{missing} is not installed")
        print(f"{'':34}" + "".join(f"{way:>22}" for way in ways))
        for name, command, text in programs(folder):
            times = {way: [] for way in ways}
            for _ in range(rounds if name != "true" else 10 * rounds):
                for way, (environment, before) in ways.items():
                    started = time.perf_counter()
                    subprocess.run(before + command, input=text, text=True, check=True, env=os.environ | environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    times[way].append(time.perf_counter() - started)
            medians = [statistics.median(of) for of in times.values()]
            print(f"{name:34}" + "".join(f"{1e3 * median:>11.1f} ms {median / medians[0]:>6.2f}x" for median in medians))
        if shutil.which("gcc"):
            forks(folder, run)


if __name__ == "__main__":
    main()
