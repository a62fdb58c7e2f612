"""Recomputes the figures of findings by SQL from the tables of a trace: scripts/check_figures.py TRACE...

It reads `set` and `figures` of a report in JSON, and has its own SQL for each key; a key that it does not know fails.
`memledger`, the command, is in the environment.
"""

import csv
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

# The blocks of these are not in the report, or they are no sums over blocks.
NOT_OF_THE_SET = {"other_blocks", "other_bytes", "reserve_bytes", "pages", "before_end_ns"}
# These have a set whose blocks are more than those that they count: a container that grows is several blocks.
NOT_COUNTED = {"grows_stepwise"}
LAST = 2**62


def told(*arguments):
    command = [os.environ["memledger"], *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout


def number(text):
    return int(text) if text.lstrip("-").isdigit() else text or None


class Tables:
    """The tables of a trace."""

    def __init__(self, trace, folder):
        self.sql = sqlite3.connect(":memory:")
        told("export", trace, "--to", "csv", "-o", folder)
        for table in ("blocks", "events", "contexts"):
            with open(folder / f"{table}.csv", newline="") as file:
                rows = csv.reader(file)
                names = ", ".join(f'"{name}"' for name in next(rows))
                self.sql.execute(f"CREATE TABLE all_{table} ({names})")
                holes = ", ".join("?" * len(names.split(", ")))
                of = ([number(cell) for cell in row] for row in rows)
                self.sql.executemany(f"INSERT INTO all_{table} VALUES ({holes})", of)

    def limit(self, report, finding):
        """Only the blocks of one finding from here on."""
        chosen = finding["set"]
        for table in ("stacks", "scopes", "contexts", "at_then", "live", "freed"):
            self.sql.execute(f"DROP TABLE IF EXISTS {table}")
        self.sql.execute("CREATE TABLE stacks (stack)")
        self.sql.executemany("INSERT INTO stacks VALUES (?)", [(stack,) for stack in chosen["stacks"]])
        self.sql.execute("CREATE TABLE scopes (scope, of, name)")
        scopes = [(report["by_scope"][at["scope"]], report["by_name"][at["name"]]) for at in chosen["scopes"]]
        rows = [(" > ".join(scope["path"]), " > ".join(name["group"]), name["name"]) for scope, name in scopes]
        self.sql.executemany("INSERT INTO scopes VALUES (?, ?, ?)", rows)
        self.sql.execute("""CREATE TABLE contexts AS SELECT * FROM all_contexts c WHERE context >= 0 AND (
            stack IN (SELECT stack FROM stacks)
            OR EXISTS (SELECT 1 FROM scopes s WHERE s.scope = c.scope AND s.of = c."group" AND s.name = c.name))""")
        positions = [self.event_of(at) for at in chosen["positions"]]
        # What is freed as the program ends does not count as freed.
        ends = LAST if chosen["freed_until"] is None else chosen["freed_until"]
        self.since = positions.pop(0) if chosen["rule"] in ("grown", "allocated-after") else 0
        self.until = positions.pop(0) if positions else LAST
        # Of each block, what the last event before the moment says: SQLite takes the row with the maximum.
        self.sql.execute(f"""CREATE TABLE at_then AS SELECT block, context, kind, total(live_bytes) AS bytes,
            max(event * 2 + (live_bytes > 0)) AS last FROM all_events WHERE event <= {self.until} GROUP BY block""")
        self.sql.execute("""CREATE TABLE live AS SELECT a.*, b.allocated_at_ns AS born_ns, b.block AS born
            FROM at_then a JOIN contexts USING (context) JOIN all_blocks b USING (block)
            WHERE kind NOT IN ('free', 'left', 'realloc_free')""")
        of_set = "FROM all_blocks b JOIN contexts c USING (context) WHERE state = 'freed'"
        self.sql.execute(f"""CREATE TABLE freed AS SELECT b.*, b.ended_at_ns - b.allocated_at_ns AS lived_ns, c.thread_id
            {of_set} AND ended <= {ends}""")
        self.freed_at_end = self.one(f"SELECT count(*) {of_set} AND ended > {ends}")

    def event_of(self, position):
        if "event" in position:
            return position["event"]
        return self.one(f"SELECT max(event) FROM all_events WHERE at_ns <= {position['at_ns']}")

    def one(self, query):
        [value] = self.sql.execute(query).fetchone()
        return value

    def quantile(self, percent):
        count = self.one("SELECT count(*) FROM freed")
        place = max((count * percent + 99) // 100 - 1, 0)
        return self.one(f"SELECT lived_ns FROM freed ORDER BY lived_ns LIMIT 1 OFFSET {place}") if count else 0


def close(said, true):
    """A class of the histogram ends up to an eighth above what is in it; up to 16 times as high for a small place."""
    return true <= said <= max(true * 16, 16)


def recomputed(tables, report, key):
    """The figure, or whether one that was said can be right."""
    one = tables.one
    since = f"born > {tables.since}"
    if key == "blocks":
        return one(f"SELECT count(*) FROM live WHERE {since}")
    if key == "bytes":
        return one(f"SELECT total(bytes) FROM live WHERE {since}")
    if key == "mean_age_ns":
        end = one(f"SELECT min(at_ns) FROM all_events WHERE event > {tables.until}")
        end = report["trace"]["duration_ns"] if end is None else end
        return one(f"SELECT (count(*) * {end} - sum(born_ns)) / count(*) FROM live")
    if key == "freed":
        return one("SELECT count(*) FROM freed")
    if key == "freed_at_end":
        return tables.freed_at_end
    if key == "at_ns":
        return one("SELECT max(ended_at_ns) FROM freed")
    if key == "one_in":
        at_end = tables.freed_at_end if tables.until == LAST else 0
        return one(f"SELECT ((SELECT count(*) FROM freed) + {at_end} + count(*)) / count(*) FROM live")
    if key == "sites":
        return one("SELECT count(*) FROM stacks")
    if key == "passed":
        return one("SELECT count(*) FROM freed f JOIN all_contexts b ON b.context = f.freed_by WHERE b.thread_id <> f.thread_id")
    if key in ("freed_within_ns", "lived_ns"):
        return lambda said: close(said, tables.quantile(95))
    if key == "median_ns":
        return lambda said: close(said, tables.quantile(50))
    of = "FROM all_events JOIN contexts USING (context)"
    if key == "calls":
        return one(f"SELECT count(*) {of} WHERE kind IN ('alloc', 'realloc_alloc')")
    if key == "allocated_bytes":
        return one(f"SELECT total(allocated_bytes) {of}")
    if key == "most_live_bytes":
        most = one(f"""SELECT max(live) FROM (SELECT sum(live_bytes) OVER (ORDER BY event, live_bytes
            ROWS UNBOUNDED PRECEDING) AS live {of})""")
        return lambda said: said >= most
    if key == "live_bytes":
        live = one("SELECT total(bytes) FROM at_then WHERE kind NOT IN ('free', 'left', 'realloc_free')")
        # What came at the very time when the program began to end: a buffer of stdout, say.
        return lambda said: abs(said - live) <= 16 << 10
    raise AssertionError(f"there is no SQL for {key}")


def check_finding(trace, report, tables, number, finding):
    figures = {figure["key"]: figure["value"] for figure in finding["figures"]}
    tables.limit(report, finding)
    count = 0
    for figure in finding["figures"]:
        key, said = figure["key"], figure["value"]
        if figure["source"] != "blocks" or key in NOT_OF_THE_SET:
            continue
        true = recomputed(tables, report, key)
        wanted = "" if callable(true) else f", and by SQL {true}"
        is_right = true(said) if callable(true) else true == said
        assert is_right, f"{trace}: finding {number}, {finding['kind']}: {key} is {said}{wanted}"
        count += 1
    asked = json.loads(told("query", trace, "--finding", number, "--format", "json"))["total"]
    pairs = [("blocks", "blocks"), ("bytes", "bytes"), ("calls", "blocks"), ("allocated_bytes", "bytes")]
    for key, of in pairs:
        said = figures.get(key, asked[of])
        assert said == asked[of], f"{trace}: --finding {number} has {asked[of]} {of}, and the finding {said} {key}"
    return count


def check_trace(trace):
    """Returns how many figures were recomputed."""
    report = json.loads(told("report", trace, "--findings", "--format", "json"))
    findings = [(number, of) for number, of in enumerate(report["findings"], 1) if of["set"] and of["kind"] not in NOT_COUNTED]
    if not findings:
        return 0
    with tempfile.TemporaryDirectory() as name:
        tables = Tables(trace, Path(name) / "tables")
        return sum(check_finding(trace, report, tables, number, finding) for number, finding in findings)


if __name__ == "__main__":
    counts = [check_trace(trace) for trace in sys.argv[1:]]
    print(f"{len(counts)} traces: {sum(counts)} figures are those of the SQL")
