#!/usr/bin/env python3
"""What the Linux Trace Toolkit showed of a desktop and of a small server, shown again: what `ps` says of each
program, asked every 5 seconds, beside what events of the kernel say of it.

Usage, as root: ltt.py REENACT FOLDER desktop|server [SECONDS]. Chromium, pdftotext and gnuplot are needed for
the first; the usual times are 30 and 60 seconds.
"""

import collections
import http.server
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request

PORT = 18080
FILES = 120


def desktop(end):
    """Someone reads pages, prints them, looks at what was printed, and draws."""
    with open("page.html", "w") as page:
        page.write("<html><body><h1>A page</h1><table>\n")
        for row in range(1500):
            page.write(f"<tr><td>{row}<td>{row * 7919}<td><svg width=300 height=8>"
                       f"<rect width={row % 300} height=8 fill='rgb({row % 255},99,150)'/></svg></tr>\n")
        page.write("</table></body></html>\n")
    with open("plot.gp", "w") as plot:
        plot.write("set terminal svg\nset output 'plot.svg'\nset isosamples 100\nset samples 100\n"
                   "splot sin(x)*cos(y) with lines\n")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    while time.monotonic() < end:
        subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu",
                        f"--user-data-dir={os.getcwd()}/profile", "--print-to-pdf=page.pdf",
                        f"file://{os.getcwd()}/page.html"], **quiet)
        subprocess.run(["pdftotext", "page.pdf", "page.txt"], **quiet)
        subprocess.run(["gnuplot", "plot.gp"], **quiet)
        time.sleep(1)


def server(end):
    """Two clients fetch files from a server, which reads them from the disk."""
    os.mkdir("served")
    for number in range(FILES):
        with open(f"served/{number}", "wb") as out:
            out.write(os.urandom(1 << 20))
            out.flush()
            os.fsync(out.fileno())
            os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    served = os.fork()
    if served == 0:
        name("http-server")
        serve()
    time.sleep(1)
    clients = []
    for _ in range(2):
        clients.append(os.fork())
        if clients[-1] == 0:
            name("client")
            while time.monotonic() < end:
                number = random.randrange(FILES)
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/{number}").read()
                with open(f"served/{number}", "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                time.sleep(0.05)
            os._exit(0)
    for client in clients:
        os.waitpid(client, 0)
    os.kill(served, signal.SIGTERM)
    os.waitpid(served, 0)


def serve():
    """Serves files, until it is killed."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory="served")

        def log_message(self, *_):
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Quiet).serve_forever()


def name(text):
    """Names this process for `ps` and for the kernel."""
    with open("/proc/self/comm", "w") as out:
        out.write(text)


# Programs of the two; what else the machine does is one row.
OURS = ["chromium", "pdftotext", "gnuplot", "work", "http-server", "client", "reenact"]


def ask_ps():
    """The share of a CPU that each program has had since it began, as ps says it."""
    said = subprocess.run(["ps", "-eo", "comm=,pcpu="], capture_output=True, text=True).stdout
    found = collections.Counter()
    for line in said.splitlines():
        program, share = line.rsplit(None, 1)
        found[program.strip()] += float(share)
    return found


def main():
    reenact, folder, what = sys.argv[1:4]
    usual, work = {"desktop": (30, desktop), "server": (60, server)}[what]
    seconds = int(sys.argv[4]) if len(sys.argv) > 4 else usual
    os.chdir(folder)
    recorder = subprocess.Popen([reenact, "record", "-o", "ltt.rnt", "--kernel", "--duration", f"{seconds}s"])
    end = time.monotonic() + seconds
    worker = os.fork()
    if worker == 0:
        name("work")
        work(end)
        os._exit(0)
    asked = []
    while time.monotonic() + 5 < end:
        time.sleep(5)
        asked.append(ask_ps())
    assert recorder.wait() == 0
    os.waitpid(worker, 0)
    said = subprocess.run([reenact, "stat", "cpu", "ltt.rnt", "--json"], capture_output=True, check=True)
    stat = json.loads(said.stdout)
    programs = collections.defaultdict(collections.Counter)
    for process in stat["cpu_processes"]:
        of_name = programs[process["name"] if process["name"] in OURS else "all others"]
        for key, value in process.items():
            if key.endswith("_ns"):
                of_name[key] += value
    shares = collections.Counter()
    for program, share in sum(asked, collections.Counter()).items():
        shares[program if program in OURS else "all others"] += share / len(asked)
    whole = seconds * 1e9
    print("| program | ps, every 5 s | user | scheduled | waiting for a CPU | waiting for I/O |\n|---|---|---|---|---|---|")
    order = sorted(programs.items(), key=lambda item: -item[1]["on_cpu_ns"])
    for program, times in order:
        print(f"| {program} | {shares[program]:.1f} % |", " | ".join(
            f"{100 * times[key] / whole:.2f} %" for key in ("user_ns", "on_cpu_ns", "runnable_ns", "disk_ns")), "|")
    for cpu in stat["cpus"]:
        of_all = sum(cpu[key + "_ns"] for key in "user kernel irq softirq idle".split())
        print(f"CPU {cpu['cpu']}:", ", ".join(
            f"{key} {100 * cpu[key + '_ns'] / of_all:.1f} %" for key in "user kernel irq softirq idle".split()))
    print(f"recorder: {100 * stat['recorder_ns'] / whole:.2f} % of a CPU;",
          f"{os.path.getsize('ltt.rnt') / 1e6:.1f} MB")


main()
