"""One consume queue, as a reader in another process sees it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from binlog.commitlog.files.files_reader import FilesReader
from binlog.errors import NotFoundError
from binlog.format.commitlog.indexes import BLANK_UNIT, UNIT_BYTES, QueueUnit, parse_units

_OPEN_FILES_MAX = 2  # a reader has many queues open


class QueueReader:
    """The queue in `folder`.

    counts: whether the message of a unit may be known of by now.  A unit that lies behind those that do means nothing:
    it is being written, or zeros.
    leads_there: whether the message of a queue offset lies where a unit says.  Units behind the last one for which it
    does mean nothing either: RocketMQ leaves those of messages that it cut off.  None if the owner says what counts.
    Raises, in making one: NotFoundError where the queue is not there; AccessError.
    """

    def __init__(
        self,
        folder: str,
        counts: Callable[[QueueUnit], bool],
        leads_there: Callable[[int, QueueUnit], bool] | None = None,
    ) -> None:
        self._files = FilesReader(folder, open_max=_OPEN_FILES_MAX)
        self._counts = counts
        self._leads_there = leads_there
        self._left: tuple[int, int] = (0, 0)  # the last units that mean nothing: from where to before where

    def indexes(self, log_start: int) -> range:
        """The queue offsets of its messages that lie in the commit log, which begins at `log_start`."""
        self._files.refresh()
        start, stop = self._files.min_offset // UNIT_BYTES, self._stop()
        return range(self.index_of(range(start, stop), log_start), stop)

    def _stop(self) -> int:
        """Behind which queue offset no unit means anything."""
        all_ = range(self._files.min_offset // UNIT_BYTES, self._files.end // UNIT_BYTES)
        stop = all_.start + bisect_left(all_, True, key=lambda index: not self._counted(index, 1))
        if self._leads_there is None:
            return stop
        end = stop
        while stop > all_.start:
            if self._left == (stop, end):
                return stop  # as the last time: nothing more was put
            (unit,) = self._counted(stop - 1, 1)
            if unit == BLANK_UNIT or self._leads_there(stop - 1, unit):
                break
            stop -= 1
        self._left = (stop, end)
        return stop

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
        found = self._counted(index, count)
        if found and self._leads_there is not None and not self._leads_there(index + len(found) - 1, found[-1]):
            # The last one may also be damaged, and others follow.
            del found[max(self._stop() - index, 0) :]
        return found

    def _counted(self, index: int, count: int) -> list[QueueUnit]:
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
