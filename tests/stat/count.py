"""Holds `reenact stat --json` against an independent count over `reenact show --json`.

    python3 count.py REENACT TRACE

Prints what differs, and exits with 1 if anything does. Nothing is shared with the program: the
names of the calls that move data stand here a second time.
"""

import collections
import gc
import json
import math
import subprocess
import sys

READS = {"read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "mq_timedreceive"}
WRITES = {"write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg"}
BOTH = {"sendfile", "splice", "tee", "vmsplice", "copy_file_range"}
MOVES = READS | WRITES | BOTH | {"process_vm_readv", "process_vm_writev"}
OPENS = {"open", "openat", "openat2", "creat"}
SYNCS = {"fsync", "fdatasync"}
RENAMES = {"rename", "renameat", "renameat2"}
NAMES = RENAMES | {"link", "linkat"}
# Operations of io_uring and of Linux AIO.
READS |= {"aio:PREAD", "aio:PREADV"}
READS |= {"io_uring:" + name for name in ["READ", "READV", "READ_FIXED", "READV_FIXED"]}
READS |= {"io_uring:" + name for name in ["READ_MULTISHOT", "RECV", "RECVMSG"]}
WRITES |= {"aio:PWRITE", "aio:PWRITEV"}
WRITES |= {"io_uring:" + name for name in ["WRITE", "WRITEV", "WRITE_FIXED", "WRITEV_FIXED"]}
WRITES |= {"io_uring:" + name for name in ["SEND", "SENDMSG", "SEND_ZC", "SENDMSG_ZC"]}
BOTH |= {"io_uring:SPLICE", "io_uring:TEE"}
MOVES |= READS | WRITES | BOTH
OPENS |= {"io_uring:OPENAT", "io_uring:OPENAT2"}
SYNCS |= {"aio:FSYNC", "aio:FDSYNC", "io_uring:FSYNC"}
RENAMES |= {"io_uring:RENAMEAT"}
NAMES |= {"io_uring:RENAMEAT", "io_uring:LINKAT"}
# Calls after which a file has other paths, or a path leads elsewhere.
MOUNTS = {"mount", "move_mount", "pivot_root", "chroot", "umount2"}
# Calls that make another descriptor for an open file, or a task that shares it.
SHARES = {"dup", "dup2", "dup3", "fcntl", "fork", "vfork", "clone", "clone3", "pidfd_getfd", "recvmsg"}
SHARES |= BOTH | {"openat2"}
PAGE = 4096

differences = []


def check(what, found, expected):
    if found != expected:
        differences.append(f"{what}: stat says {found}, counted {expected}")


def lines(arguments):
    """The objects that a command prints, one per line."""
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as command:
        for line in command.stdout:
            yield json.loads(line)
    if command.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: exit {command.returncode}")


def number(value):
    """Numbers beyond 2^53 are strings."""
    return int(value) if isinstance(value, str) else value


def moved(call):
    if call["call"] in MOVES and call["ret"] is not None and call["errno"] is None:
        return number(call["ret"])
    return None


def in_call(call):
    return None if call["exit_ns"] is None else call["exit_ns"] - call["enter_ns"]


def duration(call):
    """An operation takes from its submission to where it was found completed."""
    if call["exit_ns"] is None or "submitted_ns" not in call:
        return in_call(call)
    return call["enter_ns"] - call["submitted_ns"]


def check_quantiles(what, row, values, suffix):
    """The reported value lies in the bucket of the exact one, which is a 16th of an octave wide."""
    values = sorted(values)
    if not values:
        for key in ["p50", "p90", "p99", "p999"]:
            check(f"{what}: {key}", row[key + suffix], None)
        return
    for key, share in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)]:
        rank = max(1, math.ceil(len(values) * share))
        exact = values[rank - 1]
        width = max(1, 2 ** (exact.bit_length() - 1) // 16) if exact else 1
        found = number(row[key + suffix])
        if not exact <= found < exact + width:
            differences.append(f"{what}: {key} is {found}, exactly {exact}")


def check_calls(stat, calls):
    by_name = collections.defaultdict(list)
    for call in calls:
        by_name[call["call"]].append(call)
    check("calls: count", stat["count"], len(calls))
    check("calls: kinds", stat["kinds"], len(by_name))
    check("calls: names", {row["call"] for row in stat["calls"]}, set(by_name))
    for row in stat["calls"]:
        name, of = row["call"], by_name[row["call"]]
        times = [t for t in map(duration, of) if t is not None]
        errors = collections.Counter(call["errno"] for call in of if call["errno"])
        check(f"{name}: count", row["count"], len(of))
        check(f"{name}: errors", row["errors"], sum(errors.values()))
        check(f"{name}: errnos", row["errnos"], dict(errors))
        check(f"{name}: unfinished", row["unfinished"], len(of) - len(times))
        check(f"{name}: total_ns", number(row["total_ns"]), sum(times) if times else None)
        check(f"{name}: max_ns", row["max_ns"], max(times, default=None))
        check(f"{name}: mean_ns", row["mean_ns"], sum(times) // len(times) if times else None)
        check(f"{name}: bytes", row["bytes"], sum(moved(call) or 0 for call in of))
        check_quantiles(name, row, times, "_ns")
    writes = [moved(call) for call in calls if call["call"] in WRITES | BOTH - {"vmsplice"}]
    writes = collections.Counter(size for size in writes if size is not None)
    if not any(call["call"] == "vmsplice" for call in calls):
        for row in stat["write_sizes"]:
            check(f"writes of {row['size']}", row["count"], writes[row["size"]])
        odd = sum(count for size, count in writes.items() if size % 2)
        check("odd writes", stat.get("odd_writes", 0), odd)


def check_spread(stat, calls, view):
    by_name = collections.defaultdict(list)
    for call in calls:
        value = moved(call) if view == "sizes" else duration(call)
        if value is not None:
            by_name[call["call"]].append(value)
    check(f"{view}: names", {row["call"] for row in stat[view]}, set(by_name))
    total, suffix = ("bytes", "") if view == "sizes" else ("total_ns", "_ns")
    for row in stat[view]:
        name, values = row["call"], by_name[row["call"]]
        check(f"{view} {name}: count", row["count"], len(values))
        check(f"{view} {name}: sum", number(row[total]), sum(values))
        check(f"{view} {name}: max", number(row["max" + suffix]), max(values, default=0))
        check_quantiles(f"{view} {name}", row, values, suffix)
    for picture in stat.get("histograms", []):
        values = by_name[picture["of"]]
        for bar in picture["rows"]:
            low, high = number(bar["from" + suffix]), number(bar["to" + suffix])
            inside = sum(low <= value <= high for value in values)
            check(f"{view} {picture['of']} {low}..{high}", bar["count"], inside)
        check(f"{view} {picture['of']}", sum(bar["count"] for bar in picture["rows"]), len(values))


def check_time(stat, calls):
    steps = collections.defaultdict(collections.Counter)
    for call in calls:
        step, size = steps[call["enter_ns"] // stat["interval_ns"]], moved(call) or 0
        step["calls"] += 1
        step["errors"] += call["errno"] is not None
        step["read_bytes"] += size if call["call"] in MOVES - WRITES - {"process_vm_writev"} else 0
        step["write_bytes"] += size if call["call"] in MOVES - READS - {"process_vm_readv"} else 0
    for row in stat["steps"]:
        step = steps.pop(row["start_ns"] // stat["interval_ns"], collections.Counter())
        for key in ["calls", "errors", "read_bytes", "write_bytes"]:
            check(f"time {row['start_ns']}: {key}", row[key], step[key])
    check("time: steps left out", len(steps), 0)
    busy = sum(row["in_flight"] for row in stat["steps"]) * stat["interval_ns"]
    exact = sum(duration(call) or 0 for call in calls)
    if abs(busy - exact) > 1e-6 * stat["interval_ns"] * len(stat["steps"]):
        differences.append(f"time in flight: {busy}, exactly {exact}")


def check_tasks(stat, calls, events, view):
    """Ids may be used again, and a thread gets another one by an exec: processes are summed."""
    found, exact = collections.Counter(), collections.Counter()
    for row in stat[view]:
        for key in ["calls", "errors", "bytes", "in_calls_ns", "stall_ns"]:
            found[row["pid"], key] += number(row[key])
    for call in calls:
        pid = call["pid"]
        exact[pid, "calls"] += 1
        exact[pid, "errors"] += call["errno"] is not None
        exact[pid, "bytes"] += moved(call) or 0
        exact[pid, "in_calls_ns"] += in_call(call) or 0
    for event in events:
        if event["type"] == "stall":
            exact[event["pid"], "stall_ns"] += number(event["ns"])
    for key in set(found) | set(exact):
        check(f"{view} {key}", found[key], exact[key])
    starts = [event for event in events if event["type"] == "start"]
    many = len({event["process"] for event in starts}) if view == "processes" else len(starts)
    check(f"{view}: rows", len(stat[view]), many)


def text(path):
    """A path as a key: one that is not UTF-8 is an object."""
    return path if isinstance(path, str) else json.dumps(path)


def by_path(calls):
    files = collections.defaultdict(collections.Counter)
    for call in calls:
        paths, size, name = call["paths"], moved(call), call["call"]
        if size is not None and name in READS | WRITES and paths:
            file = files[text(next(iter(paths.values())))]
            way = "read" if name in READS else "write"
            file[way + "s"] += 1
            file[way + "_bytes"] += size
        if name in OPENS and call["errno"] is None and "ret" in paths:
            files[text(paths["ret"])]["opens"] += 1
        if name in SYNCS and call["errno"] is None and call["ret"] == 0 and "fd" in paths:
            files[text(paths["fd"])]["syncs"] += 1
    return {path: file for path, file in files.items() if path.startswith(("/", '{"base64'))}


class Groups:
    """Paths that may lead to one file sooner or later: `stat` counts a file under its last path alone."""

    def __init__(self, calls):
        self.above = {}
        directories = []
        inodes = {}
        for call in calls:
            if call["errno"] is not None:
                continue
            named = [text(call["paths"][name]) for name in ("oldpath", "newpath") if name in call["paths"]]
            if call["call"] in NAMES and len(named) == 2:
                if named[0].startswith("/proc/"):
                    # A file without a name gets one.
                    named.append(named[1].rpartition("/")[0] + "/# (deleted)")
                self.join(named)
                directories.append(named)
            for argument, file in call.get("files", {}).items():
                if argument in call["paths"]:
                    inode = json.dumps([file["dev"], file["ino"]])
                    self.join([inode, text(call["paths"][argument])])
        paths = [text(path) for call in calls for path in call["paths"].values()]
        if any(call["call"] in MOUNTS for call in calls):
            self.join(paths)
        # What is below a directory moves with it, from one to the next.
        below = set(paths)
        for _ in range(3):
            for taken in directories:
                for old in taken:
                    for path in [path for path in below if path.startswith(old + "/")]:
                        moved = [new + path[len(old) :] for new in taken]
                        self.join(moved)
                        below.update(moved)

    def of(self, path):
        while path in self.above:
            path = self.above[path]
        return path

    def join(self, paths):
        first = self.of(paths[0]) if paths else None
        for path in paths:
            if self.of(path) != first:
                self.above[self.of(path)] = first

    def sums(self, files):
        sums = collections.defaultdict(collections.Counter)
        for path, counts in files:
            sums[self.of(path)].update(counts)
        return sums


def check_files(stat, calls, groups):
    copies = any(call["call"] in BOTH for call in calls)
    keys = ["opens", "reads", "read_bytes", "writes", "write_bytes", "syncs"]
    rows = ((text(row["path"]), {key: row[key] for key in keys}) for row in stat["files"] + stat["streams"])
    rows = groups.sums(rows)
    for path, file in groups.sums(by_path(calls).items()).items():
        for key in keys:
            if not (copies and key in {"reads", "read_bytes", "writes", "write_bytes"}):
                check(f"{path}: {key}", rows[path][key], file[key])
    for table in ["directories", "mounts"]:
        for key in keys:
            of_files = sum(row[key] for row in stat["files"])
            check(f"{table}: {key}", sum(row[key] for row in stat[table]), of_files)


def check_durability(stat, calls, groups):
    exact = groups.sums(by_path(calls).items())
    copies = any(call["call"] in BOTH for call in calls)
    rows = ((text(row["path"]), {key: row[key] for key in ["syncs", "written_bytes"]}) for row in stat["files"])
    for path, row in groups.sums(rows).items():
        check(f"durability {path}: syncs", row["syncs"], exact[path]["syncs"])
        if not copies and row["written_bytes"]:
            check(f"durability {path}: written", row["written_bytes"], exact[path]["write_bytes"])
    renames = sum(call["call"] in RENAMES and call["errno"] is None for call in calls)
    if not any("paths" in call and len(call["paths"]) < 2 for call in calls if call["call"] in RENAMES):
        check("renames", stat["renames"] <= renames, True)


def flag(call, name):
    flags = call["args"].get("flags")
    return isinstance(flags, dict) and name in flags["names"]


def check_cache(stat, calls):
    """Follows positions in a simple way, which is enough where no open file is shared."""
    if len({call["tid"] for call in calls}) != 1 or any(c["call"] in SHARES for c in calls):
        return
    # A name that leads into /proc for a while is another file's then: paths alone do not tell which.
    if any(c["call"] in ("symlink", "symlinkat") and c["args"].get("target") == "/proc/version" for c in calls):
        return
    position, pages, order = {}, 0, []
    stored = {}
    for call in calls:
        name, fd = call["call"], call["args"].get("fd")
        if name in OPENS and call["errno"] is None:
            if flag(call, "O_APPEND"):
                return
            position[call["ret"]] = 0
            mode = call.get("files", {}).get("ret", call.get("files", {}).get("pathname", {}))
            stored[call["ret"]] = mode.get("mode", 0o100000) & 0o170000 == 0o100000
        elif name == "lseek" and call["errno"] is None:
            position[fd] = number(call["ret"])
        elif name in READS | WRITES and moved(call):
            path = call["paths"].get("fd", "")
            special = path.startswith(("/dev/", "/proc/", "/sys/")) if isinstance(path, str) else False
            if fd not in position or special or not stored[fd]:
                if isinstance(path, str) and path.startswith("/") and not special:
                    return
                continue
            offset = number(call["args"].get("offset", -1))
            size = moved(call)
            if offset == -1 or offset == 2**64 - 1:
                offset = position[fd]
                position[fd] += size
            touched = range(offset // PAGE, (offset + size - 1) // PAGE + 1)
            pages += len(touched)
            order += [(path, page) for page in touched]
    check("cache: page accesses", stat["page_accesses"], pages)
    if stat["sampling"] == 1:
        check("cache: distinct", stat["distinct_bytes"], len(set(order)) * PAGE)
        check_misses(stat, order)


def check_misses(stat, order):
    """Misses of a least-recently-used cache of each size, by running one."""
    for row in stat["miss_ratio"]:
        size, cache, misses = row["cache_bytes"] // PAGE, collections.OrderedDict(), 0
        # Distances above 16 pages are rounded to a 16th; below that all is exact.
        if size > 16:
            continue
        for page in order:
            misses += page not in cache
            cache[page] = True
            cache.move_to_end(page)
            if len(cache) > size:
                cache.popitem(last=False)
        exact = misses / len(order)
        if abs(row["miss_share"] - exact) > 1e-5:
            differences.append(f"cache of {size}: misses {row['miss_share']}, exactly {exact}")


def main():
    # Nothing here refers to itself, and looking for that again and again takes a fifth of the time.
    gc.disable()
    reenact, trace = sys.argv[1:]
    events = list(lines([reenact, "show", "--json", "--data", "none", trace]))
    calls = [event for event in events if event["type"] == "call"]

    def stat(view):
        return next(lines([reenact, "stat", view, trace, "--json"]))

    check_calls(stat("calls"), calls)
    check_spread(stat("sizes"), calls, "sizes")
    check_spread(stat("latency"), calls, "latency")
    check_time(stat("time"), calls)
    check_tasks(stat("processes"), calls, events, "processes")
    check_tasks(stat("threads"), calls, events, "threads")
    groups = Groups(calls)
    check_files(stat("files"), calls, groups)
    check_durability(stat("durability"), calls, groups)
    check_cache(stat("cache"), calls)
    for difference in differences:
        print(difference)
    sys.exit(1 if differences else 0)


main()
