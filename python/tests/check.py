"""Holds what the package `reenact` reads of a recording against other readers of it.

    python3 check.py REENACT TRACE PLACE

REENACT is the program; TRACE has calls with data, failed calls and several processes. Every table is compared with
the Parquet files that REENACT exports, value by value; pandas, Polars, DuckDB and pyarrow.dataset must say the same;
filters are compared with what is left of a whole table. Damaged copies of the recording, which are kept in PLACE, must
give exceptions. Fails at the first difference.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import warnings

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet

import reenact

program, path, place = sys.argv[1:]


def said(*words):
    return subprocess.run([program, *words], check=True, capture_output=True).stdout


def raises(kind, act, *words):
    try:
        act()
    except kind as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"no {kind}")


def parquet(out, name):
    folder = os.path.join(out, name, "run=trace")
    parts = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    files = [pyarrow.parquet.ParquetFile(os.path.join(folder, part)).read() for part in parts]
    return pyarrow.concat_tables(files) if files else None


def same(found, expected, what):
    """Whether two tables are the same, value by value; there are no schemas to differ where rows are missing."""
    assert found.schema.names == expected.schema.names, (what, found.schema, expected.schema)
    found.validate(full=True)
    assert found.schema.equals(expected.schema), (what, found.schema, expected.schema)
    for name in found.schema.names:
        left, right = found[name].to_pylist(), expected[name].to_pylist()
        assert left == right, (what, name, next(p for p in zip(left, right) if p[0] != p[1]))
    assert found.num_rows == expected.num_rows, what


def tables_are_those_of_parquet(trace):
    out = os.path.join(place, "tables")
    said("export", path, "--to", "parquet", "-o", out, "--run", "trace", "--force")
    fixed = {
        "calls": trace.calls(),
        "processes": trace.processes(),
        "files": trace.files(),
        "events": trace.events(),
        "data": trace.buffers(content=True),
    }
    kinds = os.listdir(os.path.join(out, "call"))
    own = {f"call/{name}": trace.call(name) for name in kinds}
    assert len(own) > 10, own
    for name, table in {**fixed, **own}.items():
        assert table.name == name
        same(pyarrow.table(table), parquet(out, name), name)
        assert len(table) == parquet(out, name).num_rows, name
    for name, table in {"kernel": trace.kernel(), "states": trace.states()}.items():
        expected = parquet(out, name)
        found = pyarrow.table(table)
        assert found.num_rows == (expected.num_rows if expected else 0), name
        if expected:
            same(found, expected, name)
    assert pyarrow.table(trace.call("socketpair")).num_rows == len(trace.call("socketpair"))


def engines_read_it(trace):
    calls = trace.calls()
    whole = pyarrow.table(calls)
    count, moved = whole.num_rows, pc.sum(whole["bytes"]).as_py()
    assert count == len(calls) == len(trace) > 100
    frame = pandas.DataFrame.from_arrow(calls)
    assert (len(frame), int(frame["bytes"].sum())) == (count, moved)
    frame = polars.DataFrame(calls)
    assert (frame.height, frame["bytes"].sum()) == (count, moved)
    assert frame.columns == calls.columns == whole.schema.names
    assert duckdb.sql("select count(*), sum(bytes) from calls").fetchall()[0] == (count, moved)
    by_call = duckdb.sql("select call, count(*) n from calls group by call").fetchall()
    assert dict(by_call) == dict(zip(*[c.to_pylist() for c in frame["call"].value_counts().to_arrow()]))
    dataset = pyarrow.dataset.dataset(pyarrow.RecordBatchReader.from_stream(calls).read_all())
    few = dataset.to_table(columns=["bytes"], filter=pc.field("call") == "pwrite64")
    assert few.num_rows == dict(by_call)["pwrite64"]
    scanner = pyarrow.dataset.Scanner.from_batches(pyarrow.RecordBatchReader.from_stream(calls))
    assert scanner.count_rows() == count
    nested = pandas.DataFrame.from_arrow(trace.call("fstat"))
    assert len(nested) == len(trace.call("fstat"))
    assert polars.DataFrame(trace.processes())["argv"].list.len().min() >= 1


def filters_are_pushed_down(trace):
    whole = pyarrow.table(trace.calls())

    def left(keep, **filters):
        found = pyarrow.table(trace.calls(**filters))
        expected = whole.filter(pyarrow.array([bool(keep(row)) for row in whole.to_pylist()]))
        assert expected.num_rows not in (0, whole.num_rows), filters
        same(found, expected, filters)
        assert len(trace.calls(**filters)) == found.num_rows

    left(lambda row: row["call"] == "pwrite64", call="pwrite64")
    left(lambda row: row["call"] in ("pwrite64", "fsync"), call=["pwrite64", "fsync"])
    left(lambda row: row["errno"], failed=True)
    first = whole["pid"][0].as_py()
    left(lambda row: row["pid"] == first, pid=first)
    left(lambda row: row["tid"] != first, tid=sorted(set(whole["tid"].to_pylist()) - {first}))
    middle = whole["enter_ns"][whole.num_rows // 2].as_py()
    left(lambda row: row["enter_ns"] >= middle, since=middle / 1e9)
    left(lambda row: row["enter_ns"] <= middle, until=middle / 1e9)
    left(lambda row: (row["duration_ns"] or 0) > 20_000, slower_than=20e-6)
    # That a path fits is known of paths that have a column.
    fits = pyarrow.table(trace.calls(["path", "call"], path="*/pages", call="pwrite64"))
    assert fits.num_rows == 150 and all(p.endswith("/pages") for p in fits["path"].to_pylist())
    columns = ["duration_ns", "call", "data_hash", "offset"]
    same(pyarrow.table(trace.calls(columns)), whole.select(columns), "projection")
    assert trace.calls(["seq"]).columns == ["seq"]
    ends = pyarrow.table(trace.events(event="exit"))
    assert set(ends["type"].to_pylist()) == {"exit"} and ends.num_rows == len(trace.processes())
    raises(ValueError, lambda: trace.calls(["nothing"]), "nothing", "duration_ns")
    raises(ValueError, lambda: trace.calls(["seq", "seq"]), "twice")
    raises(ValueError, lambda: trace.calls(call="pwrite6"), "pwrite64")
    raises(ValueError, lambda: trace.call("nothing"), "nothing")
    raises(ValueError, lambda: trace.calls(since=-1), "since")
    raises(ValueError, lambda: trace.calls(until=float("nan")), "until")
    raises(TypeError, lambda: trace.calls(nothing=1), "nothing")
    raises(TypeError, lambda: trace.calls(pid="x"), "pid")
    raises(TypeError, lambda: trace.call("read", call="read"), "call")


def data_is_there_on_demand(trace):
    assert "data" not in trace.calls().columns
    wanted = ["seq", "call", "data_length", "data_hash", "data"]
    table = pyarrow.table(trace.calls(wanted, data=True))
    carried = table.filter(pc.is_valid(table["data"])).to_pylist()
    assert len(carried) > 150
    contents = {}
    for row in carried:
        assert len(row["data"]) == row["data_length"], row["seq"]
        assert contents.setdefault(row["data_hash"], row["data"]) == row["data"], row["seq"]
    assert "content" in trace.buffers().columns
    assert all(c is None for c in pyarrow.table(trace.buffers())["content"].to_pylist())
    buffers = pyarrow.table(trace.buffers(content=True)).to_pylist()
    stored = {row["hash"]: row["content"] for row in buffers}
    assert {key: hashlib.sha256(c).digest() for key, c in contents.items()}.items() <= {
        key: hashlib.sha256(c).digest() for key, c in stored.items() if c is not None
    }.items()
    write = next(row for row in carried if row["call"] == "pwrite64")
    assert trace.data(write["seq"]) == {"buf": write["data"]}
    assert said("cat", path, "--seq", str(write["seq"])) == write["data"]
    raises(KeyError, lambda: trace.data(len(trace)))


def it_is_described(trace):
    told = json.loads(said("info", path, "--json"))
    assert trace.info() == told
    assert trace.damage == [] and os.fspath(trace.path) == path
    assert "reenact.Table" in repr(trace.calls()) and path in repr(trace)
    with reenact.open(path) as again:
        kept = again.processes()
    raises(ValueError, again.calls, "closed")
    assert len(kept) == len(trace.processes())
    raises(FileNotFoundError, lambda: reenact.open(path + ".gone"), path)
    raises(OSError, lambda: reenact.open(place))
    raises(reenact.TraceError, lambda: reenact.open(program), program)
    raises(ValueError, lambda: reenact.open(path, damaged="no"))
    folder = os.path.dirname(reenact.__file__)
    assert {"py.typed", "__init__.pyi"} <= set(os.listdir(folder))


def streams_may_be_left(trace):
    calls = trace.calls()
    for _ in range(20):
        reader = pyarrow.RecordBatchReader.from_stream(calls)
        if reader.schema.names != calls.columns:
            raise AssertionError(reader.schema)
        del reader
        calls.__arrow_c_stream__()
    ours = [task for task in os.listdir("/proc/self/task") if name_of(task) == "reenact"]
    # A thread that was left ends at the next event.
    assert len(ours) < 20, ours


def name_of(task):
    try:
        with open(f"/proc/self/task/{task}/comm") as file:
            return file.read().strip()
    except OSError:
        return None


def read_all(trace):
    """Reads everything; how much of it could be read."""
    read = 0
    for table in (trace.calls(data=True), trace.processes(), trace.files(), trace.events(),
                  trace.buffers(content=True), trace.kernel(), trace.states(), trace.call("read")):
        try:
            read += pyarrow.table(table).num_rows
        except (pyarrow.ArrowException, OSError):
            pass
        try:
            len(table)
        except reenact.TraceError:
            pass
    return read


def damage_gives_exceptions():
    with open(path, "rb") as file:
        whole = file.read()
    chance = random.Random(7)
    broken = os.path.join(place, "broken.rnt")
    refused = read = 0
    for turn in range(120):
        copy = bytearray(whole)
        if turn % 4 == 0:
            del copy[chance.randrange(len(copy)):]
        for _ in range(chance.choice((0, 1, 3, 50))):
            if copy:
                copy[chance.randrange(len(copy))] = chance.randrange(256)
        with open(broken, "wb") as file:
            file.write(copy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", reenact.TraceWarning)
            try:
                trace = reenact.open(broken, damaged=chance.choice(("raise", "skip")))
            except reenact.TraceError:
                refused += 1
                continue
        read += read_all(trace)
        try:
            trace.info()
            trace.data(50)
        except (reenact.TraceError, KeyError):
            pass
    assert refused and read, (refused, read)
    # What is damaged is told when it is read, and read past only if that is asked for.
    hurt = 0
    for part in range(1, 32):
        copy = bytearray(whole)
        at = len(copy) * part // 32
        copy[at:at + 64] = bytes(64)
        with open(broken, "wb") as file:
            file.write(copy)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            trace = reenact.open(broken)
            assert bool(trace.damage) == bool(told)
            try:
                pyarrow.table(trace.calls(data=True))
            except (OSError, pyarrow.ArrowException) as error:
                assert "skip" in str(error), error
                hurt += 1
            assert pyarrow.table(reenact.open(broken, damaged="skip").calls()).num_rows >= 0
    assert hurt, "no damage was met"


with reenact.open(path) as opened:
    it_is_described(opened)
    tables_are_those_of_parquet(opened)
    engines_read_it(opened)
    filters_are_pushed_down(opened)
    data_is_there_on_demand(opened)
    streams_may_be_left(opened)
damage_gives_exceptions()
print("all the same")
