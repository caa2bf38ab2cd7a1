"""binlog's log, through its public names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import binlog
from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, append_many_loop, pass_loop
from stress.bench.measuring import Prepare, preparing
from stress.bench.processes import Loop, Work
from stress.bench.sample import MeasureError

_FILE_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.0002
_RECORDS_A_CALL = 1000


def one_a_call(mode: binlog.Mode, record_bytes: int = RECORD_BYTES) -> Prepare:
    """Append one record a call; each process has a writer of its own."""
    return _appending(mode, lambda writer: append_loop(writer.append, os.urandom(record_bytes)))


def many_a_call(mode: binlog.Mode, records: int) -> Prepare:
    """Append `records` records a call."""
    return _appending(mode, lambda writer: append_many_loop(writer.append_many, [os.urandom(RECORD_BYTES)] * records))


def staged() -> Prepare:
    """Append one record a call in one process, until the bytes of the last one are in the file."""

    def loop(writer: binlog.Writer[Any]) -> Loop:
        append = append_loop(writer.append, os.urandom(RECORD_BYTES))

        def append_and_close(work: Work) -> int:
            count = append(work)
            writer.close()
            _wait_stored(Path(writer.path), count)
            return count

        return append_and_close

    return _appending(binlog.Mode.STAGE, loop)


def filled(directory: Path, records: int) -> Path:
    """Make a log of `records` records, all in the page cache; return its only file."""
    with binlog.Writer(directory / "log") as writer:
        for _ in range(0, records, _RECORDS_A_CALL):
            writer.append_many([os.urandom(RECORD_BYTES) for _ in range(_RECORDS_A_CALL)])
    return Path(binlog.stat(directory / "log").files[0].path)


def read_in_order(records: int, read: Callable[[binlog.Reader], None]) -> Prepare:
    """Read a log of `records` records from first to last with `read`."""

    def loop(directory: Path) -> Loop:
        path = directory / "log"

        def read_all() -> binlog.Ref:
            with binlog.Reader(path) as reader:
                read(reader)
                return reader.next_ref

        if read_all() != binlog.stat(path).tail:
            raise MeasureError("some records were not read")
        return pass_loop(read_all, records)

    return preparing(nullcontext, loop, make=lambda directory: filled(directory, records))


def _appending(mode: binlog.Mode, loop: Callable[[binlog.Writer[Any]], Loop]) -> Prepare:
    return preparing(
        lambda directory: binlog.Writer(directory / "log", mode=mode),
        loop,
        make=lambda directory: binlog.Writer(directory / "log").close(),
        stored=lambda directory: _stored(directory / "log"),
    )


def _stored(path: Path) -> int:
    return sum(file.record_count or 0 for file in binlog.stat(path).files)


def _wait_stored(path: Path, count: int) -> None:
    deadline = time.monotonic() + _FILE_SECONDS_MAX
    while _stored(path) < count:
        if time.monotonic() > deadline:
            raise MeasureError(
                f"only {_stored(path)} of {count} staged records are in the file after {_FILE_SECONDS_MAX} s"
            )
        time.sleep(_POLL_SECONDS)
