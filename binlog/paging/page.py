"""A page: one file of messages.

What the compiled writers of pages and of acknowledgements tell of themselves.
"""

from __future__ import annotations

import enum
import os
import secrets
import sys
from contextlib import suppress
from typing import NamedTuple

from binlog.errors import BinlogError, FullError, NotFoundError
from binlog.format.paging.names import invalid_name, page_name
from binlog.format.paging.page_file import PAGE_HEADER, SALT_BYTES, PageHeader, PageLayout, parse_page_header
from binlog.format.paging.page_record import (
    IDENTITY_BYTES,
    JBM_PAGE_RECORD,
    NO_TRANSACTION,
    PAGE_END,
    PageEnd,
    PageMessage,
    ScanStop,
    jbm_identity,
    pack_page_end,
    page_bytes,
    parse_page_end,
    scan,
)
from binlog.format.problem import Problem, problem_of
from binlog.paging.addresses import AddressFolder, Commit
from binlog.storage.directory import OpenFile
from binlog.storage.failures import NO_SPACE, own_errors, write_failure
from binlog.storage.files import content_bytes, read_at, read_soon_at, write_at
from binlog.storage.native import AckWriter, Monitor, PageWriter

__all__ = ["AckState", "AckWriter", "PageWriter", "Refusal", "WriterState"]


class AckState(enum.IntEnum):
    """What an AckWriter knows of a message.  PENDING: a transaction that has not ended acknowledged it."""

    NONE = 0
    DONE = 1
    PENDING = 2


class Refusal(enum.IntEnum):
    """Why an AckWriter appended nothing.

    TWICE: a message was acknowledged before.  LIMIT: the page has fewer messages, as far as is known.
    FAILURE: there is no file, or a write failed.
    """

    ALREADY_ACKED = -1
    NO_SUCH_MESSAGE = -2
    FAILURE = -3


class WriterState(NamedTuple):
    """How a PageWriter is.

    at: where the last message ends.  message_bytes: of the messages alone.  failure: errno of a write that failed, 0.
    """

    offset: int
    message_count: int
    message_bytes: int
    closed: int
    failure: int


READ_BYTES = 1 << 18
# Of an empty message, in the layout that takes less.
RECORD_BYTES_MIN = JBM_PAGE_RECORD.size + 1


class Chunk(NamedTuple):
    """Messages of a page that follow one another: the number of the first, and the place behind the last.

    tx_ids: as many ids of transactions, or None where no message has one.
    """

    number: int
    messages: list[bytes]
    tx_ids: list[int] | None
    end: int


class Page:
    """A page that is written, or was.

    message_count, message_bytes: of a page to which nothing is added any more; None where nobody has looked yet.
    tx_counts: how many of its messages are of which transaction; of a page that was found, of those that were read.
    was_found: an earlier process wrote it, and it has no more messages than message_count_max.  written_by: else, and
    that knows how many it has.
    rolled_back: where the page was settled, those of its transactions that were not committed; settled_id: the record
    that says so, 0 for none.
    is_complete: all of its messages were acknowledged, and it goes.
    problem: what is wrong with the file; all before that is read.
    """

    def __init__(self, folder: AddressFolder, page_id: int, header: PageHeader | None) -> None:
        self.folder = folder
        self.page_id = page_id
        self._directory = folder.directory
        self._name = page_name(page_id)
        self.path = folder.directory.file_path(self._name)
        self.header = header
        self.writer: PageWriter | None = None
        self.message_count: int | None = None
        self.message_bytes = 0
        self.tx_counts: dict[int, int] = {}
        self.rolled_back: frozenset[int] | None = None
        self.marker_id = 0
        self.problem: Problem | None = None
        self._fd = -1
        self._read_file: OpenFile | None = None
        self._end: int | None = None
        self.message_count_max = 0
        self.written_by: PageWriter | None = None
        self.was_found = False
        self._name_is_durable = False
        self.is_complete = False
        self._is_removed = False
        self._syncing = Monitor()
        self._reading = Monitor()

    @classmethod
    def create(cls, folder: AddressFolder, page_id: int, page_bytes: int) -> Page:
        """A new page to write to; its name is durable with its first `sync`.  Raises: FullError; AccessError."""
        salt = _new_salt() if folder.layout is PageLayout.NATIVE else b""
        page = cls(folder, page_id, PageHeader(page_id, salt))
        assert page.header is not None
        page._fd = folder.directory.create(page._name)
        try:
            if header := page.header.pack():
                write_at(page._fd, header, 0, page.path)
            room = page_bytes - (PAGE_END.size if salt else 0)
            page.writer = page.written_by = PageWriter(page._fd, page_id, salt, page.header.size, room)
        except BaseException:
            page._close_written()
            folder.directory.remove(page._name)
            raise
        return page

    @classmethod
    def open_existing(cls, folder: AddressFolder, page_id: int) -> Page:
        """A page that a process before this one wrote.

        What is wrong with its header, or with what ends it, is its `problem`; without a header no message is in it.
        Raises: AccessError.
        """
        page = cls(folder, page_id, None)
        try:
            with page._reading:
                page._read_header_and_end(page._open())
        finally:
            page.close_reader()
        page.was_found = True
        return page

    def identity(self) -> bytes:
        """What tells this page from another of its number, for the files beside it: the salt, if it has one.

        A page of JBoss Messaging's has none: then a hash of its first message, for a page that JBoss Messaging made
        later may have the same number.  Raises: AccessError.
        """
        if self.header is not None and self.header.salt:
            return self.header.salt
        try:
            return jbm_identity(self._directory.read(self._name, IDENTITY_BYTES))
        except NotFoundError:
            return bytes(SALT_BYTES)

    def _read_header_and_end(self, fd: int) -> None:
        """Read how it begins and ends."""
        size = content_bytes(fd)
        start = read_at(fd, PAGE_HEADER.size, 0, self.path)
        try:
            self.header = parse_page_header(start, self.page_id, self.path, self.folder.layout)
        except BinlogError as error:
            self.problem = problem_of(error, self.path)
        if self.header is None or size == self.header.size:
            self.message_count, self._end = 0, size
            if self.problem is None and size > len(start) and not _only_zeros(fd, 0, self.path):
                text = "zeros stand where its header was, and nothing of it is read"
                self.problem = Problem(self.path, 0, "header", text)
            return
        self.message_count_max = size // RECORD_BYTES_MIN
        end_at = max(size - PAGE_END.size, 0)
        end = parse_page_end(read_at(fd, PAGE_END.size, end_at, self.path), self.header, end_at)
        if end is None:
            return
        if page_bytes(self.header, end) == end_at:
            self.message_count, self.message_bytes = end
            self.message_count_max, self._end = end.message_count, end_at
        else:
            # Not believed: as many bytes of memory are taken as there are messages.
            text = f"it says that it has {end.message_count} messages of {end.message_bytes} bytes, and its length not"
            self.problem = Problem(self.path, end_at, "page_end", text)

    @property
    def is_open(self) -> bool:
        """Whether messages can be added to it."""
        return self.writer is not None

    def state(self) -> WriterState:
        """How far it is written.  It is open."""
        assert self.writer is not None
        return WriterState(*self.writer.state())

    def close(self) -> None:
        """Add nothing more.  Waits for who adds.  Raises: PoisonedError; AccessError."""
        if self.writer is None:
            return
        assert self.header is not None
        state = WriterState(*self.writer.close())
        end = PageEnd(state.message_count, state.message_bytes)
        self.message_count, self.message_bytes, self._end = *end, state.offset
        data = pack_page_end(end, self.header, state.offset)
        try:
            if data:
                write_at(self._fd, data, state.offset, self.path)
        except FullError:
            with suppress(FullError):  # a page without it, or with a part, is as good, but takes longer to look at
                self._truncate(state.offset)
        finally:
            self.writer = None  # from here on who syncs it closes the file

    def _truncate(self, offset: int) -> None:
        """Leave nothing behind a place.  Raises: FullError, on some file systems; AccessError."""
        with own_errors(self.path, "cutting off what was not written"):
            os.ftruncate(self._fd, offset)

    def clear_failed_write(self) -> None:
        """Forget what a failed write may have left, and go on.

        Raises: FullError where there was no room; PoisonedError, and then nothing may be added any more.
        """
        assert self.writer is not None
        state = self.state()
        if not state.failure:
            return
        if state.failure in NO_SPACE:
            self._truncate(state.offset)
            self.writer.clear_failure()
        raise write_failure(state.failure, self.path)

    def sync(self, commit: Commit | None = None) -> None:
        """Have all messages that were added be on the disk, and the page's name.

        commit: as of `AddressFolder.sync_file`; called last, unless nothing is to be synced.
        Raises: PoisonedError.
        """
        try:
            with self._syncing:
                self._sync(commit)
        finally:
            if self._is_removed:
                self._close_removed()

    def _sync(self, commit: Commit | None) -> None:
        if self._fd < 0:
            return
        was_open = self.is_open
        if not self._is_removed:
            if not self._name_is_durable:
                self.folder.sync()
                self._name_is_durable = True
            self.folder.sync_file(self._fd, self.path, commit)
        if not was_open:
            self._close_written()

    def sync_found(self) -> None:
        """Have what an earlier process wrote be durable: it may have died before.

        Raises: AccessError; PoisonedError.
        """
        try:
            with self._reading:
                self.folder.sync_file(self._open(), self.path)
        finally:
            self.close_reader()

    def read(
        self,
        offset: int | None,
        number: int,
        *,
        bytes_max: int = READ_BYTES,
        skip: int = 0,
        count_max: int = sys.maxsize,
    ) -> Chunk | None:
        """Messages from the place `at` on, where message `number` lies; None where there is no more, for now at least.

        at: None for the first one.  bytes_max: of the file at once, where no message is larger.  skip: so many messages
        are passed over.  count_max: and no more than so many read.
        What is wrong with a page that was found is known once all of it was read.
        Raises: AccessError.
        """
        if self.header is None:
            return None
        with self._reading:
            chunk = self._read(
                self.header, self.header.size if offset is None else offset, number, bytes_max, skip, count_max
            )
        return chunk  # noqa: RET504 - outside of the block, where a signal handler that raises leaves no lock behind

    def _read(
        self, header: PageHeader, offset: int, number: int, bytes_max: int, skip: int, count_max: int
    ) -> Chunk | None:
        fd = self._open()
        while (left := self._left(offset)) is None or left > 0:
            size = bytes_max if left is None else min(bytes_max, left)
            data = read_soon_at(fd, size, offset, self.path)
            scanned = scan(data, offset, header.salt, skip=skip, count_max=count_max)
            offset += scanned.consumed
            number += scanned.skipped
            skip -= scanned.skipped
            if scanned.messages:
                return Chunk(number, scanned.messages, scanned.tx_ids, offset)
            if scanned.consumed:
                continue
            if scanned.stop != ScanStop.SHORT or len(data) < size or size == left:
                self._end_scan(fd, offset, number, scanned.stop)
                return None
            bytes_max *= 4  # a message that is larger
        return None

    def _left(self, offset: int) -> int | None:
        """How many bytes there are to be read from a place on; None where only reading can tell."""
        writer = self.writer  # it may be closed meanwhile
        end = WriterState(*writer.state()).offset if writer is not None else self._end
        return None if end is None else end - offset

    def _end_scan(self, fd: int, offset: int, number: int, stop: int) -> None:
        """Nothing more can be read from there on: it is the page's end, or what a crash left, or damage."""
        assert self.header is not None
        is_torn = stop == ScanStop.SHORT and self.header.layout is PageLayout.NATIVE
        if stop != ScanStop.END and not is_torn and not _only_zeros(fd, offset, self.path):
            text = f"message {number} is not what was written; nothing from there on is read"
            self.problem = Problem(self.path, offset, "page_record", text)
        elif self.message_count is not None and self.message_count != number:
            text = f"the page says that it has {self.message_count} messages, and {number} are there"
            self.problem = Problem(self.path, offset, "page_end", text)
        self._end = offset
        self.message_count = number

    def count(self) -> int:
        """How many messages it has now.  One of which nobody knows is read.  Raises: AccessError; NotFoundError."""
        writer = self.writer  # it may be closed meanwhile
        if writer is not None:
            return WriterState(*writer.state()).message_count
        if self.message_count is None:
            offset, number = None, 0
            while chunk := self.read(offset, number):
                offset, number = chunk.end, chunk.number + len(chunk.messages)
            self.close_reader()
        return self.message_count or 0

    def messages(self) -> list[PageMessage]:
        """All messages.  Raises: AccessError."""
        result: list[PageMessage] = []
        offset = None
        while chunk := self.read(offset, len(result)):
            ids = chunk.tx_ids or [NO_TRANSACTION] * len(chunk.messages)
            result.extend(map(PageMessage, chunk.messages, ids))
            offset = chunk.end
        return result

    def delete(self) -> None:
        """Remove the file; one with damage gets another name, and stays.  Not durable before the folder is synced.

        Raises: AccessError.
        """
        if self.problem is None:
            self._directory.remove(self._name)
        else:
            self.folder.quarantine(self._name, invalid_name(self.page_id), self.path)
        self._is_removed = True
        self.close_reader()
        self._close_removed()

    def _close_removed(self) -> None:
        """Close what a page that was removed is written by.  If a thread is syncing it, that does it after the sync."""
        if not self._syncing.held:  # one that begins to sync it after that finds that it has gone
            self.close_writer_file()

    def close_reader(self) -> None:
        """Close what it is read by; it is opened again where it is needed.  Waits for who reads."""
        with self._reading:
            self._read_file = None

    def _open(self) -> int:
        """What it is read by: not what it is written by, which is closed once all is synced."""
        if self._read_file is None:
            if self._is_removed:
                raise NotFoundError(f"{self.path} was removed")
            self._read_file = OpenFile(self._directory, self._name, writable=False)
        return self._read_file.fd

    def close_writer_file(self) -> None:
        """Close what it was written by, where no sync did: nothing is synced any more."""
        with self._syncing:
            self._close_written()

    def _close_written(self) -> None:
        fd, self._fd = self._fd, -1
        self._directory.close_file(fd)

    def __repr__(self) -> str:
        return f"<Page {self.path}>"


def _new_salt() -> bytes:
    while not any(salt := secrets.token_bytes(SALT_BYTES)):
        pass  # zeros stand for none
    return salt


def _only_zeros(fd: int, offset: int, path: str) -> bool:
    while data := read_at(fd, READ_BYTES, offset, path):
        if any(data):
            return False
        offset += len(data)
    return True
