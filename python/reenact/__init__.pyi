"""Recordings of system calls, as Arrow streams for pandas, Polars, DuckDB and pyarrow."""

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Optional, Union

Names = Union[str, Sequence[str]]
Ids = Union[int, Sequence[int]]

__version__: str

class TraceError(Exception):
    """What was opened is no recording, or cannot be read."""

class TraceWarning(UserWarning):
    """A recording is damaged."""

class Table:
    """A table of a recording: columns, and rows that are made while somebody reads them."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

class Trace:
    """An open recording."""

    @property
    def path(self) -> os.PathLike[str]: ...
    @property
    def damage(self) -> list[str]: ...
    def info(self) -> dict[str, Any]: ...
    def calls(
        self,
        columns: Optional[Sequence[str]] = None,
        *,
        data: bool = False,
        call: Optional[Names] = None,
        path: Optional[Names] = None,
        pid: Optional[Ids] = None,
        tid: Optional[Ids] = None,
        failed: bool = False,
        since: Optional[float] = None,
        until: Optional[float] = None,
        slower_than: Optional[float] = None,
    ) -> Table: ...
    def call(
        self,
        name: str,
        columns: Optional[Sequence[str]] = None,
        *,
        path: Optional[Names] = None,
        pid: Optional[Ids] = None,
        tid: Optional[Ids] = None,
        failed: bool = False,
        since: Optional[float] = None,
        until: Optional[float] = None,
        slower_than: Optional[float] = None,
    ) -> Table: ...
    def processes(self, columns: Optional[Sequence[str]] = None) -> Table: ...
    def files(
        self,
        columns: Optional[Sequence[str]] = None,
        *,
        call: Optional[Names] = None,
        path: Optional[Names] = None,
        pid: Optional[Ids] = None,
        tid: Optional[Ids] = None,
        failed: bool = False,
        since: Optional[float] = None,
        until: Optional[float] = None,
        slower_than: Optional[float] = None,
    ) -> Table: ...
    def events(
        self,
        columns: Optional[Sequence[str]] = None,
        *,
        event: Optional[Names] = None,
        pid: Optional[Ids] = None,
        tid: Optional[Ids] = None,
        since: Optional[float] = None,
        until: Optional[float] = None,
    ) -> Table: ...
    def kernel(
        self,
        columns: Optional[Sequence[str]] = None,
        *,
        event: Optional[Names] = None,
        pid: Optional[Ids] = None,
        tid: Optional[Ids] = None,
        since: Optional[float] = None,
        until: Optional[float] = None,
    ) -> Table: ...
    def states(self, columns: Optional[Sequence[str]] = None) -> Table: ...
    def buffers(
        self,
        columns: Optional[Sequence[str]] = None,
        *,
        content: bool = False,
        call: Optional[Names] = None,
        path: Optional[Names] = None,
        pid: Optional[Ids] = None,
        tid: Optional[Ids] = None,
        failed: bool = False,
        since: Optional[float] = None,
        until: Optional[float] = None,
        slower_than: Optional[float] = None,
    ) -> Table: ...
    def data(self, seq: int) -> dict[str, bytes]: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Trace: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...

def open(
    path: Union[str, os.PathLike[str]], *, damaged: Literal["raise", "skip"] = "raise"
) -> Trace:
    """Opens a recording."""
