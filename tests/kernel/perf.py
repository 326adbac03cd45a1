#!/usr/bin/env python3
"""Records six workloads under `perf stat`, and holds the counts of events that happened in the programs' own
context against those that perf counts: all between the exec and the exits exactly, what happens in the exec
and in the exits as far as nobody can say when perf begins and ends.

Usage: perf.py REENACT FOLDER
"""

import collections
import json
import os
import subprocess
import sys

from workloads import WORKLOADS

# Of wakeups perf counts those of the program as well, not only those by it. Pages that are allocated
# (kmem:mm_page_alloc) are not held against it: where a program makes others, it counts some fewer (2,812
# of the 2,816 that tracefs has).
EVENTS = [
    "exceptions:page_fault_user", "exceptions:page_fault_kernel", "sched:sched_switch",
    "sched:sched_process_fork", "sched:sched_process_exec", "sched:sched_process_wait",
    "signal:signal_generate", "signal:signal_deliver", "timer:timer_start", "timer:hrtimer_start",
    "block:block_bio_queue", "block:block_rq_issue", "writeback:writeback_dirty_folio",
    "ext4:ext4_da_write_begin", "net:net_dev_queue", "net:netif_receive_skb",
    "sock:inet_sock_set_state", "filemap:mm_filemap_add_to_page_cache",
    "raw_syscalls:sys_enter", "raw_syscalls:sys_exit", "irq_vectors:local_timer_entry",
    "irq:softirq_entry",
]
TRACEFS = "/sys/kernel/tracing"
EXEC_CALLS = (59, 322)
PROGRAM = "python3"


def perf_counts(path):
    """What `perf stat -x,` has written."""
    counts = {}
    with open(path) as lines:
        for line in lines:
            words = line.split(",")
            if len(words) > 3 and ":" in words[2]:
                counts[words[2].split(":")[1].strip()] = int(words[0])
    return counts


def own_counts(events):
    """Counts of what happened for certain while perf counted, and of what may have."""
    events = [event for event in events if event["type"] == "kernel"]
    certain, possible = collections.Counter(), collections.Counter()
    # Of each thread: whether it lives, and what it did since its last exec began.
    tree, in_exec, begun = {}, {}, False
    for event in events:
        name, tid, fields = event["event"], event["tid"], event["fields"]
        if name == "sys_enter" and fields["id"] in EXEC_CALLS and not begun:
            in_exec[tid] = collections.Counter()
        if name == "sched_process_exec" and not begun and fields["filename"].endswith(PROGRAM):
            begun = True
            tree[tid] = True
            possible.update(in_exec.pop(tid, {}))
            certain[name] += 1
            continue
        if tid in in_exec:
            in_exec[tid][name] += 1
        if tid in tree:
            (certain if tree[tid] else possible)[name] += 1
            if name == "sched_process_fork":
                tree[fields["child_pid"]] = True
            if name == "sched_process_exit":
                tree[tid] = False
    return certain, certain + possible


def main():
    reenact, folder = sys.argv[1:3]
    os.chdir(folder)
    there = [event for event in EVENTS
             if os.path.exists(f"{TRACEFS}/events/{event.replace(':', '/')}")]
    wrong, kinds, exact, total = [], set(), 0, 0
    for work in WORKLOADS:
        trace = f"{work.__name__}.rnt"
        command = [reenact, "record", "--quiet", "-o", trace, "--kernel-buffer", "64M",
                   "--kernel=" + ",".join([*there, "sched:sched_process_exit"]), "--"]
        command += ["perf", "stat", "-x,", "-o", "counts.csv", "-e", ",".join(there)]
        command += [PROGRAM, "-B", os.path.abspath(__file__), "--work", work.__name__]
        subprocess.run(command, check=True)
        said = subprocess.run([reenact, "show", trace, "--json"], capture_output=True, check=True)
        events = [json.loads(line) for line in said.stdout.splitlines()]
        assert not any(event["type"] == "gap" for event in events), "the trace has gaps"
        certain, most = own_counts(events)
        counts = perf_counts("counts.csv")
        assert len(counts) == len(there), f"perf counts {sorted(counts)}"
        for name, count in counts.items():
            exact += certain[name] == count
            total += 1
            if count:
                kinds.add(name)
            if not certain[name] <= count <= most[name]:
                wrong.append(f"{work.__name__}: {name}: {certain[name]} to {most[name]}, perf {count}")
        of_work = sum(1 for count in counts.values() if count)
        print(f"{work.__name__}: {sum(counts.values())} events of {of_work} kinds, as perf counts them")
    assert not wrong, "\n".join(wrong)
    print(f"{exact} of {total} counts are equal, the others but for exec and exit; {len(kinds)} kinds")
    assert len(kinds) >= 12 and exact > total * 0.6, f"{sorted(kinds)}, {exact} of {total}"


if "--work" in sys.argv:
    {work.__name__: work for work in WORKLOADS}[sys.argv[-1]](".")
else:
    main()
