"""The evidence for recovery: bytes that checksums prove, and header fields that a second witness confirms.

Another program writes the status, the next number and the tail, and knows nothing of our checksums, so none can cover
these three fields.  Each is accepted only if a second witness agrees; docs/format.md numbers the rules.  A writer
corrects the header accordingly, under the lock.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable

from binlog.errors import BinlogError
from binlog.format.checksums import crc32c
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER, Flag, LogHeader, Status, parse_log_header
from binlog.format.record import OFFSET_MAX
from binlog.log.index.index import opened_index
from binlog.log.recovery.record_walk import is_blank, last_whole_record_end
from binlog.log.recovery.recovery_table import Evidence
from binlog.storage.directory import Directory
from binlog.storage.files import ByteSource, read_at, write_at

_READ_BYTES = 1 << 20


class FileEvidence:
    """The Evidence in a file, read through the page cache, a MiB at a time."""

    def __init__(self, content: ByteSource, path: str) -> None:
        self._content = content
        self._path = path

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        """Whether the bytes exist and have this CRC-32C."""
        found = 0
        while start < end:
            data = read_at(self._content, min(_READ_BYTES, end - start), start, self._path)
            if not data:
                return False
            found = crc32c(data, found)
            start += len(data)
        return found == crc

    def chain_end(self, start: int, end: int) -> int:
        """Return the end of the longest run of whole records."""
        return last_whole_record_end(self._content, start, end, self._path)

    def blank(self, start: int, end: int) -> bool:
        """Whether all bytes are zero."""
        return is_blank(self._content, start, end, self._path)

    def proven_end(self, start: int, end: int) -> int:
        """Return the end of the bytes that the index proves."""
        # Imported on use, because hardly any header needs this proof.
        from binlog.log.index.index_check import IndexCheck

        path = self._path
        try:
            header = parse_log_header(read_at(self._content, HEADER_BYTES, 0, path), path=path)
            directory = Directory(os.path.dirname(path) or os.curdir)
        except BinlogError:
            return start
        with directory, opened_index(directory, header.number) as index:
            if index is None:
                return start
            header = header._replace(tail=max(header.tail, end))
            return IndexCheck(index, self._content, header, path).proven_end(start, end)


_STATUS = LOG_HEADER.offset("status")
_TAIL = LOG_HEADER.offset("tail")
_NEXT = LOG_HEADER.offset("next_number")


class Following(enum.Enum):
    """The state of the file with the next number, according to the directory."""

    MISSING = enum.auto()
    EMPTY = enum.auto()
    IN_USE = enum.auto()  # it has records, or is closed


def believe_status(header: LogHeader, following: Callable[[], Following]) -> LogHeader:
    """Return the header with the validated status and next number.

    A file is closed if two of these three hold: its status is closed; it names the file with the next number; that file
    is in the log.  An open file may name a next file that is empty: then a cutover is in progress.
    following: called only if the header's two fields disagree.
    """
    says_closed, names_next = header.status == Status.CLOSED, header.next_number == header.number + 1
    closed = says_closed and names_next
    if says_closed and not names_next:
        closed = following() is not Following.MISSING
    elif names_next and not says_closed:
        closed = following() is Following.IN_USE
    status = Status.CLOSED if closed else Status.OPEN
    next_number = header.number + 1 if closed or names_next else 0
    if (status, next_number) == (header.status, header.next_number):
        return header
    return header._replace(status=status, next_number=next_number)


def believe_tail(header: LogHeader, evidence: Evidence, *, file_bytes: Callable[[], int], same_boot: bool) -> LogHeader:
    """Return the header, with the published tail in place of a tail that is impossible.

    The published tail has a checksum, and so have the bytes before it.  A tail before the published one is damaged if
    those bytes are valid.  A tail after it is damaged if it is beyond the end of the file, with only zeros between.
    same_boot: otherwise a power loss may have taken the end of the file, which recovery decides (row 7).
    """
    if not header.is_native or not header.live_good or header.tail == header.published_tail:
        return header
    if header.tail < header.published_tail:
        damaged = _own_holds(header, evidence)
    else:
        size = file_bytes()
        beyond = header.tail > OFFSET_MAX or (same_boot and header.tail > size)
        damaged = beyond and evidence.blank(header.published_tail, min(header.tail, size))
    return header._replace(tail=header.published_tail) if damaged else header


def is_unproven(header: LogHeader, evidence: Evidence) -> bool:
    """Whether the tail moved over zeros only, in a log with no known foreign writer.

    Prepared space is all zeros, and zeros are a chain of empty records.  So the tail is damaged, or another program
    appended its first records.  A reader stops at the published tail; a writer refuses the file.
    """
    if (
        not header.is_native
        or not header.live_good
        or header.flags & Flag.FOREIGN_WRITERS
        or header.tail <= header.published_tail
    ):
        return False
    return evidence.blank(header.published_tail, header.tail)


def _own_holds(header: LogHeader, evidence: Evidence) -> bool:
    start, end = header.confirmed_end, header.published_tail
    last = header.slot(header.confirmed_counter)
    if start < end:
        return evidence.crc_holds(start, end, header.running_crc)
    return last is not None and last.end == end and evidence.crc_holds(last.start, last.end, last.group_crc)


def heal(fd: int, found: LogHeader, believed: LogHeader, path: str) -> None:
    """Write the validated fields over those found.  The caller holds the file's lock.

    After each write the validated fields are the same as before, so a crash in between does no harm.
    """
    if believed.tail != found.tail:
        write_at(fd, believed.tail.to_bytes(8, "big"), _TAIL, path)
    if believed.next_number != found.next_number:
        write_at(fd, believed.next_number.to_bytes(4, "big"), _NEXT, path)
    if believed.status != found.status:
        write_at(fd, believed.status.to_bytes(2, "big"), _STATUS, path)
