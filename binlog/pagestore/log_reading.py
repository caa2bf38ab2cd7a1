"""Reading a log: its records from the first to the last whole one."""

from __future__ import annotations

from collections.abc import Iterator

from binlog.errors import CorruptError
from binlog.format.pagestore.log import MARK_BYTES, RECORDS_AT, LogRecord, LogStart, parse_record, said_bytes

_LOOKED_AT_TIMES = 16


class Records:
    """The records of a generation; the last one was the last that was written whole.

    data: of the whole file.  end: where the last one ends that was given.
    Raises: CorruptError where one is damaged that was on the disk when a later one was written.
    """

    def __init__(self, data: bytes, start: LogStart, path: str) -> None:
        self._data = data
        self._start = start
        self._path = path
        self.end = RECORDS_AT

    def __iter__(self) -> Iterator[LogRecord]:
        while True:
            try:
                record, end = parse_record(self._data, self.end, self._start, self._path)
            except CorruptError as error:
                if error.rule != "action" and not _is_followed(self._data, self.end, self._start, self._path):
                    return
                raise
            self.end = end
            yield record


def _is_followed(data: bytes, at: int, start: LogStart, path: str) -> bool:
    """Whether a record lies behind this place that was written when what is here was on the disk.

    Bytes that begin a record again and again, and are none, are taken for damage once looking at them takes longer than
    reading the log some times.
    """
    mark = start.salt[:MARK_BYTES]
    place, left = at, _LOOKED_AT_TIMES * len(data)
    while (place := data.find(mark, place + 1)) >= 0:
        left -= said_bytes(data, place)
        if left < 0:
            return True
        try:
            record, _ = parse_record(data, place, start, path)
        except CorruptError:
            continue
        if record.synced > at:
            return True
    return False
