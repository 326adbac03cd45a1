#!/usr/bin/python3
"""Records a program and the machine around it, exports that as CTF, and has babeltrace2's library read it:
count for count, time for time and field for field what `show --json` says, by names that LTTng has.

Usage: check.py REENACT FOLDER [--calls-only]. Ends with 77 if babeltrace2's bindings are not there.
"""

import collections
import json
import os
import re
import subprocess
import sys

try:
    import bt2
except ImportError as error:
    print(error)
    sys.exit(77)

# What this kernel says and LTTng's does not know by that name.
NEWER = {"task_newtask", "nmi_handler", "timer_hrtimer_setup", "timer_tick_stop", "timer_base_idle",
         "x86_irq_vectors_x86_platform_ipi_entry", "x86_irq_vectors_x86_platform_ipi_exit"}
# LTTng has a number, the kernel letters.
LETTERS = {"rwbs"}


def lttng():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lttng-events.txt")
    with open(path) as lines:
        words = [line.split() for line in lines]
    return {name: set(fields) for name, *fields in words}


def theirs(folder):
    """What babeltrace2 reads: name, CPU, time, process, thread, fields."""
    with open(os.path.join(folder, "metadata")) as file:
        metadata = file.read()
    seconds, rest = (int(re.search(rf"\b{key} = (\d+);", metadata)[1]) for key in ("offset_s", "offset"))
    begin = seconds * 10**9 + rest
    found = []
    for message in bt2.TraceCollectionMessageIterator(folder):
        if type(message) is bt2._EventMessageConst:
            event = message.event
            fields = {name: plain(value) for name, value in event.payload_field.items()}
            context = event.common_context_field
            found.append((event.name, int(event.packet.context_field["cpu_id"]),
                          message.default_clock_snapshot.ns_from_origin - begin,
                          int(context["pid"]), int(context["tid"]), fields))
    return found


def plain(value):
    if isinstance(value, bt2._StringFieldConst):
        return str(value)
    if isinstance(value, bt2._ArrayFieldConst):
        return bytes(int(item) for item in value)
    return int(value)


def text(value):
    return value if isinstance(value, str) else None


def name_of(event):
    system, name = event["system"], event["event"]
    if system in ("exceptions", "irq_vectors"):
        return f"x86_{system}_{name}"
    return name if name.startswith(system + "_") else f"{system}_{name}"


def check_kernel(ours, read):
    assert len(ours) == len(read), f"{len(ours)} events of the kernel, {len(read)} read"
    ours = sorted(ours, key=lambda event: (event["time_ns"], event["cpu"]))
    read = sorted(read, key=lambda event: (event[2], event[1]))
    compared = 0
    for one, (name, cpu, time, _, tid, fields) in zip(ours, read):
        same = (name_of(one), one["cpu"], one["time_ns"], one["tid"])
        assert same == (name, cpu, time, tid), f"{same} is read as {name, cpu, time, tid}"
        for key, value in one["fields"].items():
            key = re.sub(r"(^|_)pid$", r"\1tid", key) if one["system"] in ("sched", "block", "task") else key
            if key not in LETTERS and isinstance(value, (int, str)):
                found = fields[key]
                assert str(found) == str(value) or isinstance(found, bytes), f"{name}: {key} {value} {found}"
                compared += 1
    print(f"{len(ours)} events of the kernel, {compared} fields")


def check_calls(ours, read):
    entries = collections.Counter((f"syscall_entry_{call['call']}", call["tid"], call["enter_ns"])
                                  for call in ours)
    exits = collections.Counter((f"syscall_exit_{call['call']}", call["tid"], call["exit_ns"])
                                for call in ours if call.get("exit_ns") is not None)
    counted = collections.Counter((name, tid, time) for name, _, time, _, tid, _ in read)
    missing = (entries + exits) - counted
    # In a stream, the return of a call comes after all that came before on its CPU.
    assert not missing, list(missing)[:3]
    assert len(read) == sum(entries.values()) + sum(exits.values())
    paths = {fields["filename"] for name, *_, fields in read
             if name == "syscall_entry_openat" and "filename" in fields}
    assert any(path.endswith("libc.so.6") for path in paths), paths
    print(f"{len(ours)} calls")


def check_names(read):
    known = lttng()
    names = {name for name, *_ in read if not name.startswith("syscall_")}
    strange = names - set(known) - NEWER
    assert not strange, f"LTTng knows no {strange}"
    for name, *_, fields in read:
        if name in known and name not in ("sched_process_exec",):
            both = known[name] & set(fields)
            assert both, f"{name} has {set(fields)}, LTTng's {known[name]}"
    # Analyses of LTTng's ask for the process of a new thread.
    forks = [(pid, fields) for name, _, _, pid, _, fields in read if name == "sched_process_fork"]
    assert forks and all(fields["parent_pid"] == pid for pid, fields in forks), forks[:3]
    assert any(fields["child_pid"] == fields["child_tid"] for _, fields in forks), forks[:3]
    switch = next(fields for name, *_, fields in read if name == "sched_switch")
    assert {"prev_comm", "prev_tid", "prev_prio", "prev_state", "next_comm", "next_tid",
            "next_prio"} == set(switch), switch


def main():
    reenact, folder = sys.argv[1:3]
    os.chdir(folder)
    calls_only = "--calls-only" in sys.argv
    options = [] if calls_only else ["--kernel=core,timer", "--system"]
    script = "dd if=/dev/zero of=file bs=64k count=32 conv=fsync; ls -l / | sort; sleep 0.1"
    command = [reenact, "record", "--quiet", "-o", "ctf.rnt", *options, "--", "sh", "-c", script]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    export = [reenact, "export", "ctf.rnt", "--to", "ctf", "-o", "ctf", "--quiet"]
    subprocess.run(export, check=True)
    said = subprocess.run([reenact, "show", "ctf.rnt", "--json"], capture_output=True, check=True)
    ours = [json.loads(line) for line in said.stdout.splitlines()]
    read = theirs("ctf")
    is_call = [event[0].startswith("syscall_") for event in read]
    kernel = [event for event, is_call in zip(read, is_call) if not is_call]
    check_calls([event for event in ours if event["type"] == "call"],
                [event for event, is_call in zip(read, is_call) if is_call])
    if not calls_only:
        check_kernel([event for event in ours if event["type"] == "kernel"], kernel)
        check_names(read)
    # The tool reads it as well.
    printed = subprocess.run(["babeltrace2", "ctf"], capture_output=True, text=True)
    assert printed.returncode == 0 and not printed.stderr.strip(), printed.stderr[:500]
    assert len(printed.stdout.splitlines()) == len(read)


main()
