#!/usr/bin/python3
"""Makes CTF traces in several ways, imports them, and compares what `show --json` says then.

Usage: import.py REENACT FOLDER own|bits|babeltrace|lttng. Ends with 77 if something is missing.
"""

import json
import os
import struct
import subprocess
import sys
import time

REENACT, FOLDER, HOW = sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(FOLDER)


def run(*words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def imported(folder):
    run(REENACT, "import", folder, "-o", "imported.rnt", "--force", "--quiet")
    return shown("imported.rnt")


def shown(trace):
    return [json.loads(line) for line in run(REENACT, "show", trace, "--json").splitlines()]


def same(what, found, expected):
    if found != expected:
        if isinstance(found, list) and isinstance(expected, list):
            found, expected = next(((a, b) for a, b in zip(found, expected) if a != b), (len(found), len(expected)))
        print(f"{what}: found {str(found)[:2000]}\nexpected {str(expected)[:2000]}")
        sys.exit(1)


def own():
    """What our own export writes comes back: calls with arguments, results, times and paths."""
    script = "for i in 1 2 3; do echo $i > file$i; cat file$i missing | wc -c & done; wait; sleep 0.01; mv file1 other"
    subprocess.run([REENACT, "record", "-q", "-o", "first.rnt", "--", "sh", "-c", script], check=True, stderr=subprocess.DEVNULL)
    run(REENACT, "export", "first.rnt", "--to", "ctf", "-o", "exported")
    back = imported("exported")

    def calls(events):
        found = []
        for event in events:
            if event["type"] == "call":
                numbers = [event["args"].get(name) for name in ("fd", "count", "offset")]
                names = [event["args"].get(name) for name in ("pathname", "oldpath", "newpath")]
                left = event["exit_ns"] - event["enter_ns"] if event["exit_ns"] else None
                found.append((event["pid"], event["tid"], event["enter_ns"], left, event["call"], event["ret"], names, numbers))
        return sorted(found, key=lambda call: (call[2], call[1]))

    before, after = calls(shown("first.rnt")), calls(back)
    # The export begins at the first event that it has.
    shift = min(call[2] for call in before) - min(call[2] for call in after)
    same("calls", [(*call[:2], call[2] + shift, *call[3:]) for call in after], before)
    assert len(before) > 100


def bits():
    """As LTTng's kernel tracer packs headers: 5 bits of an id, 27 of a time that wraps, both orders of bytes."""
    metadata = """/* CTF 1.8 */
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace { major = 1; minor = 8; byte_order = %s;
  packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; }; };
env { hostname = "there"; domain = "kernel"; };
clock { name = "monotonic"; freq = 1000000000; offset = 1000000000000000000; };
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := uint27_clock;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock;
struct event_header_compact {
  enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
  variant <id> { struct { uint27_clock timestamp; } compact; struct { uint32_t id; uint64_clock timestamp; } extended; } v;
} align(8);
stream { id = 0; event.header := struct event_header_compact;
  packet.context := struct { uint64_clock timestamp_begin; uint64_clock timestamp_end; uint64_t content_size;
    uint64_t packet_size; uint64_t events_discarded; uint32_t cpu_id; };
  event.context := struct { integer { size = 32; align = 8; signed = 1; } _tid; integer { size = 32; align = 8; signed = 1; } _pid; }; };
event { name = "syscall_entry_openat"; id = 4; stream_id = 0; fields := struct {
  integer { size = 64; align = 8; signed = 1; } _dfd; string _filename;
  integer { size = 64; align = 8; signed = 1; } _flags; integer { size = 64; align = 8; signed = 0; } _mode; }; };
event { name = "syscall_exit_openat"; id = 400; stream_id = 0; fields := struct { integer { size = 64; align = 8; signed = 1; } _ret; }; };
event { name = "sched_switch"; id = 7; stream_id = 0; fields := struct {
  integer { size = 8; align = 8; signed = 0; encoding = UTF8; } _prev_comm[16]; integer { size = 32; align = 8; signed = 1; } _prev_tid;
  integer { size = 32; align = 8; signed = 1; } _prev_prio; integer { size = 64; align = 8; signed = 1; } _prev_state;
  integer { size = 8; align = 8; signed = 0; encoding = UTF8; } _next_comm[16]; integer { size = 32; align = 8; signed = 1; } _next_tid;
  integer { size = 32; align = 8; signed = 1; } _next_prio; }; };
"""
    for order, sign in (("le", "<"), ("be", ">")):
        folder = f"bits-{order}"
        os.mkdir(folder)
        with open(f"{folder}/metadata", "w") as file:
            file.write(metadata % order)

        def head(number, at, sign=sign):
            at &= (1 << 27) - 1
            word = number | at << 5 if sign == "<" else number << 27 | at
            return struct.pack(sign + "I", word)

        context = struct.pack(sign + "ii", 42, 41)
        begin = (1 << 27) - 1000
        events = head(4, begin) + context + struct.pack(sign + "q", -100) + b"/etc/passwd\0" + struct.pack(sign + "qQ", 0o2000000, 0)
        # The clock's 27 bits wrap before the next one, whose number has no room.
        events += bytes([31 if sign == "<" else 31 << 3]) + struct.pack(sign + "IQ", 400, begin + 3000) + context + struct.pack(sign + "q", 7)
        events += head(7, begin + 5000) + context + b"cat".ljust(16, b"\0") + struct.pack(sign + "iiq", 42, 20, 1)
        events += b"swapper/1".ljust(16, b"\0") + struct.pack(sign + "ii", 0, 20)
        size = 24 + 44 + len(events)
        packet = struct.pack(sign + "I16sI", 0xC1FC1FC1, b"", 0)
        packet += struct.pack(sign + "QQQQQI", begin, begin + 5000, 8 * size, 8 * 4096, 3, 1) + events
        with open(f"{folder}/channel0_1", "wb") as file:
            file.write(packet.ljust(4096, b"\0"))
        found = imported(folder)
        call = next(event for event in found if event["type"] == "call")
        same(order, (call["pid"], call["tid"], call["call"], call["ret"], call["exit_ns"] - call["enter_ns"]), (41, 42, "openat", 7, 3000))
        same("path", call["args"]["pathname"], "/etc/passwd")
        switch = next(event for event in found if event["type"] == "kernel")
        same("switch", (switch["cpu"], switch["time_ns"], switch["fields"]["prev_pid"], switch["fields"]["next_comm"]), (1, 5000, 42, "swapper/1"))
        gap = next(event for event in found if event["type"] == "gap" and event.get("why") == "kernel-events")
        same("events that were dropped", gap["detail"], 3)
        cpu = json.loads(run(REENACT, "stat", "cpu", "imported.rnt", "--json"))
        assert any(row["tid"] == 42 for row in cpu["cpu_threads"]), cpu


def babeltrace():
    """What babeltrace2 itself writes, of every kind of field."""
    try:
        import bt2
    except ImportError as error:
        print(error)
        sys.exit(77)
    count = 3000

    class Iterator(bt2._UserMessageIterator):
        def __init__(self, config, port):
            self.trace_class, stream_class, self.event_class, self.clock = port.user_data
            trace = self.trace_class()
            self.stream = trace.create_stream(stream_class)
            self.at = -1

        def __next__(self):
            self.at += 1
            if self.at == 0:
                return self._create_stream_beginning_message(self.stream)
            if self.at == count + 1:
                return self._create_stream_end_message(self.stream)
            if self.at > count + 1:
                raise StopIteration
            message = self._create_event_message(self.event_class, self.stream, default_clock_snapshot=1000 * self.at)
            field = message.event.payload_field
            field["small"] = self.at % 8
            field["signed"] = -self.at
            field["huge"] = (1 << 64) - self.at
            field["half"] = self.at + 0.5
            field["text"] = f"text {self.at}"
            field["three"] = [self.at, 2, 3]
            field["many"] = list(range(self.at % 5))
            field["inner"]["deep"] = self.at
            field["colour"] = self.at % 2
            field["choice"].selected_option_index = self.at % 2
            field["choice"].value = self.at if self.at % 2 == 0 else f"odd {self.at}"
            return message

    class Source(bt2._UserSourceComponent, message_iterator_class=Iterator):
        def __init__(self, config, params, obj):
            clock = self._create_clock_class(frequency=1_000_000_000, name="clock")
            trace_class = self._create_trace_class()
            stream_class = trace_class.create_stream_class(default_clock_class=clock)
            colour = trace_class.create_unsigned_enumeration_field_class(8)
            colour.add_mapping("even", bt2.UnsignedIntegerRangeSet([(0, 0)]))
            colour.add_mapping("odd", bt2.UnsignedIntegerRangeSet([(1, 1)]))
            choice = trace_class.create_variant_field_class(colour)
            choice.append_option("even", trace_class.create_signed_integer_field_class(32), bt2.UnsignedIntegerRangeSet([(0, 0)]))
            choice.append_option("odd", trace_class.create_string_field_class(), bt2.UnsignedIntegerRangeSet([(1, 1)]))
            number = lambda: trace_class.create_unsigned_integer_field_class(16)
            inner = trace_class.create_structure_field_class()
            inner += [("deep", number())]
            payload = trace_class.create_structure_field_class()
            payload += [
                ("small", trace_class.create_unsigned_integer_field_class(3)),
                ("signed", trace_class.create_signed_integer_field_class(33)),
                ("huge", trace_class.create_unsigned_integer_field_class(64)),
                ("half", trace_class.create_double_precision_real_field_class()),
                ("text", trace_class.create_string_field_class()),
                ("three", trace_class.create_static_array_field_class(number(), 3)),
                ("many", trace_class.create_dynamic_array_field_class(number())),
                ("inner", inner),
                ("colour", colour),
                ("choice", choice),
            ]
            event_class = stream_class.create_event_class(name="test:all", payload_field_class=payload)
            self._add_output_port("out", (trace_class, stream_class, event_class, clock))

    graph = bt2.Graph()
    source = graph.add_component(Source, "source")
    sink = graph.add_component(bt2.find_plugin("ctf").sink_component_classes["fs"], "sink", {"path": "written", "assume-single-trace": True})
    graph.connect_ports(source.output_ports["out"], sink.input_ports["in"])
    graph.run()
    # Metadata are written in the end.
    del sink, source, graph
    found = [event for event in imported("written") if event["type"] == "kernel"]
    same("events", len(found), count)
    for at, event in enumerate(found, 1):
        fields = dict(event["fields"])
        fields.pop("choice_tag", None)
        chosen = fields.pop("choice")
        expected = {
            "small": at % 8, "signed": -at, "huge": str((1 << 64) - at), "half": str(at + 0.5), "text": f"text {at}",
            "three": f"[{at}, 2, 3]", "many": str(list(range(at % 5))), "inner.deep": at, "colour": at % 2,
        }  # fmt: skip
        same(f"event {at}", fields, expected)
        same(f"choice of {at}", chosen, str(at) if at % 2 == 0 else f"odd {at}")
        same(f"time of {at}", event["time_ns"], 1000 * (at - 1))
        same(f"name of {at}", (event["system"], event["event"]), ("test", "all"))


def lttng():
    """What lttng-ust traces here: packets of metadata, small buffers, contexts."""
    build = subprocess.run(["gcc", "-I", HERE, f"{HERE}/ust.c", "-o", "ust", "-llttng-ust", "-ldl"], stderr=subprocess.PIPE, text=True, check=False)
    if build.returncode != 0:
        print(build.stderr)
        sys.exit(77)
    home = os.path.abspath("home")
    os.mkdir(home)
    os.environ.update(LTTNG_HOME=home, HOME=home, LTTNG_UST_REGISTER_TIMEOUT="10000", LTTNG_RUNDIR=f"{home}/run")
    daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if subprocess.run(["lttng", "--no-sessiond", "list"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
                break
            time.sleep(0.05)
        for command in (
            "create here --output=traced", "enable-channel -u small --subbuf-size=16K --num-subbuf=64",
            "enable-event -u -c small reenact_test:*", "add-context -u -c small -t vtid -t vpid", "start",
        ):  # fmt: skip
            run("lttng", "--no-sessiond", *command.split(), stderr=subprocess.STDOUT)
        said = int(run("./ust"))
        run("lttng", "--no-sessiond", "stop", stderr=subprocess.STDOUT)
        run("lttng", "--no-sessiond", "destroy", stderr=subprocess.STDOUT)
    finally:
        daemon.terminate()
        daemon.wait()
    events = imported("traced")
    found = [event for event in events if event["type"] == "kernel"]
    lost = sum(event["detail"] for event in events if event["type"] == "gap" and event.get("why") == "kernel-events")
    same("events, and those that were dropped", len(found) + lost, 5000)
    for event in found:
        at = event["fields"]["n"]
        expected = {"n": at, "neg": -at, "text": "text of it", "fixed": "[1, -2, 3]", "seq": "[1, -2, 3]", "word": "text", "half": f"{at / 2:g}"}
        same(f"event {at}", event["fields"], expected)
        same("thread", event["tid"], said)


{"own": own, "bits": bits, "babeltrace": babeltrace, "lttng": lttng}[HOW]()
