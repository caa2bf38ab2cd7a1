"""When a commit log's bytes come to the disk: three services, of which a store has one or two, as in RocketMQ.

Each is told of every append.  `GroupCommitService` answers when the bytes are on the disk, for all who wait together;
`FlushRealTimeService` flushes now and then; `CommitRealTimeService` writes to the file what lies in buffers, and leaves
flushing to the second one.
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
    """A service works every `seconds` where `least_pages` of 4 KiB are due, and every `thorough_seconds` anyway."""

    seconds: float
    least_pages: int
    thorough_seconds: float


FLUSH_PACE = Pace(0.5, 4, 10.0)
COMMIT_PACE = Pace(0.2, 4, 0.2)


class FlushService(ABC):
    """What an append tells that it is done, and may wait for.  services: its threads."""

    services: list[Service]

    def start(self) -> None:
        """Begin.  Raises: StateError if no thread can be made."""
        for service in self.services:
            service.start()

    @abstractmethod
    def check(self) -> None:
        """Raises: PoisonedError where a flush failed, so that nothing may be appended; GoneError, as a MappedFile's."""

    @abstractmethod
    def appended(self, offset: int) -> None:
        """Bytes were appended up to an offset; returns when they are as safe as this service promises."""

    @abstractmethod
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


class FlushRealTimeService(FlushService):
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
        self.services = [self._service]

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


class CommitRealTimeService(FlushService):
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
        self.services = [*flushing.services, self._service]

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


class GroupCommitService(FlushService):
    """Flushes for all who wait, together, in the thread of one of them; what was answered survives a power cut.

    What is flushed when it is made needs no sync.
    """

    def __init__(
        self,
        queue: MappedFileQueue,
        flushed: Callable[[], None] = lambda: None,
        concerns: set[str] | None = None,
    ) -> None:
        self._queue = queue
        self._flushed = flushed
        self._guard = queue.guard
        self._group = CommitGroup(self._guard, queue.flushed_where)
        queue.flush_by(self._group)
        self.services: list[Service] = []
        self._concerns = set[str]() if concerns is None else concerns
        self._gone: GoneError | None = None

    def check(self) -> None:
        """Raises: PoisonedError; GoneError."""
        self._guard.check()
        if self._gone is not None:
            raise GoneError(f"nothing more is appended: {self._gone}") from self._gone

    def appended(self, offset: int) -> None:
        """Wait until all up to the offset is on the disk.

        Raises: PoisonedError; GoneError; ClosedError if the store was closed before.
        """
        try:
            with self._group.lead_or_wait(offset) as leads:
                if leads:
                    self._commit()
        except BinlogError as error:
            self._concerns.add("group commit")
            if isinstance(error, GoneError):
                self._gone = error
            self.check()
            raise
        self._flushed()
        if self._group.durable < offset:
            raise ClosedError("the store was closed before the messages were flushed")

    def stop(self) -> None:
        """Flush all; also if that fails, nobody writes to the files any more.  Raises: PoisonedError."""
        self.appended(self._queue.wrote_where)
        self.check()

    def _commit(self) -> None:
        """Write and sync all that is there, also of files that are full by now; this thread leads."""
        queue, group = self._queue, self._group
        if not queue.files:
            return
        queue.check()  # one of the reasons why this block commits
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
