#!/usr/bin/env python3
"""Records programs that spend their time in known ways, and holds what `stat cpu` says of them against
what the kernel has counted by the time they ended.

Usage: times.py REENACT FOLDER
"""

import fcntl
import json
import mmap
import os
import subprocess
import sys
import time


def busy():
    end = time.monotonic() + 0.4
    while time.monotonic() < end:
        pass


def yielding():
    for _ in range(50_000):
        os.sched_yield()


def faulting():
    for _ in range(20):
        with mmap.mmap(-1, 8 << 20) as memory:
            for at in range(0, 8 << 20, 4096):
                memory[at] = 1


def sleeping():
    for _ in range(60):
        time.sleep(0.002)


def disk():
    with open(f"disk{os.getpid()}", "wb") as out:
        for _ in range(12):
            out.write(os.urandom(1 << 18))
            out.flush()
            os.fsync(out.fileno())


def lock():
    with open("lock", "wb") as held:
        for _ in range(30):
            fcntl.flock(held, fcntl.LOCK_EX)
            end = time.monotonic() + 0.002
            while time.monotonic() < end:
                pass
            fcntl.flock(held, fcntl.LOCK_UN)
            os.sched_yield()


KINDS = [busy, yielding, faulting, sleeping, disk, lock, lock]


def program():
    """Runs all of them, and prints what the kernel says of each when it has ended."""
    children = {}
    for kind in KINDS:
        pid = os.fork()
        if pid == 0:
            kind()
            os._exit(0)
        children[pid] = kind.__name__
    while children:
        # It is looked at before it is waited for: all that it did is counted then.
        pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
        with open(f"/proc/{pid}/schedstat") as stat:
            on_cpu, delay, _ = stat.read().split()
        _, _, usage = os.wait4(pid, 0)
        used = int((usage.ru_utime + usage.ru_stime) * 1e9)
        print(children.pop(pid), pid, on_cpu, delay, used, flush=True)


def main():
    reenact, folder = sys.argv[1:3]
    os.chdir(folder)
    trace = os.path.abspath("times.rnt")
    command = [reenact, "record", "--quiet", "-o", trace, "--kernel", "--"]
    command += ["python3", os.path.abspath(__file__), "--program"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    found = subprocess.run([reenact, "stat", "cpu", trace, "--json"], capture_output=True, check=True)
    threads = {thread["tid"]: thread for thread in json.loads(found.stdout)["cpu_threads"]}
    for thread in threads.values():
        check_sums(thread)
    wrong = []
    for line in said.splitlines():
        name, *numbers = line.split()
        pid, on_cpu, delay, used = map(int, numbers)
        ours = threads[pid]
        print(f"{name}: on a CPU {ours['on_cpu_ns']}, kernel {on_cpu}; runnable",
              f"{ours['runnable_ns']}, kernel {delay}; getrusage {used}")
        # The kernel counts from when it looks for the next thread, which may take a while, and tells
        # of the switch when it has found one.
        slack = 40_000 * min(ours["switches"], 200) + 200_000
        for what, theirs in [("on_cpu_ns", on_cpu), ("runnable_ns", delay)]:
            if abs(ours[what] - theirs) > theirs * 0.01 + slack:
                wrong.append(f"{name}: {what} is {ours[what]}, not {theirs}")
        if abs(ours["on_cpu_ns"] - used) > used * 0.01 + slack + 1_000_000:
            wrong.append(f"{name}: {ours['on_cpu_ns']} ns on a CPU, {used} by getrusage")
        wrong += explain(name, ours)
    assert not wrong, "\n".join(wrong)
    assert len(said.splitlines()) == len(KINDS)


def check_sums(thread):
    def total(names):
        return sum(thread[name + "_ns"] for name in names.split())

    on_cpu = total("user kernel calls faults interrupted")
    rest = total("runnable disk peer lock child asleep stopped unknown")
    assert thread["on_cpu_ns"] == on_cpu, thread
    assert thread["life_ns"] == on_cpu + rest, thread


def explain(name, thread):
    """What a program waited for is what it was made to wait for."""
    # On a busy machine a program may be put aside after it has set its timer, and sleeps for the rest.
    wanted = {"sleeping": ("asleep_ns", 60 * 1_000_000), "disk": ("disk_ns", 1),
              "lock": ("lock_ns", 1), "faulting": ("faults_ns", 1),
              "yielding": ("calls_ns", 1), "busy": ("user_ns", 1)}
    what, least = wanted[name]
    if thread[what] < least:
        return [f"{name}: {what} is {thread[what]}"]
    return []


if "--program" in sys.argv:
    program()
else:
    main()
