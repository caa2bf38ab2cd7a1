"""What was acknowledged of one page: bits in memory, and a file beside the page.

An acknowledgement is written before it is told of, so that it survives the process; it is durable with the next `sync`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from binlog.errors import BinlogError, FullError, NotFoundError, StateError
from binlog.format.paging.acks_file import ACK_RECORD, ACKS_HEADER, Ack, pack_ack, pack_acks_header, parse_acks
from binlog.format.paging.names import acks_name
from binlog.format.paging.page_file import SALT_BYTES
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.paging.addresses import AddressFolder
from binlog.paging.page import Page
from binlog.paging.transactions import Outcome
from binlog.storage.files import content_bytes, create_file, open_file, read_at, remove_file, sync, write_at


class PageAcks:
    """The acknowledgements of a page.

    done_count: messages that were acknowledged, or are to be left out.  tx_counts: for each transaction, how many
    acknowledgements in the file are its.  pending: those of transactions that an earlier process prepared.
    """

    def __init__(self, page: Page, outcome: Callable[[int], Outcome]) -> None:
        """Those of the page's file are counted, but those of transactions that were not committed.  outcome: of these.

        Raises: AccessError; FullError.
        """
        self.page = page
        self.done_count = 0
        self.tx_counts: dict[int, int] = {}
        self.pending: list[Ack] = []
        self._bits = bytearray()
        self._mutex = threading.Lock()
        self._fd = -1
        self._at = 0
        self._named = True
        self._failure: BinlogError | None = None
        self._salt = (page.header.salt if page.header else b"") or bytes(SALT_BYTES)
        self._path = os.path.join(page.folder.path, acks_name(page.page_id))
        self._load(outcome)

    def is_done(self, number: int) -> bool:
        """Whether a message was acknowledged."""
        return number < len(self._bits) and bool(self._bits[number])

    def add(self, number: int, count: int, tx_id: int = NO_TRANSACTION) -> int:
        """Acknowledge messages that follow one another, and give `done_count`.

        Of a transaction they are only marked as such: `finish` is to follow.
        Raises: StateError where one was acknowledged before; FullError; PoisonedError; AccessError.
        """
        with self._mutex:
            bits = self._bits
            if len(bits) < number + count:
                bits.extend(bytes(number + count - len(bits) + 1024))
            if any(bits[number : number + count]):
                raise StateError(
                    f"a message of {number} to {number + count - 1} of {self.page} was acknowledged before"
                )
            self._write(Ack(number, count, tx_id))
            if tx_id == NO_TRANSACTION:
                self.done_count += count
                bits[number : number + count] = b"\1" * count
            else:
                self.tx_counts[tx_id] = self.tx_counts.get(tx_id, 0) + 1
                bits[number : number + count] = b"\2" * count
            return self.done_count

    def finish(self, number: int, count: int, *, committed: bool) -> int:
        """A transaction has ended that acknowledged messages; give `done_count`."""
        with self._mutex:
            self._bits[number : number + count] = (b"\1" if committed else b"\0") * count
            if committed:
                self.done_count += count
            return self.done_count

    def leave_out(self, number: int) -> int:
        """A message is nobody's: its transaction was not committed; give `done_count`.  Nothing is written."""
        with self._mutex:
            if len(self._bits) <= number:
                self._bits.extend(bytes(number + 1 - len(self._bits)))
            if not self._bits[number]:
                self._bits[number] = 1
                self.done_count += 1
            return self.done_count

    def sync(self) -> None:
        """Have all that was acknowledged be durable.  Raises: PoisonedError."""
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
                self._failure = error
                raise

    def close(self) -> None:
        """Close the file."""
        with self._mutex:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def _load(self, outcome: Callable[[int], Outcome]) -> None:
        folder = self.page.folder
        name = acks_name(self.page.page_id)
        try:
            fd = open_file(folder.directory_fd, name, self._path, writable=True)
        except NotFoundError:
            return
        acks, end = parse_acks(read_at(fd, content_bytes(fd), 0, self._path), self.page.page_id, self._salt)
        self._fd = fd
        if end == 0:
            self._begin()
        else:
            os.ftruncate(fd, end)  # what a crash left of the last one
            self._at = end
        number_max = self.page.message_count_max
        for ack in acks:
            found = Outcome.COMMITTED
            if ack.tx_id != NO_TRANSACTION:
                self.tx_counts[ack.tx_id] = self.tx_counts.get(ack.tx_id, 0) + 1
                found = outcome(ack.tx_id)
            if found is not Outcome.UNKNOWN and ack.first + ack.message_count <= number_max:
                self._mark(ack, found)

    def _mark(self, ack: Ack, outcome: Outcome) -> None:
        stop = ack.first + ack.message_count
        if len(self._bits) < stop:
            self._bits.extend(bytes(stop - len(self._bits)))
        if outcome is Outcome.OPEN:
            self._bits[ack.first : stop] = b"\2" * ack.message_count
            self.pending.append(ack)
        else:
            self.done_count += ack.message_count - self._bits.count(1, ack.first, stop)
            self._bits[ack.first : stop] = b"\1" * ack.message_count

    def _write(self, ack: Ack) -> None:
        self._check()
        if self._fd < 0:
            folder = self.page.folder
            self._fd = create_file(folder.directory_fd, acks_name(self.page.page_id), self._path, mode=None)
            self._named = False
            self._begin()
        data = pack_ack(ack, self._salt, self._at)
        try:
            write_at(self._fd, data, self._at, self._path)
        except BinlogError as error:
            if not isinstance(error, FullError):
                self._failure = error
            raise
        self._at += ACK_RECORD.size

    def _begin(self) -> None:
        os.ftruncate(self._fd, 0)
        write_at(self._fd, pack_acks_header(self.page.page_id, self._salt), 0, self._path)
        self._at = ACKS_HEADER.size

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def remove_acks(folder: AddressFolder, page_id: int) -> None:
    """Remove the acknowledgements of a page that is gone, durably.  Raises: AccessError."""
    remove_file(folder.directory_fd, acks_name(page_id), os.path.join(folder.path, acks_name(page_id)))
