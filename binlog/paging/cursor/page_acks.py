"""The acknowledgements of one page: states in memory, and a file beside the page.

An acknowledgement is written before it is reported, so it survives the process.  The next `sync` makes it durable.

Invariants
- While the file is closed, all of its contents are durable.
- After a failed sync, or a write that failed for another reason than a full disk, nothing is added in the whole folder.
"""

from __future__ import annotations

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
from binlog.paging.page import AckState, AckWriter, Page, Refusal
from binlog.paging.page_transaction import Outcome
from binlog.storage.directory import OpenFile
from binlog.storage.failures import NO_SPACE, write_failure
from binlog.storage.files import content_bytes, read_at, truncate, write_at
from binlog.storage.native import Monitor, fork_generation


class Closable(Protocol):
    """A file that can be closed, and is opened again when it is needed."""

    def close_file(self) -> None: ...


class OpenAckFiles:
    """Limits how many files are open, and closes the ones that were opened first."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._open: deque[Closable] = deque()

    def opened(self, file: Closable) -> None:
        """Note that a file is open."""
        self._open.append(file)

    def closed(self, file: Closable) -> None:
        """Note that a file is closed."""
        with suppress(ValueError):
            self._open.remove(file)

    def close_excess(self) -> None:
        """Close the files that were opened first if too many are open.  Raises: as `close_file`.

        The caller must not hold a lock that `close_file` of another file needs.
        """
        while len(self._open) > self._count_max:
            with suppress(IndexError):
                self._open.popleft().close_file()


class PageAcks:
    """The acknowledgements of a page.

    tx_counts: how many acknowledgements in the file belong to each transaction.  pending: acknowledgements of
    transactions that an earlier process prepared.  problems: damage of the file; if an acknowledgement cannot be read,
    its message counts as not acknowledged.
    """

    def __init__(self, page: Page, outcome: Callable[[int], Outcome], open_files: OpenAckFiles) -> None:
        """Load the acknowledgements in the file, except those of transactions that were not committed.

        outcome: returns the outcome of a transaction.  open_files: tracks the file while it is open.
        Raises: AccessError; FullError; PoisonedError.
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
        self._exists = False
        self._fd = -1
        self._name_is_durable = False
        self._synced_at = 0
        self._end_error: BinlogError | None = None
        self._load(outcome)

    @property
    def done_count(self) -> int:
        """The number of messages that were acknowledged or skipped."""
        return self._writer.state()[1]

    def states(self, number: int, count: int) -> bytes:
        """Return the states of consecutive messages, one AckState for each."""
        return self._writer.states(number, count)

    def add(self, number: int, count: int, tx_id: int = NO_TRANSACTION) -> int:
        """Acknowledge consecutive messages, and return `done_count`.

        With a transaction they only become PENDING; the caller calls `resolve` when it has ended.
        Raises: StateError if one of them was acknowledged before; ValueError if the page has no such message;
        FullError; PoisonedError; AccessError; ClosedError; GoneError.
        """
        done = self._append(number, count, tx_id) if self._guard.failure is None else Refusal.FAILURE
        if done < 0:
            if fork_generation() != self._generation:
                raise StateError(f"{self._path} belongs to the parent process; open the paging in this one")
            with self._folder.change:
                done = self._append_slowly(number, count, tx_id)
        if tx_id != NO_TRANSACTION:
            self.tx_counts[tx_id] = self.tx_counts.get(tx_id, 0) + 1
        return done

    def _append_slowly(self, number: int, count: int, tx_id: int) -> int:
        with self._mutex:
            self._ensure_writable()
            done = self._append(number, count, tx_id)
            if done == Refusal.FAILURE:
                self._ensure_writable()
        self._open_files.close_excess()
        if done == Refusal.ALREADY_ACKED:
            raise StateError(
                f"at least one of the messages {number} to {number + count - 1} of {self.page} was acknowledged before"
            )
        if done < 0:
            raise ValueError(f"{self.page} has no messages {number} to {number + count - 1}")
        return done

    def resolve(self, number: int, count: int, *, committed: bool) -> int:
        """Set the final state of messages whose transaction has ended, and return `done_count`."""
        with self._mutex:
            if self.page.was_found:
                count = max(min(count, self._message_count - number), 0)
            done = self._writer.set_state(number, count, AckState.DONE if committed else AckState.NONE)
        return done  # noqa: RET504 - outside of the block, where a signal handler that raises leaves no lock held

    def skip(self, number: int) -> int:
        """Skip a message whose transaction was not committed, and return `done_count`.  Nothing is written."""
        return self._writer.set_state(number, 1, AckState.DONE)

    def set_message_count(self, message_count: int) -> None:
        """Set the number of messages in the page; forget acknowledgements of messages that a power cut took."""
        with self._mutex:
            self._message_count = message_count
            beyond = self.page.message_count_max - message_count
            if beyond > 0:
                self._writer.set_state(message_count, beyond, AckState.NONE)

    def sync(self, commit: Commit | None = None) -> None:
        """Make all acknowledgements durable.  commit: as in `Page.sync`.

        Raises: PoisonedError, after which none becomes durable.
        """
        self._folder.check()
        with self._mutex:
            self._sync(commit)

    def close_file(self) -> None:
        """Sync and close the file until the next acknowledgement.  Raises: as `sync`."""
        with self._mutex:
            self._close_synced()

    def close(self) -> None:
        """Make everything durable, close the file, and refuse further acknowledgements.  Raises: as `sync`."""
        self._end_with(ClosedError(f"the paging of {self._folder.address!r} is closed"))
        try:
            self.close_file()
        finally:
            self._open_files.closed(self)

    def discard(self) -> None:
        """Close the file without a sync, because the page was removed durably."""
        self._end_with(GoneError(f"{self.page} was removed"))
        with self._mutex:
            self._synced_at = self._writer.state()[0]
            self._close_descriptor()
        self._open_files.closed(self)

    def _end_with(self, error: BinlogError) -> None:
        with self._mutex:
            self._end_error = self._end_error or error
            self._writer.detach()

    def _sync(self, commit: Commit | None = None) -> None:
        offset = self._writer.state()[0]
        if offset == self._synced_at:
            return
        if not self._name_is_durable:
            self._folder.sync()
            self._name_is_durable = True
        self._folder.sync_file(self._fd, self._path, commit)
        self._synced_at = offset

    def _close_synced(self) -> None:
        # Before the sync, which would miss a later append.
        self._writer.detach()
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
                self._folder.quarantine(self._name, invalid_acks_name(self.page.page_id), self._path)
            else:
                self._directory.remove(self._name)
            return
        self._exists = self._name_is_durable = True  # the store has synced the names of existing files
        self._synced_at = found.end
        self._attach(found.end)
        for ack in found.acks:
            self._count(ack, outcome)

    def _read(self) -> FoundAcks | None:
        try:
            with OpenFile(self._directory, self._name, writable=False) as fd:
                data = read_at(fd, content_bytes(fd), 0, self._path)
                if data:
                    self._folder.sync_file(fd, self._path)  # the process that wrote it may have died before its sync
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
        set_state = AckState.PENDING if found is Outcome.OPEN else AckState.DONE
        self._writer.set_state(ack.first, ack.message_count, set_state)

    def _ensure_writable(self) -> None:
        """Open the file, or repair it after a failed write, and update the message count.  Raises: as `add`."""
        if self._end_error is not None:
            raise self._end_error
        self._folder.check()
        offset, _, failure = self._writer.state()
        if failure and failure not in NO_SPACE:
            raise write_failure(failure, self._path)
        if self._fd < 0:
            self._open(offset)
        elif failure:
            self._truncate(self._fd, offset)
            self._attach(offset)
        if failure:
            raise write_failure(failure, self._path)

    def _open(self, offset: int) -> None:
        if self._exists:
            fd = self._directory.open(self._name, writable=True)
            try:
                if content_bytes(fd) != offset:
                    self._truncate(fd, offset)
            except BaseException:
                self._directory.close_file(fd)
                raise
        else:
            fd, offset = self._create(), ACKS_HEADER.size
        self._fd = fd
        self._attach(offset)
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
        self._exists = True
        return fd

    def _truncate(self, fd: int, offset: int) -> None:
        """Remove the remains of a crash or of a failed write.  Nothing is appended until `_attach`."""
        truncate(fd, offset, self._path)

    def _attach(self, offset: int) -> None:
        """Append from this offset on, for as many messages as the page has."""
        self._writer.attach(self._fd, offset, self.page.message_count_max, self.page.written_by)


def is_newer_page(page: Page) -> bool:
    """Whether JBoss Messaging has created the page after another one with this number was complete.

    If so, the acknowledgements belong to the earlier page: the acknowledgements of a complete page are removed after
    it.  No other program creates pages of our layout.
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
    """Remove the acknowledgements of a page that was removed.  Raises: AccessError."""
    folder.directory.remove(acks_name(page_id))
