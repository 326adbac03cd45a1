"""Holds an export against `show --json`, field by field: compare.py FILE.ds SHOWN.jsonl

Every call must be there once, with the values that `show` tells; so must the records of our own
types. What a field of the schema means is said here anew.
"""

import base64
import json
import sys

from read_dataseries import INDEX, LIBRARY, File

SNIA = "IOTTAFSL::Trace::Syscall::"
OTHER = "Reenact::Trace::Syscall::"
OWN = "Reenact::Trace::"

# Kernel's name to the schema's, where they differ.
NAMES = {"pread64": "pread", "pwrite64": "pwrite", "newfstatat": "fstatat", "exit_group": "exit"}

STAT = {
    f"stat_result_{name}": ("in", f"st_{name}")
    for name in "dev ino mode nlink uid gid rdev size blksize blocks".split()
} | {f"stat_result_{name}": ("time", f"st_{name}") for name in "atime mtime ctime".split()}
STATFS = {
    f"statfs_result_{name}": ("in", f"f_{name}")
    for name in "type bsize blocks bfree bavail files ffree namelen frsize flags".split()
}

# Field to the name of the argument in `show --json`; tuples say how to come by the value.
FIELDS = {
    "read": {"descriptor": "fd", "bytes_requested": "count", "data_read": ("data", "buf")},
    "write": {"descriptor": "fd", "bytes_requested": "count", "data_written": ("data", "buf")},
    "pread": {"descriptor": "fd", "bytes_requested": "count", "data_read": ("data", "buf"), "offset": "offset"},
    "pwrite": {"descriptor": "fd", "bytes_requested": "count", "data_written": ("data", "buf"), "offset": "offset"},
    "open": {"given_pathname": ("text", "pathname"), "open_value": "flags", "mode_value": "mode"},
    "openat": {"descriptor": "dirfd", "given_pathname": ("text", "pathname"), "open_value": "flags", "mode_value": "mode"},
    "close": {"descriptor": "fd"},
    "lseek": {"descriptor": "fd", "offset": "offset", "whence_value": "whence", "whence": "whence"},
    "mmap": {"start_address": "addr", "length": "length", "protection_value": "prot", "flags_value": "flags", "descriptor": "fd", "offset": "offset"},
    "munmap": {"start_address": "addr", "length": "length"},
    "access": {"given_pathname": ("text", "pathname"), "mode_value": "mode"},
    "faccessat": {"descriptor": "dirfd", "given_pathname": ("text", "pathname"), "mode_value": "mode"},
    "fstat": {"descriptor": "fd"} | STAT,
    "stat": {"given_pathname": ("text", "pathname")} | STAT,
    "lstat": {"given_pathname": ("text", "pathname")} | STAT,
    "fstatat": {"descriptor": "dirfd", "given_pathname": ("text", "pathname"), "flags_value": "flags"} | STAT,
    "statfs": {"given_pathname": ("text", "path")} | STATFS,
    "fstatfs": {"descriptor": "fd"} | STATFS,
    "fsync": {"descriptor": "fd"},
    "fdatasync": {"descriptor": "fd"},
    "ftruncate": {"descriptor": "fd", "truncate_length": "length"},
    "truncate": {"given_pathname": ("text", "path"), "truncate_length": "length"},
    "fallocate": {"descriptor": "fd", "mode_value": "mode", "allocate_offset": "offset", "allocate_len": "len"},
    "chdir": {"given_pathname": ("text", "path")},
    "fchdir": {"descriptor": "fd"},
    "mkdir": {"given_pathname": ("text", "pathname"), "mode_value": "mode"},
    "mkdirat": {"descriptor": "dirfd", "given_pathname": ("text", "pathname"), "mode_value": "mode"},
    "rmdir": {"given_pathname": ("text", "pathname")},
    "unlink": {"given_pathname": ("text", "pathname")},
    "unlinkat": {"descriptor": "dirfd", "given_pathname": ("text", "pathname"), "flag_value": "flags"},
    "rename": {"given_oldname": ("text", "oldpath"), "given_newname": ("text", "newpath")},
    "linkat": {"old_descriptor": "olddirfd", "given_oldpathname": ("text", "oldpath"), "new_descriptor": "newdirfd", "given_newpathname": ("text", "newpath"), "flag_value": "flags"},
    "symlinkat": {"target_pathname": ("text", "target"), "new_descriptor": "newdirfd", "given_pathname": ("text", "linkpath")},
    "readlink": {"given_pathname": ("text", "pathname"), "link_value": ("data", "buf"), "buffer_size": "bufsiz"},
    "chmod": {"given_pathname": ("text", "pathname"), "mode_value": "mode"},
    "fchmod": {"descriptor": "fd", "mode_value": "mode"},
    "fchmodat": {"descriptor": "dirfd", "given_pathname": ("text", "pathname"), "mode_value": "mode"},
    "chown": {"given_pathname": ("text", "pathname"), "new_owner": "owner", "new_group": "group"},
    "umask": {"mode_value": "mask"},
    "dup": {"descriptor": "oldfd"},
    "dup2": {"old_descriptor": "oldfd", "new_descriptor": "newfd"},
    "dup3": {"old_descriptor": "oldfd", "new_descriptor": "newfd", "flags": "flags"},
    "pipe": {"read_descriptor": ("item", "pipefd", 0), "write_descriptor": ("item", "pipefd", 1)},
    "socketpair": {"domain": "domain", "type": "type", "read_descriptor": ("item", "sv", 0), "write_descriptor": ("item", "sv", 1)},
    "clone": {"flag_value": "flags", "child_stack_address": "stack", "new_tls": "tls"},
    "exit": {"exit_status": "status"},
    "utimensat": {"descriptor": "dirfd", "given_pathname": ("text", "pathname"), "flag_value": "flags", "access_time": ("utime", 0), "mod_time": ("utime", 1)},
    "fsetxattr": {"descriptor": "fd", "xattr_name": ("text", "name"), "value_written": ("data", "value"), "value_size": "size"},
    "getxattr": {"given_pathname": ("text", "path"), "xattr_name": ("text", "name"), "value_read": ("data", "value"), "value_size": "size"},
    "flock": {"descriptor": "fd", "operation_value": "operation"},
    "sync_file_range": {"descriptor": "fd", "offset": "offset", "flags": "flags"},
}
# Bits, by the names of flags that `show` gives to an argument.
BITS = {
    ("openat", "flags"): {
        "flag_read_only": "O_RDONLY", "flag_write_only": "O_WRONLY", "flag_read_and_write": "O_RDWR",
        "flag_append": "O_APPEND", "flag_create": "O_CREAT", "flag_exclusive": "O_EXCL",
        "flag_truncate": "O_TRUNC", "flag_directory": "O_DIRECTORY", "flag_close_on_exec": "O_CLOEXEC",
        "flag_no_blocking_mode": "O_NONBLOCK", "flag_no_follow": "O_NOFOLLOW", "flag_direct": "O_DIRECT",
    },
    ("mmap", "prot"): {"protection_read": "PROT_READ", "protection_write": "PROT_WRITE", "protection_exec": "PROT_EXEC"},
    ("mmap", "flags"): {"flag_shared": "MAP_SHARED", "flag_private": "MAP_PRIVATE", "flag_fixed": "MAP_FIXED", "flag_anonymous": "MAP_ANONYMOUS", "flag_stack": "MAP_STACK"},
    ("access", "mode"): {"mode_read": "R_OK", "mode_write": "W_OK", "mode_execute": "X_OK"},
    ("unlinkat", "flags"): {"flag_remove_directory": "AT_REMOVEDIR"},
    ("clone", "flags"): {"flag_vm": "CLONE_VM", "flag_files": "CLONE_FILES", "flag_thread": "CLONE_THREAD", "flag_vfork": "CLONE_VFORK", "signal_child": "SIGCHLD"},
}
MODE = {
    "mode_R_user": 0o400, "mode_W_user": 0o200, "mode_X_user": 0o100, "mode_R_group": 0o40,
    "mode_W_group": 0o20, "mode_X_group": 0o10, "mode_R_others": 4, "mode_W_others": 2,
    "mode_X_others": 1, "mode_uid": 0o4000, "mode_gid": 0o2000, "mode_sticky_bit": 0o1000,
}
WITH_MODE = {"open", "openat", "mkdir", "mkdirat", "chmod", "fchmod", "fchmodat", "umask"}


class Different(Exception):
    pass


def ensure(condition, *what):
    if not condition:
        raise Different(" ".join(map(str, what)))


def number(value):
    if isinstance(value, dict):
        value = value.get("value")
    return int(value) if isinstance(value, str) else value


def tfrac(seconds, ns):
    return (number(seconds) << 32) + (number(ns) << 32) // 10**9


def stored(call, name):
    data = call["data"].get(name)
    if data is None:
        data = call["data"].get(name + ".out")
    if data is None or "base64" not in data:
        return None
    return base64.b64decode(data["base64"])


def struct_of(call):
    return next((value for value in call["args"].values() if isinstance(value, dict) and ("st_dev" in value or "f_type" in value)), None)


def expected(call, how):
    """What a field must hold; None: nothing."""
    if isinstance(how, str):
        return number(call["args"].get(how))
    kind, name, *rest = how
    if kind == "text":
        text = stored(call, name)
        return None if text is None else text + b"\0"
    if kind == "data":
        return stored(call, name)
    if kind == "item":
        value = call["args"].get(name)
        return value[rest[0]] if isinstance(value, list) else None
    if kind == "utime":
        times = call["args"].get("times")
        if not isinstance(times, list):
            return None
        ns = times[name]["tv_nsec"]
        ns = number(ns)
        return tfrac(times[name]["tv_sec"], ns) if ns is not None and 0 <= ns < 10**9 else None
    result = struct_of(call)
    if result is None:
        return None
    if kind == "time":
        return tfrac(result[name], result[name + "_nsec"])
    return number(result.get(name))


def equal(kind, found, wanted):
    if isinstance(found, int) and isinstance(wanted, int) and not isinstance(found, bool):
        bits = {"int32": 32, "byte": 8}.get(kind, 64)
        return (found - wanted) % (1 << bits) == 0
    return found == wanted


def common(record, call, epoch, result=True):
    returned = call["exit_ns"] is not None
    wanted = {
        "executing_pid": call["pid"],
        "executing_tid": call["tid"],
        "executing_ppid": call["ppid"],
        "executing_pgid": call["pgid"],
        "executing_sid": call["sid"],
        "executing_uid": call["uid"],
        "time_called": epoch + call["enter_ns"],
        "time_returned": epoch + call["exit_ns"] if returned and result else None,
        "return_value": call["ret"] if returned and result else None,
    }
    for field, value in wanted.items():
        ensure(record[field] == value, field, record[field], "is not", value, call)
    if returned and result:
        ensure((record["errno_number"] != 0) == (call["errno"] is not None), "errno", record, call)


def one(kind, name, record, call):
    fields = FIELDS.get(name, {})
    types = {field["name"]: field["type"] for field in kind.fields}
    for field, how in fields.items():
        wanted = expected(call, how)
        if wanted is None and not any(f["name"] == field and f.get("opt_nullable") == "yes" for f in kind.fields):
            continue
        ensure(equal(types[field], record[field], wanted), name, field, record[field], "is not", wanted, call)
    for (of, arg), bits in BITS.items():
        if of == name and isinstance(call["args"].get(arg), dict):
            names = call["args"][arg]["names"]
            for field, flag in bits.items():
                ensure(record[field] == (flag in names), name, field, record[field], names)
    if name in WITH_MODE:
        mode = number(call["args"].get("mode", call["args"].get("mask"))) or 0
        for field, bit in MODE.items():
            ensure(record[field] == bool(mode & bit), name, field, oct(mode))
    return len(fields)


def exec_of(records, call):
    ensure([r["continuation_number"] for r in records] == [*range(len(records) - 1), -1], records)
    ensure(records[0]["given_pathname"] == stored(call, "pathname") + b"\0", records[0], call)
    text = lambda value: value.encode(errors="surrogateescape") if isinstance(value, str) else base64.b64decode(value["base64"])
    strings = [text(s) + b"\0" for s in call["args"]["argv"]]
    found = [r["argument"] for r in records if r["argument"] is not None]
    ensure(found == strings, found, "are not", strings)
    variables = [r["environment"] for r in records if r["environment"] is not None]
    ensure(len(variables) == len(call["args"]["envp"]), "environment", len(variables))


def vector_of(name, records, call):
    field = "iov_data_read" if name in ("readv", "recvmsg") else "iov_data_written"
    ensure([r["iov_number"] for r in records] == [*range(-1, len(records) - 1)], records)
    held = b"".join(r[field] or b"" for r in records)
    arg = "iov" if name in ("readv", "writev") else "msg"
    ensure(held == (stored(call, arg) or b""), name, "data", len(held), call)
    ensure(records[0]["bytes_requested"] == sum(r["bytes_requested"] for r in records[1:]), records[0])


def main():
    file = File(sys.argv[1])
    calls, others = [], 0
    with open(sys.argv[2]) as shown:
        for line in shown:
            event = json.loads(line)
            if event["type"] == "call":
                calls.append(event)
            else:
                others += 1
    ensure(file.chain_matches, "the chained checksum")
    names = [name for name in file.types if name.startswith(SNIA)]
    ensure(len(names) == 103, len(names), "types")
    records = {}
    own = 0
    epoch = None
    for name, record in file.records:
        if name.startswith((SNIA, OTHER)):
            records.setdefault(record["unique_id"], (name, record))
        elif name == OWN + "Recording":
            epoch = record["epoch_ns"]
        own += name in (OWN + n for n in "Start Image End Signal Stall Gap State Exit".split())
    total = sum(name.startswith((SNIA, OTHER)) for name, _ in file.records)
    ensure(sorted(records) == [*range(total)], "the unique ids are not 0, 1, 2, ...")
    ensure(records[0][0] == SNIA + "umask", "the first record is of", records[0][0])
    ensure(own == others, own, "records of events;", others, "were shown")

    # A call of a thread is known by when it began.
    groups = {}
    for id in range(0 if calls and calls[0]["call"] == "umask" else 1, total):
        name, record = records[id]
        key = (record["executing_tid"], record["time_called"], name)
        groups.setdefault(key, []).append(record)
    fields = 0
    for call in calls:
        name = NAMES.get(call["call"], call["call"])
        snia = SNIA + name in file.types
        full = (SNIA if snia else OTHER) + name
        key = (call["tid"], epoch + call["enter_ns"], full)
        group = groups.get(key)
        ensure(group, "no record of", call)
        kind = file.types[full]
        if name == "execve":
            end = next(i for i, r in enumerate(group) if r["continuation_number"] == -1) + 1
            exec_of(group[:end], call)
        elif name in ("readv", "writev", "recvmsg", "sendmsg"):
            end = 1 + next((i for i, r in enumerate(group[1:]) if r["iov_number"] == -1), len(group) - 1)
            vector_of(name, group[:end], call)
            common(group[0], call, epoch)
        else:
            end = 1
            common(group[0], call, epoch)
            if snia:
                fields += one(kind, name, group[0], call)
            else:
                for arg, value in call["args"].items():
                    if arg in group[0] and isinstance(value, int) and isinstance(group[0][arg], int):
                        fields += 1
                        ensure(equal("int64", group[0][arg], value) or equal("int32", group[0][arg], value), name, arg, group[0][arg], value)
        del group[:end]
    left = [key for key, group in groups.items() if group]
    ensure(not left, "records without calls:", left[:3])
    ensure(fields > len(calls) / 2, "only", fields, "fields were compared")
    print(f"{len(calls)} calls, {total} records, {fields} fields")


if __name__ == "__main__":
    try:
        main()
    except Different as difference:
        sys.exit(f"{sys.argv[1]}: {difference}")
