"""One consume queue, as a reader in another process sees it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from binlog.commitlog.files_reader import FilesReader
from binlog.errors import NotFoundError
from binlog.format.commitlog.consume_queue import BLANK_UNIT, UNIT_BYTES, QueueUnit, parse_units


class QueueReader:
    """The queue in `folder`.

    counts: whether the message of a unit may be known of by now.  A unit that lies behind those that do means nothing:
    it is being written, or zeros.
    Raises, in making one: NotFoundError where the queue is not there; AccessError.
    """

    def __init__(self, folder: str, counts: Callable[[QueueUnit], bool]) -> None:
        self._files = FilesReader(folder)
        self._counts = counts

    def indexes(self, log_start: int) -> range:
        """The queue offsets of its messages that lie in the commit log, which begins at `log_start`."""
        self._files.refresh()
        all_ = range(self._files.min_offset // UNIT_BYTES, self._files.end // UNIT_BYTES)
        stop = all_.start + bisect_left(all_, True, key=lambda index: self.unit(index) is None)
        return range(self.index_of(range(all_.start, stop), log_start), stop)

    def index_of(self, indexes: range, offset: int) -> int:
        """Which of these queue offsets is the first whose message lies at an offset of the commit log or behind it."""
        return indexes.start + bisect_left(indexes, offset, key=self._log_offset)

    def _log_offset(self, index: int) -> int:
        unit = self.unit(index)
        return -1 if unit is None or unit == BLANK_UNIT else unit.offset

    def unit(self, index: int) -> QueueUnit | None:
        """The unit of a queue offset; None where it has none."""
        found = self.units(index, 1)
        return found[0] if found else None

    def units(self, index: int, count: int) -> list[QueueUnit]:
        """Up to so many units from a queue offset on, of one file."""
        found = []
        for unit in parse_units(self.packed_units(index, count)):
            if not self._counts(unit):
                break
            found.append(unit)
        return found

    def packed_units(self, index: int, count: int) -> bytes:
        """The same as they lie in the file, whether they count or not."""
        try:
            data = self._files.read(count * UNIT_BYTES, index * UNIT_BYTES)
        except NotFoundError:
            return b""
        return data[: len(data) // UNIT_BYTES * UNIT_BYTES]

    def close(self) -> None:
        """Give its descriptors back."""
        self._files.close()
