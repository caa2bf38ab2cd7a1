"""binlog itself, through its public names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import binlog
from stress.bench.appending import Prepare, Prepared
from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, append_many_loop
from stress.bench.processes import Loop, Work
from stress.bench.sample import MeasureError

_FILE_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.0002

_MODES: Any = getattr(binlog, "Mode", None)


def missing(mode: str) -> str | None:
    """Why a mode cannot be measured."""
    return None if _MODES or mode == "SYNC" else "this binlog has one mode only"


def _writer(path: Path, mode: str) -> binlog.Writer:
    return binlog.Writer(path, mode=_MODES[mode]) if _MODES else binlog.Writer(path)


def one_a_call(mode: str) -> Prepare:
    """One record a call; each process has a writer of its own."""
    return _prepare(mode, lambda writer: append_loop(writer.append, os.urandom(RECORD_BYTES)))


def many_a_call(mode: str, records: int) -> Prepare:
    """So many records a call."""
    return _prepare(mode, lambda writer: append_many_loop(writer.append_many, [os.urandom(RECORD_BYTES)] * records))


def staged() -> Prepare:
    """One record a call, by one process, which is done when the last one's bytes are in the file."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "log"

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            writer = _writer(path, "STAGE")
            append = append_loop(writer.append, os.urandom(RECORD_BYTES))

            def loop(work: Work) -> int:
                count = append(work)
                writer.close()
                _wait_stored(path, count)
                return count

            yield loop

        yield Prepared(opener, lambda: _stored(path))

    return prepare


def _prepare(mode: str, loop: Callable[[binlog.Writer], Loop]) -> Prepare:
    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "log"
        binlog.Writer(path).close()

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with _writer(path, mode) as writer:
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
