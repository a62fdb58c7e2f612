"""Compares what Perfetto's C library and memledger have written for the same emissions.

    perfetto_golden.py FOLDER

FOLDER has `GROUP.c.pftrace` and `GROUP.ours.pftrace`. Each case of the program is a thread, so a packet sequence.
Numbers of texts are replaced by the texts, and the uuids may differ by that of the process only. Times that a
program gives must be equal; others have the same clock and order. Every difference is printed; those below KNOWN
are counted, any other one is a failure.
"""

import collections
import math
import pathlib
import re
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

CLEARED, NEEDS = 1, 2

# Differences that are meant: what differs (a pattern of the case and the field), and why.
KNOWN = [
    (r" trusted_uid$| trusted_pid$| machine_id$",
     "the service adds them to each packet; we write the file ourselves"),
    (r"^custom first .* timestamp$|^custom first .* timestamp_clock_id$",
     "a sequence starts at the time of the emission, not at the time that its first event gives"),
    (r"^custom first .* clock_snapshot",
     "as above"),
]

# The list of texts that a field refers to.
INTERNED = {
    ("TrackEvent", "category_iids"): "event_categories",
    ("TrackEvent", "name_iid"): "event_names",
    ("TrackEvent", "correlation_id_str_iid"): "correlation_id_str",
    ("TrackEvent", "source_location_iid"): "source_locations",
    ("DebugAnnotation", "name_iid"): "debug_annotation_names",
}
UUIDS = {"uuid", "parent_uuid", "track_uuid", "flow_ids", "terminating_flow_ids"}


class Sequence:
    """The packets of a thread, with texts in the place of their numbers."""

    def __init__(self):
        self.thread = None
        self.packets = []
        self.tables = collections.defaultdict(dict)
        self.clock = None
        self.last = {}
        self.units = {}

    def text(self, table, iid):
        return self.tables[table].get(iid, f"UNRESOLVED {table} {iid}")

    def add(self, packet):
        if packet.sequence_flags & CLEARED:
            self.tables.clear()
            self.clock = packet.trace_packet_defaults.timestamp_clock_id
            for clock in packet.clock_snapshot.clocks:
                unit = clock.unit_multiplier_ns or 1
                self.units[clock.clock_id] = unit
                self.last[clock.clock_id] = clock.timestamp * unit
        data = packet.interned_data
        fresh = {}
        for field, values in data.ListFields():
            for value in values:
                text = value.str if hasattr(value, "str") else getattr(value, "name", None)
                if text is None:
                    text = value.file_name
                self.tables[field.name][value.iid] = text
                fresh.setdefault(field.name, []).append(text)
        if packet.HasField("track_descriptor") and packet.track_descriptor.HasField("thread"):
            self.thread = self.thread or packet.track_descriptor.thread.thread_name
        fields = self.plain(packet)
        fields.pop("trusted_packet_sequence_id", None)
        if fresh:
            fields["interned_data"] = fresh
        self.packets.append((fields, self.time(packet)))

    def time(self, packet):
        """The clock of the packet's time, and the time in nanoseconds."""
        if not packet.HasField("timestamp"):
            return None
        clock = packet.timestamp_clock_id if packet.HasField("timestamp_clock_id") else self.clock
        unit = self.units.get(clock, 1)
        time = packet.timestamp * unit
        if clock == 64 and not packet.HasField("timestamp_clock_id"):
            time += self.last.get(64, 0)
            self.last[64] = time
        return clock, time

    def plain(self, message):
        """A message as a dictionary, without numbers of texts."""
        out = {}
        for field, value in message.ListFields():
            name = field.name
            if name == "interned_data":
                continue
            values = list(value) if field.is_repeated else [value]
            table = INTERNED.get((message.DESCRIPTOR.name, name))
            if table:
                values = [self.text(table, value) for value in values]
            elif field.message_type:
                values = [self.plain(value) for value in values]
            out[name] = values
        unknown = unknown_fields(message)
        if unknown:
            out["unknown"] = unknown
        return out


def unknown_fields(message):
    """Fields that the protos do not have, by number, in order."""
    return [(field.field_number, field.wire_type, str(field.data)) for field in UnknownFieldSet(message)]


def read(path):
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    sequences, others, process = {}, collections.Counter(), None
    for packet in trace.packet:
        descriptor = packet.track_descriptor
        if packet.HasField("track_descriptor") and descriptor.HasField("process"):
            process = descriptor.uuid
    for packet in trace.packet:
        in_sequence = packet.HasField("track_event") or packet.HasField("track_descriptor") or packet.sequence_flags
        if in_sequence:
            sequences.setdefault(packet.trusted_packet_sequence_id, Sequence()).add(packet)
        else:
            others[packet.WhichOneof("data")] += 1
    by_thread = {}
    for sequence in sequences.values():
        if sequence.thread in by_thread:
            raise SystemExit(f"{path}: two sequences of the thread {sequence.thread!r}")
        by_thread[sequence.thread] = sequence
    return by_thread, others, process


def same(name, theirs, ours, processes):
    if theirs == ours:
        return True
    if isinstance(theirs, float) and isinstance(ours, float):
        return math.isnan(theirs) and math.isnan(ours)
    if name in UUIDS and isinstance(theirs, int) and isinstance(ours, int):
        return theirs ^ processes[0] == ours ^ processes[1]
    return False


def compare(path, theirs, ours, processes, found):
    """Compares two dictionaries of lists."""
    for name in sorted(theirs.keys() | ours.keys()):
        one, other = theirs.get(name), ours.get(name)
        here = f"{path} {name}"
        # Times are compared apart.
        if name == "timestamp" and one is not None and other is not None:
            continue
        if one is None or other is None or not isinstance(one, list) or len(one) != len(other):
            if one != other:
                found.append((here, one, other))
            continue
        for left, right in zip(one, other):
            if isinstance(left, dict) and isinstance(right, dict):
                compare(here, left, right, processes, found)
            elif not same(name, left, right, processes):
                found.append((here, left, right))


def compare_times(path, theirs, ours, unit, found):
    if (theirs is None) != (ours is None):
        found.append((f"{path} timestamp", theirs, ours))
        return
    if theirs is None or theirs == ours:
        return
    # A program's own times are far from now, or on a clock that is not the session's.
    near = abs(theirs[1] - ours[1]) < 60 * 10**9
    given = theirs[0] not in (6, 64, 65) or theirs[1] > 1 << 61 or theirs[1] < 1 << 30
    # Both round to units from the start of their own sequence, whose time differs.
    if theirs[0] != ours[0] or not near or (given and abs(theirs[1] - ours[1]) > (unit if unit > 1 else 0)):
        found.append((f"{path} timestamp", theirs, ours))


def describe(fields):
    event = fields.get("track_event", [{}])[0]
    for name in ("name_iid", "name"):
        if name in event:
            return repr(event[name][0])[:30]
    kinds = [name for name in ("track_event", "track_descriptor", "clock_snapshot") if name in fields]
    return kinds[0] if kinds else "?"


def main():
    folder = pathlib.Path(sys.argv[1])
    failures, known, packets = 0, collections.Counter(), 0
    groups = sorted(path.name.removesuffix(".c.pftrace") for path in folder.glob("*.c.pftrace"))
    if not groups:
        raise SystemExit(f"{folder} has no *.c.pftrace")
    for group in groups:
        theirs, other_theirs, process_theirs = read(folder / f"{group}.c.pftrace")
        ours, other_ours, process_ours = read(folder / f"{group}.ours.pftrace")
        processes = (process_theirs, process_ours)
        print(f"{group}: besides threads, the C library has {dict(other_theirs)}, memledger {dict(other_ours)}")
        found = []
        for thread in sorted(theirs.keys() | ours.keys()):
            if thread not in theirs or thread not in ours:
                found.append((f"{thread} sequence", thread in theirs, thread in ours))
                continue
            left, right = theirs[thread], ours[thread]
            if len(left.packets) != len(right.packets):
                found.append((f"{thread} packets", len(left.packets), len(right.packets)))
            for number, (one, other) in enumerate(zip(left.packets, right.packets)):
                packets += 1
                path = f"{thread} {number} {describe(one[0])}"
                # The clocks of a snapshot have times of their own.
                for fields, _ in (one, other):
                    for snapshot in fields.get("clock_snapshot", []):
                        for clock in snapshot["clocks"]:
                            clock["timestamp"] = ["a time"]
                compare(path, one[0], other[0], processes, found)
                compare_times(path, one[1], other[1], right.units.get(64, right.units.get(65, 1)), found)
            unresolved = [fields for fields, _ in right.packets if "UNRESOLVED" in str(fields)]
            if unresolved:
                found.append((f"{thread} unresolved", None, unresolved))
        for path, one, other in found:
            reason = next((reason for pattern, reason in KNOWN if re.search(pattern, path)), None)
            if reason:
                known[reason] += 1
            else:
                failures += 1
                print(f"  {path}: C library {str(one)[:200]}, memledger {str(other)[:200]}")
    for reason, count in known.items():
        print(f"{count} known differences: {reason}")
    print(f"{packets} pairs of packets compared, {failures} differences that are not known")
    sys.exit(failures > 0)


main()
