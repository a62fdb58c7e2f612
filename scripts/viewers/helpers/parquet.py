"""Called by parquet.sh: MEMLEDGER FOLDER_WITH_TRACES FOLDER_FOR_OUTPUT."""
import collections, json, os, subprocess, sys, time
import duckdb

memledger, traces, out = sys.argv[1:]
COLUMNS = ["allocations", "frees", "reallocations", "allocated_bytes", "live_blocks", "live_bytes", "short_lived"]

def run(*arguments):
    """Standard output. A trace without its end is exported, and its report printed, with status 1."""
    done = subprocess.run([memledger, *arguments], capture_output=True)
    if done.returncode > 1 or done.returncode == 1 and b"no end" not in done.stderr and b"damaged" not in done.stderr:
        sys.exit("%s: %s" % (arguments, done.stderr.decode()))
    return done.stdout

def check(name, ours, theirs):
    # A scope in which only inner scopes allocate has no context.
    ours, theirs = ({key: row for key, row in rows.items() if row != (0,) * len(COLUMNS)} for rows in (ours, theirs))
    if ours != theirs:
        different = [(key, ours.get(key), theirs.get(key)) for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        sys.exit("%s: %d rows differ, (row, report, DuckDB): %s" % (name, len(different), different[:3]))

def figures(database, key):
    """Per key: the columns of a report."""
    rows = collections.defaultdict(collections.Counter)
    events = """
        SELECT %s, COUNT(*) FILTER (kind = 'alloc'),
            COUNT(*) FILTER (kind = 'realloc_alloc') - COUNT(*) FILTER (kind = 'realloc_failed'),
            SUM(allocated_bytes), SUM(live_bytes)
        FROM events JOIN contexts USING (context) GROUP BY 1""" % key
    for row in database.execute(events).fetchall():
        rows[row[0]].update(dict(zip(["allocations", "reallocations", "allocated_bytes", "live_bytes"], map(int, row[1:]))))
    blocks = """
        SELECT %s, COUNT(*) FILTER (state = 'freed'), COUNT(*) FILTER (state = 'live'), SUM(short_lived),
            COALESCE(SUM(bytes) FILTER (state = 'live'), 0)
        FROM blocks JOIN contexts USING (context) GROUP BY 1""" % key
    for row in database.execute(blocks).fetchall():
        rows[row[0]].update(dict(zip(["frees", "live_blocks", "short_lived"], map(int, row[1:4]))))
        if rows[row[0]]["live_bytes"] != row[4]:
            sys.exit("live bytes of %s: %s in blocks, %s in events" % (row[0], row[4], rows[row[0]]["live_bytes"]))
    return {key: tuple(row[column] for column in COLUMNS) for key, row in rows.items()}

def compare(name, database, report):
    of = lambda row: tuple(row[column] for column in COLUMNS)
    check(name + " totals", {0: of(report["totals"])}, figures(database, "0"))
    by_scope = {" > ".join(row["path"]): of(row) for row in report["by_scope"]}
    check(name + " by scope", by_scope, figures(database, "scope"))
    by_name = {" > ".join(row["group"]) + " / " + row["name"]: of(row) for row in report["by_name"]}
    check(name + " by name", by_name, figures(database, '"group" || \' / \' || name'))
    check(name + " by thread", {row["id"]: of(row) for row in report["by_thread"]}, figures(database, "thread_id"))
    stacks = report.get("by_stack") or []
    if stacks:
        theirs = figures(database, "stack")
        theirs.pop(None, None)
        check(name + " by stack", {number: of(row) for number, row in enumerate(stacks)}, theirs)
        frames = dict(database.execute("SELECT stack, COUNT(DISTINCT function) FROM stacks JOIN frames USING (frame) GROUP BY 1").fetchall())
        if set(frames) != set(range(len(stacks))):
            sys.exit("%s: %d stacks have rows, the report has %d" % (name, len(frames), len(stacks)))
    peak = """SELECT COALESCE(MAX(live), 0) FROM (SELECT SUM(live_bytes) OVER (
        ORDER BY event, live_bytes ROWS UNBOUNDED PRECEDING) AS live FROM events)"""
    check(name + " peak", {0: report["totals"]["peak_bytes"]}, {0: int(database.execute(peak).fetchone()[0])})
    bookmarks = database.execute("SELECT at_ns, name FROM bookmarks ORDER BY ALL").fetchall()
    expected = sorted((mark["at_ns"], mark["name"]) for mark in report.get("bookmarks", []))
    check(name + " bookmarks", dict(enumerate(expected)), dict(enumerate(bookmarks)))
    return database.execute("SELECT COUNT(*) FROM events").fetchone()[0]

for trace in sorted(os.listdir(traces)):
    path = os.path.join(traces, trace)
    report = json.loads(run("report", path, "--format", "json"))
    for format, reader in [("parquet", "read_parquet('%s')"), ("csv", "read_csv('%s', header = true, all_varchar = false, nullstr = '')")]:
        folder = os.path.join(out, trace + "-" + format)
        start = time.monotonic()
        run("export", path, "--to", format, "-o", folder)
        seconds = time.monotonic() - start
        database = duckdb.connect()
        for file in os.listdir(folder):
            table = file.split(".")[0]
            database.execute("CREATE VIEW %s AS SELECT * FROM %s" % (table, reader % os.path.join(folder, file)))
        events = compare("%s in %s" % (trace, format), database, report)
        size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
        print("%-24s %-8s %9d events %6.2f bytes an event %6.2f s %5.1f M events/s" % (
            trace, format, events, size / max(events, 1), seconds, events / 1e6 / seconds))
print("DuckDB's sums are those of memledger report")
