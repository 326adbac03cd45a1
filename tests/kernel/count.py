#!/usr/bin/env python3
"""Records the machine with reenact, and with a second instance of tracefs at the same time, and holds
the counts of events against each other: of each kind on each CPU, over the same window of the clock.

Usage: count.py REENACT FOLDER. Ends with 77 if tracefs cannot be used here.
"""

import collections
import json
import os
import re
import subprocess
import sys
import time

EVENTS = [
    "sched:sched_switch", "sched:sched_waking", "sched:sched_process_fork",
    "sched:sched_process_exec", "sched:sched_process_exit", "irq:irq_handler_entry",
    "irq:softirq_entry", "irq:softirq_exit", "irq_vectors:local_timer_entry",
    "exceptions:page_fault_kernel", "block:block_rq_issue", "block:block_rq_complete",
]
TRACEFS = "/sys/kernel/tracing"
LINE = re.compile(r"^.{16}-(\d+) +\[(\d+)\] \S+ +(\d+): (\w+): (.*)$")


class Second:
    """An instance that is not the recorder's."""

    def __init__(self):
        self.path = f"{TRACEFS}/instances/check-{os.getpid()}"
        os.mkdir(self.path)

    def set(self, file, value):
        # Without truncation, `set_event` is added to.
        to = os.open(f"{self.path}/{file}", os.O_WRONLY)
        os.write(to, value.encode())
        os.close(to)

    def begin(self):
        self.set("tracing_on", "0")
        self.set("trace_clock", "x86-tsc")
        self.set("buffer_size_kb", "32768")
        for event in EVENTS:
            self.set("set_event", event + "\n")
        self.set("tracing_on", "1")

    def end(self):
        """The events, and how many were lost."""
        self.set("tracing_on", "0")
        found = []
        with open(f"{self.path}/trace", errors="replace") as lines:
            for line in lines:
                if match := LINE.match(line):
                    task, cpu, tsc, name, rest = match.groups()
                    found.append((name, int(cpu), int(tsc), int(task), rest))
        lost = 0
        for cpu in os.listdir(f"{self.path}/per_cpu"):
            with open(f"{self.path}/per_cpu/{cpu}/stats") as lines:
                counts = dict(line.split(":", 1) for line in lines)
            lost += int(counts["overrun"]) + int(counts["dropped events"])
        return found, lost

    def remove(self):
        os.rmdir(self.path)


def work(folder):
    """Switches, faults, processes and requests to a disk."""
    for number in range(20):
        path = os.path.join(folder, f"file{number}")
        with open(path, "wb") as out:
            out.write(os.urandom(1 << 20))
            out.flush()
            os.fsync(out.fileno())
        subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
        os.unlink(path)


def is_own(name, task, fields, own):
    """Whether an event is about the recorder's threads: those are left out of the trace."""
    if name == "sched_switch":
        return any(int(number) in own for number in re.findall(r"_pid=(\d+)", fields))
    return task in own


def main():
    reenact, folder = sys.argv[1:3]
    try:
        second = Second()
    except OSError as error:
        print(f"tracefs cannot be used: {error}")
        sys.exit(77)
    trace = os.path.join(folder, "machine.rnt")
    try:
        second.begin()
        command = [reenact, "record", "--quiet", "-o", trace, "--kernel=" + ",".join(EVENTS)]
        recorder = subprocess.Popen(command)
        time.sleep(0.5)
        own = {int(task) for task in os.listdir(f"/proc/{recorder.pid}/task")}
        work(folder)
        recorder.terminate()
        assert recorder.wait() == 0, "the recorder did not end well"
        theirs, lost = second.end()
    finally:
        second.remove()
    assert lost == 0, f"the second instance has lost {lost} events"

    said = subprocess.run([reenact, "show", trace, "--json"], capture_output=True, check=True)
    ours = [json.loads(line) for line in said.stdout.splitlines()]
    assert not any(event["type"] == "gap" for event in ours), "the trace has gaps"
    ours = [event for event in ours if event["type"] == "kernel"]

    def fields(event):
        return " ".join(f"{name}={value}" for name, value in event["fields"].items())

    ours = [e for e in ours if not is_own(e["event"], e["tid"], fields(e), own)]
    theirs = [e for e in theirs if not is_own(e[0], e[3], e[4], own)]
    begin, end = window(ours, theirs)

    counts = [collections.Counter(), collections.Counter()]
    for event in ours[FIRST:-FIRST]:
        counts[0][event["event"], event["cpu"]] += 1
    for name, cpu, tsc, _, _ in theirs:
        if begin <= tsc <= end:
            counts[1][name, cpu] += 1
    for key in sorted(set(counts[0]) | set(counts[1])):
        print(*key, counts[0][key], counts[1][key])
    assert counts[0] == counts[1], "the counts differ"
    assert sum(counts[0].values()) > 1000, "too few events to prove anything"
    kinds = {name for name, _ in counts[0]}
    assert {"sched_switch", "sched_waking", "softirq_entry", "page_fault_kernel"} <= kinds, kinds


# Events at both ends of the trace that are not counted: the window begins and ends there.
FIRST = 50


def window(ours, theirs):
    """The time stamps of the first and the last event that are counted: times in the trace count
    from its start, so these are found by what stands around them."""
    theirs = sorted(theirs, key=lambda event: event[2])
    names = [(name, cpu, task) for name, cpu, _, task, _ in theirs]
    found = []
    for place in (FIRST, len(ours) - FIRST - 1):
        # The surroundings of an event tell which one it is, the wider they are the surer.
        for wide in (12, 24, FIRST):
            pattern = [name_of(event) for event in ours[place - wide:place + wide]]
            at = [i for i in range(len(names)) if names[i:i + 2 * wide] == pattern]
            if len(at) <= 1:
                break
        assert len(at) == 1, f"{len(at)} places fit event {place}"
        found.append(theirs[at[0] + wide][2])
    return found


def name_of(event):
    return event["event"], event["cpu"], event["tid"]


main()
