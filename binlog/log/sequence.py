"""Which sequence number a file's first record has, where the file itself does not say."""

from __future__ import annotations

from binlog.format.log_header import LogHeader
from binlog.log.chain import walk
from binlog.log.directory import LogDirectory
from binlog.log.header_reading import settled_header
from binlog.storage.content import Content


class RecordCounts:
    """Counts the records of another program's files, each byte once: what came since is added to what was counted."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._known: dict[int, tuple[int, int]] = {}  # number: (counted up to, records)

    def sequence_after(self, header: LogHeader, fd: int) -> int:
        """The sequence number of the record that follows the file's last one."""
        before = 0 if header.ours else self._before(header.number)
        return before + self._end(header, fd)

    def _before(self, number: int) -> int:
        """The records before another program's file: from the nearest file of ours, or the lowest that is there."""
        total = 0
        while self._directory.exists(number - 1):
            number -= 1
            with self._directory.opened(number) as file:
                header = settled_header(file.content, number, file.path)
                total += self._end(header, file.content)
            if header.ours:
                break
        return total

    def _end(self, header: LogHeader, content: Content) -> int:
        """Where the file's records end: as a sequence number in a file of ours, else as a count from its start."""
        start, known = header.first_offset, 0
        if header.ours:
            # Records that another program added before it closed the file are not in our count.
            start, known = header.own_tail, header.first_sequence + header.record_count
        elif header.number in self._known:
            start, known = self._known[header.number]
        more, end = walk(content, start, header.tail, header.tail, self._directory.file_path(header.number))
        if not header.ours:
            self._known[header.number] = (end, known + more)
        return known + more
