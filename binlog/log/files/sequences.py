"""Which sequence number a file's first record has, where the file itself does not say."""

from __future__ import annotations

from binlog.format.log_header import LogHeader
from binlog.format.names import NUMBER_FIRST
from binlog.log.directory import LogDirectory
from binlog.log.files.header import settled_header
from binlog.log.recovery.record_walk import count_records
from binlog.storage.files import ByteSource


class RecordCounts:
    """Counts the records of another program's files, each byte once: what came since is added to what was counted."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._known: dict[int, tuple[int, int]] = {}  # number: (counted up to, records)

    def sequence_after(self, header: LogHeader, content: ByteSource) -> int:
        """The sequence number of the record that follows the file's last one."""
        before = 0 if header.ours else self._before(header.number)
        return before + self._end(header, content)

    def knows(self, header: LogHeader) -> bool:
        """Whether every record before the file can be counted: files that are gone were not another program's."""
        first = self._directory.nearest_native(header)
        return first.ours or first.number == NUMBER_FIRST

    def _before(self, number: int) -> int:
        """The records before another program's file: from the nearest file of ours, or the lowest that is there."""
        total = 0
        while self._directory.exists(number - 1):
            number -= 1
            with self._directory.log_file(number) as file:
                header = settled_header(file.content, number, file.path)
                total += self._end(header, file.content)
            if header.ours:
                break
        return total

    def _end(self, header: LogHeader, content: ByteSource) -> int:
        """Where the file's records end: as a sequence number in a file of ours, else as a count from its start."""
        start, known = header.first_offset, 0
        if header.ours:
            # Records that another program added before it closed the file are not in our count.
            start, known = header.own_tail, header.first_sequence + header.record_count
        elif header.number in self._known:
            start, known = self._known[header.number]
        more, end = count_records(content, start, header.tail, header.tail, self._directory.log_path(header.number))
        if not header.ours:
            self._known[header.number] = (end, known + more)
        return known + more


def missing_between(directory: LogDirectory, before: LogHeader, content: ByteSource, following: LogHeader) -> int:
    """How many records are missing between a file and the next one, whose first sequence number tells.

    content: the first file's.
    0 if nothing tells.  Another program's file has no numbers, so what follows a closed one is not compared with it.
    """
    if not following.ours or (before.ours and before.uuid != following.uuid):
        return 0
    if before.ours and following.first_sequence <= before.first_sequence + before.record_count:
        return 0
    if before.closed and not before.ours:
        return 0
    if following.empty and not before.closed:
        return 0  # a cutover is under way, and what is appended to the open file meanwhile has these numbers
    counts = RecordCounts(directory)
    if not counts.knows(before):
        return 0
    return max(following.first_sequence - counts.sequence_after(before, content), 0)
