"""A page: one file of messages."""

from __future__ import annotations

import enum
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
from binlog.storage.failures import NO_SPACE, write_failure
from binlog.storage.files import content_bytes, read_at, read_cached_at, truncate, write_at
from binlog.storage.native import AckWriter, Monitor, PageWriter

__all__ = ["AckState", "AckWriter", "PageWriter", "Refusal", "WriterState"]


class AckState(enum.IntEnum):
    """The acknowledgement state of a message, as an AckWriter knows it.

    PENDING: acknowledged in a transaction that is still open.
    """

    NONE = 0
    DONE = 1
    PENDING = 2


class Refusal(enum.IntEnum):
    """The reason why an AckWriter appended nothing.

    ALREADY_ACKED: a message was acknowledged before.  NO_SUCH_MESSAGE: the page has fewer messages, as far as is known.
    FAILURE: no file is attached, or a write failed.
    """

    ALREADY_ACKED = -1
    NO_SUCH_MESSAGE = -2
    FAILURE = -3


class WriterState(NamedTuple):
    """The state of a PageWriter.

    offset: the end of the last message.  message_bytes: bytes of the messages alone.  failure: errno of a failed write,
    or 0.
    """

    offset: int
    message_count: int
    message_bytes: int
    closed: int
    failure: int


READ_BYTES = 1 << 18
# The size of an empty message, in the smaller layout.
RECORD_BYTES_MIN = JBM_PAGE_RECORD.size + 1


class Chunk(NamedTuple):
    """Consecutive messages of a page.

    number: of the first message.  tx_ids: the transaction of each message, or None if no message has one.  end: the
    offset after the last message.
    """

    number: int
    messages: list[bytes]
    tx_ids: list[int] | None
    end: int


class Page:
    """A page that is being written, or was.

    message_count, message_bytes: set once the page is closed; the count is None until it is known.
    tx_counts: how many messages belong to each transaction; for a page of an earlier process, among the messages read
    so far.
    was_found: an earlier process wrote the page; it has at most message_count_max messages.  written_by: the writer of
    any other page, which knows the count.
    rolled_back: the transactions of the page that were not committed, if it has a commit marker.  marker_id: the id of
    the record with the marker, or 0.
    is_complete: all messages were acknowledged, and the page is being removed.
    problem: damage of the file; all messages before it are read.
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
        """Create a new page; the first `sync` makes its name durable.  Raises: FullError; AccessError."""
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
        """Open a page that an earlier process wrote.

        A bad header or page end becomes its `problem`.  Without a header the page has no messages.
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
        """Return the salt of the page, which tells the files beside it from those of another page with the same number.

        A page of JBoss Messaging has no salt, and JBoss Messaging may later create another page with the same number.
        So its identity is a hash of its first message.  Raises: AccessError.
        """
        if self.header is not None and self.header.salt:
            return self.header.salt
        try:
            return jbm_identity(self._directory.read(self._name, IDENTITY_BYTES))
        except NotFoundError:
            return bytes(SALT_BYTES)

    def _read_header_and_end(self, fd: int) -> None:
        """Read the header and the end of the page."""
        size = content_bytes(fd)
        start = read_at(fd, PAGE_HEADER.size, 0, self.path)
        try:
            self.header = parse_page_header(start, self.page_id, self.path, self.folder.layout)
        except BinlogError as error:
            self.problem = problem_of(error, self.path)
        if self.header is None or size == self.header.size:
            self.message_count, self._end = 0, size
            if self.problem is None and size > len(start) and not _only_zeros(fd, 0, self.path):
                text = "the header is all zeros, so no messages are read"
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
            # Do not trust it: each message takes a byte of memory.
            claim = f"{end.message_count} messages of {end.message_bytes} bytes"
            text = f"its end claims {claim}, but the file has another size"
            self.problem = Problem(self.path, end_at, "page_end", text)

    @property
    def is_open(self) -> bool:
        """Whether messages can be added."""
        return self.writer is not None

    def state(self) -> WriterState:
        """Return the state of the page's writer; the page is open."""
        assert self.writer is not None
        return WriterState(*self.writer.state())

    def close(self) -> None:
        """Add no more messages, after waiting for running appends.  Raises: PoisonedError; AccessError."""
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
            with suppress(
                FullError
            ):  # a page without its end, or with a part of it, is as good, but takes longer to open
                self._truncate(state.offset)
        finally:
            self.writer = None  # from now on the next sync closes the file

    def _truncate(self, offset: int) -> None:
        """Truncate the file.  Raises: FullError, on some file systems; AccessError."""
        truncate(self._fd, offset, self.path)

    def clear_failed_write(self) -> None:
        """Remove the remains of a failed write, so that appends can continue.

        Raises: FullError if the disk was full; PoisonedError, after which nothing can be added.
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
        """Make all messages that were added durable, and the name of the page.

        commit: as in `AddressFolder.sync_file`; called last, and only if there is something to sync.
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
        """Make the page of an earlier process durable: that process may have died before its sync.

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
        """Read messages from this offset on, where message `number` starts; return None if there are no more for now.

        offset: None for the start of the page.  bytes_max: how much to read at once, unless a message is larger.  skip:
        the number of messages to skip.  count_max: the maximum number of messages to return.  Damage of a page of an
        earlier process is known once all of it was read.
        Raises: AccessError.
        """
        if self.header is None:
            return None
        with self._reading:
            chunk = self._read(
                self.header, self.header.size if offset is None else offset, number, bytes_max, skip, count_max
            )
        return chunk  # noqa: RET504 - outside of the block, where a signal handler that raises leaves no lock held

    def _read(
        self, header: PageHeader, offset: int, number: int, bytes_max: int, skip: int, count_max: int
    ) -> Chunk | None:
        fd = self._open()
        while (left := self._left(offset)) is None or left > 0:
            size = bytes_max if left is None else min(bytes_max, left)
            data = read_cached_at(fd, size, offset, self.path)
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
            bytes_max *= 4  # a larger message
        return None

    def _left(self, offset: int) -> int | None:
        """Return how many bytes can be read after an offset, or None if only reading can find out."""
        writer = self.writer  # another thread may close it
        end = WriterState(*writer.state()).offset if writer is not None else self._end
        return None if end is None else end - offset

    def _end_scan(self, fd: int, offset: int, number: int, stop: int) -> None:
        """Record why nothing can be read after this offset: the page's end, the remains of a crash, or damage."""
        assert self.header is not None
        is_torn = stop == ScanStop.SHORT and self.header.layout is PageLayout.NATIVE
        if stop != ScanStop.END and not is_torn and not _only_zeros(fd, offset, self.path):
            text = f"message {number} is damaged; no messages from here on are read"
            self.problem = Problem(self.path, offset, "page_record", text)
        elif self.message_count is not None and self.message_count != number:
            text = f"the page end claims {self.message_count} messages, but {number} were found"
            self.problem = Problem(self.path, offset, "page_end", text)
        self._end = offset
        self.message_count = number

    def count(self) -> int:
        """Return how many messages the page has now; read it if the count is not known.

        Raises: AccessError; NotFoundError.
        """
        writer = self.writer  # another thread may close it
        if writer is not None:
            return WriterState(*writer.state()).message_count
        if self.message_count is None:
            offset, number = None, 0
            while chunk := self.read(offset, number):
                offset, number = chunk.end, chunk.number + len(chunk.messages)
            self.close_reader()
        return self.message_count or 0

    def messages(self) -> list[PageMessage]:
        """Return all messages.  Raises: AccessError."""
        result: list[PageMessage] = []
        offset = None
        while chunk := self.read(offset, len(result)):
            ids = chunk.tx_ids or [NO_TRANSACTION] * len(chunk.messages)
            result.extend(map(PageMessage, chunk.messages, ids))
            offset = chunk.end
        return result

    def delete(self) -> None:
        """Remove the file, or move it to quarantine if it is damaged.  Durable after the next sync of the folder.

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
        """Close the writer's descriptor of a removed page.  If a thread is syncing the page, that thread closes it."""
        if not self._syncing.held:  # a sync that starts later finds that the page was removed
            self.close_writer_file()

    def close_reader(self) -> None:
        """Close the reader's descriptor, after waiting for running reads; the next read opens it again."""
        with self._reading:
            self._read_file = None

    def _open(self) -> int:
        """Return the reader's descriptor; the writer's is another one, which is closed after the last sync."""
        if self._read_file is None:
            if self._is_removed:
                raise NotFoundError(f"{self.path} was removed")
            self._read_file = OpenFile(self._directory, self._name, writable=False)
        return self._read_file.fd

    def close_writer_file(self) -> None:
        """Close the writer's descriptor if no sync will do so."""
        with self._syncing:
            self._close_written()

    def _close_written(self) -> None:
        fd, self._fd = self._fd, -1
        self._directory.close_file(fd)

    def __repr__(self) -> str:
        return f"<Page {self.path}>"


def _new_salt() -> bytes:
    while not any(salt := secrets.token_bytes(SALT_BYTES)):
        pass  # zeros mean no salt
    return salt


def _only_zeros(fd: int, offset: int, path: str) -> bool:
    while data := read_at(fd, READ_BYTES, offset, path):
        if any(data):
            return False
        offset += len(data)
    return True
