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
STEPS = 100
# A call's number.
GETPPID = 110


def spend():
    """As many calls on a busy machine as on an idle one."""
    for _ in range(STEPS):
        os.stat("/")
        time.sleep(0.001)


def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid


def changing(become):
    """A process that becomes something else, and makes a child then."""
    for _ in range(STEPS // 4):
        os.getppid()
        time.sleep(0.001)
    become()
    inner = child(spend)
    spend()
    os.waitpid(inner, 0)


def record(reenact, trace, options, work, program=()):
    """What was recorded while some processes worked, and their ids. They are there until it is over."""
    command = [reenact, "record", "--quiet", "--force", "-o", trace, *options, *program]
    recorder = subprocess.Popen(command, stdin=subprocess.PIPE)
    wait_for(recorder)
    done, go = os.pipe(), os.pipe()

    def worker(one):
        one()
        os.write(done[1], b"x")
        os.close(go[1])
        os.read(go[0], 1)

    pids = [child(lambda: worker(one)) for one in work]
    for _ in pids:
        os.read(done[0], 1)
    if program:
        # The workers have that end as well.
        recorder.stdin.write(b"\n")
        recorder.stdin.flush()
    else:
        recorder.terminate()
    assert recorder.wait() == 0
    os.close(go[1])
    for pid in pids:
        os.waitpid(pid, 0)
    for end in (*done, go[0]):
        os.close(end)
    said = subprocess.run([reenact, "show", trace, "--json"], capture_output=True, check=True)
    return [json.loads(line) for line in said.stdout.splitlines()], pids


def about(event):
    """The threads that an event is about."""
    names = ["pid", "prev_pid", "next_pid", "parent_pid", "child_pid", "old_pid"]
    return {event["tid"]} | {event["fields"][name] for name in names if name in event["fields"]}


def kernel(events):
    return [event for event in events if event["type"] == "kernel"]


def by_change(reenact, trace, whom, become, others=()):
    """Of two processes one becomes what is asked for: it and its child are kept from then on."""
    options = ["--kernel=core,syscalls", f"--kernel-for={whom}"]
    events, (one, other) = record(reenact, trace, options, [lambda: changing(become), spend])
    wanted, found = {one, *others}, []
    for event in kernel(events):
        if event["event"] == "sched_process_fork" and event["fields"]["parent_pid"] in wanted:
            wanted.add(event["fields"]["child_pid"])
        found.append(bool(about(event) & wanted))
    assert len(wanted) == 2 + len(others), f"{wanted}: the process and its child"
    # Interrupts are kept if something in them is, and say nothing of it themselves; what threads of the
    # kernel do for one of these is kept as well.
    helpers = {event["task"] for event in events if event["type"] == "kernel_task" and event["is_kernel"]}
    strange = [event for event, is_about in zip(kernel(events), found)
               if not is_about and not about(event) & helpers
               and event["system"] not in ("irq", "irq_vectors", "block")]
    assert not strange, strange[:3]
    assert sum(found) > 200, f"{sum(found)} events"
    # The other one is named where it wakes one of these, runs before it, or is interrupted for it.
    of_other = [event for event in kernel(events)
                if other in about(event) and event["system"] not in ("irq", "irq_vectors", "block")]
    assert all(about(event) & (wanted | helpers) for event in of_other), of_other[:3]
    # It was something else before.
    calls = [e["fields"]["id"] for e in kernel(events) if e["event"] == "sys_enter" and e["tid"] == one]
    assert len([call for call in calls if call in (4, 262)]) > 50, len(calls)
    assert GETPPID not in calls, "calls from before it was one of those"


def by_user(reenact, trace):
    by_change(reenact, trace, f"uid={USER}", lambda: os.setuid(USER))


def by_group_id(reenact, trace):
    by_change(reenact, trace, f"gid={USER}", lambda: os.setgid(USER))


def by_process_group(reenact, trace):
    leader = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: os.setpgid(0, 0))
    try:
        by_change(reenact, trace, f"pgid={leader.pid}", lambda: os.setpgid(0, leader.pid), [leader.pid])
    finally:
        leader.kill()
        leader.wait()


def by_cgroup(reenact, trace):
    group = make_cgroup()
    if group is None:
        return print("no cgroup can be made here")

    def enter():
        with open(f"{group}/cgroup.procs", "w") as out:
            out.write(str(os.getpid()))

    try:
        by_change(reenact, trace, f"cgroup={group}", enter)
    finally:
        os.rmdir(group)


def make_cgroup():
    with open("/proc/mounts") as mounts:
        mounts = [line.split()[1:3] for line in mounts]
    for kind in ("cgroup2", "cgroup"):
        for place, _ in (mount for mount in mounts if mount[1] == kind):
            # That of processors takes no process before it has some.
            path = f"{place}/reenact-test-{os.getpid()}"
            try:
                os.mkdir(path)
            except OSError:
                continue
            if not os.path.exists(f"{path}/cpuset.cpus") or kind == "cgroup2":
                return path
            os.rmdir(path)
    return None


def by_one_of_several(reenact, trace):
    """Of a program, and of a user, but not of others."""
    def of_user():
        os.setuid(USER)
        spend()

    options = ["--kernel=core,exceptions", f"--kernel-for=program,uid={USER}"]
    program = ["--", "sh", "-c", "ls / >/dev/null; read line"]
    events, (one, other) = record(reenact, trace, options, [of_user, spend], program)
    programs = {event["tid"] for event in events if event["type"] == "start"}
    faults = {event["tid"] for event in kernel(events) if event["system"] == "exceptions"}
    assert faults & programs, "no faults of the program"
    woken = {event["fields"]["pid"] for event in kernel(events) if event["event"] == "sched_waking"}
    assert one in woken and other not in faults, f"{one} {other}"


def without_details(reenact, trace):
    """Of some events there is all, of others only that they happened."""
    options = ["--kernel=sched,exceptions,irq", "--kernel-details=sched:sched_switch,exceptions"]
    events, _ = record(reenact, trace, options, [spend])
    seen = {True: set(), False: set()}
    for event in kernel(events):
        seen[bool(event["fields"])].add(f"{event['system']}:{event['event']}")
        assert event["time_ns"] > 0 and "cpu" in event and "tid" in event, event
    assert "sched:sched_switch" in seen[True] and "exceptions:page_fault_user" in seen[True], seen
    assert "sched:sched_waking" in seen[False] and "irq:softirq_entry" in seen[False], seen
    whole = {name for name in seen[True] if not name.startswith("exceptions:")}
    assert whole == {"sched:sched_switch"} and not seen[True] & seen[False], seen
    counted, _ = record(reenact, trace, ["--kernel", "--kernel-details=none"], [spend])
    assert len(kernel(counted)) > 100 and not any(event["fields"] for event in kernel(counted))


def who_was_there(reenact, trace):
    """Threads that were there before have names, parents, users, groups and states."""
    there = subprocess.Popen(["sleep", "60"], user=USER, group=USER + 1, extra_groups=[],
                             start_new_session=True)
    try:
        with open(f"/proc/{there.pid}/cgroup") as cgroups:
            cgroups = [line.rstrip("\n").split(":", 2)[2] for line in cgroups]
        events, _ = record(reenact, trace, ["--kernel"], [lambda: time.sleep(0.5)])
    finally:
        there.kill()
        there.wait()
    found = [event for event in events if event["type"] == "kernel_task" and event["task"] == there.pid]
    assert len(found) == 1, found
    found = found[0]
    wanted = {"process": there.pid, "parent": os.getpid(), "process_group": there.pid, "uid": USER,
              "gid": USER + 1, "state": "S", "is_kernel": 0, "name": "sleep"}
    assert {name: found[name] for name in wanted} == wanted, found
    assert found["cgroup"] in cgroups and found["cpu"] < os.cpu_count(), found
    first = min(event["time_ns"] for event in kernel(events))
    assert found["time_ns"] > first, "it was looked at before events began"
    # It did nothing, and yet it is told what it did all the time.
    said = subprocess.run([reenact, "stat", "cpu", trace, "--json"], capture_output=True, check=True)
    row = next(row for row in json.loads(said.stdout)["cpu_threads"] if row["tid"] == there.pid)
    assert row["name"] == "sleep" and row["life_ns"] > 400_000_000, row


def by_process(reenact, trace):
    # The shell is there before the recorder, and makes others.
    shell = subprocess.Popen(["sh", "-c", "read line; ls / >/dev/null; cat /dev/null"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def let_it_go():
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        shell.stdout.read()

    options = ["--kernel", f"--kernel-for=pid={shell.pid}"]
    events, _ = record(reenact, trace, options, [let_it_go])
    shell.wait()
    programs = [os.path.basename(event["fields"]["filename"]) for event in kernel(events)
                if event["event"] == "sched_process_exec"]
    assert programs == ["ls", "cat"], programs
    faults = [event["tid"] for event in kernel(events) if event["event"] == "page_fault_user"]
    assert len(set(faults)) >= 2, set(faults)


def by_cpu(reenact, trace):
    events, _ = record(reenact, trace, ["--kernel", "--kernel-for=cpu=0"], [spend])
    cpus = {event["cpu"] for event in kernel(events)}
    assert cpus == {0}, cpus


def by_condition(reenact, trace):
    options = ["--kernel=sched:sched_switch:prev_state!=0,sched_waking"]
    refused = subprocess.run([reenact, "record", "-o", trace, *options], capture_output=True)
    assert refused.returncode == 125 and b"sched_waking" in refused.stderr, refused.stderr
    options = ["--kernel=sched_switch:no_such_field!=0"]
    refused = subprocess.run([reenact, "record", "-o", trace, *options], capture_output=True)
    assert refused.returncode == 125 and b"no_such_field" in refused.stderr, refused.stderr
    options = ["--kernel=sched_switch:prev_state!=0"]
    events, _ = record(reenact, trace, options, [spend])
    states = [event["fields"]["prev_state"] for event in kernel(events)]
    assert len(states) > 100 and all(states), len(states)


CHECKS = [by_user, by_group_id, by_process_group, by_cgroup, by_one_of_several, by_process, by_cpu,
          by_condition, without_details, who_was_there]


def main():
    reenact, folder = sys.argv[1:3]
    trace = os.path.join(folder, "whom.rnt")
    for check in CHECKS:
        if os.path.exists(trace):
            os.unlink(trace)
        check(reenact, trace)
        print(check.__name__, "is as it should be", flush=True)


main()
