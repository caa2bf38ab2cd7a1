"""What was acknowledged of one page: marks in memory, and a file beside the page.

An acknowledgement is written before it is told of, so that it survives the process; it is durable with the next `sync`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial

from binlog.errors import BinlogError, NotFoundError, StateError
from binlog.format.paging.acks_file import ACKS_HEADER, Ack, pack_acks_header, parse_acks
from binlog.format.paging.names import acks_name
from binlog.format.paging.page_file import SALT_BYTES
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.paging.addresses import AddressFolder
from binlog.paging.page import Page
from binlog.paging.transactions import Outcome
from binlog.paging.uninterrupted import uninterrupted
from binlog.storage.failures import NO_SPACE, own_errors, write_failure
from binlog.storage.files import content_bytes, create_file, open_file, read_at, remove_file, sync, write_at
from binlog.storage.native import fork_generation
from binlog.storage.page_records import AckWriter, Mark, Refusal


class PageAcks:
    """The acknowledgements of a page.

    tx_counts: for each transaction, how many acknowledgements in the file are its.  pending: those of transactions that
    an earlier process prepared.
    """

    def __init__(self, page: Page, outcome: Callable[[int], Outcome]) -> None:
        """Those in the file are counted, but of transactions that were not committed.  outcome: of these.

        Raises: AccessError; FullError.
        """
        self.page = page
        self.tx_counts: dict[int, int] = {}
        self.pending: list[Ack] = []
        self._salt = (page.header.salt if page.header else b"") or bytes(SALT_BYTES)
        self._writer = AckWriter(self._salt)
        self._append = self._writer.append
        self._mutex = threading.Lock()
        self._generation = fork_generation()
        self._fd = -1
        self._named = True
        self._failure: BinlogError | None = None
        self._path = os.path.join(page.folder.path, acks_name(page.page_id))
        self._load(outcome)

    @property
    def done_count(self) -> int:
        """Messages that were acknowledged, or are to be left out."""
        return self._writer.state()[1]

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was acknowledged."""
        return self._fd < 0 and not self.done_count

    def marks(self, number: int, count: int) -> bytes:
        """What is known of messages that follow one another: a Mark for each."""
        return self._writer.marks(number, count)

    def add(self, number: int, count: int, tx_id: int = NO_TRANSACTION) -> int:
        """Acknowledge messages that follow one another, and give `done_count`.

        Of a transaction they are only marked as such: `finish` is to follow.
        Raises: StateError where one was acknowledged before; ValueError where the page has no such message; FullError;
        PoisonedError; AccessError.
        """
        done = self._append(number, count, tx_id)
        if done < 0:
            if fork_generation() != self._generation:
                raise StateError(f"{self._path} is the parent process's")
            done = uninterrupted(partial(self._append_slowly, number, count, tx_id))
        if tx_id != NO_TRANSACTION:
            self.tx_counts[tx_id] = self.tx_counts.get(tx_id, 0) + 1
        return done

    def _append_slowly(self, number: int, count: int, tx_id: int) -> int:
        with self._mutex:
            self._mend()
            done = self._append(number, count, tx_id)
            if done == Refusal.FAILURE:
                self._mend()
        if done == Refusal.TWICE:
            raise StateError(
                f"of the messages {number} to {number + count - 1} of {self.page} one was acknowledged before"
            )
        if done < 0:
            raise ValueError(f"{self.page} has no messages {number} to {number + count - 1}")
        return done

    def finish(self, number: int, count: int, *, committed: bool) -> int:
        """A transaction has ended that acknowledged messages; give `done_count`."""
        return self._writer.mark(number, count, Mark.DONE if committed else Mark.NONE)

    def leave_out(self, number: int) -> int:
        """A message is nobody's: its transaction was not committed; give `done_count`.  Nothing is written."""
        return self._writer.mark(number, 1, Mark.DONE)

    def end(self, message_count: int) -> None:
        """The page has so many messages: acknowledgements of others, which a power cut took, count for nothing."""
        beyond = self.page.message_count_max - message_count
        if beyond > 0:
            self._writer.mark(message_count, beyond, Mark.NONE)

    def sync(self) -> None:
        """Have all that was acknowledged be durable.  Raises: PoisonedError, and then nothing is any more."""
        uninterrupted(self._sync)

    def _sync(self) -> None:
        with self._mutex:
            if self._fd < 0:
                return
            self._check()
            try:
                sync(self._fd, self._path)
                if not self._named:
                    self.page.folder.sync()
                    self._named = True
            except BinlogError as error:
                self._fail(error)
                raise

    def close(self) -> None:
        """Close the file."""
        with self._mutex:
            self._writer.use(-1, 0, 0, None)
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def _load(self, outcome: Callable[[int], Outcome]) -> None:
        folder = self.page.folder
        name = acks_name(self.page.page_id)
        try:
            self._fd = fd = open_file(folder.directory_fd, name, self._path, writable=True)
        except NotFoundError:
            return
        acks, end = parse_acks(read_at(fd, content_bytes(fd), 0, self._path), self.page.page_id, self._salt)
        if end == 0:
            end = self._begin()
        with own_errors(self._path, "cutting off what a crash left"):
            os.ftruncate(fd, end)
        self._use(end)
        for ack in acks:
            found = Outcome.COMMITTED
            if ack.tx_id != NO_TRANSACTION:
                self.tx_counts[ack.tx_id] = self.tx_counts.get(ack.tx_id, 0) + 1
                found = outcome(ack.tx_id)
            if found is Outcome.UNKNOWN or ack.first + ack.message_count > self.page.message_count_max:
                continue
            if found is Outcome.OPEN:
                self.pending.append(ack)
            mark = Mark.PENDING if found is Outcome.OPEN else Mark.DONE
            self._writer.mark(ack.first, ack.message_count, mark)

    def _mend(self) -> None:
        """Have a file to append to, that is whole, and know how many messages the page has.  Raises: as `add`."""
        self._check()
        at, _, failure = self._writer.state()
        if self._fd < 0:
            folder = self.page.folder
            self._fd = create_file(folder.directory_fd, acks_name(self.page.page_id), self._path, mode=None)
            self._named = False
            self._use(self._begin())
        elif failure in NO_SPACE:
            # Nobody appends until `use` was called.
            with own_errors(self._path, "cutting off what was not written"):
                os.ftruncate(self._fd, at)
            self._use(at)
        elif failure:
            self._fail(write_failure(failure, self._path))
        if failure:
            raise write_failure(failure, self._path)

    def _use(self, at: int) -> None:
        """Append from there on, as many as the page has messages."""
        self._writer.use(self._fd, at, self.page.message_count_max, self.page.written_by)

    def _begin(self) -> int:
        with own_errors(self._path, "beginning a file"):
            os.ftruncate(self._fd, 0)
        write_at(self._fd, pack_acks_header(self.page.page_id, self._salt), 0, self._path)
        return ACKS_HEADER.size

    def _fail(self, error: BinlogError) -> None:
        self._failure = error
        self._writer.use(-1, 0, 0, None)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def remove_acks(folder: AddressFolder, page_id: int) -> None:
    """Remove the acknowledgements of a page that is gone.  Raises: AccessError."""
    remove_file(folder.directory_fd, acks_name(page_id), os.path.join(folder.path, acks_name(page_id)))
