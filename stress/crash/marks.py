"""What a process says of its calls: in a trace between the recorded calls, and in a ledger that survives the process.

A mark is a named tuple of numbers, some of which may be tuples themselves; what they mean is each system's.  A call is
marked before it is made, and what it returned after: so what a process was told is known whatever became of it.
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

from stress.crash.trace import MARK_NUMBERS, ROOM_BYTES, Event

Values = tuple[int, ...]
"""A mark's numbers."""

# Of 64 bytes, so that none lies across two pages: a process that is killed writes what lies in one page or nothing.
_MARK = struct.Struct(f"={MARK_NUMBERS}q")


class Witness(Protocol):
    """Where marks go."""

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Note a mark, now."""


def values_of(mark: Iterable[Any]) -> Values:
    """Return the numbers of a mark, filled up with zeros."""
    values: list[int] = []
    for value in mark:
        values += value if isinstance(value, tuple) else [value]
    return (*map(int, values), *(0,) * (MARK_NUMBERS - len(values)))


def marks_in(events: list[Event]) -> list[tuple[int, Values]]:
    """The marks of a trace with their ticks, in order."""
    return [(event.start, event.mark) for event in events if any(event.mark)]


class Ledger:
    """Marks of processes that may die at any moment, in a file that they append to; also used by several at once.

    path: of the file, None for one without a name, which no striker takes for one of the files that it watches.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            self._fd = os.memfd_create("ledger")
        else:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        fcntl.fcntl(self._fd, fcntl.F_SETFL, os.O_APPEND)

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Note a mark, now."""
        os.write(self._fd, _MARK.pack(*values_of(mark)))

    def marks(self) -> list[Values]:
        """All, in the order in which they were made."""
        return [*_MARK.iter_unpack(os.pread(self._fd, self.count * _MARK.size, 0))]

    @property
    def count(self) -> int:
        """How many there are."""
        return os.fstat(self._fd).st_size // _MARK.size

    def clear(self) -> None:
        """Forget all."""
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
        """Begin a new trace, which forked children share."""
        result = self._start(path.encode(), ROOM_BYTES)
        if result != 0:
            raise OSError(-result, "starting a trace", path)

    def stop(self) -> None:
        """End it in this process."""
        self._stop()

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Put a mark into the trace, now."""
        self._mark((ctypes.c_int64 * MARK_NUMBERS)(*values_of(mark)))


class Both:
    """Puts marks into a ledger, and into the trace of this process if there is one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._recorder = Recorder()

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Note a mark, now."""
        self._ledger.mark(mark)
        self._recorder.mark(mark)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def forget_shared_memory() -> int:
    """Remove what this process has made in shared memory, as a power cut does; how many names that were."""
    return int(_library().binlog_recorder_forget_memory())
