"""binlog itself, through its public names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import binlog
from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, append_many_loop, pass_loop
from stress.bench.measuring import Prepare, Prepared
from stress.bench.processes import Loop, Work
from stress.bench.sample import MeasureError

_FILE_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.0002
_RECORDS_A_CALL = 1000


def one_a_call(mode: binlog.Mode) -> Prepare:
    """One record a call; each process has a writer of its own."""
    return _prepare(mode, lambda writer: append_loop(writer.append, os.urandom(RECORD_BYTES)))


def many_a_call(mode: binlog.Mode, records: int) -> Prepare:
    """So many records a call."""
    return _prepare(mode, lambda writer: append_many_loop(writer.append_many, [os.urandom(RECORD_BYTES)] * records))


def staged() -> Prepare:
    """One record a call, by one process, which is done when the last one's bytes are in the file."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "log"

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            writer = binlog.Writer(path, mode=binlog.Mode.STAGE)
            append = append_loop(writer.append, os.urandom(RECORD_BYTES))

            def loop(work: Work) -> int:
                count = append(work)
                writer.close()
                _wait_stored(path, count)
                return count

            yield loop

        yield Prepared(opener, lambda: _stored(path))

    return prepare


def filled(directory: Path, records: int) -> Path:
    """A log of so many records, all of it in the page cache; return its only file."""
    with binlog.Writer(directory / "log") as writer:
        for _ in range(0, records, _RECORDS_A_CALL):
            writer.append_many([os.urandom(RECORD_BYTES) for _ in range(_RECORDS_A_CALL)])
    return Path(binlog.stat(directory / "log").files[0].path)


def read_in_order(records: int, read: Callable[[binlog.Reader], None]) -> Prepare:
    """A log of so many records, read from its first to its last by `read`."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = filled(directory, records).parent

        def read_all() -> binlog.Ref:
            with binlog.Reader(path) as reader:
                read(reader)
                return reader.next_ref

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            if read_all() != binlog.stat(path).tail:
                raise MeasureError("not all was read")
            yield pass_loop(read_all, records)

        yield Prepared(opener, None)

    return prepare


def _prepare(mode: binlog.Mode, loop: Callable[[binlog.Writer[Any]], Loop]) -> Prepare:
    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "log"
        binlog.Writer(path).close()

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with binlog.Writer(path, mode=mode) as writer:
                yield loop(writer)

        yield Prepared(opener, lambda: _stored(path))

    return prepare


def _stored(path: Path) -> int:
    return sum(file.record_count or 0 for file in binlog.stat(path).files)


def _wait_stored(path: Path, count: int) -> None:
    deadline = time.monotonic() + _FILE_SECONDS_MAX
    while _stored(path) < count:
        if time.monotonic() > deadline:
            raise MeasureError(f"of {count} staged records {_stored(path)} are in the file after {_FILE_SECONDS_MAX} s")
        time.sleep(_LOOK_SECONDS)
