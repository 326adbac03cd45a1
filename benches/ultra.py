#!/usr/bin/env python3
"""What ULTra (USENIX 1998) measured, measured here: what recording costs, how exact replays and re-executions
are, and how exact predictions for other memory, disks and file systems.

Usage, as root: ultra.py REENACT FOLDER PART... [--repeat N] [--scale X]

PART is `costs` (table 1), `same` (table 2), `remote` (table 3), `memory` (figures 1 and 2), `systems` (space and
time by file system), or `all`. Tables are printed in Markdown; all figures are added to FOLDER/ultra.jsonl.
FOLDER is made and must not be in memory. --scale 0.05 makes everything smaller, to try the script. gcc, make,
pdflatex, sqlite3, apache2 (mpm_prefork), strace, taskset, mkfs.xfs and mkfs.btrfs are needed for what
uses them. Programs run on CPU 0, clients on CPU 1.
"""

import argparse
import contextlib
import json
import os
import random
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 18081
CPUS = os.cpu_count() or 1
LAST = str(min(1, CPUS - 1))
REMOTE = "latency=500us,read=110M,write=110M"
# A client is no part of the memory that a server has.
HOME_GROUP = next(path for path in ["/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cgroup.procs"]
                  if os.path.exists(path) or path.count("/") == 4)
MODULES = "/usr/lib/apache2/modules"


def run(words, **more):
    more.setdefault("stdout", subprocess.DEVNULL)
    return subprocess.run(words, check=True, **more)


class Work:
    """A program to measure: `prepare` before each run, `words` is the command, in `folder`."""

    def __init__(self, name, folder):
        self.name, self.folder = name, os.path.join(folder, name)
        os.makedirs(self.folder, exist_ok=True)

    def make(self):
        """Makes what it needs, once."""

    def prepare(self):
        """Before each run: the files are as in the beginning."""

    def during(self):
        """What happens while it runs, in this process; by default nothing."""

    def timed(self, before, root=""):
        """Runs it behind other words; returns the seconds that it took."""
        self.prepare()
        began = time.monotonic()
        program = subprocess.Popen(before + ["taskset", "-c", "0"] + self.words(root), cwd=root + self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        self.during()
        errors = program.communicate()[1]
        took = time.monotonic() - began
        if program.returncode != 0:
            sys.exit(f"{self.name}: {program.returncode}: {errors.decode()[-2000:]}")
        return took

    def actual(self):
        """The command of --actual."""
        return f'cd "$REENACT_ROOT"{shlex.quote(self.folder)} && exec taskset -c 0 {shlex.join(self.words(""))}'


class Getpid(Work):
    """A loop of the cheapest call."""

    def make(self):
        self.calls = int(10_000_000 * SCALE)
        with open(f"{self.folder}/loop.c", "w") as out:
            out.write("#include <stdlib.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
                      "int main(int n, char **v) { for (long i = atol(v[1]); i > 0; i--) syscall(SYS_getpid);"
                      " return 0; }\n")
        run(["gcc", "-O2", "-o", f"{self.folder}/loop", f"{self.folder}/loop.c"])

    def words(self, root):
        return [f"{self.folder}/loop", str(self.calls)]


class Latex(Work):
    """A document of about 168 pages."""

    def make(self):
        sections = max(2, int(168 * SCALE))
        rng = random.Random(1)
        with open(f"{self.folder}/book.tex", "w") as out:
            out.write("\\documentclass{article}\\begin{document}\\tableofcontents\n")
            for number in range(sections):
                out.write(f"\\newpage\\section{{Section {number}}}\n")
                for _ in range(5):
                    words = ("".join(rng.choices("abcdefghilmnoprstu", k=rng.randint(2, 9)))
                             for _ in range(90))
                    out.write(" ".join(words) + f". $x_{{{number}}} = \\sum_i i^2$.\n\n")
            out.write("\\end{document}\n")

    def prepare(self):
        for name in os.listdir(self.folder):
            if not name.endswith(".tex"):
                os.unlink(f"{self.folder}/{name}")

    def words(self, root):
        return ["pdflatex", "-interaction=batchmode", "book.tex"]


class Httpd(Work):
    """Apache with one process; one client asks for files in random order."""

    def __init__(self, folder, name="httpd", files=11_000, total=None, asked=25_000, twice=False):
        super().__init__(name, folder)
        self.files, self.total, self.asked, self.twice = files, total, asked, twice

    def make(self):
        self.files, rng = max(10, int(self.files * SCALE)), random.Random(2)
        self.asked = max(20, int(self.asked * SCALE))
        os.makedirs(f"{self.folder}/htdocs", exist_ok=True)
        for number in range(self.files):
            # Sizes of web pages: many small ones, some large.
            size = int(min(rng.lognormvariate(8.6, 1.2), 1 << 20))
            if self.total:
                size = int(self.total * SCALE / self.files)
            path = f"{self.folder}/htdocs/{number % 100}"
            os.makedirs(path, exist_ok=True)
            with open(f"{path}/{number}", "wb") as out:
                out.write(rng.randbytes(size))
        self.order = [rng.randrange(self.files) for _ in range(self.asked)]
        if self.twice:
            self.order = list(range(self.files)) * 2
            rng.shuffle(self.order)
        with open(f"{self.folder}/order", "w") as out:
            out.write(" ".join(map(str, self.order)))
        with open(f"{self.folder}/httpd.conf", "w") as out:
            out.write(f"""ServerRoot {self.folder}
ServerName localhost
LoadModule mpm_prefork_module {MODULES}/mod_mpm_prefork.so
LoadModule authz_core_module {MODULES}/mod_authz_core.so
Listen 127.0.0.1:{PORT}
PidFile {self.folder}/httpd.pid
DefaultRuntimeDir {self.folder}
ErrorLog {self.folder}/error.log
User www-data
Group www-data
KeepAlive On
MaxKeepAliveRequests 0
EnableMMAP Off
EnableSendfile Off
<Directory />
Require all granted
</Directory>
""")

    def prepare(self):
        for name in ["httpd.pid", "error.log"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.folder}/{name}")

    def words(self, root):
        return ["apache2", "-X", "-f", f"{self.folder}/httpd.conf",
                "-c", f"DocumentRoot {root}{self.folder}/htdocs"]

    def during(self):
        ask(f"{self.folder}/order")
        end_server(self.folder)

    def actual(self):
        # The client of this script asks, and ends the server.
        words = " ".join(shlex.quote(word) for word in self.words("")[:-1])
        return (f'rm -f {self.folder}/httpd.pid; taskset -c 0 {words} "DocumentRoot $REENACT_ROOT{self.folder}/htdocs" & '
                f"(echo 0 > {HOME_GROUP}; exec taskset -c {LAST} python3 {os.path.abspath(__file__)} ask {self.folder}) "
                "|| exit 1; wait")


def ask(order):
    """Asks for all files in an order, over one connection."""
    with open(order) as file:
        numbers = [int(word) for word in file.read().split()]
    for _ in range(1000):
        with contextlib.suppress(ConnectionRefusedError):
            server = socket.create_connection(("127.0.0.1", PORT))
            break
        time.sleep(0.02)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = server.makefile("rb")
    for number in numbers:
        server.sendall(b"GET /%d/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (number % 100, number))
        status, length = stream.readline(), 0
        assert b" 200 " in status, (number, status)
        while (line := stream.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        left = length
        while left:
            left -= len(stream.read(min(left, 1 << 20)))
    server.close()


def end_server(folder):
    with open(f"{folder}/httpd.pid") as file:
        os.kill(int(file.read()), signal.SIGTERM)


class Make(Work):
    """A hundred small files, each compiled by three or four processes."""

    def make(self):
        self.files = max(3, int(100 * SCALE))
        os.makedirs(f"{self.folder}/src", exist_ok=True)
        names = [f"f{number}" for number in range(self.files)]
        for number, name in enumerate(names):
            with open(f"{self.folder}/src/{name}.c", "w") as out:
                out.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                          f"int {name}(int x) {{ printf(\"%d\\n\", x + {number}); return x; }}\n")
        with open(f"{self.folder}/src/main.c", "w") as out:
            out.write("".join(f"int {name}(int);\n" for name in names) + "int main(void) { return "
                      + "+".join(f"{name}(0)" for name in names) + "; }\n")
        with open(f"{self.folder}/Makefile", "w") as out:
            objects = " ".join(f"src/{name}.o" for name in names + ["main"])
            out.write(f"all: {objects}\n\tgcc -o all {objects}\n%.o: %.c\n\tgcc -c -o $@ $<\n")

    def prepare(self):
        run(["sh", "-c", "rm -f all src/*.o"], cwd=self.folder)

    def words(self, root):
        return ["make", "-s"]


class Sqlite(Work):
    """A database that maps its file: rows written in transactions, then read by key."""

    def make(self):
        rows = int(200_000 * SCALE)
        with open(f"{self.folder}/work.sql", "w") as out:
            out.write("PRAGMA mmap_size=268435456;\nCREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);\n")
            for part in range(20):
                first = part * rows // 20
                out.write(f"INSERT INTO t WITH RECURSIVE c(x) AS (VALUES({first}) UNION ALL SELECT x+1 FROM c "
                          f"WHERE x<{first + rows // 20 - 1}) SELECT x, printf('%0200d', x*7919) FROM c;\n")
            out.write(f"SELECT sum(length(v)) FROM t WHERE k%3=0;\nUPDATE t SET v=upper(v) WHERE k%10=0;\n"
                      f"SELECT count(*) FROM t;\n")

    def prepare(self):
        for name in ["db", "db-journal"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.folder}/{name}")

    def words(self, root):
        return ["sqlite3", "db", f".read {self.folder}/work.sql"]


def recorded(work, more=()):
    """Records it; returns the trace."""
    trace = f"{work.folder}{'-rerunnable' if more else ''}.rnt"
    work.timed([REENACT, "record", "--quiet", "--force", *more, "-o", trace, "--"])
    return trace


def median(take):
    return statistics.median(take() for _ in range(REPEAT))


def note(**figures):
    with open(f"{FOLDER}/ultra.jsonl", "a") as out:
        out.write(json.dumps({**figures, "load": os.getloadavg()[0]}) + "\n")


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def share(value, of):
    return f"{value:.2f} ({value / of * 100:.0f}%)" if of else f"{value:.2f}"


def costs(works):
    """Table 1: seconds, and per cent of untraced."""
    rows = []
    for work in works:
        ways = {
            "untraced": [],
            "recorded": [REENACT, "record", "--quiet", "--force", "-o", f"{work.folder}.rnt", "--"],
            "rerunnable": [REENACT, "record", "--quiet", "--force", "--rerunnable", "-o",
                           f"{work.folder}-rerunnable.rnt", "--"],
            "strace": ["strace", "-f", "-s", "1048576", "-o", f"{work.folder}.strace"],
        }
        took = {way: [] for way in ways}
        for _ in range(REPEAT):
            for way, before in ways.items():
                took[way].append(work.timed(before))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{work.folder}.strace")
        note(part="costs", work=work.name, **took)
        middle = {way: statistics.median(times) for way, times in took.items()}
        rows.append([work.name] + [share(middle[way], middle["untraced"]) for way in ways])
    print("Table 1: seconds, and per cent of untraced\n")
    table(["program", "untraced", "recorded", "recorded for re-execution", "strace"], rows)


def json_of(words):
    said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [line for line in said.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"failed": said.stderr.strip()[-300:]}


def same(works):
    """Table 2: replayed with think time, and executed again, on the configuration of the recording."""
    rows = []
    for work in works:
        untraced = median(lambda: work.timed([]))
        work.prepare()
        trace, again = recorded(work), recorded(work, ["--rerunnable"])
        think, rerun, why = [], [], ""
        for number in range(REPEAT):
            root = f"{FOLDER}/root"
            run(["rm", "-rf", root])
            said = json_of([REENACT, "replay", "--json", "--pace", "think", "--root", root, trace])
            if "calls_s" in said:
                think.append(said["calls_s"])
            run(["rm", "-rf", root])
            said = json_of([REENACT, "rerun", "--json", "--files", "real", "--root", root, again])
            if said.get("diverged") is False and not said.get("failed"):
                rerun.append(said["elapsed_ns"] / 1e9)
            else:
                why = (said.get("divergence") or {}).get("what") or said.get("failed") or "?"
            run(["rm", "-rf", root])
        note(part="same", work=work.name, untraced=untraced, think=think, rerun=rerun, why=why)
        middle = [statistics.median(times) if times else None for times in (think, rerun)]
        told = [share(value, untraced) if value is not None else "-" for value in middle]
        rows.append([work.name, f"{untraced:.2f}", *told, why])
    print("Table 2: the same configuration: seconds, and per cent of untraced\n")
    table(["program", "untraced", "replayed with think time", "executed again", "why not"], rows)


def predicted(work, trace, more, part, method="both"):
    """Rows of a prediction with actuals."""
    said = json_of([REENACT, "predict", "--json", "--method", method, "--repeat", str(REPEAT), "--images", FOLDER,
                    *more, "--actual", work.actual(), trace])
    rows = []
    for one in said.get("predictions", []):
        note(part=part, work=work.name, **one)
        actual = one["actual"] or {}
        size = one["memory_bytes"]
        seconds = lambda of, key="seconds": f"{of[key]:.2f}" if of.get(key) is not None else "-"
        rows.append([work.name, one["on"], f"{size >> 20} MiB" if size else "-", one["set_by"] or "-",
                     one["method"], seconds(one), seconds(actual),
                     f"{one['error'] * 100:+.1f}%" if one["error"] is not None else "-",
                     f"{seconds(one, 'system_s')} / {seconds(actual, 'system_s')}",
                     f"{one['allocated_bytes'] / 1e6:.1f} / {actual.get('allocated_bytes', 0) / 1e6:.1f}"
                     if one["allocated_bytes"] is not None else "-",
                     one["failed"] or one["incomplete"] or ""])
    if not rows:
        rows.append([work.name] + ["-"] * 9 + [said.get("failed", "?")])
    return rows


HEAD = ["program", "on", "memory", "set by", "by", "predicted s", "actual s", "error",
        "system s, predicted / actual", "MB on disk, likewise", "remarks"]


def remote(works):
    """Table 3: files on a volume that is reached over a network."""
    rows = []
    for work in works:
        trace = recorded(work, ["--rerunnable"])
        work.prepare()
        rows += predicted(work, trace, ["--on", "ext4", "--limit", REMOTE], "remote")
    print(f"Table 3: on a remote volume ({REMOTE})\n")
    table(HEAD, rows)


def memory(works, sizes):
    """Figures 1 and 2: one trace, taken with the least memory, predicts for six sizes."""
    rows = []
    for work in works:
        with limited(sizes[0]):
            trace = recorded(work, ["--rerunnable"])
        work.prepare()
        more = ["--on", "ext4", "--cache", "cold", "--memory", ",".join(f"{size}M" for size in sizes)]
        rows += predicted(work, trace, more, "memory")
    print("Figures 1 and 2: by memory\n")
    table(HEAD, rows)


@contextlib.contextmanager
def limited(mebibytes):
    """What is started within has so much memory, in a control group of the first version if there is one."""
    group = f"/sys/fs/cgroup/memory/reenact-ultra-{os.getpid()}"
    limit, home = "memory.limit_in_bytes", None
    if not os.path.isdir("/sys/fs/cgroup/memory"):
        group, limit = group.replace("/memory/", "/"), "memory.max"
    os.mkdir(group)
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.strip().split(":", 2)
            if "memory" in controllers.split(",") or (limit == "memory.max" and controllers == ""):
                home = os.path.dirname(group) + path
    with open(f"{group}/{limit}", "w") as out:
        # The recorder's rings and its own memory are no part of the program's.
        out.write(str((mebibytes + 256) << 20))
    try:
        with open(f"{group}/cgroup.procs", "w") as out:
            out.write("0")
        yield
    finally:
        with open(f"{home}/cgroup.procs", "w") as out:
            out.write("0")
        for _ in range(100):
            with contextlib.suppress(OSError):
                os.rmdir(group)
                break
            time.sleep(0.05)


def systems(works):
    """Time, system time and space by file system."""
    rows = []
    for work in works:
        trace = recorded(work)
        work.prepare()
        more = [word for name in ("ext4", "xfs", "btrfs", "btrfs+zlib") for word in ("--on", name)]
        rows += predicted(work, trace, more, "systems", "replay")
    print("By file system\n")
    table(HEAD, rows)


def main():
    global REENACT, FOLDER, REPEAT, SCALE
    if sys.argv[1:2] == ["ask"]:
        # Whatever came of it, the server does not stay.
        try:
            return ask(f"{sys.argv[2]}/order")
        finally:
            end_server(sys.argv[2])
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("reenact")
    args.add_argument("folder")
    args.add_argument("part", nargs="+", choices=["costs", "same", "remote", "memory", "systems", "all"])
    args.add_argument("--repeat", type=int, default=5)
    args.add_argument("--scale", type=float, default=1.0)
    args.add_argument("--only", help="programs, with commas between them")
    args = args.parse_args()
    REENACT, FOLDER = os.path.abspath(args.reenact), os.path.abspath(args.folder)
    REPEAT, SCALE = args.repeat, args.scale
    os.makedirs(FOLDER, exist_ok=True)
    os.environ["TMPDIR"] = FOLDER
    parts = ["costs", "same", "remote", "memory", "systems"] if "all" in args.part else args.part
    works = [Getpid("getpid", FOLDER), Latex("latex", FOLDER), Httpd(FOLDER), Make("make", FOLDER),
             Sqlite("sqlite", FOLDER)]
    twice = Httpd(FOLDER, "httpd-twice", files=4_900, total=32 << 20, twice=True)
    chosen = set((args.only or "").split(",")) - {""}
    pick = lambda all: [work for work in all if not chosen or work.name in chosen]
    needed = {"costs": works, "same": works, "remote": [works[4]], "memory": [works[2], twice],
              "systems": [works[4]]}
    made = set()
    for part in parts:
        for work in pick(needed[part]):
            if work.name not in made:
                work.make()
                made.add(work.name)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"The load is {load:.1f}: these figures are of a busy machine.\n")
    sizes = [16, 24, 32, 64, 128, 256]
    for part in parts:
        chosen_works = pick(needed[part])
        if chosen_works and part == "memory":
            memory(chosen_works, sizes)
        elif chosen_works:
            {"costs": costs, "same": same, "remote": remote, "systems": systems}[part](chosen_works)


main()
