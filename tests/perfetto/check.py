"""Holds a Perfetto trace, decoded with the definitions that Perfetto publishes, against
`show --json`: count for count, time for time, and flow for flow.

usage: check.py REENACT TRACE PFTRACE [--descriptors MOST] [-- CONDITIONS]

MOST: the most descriptors that a process had open at a time. CONDITIONS: those of the export; then
only calls are compared.
"""

import collections
import json
import os
import subprocess
import sys
import zlib

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

# The mark: bytes of the file for each call, where there are enough calls to speak of.
BYTES_PER_CALL_MAX = 60
CALLS_TO_SPEAK_OF = 1000

BEGIN, END = proto.TrackEvent.TYPE_SLICE_BEGIN, proto.TrackEvent.TYPE_SLICE_END
INSTANT, COUNTER = proto.TrackEvent.TYPE_INSTANT, proto.TrackEvent.TYPE_COUNTER


def ensure(held, complaint):
    if not held:
        sys.exit(f"check.py: {complaint}")


def packets(path):
    """All packets, unpacked."""
    outer = proto.Trace()
    with open(path, "rb") as file:
        outer.ParseFromString(file.read())
    for packet in outer.packet:
        inner = proto.Trace()
        inner.ParseFromString(zlib.decompress(packet.compressed_packets))
        yield from inner.packet


def interned(packet, tables):
    if packet.sequence_flags & proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
        tables.clear()
    data = packet.interned_data
    for kind, entries in [
        ("category", data.event_categories),
        ("name", data.event_names),
        ("detail", data.debug_annotation_names),
    ]:
        for entry in entries:
            ensure((kind, entry.iid) not in tables, f"{kind} {entry.iid} is told twice")
            tables[kind, entry.iid] = entry.name
    for entry in data.debug_annotation_string_values:
        tables["text", entry.iid] = entry.str.decode()


def detail(annotation, tables):
    if annotation.dict_entries:
        return {tables["detail", e.name_iid]: detail(e, tables) for e in annotation.dict_entries}
    field = annotation.WhichOneof("value")
    value = getattr(annotation, field)
    return tables["text", value] if field == "string_value_iid" else value


class Picture:
    """What the Perfetto trace says."""

    def __init__(self, path):
        self.processes, self.threads, self.counters = {}, {}, {}
        self.slices = collections.defaultdict(list)
        self.instants = collections.defaultdict(list)
        self.values = collections.defaultdict(list)
        self.begins, self.ends = collections.defaultdict(list), collections.defaultdict(list)
        tables = {}
        for packet in packets(path):
            interned(packet, tables)
            if packet.HasField("track_descriptor"):
                self.track(packet.track_descriptor)
            elif packet.HasField("track_event"):
                self.event(packet, packet.track_event, tables)

    def track(self, track):
        if track.HasField("process"):
            name = track.process.process_name or self.processes.get(track.uuid, (0, ""))[1]
            self.processes[track.uuid] = (track.process.pid, name)
        elif track.HasField("thread"):
            ensure(track.parent_uuid in self.processes, f"thread {track} has no process")
            self.threads[track.uuid] = (track.thread.pid, track.thread.tid)
        elif track.HasField("counter"):
            self.counters[track.uuid] = (track.name, track.parent_uuid)

    def event(self, packet, event, tables):
        track, at = event.track_uuid, packet.timestamp
        if event.type == COUNTER:
            ensure(track in self.counters, f"counter {track} has no track")
            self.values[track].append((at, event.counter_value))
            return
        if event.type == END:
            where = self.slices[track][-1]
            ensure(where["end"] is None, f"a slice of track {track} ends twice")
            where["end"] = at
        else:
            where = {
                "track": track,
                "begin": at,
                "end": None,
                "name": tables["name", event.name_iid],
                "category": tables["category", event.category_iids[0]],
                "details": {
                    tables["detail", annotation.name_iid]: detail(annotation, tables)
                    for annotation in event.debug_annotations
                },
            }
            known = self.slices if event.type == BEGIN else self.instants
            known[track].append(where)
        for flow in event.flow_ids:
            self.begins[flow].append(where)
        for flow in event.terminating_flow_ids:
            self.ends[flow].append(where)


def number(value):
    return None if value is None else int(value)


def shown(reenact, trace, conditions):
    command = [reenact, "show", "--json", "--data", "none", trace, *conditions]
    lines = subprocess.run(command, check=True, capture_output=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def check_calls(picture, events):
    """Every call is a slice of its thread, with its times, result, error and path."""
    slices = [one for track in picture.slices.values() for one in track]
    by_seq = {one["details"]["seq"]: one for one in slices}
    calls = [event for event in events if event["type"] == "call"]
    ensure(len(slices) == len(by_seq) == len(calls), f"{len(slices)} slices, {len(calls)} calls")
    ended = 0
    # An exec is there until the new program begins.
    begun = {number(event["time_ns"]) for event in events if event["type"] == "exec"}
    for call in calls:
        one = by_seq[number(call["seq"])]
        ids = picture.threads[one["track"]]
        found = (one["name"], *ids, one["begin"], one["category"])
        wanted = (call["call"], call["pid"], call["tid"], number(call["enter_ns"]), "call")
        ensure(found == wanted, f"slice {found}, call {wanted}")
        if call["exit_ns"] is not None:
            ended += 1
            executes = call["call"] in ("execve", "execveat") and call["errno"] is None
            ends = begun if executes else {number(call["exit_ns"])}
            ensure(one["end"] in ends and one["end"] >= number(call["exit_ns"]), f"ends at {one['end']}: {call}")
        details = one["details"]
        ensure(details.get("errno") == call["errno"], f"{details}: {call}")
        ret = number(call["ret"])
        if ret is not None and not isinstance(details["ret"], str):
            # Addresses have no sign there.
            found = details["ret"] - (1 << 64 if details["ret"] >= 1 << 63 else 0)
            ensure(found == ret, f"{details}: {call}")
        for name in call["args"]:
            ensure(name in details["args"], f"no {name} in {details}: {call}")
        paths = [path for path in call["paths"].values() if isinstance(path, str)]
        plain = all(path.isascii() and path.isprintable() and "\\" not in path for path in paths)
        if paths and plain:
            ensure("path" in details or list(call["paths"]) == ["ret"], f"{details}: {call}")
            ensure(details.get("path", paths[0]) in paths, f"{details}: {call}")
    for track in picture.slices.values():
        for before, after in zip(track, track[1:]):
            ensure(before["end"] is not None, f"{before} has no end, and {after} follows")
            ensure(before["end"] <= after["begin"], f"{before} ends within {after}")
    return calls, by_seq, ended


def check_instants(picture, events):
    """Signals and exits are instants, with their times."""
    instants = [one for track in picture.instants.values() for one in track]
    for kind, category in [("signal", "signal"), ("exit", "exit"), ("start", "start")]:
        found = sorted(one["begin"] for one in instants if one["category"] == category)
        wanted = sorted(number(event["time_ns"]) for event in events if event["type"] == kind)
        ensure(found == wanted, f"{kind}: {len(found)} instants, {len(wanted)} events")
    names = collections.Counter(one["name"] for one in instants if one["category"] == "signal")
    wanted = collections.Counter(e["signal"] for e in events if e["type"] == "signal")
    ensure(names == wanted, f"signals {names}, not {wanted}")


def pipes_of(call):
    paths = (path for path in call["paths"].values() if isinstance(path, str))
    return {path for path in paths if path.startswith("pipe:[")}


def check_flows(picture, events, calls, by_seq):
    """Each new task has a flow from the call that made it, each read of a pipe from its writes."""
    call_of = {number(call["seq"]): call for call in calls}
    starts = [event for event in events if event["type"] == "start"]
    tids = {start["tid"] for start in starts}
    made, read_from = 0, 0
    for flow, ends in picture.ends.items():
        ensure(len(ends) == 1, f"flow {flow} ends {len(ends)} times")
        ensure(flow in picture.begins, f"flow {flow} ends and does not begin")
        begin, end = picture.begins[flow][0], ends[0]
        when = end["begin"] if end["category"] == "start" else end["end"]
        ensure(begin["begin"] <= when, f"flow {flow} goes back in time")
        if end["category"] == "start":
            made += 1
            pid, tid = picture.threads[end["track"]]
            ret = begin["details"].get("ret", tid)
            # In another pid namespace the child has another id than its parent sees, which may be that
            # of a task of a third one. Each namespace has a process with the id 1.
            ensure(ret == tid or ret not in tids or 1 in tids, f"{begin} did not make {pid}/{tid}")
        else:
            read_from += 1
            through = [pipes_of(call_of[one["details"]["seq"]]) for one in (begin, end)]
            ensure(through[0] & through[1], f"flow {flow} goes from {begin} to {end}")
    wanted = sum(start["how"] != "launch" for start in starts)
    ensure(made == wanted, f"{made} flows to new tasks, {wanted} came to be")
    if any(event["type"] == "gap" for event in events):
        # Writes or reads may be missing.
        return made, read_from
    # Of each pipe: where its writes and reads end, counted independently.
    written, read = collections.defaultdict(list), collections.Counter()
    for call in calls:
        pipe, bytes_moved = call["paths"].get("fd"), number(call["ret"])
        if call["call"] in ("splice", "tee", "vmsplice", "sendfile") and pipes_of(call):
            return made, read_from
        if not (isinstance(pipe, str) and pipe.startswith("pipe:[") and (bytes_moved or 0) > 0):
            continue
        if call["call"] in ("write", "writev"):
            written[pipe].append(bytes_moved)
        elif call["call"] in ("read", "readv"):
            read[pipe] += bytes_moved
    whole = 0
    for pipe, lengths in written.items():
        at = 0
        for length in lengths:
            at += length
            whole += at <= read[pipe]
    ensure(read_from == whole, f"{read_from} writes flow into reads, {whole} were read whole")
    return made, read_from


def check_counters(picture, calls):
    """The bytes of both counters are those of the calls."""
    moved = {}
    for way in ("read", "written"):
        track = [uuid for uuid, (name, _) in picture.counters.items() if f"bytes {way}" in name]
        ensure(len(track) <= 1, f"bytes {way}: {len(track)} counters")
        values = sorted(picture.values[track[0]]) if track else []
        moved[way] = sum(v * (later - at) / 1e9 for (at, v), (later, _) in zip(values, values[1:]))
    names = {
        "read": ("read", "pread64", "readv", "preadv", "preadv2"),
        "written": ("write", "pwrite64", "writev", "pwritev", "pwritev2"),
    }
    # These move bytes as well, in ways that are not counted here.
    others = ("send", "recv", "splice", "vmsplice", "tee", "copy", "process_vm", "mq_", "msg")
    for way, wanted in names.items():
        plain = [c for c in calls if c["call"] in wanted and (number(c["ret"]) or 0) > 0]
        total = sum(number(call["ret"]) for call in plain)
        more = any(call["call"].startswith(others) for call in calls)
        close = abs(moved[way] - total) <= total * 0.01 + 1000 or more and moved[way] >= total
        ensure(close, f"bytes {way}: {moved[way]} by the counter, {total} by the calls")
    for uuid, (name, parent) in picture.counters.items():
        if name == "open descriptors":
            values = [value for _, value in picture.values[uuid]]
            ensure(parent in picture.processes, f"{name}: of no process")
            ensure(all(0 <= value < 10000 for value in values), f"{name}: {values}")
            ensure(not values or values[-1] == 0, f"{name}: {values[-1]} are left open")


def check_descriptors(picture, most):
    """The most descriptors that any process had open at a time."""
    found = max(
        (value for uuid, (name, _) in picture.counters.items() if name == "open descriptors"
         for _, value in picture.values[uuid]), default=0)
    ensure(found == most, f"at most {found} descriptors open, not {most}")


def main():
    arguments = sys.argv[1:]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    conditions = arguments[at + 1:]
    reenact, trace, path, *options = arguments[:at]
    events = shown(reenact, trace, conditions)
    picture = Picture(path)
    calls, by_seq, ended = check_calls(picture, events)
    if conditions:
        print(f"{len(calls)} calls with {conditions}")
        return
    check_instants(picture, events)
    made, read_from = check_flows(picture, events, calls, by_seq)
    check_counters(picture, calls)
    if options[:1] == ["--descriptors"]:
        check_descriptors(picture, int(options[1]))
    ensure(all(name for _, name in picture.processes.values()), f"{picture.processes}: no name")
    per_call = os.path.getsize(path) / max(len(calls), 1)
    if len(calls) >= CALLS_TO_SPEAK_OF:
        ensure(per_call < BYTES_PER_CALL_MAX, f"{per_call:.1f} bytes for each call")
    print(f"{len(calls)} calls, {ended} ended, {made} tasks, {read_from} flows through pipes, "
          f"{per_call:.1f} bytes for each call")


main()
