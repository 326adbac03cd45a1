"""The programs that ultra.py measures: what they need, what is there before each run, their commands."""

import contextlib
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import time

PORT = 18081
LAST = str(min(1, (os.cpu_count() or 1) - 1))
# A client is no part of the memory that a server has.
HOME_GROUP = next(path for path in ["/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cgroup.procs"]
                  if os.path.exists(path) or path.count("/") == 4)
MODULES = "/usr/lib/apache2/modules"
HERE = os.path.dirname(os.path.abspath(__file__))
# No run takes longer, on the slowest machine that is worth measuring.
RUN_SECONDS_MAX = 1800
# What was started and has not been waited for: each is the leader of a group of its own.
RUNNING = set()


class Failed(Exception):
    """There is no figure, and why."""


def run(words, **more):
    more.setdefault("stdout", subprocess.DEVNULL)
    return subprocess.run(words, check=True, **more)


def start(words, **more):
    """Starts a program in a group of its own, so that it can be ended with all that it has started."""
    program = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, **more)
    RUNNING.add(program)
    return program


def end(program):
    """Ends a program and its group, asking first."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(10)
    RUNNING.discard(program)


def said_by(program, what):
    """Waits for a program; returns what it printed, and what it complained of."""
    try:
        out, errors = program.communicate(timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise Failed(f"{what} took more than {RUN_SECONDS_MAX} s") from None
    finally:
        end(program)
    return (out or b"").decode(), (errors or b"").decode()


class Work:
    """A program to measure: `prepare` before each run, `words` is the command, in `folder`."""

    # Programs that it needs.
    needs = ()
    # Why it cannot be executed again, if so.
    never_again = None
    # Under strace it is so much smaller, and its time multiplied.
    strace_share = 1

    def __init__(self, name, folder, scale):
        self.name, self.scale = name, scale
        # Each size has files of its own, so that what was measured can be gone on with.
        self.folder = os.path.join(folder, f"{name}-{scale:g}")

    def missing(self):
        """Returns what is not installed."""
        return [name for name in self.needs if not shutil.which(name) and not os.path.exists(name)]

    def for_strace(self):
        """Returns what is run under strace."""
        if self.strace_share == 1:
            return self
        return type(self)(self.name, os.path.dirname(self.folder), self.scale * self.strace_share)

    def make_once(self):
        """Makes what it needs, unless that was done before."""
        done = f"{self.folder}/made"
        if not os.path.exists(done):
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(self.folder)
            self.make()
            open(done, "w").close()

    def make(self):
        """Makes what it needs."""

    def prepare(self):
        """Before each run: the files are as in the beginning."""

    def during(self):
        """What happens while it runs, in this process; by default nothing."""

    def timed(self, before, root=""):
        """Runs it behind other words; returns the seconds that it took."""
        self.prepare()
        began = time.monotonic()
        program = start(before + ["taskset", "-c", "0"] + self.words(root), cwd=root + self.folder,
                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            self.during()
        except (OSError, AssertionError, ValueError) as error:
            end(program)
            told = program.stderr.read().decode()[-300:]
            raise Failed(f"{self.name}: its client: {error!r}; {told}") from None
        errors = said_by(program, self.name)[1]
        took = time.monotonic() - began
        if program.returncode != 0:
            raise Failed(f"{self.name}: exit code {program.returncode}: {errors[-300:]}")
        return took

    def actual(self):
        """The command of --actual."""
        return f'cd "$REENACT_ROOT"{shlex.quote(self.folder)} && exec taskset -c 0 {shlex.join(self.words(""))}'


class Getpid(Work):
    """A loop of the cheapest call."""

    needs = ("gcc",)
    strace_share = 1 / 100

    def make(self):
        with open(f"{self.folder}/loop.c", "w") as out:
            out.write("#include <stdlib.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
                      "int main(int n, char **v) { for (long i = atol(v[1]); i > 0; i--) syscall(SYS_getpid);"
                      " return 0; }\n")
        run(["gcc", "-O2", "-o", f"{self.folder}/loop", f"{self.folder}/loop.c"])

    def words(self, root):
        return [f"{self.folder}/loop", str(int(10_000_000 * self.scale))]


class Latex(Work):
    """A document of about 168 pages."""

    needs = ("pdflatex",)

    def make(self):
        sections = max(2, int(168 * self.scale))
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
            if name != "made" and not name.endswith(".tex"):
                os.unlink(f"{self.folder}/{name}")

    def words(self, root):
        return ["pdflatex", "-interaction=batchmode", "book.tex"]


class Httpd(Work):
    """Apache; one client asks for files in random order."""

    needs = ("apache2", f"{MODULES}/mod_mpm_prefork.so")

    def __init__(self, folder, scale, name="httpd", files=11_000, total=None, asked=25_000, twice=False,
                 mode="-X"):
        super().__init__(name, folder, scale)
        self.mode = mode
        self.files, self.total, self.asked, self.twice = files, total, asked, twice

    def make(self):
        self.files, rng = max(10, int(self.files * self.scale)), random.Random(2)
        self.asked = max(20, int(self.asked * self.scale))
        os.makedirs(f"{self.folder}/htdocs", exist_ok=True)
        for number in range(self.files):
            # Sizes of web pages: many small ones, some large.
            size = int(min(rng.lognormvariate(8.6, 1.2), 1 << 20))
            if self.total:
                size = int(self.total * self.scale / self.files)
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
        return ["apache2", self.mode, "-f", f"{self.folder}/httpd.conf",
                "-c", f"DocumentRoot {root}{self.folder}/htdocs"]

    def during(self):
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {int(LAST)})
        try:
            ask(f"{self.folder}/order")
        finally:
            os.sched_setaffinity(0, cpus)
        end_server(self.folder)

    def actual(self):
        # The client asks, and ends the server. It is nobody's child, so that its CPU time is not the server's.
        words = " ".join(shlex.quote(word) for word in self.words("")[:-1])
        client = f"exec taskset -c {LAST} python3 {HERE}/ultra.py ask {self.folder}"
        return (f"cd {self.folder} && rm -f httpd.pid asked || exit 1; "
                f'taskset -c 0 {words} "DocumentRoot $REENACT_ROOT{self.folder}/htdocs" & '
                f"(sh -c 'echo 0 > {HOME_GROUP}; {client}' &) ; wait $!; test -e asked")


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
    open(os.path.join(os.path.dirname(order), "asked"), "w").close()


def end_server(folder):
    """Tells the server to end, until it does: with -X it looks whether it has been told, and then waits."""
    with open(f"{folder}/httpd.pid") as file:
        pid = int(file.read())
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while open(f"/proc/{pid}/stat").read().rsplit(") ")[1][0] != "Z":
            os.kill(pid, signal.SIGTERM)
            time.sleep(0.05)


class Make(Work):
    """A hundred small files, each compiled by three or four processes."""

    needs = ("gcc", "make")

    def make(self):
        self.files = max(3, int(100 * self.scale))
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

    needs = ("sqlite3",)

    def make(self):
        rows = int(200_000 * self.scale)
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


class Rocksdb(Work):
    """RocksDB's benchmark: keys written in random order, read, and written again; half of each value can be
    compressed."""

    needs = ("db_bench",)
    never_again = "it has threads: see rerun.md"

    def prepare(self):
        shutil.rmtree(f"{self.folder}/db", ignore_errors=True)

    def words(self, root):
        keys = max(1000, int(1_000_000 * self.scale))
        return ["db_bench", "--db=db", f"--num={keys}", "--value_size=100", "--seed=1", "--threads=1",
                "--compression_type=none", f"--write_buffer_size={max(1 << 20, int((64 << 20) * self.scale))}",
                "--benchmarks=fillrandom,readrandom,overwrite", f"--reads={keys // 4}"]


def all_works(folder, scale):
    """Returns all of them by name."""
    works = [Getpid("getpid", folder, scale), Latex("latex", folder, scale), Httpd(folder, scale),
             Httpd(folder, scale, "httpd-twice", files=4_900, total=32 << 20, twice=True),
             Httpd(folder, scale, "httpd-usual", mode="-DFOREGROUND"),
             Make("make", folder, scale), Sqlite("sqlite", folder, scale), Rocksdb("rocksdb", folder, scale)]
    return {work.name: work for work in works}
