"""The three flush services of RocketMQ, which write and sync the commit log; a store has one or two.

Each is notified of every append.  `GroupCommitService` makes an append wait for a sync that all waiting threads share.
`FlushRealTimeService` syncs periodically.  `CommitRealTimeService` writes buffers to the files, and leaves the sync to
a `FlushRealTimeService`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from binlog.commitlog.append.service import Service
from binlog.commitlog.files.mapped_file_queue import MappedFileQueue
from binlog.errors import BinlogError, ClosedError, GoneError, PoisonedError
from binlog.storage.files import check_commit, commit_at
from binlog.storage.native import CommitGroup


@dataclass(frozen=True, slots=True)
class Pace:
    """A service works every `seconds` if `least_pages` of 4 KiB are due, and every `thorough_seconds` in any case."""

    seconds: float
    least_pages: int
    thorough_seconds: float


FLUSH_PACE = Pace(0.5, 4, 10.0)
COMMIT_PACE = Pace(0.2, 4, 0.2)


class FlushService(ABC):
    """A service that every append notifies, and may wait for.  services: its threads."""

    services: list[Service]

    def start(self) -> None:
        """Start the threads.  Raises: StateError if no thread can be created."""
        for service in self.services:
            service.start()

    @abstractmethod
    def check(self) -> None:
        """Raise PoisonedError if a flush failed, because no append may follow; GoneError, as MappedFile.check."""

    @abstractmethod
    def appended(self, offset: int) -> None:
        """Note that bytes were appended up to an offset; return once they are as safe as this service promises."""

    @abstractmethod
    def stop(self) -> None:
        """Finish the remaining work and end.  Raises: PoisonedError if that failed."""


class Pacing:
    """Decides how many pages must be due in each round of a service."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._thorough_at = time.monotonic() + pace.thorough_seconds

    def least_pages(self) -> int:
        """Return the least pages of the round that starts now; 0 for a thorough round."""
        now = time.monotonic()
        if now < self._thorough_at:
            return self._pace.least_pages
        self._thorough_at = now + self._pace.thorough_seconds
        return 0


class FlushRealTimeService(FlushService):
    """Syncs at its pace: a power cut loses messages that were not synced, the death of the process loses none.

    flushed: called after each sync.
    """

    def __init__(
        self,
        queue: MappedFileQueue,
        flushed: Callable[[], None] = lambda: None,
        pace: Pace = FLUSH_PACE,
        unhealthy: set[str] | None = None,
    ) -> None:
        self._queue = queue
        self._flushed = flushed
        self._pacing = Pacing(pace)
        self._service = Service("flush", pace.seconds, self._work, unhealthy=unhealthy)
        self.services = [self._service]

    def check(self) -> None:
        """Raises: PoisonedError."""
        _refuse(self._service)

    def appended(self, offset: int) -> None:
        """Return at once: the sync comes at its pace."""

    def wake(self) -> None:
        """Check now whether a flush is due."""
        self._service.wake()

    def stop(self) -> None:
        """Flush everything and end.  Raises: PoisonedError."""
        self._service.stop()
        _refuse(self._service)
        _flush(self._queue, 0, self._flushed)

    def _work(self) -> None:
        self._queue.check()  # the next flush of a few bytes may be seconds away
        _flush(self._queue, self._pacing.least_pages(), self._flushed)


class CommitRealTimeService(FlushService):
    """Writes buffers to the files at its pace, and wakes the flush service.

    If the process dies, the next process that opens the store recovers the buffers; a power cut loses them.
    committed: called after each commit.
    """

    def __init__(
        self,
        queue: MappedFileQueue,
        flushing: FlushRealTimeService,
        committed: Callable[[], None] = lambda: None,
        pace: Pace = COMMIT_PACE,
        unhealthy: set[str] | None = None,
    ) -> None:
        self._queue = queue
        self._committed = committed
        self._flushing = flushing
        self._pacing = Pacing(pace)
        self._service = Service("commit", pace.seconds, self._work, unhealthy=unhealthy)
        self.services = [*flushing.services, self._service]

    def check(self) -> None:
        """Raise PoisonedError if a commit or a flush failed."""
        _refuse(self._service)
        self._flushing.check()

    def appended(self, offset: int) -> None:
        """Return at once: the commit comes at its pace."""

    def stop(self) -> None:
        """Commit and flush everything, and end.  Raises: PoisonedError."""
        self._service.stop()
        _refuse(self._service)
        while self._queue.commit():
            pass
        self._flushing.stop()

    def _work(self) -> None:
        least_pages = self._pacing.least_pages()
        stop = self._queue.wrote_where  # appends may continue meanwhile
        while self._queue.committed_where < stop and self._queue.commit(least_pages):
            self._committed()
            self._flushing.wake()


class GroupCommitService(FlushService):
    """Syncs once for all waiting threads, in the thread of the leader; an append that returned survives a power cut.

    Everything in the queue when the service is created counts as flushed.
    """

    def __init__(
        self,
        queue: MappedFileQueue,
        flushed: Callable[[], None] = lambda: None,
        unhealthy: set[str] | None = None,
    ) -> None:
        self._queue = queue
        self._flushed = flushed
        self._guard = queue.guard
        self._group = CommitGroup(self._guard, queue.flushed_where)
        queue.attach_group(self._group)
        self.services: list[Service] = []
        self._unhealthy = set[str]() if unhealthy is None else unhealthy
        self._gone: GoneError | None = None

    def check(self) -> None:
        """Raises: PoisonedError; GoneError."""
        self._guard.check()
        if self._gone is not None:
            raise GoneError(f"appends are refused: {self._gone}") from self._gone

    def appended(self, offset: int) -> None:
        """Wait until everything up to the offset is synced.

        Raises: PoisonedError; GoneError; ClosedError if the store was closed first.
        """
        try:
            with self._group.lead_or_wait(offset) as leads:
                if leads:
                    self._commit()
        except BinlogError as error:
            self._unhealthy.add("group commit")
            if isinstance(error, GoneError):
                self._gone = error
            self.check()
            raise
        self._flushed()
        if self._group.durable < offset:
            raise ClosedError("the store was closed before the messages were flushed")

    def stop(self) -> None:
        """Flush everything; even if that fails, no thread writes to the files afterwards.  Raises: PoisonedError."""
        self.appended(self._queue.wrote_where)
        self.check()

    def _commit(self) -> None:
        """Write and sync everything appended so far, also in files that became full; the leader calls this."""
        queue, group = self._queue, self._group
        if not queue.files:
            return
        queue.check()  # a check of the file's name is one of the reasons for this path
        check_commit(group.failed, queue.folder)
        with self._guard:
            self._guard.changing = True
            unfinished, queue.unfinished = queue.unfinished, []
            last = queue.files[-1]
            offset, data = group.take(True)
        for file, start, rest in unfinished:
            file.finish(rest, start)
        commit_at(group, last.fd, data, offset, last.path)


def _flush(queue: MappedFileQueue, least_pages: int, flushed: Callable[[], None]) -> None:
    """Flush file by file whatever is due, up to the present end."""
    stop = queue.wrote_where
    while queue.flushed_where < stop and queue.flush(least_pages):
        flushed()


def _refuse(service: Service) -> None:
    if isinstance(service.failure, GoneError):
        raise GoneError(f"appends are refused: {service.failure}") from service.failure
    if service.failure is not None:
        raise PoisonedError(f"appends are refused: {service.failure}") from service.failure
    service.check()
