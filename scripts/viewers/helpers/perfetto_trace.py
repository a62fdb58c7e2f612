"""Decodes each NAME.pftrace of a folder with Perfetto's own protos, reads it by the rules of its trace processor, and
compares what that has with `memledger report`; called by perfetto.sh.

    perfetto_trace.py MEMLEDGER TRACES FOLDER

The rules (src/trace_processor/importers/proto in Perfetto's sources): packets that need incremental state are skipped
until a packet of their sequence clears it; numbers of names and callstacks are those of their sequence; times of a clock
from 64 on are of their sequence; a dump of a heap profile needs clock 4, is kept when a packet says that nothing is
continued, and is stored as the difference to the dump before, by callstack, where a sum that falls is dropped.
"""

import collections
import json
import pathlib
import subprocess
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

memledger, traces, out = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
CLEARED, NEEDS = 1, 2
INTERNED = {
    "event_categories": "name",
    "event_names": "name",
    "debug_annotation_names": "name",
    "function_names": "str",
    "build_ids": "str",
    "mapping_paths": "str",
    "source_paths": "str",
    "mappings": None,
    "frames": None,
    "callstacks": None,
}


def fail(text):
    sys.exit(f"perfetto: {text}")


class Reader:
    """What a reader has of a file."""

    def __init__(self, path):
        self.stats = collections.Counter()
        self.interned = collections.defaultdict(dict)
        self.is_valid = collections.defaultdict(bool)
        self.defaults = {}
        self.clocks = collections.defaultdict(dict)
        self.has_coarse = False
        # Heap profile: by heap.
        self.previous = collections.defaultdict(lambda: (0, 0, 0, 0))
        self.pending = collections.defaultdict(list)
        self.index = {}
        self.dumps = collections.defaultdict(list)
        self.sums = collections.defaultdict(lambda: [0, 0, 0, 0])
        self.by_stack = collections.defaultdict(lambda: [0, 0, 0, 0])
        # Tracks.
        self.tracks = {}
        self.counters = collections.defaultdict(list)
        self.instants = []
        self.slices = []
        self.events = []
        trace = protos.Trace()
        trace.ParseFromString(path.read_bytes())
        for order, packet in enumerate(trace.packet):
            self.packet(packet, order)
        if self.pending:
            self.stats["dumps that are not finished"] += 1
        self.nest()

    def packet(self, packet, order):
        sequence = packet.trusted_packet_sequence_id
        if packet.sequence_flags & CLEARED:
            self.interned = collections.defaultdict(
                dict, {key: value for key, value in self.interned.items() if key[0] != sequence}
            )
            self.is_valid[sequence] = True
            self.defaults.pop(sequence, None)
        if packet.previous_packet_dropped:
            self.is_valid[sequence] = False
        if packet.HasField("trace_packet_defaults"):
            self.defaults[sequence] = packet.trace_packet_defaults
        if packet.HasField("clock_snapshot"):
            for clock in packet.clock_snapshot.clocks:
                if clock.clock_id >= 64:
                    self.clocks[sequence][clock.clock_id] = [clock.timestamp, clock.is_incremental]
                self.has_coarse |= clock.clock_id == 4
        if packet.sequence_flags & NEEDS and not self.is_valid[sequence]:
            self.stats["packets skipped"] += 1
            return
        for field, text in INTERNED.items():
            for entry in getattr(packet.interned_data, field):
                if entry.iid in self.interned[sequence, field]:
                    self.stats["numbers given twice"] += 1
                self.interned[sequence, field][entry.iid] = getattr(entry, text) if text else entry
        at = self.time(packet, sequence)
        if packet.HasField("track_descriptor"):
            self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("profile_packet"):
            self.profile(packet.profile_packet, sequence)
        if packet.HasField("track_event"):
            self.events.append((at, order, sequence, packet.track_event))

    def time(self, packet, sequence):
        clock = packet.timestamp_clock_id or (
            self.defaults[sequence].timestamp_clock_id if sequence in self.defaults else 0
        )
        if clock < 64:
            return packet.timestamp
        state = self.clocks[sequence].get(clock)
        if state is None:
            self.stats["times of an unknown clock"] += 1
            return 0
        state[0] = state[0] + packet.timestamp if state[1] else packet.timestamp
        return state[0]

    def lookup(self, sequence, field, iid):
        found = self.interned[sequence, field].get(iid)
        if found is None:
            self.stats[f"unknown {field}"] += 1
        return found

    def stack(self, sequence, iid):
        found = self.lookup(sequence, "callstacks", iid)
        frames = []
        for frame_iid in found.frame_ids if found else []:
            frame = self.lookup(sequence, "frames", frame_iid)
            if frame is None:
                continue
            name = self.lookup(sequence, "function_names", frame.function_name_id)
            if frame.mapping_id:
                mapping = self.lookup(sequence, "mappings", frame.mapping_id)
                if mapping:
                    self.lookup(sequence, "build_ids", mapping.build_id)
                    for part in mapping.path_string_ids:
                        self.lookup(sequence, "mapping_paths", part)
            if frame.source_path_iid:
                self.lookup(sequence, "source_paths", frame.source_path_iid)
            frames.append((name or b"").decode())
        return tuple(frames)

    def profile(self, profile, sequence):
        if not self.has_coarse:
            self.stats["dumps without a clock"] += 1
            return
        if profile.index != self.index.get(sequence, -1) + 1:
            self.stats["missing packets of a profile"] += 1
        self.index[sequence] = profile.index
        for dump in profile.process_dumps:
            if dump.orig_sampling_interval_bytes == 0:
                self.stats["dumps without counts"] += 1
            self.pending[sequence].append(dump)
        if profile.continued:
            return
        parts = self.pending.pop(sequence, [])
        for dump in parts:
            heap = dump.heap_name
            if not self.dumps[heap] or self.dumps[heap][-1] != dump.timestamp:
                self.dumps[heap].append(dump.timestamp)
            for sample in dump.samples:
                stack = self.stack(sequence, sample.callstack_id)
                # NOTE: the sequence and not the heap.
                key = (sequence, sample.callstack_id)
                now = (sample.self_allocated, sample.self_freed, sample.alloc_count, sample.free_count)
                difference = [a - b for a, b in zip(now, self.previous[key])]
                if min(difference) < 0:
                    self.stats["sums that fall"] += 1
                    continue
                self.previous[key] = now
                for place in (self.sums[heap], self.by_stack[stack]):
                    for nth, value in enumerate(difference):
                        place[nth] += value

    def arguments(self, sequence, event):
        found = {}
        for argument in event.debug_annotations:
            name = argument.name or self.lookup(sequence, "debug_annotation_names", argument.name_iid)
            kind = argument.WhichOneof("value")
            found.setdefault(name, getattr(argument, kind))
        return found

    def nest(self):
        open_slices = collections.defaultdict(list)
        for at, order, sequence, event in sorted(self.events, key=lambda event: event[:2]):
            defaults = self.defaults.get(sequence)
            track = event.track_uuid or (defaults.track_event_defaults.track_uuid if defaults else 0)
            if track not in self.tracks:
                self.stats["events on unknown tracks"] += 1
            name = event.name or (self.lookup(sequence, "event_names", event.name_iid) if event.name_iid else "")
            for iid in event.category_iids:
                self.lookup(sequence, "event_categories", iid)
            if event.type == protos.TrackEvent.TYPE_COUNTER:
                self.counters[track].append((at, event.counter_value))
            elif event.type == protos.TrackEvent.TYPE_INSTANT:
                self.instants.append((at, self.tracks[track].name, name, self.arguments(sequence, event)))
            elif event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
                open_slices[track].append((name, at, order))
            elif event.type == protos.TrackEvent.TYPE_SLICE_END:
                if not open_slices[track]:
                    self.stats["ends without a begin"] += 1
                    continue
                path = [slice[0] for slice in open_slices[track]]
                name, since, _ = open_slices[track].pop()
                if at < since:
                    self.stats["slices that end before they begin"] += 1
                self.slices.append((track, path, since, at, self.arguments(sequence, event)))
        for left in open_slices.values():
            if left:
                self.stats["slices without an end"] += len(left)
        for points in self.counters.values():
            if [at for at, _ in points] != sorted({at for at, _ in points}):
                self.stats["counters with two points at one time"] += 1


def check(name, file, report):
    reader = Reader(file)
    totals, trace = report["totals"], report["trace"]
    if reader.stats:
        fail(f"{name}: {dict(reader.stats)}")
    times = [at for dumps in reader.dumps.values() for at in dumps]
    if len(times) != len(set(times)):
        fail(f"{name}: two dumps have one time")
    sums = [sum(column) for column in zip(*reader.sums.values())]
    sampled = report.get("stack_sampling_bytes") or trace.get("stack_sampling_bytes")
    if not sampled:
        # A block that gets another name is freed under the one and allocated under the other.
        moved = [0, 0] if report.get("by_stack") else [
            sum(row.get("moved_in_bytes", 0) for row in report["by_name"]),
            sum(row.get("moved_in_blocks", 0) for row in report["by_name"]),
        ]
        expect(name, "bytes allocated by stack", sums[0], totals["allocated_bytes"] + moved[0])
        expect(name, "blocks allocated by stack", sums[2], totals["allocations"] + totals["reallocations"] + moved[1])
        expect(name, "bytes live by stack", sums[0] - sums[1], totals["live_bytes"])
        expect(name, "blocks live by stack", sums[2] - sums[3], totals["live_blocks"])
    process = [uuid for uuid, track in reader.tracks.items() if track.HasField("process")]
    by_path = {}
    for uuid, points in reader.counters.items():
        track, path = reader.tracks[uuid], []
        while track.uuid not in process:
            path.insert(0, track.name)
            track = reader.tracks[track.parent_uuid]
        by_path[tuple(path)] = points
    last = lambda *path: by_path[path][-1][1]
    expect(name, "the counter of live bytes", last("live bytes"), totals["live_bytes"])
    expect(name, "the counter of live blocks", last("live blocks"), totals["live_blocks"])
    expect(name, "the counter of allocated bytes", last("allocated bytes"), totals["allocated_bytes"])
    peak = max(value for _, value in by_path["live bytes",])
    expect(name, "the largest point", peak, totals["peak_bytes"])
    if max(map(len, by_path.values())) > 2010:
        fail(f"{name}: a counter has {max(map(len, by_path.values()))} points")
    for title, list_name, key in (("group", "by_group", "group"), ("scope", "by_scope", "path")):
        rows = {" > ".join(row[key]): row["inclusive"] for row in report[list_name]}
        for path in by_path:
            if path[0] == f"live bytes by {title}":
                expect(name, f"{title} {path[1]}", last(*path), rows[path[1]]["live_bytes"])
    # Slices: what was allocated, by scope and by thread.
    allocated = sum(slice[4]["allocated_bytes"] for slice in reader.slices)
    expect(name, "bytes allocated in slices", allocated, totals["allocated_bytes"])
    count = sum(slice[4]["allocations"] for slice in reader.slices)
    expect(name, "allocations in slices", count, totals["allocations"] + totals["reallocations"])
    outer = sum(slice[4]["inclusive_allocated_bytes"] for slice in reader.slices if len(slice[1]) == 1)
    expect(name, "bytes within the outermost slices", outer, totals["allocated_bytes"])
    if any(totals[key] != reader.instants_of("totals").get(key) for key in ("live_bytes", "peak_bytes", "allocations")):
        fail(f"{name}: the instant has other totals")
    marks = [instant[2] for instant in reader.instants if instant[1] == "bookmarks"]
    expect(name, "bookmarks", len(marks), len(report.get("bookmarks", [])))
    print(
        f"perfetto  {name:20} {file.stat().st_size:9} bytes, {len(times)} dumps, {len(reader.by_stack)} stacks, "
        f"{len(by_path)} counters, {len(reader.slices)} slices, {sums[0]} bytes allocated"
    )


def expect(name, what, found, expected):
    if found != expected:
        fail(f"{name}: {what}: the file has {found}, the report {expected}")


Reader.instants_of = lambda self, name: next(found for _, _, title, found in self.instants if title == name)

for trace in sorted(traces.glob("*.memledger")) + sorted(traces.glob("*.utrace")):
    path = out / f"{trace.stem}.pftrace"
    done = subprocess.run([memledger, "export", trace, "--to", "perfetto", "-o", path], capture_output=True, text=True)
    report = subprocess.run([memledger, "report", trace, "--format", "json"], capture_output=True)
    if done.returncode != report.returncode:
        fail(f"{trace.name}: status {done.returncode}: {done.stderr}")
    check(trace.name, path, json.loads(report.stdout))
