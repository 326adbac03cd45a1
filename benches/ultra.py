#!/usr/bin/env python3
"""What ULTra (USENIX 1998) measured, measured here: what recording costs, how exact replays and re-executions
are, and how exact predictions for other memory, disks and file systems.

Usage, as root: ultra.py REENACT FOLDER PART... [--repeat N] [--scale X] [--only NAMES] [--seconds N] [--awake]
       [--into FILE]

PART is `costs` (table 1), `same` (table 2), `remote` (table 3), `memory` (figures 1 and 2), `systems` (space and
time by file system), or `all`. FOLDER is made and must not be in memory. What was measured is kept in
FOLDER/ultra.jsonl: the same command goes on where it was ended, by --seconds or otherwise. Tables are printed in
Markdown; --into writes them into a page that has places for them. --scale 0.05 makes everything smaller.
--awake keeps idle processors from halting meanwhile: to wake one takes long, in a virtual machine above all.
gcc, make, pdflatex, sqlite3, apache2 (mpm_prefork), db_bench, strace, taskset, mkfs.xfs and mkfs.btrfs are needed
for what uses them. Programs run on CPU 0, clients on CPU 1.
"""

import argparse
import contextlib
import glob
import json
import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

from ultra_tables import Kept, tables, write_into
from ultra_works import RUNNING, Failed, all_works, ask, end, end_server, said_by, start

REMOTE = "latency=500us,read=110M,write=110M"
# Programs of each part.
PARTS = {
    "costs": ["getpid", "latex", "httpd", "httpd-usual", "make", "sqlite"],
    "same": ["getpid", "latex", "httpd", "httpd-usual", "make", "sqlite"],
    "remote": ["make", "sqlite"],
    "memory": ["httpd", "httpd-twice"],
    "systems": ["rocksdb", "sqlite"],
}
# MiB of memory at full scale; of smaller files less is cached.
SIZES = [16, 24, 32, 64, 128, 256]
SYSTEMS = ["ext4", "xfs", "btrfs", "btrfs+zlib"]
# What takes longer under strace is run there once.
STRACE_SECONDS = 60
# While this is open and says 0, idle processors wait in a loop.
LATENCY = "/dev/cpu_dma_latency"
# Where the programs run.
BOUND = ["taskset", "-c", "0"]
# Steps of a loop that only counts.
LOOP = 2_000_000


def sizes(scale):
    return sorted({SIZES[0] + int((size - SIZES[0]) * scale) for size in SIZES})


class Bench:
    """Measures: `reenact` is the program, `folder` has all files."""

    def __init__(self, reenact, folder, repeat, scale, is_awake):
        self.reenact, self.folder, self.repeat, self.scale = reenact, folder, repeat, scale
        # How long a client took is in a recording: one that was made as processors halt says nothing of others.
        self.kind = "-awake" if is_awake else ""
        self.root = f"{folder}/root"
        # How long the same loop took, before each round.
        self.loops = []

    def rounds(self):
        for number in range(self.repeat):
            self.look()
            yield number

    def look(self):
        """Measures how fast the programs' CPU is by itself."""
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {0})
        began = time.monotonic()
        for _ in range(LOOP):
            pass
        self.loops.append((time.monotonic() - began) * 1000)
        os.sched_setaffinity(0, cpus)

    def recorded(self, work, *more, again=False, before=()):
        """Records a program, or takes what an earlier run of this script recorded; returns the trace."""
        trace = f"{work.folder}{''.join(more)}{'-limited' if before else ''}{self.kind}.rnt"
        if again or not os.path.exists(trace):
            record = [self.reenact, "record", "--quiet", "--force", *more, "-o", f"{trace}.part", "--"]
            work.timed([*before, *record])
            os.replace(f"{trace}.part", trace)
        work.prepare()
        return trace

    def json_of(self, words, before=()):
        """Returns the object that a command of ours prints."""
        program = start([*before, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, errors = said_by(program, words[1])
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {"failed": errors.strip()[-300:]}

    def costs(self, work, _):
        """Seconds without and with recording, in turn."""
        record = [self.reenact, "record", "--quiet", "--force"]
        ways = {
            "untraced": [],
            "recorded": [*record, "-o", f"{self.folder}/cost.rnt", "--"],
            "rerunnable": [*record, "--rerunnable", "-o", f"{self.folder}/cost.rnt", "--"],
            "strace": ["strace", "-f", "-s", "1048576", "-o", f"{self.folder}/cost.strace"],
        }
        took = {way: [] for way in ways}
        few = work.for_strace()
        few.make_once()
        # Its files may not be in memory.
        work.timed([])
        for _ in self.rounds():
            for way, before in ways.items():
                one, share = (few, work.strace_share) if way == "strace" else (work, 1)
                if way != "strace" or max(took[way], default=0) * share < STRACE_SECONDS:
                    took[way].append(one.timed(before) / share)
        work.prepare()
        return took

    def same(self, work, _):
        """Seconds of the program, of replays with think time and of re-executions, in turn, each of a recording of
        its own: how long a client takes is in them."""
        untraced, think, rerun, why = [], [], [], work.never_again or ""
        # The server waits for its client.
        waits = ["--stimuli", "recorded"]
        # Its files may not be in memory.
        work.timed([])
        for _ in self.rounds():
            untraced.append(work.timed([]))
            trace = self.recorded(work, again=True)
            said = self.json_of([self.reenact, "replay", "--json", "--pace", "think", *waits, *self.fresh(), trace])
            if said.get("calls_s") is None or said.get("stopped"):
                raise Failed(f"the replay: {said.get('stopped') or said.get('failed')}")
            think.append(said["calls_s"])
            if work.never_again:
                continue
            trace = self.recorded(work, "--rerunnable", again=True)
            said = self.json_of([self.reenact, "rerun", "--json", "--files", "real", *waits, *self.fresh(), trace])
            if said.get("diverged") is False and not said.get("failed"):
                rerun.append(said["elapsed_ns"] / 1e9)
            else:
                why = (said.get("divergence") or {}).get("what") or said.get("failed") or "?"
        shutil.rmtree(self.root, ignore_errors=True)
        return {"untraced": untraced, "think": think, "rerun": rerun, "why": why}

    def fresh(self):
        shutil.rmtree(self.root, ignore_errors=True)
        return ["--root", self.root]

    def predicted(self, work, trace, *more, before=()):
        """Predictions with actual times, in turn."""
        method = "replay" if work.never_again else "both"
        # The command of --actual has only its own files there.
        words = [self.reenact, "predict", "--json", "--method", method, "--repeat", str(self.repeat),
                 "--images", self.folder, "--path", work.folder, *more, "--actual", work.actual(), trace]
        said = self.json_of(words, before)
        if not said.get("predictions"):
            raise Failed(said.get("failed", "?"))
        return {"predictions": said["predictions"]}

    def remote(self, work, _):
        """On a volume that is reached over a network."""
        trace = self.recorded(work, "--rerunnable")
        return self.predicted(work, trace, "--on", "ext4", "--limit", REMOTE, before=BOUND)

    def memory(self, work, size):
        """With so much memory, from a trace that was taken with the least, and as long waits for the client."""
        # The recorder's rings and its own memory are no part of the program's.
        with limited(sizes(self.scale)[0] + 256) as before:
            trace = self.recorded(work, "--rerunnable", before=before)
        return self.predicted(work, trace, "--on", "ext4", "--cache", "cold", "--memory", f"{size}M",
                              "--stimuli", "recorded", before=BOUND)

    def systems(self, work, system):
        """On a fresh file system."""
        return self.predicted(work, self.recorded(work, "--rerunnable") if not work.never_again
                              else self.recorded(work), "--on", system)

    def pieces(self, part):
        """What is measured by itself, and kept."""
        return {"memory": sizes(self.scale), "systems": SYSTEMS}.get(part, [None])

    def clean_up(self):
        """Removes what a run that was ended has left: files and control groups. Mounts and loop devices go with
        the processes that made them."""
        for program in list(RUNNING):
            end(program)
        for left in [self.root, *glob.glob(f"{glob.escape(self.folder)}/reenact-*"),
                     *glob.glob(f"{glob.escape(self.folder)}/*.part"),
                     *glob.glob(f"{glob.escape(self.folder)}/cost.*")]:
            shutil.rmtree(left, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(left)
        for group in glob.glob("/sys/fs/cgroup/reenact-*-*") + glob.glob("/sys/fs/cgroup/*/reenact-*-*"):
            pid = next((word for word in os.path.basename(group).split("-") if word.isdigit()), None)
            if pid and (int(pid) == os.getpid() or not os.path.exists(f"/proc/{pid}")):
                with contextlib.suppress(OSError):
                    os.rmdir(group)


@contextlib.contextmanager
def limited(mebibytes):
    """Gives words before which a command has so much memory, in a control group of the first version if there is
    one."""
    group = f"/sys/fs/cgroup/memory/reenact-ultra-{os.getpid()}"
    limit = "memory.limit_in_bytes"
    if not os.path.isdir("/sys/fs/cgroup/memory"):
        group, limit = group.replace("/memory/", "/"), "memory.max"
    os.mkdir(group)
    try:
        with open(f"{group}/{limit}", "w") as out:
            out.write(str(mebibytes << 20))
        yield ["sh", "-c", f'echo 0 > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                os.rmdir(group)
                break
            time.sleep(0.05)


def measure(bench, kept, parts, works, seconds):
    """Measures what was not measured yet; returns what there was no time for."""
    began, left = time.monotonic(), []
    for part in parts:
        for work in works:
            if work.name not in PARTS[part]:
                continue
            for piece in bench.pieces(part):
                key = {"part": part, "work": work.name, "piece": piece}
                name = " ".join(str(word) for word in key.values() if word is not None)
                if kept.has(key):
                    continue
                if time.monotonic() - began > seconds:
                    left.append(name)
                    continue
                print(f"{time.monotonic() - began:6.0f} s: {name}", file=sys.stderr, flush=True)
                try:
                    if missing := work.missing():
                        raise Failed(f"not installed: {', '.join(missing)}")
                    work.make_once()
                    bench.loops.clear()
                    figures = getattr(bench, part)(work, piece)
                    bench.look()
                    kept.put(key, figures, bench.loops)
                except (Failed, OSError, subprocess.CalledProcessError, json.JSONDecodeError) as error:
                    kept.put(key, {"failed": str(error)}, [])
                    print(f"         {error}", file=sys.stderr, flush=True)
    return left


@contextlib.contextmanager
def awake(is_wanted):
    """Keeps the processors from halting, if that is wanted."""
    if not is_wanted:
        yield
        return
    try:
        latency = open(LATENCY, "wb", buffering=0)
        latency.write(struct.pack("i", 0))
    except OSError as error:
        sys.exit(f"ultra.py: --awake: {error}; without it, idle processors halt")
    with latency:
        yield


def interrupted(number, _):
    # What is under way is removed on the way out.
    sys.exit(128 + number)


def main():
    if sys.argv[1:2] == ["ask"]:
        # Whatever came of it, the server does not stay.
        try:
            return ask(f"{sys.argv[2]}/order")
        finally:
            end_server(sys.argv[2])
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("reenact")
    args.add_argument("folder")
    args.add_argument("part", nargs="+", choices=[*PARTS, "all"])
    args.add_argument("--repeat", type=int, default=5)
    args.add_argument("--scale", type=float, default=1.0)
    args.add_argument("--only", help="programs, with commas between them")
    args.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing after so many")
    args.add_argument("--awake", action="store_true", help="idle processors do not halt")
    args.add_argument("--into", metavar="FILE", help="write the tables into this page, between its marks")
    args = args.parse_args()
    folder = os.path.abspath(args.folder)
    os.makedirs(folder, exist_ok=True)
    # Servers run as other users.
    os.chmod(folder, 0o755)
    os.environ["TMPDIR"] = folder
    parts = list(PARTS) if "all" in args.part else args.part
    works = all_works(folder, args.scale)
    chosen = args.only.split(",") if args.only else list(works)
    if unknown := set(chosen) - set(works):
        sys.exit(f"ultra.py: no such program: {', '.join(sorted(unknown))}; there are {', '.join(works)}")
    bench = Bench(os.path.abspath(args.reenact), folder, args.repeat, args.scale, args.awake)
    kept = Kept(f"{folder}/ultra.jsonl", args.repeat, args.scale, args.awake)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, interrupted)
    bench.clean_up()
    try:
        with awake(args.awake):
            left = measure(bench, kept, parts, [works[name] for name in chosen], args.seconds)
    finally:
        bench.clean_up()
    told = tables(kept)
    for part in parts:
        print(told[part])
    if args.into:
        write_into(args.into, {part + " awake" * args.awake: told[part] for part in parts})
    if left:
        print(f"not measured yet: {', '.join(left)}; the same command goes on", file=sys.stderr)


if __name__ == "__main__":
    main()
