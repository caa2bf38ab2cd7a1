"""Which sequence number a file's first record has, where the file itself does not say."""

from __future__ import annotations

import os

from binlog.format.log_header import LogHeader
from binlog.log.chain import walk
from binlog.log.directory import LogDirectory
from binlog.log.header_reading import settled_header


class RecordCounts:
    """Counts the records of another program's files, each byte once: what came since is added to what was counted."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._known: dict[int, tuple[int, int]] = {}  # number: (counted up to, records)

    def sequence_after(self, header: LogHeader, fd: int) -> int:
        """The sequence number of the record that follows the file's last one."""
        if header.ours:
            # Records that another program added before it closed the file are not in our count.
            path = self._directory.file_path(header.number)
            more, _ = walk(fd, header.own_tail, header.tail, header.tail, path)
            return header.first_sequence + header.record_count + more
        return self._first_sequence(header.number) + self._count(header, fd)

    def sequence_of_first(self, header: LogHeader) -> int:
        """The sequence number of the file's first record."""
        return header.first_sequence if header.ours else self._first_sequence(header.number)

    def _first_sequence(self, number: int) -> int:
        """Of another program's file: what the files before it say, from the lowest that is there."""
        if not self._directory.exists(number - 1):
            return 0
        fd = self._directory.open(number - 1)
        try:
            before = settled_header(fd, number - 1, self._directory.file_path(number - 1))
            return self.sequence_after(before, fd)
        finally:
            os.close(fd)

    def _count(self, header: LogHeader, fd: int) -> int:
        path = self._directory.file_path(header.number)
        start, known = self._known.get(header.number, (header.first_offset, 0))
        more, end = walk(fd, start, header.tail, header.tail, path)
        self._known[header.number] = (end, known + more)
        return known + more
