#!/usr/bin/env python3
"""Records events of some threads alone, and checks that all of them are about these.

Usage: whom.py REENACT FOLDER
"""

import json
import os
import subprocess
import sys
import time

from starting import wait_for

USER = 54321


def spend(until):
    while time.monotonic() < until:
        os.stat("/")
        time.sleep(0.001)


def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid


def of_user():
    time.sleep(0.7)
    os.setuid(USER)
    end = time.monotonic() + 0.5
    inner = child(lambda: spend(end))
    spend(end)
    os.waitpid(inner, 0)


def record(reenact, trace, options, work):
    """What was recorded while some processes worked, and their ids."""
    command = [reenact, "record", "--quiet", "--force", "-o", trace, *options, "--duration", "1500ms"]
    recorder = subprocess.Popen(command)
    wait_for(recorder)
    pids = [child(one) for one in work]
    for pid in pids:
        os.waitpid(pid, 0)
    assert recorder.wait() == 0
    said = subprocess.run([reenact, "show", trace, "--json"], capture_output=True, check=True)
    return [json.loads(line) for line in said.stdout.splitlines()], pids


def about(event):
    """The threads that an event is about."""
    names = ["pid", "prev_pid", "next_pid", "parent_pid", "child_pid", "old_pid"]
    return {event["tid"]} | {event["fields"][name] for name in names if name in event["fields"]}


def kernel(events):
    return [event for event in events if event["type"] == "kernel"]


def by_user(reenact, trace):
    end = time.monotonic() + 1.2
    options = ["--kernel=core,syscalls", f"--kernel-for=uid={USER}"]
    events, (one, other) = record(reenact, trace, options, [of_user, lambda: spend(end)])
    wanted, found, before = {one}, [], 0
    for event in kernel(events):
        if event["event"] == "sched_process_fork" and event["fields"]["parent_pid"] in wanted:
            wanted.add(event["fields"]["child_pid"])
        found.append(bool(about(event) & wanted))
    assert len(wanted) == 2, f"{wanted}: the process and its child"
    # Interrupts are kept if something in them is, and say nothing of it themselves.
    strange = [event for event, is_about in zip(kernel(events), found)
               if not is_about and event["system"] not in ("irq", "irq_vectors", "block")]
    assert not strange, strange[:3]
    assert sum(found) > 300, f"{sum(found)} events"
    # The other one is named where it wakes one of these, runs before it, or is interrupted for it.
    of_other = [event for event in kernel(events)
                if other in about(event) and event["system"] not in ("irq", "irq_vectors", "block")]
    assert all(about(event) & wanted for event in of_other), of_other[:3]
    # It was another user's before.
    calls = [e for e in kernel(events) if e["event"] == "sys_enter" and e["tid"] == one]
    assert calls and len([e for e in calls if e["fields"]["id"] in (4, 262)]) > 50, len(calls)


def by_process(reenact, trace):
    # The shell is there before the recorder, and makes others.
    shell = subprocess.Popen(["sh", "-c", "sleep 0.8; ls / >/dev/null; cat /dev/null"])
    options = ["--kernel", f"--kernel-for=pid={shell.pid}"]
    events, _ = record(reenact, trace, options, [lambda: time.sleep(1)])
    shell.wait()
    programs = [os.path.basename(event["fields"]["filename"]) for event in kernel(events)
                if event["event"] == "sched_process_exec"]
    assert programs == ["ls", "cat"], programs
    faults = [event["tid"] for event in kernel(events) if event["event"] == "page_fault_user"]
    assert len(set(faults)) >= 2, set(faults)


def by_cpu(reenact, trace):
    end = time.monotonic() + 1
    events, _ = record(reenact, trace, ["--kernel", "--kernel-for=cpu=0"], [lambda: spend(end)])
    cpus = {event["cpu"] for event in kernel(events)}
    assert cpus == {0}, cpus


def by_condition(reenact, trace):
    end = time.monotonic() + 1
    options = ["--kernel=sched:sched_switch:prev_state!=0,sched_waking"]
    refused = subprocess.run([reenact, "record", "-o", trace, *options], capture_output=True)
    assert refused.returncode == 125 and b"sched_waking" in refused.stderr, refused.stderr
    options = ["--kernel=sched_switch:no_such_field!=0"]
    refused = subprocess.run([reenact, "record", "-o", trace, *options], capture_output=True)
    assert refused.returncode == 125 and b"no_such_field" in refused.stderr, refused.stderr
    options = ["--kernel=sched_switch:prev_state!=0"]
    events, _ = record(reenact, trace, options, [lambda: spend(end)])
    states = [event["fields"]["prev_state"] for event in kernel(events)]
    assert len(states) > 100 and all(states), len(states)


def main():
    reenact, folder = sys.argv[1:3]
    trace = os.path.join(folder, "whom.rnt")
    for check in [by_user, by_process, by_cpu, by_condition]:
        if os.path.exists(trace):
            os.unlink(trace)
        check(reenact, trace)
        print(check.__name__, "is as it should be", flush=True)


main()
