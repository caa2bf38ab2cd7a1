"""When a commit log's bytes come to the disk: three services, of which a store has one or two, as in RocketMQ.

Each is told of every append.  `GroupCommitService` answers when the bytes are on the disk, for all who wait together;
`FlushRealTimeService` flushes now and then; `CommitRealTimeService` writes to the file what lies in buffers, and leaves
flushing to the second one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from binlog.commitlog.mapped_file_queue import MappedFileQueue
from binlog.commitlog.service import Service
from binlog.errors import BinlogError, ClosedError, GoneError, PoisonedError, TimedOutError


@dataclass(frozen=True, slots=True)
class Pace:
    """A service works every `seconds` where `least_pages` of 4 KiB are due, and every `thorough_seconds` anyway."""

    seconds: float
    least_pages: int
    thorough_seconds: float


FLUSH_PACE = Pace(0.5, 4, 10.0)
COMMIT_PACE = Pace(0.2, 4, 0.2)
GROUP_SECONDS = 0.01
REQUEST_SECONDS = 5.0


class FlushService(Protocol):
    """What an append tells that it is done, and may wait for."""

    def start(self) -> None:
        """Begin."""

    def check(self) -> None:
        """Raises: PoisonedError where a flush failed, so that nothing may be appended; GoneError, as a MappedFile's."""

    def appended(self, offset: int) -> None:
        """Bytes were appended up to an offset; returns when they are as safe as this service promises."""

    def stop(self) -> None:
        """Do what is left, and end.  Raises: PoisonedError where that failed."""


class Pacing:
    """Whether the next round is a thorough one."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._thorough_at = time.monotonic() + pace.thorough_seconds

    def least_pages(self) -> int:
        """For the round that begins now; 0 is thorough."""
        now = time.monotonic()
        if now < self._thorough_at:
            return self._pace.least_pages
        self._thorough_at = now + self._pace.thorough_seconds
        return 0


class FlushRealTimeService:
    """Flushes at its pace.  A power cut loses what was not flushed; a process that dies loses nothing.

    flushed: called whenever more is flushed.
    """

    def __init__(
        self,
        queue: MappedFileQueue,
        flushed: Callable[[], None] = lambda: None,
        pace: Pace = FLUSH_PACE,
        concerns: set[str] | None = None,
    ) -> None:
        self._queue = queue
        self._flushed = flushed
        self._pacing = Pacing(pace)
        self._service = Service("flush", pace.seconds, self._work, concerns=concerns)

    def start(self) -> None:
        """Begin."""
        self._service.start()

    def check(self) -> None:
        """Raises: PoisonedError."""
        _refuse(self._service)

    def appended(self, offset: int) -> None:
        """Returns at once: it flushes when it is time."""

    def wake(self) -> None:
        """Look now whether a flush is due."""
        self._service.wake()

    def stop(self) -> None:
        """Flush all, and end.  Raises: PoisonedError."""
        self._service.stop()
        _refuse(self._service)
        _flush(self._queue, 0, self._flushed)

    def _work(self) -> None:
        self._queue.check()  # of little that was appended a flush comes seconds later
        _flush(self._queue, self._pacing.least_pages(), self._flushed)


class CommitRealTimeService:
    """Writes buffers to files at its pace, and has them flushed.

    A process that dies leaves what is in a buffer to the next one that opens the store; a power cut loses it.
    committed: called whenever more is committed.
    """

    def __init__(
        self,
        queue: MappedFileQueue,
        flushing: FlushRealTimeService,
        committed: Callable[[], None] = lambda: None,
        pace: Pace = COMMIT_PACE,
        concerns: set[str] | None = None,
    ) -> None:
        self._queue = queue
        self._committed = committed
        self._flushing = flushing
        self._pacing = Pacing(pace)
        self._service = Service("commit", pace.seconds, self._work, concerns=concerns)

    def start(self) -> None:
        """Begin."""
        self._flushing.start()
        self._service.start()

    def check(self) -> None:
        """Raises: PoisonedError where a commit or a flush failed."""
        _refuse(self._service)
        self._flushing.check()

    def appended(self, offset: int) -> None:
        """Returns at once: it commits when it is time."""

    def stop(self) -> None:
        """Commit and flush all, and end.  Raises: PoisonedError."""
        self._service.stop()
        _refuse(self._service)
        while self._queue.commit():
            pass
        self._flushing.stop()

    def _work(self) -> None:
        least_pages = self._pacing.least_pages()
        stop = self._queue.wrote_where  # more may come for as long as this takes
        while self._queue.committed_where < stop and self._queue.commit(least_pages):
            self._committed()
            self._flushing.wake()


class GroupCommitService:
    """Flushes for all who wait, together; what was answered survives a power cut.

    seconds: how long somebody waits for an answer before TimedOutError.
    """

    def __init__(
        self,
        queue: MappedFileQueue,
        flushed: Callable[[], None] = lambda: None,
        seconds: float = REQUEST_SECONDS,
        concerns: set[str] | None = None,
    ) -> None:
        self._queue = queue
        self._flushed = flushed
        self._seconds = seconds
        # A lock for each who waits, and no `Condition`: with that all who are woken queue up once more, for its lock.
        self._waiting: list[tuple[int, threading.Lock]] = []
        self._mutex = threading.Lock()
        self._service = Service("group commit", GROUP_SECONDS, self._work, concerns=concerns)
        self._stopped = False

    def start(self) -> None:
        """Begin."""
        self._service.start()

    def check(self) -> None:
        """Raises: PoisonedError."""
        _refuse(self._service)

    def appended(self, offset: int) -> None:
        """Wait until all up to the offset is on the disk.

        Raises: TimedOutError where that takes too long, and may still come to be; PoisonedError; ClosedError.
        """
        answer = threading.Lock()
        answer.acquire()
        with self._mutex:
            waits = not self._over()
            if waits:
                self._waiting.append((offset, answer))
        if waits:
            self._service.wake()
            if not answer.acquire(timeout=self._seconds) and self._queue.flushed_where < offset:
                _refuse(self._service)
                raise TimedOutError(
                    f"not flushed up to {offset} within {self._seconds} s, but up to {self._queue.flushed_where}; "
                    "the messages are appended, and may still be flushed"
                )
        if self._queue.flushed_where < offset:
            _refuse(self._service)
            raise ClosedError("the store was closed before the messages were flushed")

    def stop(self) -> None:
        """Answer all, and end.  Raises: PoisonedError."""
        self._service.stop()
        self._stopped = True
        self._answer()
        _refuse(self._service)
        _flush(self._queue, 0, self._flushed)

    def _over(self) -> bool:
        """Whether nobody will flush any more."""
        return self._stopped or self._service.failure is not None

    def _answer(self) -> None:
        """Answer all who need not wait any longer."""
        with self._mutex:
            reached, waiting = self._queue.flushed_where, self._waiting
            self._waiting = [] if self._over() else [entry for entry in waiting if entry[0] > reached]
            still = len(self._waiting)
        for offset, answer in waiting:
            if not still or offset <= reached:
                answer.release()

    def _work(self) -> None:
        if not self._waiting:
            return
        before = self._queue.flushed_where
        try:
            _flush(self._queue, 0, self._answer)
        except BinlogError as error:
            self._service.failure = error  # before those are answered who ask for it
            raise
        finally:
            # Before all else: they wait, and telling others of the flush takes its time.
            self._answer()
            if self._queue.flushed_where != before:
                self._flushed()


def _flush(queue: MappedFileQueue, least_pages: int, flushed: Callable[[], None]) -> None:
    """Flush file by file, as far as that is due of what is there now."""
    stop = queue.wrote_where
    while queue.flushed_where < stop and queue.flush(least_pages):
        flushed()


def _refuse(service: Service) -> None:
    if isinstance(service.failure, GoneError):
        raise GoneError(f"nothing more is appended: {service.failure}") from service.failure
    if service.failure is not None:
        raise PoisonedError(f"nothing more is appended: {service.failure}") from service.failure
    service.check()
