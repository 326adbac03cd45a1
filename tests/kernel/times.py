#!/usr/bin/env python3
"""Records programs that spend their time in known ways, and holds what `stat cpu` says of them against
what the kernel has counted by the time they ended.

The kernel's counts are those of its scheduler's clock, which differs in ways that are known, and taken
account of here:

- What a hypervisor took from a CPU is no time on a CPU to a kernel that is told of it. /proc/stat says how
  much that was, in steps of a tick, but not from whom it was taken.
- Some kernels take interrupts off as well; `stat cpu` has those apart.
- A wakeup for another CPU counts when that has noticed it (`sched_wakeup`), which takes long where the CPU
  has halted, in a virtual machine; `stat cpu` counts from when the thread was woken (`sched_waking`).

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
        os.write(READY[1], b"x")
        for _ in range(30):
            fcntl.flock(held, fcntl.LOCK_EX)
            end = time.monotonic() + 0.002
            while time.monotonic() < end:
                pass
            fcntl.flock(held, fcntl.LOCK_UN)
            os.sched_yield()


KINDS = [busy, yielding, faulting, sleeping, disk, lock, lock]
# Those that fight for the lock have begun.
READY = os.pipe()
# A thread goes on for a moment after it has ended for its parent, longer if others have its CPU.
LAST_STEPS = 0.1
# Some recordings may have a thread that took longer.
TRIES = 5
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def program():
    """Runs all of them, and prints what the kernel says of each when it has ended."""
    children = {}
    # Nobody has the lock before all are there.
    held = open("lock", "wb")
    fcntl.flock(held, fcntl.LOCK_EX)
    for kind in KINDS:
        pid = os.fork()
        if pid == 0:
            kind()
            os._exit(0)
        children[pid] = kind.__name__
    for _ in range(KINDS.count(lock)):
        os.read(READY[0], 1)
    time.sleep(0.02)
    fcntl.flock(held, fcntl.LOCK_UN)
    while children:
        # It is looked at before it is waited for: all that it did is counted then.
        pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
        time.sleep(LAST_STEPS)
        with open(f"/proc/{pid}/schedstat") as stat:
            on_cpu, delay, _ = stat.read().split()
        _, _, usage = os.wait4(pid, 0)
        used = int((usage.ru_utime + usage.ru_stime) * 1e9)
        print(children.pop(pid), pid, on_cpu, delay, used, flush=True)


def main():
    reenact, folder = sys.argv[1:3]
    os.chdir(folder)
    for _ in range(TRIES):
        trace = os.path.abspath("times.rnt")
        command = [reenact, "record", "--quiet", "--force", "-o", trace]
        command += ["--kernel=core,sched:sched_wakeup", "--"]
        command += ["python3", os.path.abspath(__file__), "--program"]
        before = stolen_ns()
        said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
        # Its count is brought up to date by ticks.
        time.sleep(0.05)
        stolen = stolen_ns() - before + TICK_NS * os.cpu_count() if before else 0
        if compare(reenact, trace, said, stolen):
            return
        print("a thread was looked at before it had come to its end; once more")
    sys.exit("no recording in which all threads had ended before they were looked at")


def compare(reenact, trace, said, stolen):
    """Holds the counts against each other; false if the kernel's were read too early."""
    def asked(*words):
        return subprocess.run([reenact, *words, "--json"], capture_output=True, check=True).stdout

    lost = json.loads(asked("stat", "events", trace))["event_lost"]
    assert lost == 0, f"{lost} events lost"
    threads = {thread["tid"]: thread for thread in json.loads(asked("stat", "cpu", trace))["cpu_threads"]}
    for thread in threads.values():
        check_sums(thread)
    children = {}
    for line in said.splitlines():
        name, *numbers = line.split()
        pid, *numbers = map(int, numbers)
        children[pid] = (name, *numbers)
    assert len(children) == len(KINDS), said
    looked_at = {}
    for line in asked("show", trace, "--call", "openat").splitlines():
        call = json.loads(line)
        words = call.get("args", {}).get("pathname", "").split("/")
        if words[:2] == ["", "proc"] and words[3:] == ["schedstat"]:
            looked_at[int(words[2])] = call["enter_ns"]
    assert looked_at.keys() == children.keys(), f"looked at {looked_at}, children {children}"
    ended, under_way = follow(asked("show", trace, "--event", "sched:sched_*"), children)
    if any(ended[pid] > looked_at[pid] for pid in children):
        return False
    takes_off = takes_interrupts_off()
    wrong = []
    for pid, (name, on_cpu, delay, used) in children.items():
        thread = threads[pid]
        ours = thread["on_cpu_ns"] - (thread["interrupted_ns"] if takes_off else 0)
        waited = thread["runnable_ns"] - under_way[pid]
        print(f"{name}: on a CPU {ours}, kernel {on_cpu}; runnable {waited}, kernel {delay};",
              f"getrusage {used}; {thread['switches']} switches, interrupted {thread['interrupted_ns']},",
              f"wakeups under way {under_way[pid]}")
        # The kernel counts from when it looks for the next thread, which may take a while, and tells
        # of the switch when it has found one.
        slack = 40_000 * min(thread["switches"], 200) + 200_000
        for what, our, their, more in [("on a CPU", ours, on_cpu, stolen), ("runnable", waited, delay, 0),
                                       ("on a CPU by getrusage", ours, used, stolen + 1_000_000)]:
            if not -slack <= our - their + their * 0.01 and our - their <= their * 0.01 + slack + more:
                wrong.append(f"{name}: {our} ns {what}, not {their}")
        wrong += explain(name, thread)
    if wrong:
        print(f"stolen {stolen}, interrupts are {'' if takes_off else 'not '}taken off;",
              " ".join(os.uname()))
        for path in ["/sys/devices/system/clocksource/clocksource0/current_clocksource", "/proc/loadavg",
                     "/proc/sys/kernel/numa_balancing", "/sys/fs/cgroup/cpu.max"]:
            if os.path.exists(path):
                with open(path) as text:
                    print(path, text.read().strip())
    assert not wrong, "\n".join(wrong)
    return True


def follow(events, children):
    """When each thread ran for the last time, and how long its wakeups were on their way to a CPU."""
    ended, under_way, woken = {}, dict.fromkeys(children, 0), {}
    for line in events.splitlines():
        event = json.loads(line)
        fields, name, now = event["fields"], event["event"], event["time_ns"]
        if name == "sched_switch":
            ended[fields["prev_pid"]] = now
        elif name == "sched_waking":
            woken[fields["pid"]] = now
        elif name == "sched_wakeup" and fields["pid"] in woken:
            since = woken.pop(fields["pid"])
            if fields["pid"] in children:
                under_way[fields["pid"]] += now - since
    return ended, under_way


def of_all_cpus():
    with open("/proc/stat") as stat:
        return [int(word) for word in stat.readline().split()[1:]]


def stolen_ns():
    """What a hypervisor has taken so far, if the kernel is told of it."""
    return of_all_cpus()[7] * TICK_NS


def takes_interrupts_off():
    """Whether the kernel times interrupts: by ticks alone, which are interrupts themselves, it finds none."""
    return of_all_cpus()[5] != 0


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
    if name == "disk" and not has_disk():
        return []
    if thread[what] < least:
        return [f"{name}: {what} is {thread[what]}"]
    return []


def has_disk():
    kind = subprocess.run(["stat", "-f", "-c", "%T", "."], stdout=subprocess.PIPE, check=True, text=True)
    return kind.stdout.strip() not in ("tmpfs", "ramfs")


if "--program" in sys.argv:
    program()
else:
    main()
