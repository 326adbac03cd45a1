#!/usr/bin/env python3
"""Records the whole machine for a while, with stress-ng on it: the recorder's memory stays flat, the trace
is sound, what it lost is what its gaps say, and reading it takes no more memory than reading a short one.

Usage: stress.py REENACT FOLDER [SECONDS]. The default is an hour.
"""

import json
import os
import resource
import subprocess
import sys
import time

HOUR = 3600
# What stress-ng does: computes, makes processes, switches, faults, waits for timers and a disk.
STRESS = ["stress-ng", "--quiet", "--cpu", "1", "--cpu-load", "50", "--fork", "1", "--switch", "1",
          "--switch-freq", "20000", "--vm", "1", "--vm-bytes", "32M", "--timer", "1",
          "--timer-freq", "2000", "--hdd", "1", "--hdd-bytes", "16M", "--pipe", "1", "--sock", "1"]
# Flat: the greatest size in the last half is at most this much above that of the first quarter.
GROWTH_MAX = 16 << 10
# Memory of a reader, in KiB.
READER_MAX = 600 << 10


def size_kb(pid):
    with open(f"/proc/{pid}/status") as lines:
        for line in lines:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def main():
    reenact, folder = sys.argv[1:3]
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else HOUR
    os.chdir(folder)
    command = [reenact, "record", "-o", "stress.rnt", "--kernel", "--duration", f"{seconds}s"]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    stress = subprocess.Popen([*STRESS, "--timeout", f"{seconds + 5}s"])
    sizes = []
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end - 1 and recorder.poll() is None:
            time.sleep(min(1, seconds / 60))
            sizes.append(size_kb(recorder.pid))
        said = recorder.communicate(timeout=120)[1]
    finally:
        stress.terminate()
        stress.wait()
        if recorder.poll() is None:
            recorder.kill()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert recorder.returncode == 0, said
    print(said.strip())
    # It needs a moment to have all that it needs.
    first = max(sizes[len(sizes) // 10:len(sizes) // 4])
    last = max(sizes[len(sizes) // 2:])
    print(f"{seconds} s: the recorder's memory is {first} KiB in the first quarter, {last} in the last half,",
          f"greatest {max(sizes)}")
    assert last <= first + GROWTH_MAX, f"memory grew from {first} to {last} KiB: {sizes}"
    size = os.path.getsize("stress.rnt")

    def read(*words):
        """What a command says, and its memory and CPU time."""
        with open("said", "w+b") as out:
            child = subprocess.Popen([reenact, *words], stdout=out)
            _, status, usage = os.wait4(child.pid, 0)
            assert status == 0, f"{words}: {status}"
            out.seek(0)
            return json.load(out), usage

    info, _ = read("info", "stress.rnt", "--json")
    events, _ = read("stat", "events", "stress.rnt", "--json")
    cpu, reader = read("stat", "cpu", "stress.rnt", "--json")
    count, lost = events["event_count"], events["event_lost"]
    print(f"{count} events, {count / seconds:.0f} a second, {size} bytes, {size / count:.2f} for each; {lost} lost;",
          f"stat cpu {count / (reader.ru_utime + reader.ru_stime) / 1e6:.1f} million events a CPU second,",
          f"{reader.ru_maxrss} KiB")
    assert info["complete"] == (lost == 0), info["complete"]
    assert reader.ru_maxrss < READER_MAX, f"stat cpu took {reader.ru_maxrss} KiB"
    assert count > seconds * 1000, f"only {count} events"
    for thread in cpu["cpu_threads"]:
        parts = sum(thread[name + "_ns"] for name in
                    ("on_cpu runnable disk peer lock child asleep stopped unknown").split())
        assert thread["life_ns"] == parts, thread
    for of_cpu in cpu["cpus"]:
        parts = sum(of_cpu[name + "_ns"] for name in "user kernel irq softirq idle".split())
        print(f"CPU {of_cpu['cpu']}: {parts / 1e9:.1f} s, idle {of_cpu['idle_share']}")
        # What it did while events were lost is not known.
        assert parts < seconds * 1.02e9 + 1e9, of_cpu
        assert lost or parts > seconds * 0.98e9 - 1e9, of_cpu


main()
