#!/usr/bin/env python3
"""Records the machine with reenact, and with a second instance of tracefs that trace-cmd reads at the same
time, and holds the counts of events against each other: of each kind on each CPU, for each of six
workloads, over the same window of the same clock.

Usage: count.py REENACT FOLDER. Ends with 77 if tracefs cannot be used here.
"""

import collections
import json
import os
import re
import subprocess
import sys
import time

from starting import wait_for
from workloads import WORKLOADS, name_itself

# What is counted, as far as this kernel has it.
EVENTS = [
    "sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup", "sched:sched_wakeup_new",
    "sched:sched_migrate_task", "sched:sched_process_fork", "sched:sched_process_exec",
    "sched:sched_process_exit", "sched:sched_process_free", "sched:sched_process_wait",
    "task:task_newtask", "task:task_rename", "irq:irq_handler_entry", "irq:irq_handler_exit",
    "irq:softirq_entry", "irq:softirq_exit", "irq:softirq_raise", "irq_vectors:local_timer_entry",
    "irq_vectors:local_timer_exit", "irq_vectors:reschedule_entry", "irq_vectors:reschedule_exit",
    "irq_vectors:call_function_single_entry", "exceptions:page_fault_user",
    "exceptions:page_fault_kernel", "block:block_rq_insert", "block:block_rq_issue",
    "block:block_rq_complete", "block:block_bio_queue", "signal:signal_generate",
    "signal:signal_deliver", "timer:timer_start", "timer:timer_expire_entry",
    "timer:hrtimer_start", "timer:hrtimer_expire_entry", "workqueue:workqueue_queue_work",
    "workqueue:workqueue_execute_start", "writeback:writeback_dirty_folio",
    "filemap:mm_filemap_add_to_page_cache", "ext4:ext4_da_write_begin", "jbd2:jbd2_start_commit",
    "net:net_dev_queue", "net:netif_receive_skb", "sock:inet_sock_set_state", "tcp:tcp_probe",
    "lock:contention_begin", "kmem:mm_page_alloc", "raw_syscalls:sys_enter", "raw_syscalls:sys_exit",
]
KINDS_LEAST = 40
TRACEFS = "/sys/kernel/tracing"
LINE = re.compile(r"^.*-(\d+) +\[(\d+)\] *(\d+): +(\w+): *(.*)$")
# A thread with such a name begins a workload: both see it as an event.
MARK = "mark-"


class Second:
    """An instance that is not the recorder's."""

    def __init__(self):
        self.name = f"check-{os.getpid()}"
        self.path = f"{TRACEFS}/instances/{self.name}"
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

    def end(self, folder):
        """The events as trace-cmd reads them, and how many the kernel has lost."""
        self.set("tracing_on", "0")
        lost = 0
        for cpu in os.listdir(f"{self.path}/per_cpu"):
            with open(f"{self.path}/per_cpu/{cpu}/stats") as lines:
                counts = dict(line.split(":", 1) for line in lines)
            lost += int(counts["overrun"]) + int(counts["dropped events"])
        read = os.path.join(folder, "second.dat")
        subprocess.run(["trace-cmd", "extract", "-B", self.name, "-o", read], check=True,
                       capture_output=True)
        said = subprocess.run(["trace-cmd", "report", "-i", read, "--raw-ts", "-R"], check=True,
                              capture_output=True, text=True, errors="replace")
        found = []
        for line in said.stdout.splitlines():
            if match := LINE.match(line):
                task, cpu, tsc, name, rest = match.groups()
                found.append((name, int(cpu), int(tsc), int(task), rest))
        return found, lost

    def remove(self):
        # trace-cmd has removed it if it came to read it.
        if os.path.exists(self.path):
            os.rmdir(self.path)


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
        EVENTS[:] = [event for event in EVENTS
                     if os.path.exists(f"{TRACEFS}/events/{event.replace(':', '/')}")]
        second.begin()
        command = [reenact, "record", "--quiet", "-o", trace, "--kernel-buffer", "32M",
                   "--kernel=" + ",".join(EVENTS)]
        recorder = subprocess.Popen(command)
        wait_for(recorder)
        own = {int(task) for task in os.listdir(f"/proc/{recorder.pid}/task")}
        for at, work in enumerate(WORKLOADS):
            name_itself(f"{MARK}{at}")
            work(folder)
        name_itself(f"{MARK}{len(WORKLOADS)}")
        # There is something behind the last mark on each CPU.
        time.sleep(0.3)
        recorder.terminate()
        assert recorder.wait() == 0, "the recorder did not end well"
        theirs, lost = second.end(folder)
    finally:
        second.remove()
    assert lost == 0, f"the second instance has lost {lost} events"

    said = subprocess.run([reenact, "show", trace, "--json"], capture_output=True, check=True)
    ours = [json.loads(line) for line in said.stdout.splitlines()]
    assert not any(event["type"] == "gap" for event in ours), "the trace has gaps"
    ours = [event for event in ours if event["type"] == "kernel"]

    def fields(event):
        return " ".join(f"{name}={value}" for name, value in event["fields"].items())

    ours = [(e["event"], e["cpu"], e["time_ns"], e["tid"], fields(e)) for e in ours]
    compare(*[[e for e in events if not is_own(e[0], e[3], e[4], own)] for events in (ours, theirs)])


def compare(ours, theirs):
    ours, theirs = (sorted(events, key=lambda event: event[2]) for events in (ours, theirs))
    # Programs that it begins lose the name, which is such an event as well.
    marks = [event[2] for event in ours
             if event[0] == "task_rename" and f"newcomm={MARK}" in event[4]]
    assert len(marks) == len(WORKLOADS) + 1, f"{len(marks)} marks"
    counts = [[collections.Counter(), collections.Counter()] for _ in WORKLOADS]
    for cpu in sorted({event[1] for event in ours}):
        of_cpu = [event for event in ours if event[1] == cpu]
        names, of_second = ([(e[0], e[3]) for e in events if e[1] == cpu] for events in (ours, theirs))
        places = [place_in(names, of_second, at_time(of_cpu, time)) for time in marks]
        for both, begin, end in zip(counts, places, places[1:]):
            for count, of, at in ((both[0], names, 0), (both[1], of_second, 1)):
                count.update((name, cpu) for name, _ in of[begin[at]:end[at]])
    kinds = set()
    for work, (one, other) in zip(WORKLOADS, counts):
        for key in sorted(set(one) | set(other)):
            if one[key] != other[key]:
                print(work.__name__, *key, one[key], "but trace-cmd reads", other[key])
        assert one == other, f"{work.__name__}: the counts differ"
        of_work = {name for name, _ in one}
        kinds |= of_work
        print(f"{work.__name__}: {sum(one.values())} events of {len(of_work)} kinds, as trace-cmd reads them")
    total = sum(sum(one.values()) for one, _ in counts)
    print(total, "events of", len(kinds), "kinds")
    assert total > 5000, "too few events to prove anything"
    assert len(kinds) >= KINDS_LEAST, f"only {len(kinds)} kinds: {sorted(kinds)}"


# Events that tell which one is meant. An interrupt may stand between an event and its like in the
# other instance, so places are tried until one fits.
WIDE = 30


def at_time(events, time):
    """Places from the first event at a time on, then those before it."""
    first = next((at for at, event in enumerate(events) if event[2] >= time), len(events))
    return [*range(first, len(events) - WIDE), *range(min(first, len(events) - WIDE) - 1, -1, -1)]


def place_in(ours, theirs, places):
    """A place in both lists at which the same events stand."""
    first = collections.defaultdict(list)
    for at, name in enumerate(theirs):
        first[name].append(at)
    for place in places:
        pattern = ours[place:place + WIDE]
        found = [at for at in first[pattern[0]] if theirs[at:at + WIDE] == pattern]
        if len(found) == 1:
            return place, found[0]
    assert False, "no event is found again"


main()
