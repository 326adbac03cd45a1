#!/usr/bin/env python3
"""Records a program with the kernel's events, exports them as tables, and holds `kernel` against the counts
of `stat events`, and the sums of `states` against `stat cpu`.

Usage: kernel.py REENACT FOLDER
"""

import collections
import json
import os
import subprocess
import sys

import pyarrow.dataset


def said(reenact, *words):
    ran = subprocess.run([reenact, "stat", *words, "k.rnt", "--json"], capture_output=True, check=True)
    return json.loads(ran.stdout)


def main():
    reenact, folder = sys.argv[1:3]
    os.chdir(folder)
    script = "dd if=/dev/zero of=file bs=64k count=32 conv=fsync 2>/dev/null; ls -l / | sort | wc -l"
    record = [reenact, "record", "--quiet", "-o", "k.rnt", "--kernel", "--", "sh", "-c", script]
    subprocess.run(record, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([reenact, "export", "k.rnt", "--to", "parquet", "-o", "out", "--quiet"], check=True)

    kernel = pyarrow.dataset.dataset("out/kernel").to_table().to_pylist()
    counts = collections.Counter(f"{row['system']}:{row['event']}" for row in kernel)
    wanted = {row["event"]: row["count"] for row in said(reenact, "events")["events"]}
    assert counts == wanted, (counts, wanted)
    assert all(isinstance(json.loads(row["fields"]), dict) for row in kernel)

    names = collections.defaultdict(lambda: "own_ns", {
        "call": "calls_ns", "fault": "faults_ns", "interrupted": "interrupted_ns",
        "runnable": "runnable_ns", "preempted": "runnable_ns", "disk": "disk_ns", "peer": "peer_ns",
        "lock": "lock_ns", "child": "child_ns", "asleep": "asleep_ns", "stopped": "stopped_ns",
        "unknown": "unknown_ns"})
    sums = collections.Counter()
    states = pyarrow.dataset.dataset("out/states").to_table().to_pylist()
    last = {}
    for row in states:
        tid = row["tid"]
        assert row["start_ns"] >= last.get(tid, 0) and row["end_ns"] > row["start_ns"], row
        last[tid] = row["end_ns"]
        sums[tid, names[row["state"]]] += row["end_ns"] - row["start_ns"]
    threads = said(reenact, "cpu")["cpu_threads"]
    assert threads
    for thread in threads:
        tid = thread["tid"]
        for name in set(names.values()) - {"own_ns"}:
            assert sums[tid, name] == thread[name], (tid, name, sums[tid, name], thread[name])
        own = thread["user_ns"] + thread["kernel_ns"]
        assert sums[tid, "own_ns"] == own, (tid, sums[tid, "own_ns"], own)
    print(len(kernel), "events,", len(states), "states")


main()
