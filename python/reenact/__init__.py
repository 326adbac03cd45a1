"""Recordings of system calls, as Arrow streams for pandas, Polars, DuckDB and pyarrow.

    import duckdb, reenact

    trace = reenact.open("make.rnt")
    calls = trace.calls(failed=True)
    duckdb.sql("select call, errno, count(*) from calls group by all")

`open` gives a `Trace`; its methods give a `Table` each: `calls`, `call("openat")`, `processes`, `files`, `events`,
`kernel`, `states` and `buffers`, with the columns of the Parquet tables of `reenact export`. Filters and columns that
are named there are not read at all.
"""

from ._native import Table, Trace, TraceError, TraceWarning, __version__, open

__all__ = ["Table", "Trace", "TraceError", "TraceWarning", "open"]
