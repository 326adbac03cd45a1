"""Holds the tables of `reenact export --to parquet` against `reenact show --json`.

    python3 check.py OUT RUN SHOWN ENGINE...

SHOWN is the output of `show --json`. All rows, as pyarrow reads them, are compared with its objects;
all engines (duckdb, pyarrow, pandas, polars, spark) must count, sum and join the same. Prints what
differs, and exits with 1 if anything does. Nothing is shared with the program: the names of the
calls that move data stand here a second time.
"""

import base64
import collections
import json
import os
import sys

READS = {"read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "mq_timedreceive"}
WRITES = {"write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg"}
OFFSETS = {"pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2"}
VECTORS = {"iov", "local_iov", "payload_iov", "msg"}
BOTH = {"sendfile", "splice", "tee", "vmsplice", "copy_file_range"}
MOVES = READS | WRITES | BOTH | {"process_vm_readv", "process_vm_writev"}
HEAD = ["seq", "pid", "enter", "duration_ns", "ret", "errno"]

differences = []


def check(what, found, expected):
    if found != expected:
        differences.append(f"{what}: the table says {found!r}, show says {expected!r}")


def number(value):
    """A number of show, as 64 signed bits hold it."""
    value = int(value)
    return value - (1 << 64) if value >= 1 << 63 else value


def text(value):
    """Text of show; what is no UTF-8 as the tables have it."""
    if isinstance(value, dict) and "base64" in value:
        return base64.b64decode(value["base64"]).decode("utf-8", "backslashreplace")
    return value


def names(value):
    """What stands beside a number that has names."""
    left = "|".join(value["names"])
    return left or None


def same(found, shown):
    """Whether a value of a table is what show says."""
    if isinstance(shown, dict) and "fault" in shown or isinstance(shown, dict) and "damaged" in shown:
        return found is None
    if isinstance(shown, dict) and "cut" in shown and "text" in shown:
        shown = shown["text"]
    if isinstance(shown, dict) and "base64" in shown:
        raw = base64.b64decode(shown["base64"])
        return found == raw or found == text(shown)
    if isinstance(shown, dict) and "value" in shown and not isinstance(found, dict):
        return found == number(shown["value"])
    if isinstance(found, bytes):
        return isinstance(shown, str) and found == shown.encode()
    if isinstance(shown, dict):
        if not isinstance(found, dict):
            return False
        fields = [key for key in shown if key != "cut"]
        return all(key in found and same(found[key], shown[key]) for key in fields) and all(
            found[key] is None or key in shown or key.endswith("_text") for key in found
        )
    if isinstance(shown, list):
        if not isinstance(found, list):
            # One status or descriptor where there may be several.
            return len(shown) == 1 and same(found, shown[0])
        return len(found) == len(shown) and all(map(same, found, shown))
    if isinstance(found, (list, dict)):
        return False
    if isinstance(found, int) and isinstance(shown, (int, str)):
        return found == number(shown)
    # A pointer that leads nowhere.
    if found is None:
        return shown is None or isinstance(shown, (int, str))
    return found == shown


def check_argument(where, row, columns, name, shown):
    column = "arg_" + name if name in HEAD else name
    if column not in columns:
        differences.append(f"{where}: no column for {name}")
        return
    if isinstance(shown, dict) and "before" in shown and "after" in shown:
        if column + "_out" in columns:
            ok = same(row[column], shown["before"]) and same(row[column + "_out"], shown["after"])
        else:
            ok = isinstance(row[column], str) and same(json.loads(row[column]), shown)
    elif column + "_out" in columns:
        ok = same(row[column], shown) or same(row[column + "_out"], shown)
    elif isinstance(row[column], str):
        # Text, or JSON where calls of one kind differ.
        ok = same(row[column], shown) or row[column] == text(shown) or is_json(row[column], shown)
    else:
        ok = same(row[column], shown)
    if not ok:
        differences.append(f"{where}: {name}: the table says {row[column]!r}, show says {shown!r}")
    beside = column + "_text"
    if beside in columns and isinstance(shown, dict) and "names" in shown:
        # What has no name stands behind the names in hexadecimal.
        said = row[beside] or ""
        expected = names(shown) or ""
        if not (said == expected or said.startswith((expected + "|0x", "0x"))):
            differences.append(f"{where}: {beside} says {said!r}, show says {expected!r}")


def is_json(found, shown):
    try:
        return json.loads(found) == shown
    except ValueError:
        return False


class Engine:
    """One way to read tables; each gives rows as dictionaries, and answers three questions."""

    def __init__(self, name, out, run):
        self.name, self.out, self.run = name, out, run
        if name == "spark":
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
            builder = builder.config("spark.sql.session.timeZone", "UTC")
            builder = builder.config("spark.sql.shuffle.partitions", "2")
            self.spark = builder.getOrCreate()

    def frame(self, table):
        """The rows of a table of this run in a form of the engine's own."""
        folder = os.path.join(self.out, table)
        if self.name == "duckdb":
            import duckdb

            files = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
            return duckdb.sql(f"select * from {files} where run::varchar = '{self.run}'")
        if self.name == "pyarrow":
            import pyarrow.dataset

            data = pyarrow.dataset.dataset(folder, partitioning="hive")
            table = data.to_table()
            keep = [str(value) == self.run for value in table["run"].to_pylist()]
            return table.filter(keep)
        if self.name == "pandas":
            import pandas

            frame = pandas.read_parquet(folder)
            return frame[frame["run"].astype(str) == self.run]
        if self.name == "polars":
            import polars

            frame = polars.read_parquet(f"{folder}/**/*.parquet", hive_partitioning=True)
            return frame.filter(polars.col("run").cast(polars.String) == self.run)
        frame = self.spark.read.parquet(folder)
        return frame.where(frame["run"].cast("string") == self.run)

    def columns(self, table):
        frame = self.frame(table)
        columns = frame.column_names if self.name == "pyarrow" else frame.columns
        return [column for column in columns if column != "run"]

    def rows(self, table):
        """All rows, as Python's own values."""
        import pyarrow.dataset

        folder = os.path.join(self.out, table, f"run={self.run}")
        return pyarrow.dataset.dataset(folder).to_table().to_pylist()

    def count(self, table):
        """How many rows there are; every column of all of them is read."""
        frame = self.frame(table)
        if self.name == "duckdb":
            return len(frame.fetchall())
        if self.name == "spark":
            return len(frame.collect())
        return frame.num_rows if self.name == "pyarrow" else len(frame)

    def sum(self, table, column):
        frame = self.frame(table)
        if self.name == "duckdb":
            return int(frame.sum(f'"{column}"').fetchall()[0][0] or 0)
        if self.name == "pyarrow":
            import pyarrow.compute

            return pyarrow.compute.sum(frame[column]).as_py() or 0
        if self.name == "spark":
            return frame.agg({column: "sum"}).first()[0] or 0
        return int(frame[column].sum() or 0)

    def joined(self):
        """Rows of calls that find their data, and bytes of that data."""
        calls, data = self.frame("calls"), self.frame("data")
        if self.name == "duckdb":
            import duckdb

            question = "select count(*), sum(d.length) from calls c join data d on c.data_hash = d.hash"
            found = duckdb.sql(question).fetchall()[0]
            return int(found[0]), int(found[1])
        if self.name == "spark":
            both = calls.join(data, calls.data_hash == data.hash)
            found = both.agg({"hash": "count", "length": "sum"}).first().asDict()
            return found["count(hash)"], found["sum(length)"]
        if self.name == "pyarrow":
            calls = calls.select(["seq", "data_hash"])
            data = data.select(["hash", "length"])
            both = calls.join(data, "data_hash", right_keys="hash", join_type="inner")
            return both.num_rows, sum(both["length"].to_pylist())
        if self.name == "pandas":
            both = calls[calls["data_hash"].notna()].merge(data, left_on="data_hash", right_on="hash")
        else:
            both = calls.join(data, left_on="data_hash", right_on="hash")
        return len(both), int(both["length"].sum())


class Shown:
    """What show says."""

    def __init__(self, path):
        self.calls, self.others = [], []
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                value = json.loads(line)
                (self.calls if value["type"] == "call" else self.others).append(value)

    def moved(self, call):
        if call["call"] in MOVES and call["ret"] is not None and call["errno"] is None:
            return number(call["ret"])
        return None

    def carried(self, call):
        """The data that a call carried first."""
        if call["call"] in MOVES:
            for name in ("buf", "iov", "msg"):
                if name in call["data"]:
                    return call["data"][name]
        return None


def check_calls(engine, shown):
    rows = {row["seq"]: row for row in engine.rows("calls")}
    check("rows of calls", len(rows), len(shown.calls))
    at_end = 0
    for call in shown.calls:
        seq = call["seq"]
        row = rows.get(seq)
        if row is None:
            differences.append(f"calls: {seq} is missing")
            continue
        where = f"calls {seq} {call['call']}"
        for column, expected in [
            ("pid", call["pid"]),
            ("tid", call["tid"]),
            ("call", call["call"]),
            ("enter_ns", call["enter_ns"]),
            ("ret", None if call["ret"] is None else number(call["ret"])),
            ("errno", call["errno"]),
            ("site", number(call["site"])),
            ("user_ns", call.get("user_ns")),
            ("bytes", shown.moved(call)),
        ]:
            check(f"{where}: {column}", row[column], expected)
        ended = call["exit_ns"]
        lasted = None if ended is None else ended - call["enter_ns"]
        check(f"{where}: duration_ns", row["duration_ns"], lasted)
        check(f"{where}: exit", row["exit"] is None, ended is None)
        data = shown.carried(call)
        if data:
            check(f"{where}: data_hash", row["data_hash"], data["hash"])
            check(f"{where}: data_length", row["data_length"], number(data["len"]))
        # The directory alone is not what a call works on.
        paths = {name: text(path) for name, path in call["paths"].items()}
        if row["path"] is not None or any("dirfd" not in name for name in paths):
            check(f"{where}: path", row["path"] in paths.values(), True)
        if call["call"] in OFFSETS and shown.moved(call) and call["args"]["offset"] != -1:
            check(f"{where}: offset", row["offset"], call["args"]["offset"])
        # Positions that no call names: one file is written from its beginning.
        if call["call"] == "write" and (row["path"] or "").endswith("/sequential"):
            at_end = 77 if row["bytes"] == len("after a seek") else at_end
            check(f"{where}: offset", row["offset"], at_end)
            at_end += row["bytes"]


def check_own(engine, shown):
    by_call = collections.defaultdict(list)
    for call in shown.calls:
        name = "unknown" if call["call"].startswith("syscall_") else call["call"]
        by_call[name].append(call)
    tables = os.listdir(os.path.join(engine.out, "call"))
    here = {name for name in tables if os.path.isdir(f"{engine.out}/call/{name}/run={engine.run}")}
    check("tables of calls", sorted(here), sorted(by_call))
    for name in sorted(here & set(by_call)):
        rows = {row["seq"]: row for row in engine.rows(f"call/{name}")}
        check(f"rows of call/{name}", len(rows), len(by_call[name]))
        for call in by_call[name]:
            row = rows.get(call["seq"])
            if row is None:
                differences.append(f"call/{name}: {call['seq']} is missing")
                continue
            where = f"call/{name} {call['seq']}"
            check(f"{where}: ret", row["ret"], None if call["ret"] is None else number(call["ret"]))
            check(f"{where}: errno", row["errno"], call["errno"])
            for argument, value in call["args"].items():
                check_argument(where, row, row.keys(), argument, value)
            for argument, path in call["paths"].items():
                if argument != "ret":
                    found = row.get(argument + "_path", row.get("arg_" + argument + "_path"))
                    check(f"{where}: {argument}_path", found, text(path))
            for argument, data in call["data"].items():
                if f"{argument}_hash" not in row:
                    continue
                if not is_data(call, argument):
                    check(f"{where}: {argument}_hash", row[f"{argument}_hash"], None)
                    check(f"{where}: {argument}_length", row[f"{argument}_length"], None)
                    continue
                data = call["data"].get(argument + ".content", data)
                check(f"{where}: {argument}_hash", row[f"{argument}_hash"], data["hash"])
                length = number(data["len"])
                check(f"{where}: {argument}_length", row[f"{argument}_length"], length)


def is_data(call, argument):
    """Whether the memory of an argument is data, or leads to some. Of data show gives the address;
    what it takes apart (most requests of ioctl, options of sockets, ...) is none, except vectors and
    messages: their bytes have the argument's own name."""
    if argument in VECTORS:
        return True
    shown = call["args"].get(argument)
    if isinstance(shown, dict) and "before" in shown:
        shown = shown["before"]
    return argument + ".content" in call["data"] or not isinstance(shown, (dict, list))


def check_data(engine, shown, content):
    expected = {}
    for call in shown.calls:
        for name, data in call["data"].items():
            if data["hash"]:
                raw = base64.b64decode(data["base64"]) if "base64" in data else None
                expected[data["hash"]] = (data["len"], None if data["cut"] else raw)
    rows = engine.rows("data")
    check("distinct hashes", len({row["hash"] for row in rows}), len(rows))
    for row in rows:
        if row["hash"] not in expected:
            differences.append(f"data: {row['hash']} is in no call")
            continue
        length, raw = expected[row["hash"]]
        check(f"data {row['hash']}: length", row["length"], number(length))
        check(f"data {row['hash']}: content", row["content"] == (raw if content else None), True)


def check_others(engine, shown):
    starts = {o["process"]: o for o in shown.others if o["type"] == "start" and o["how"] != "thread"}
    ends = {o["process"]: o for o in shown.others if o["type"] == "exit" and o["scope"] == "process"}
    rows = engine.rows("processes")
    check("processes", sorted(row["process"] for row in rows), sorted(starts))
    for row in rows:
        where = f"process {row['process']}"
        check(f"{where}: start_ns", row["start_ns"], starts[row["process"]]["time_ns"])
        end = ends.get(row["process"])
        check(f"{where}: end_ns", row["end_ns"], end and end["time_ns"])
        for name in ["pgid", "sid", "uid", "euid", "gid", "egid"]:
            if end:
                check(f"{where}: {name}", row[name], end[name])
        parent = starts[row["process"]]["ppid"]
        check(f"{where}: ppid", row["ppid"], row["ppid"] if parent is None else parent)
        status = end and end["status"]
        if status:
            check(f"{where}: exit_code", row["exit_code"], status.get("exited"))
            check(f"{where}: signal", row["signal_text"], status.get("killed"))
    programs = {row["exe"].rsplit("/", 1)[-1] for row in rows if row["exe"]}
    executed = {o["argv"][0].rsplit("/", 1)[-1] for o in shown.others if o["type"] == "exec"}
    check("programs", len(programs) > 0 and len(executed) > 0, True)
    files = sum(len(call.get("files", {})) for call in shown.calls)
    check("files", engine.count("files"), files)
    by_seq = {call["seq"]: call for call in shown.calls}
    for row in engine.rows("files"):
        told = by_seq[row["seq"]]["files"][row["argument"]]
        for column in ("ino", "mode", "size", "mtime_ns", "uid"):
            check(f"files {row['seq']}: {column}", row[column], number(told[column]))
        path = by_seq[row["seq"]]["paths"].get(row["argument"])
        check(f"files {row['seq']}: path", row["path"], text(path))
    told = [json.loads(row["json"]) for row in engine.rows("events")]
    order = lambda event: (event["time_ns"], json.dumps(event, sort_keys=True))
    check("events", sorted(told, key=order), sorted(shown.others, key=order))


def check_sums(engine, shown):
    """What every engine must find the same."""
    who = engine.name
    check(f"{who}: calls", engine.count("calls"), len(shown.calls))
    moved = sum(filter(None, map(shown.moved, shown.calls)))
    check(f"{who}: bytes", engine.sum("calls", "bytes"), moved)
    lasted = sum(c["exit_ns"] - c["enter_ns"] for c in shown.calls if c["exit_ns"] is not None)
    check(f"{who}: duration_ns", engine.sum("calls", "duration_ns"), lasted)
    joins = [row for row in engine.rows("calls") if row["data_hash"]]
    joined = (len(joins), sum(row["data_length"] for row in joins))
    check(f"{who}: join of calls and data", engine.joined(), joined)
    counted = collections.Counter(call["call"] for call in shown.calls)
    for name in os.listdir(os.path.join(engine.out, "call")):
        if name in counted and os.path.isdir(f"{engine.out}/call/{name}/run={engine.run}"):
            check(f"{who}: call/{name}", engine.count(f"call/{name}"), counted[name])
    for table in ("processes", "files", "data", "events"):
        check(f"{who}: {table}", engine.count(table), len(engine.rows(table)))


def main():
    out, run, path, *names = sys.argv[1:]
    content = "no-content" not in names
    names = [name for name in names if name != "no-content"]
    shown = Shown(path)
    first = Engine(names[0], out, run)
    check_calls(first, shown)
    check_own(first, shown)
    check_data(first, shown, content)
    check_others(first, shown)
    for name in names:
        check_sums(Engine(name, out, run), shown)
    for difference in differences[:50]:
        print(difference)
    if differences:
        sys.exit(f"{len(differences)} differences")
    print(f"{len(shown.calls)} calls, the same with {', '.join(names)}")


main()
