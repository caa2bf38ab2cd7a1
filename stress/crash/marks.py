"""Marks: the records that processes make of their calls, in a trace or in a ledger that survives them.

A mark is a named tuple of numbers, some of which may be tuples themselves; each system defines its own.  A process
marks a call before it makes it, and the result after it, so the result is known even if the process dies.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from stress.crash.preloaded.trace import MARK_NUMBERS, ROOM_BYTES, Event

Values = tuple[int, ...]
"""The numbers of a mark."""

# 64 bytes, so that none crosses a page: a killed process writes all of a page's bytes or none.
_MARK = struct.Struct(f"={MARK_NUMBERS}q")


class Witness(Protocol):
    """A destination of marks."""

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Write a mark."""


def values_of(mark: Iterable[Any]) -> Values:
    """Return the numbers of a mark, padded with zeros."""
    values: list[int] = []
    for value in mark:
        values += value if isinstance(value, tuple) else [value]
    return (*map(int, values), *(0,) * (MARK_NUMBERS - len(values)))


def marks_in(events: list[Event]) -> list[tuple[int, Values]]:
    """Return the marks of a trace with their ticks, in order."""
    return [(event.start, event.mark) for event in events if any(event.mark)]


class Ledger:
    """A file of marks, appended to by several processes, any of which may die at any moment.

    path: of the file; None for a memory file, which the injector does not take for one that it watches.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            self._fd = os.memfd_create("ledger")
        else:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        fcntl.fcntl(self._fd, fcntl.F_SETFL, os.O_APPEND)

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Write a mark."""
        os.write(self._fd, _MARK.pack(*values_of(mark)))

    def marks(self) -> list[Values]:
        """Return all marks, in the order in which they were made."""
        return [*_MARK.iter_unpack(os.pread(self._fd, self.count * _MARK.size, 0))]

    @property
    def count(self) -> int:
        """The number of marks."""
        return os.fstat(self._fd).st_size // _MARK.size

    def clear(self) -> None:
        """Remove all marks."""
        os.ftruncate(self._fd, 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class Recorder:
    """The preloaded recorder of this process."""

    def __init__(self) -> None:
        library = _library()
        self._start = library.binlog_recorder_start
        self._start.argtypes = (ctypes.c_char_p, ctypes.c_uint64)
        self._stop = library.binlog_recorder_stop
        self._mark = library.binlog_recorder_mark

    def start(self, path: str) -> None:
        """Start a new trace, which forked children share."""
        result = self._start(path.encode(), ROOM_BYTES)
        if result != 0:
            raise OSError(-result, "starting a trace", path)

    def stop(self) -> None:
        """End the trace in this process."""
        self._stop()

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Write a mark to the trace."""
        self._mark((ctypes.c_int64 * MARK_NUMBERS)(*values_of(mark)))


class Both:
    """Writes marks to a ledger, and to the trace of this process if it has one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._recorder = Recorder()

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Write a mark."""
        self._ledger.mark(mark)
        self._recorder.mark(mark)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def forget_shared_memory() -> int:
    """Remove the shared memory that this process made, as a power cut does; return the number of names removed."""
    return int(_library().binlog_recorder_forget_memory())
