#!/usr/bin/env python3
"""Records the machine with reenact, and with a second instance of tracefs at the same time, and holds
the counts of events against each other: of each kind on each CPU, over the same window of the clock.

Usage: count.py REENACT FOLDER. Ends with 77 if tracefs cannot be used here.
"""

import collections
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

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
    "lock:contention_begin", "oom:oom_score_adj_update",
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


def files(folder):
    """Requests to a disk."""
    for number in range(10):
        path = os.path.join(folder, f"file{number}")
        with open(path, "wb") as out:
            out.write(os.urandom(1 << 20))
            out.flush()
            os.fsync(out.fileno())
        os.unlink(path)


def processes(_):
    """Processes that begin and end."""
    for _ in range(20):
        subprocess.run(["cat", "/etc/passwd"], stdout=subprocess.DEVNULL, check=True)


def faults(_):
    """Memory that is not there yet."""
    for _ in range(4):
        memory = bytearray(4 << 20)
        for at in range(0, len(memory), 4096):
            memory[at] = 1


def switches(_):
    """Two processes that wait for each other."""
    one, other = os.pipe(), os.pipe()
    if os.fork() == 0:
        for _ in range(1000):
            os.read(one[0], 1)
            os.write(other[1], b"x")
        os._exit(0)
    for _ in range(1000):
        os.write(one[1], b"x")
        os.read(other[0], 1)
    os.wait()


def timers(_):
    """Sleeps and signals."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    for _ in range(50):
        time.sleep(0.002)
    signal.setitimer(signal.ITIMER_REAL, 0)


def packets(_):
    """Connections within the machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(20):
            with socket.create_connection(server.getsockname()) as client:
                served, _ = server.accept()
                client.sendall(bytes(10_000))
                served.recv(10_000)
                served.close()


WORKLOADS = [files, processes, faults, switches, timers, packets]


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
        command = [reenact, "record", "--quiet", "-o", trace, "--kernel=" + ",".join(EVENTS)]
        recorder = subprocess.Popen(command)
        time.sleep(0.5)
        own = {int(task) for task in os.listdir(f"/proc/{recorder.pid}/task")}
        for work in WORKLOADS:
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
    counts = [collections.Counter(), collections.Counter()]
    for cpu in sorted({event["cpu"] for event in ours}):
        of_cpu = [name_of(event) for event in ours if event["cpu"] == cpu]
        of_second = [(e[0], e[1], e[3]) for e in sorted(theirs, key=lambda e: e[2]) if e[1] == cpu]
        places = [(place_in(of_cpu, of_second, range(FIRST, len(of_cpu) - WIDE, 7))),
                  (place_in(of_cpu, of_second, range(len(of_cpu) - FIRST - WIDE, FIRST, -7)))]
        for count, names, at in ((counts[0], of_cpu, 0), (counts[1], of_second, 1)):
            count.update((name, cpu) for name, _, _ in names[places[0][at]:places[1][at]])
    for key in sorted(set(counts[0]) | set(counts[1])):
        if counts[0][key] != counts[1][key]:
            print(*key, counts[0][key], counts[1][key])
    assert counts[0] == counts[1], "the counts differ"
    kinds = {name for name, _ in counts[0]}
    print(sum(counts[0].values()), "events of", len(kinds), "kinds")
    assert sum(counts[0].values()) > 5000, "too few events to prove anything"
    assert {"sched_switch", "sched_waking", "softirq_entry", "page_fault_user"} <= kinds, kinds
    assert len(kinds) >= 30, f"{len(kinds)} kinds: {sorted(kinds)}"


# Events at both ends of each CPU that are not counted: the window begins and ends there.
FIRST = 50
# Events that tell which one is meant. An interrupt may stand between an event and its like in the
# other instance, so places are tried until one fits.
WIDE = 30


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


def name_of(event):
    return event["event"], event["cpu"], event["tid"]


main()
