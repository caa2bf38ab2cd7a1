"""What was acknowledged of one page: marks in memory, and a file beside the page.

An acknowledgement is written before it is told of, so that it survives the process; it is durable with the next `sync`.

Invariants
- While the file is not open all that is in it is durable.
- Once a sync, or a write that had room, has failed, nothing is added in all of the folder.

Files of which only so many are open at once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from binlog.errors import BinlogError, ClosedError, GoneError, NotFoundError, StateError
from binlog.format.paging.acks_file import ACKS_HEADER, Ack, FoundAcks, pack_acks_header, parse_acks
from binlog.format.paging.names import acks_name, invalid_acks_name
from binlog.format.paging.page_file import PageLayout
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.problem import Problem
from binlog.paging.addresses import AddressFolder, Commit
from binlog.paging.page import AckWriter, Mark, Page, Refusal
from binlog.paging.page_transaction import Outcome
from binlog.storage.directory import OpenFile
from binlog.storage.failures import NO_SPACE, own_errors, write_failure
from binlog.storage.files import content_bytes, read_at, write_at
from binlog.storage.native import Monitor, fork_generation


class Parked(Protocol):
    """A file that can be closed for a while."""

    def park(self) -> None: ...


class OpenFiles:
    """Those that are open, in the order in which they were opened."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._open: deque[Parked] = deque()

    def opened(self, file: Parked) -> None:
        """One more is open."""
        self._open.append(file)

    def closed(self, file: Parked) -> None:
        """One is not any more."""
        with suppress(ValueError):
            self._open.remove(file)

    def limit(self) -> None:
        """Park those that were opened first, where there are too many.  Raises: as `park`.

        Nobody calls this who keeps another one from being parked.
        """
        while len(self._open) > self._count_max:
            with suppress(IndexError):
                self._open.popleft().park()


class PageAcks:
    """The acknowledgements of a page.

    tx_counts: for each transaction, how many acknowledgements in the file are its.  pending: those of transactions that
    an earlier process prepared.  problems: what is wrong with the file; a message whose acknowledgement cannot be read
    counts as not acknowledged.
    """

    def __init__(self, page: Page, outcome: Callable[[int], Outcome], open_files: OpenFiles) -> None:
        """Those in the file are counted, but of transactions that were not committed.  outcome: of these.

        open_files: where it is while it is open.  Raises: AccessError; FullError; PoisonedError.
        """
        self.page = page
        self.tx_counts: dict[int, int] = {}
        self.pending: list[Ack] = []
        self.problems: list[Problem] = []
        self._folder = page.folder
        self._guard = page.folder.guard
        self._directory = page.folder.directory
        self._name = acks_name(page.page_id)
        self._path = self._directory.file_path(self._name)
        self._salt = page.identity()
        self._message_count = page.message_count_max if page.message_count is None else page.message_count
        self._writer = AckWriter(self._salt)
        self._append = self._writer.append
        self._open_files = open_files
        self._mutex = Monitor()
        self._generation = fork_generation()
        self._is_there = False
        self._fd = -1
        self._is_named = False
        self._synced_at = 0
        self._end: BinlogError | None = None
        self._load(outcome)

    @property
    def done_count(self) -> int:
        """Messages that were acknowledged, or are to be left out."""
        return self._writer.state()[1]

    def marks(self, number: int, count: int) -> bytes:
        """What is known of messages that follow one another: a Mark for each."""
        return self._writer.marks(number, count)

    def add(self, number: int, count: int, tx_id: int = NO_TRANSACTION) -> int:
        """Acknowledge messages that follow one another, and give `done_count`.

        Of a transaction they are only marked as such: `finish` is to follow.
        Raises: StateError where one was acknowledged before; ValueError where the page has no such message; FullError;
        PoisonedError; AccessError; ClosedError; GoneError.
        """
        done = self._append(number, count, tx_id) if self._guard.failure is None else Refusal.FAILURE
        if done < 0:
            if fork_generation() != self._generation:
                raise StateError(f"{self._path} is the parent process's")
            with self._folder.change:
                done = self._append_slowly(number, count, tx_id)
        if tx_id != NO_TRANSACTION:
            self.tx_counts[tx_id] = self.tx_counts.get(tx_id, 0) + 1
        return done

    def _append_slowly(self, number: int, count: int, tx_id: int) -> int:
        with self._mutex:
            self._mend()
            done = self._append(number, count, tx_id)
            if done == Refusal.FAILURE:
                self._mend()
        self._open_files.limit()
        if done == Refusal.TWICE:
            raise StateError(
                f"of the messages {number} to {number + count - 1} of {self.page} one was acknowledged before"
            )
        if done < 0:
            raise ValueError(f"{self.page} has no messages {number} to {number + count - 1}")
        return done

    def finish(self, number: int, count: int, *, committed: bool) -> int:
        """A transaction has ended that acknowledged messages; give `done_count`."""
        with self._mutex:
            if self.page.was_found:
                count = max(min(count, self._message_count - number), 0)
            done = self._writer.mark(number, count, Mark.DONE if committed else Mark.NONE)
        return done  # noqa: RET504 - outside of the block, where a signal handler that raises leaves no lock behind

    def leave_out(self, number: int) -> int:
        """A message is nobody's: its transaction was not committed; give `done_count`.  Nothing is written."""
        return self._writer.mark(number, 1, Mark.DONE)

    def end(self, message_count: int) -> None:
        """The page has so many messages: acknowledgements of others, which a power cut took, count for nothing."""
        with self._mutex:
            self._message_count = message_count
            beyond = self.page.message_count_max - message_count
            if beyond > 0:
                self._writer.mark(message_count, beyond, Mark.NONE)

    def sync(self, commit: Commit | None = None) -> None:
        """Have all that was acknowledged be durable.  commit: as of `Page.sync`.

        Raises: PoisonedError, and then nothing is any more.
        """
        self._folder.check()
        with self._mutex:
            self._sync(commit)

    def park(self) -> None:
        """Close the file, until something is acknowledged again.  Raises: as `sync`."""
        with self._mutex:
            self._close_file()

    def close(self) -> None:
        """Have all be durable, close the file, and add nothing more.  Raises: as `sync`."""
        self._end_with(ClosedError(f"the paging of {self._folder.address!r} was closed"))
        try:
            self.park()
        finally:
            self._open_files.closed(self)

    def drop(self) -> None:
        """Close the file, as the page has gone, durably."""
        self._end_with(GoneError(f"{self.page} is gone"))
        with self._mutex:
            self._synced_at = self._writer.state()[0]
            self._close_descriptor()
        self._open_files.closed(self)

    def _end_with(self, error: BinlogError) -> None:
        with self._mutex:
            self._end = self._end or error
            self._writer.pause()

    def _sync(self, commit: Commit | None = None) -> None:
        at = self._writer.state()[0]
        if at == self._synced_at:
            return
        if not self._is_named:
            self._folder.sync()
            self._is_named = True
        self._folder.sync_file(self._fd, self._path, commit)
        self._synced_at = at

    def _close_file(self) -> None:
        # Before the sync: what came in between would not be in it.
        self._writer.pause()
        try:
            self._sync()
        except BinlogError:
            self._close_descriptor()
            raise
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        fd, self._fd = self._fd, -1
        self._directory.close_file(fd)

    def _load(self, outcome: Callable[[int], Outcome]) -> None:
        found = self._read() if self.page.header is not None else None
        if found is None:
            return
        self.problems += found.problems
        if found.end == 0:
            if found.problems:
                self._folder.set_aside(self._name, invalid_acks_name(self.page.page_id), self._path)
            else:
                self._directory.remove(self._name)
            return
        self._is_there = self._is_named = True  # the store has synced the names that it found
        self._synced_at = found.end
        self._use(found.end)
        for ack in found.acks:
            self._count(ack, outcome)

    def _read(self) -> FoundAcks | None:
        try:
            with OpenFile(self._directory, self._name, writable=False) as fd:
                data = read_at(fd, content_bytes(fd), 0, self._path)
                if data:
                    self._folder.sync_file(fd, self._path)  # who wrote it may have died before
        except NotFoundError:
            return None
        return parse_acks(data, self.page.page_id, self._salt, self._path)

    def _count(self, ack: Ack, outcome: Callable[[int], Outcome]) -> None:
        found = Outcome.COMMITTED
        if ack.tx_id != NO_TRANSACTION:
            self.tx_counts[ack.tx_id] = self.tx_counts.get(ack.tx_id, 0) + 1
            found = outcome(ack.tx_id)
        if found is Outcome.UNKNOWN or ack.first + ack.message_count > self._message_count:
            return
        if found is Outcome.OPEN:
            self.pending.append(ack)
        mark = Mark.PENDING if found is Outcome.OPEN else Mark.DONE
        self._writer.mark(ack.first, ack.message_count, mark)

    def _mend(self) -> None:
        """Have a file to append to, that is whole, and know how many messages the page has.  Raises: as `add`."""
        if self._end is not None:
            raise self._end
        self._folder.check()
        at, _, failure = self._writer.state()
        if failure and failure not in NO_SPACE:
            raise write_failure(failure, self._path)
        if self._fd < 0:
            self._open(at)
        elif failure:
            self._cut(self._fd, at)
            self._use(at)
        if failure:
            raise write_failure(failure, self._path)

    def _open(self, at: int) -> None:
        if self._is_there:
            fd = self._directory.open(self._name, writable=True)
            try:
                if content_bytes(fd) != at:
                    self._cut(fd, at)
            except BaseException:
                self._directory.close_file(fd)
                raise
        else:
            fd, at = self._create(), ACKS_HEADER.size
        self._fd = fd
        self._use(at)
        self._open_files.opened(self)

    def _create(self) -> int:
        fd = self._directory.create(self._name)
        try:
            write_at(fd, pack_acks_header(self.page.page_id, self._salt), 0, self._path)
        except BaseException:
            self._directory.close_file(fd)
            with suppress(BinlogError):
                self._directory.remove(self._name)
            raise
        self._is_there = True
        return fd

    def _cut(self, fd: int, at: int) -> None:
        """Remove what a crash left, or a write that failed.  Nobody appends until `_use`."""
        with own_errors(self._path, "cutting off what was not written"):
            os.ftruncate(fd, at)

    def _use(self, at: int) -> None:
        """Append from there on, as many as the page has messages."""
        self._writer.use(self._fd, at, self.page.message_count_max, self.page.written_by)


def is_made_later(page: Page) -> bool:
    """Whether JBoss Messaging made a page after one of the number was complete; its acknowledgements are another one's.

    Those of a complete page go after it.  A page of our layout is never made by another program.
    Raises: AccessError.
    """
    if page.folder.layout is not PageLayout.JBM:
        return False
    try:
        header = page.folder.directory.read(acks_name(page.page_id), ACKS_HEADER.size)
    except NotFoundError:
        return True
    return header != pack_acks_header(page.page_id, page.identity())


def remove_acks(folder: AddressFolder, page_id: int) -> None:
    """Remove the acknowledgements of a page that is gone.  Raises: AccessError."""
    folder.directory.remove(acks_name(page_id))
