"""Documents `memledger.page/1` that are made, not recorded: many stacks, strange names, no stacks, a sample, a damaged
trace, a difference. Their figures add up as those of a report do. `page()` puts one into the page.

    python3 page/tests/documents.py FOLDER      writes each of them as a page
"""

import base64
import gzip
import json
import pathlib
import random
import sys

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "crates/export/src/html/page.html"
MARKER = "<!-- memledger-data -->"
FIGURES = (
    "live_bytes", "live_blocks", "live_bytes_at_peak", "live_blocks_at_peak", "allocated_bytes", "allocations",
    "reallocations", "frees", "short_lived",
)
# What a program can name a scope: markup, quotes, characters that turn text around or cannot be seen.
NASTY = [
    "<script>document.title = 'run'</script>", "</script><img src=x onerror=\"document.title='run'\">", "\"'`&amp;&lt;",
    "user\u202etxt.exe", "a\u0000b\u001b[31mred\u0007", "line\nbreak\ttab", "zero\u200bwidth", "שלום עולם", "🦀 crab", "x" * 3000,
    "{{SCRIPT}} <!-- memledger-data -->", "\u2066isolate\u2069", "",
]


def page(document, path, template=TEMPLATE):
    """Writes the page with this document, as `memledger report -o` does."""
    packed = base64.b64encode(gzip.compress(json.dumps(document).encode(), 6)).decode()
    data = f'<script type="application/gzip;base64" id="memledger-data">{packed}</script>'
    pathlib.Path(path).write_text(pathlib.Path(template).read_text().replace(MARKER, data))


def coded(numbers):
    """A column: base64 of the differences of neighbours, in zigzag and LEB128."""
    out, last = bytearray(), 0
    for number in numbers:
        difference, last = number - last, number
        rest = 2 * difference if difference >= 0 else -2 * difference - 1
        while rest >= 0x80:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return base64.b64encode(out).decode()


def zero():
    return dict.fromkeys(FIGURES, 0)


class Maker:
    """Collects buckets, and makes the document of them."""

    def __init__(self, program="made", seed=1):
        self.random = random.Random(seed)
        self.program = program
        self.strings, self.frames, self.nodes = [""], [], []
        self.numbers, self.frame_numbers, self.children = {"": 0}, {}, {}
        self.scopes, self.names, self.threads = {}, {}, {}
        self.buckets = []

    def string(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.strings)
            self.strings.append(text)
        return self.numbers[text]

    def stack(self, calls):
        """`calls`: (function, file, line), the outermost first."""
        node = -1
        for function, file, line in calls:
            crate = function.split("::")[0] if "::" in function else ""
            frame = (self.string(function), self.string(file), line, self.string(crate), int(crate == "alloc"))
            if frame not in self.frame_numbers:
                self.frame_numbers[frame] = len(self.frames)
                self.frames.append(frame)
            key = (node, self.frame_numbers[frame])
            if key not in self.children:
                self.children[key] = len(self.nodes)
                self.nodes.append(key)
            node = self.children[key]
        return node

    def add(self, scope, name, thread, stack, figures):
        def number(known, key):
            return known.setdefault(key, len(known))
        self.buckets.append((
            number(self.scopes, tuple(scope)), number(self.names, tuple(name)), number(self.threads, thread), stack,
            {**zero(), **figures},
        ))

    def document(self, **more):
        def rows(known, at, entry):
            made = [{**entry(key), **zero(), "peak_bytes": 0} for key in known]
            for bucket in self.buckets:
                for key in FIGURES:
                    made[bucket[at]][key] += bucket[4][key]
            for row in made:
                row["peak_bytes"] = max(row["live_bytes"], row["live_bytes_at_peak"])
            return made
        def with_inner(made, path):
            by_path = {}
            for row in made:
                row["inclusive"] = zero()
                by_path[tuple(row[path])] = row
            for row in made:
                for length in range(1, len(row[path]) + 1):
                    outer = by_path.get(tuple(row[path][:length]))
                    if outer:
                        for key in FIGURES:
                            outer["inclusive"][key] += row[key]
            return made
        groups = {}
        by_scope = with_inner(rows(self.scopes, 0, lambda path: {"path": list(path)}), "path")
        by_name = rows(self.names, 1, lambda path: {"group": list(path[:-1]), "name": path[-1]})
        for row in by_name:
            group = groups.setdefault(tuple(row["group"]), {"group": row["group"], **zero(), "peak_bytes": 0})
            for key in (*FIGURES, "peak_bytes"):
                group[key] += row[key]
        totals = {key: sum(bucket[4][key] for bucket in self.buckets) for key in FIGURES}
        peak = totals.pop("live_bytes_at_peak")
        totals.update({
            "peak_bytes": peak, "peak_bytes_at_ns": 1_200_000_000, "blocks_at_peak": totals.pop("live_blocks_at_peak"),
            "peak_blocks": 10, "overhead_bytes": 1 << 20,
        })
        column = lambda at: coded(bucket[at] for bucket in self.buckets)
        return {
            "schema": "memledger.page/1", "moment": None, "notes": [],
            "trace": {
                "program": self.program, "pid": 4242, "duration_ns": 2_000_000_000, "time_resolution_ns": 10_000_000,
                "events": totals["allocations"] + totals["frees"] + totals["reallocations"], "from_process_start": True,
                "complete": True, "coverage": {"word": "complete"},
            },
            "totals": totals,
            "losses": dict.fromkeys(("lost_events", "serial_holes", "unmatched_frees", "duplicate_allocations", "truncated_bytes", "scope_misuses"), 0),
            "after_report": {"allocations": 0, "frees": 0, "allocated_bytes": 0},
            "bookmarks": [{"name": "warm", "at_ns": 400_000_000}, {"name": "after\u202e load", "at_ns": 1_500_000_000}],
            "by_scope": by_scope, "by_group": with_inner(list(groups.values()), "group"), "by_name": by_name,
            "by_thread": rows(self.threads, 2, lambda name: {"id": 2 + list(self.threads).index(name), "name": name, "system_id": 1}),
            "by_size": [{"min_bytes": 0, "max_bytes": None, **{key: sum(bucket[4][key] for bucket in self.buckets) for key in FIGURES}, "peak_bytes": peak}],
            "stack_sampling_bytes": None, "largest_live": [], "strings": self.strings,
            "frames": {key: coded(frame[at] for frame in self.frames) for at, key in enumerate(("name", "file", "line", "crate", "folded"))},
            "stacks": {"parent": coded(node[0] for node in self.nodes), "frame": coded(node[1] for node in self.nodes)},
            "buckets": {
                "scope": column(0), "name": column(1), "thread": column(2), "stack": column(3),
                **{key: coded(bucket[4][key] for bucket in self.buckets) for key in FIGURES},
            },
            "timeline": self.timeline(totals, peak), "diff": None, **more,
        }

    def timeline(self, totals, peak, points=1000):
        at = [2_000_000_000 * point // (points - 1) for point in range(points)]
        def live(point, most, end):
            share = point / (points - 1)
            return round(most * share / 0.6 if share <= 0.6 else most + (end - most) * (share - 0.6) / 0.4)
        def grow(total):
            return [round(total * point / (points - 1)) for point in range(points)]
        live_bytes = [live(point, peak, totals["live_bytes"]) for point in range(points)]
        columns = {
            "at_ns": at, "events": at, "live_bytes": live_bytes, "peak_bytes": live_bytes,
            "live_blocks": [live(point, totals["blocks_at_peak"], totals["live_blocks"]) for point in range(points)],
            **{key: grow(totals[key]) for key in ("allocated_bytes", "allocations", "frees", "reallocations")},
        }
        return {
            **{key: coded(column) for key, column in columns.items()},
            "threads": [
                {"thread": row, "live_bytes": coded(value // (row + 2) for value in live_bytes), "allocated_bytes": coded(at)}
                for row in range(min(len(self.threads), 6))
            ],
        }


def figures(random):
    count = random.randint(1, 40)
    live, peak = random.randint(0, count), random.randint(0, count)
    size = int(2 ** random.uniform(3, 16))
    return {
        "live_bytes": live * size, "live_blocks": live, "live_bytes_at_peak": peak * size, "live_blocks_at_peak": peak,
        "allocated_bytes": count * size, "allocations": count, "frees": count - live, "short_lived": random.randint(0, count - live),
    }


def many_stacks(stacks=100_000):
    """As of a large server: its stacks share their outer frames, and end in different ones."""
    made = Maker("many-stacks")
    modules = [f"server::module_{number}" for number in range(60)]
    def call(depth, number):
        module = modules[(depth * 7 + number) % len(modules)]
        return f"{module}::function_{depth}_{number}", f"src/{module.split('::')[1]}.rs", 10 + number
    seen = set()
    while len(seen) < stacks:
        depth = made.random.randint(8, 34)
        path = tuple(made.random.randint(0, 2 if at < 5 else 4) for at in range(depth))
        if path in seen:
            continue
        seen.add(path)
        stack = made.stack([("server::main", "src/main.rs", 3)] + [call(at, number) for at, number in enumerate(path)])
        scope = ["GlobalScope", f"request {path[0]}", f"handler {path[1]}"][: 1 + len(path) % 3]
        made.add(scope, ("Unknown", "Unnamed") if path[2] else ("Net", f"buffer {path[3]}"), f"worker-{path[4]}", stack, figures(made.random))
    return made.document()


def small(program="small", stacks=True):
    made = Maker(program)
    main = ("small::main", "src/main.rs", 5)
    for number, (scope, name) in enumerate([
        (["GlobalScope"], ("Unknown", "Unnamed")), (["GlobalScope", "load level"], ("Rendering", "Textures", "Mesh::texture_coordinates")),
        (["GlobalScope", "load level", "parse"], ("Unknown", "Unnamed")), (["GlobalScope", "frame"], ("Rendering", "vertices")),
        (["GlobalScope", "frame"], ("Audio", "samples")), (["GlobalScope", "frame", "physics"], ("Unknown", "Unnamed")),
    ]):
        for line in range(5):
            calls = [main, (f"small::step_{number}", "src/step.rs", 7), (f"alloc::vec::push_{line}", "src/vec.rs", line + 1)]
            stack = made.stack(calls[: 2 + line % 2]) if stacks else -1
            made.add(scope, name, ("main", "worker")[line % 2], stack, figures(made.random))
    return made


def nasty():
    made = Maker("<img src=x onerror=\"document.title='run'\">\u202e")
    for number, name in enumerate(NASTY):
        stack = made.stack([("main", name, 1), (name, name, number + 1)])
        made.add(["GlobalScope", name], (name, name), name, stack, figures(made.random))
    document = made.document(notes=[f"a note with {name}" for name in NASTY[:3]], bookmarks=[{"name": name, "at_ns": 10**8 * at} for at, name in enumerate(NASTY)])
    document["largest_live"] = [
        {"address": "0x1", "bytes": 8, "thread": name, "group": [name], "name": name, "path": ["GlobalScope", name], "allocated_at_ns": 5, "stack": 0}
        for name in NASTY
    ]
    document["findings"] = [
        {"kind": "grows_stepwise", "heading": "grows stepwise", "evidence": f"evidence {name}", "suggestion": f"suggestion {name}", "weight_millionths": 10_000,
         "weight_of": "allocated_bytes", "of_sample": False, "place": place(name, name, name)}
        for name in NASTY[:6]
    ]
    document["peak_by"] = {"evidence": f"evidence {NASTY[0]}", "weight_millionths": 990_000, "place": place(NASTY[0], NASTY[1], NASTY[2])}
    return document


def place(function, file, caller):
    """A place of a finding, with a caller in the same file, and a share each."""
    of = {"function": caller, "file": file, "lines": [3, 4]}
    return {"function": function, "file": file, "line": 1, "lines": [1, 2], "callers": [of], "shares": [{"function": caller, "millionths": 400_000}],
            "path": ["GlobalScope"], "group": [], "name": None, "thread": function}


def long_names():
    """Functions whose names have kilobytes, as templates of C++ make them, with what the text report shows of them."""
    made = Maker("long-names")
    def name(of):
        return f"void scene::Expression<{', '.join(f'scene::Operand<{of}, {at}>' for at in range(200))}>::evaluate(std::vector<{of}>&)"
    wholes = [name(of) for of in ("float", "double", "int")]
    for at, whole in enumerate(wholes):
        stack = made.stack([("main", "src/main.cpp", 3), ("scene::render_a_frame_of_the_scene_with_all_its_lights_and_shadows", "src/scene.cpp", 7), (whole, "src/expression.cpp", 9 + at)])
        made.add(["GlobalScope"], ("Unknown", "Unnamed"), "main", stack, figures(made.random))
    shown = "void scene::Expression<…>::evaluate(std::vector<…>&)"
    shorts = [shown, f"{shown} #2", f"{shown} #3"]
    document = made.document(short={"string": coded(made.numbers[whole] for whole in wholes), "text": shorts})
    document["findings"] = [
        {"kind": "grows_stepwise", "heading": "grows stepwise", "evidence": "it grew", "suggestion": "reserve", "weight_millionths": 10_000,
         "weight_of": "allocated_bytes", "of_sample": False, "place": place(whole, "src/expression.cpp", wholes[0])}
        for whole in wholes
    ]
    return document


def damaged():
    document = small("damaged").document(notes=["not whole: 1,234 events are missing"])
    document["trace"].update({"complete": False, "coverage": {"word": "incomplete"}})
    document["losses"].update({"lost_events": 1234, "serial_holes": 2, "truncated_bytes": 77})
    return document


def sampled():
    document = small("sampled").document(notes=["sampled: the figures by stack are estimates, from a stack for each 524288 bytes on average"])
    document["stack_sampling_bytes"] = 524288
    return document


def changed():
    document = small("changed").document()
    old = small("changed").document()
    def side(row):
        return {key: row[key] for key in (*FIGURES, "peak_bytes")}
    rows = []
    for number, row in enumerate(document["by_scope"]):
        before = {key: value // (number % 3 + 1) * (1 + number % 2) for key, value in side(row).items()}
        states = ["new", "gone", "grown", "shrunk"]
        rows.append({
            "path": row["path"], "state": states[number % 4], "change": row["live_bytes_at_peak"] - before["live_bytes_at_peak"],
            "old": None if number % 4 == 0 else before, "new": None if number % 4 == 1 else side(row),
        })
    document["old_timeline"] = old["timeline"]
    document["diff"] = {
        "schema": "memledger.diff/1", "column": "live_bytes_at_peak",
        "old": {"name": "old<b>.memledger", "trace": old["trace"], "totals": {**old["totals"], "peak_bytes": old["totals"]["peak_bytes"] // 2}, "losses": old["losses"]},
        "new": {"name": "new.memledger", "trace": document["trace"], "totals": document["totals"], "losses": document["losses"]},
        "tables": [{"by": "scope", "new": 2, "gone": 2, "grown": 1, "shrunk": 1, "same": 0, "rows": rows}],
    }
    return document


def resident(readings, factor=1):
    """With resident memory: bytes are halves of the peak, times `factor`, in units of 1 MiB."""
    document = small().document()
    peak = document["totals"]["peak_bytes"]
    all_bytes = [value * peak * factor >> 21 for _, value in readings]
    document["rss_timeline"] = {"at_ns": coded(at for at, _ in readings), "rss_bytes": coded(all_bytes)}
    document["resident"] = {"all": "4 MiB", "when": "at end", "parts": "3.0 live + 1.0 files", "rest": "5.0 MiB at most"}
    document.update(findings=[], none_found="none: blocks left behind. Resident: 4 MiB = 3.0 live + 1.0 files")
    return document


def tags():
    """Of Unreal 4: what the engine counted, and no blocks."""
    document = Maker("tags").document(notes=["this trace has no single allocations"])
    paths = [("Default", ["Total"]), ("Default", ["Total", "Textures"]), ("Platform", ["Total"]), *(("Default", ["Total", name]) for name in NASTY[:-1])]
    document["llm_tags"] = [
        {"tracker": tracker, "path": path, "samples": 62 + number, "first_bytes": 100 * number, "first_at_ns": 1000, "last_bytes": (50 - number) << 20,
         "last_at_ns": 2_000_000_000, "min_bytes": -5000 * number, "min_at_ns": 3, "peak_bytes": (60 + number) << 20, "peak_at_ns": 1_000_000 * number}
        for number, (tracker, path) in enumerate(paths)
    ]
    return document


ALL = {
    "small": lambda: small().document(), "many-stacks": many_stacks, "nasty": nasty,
    "long-names": long_names,
    "no-stacks": lambda: small("no-stacks", stacks=False).document(), "damaged": damaged, "sampled": sampled, "changed": changed, "tags": tags,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or ALL:
        page(ALL[name](), folder / f"{name}.html")
        print(folder / f"{name}.html", (folder / f"{name}.html").stat().st_size)


if __name__ == "__main__":
    main()
