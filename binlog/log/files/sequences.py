"""The sequence of a file's first record, if the file itself does not record it; records and files that are missing."""

from __future__ import annotations

import os
import shlex

from binlog.errors import CorruptError
from binlog.format.log_header import LOG_HEADER, LogHeader
from binlog.format.names import NUMBER_FIRST
from binlog.log.directory import LogDirectory
from binlog.log.files.header import validated_header
from binlog.log.recovery.record_walk import count_records
from binlog.storage.files import ByteSource


class RecordCounts:
    """Counts the records of another program's files, and reads each byte once: later counts add to earlier ones."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._known: dict[int, tuple[int, int]] = {}  # number: (counted up to, records)

    def sequence_after(self, header: LogHeader, content: ByteSource) -> int:
        """Return the sequence of the record after the file's last one."""
        before = 0 if header.is_native else self._before(header.number)
        return before + self._end(header, content)

    def knows(self, header: LogHeader) -> bool:
        """Whether every record before the file can be counted, because no file of another program is missing."""
        first = self._directory.nearest_native(header)
        return first.is_native or first.number == NUMBER_FIRST

    def _before(self, number: int) -> int:
        """Count the records before another program's file, from the nearest native file or the first file."""
        total = 0
        while self._directory.exists(number - 1):
            number -= 1
            with self._directory.log_file(number) as file:
                header = validated_header(file.content, number, file.path)
                total += self._end(header, file.content)
            if header.is_native:
                break
        return total

    def _end(self, header: LogHeader, content: ByteSource) -> int:
        """Return the end of the file's records: a sequence for a native file, else a count from the file's start."""
        start, known = header.first_offset, 0
        if header.is_native:
            # Our count lacks the records that another program added before it closed the file.
            start, known = header.published_tail, header.first_sequence + header.record_count
        elif header.number in self._known:
            start, known = self._known[header.number]
        more, end = count_records(content, start, header.tail, header.tail, self._directory.log_path(header.number))
        if not header.is_native:
            self._known[header.number] = (end, known + more)
        return known + more


def missing_between(directory: LogDirectory, before: LogHeader, content: ByteSource, following: LogHeader) -> int:
    """Return how many records are missing between a file and the next one, according to the next one's first sequence.

    content: of the first file.
    0 if it cannot be known.  Another program's file has no sequences, so the file after a closed one is not compared
    with it.
    """
    if not following.is_native or (before.is_native and before.uuid != following.uuid):
        return 0
    if before.is_native and following.first_sequence <= before.first_sequence + before.record_count:
        return 0
    if before.closed and not before.is_native:
        return 0
    if following.empty and not before.closed:
        return 0  # a cutover is in progress, and records appended to the open file meanwhile have these sequences
    counts = RecordCounts(directory)
    if not counts.knows(before):
        return 0
    return max(following.first_sequence - counts.sequence_after(before, content), 0)


def gap_error(path: str, number: int, missing: int) -> CorruptError:
    """Return the error for file `number`, at `path`, whose last records are missing, according to the next file's first
    sequence.
    """
    records = "1 record is" if missing == 1 else f"{missing} records are"
    text = f"{records} missing between file {number} and file {number + 1}: the two are of different moments"
    repair = f"`binlog repair {shlex.quote(os.path.dirname(path) or '.')}` puts fillers in their places"
    text = f"{text}; copy the log again with `binlog backup`, or {repair}"
    return CorruptError(path, LOG_HEADER.offset("tail"), "gap", text)


def missing_next_error(path: str, header: LogHeader) -> CorruptError:
    """Return the error for a closed file, at `path`, whose next file is missing."""
    text = f"file {header.number} is closed and leads to file {header.next_number}, which is not there"
    text = f"{text}; `binlog repair {shlex.quote(os.path.dirname(path) or '.')}` makes an empty one"
    return CorruptError(path, LOG_HEADER.offset("next_number"), "missing-next", text)
