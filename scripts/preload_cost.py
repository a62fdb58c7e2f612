#!/usr/bin/env python3
"""What it costs programs to be tracked by the library of preload/, and by heaptrack.

    scripts/preload_cost.py [ROUNDS]

Runs each program in turn alone, recorded, recorded with call stacks, and under heaptrack. Prints the smallest wall
time of each and its ratio to the program alone. Needs gcc, sqlite3, python3 with numpy, and heaptrack; what is missing is
said and left out."""

import os
import shutil
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
    yield "true", ["/bin/true"], None


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    build = ["cargo", "build", "--quiet", "--release", "--manifest-path", f"{ROOT}/preload/Cargo.toml",
             "--target-dir", f"{ROOT}/target/preload"]
    subprocess.run(build, check=True)
    library = f"{ROOT}/target/preload/release/libmemledger_preload.so"
    with tempfile.TemporaryDirectory() as folder:
        recorded = {"LD_PRELOAD": library, "MEMLEDGER_FILE": f"{folder}/trace.memledger", "MEMLEDGER_REPORT": "off"}
        ways = {"alone": ({}, []), "recorded": (recorded, []),
                "with stacks": (recorded | {"MEMLEDGER_STACKS": "on"}, [])}
        if shutil.which("heaptrack"):
            ways["heaptrack"] = ({}, ["heaptrack", "-o", f"{folder}/heaptrack"])
        for missing in [name for name in ["gcc", "sqlite3", "heaptrack"] if not shutil.which(name)]:
            print(f"{missing} is not installed")
        print(f"{'':34}" + "".join(f"{way:>22}" for way in ways))
        for name, command, text in programs(folder):
            least = dict.fromkeys(ways, float("inf"))
            for _ in range(rounds if name != "true" else 10 * rounds):
                for way, (environment, before) in ways.items():
                    started = time.perf_counter()
                    subprocess.run(before + command, input=text, text=True, check=True, env=os.environ | environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    least[way] = min(least[way], time.perf_counter() - started)
            alone = least["alone"]
            print(f"{name:34}" + "".join(f"{1e3 * time:>11.1f} ms {time / alone:>6.2f}x" for time in least.values()))


if __name__ == "__main__":
    main()
