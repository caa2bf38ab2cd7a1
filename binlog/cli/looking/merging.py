"""Several logs in one output, merged by the time at which their records were appended, and followed together."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Iterator, Sequence
from itertools import islice

import binlog
from binlog.cli.looking.following import Follower
from binlog.cli.looking.sources import LogSource
from binlog.cli.looking.views import RecordView
from binlog.errors import BinlogError, ClosedError

# A thread must not wait forever at the end of the process.
_WAIT_SECONDS = 5.0


def merged(sources: Sequence[LogSource], *, parse: bool) -> Iterator[RecordView]:
    """Yield the records of all logs by time; those of one log stay in their order, also if its clock was set back.

    Of equal times, the log that was named first comes first.
    Raises: as binlog.Reader.
    """
    return by_time([source.views(source.forwards(), parse=parse) for source in sources])


class MergedBackwards:
    """The records of all logs by time, the last one first.

    logs: what is read of each log; its present state by default.
    The iteration ends early in a log that is damaged; `check` then raises the error.
    """

    def __init__(
        self, sources: Sequence[LogSource], *, parse: bool, logs: Sequence[binlog.LogStat] | None = None
    ) -> None:
        states: Sequence[binlog.LogStat | None] = logs or [None] * len(sources)
        self._sources = sources
        self._parse = parse
        self._found = [source.backwards(log) for source, log in zip(sources, states, strict=True)]

    def __iter__(self) -> Iterator[RecordView]:
        streams = [
            source.views(found, parse=self._parse, reverse=True)
            for source, found in zip(self._sources, self._found, strict=True)
        ]
        return by_time(streams[::-1], reverse=True)

    def last(self, count: int) -> list[RecordView]:
        """Return the last records, in order."""
        return list(islice(self, count))[::-1]

    def check(self) -> None:
        """Raise the error of a log that is damaged, if any."""
        for found in self._found:
            found.check()


def by_time(streams: Sequence[Iterator[RecordView]], *, reverse: bool = False) -> Iterator[RecordView]:
    """Merge records by the time at which they were appended."""
    return heapq.merge(*streams, key=lambda view: view.appended_ns, reverse=reverse)


class Waiters:
    """Waits for the first of several followers that has a record, with a thread for each.

    Invariant: a follower belongs to its thread from a call of `wait` on, until a call has returned its index.
    """

    def __init__(self, followers: Sequence[Follower]) -> None:
        self._followers = followers
        self._ready: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._armed = [threading.Semaphore(0) for _ in followers]
        self._waiting = [False] * len(followers)
        for index in range(len(followers)):
            threading.Thread(target=self._run, args=(index,), daemon=True).start()

    def wait(self, seconds: float) -> list[int]:
        """Return the indexes of readers that have a record, or an error that a read will meet; none after `seconds`."""
        for index, waiting in enumerate(self._waiting):
            if not waiting:
                self._waiting[index] = True
                self._armed[index].release()
        ready: list[int] = []
        try:
            ready.append(self._ready.get(timeout=seconds))
            while True:
                ready.append(self._ready.get_nowait())
        except queue.Empty:
            pass
        for index in ready:
            self._waiting[index] = False
        return sorted(ready)

    def _run(self, index: int) -> None:
        while True:
            self._armed[index].acquire()
            try:
                if not self._followers[index].wait(_WAIT_SECONDS):
                    self._armed[index].release()
                    continue
            except ClosedError:
                return
            except BinlogError:
                pass  # a read meets it again
            self._ready.put(index)
