"""What a workload says of itself, in the trace between its calls: what it tried, and what it was told is kept.

A mark is five numbers.  `Mark` is what those of a log's workloads mean; a store of messages has marks of its own.
"""

from __future__ import annotations

import ctypes
import enum
import functools
from typing import NamedTuple, Protocol

from binlog import Ref
from stress.crash.trace import ROOM_BYTES, Event

_OFFSET_BITS = 40

Values = tuple[int, ...]
"""The five numbers of a mark."""


class HasValues(Protocol):
    """A mark, whatever it means."""

    @property
    def values(self) -> Values:
        """As five numbers."""


class MarkKind(enum.IntEnum):
    """Tried comes before the call, the others after it."""

    TRIED = 1
    ACKNOWLEDGED = 2
    CUT_OVER = 3


class Mark(NamedTuple):
    """One mark.

    writer, first, record_count: records of a writer, from its `first` on, which are one call's: all or none.
    ref: where the first of them lies, or the file that a cutover opened; None where the caller is not told.
    """

    kind: MarkKind
    writer: int
    first: int
    record_count: int
    ref: Ref | None

    @property
    def values(self) -> Values:
        """As the five numbers of a trace's record."""
        place = 0 if self.ref is None else self.ref.number << _OFFSET_BITS | self.ref.offset
        return self.kind, self.writer, self.first, self.record_count, place


def mark_of(values: Values) -> Mark:
    """The mark that `values` gave."""
    kind, writer, first, count, place = values
    ref = Ref(place >> _OFFSET_BITS, place & ((1 << _OFFSET_BITS) - 1)) if place else None
    return Mark(MarkKind(kind), writer, first, count, ref)


def marks_in(events: list[Event]) -> list[tuple[int, Values]]:
    """The marks of a trace with their ticks, in order."""
    return [(event.start, event.mark) for event in events if any(event.mark)]


class Recorder:
    """The preloaded recorder of this process."""

    def __init__(self) -> None:
        library = _library()
        self._start = library.binlog_recorder_start
        self._start.argtypes = (ctypes.c_char_p, ctypes.c_uint64)
        self._stop = library.binlog_recorder_stop
        self._mark = library.binlog_recorder_mark
        self._mark.argtypes = (ctypes.c_int64,) * 5

    def start(self, path: str) -> None:
        """Begin a new trace, which forked children share."""
        result = self._start(path.encode(), ROOM_BYTES)
        if result != 0:
            raise OSError(-result, "starting a trace", path)

    def stop(self) -> None:
        """End it in this process."""
        self._stop()

    def mark(self, mark: HasValues) -> None:
        """Put a mark into the trace, now."""
        self._mark(*mark.values)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def forget_shared_memory() -> int:
    """Remove what this process has made in shared memory, as a power cut does; how many names that were."""
    return int(_library().binlog_recorder_forget_memory())
