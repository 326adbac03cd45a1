#!/usr/bin/env python3
"""Records programs that were built to wait for a known thing, and checks that `stat waits` explains each
as it was built, and that `stat calls --where` splits the time of its calls.

Usage: waits.py REENACT FOLDER
"""

import ctypes
import json
import mmap
import os
import subprocess
import sys
import threading
import time

HELD = 0.05


def lock():
    """A thread holds a lock for 50 ms; another one waits for it."""
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    waiter = threading.Thread(target=lambda: libc.pthread_mutex_lock(mutex))
    waiter.start()
    time.sleep(HELD)
    libc.pthread_mutex_unlock(mutex)
    waiter.join()


def pipe():
    """A child writes to a pipe after 60 ms of work; its parent reads."""
    source, target = os.pipe()
    if os.fork() == 0:
        end = time.monotonic() + 0.06
        while time.monotonic() < end:
            pass
        os.write(target, b"x")
        os._exit(0)
    os.read(source, 1)
    os.wait()


def fsync():
    """A file is made durable."""
    with open("durable", "wb") as out:
        for _ in range(5):
            out.write(os.urandom(1 << 22))
            out.flush()
            os.fsync(out.fileno())


def hog():
    """Two processes on one CPU: each is put aside for the other."""
    os.sched_setaffinity(0, {0})
    child = os.fork()
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        pass
    if child == 0:
        os._exit(0)
    os.wait()


def page_in():
    """Pages of a mapped file come from the disk."""
    with open("paged", "wb") as out:
        out.write(os.urandom(8 << 20))
        os.fsync(out.fileno())
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with open("paged", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        memory.madvise(mmap.MADV_RANDOM)
        for at in range(0, 8 << 20, 1 << 14):
            memory[at]


def peer():
    """Another process answers on a socket after 40 ms of sleep."""
    import socket
    one, other = socket.socketpair()
    if os.fork() == 0:
        other.recv(1)
        time.sleep(0.04)
        other.send(b"y")
        os._exit(0)
    one.send(b"x")
    one.recv(1)
    os.wait()


PROGRAMS = {program.__name__: program for program in [lock, pipe, fsync, hog, page_in, peer]}


def said(reenact, trace, *view):
    found = subprocess.run([reenact, "stat", *view, trace, "--json"], capture_output=True, check=True)
    return json.loads(found.stdout)


def total(rows, of, **wanted):
    fits = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return sum(row[of] for row in fits)


def check(name, waits, cpu, where, blocks):
    """What must be found of a program. Times are least ones: the machine may be slow."""
    longest = waits["longest"]
    if name == "lock":
        assert total(waits["waits"], "time_ns", blocked_on="lock", call="futex") > HELD * 0.95e9
        assert any(row["time_ns"] > HELD * 0.95e9 and row["holder"] for row in waits["locks"])
        # Others of the same call may be longer on a busy machine, here and below.
        stories = [row["explained"] for row in longest if row["call"] == "futex"]
        assert any(story.startswith("lock, ") and "asleep" in story for story in stories), stories
    elif name == "pipe":
        assert total(waits["waits"], "time_ns", blocked_on="peer", call="read") > 0.05e9
        stories = [row["explained"] for row in longest if row["call"] == "read"]
        assert any("ran" in story for story in stories), stories
        # What the child did is on the critical path of its parent.
        path = waits["critical"]
        pids = {row["pid"] for row in path if row["doing"] == "own" and row["time_ns"] > 0.02e9}
        assert len(pids) >= 2 or any(row["pid"] != path[0]["pid"] for row in path), path
    elif name == "fsync":
        row = next(row for row in where["call_states"] if row["call"] == "fsync")
        assert row["disk_ns"] > 0 and row["disk_ns"] > row["lock_ns"] + row["peer_ns"], row
        assert any(row["call"] == "fsync" and "disk" in row["explained"] for row in longest), longest
        assert any(row["call"] == "fsync" and (row["file"] or "").endswith("durable")
                   for row in blocks["requesters"]), blocks["requesters"]
    elif name == "hog":
        busiest = sorted(cpu["cpu_processes"], key=lambda row: -row["user_ns"])[:2]
        for row in busiest:
            assert row["preempted_ns"] > 0.05e9, row
    elif name == "page_in":
        outside = [row for row in longest if row["call"] == "(outside of calls)"]
        assert any("disk" in row["explained"] for row in outside), longest[:3]
        assert cpu["cpu_processes"][0]["disk_ns"] > 0, cpu["cpu_processes"][0]
    elif name == "peer":
        assert total(waits["waits"], "time_ns", blocked_on="peer", call="recvfrom") > 0.038e9
        stories = [row["explained"] for row in longest if row["call"] == "recvfrom"]
        assert any("asleep" in story for story in stories), stories


def main():
    reenact, folder = sys.argv[1:3]
    script = os.path.abspath(__file__)
    os.chdir(folder)
    for name in PROGRAMS:
        trace = os.path.abspath(f"{name}.rnt")
        command = [reenact, "record", "--quiet", "-o", trace, "--kernel", "--", "python3", script]
        subprocess.run([*command, "--program", name], check=True)
        views = [said(reenact, trace, *view) for view in (["waits"], ["cpu"], ["calls", "--where"],
                                                          ["block"])]
        check(name, *views)
        print(name, "is explained as it was built", flush=True)


if "--program" in sys.argv:
    PROGRAMS[sys.argv[-1]]()
else:
    main()
