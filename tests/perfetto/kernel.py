"""Records a program, and for a moment the machine around it, exports that for Perfetto, and holds the ftrace packets, decoded
with the definitions that Perfetto publishes, against `show --json`: event for event, with all fields that
Perfetto has.

usage: kernel.py REENACT FOLDER
"""

import collections
import json
import os
import subprocess
import sys
import zlib

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto


def packets(path):
    outer = proto.Trace()
    with open(path, "rb") as file:
        outer.ParseFromString(file.read())
    for packet in outer.packet:
        inner = proto.Trace()
        inner.ParseFromString(zlib.decompress(packet.compressed_packets))
        yield from inner.packet


def read(event):
    """Name and fields of an event."""
    kinds = [(field.name, value) for field, value in event.ListFields()
             if field.name not in ("timestamp", "pid")]
    assert len(kinds) == 1, event
    name, message = kinds[0]
    if name != "generic":
        return name, {field.name: value for field, value in message.ListFields()}
    fields = {}
    for field in message.field:
        kind = field.WhichOneof("value")
        fields[field.name] = getattr(field, kind) if kind else None
    return message.event_name, fields


def main():
    reenact, folder = sys.argv[1:3]
    os.chdir(folder)
    script = "dd if=/dev/zero of=file bs=64k count=32 conv=fsync; ls -l / | sort; sleep 0.05"
    # Not longer for the machine: others may do much there.
    for what in (["--", "sh", "-c", script], ["--duration", "100ms"]):
        command = [reenact, "record", "--quiet", "--force", "-o", "p.rnt", "--kernel=core,syscalls",
                   "--kernel-buffer", "64M", *what]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        check(reenact)


def check(reenact):
    export = [reenact, "export", "p.rnt", "--to", "perfetto", "-o", "p.pftrace", "--quiet", "--force"]
    subprocess.run(export, check=True)
    said = subprocess.run([reenact, "show", "p.rnt", "--json"], capture_output=True, check=True)
    ours = [json.loads(line) for line in said.stdout.splitlines()]
    ours = [event for event in ours if event["type"] == "kernel"]
    by_cpu = collections.defaultdict(collections.deque)
    for event in ours:
        by_cpu[event["cpu"]].append(event)
    count = compared = 0
    known, others = set(), set()
    for packet in packets("p.pftrace"):
        if not packet.HasField("ftrace_events"):
            continue
        bundle = packet.ftrace_events
        assert not bundle.lost_events
        for event in bundle.event:
            wanted = by_cpu[bundle.cpu].popleft()
            name, fields = read(event)
            same = (wanted["event"], wanted["time_ns"], wanted["tid"])
            assert same == (name, event.timestamp, event.pid), f"{same} is {name} {event}"
            (others if event.HasField("generic") else known).add(name)
            for key, value in fields.items():
                if isinstance(value, (int, str)):
                    # Numbers that are zero, and empty texts, are not written by some.
                    assert str(wanted["fields"][key]) == str(value), (name, key, value, wanted)
                    compared += 1
            count += 1
    assert count == len(ours) and not any(by_cpu.values()), f"{count} of {len(ours)}"
    # How many events are of kinds that Perfetto knows depends on what the machine does.
    assert "sched_switch" in known and not known & others, f"Perfetto knows {known}, not {others}"
    print(count, "events of", len(known | others), "kinds,", len(known), "known to Perfetto;", compared, "fields")


main()
