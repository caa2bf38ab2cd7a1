"""A reader of one consume queue, for other processes than its owner."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from binlog.commitlog.files.files_reader import FilesReader
from binlog.errors import NotFoundError
from binlog.format.commitlog.indexes import BLANK_UNIT, UNIT_BYTES, QueueUnit, parse_units

_OPEN_FILES_MAX = 2  # a reader has many queues open


class QueueReader:
    """A reader of the queue in `folder`.

    is_readable: whether the message of a unit may be read by now.  Units after the last such unit are ignored: the
    owner is writing them, or they are zeros.
    matches_log: whether the message with a queue offset is where its unit says.  Units after the last one for which it
    is are ignored too: the owner is writing them, and some of their bytes are still zeros; or RocketMQ left them when
    it cut off their messages.
    The constructor raises NotFoundError if the queue does not exist; AccessError.
    """

    def __init__(
        self,
        folder: str,
        is_readable: Callable[[QueueUnit], bool],
        matches_log: Callable[[int, QueueUnit], bool],
    ) -> None:
        self._files = FilesReader(folder, open_max=_OPEN_FILES_MAX)
        self._is_readable = is_readable
        self._matches_log = matches_log
        # The ignored units at the last read: their start and end, and the first of them.
        self._ignored: tuple[int, int, QueueUnit | None] = (0, 0, None)

    def indexes(self, log_start: int) -> range:
        """Return the queue offsets of the messages in the commit log, which starts at `log_start`."""
        self._files.refresh()
        start, stop = self._files.min_offset // UNIT_BYTES, self._stop()
        return range(self.index_of(range(start, stop), log_start), stop)

    def _stop(self) -> int:
        """Return the queue offset after the last valid unit."""
        all_ = range(self._files.min_offset // UNIT_BYTES, self._files.end // UNIT_BYTES)
        stop = all_.start + bisect_left(all_, True, key=lambda index: not self._readable_units(index, 1))
        end = stop
        ignored: QueueUnit | None = None
        while stop > all_.start:
            if self._ignored == (stop, end, ignored):
                return stop  # unchanged since the last time
            unit = self.unit(stop - 1)
            if unit is not None and self._is_whole(stop - 1, unit):
                break
            stop, ignored = stop - 1, unit
        self._ignored = (stop, end, ignored)
        return stop

    def _is_whole(self, index: int, unit: QueueUnit) -> bool:
        """Return whether all bytes of a unit are written, and lead to its message.

        If some bytes are still zeros, the offset is too small: it leads to another message, or to one that was removed.
        """
        if unit == BLANK_UNIT:
            return True
        before = self.unit(index - 1)
        if before is not None and before != BLANK_UNIT and before.offset >= unit.offset:
            return False
        return self._matches_log(index, unit)

    def index_of(self, indexes: range, offset: int) -> int:
        """Return the first of these queue offsets whose message is at or after an offset of the commit log."""
        return indexes.start + bisect_left(indexes, offset, key=self._log_offset)

    def _log_offset(self, index: int) -> int:
        unit = self.unit(index)
        return -1 if unit is None or unit == BLANK_UNIT else unit.offset

    def unit(self, index: int) -> QueueUnit | None:
        """Return the unit at a queue offset; None if there is none.  Outside of `indexes`, it may be half written."""
        found = self._readable_units(index, 1) if index >= 0 else []
        return found[0] if found else None

    def units(self, index: int, count: int) -> list[QueueUnit]:
        """Return up to `count` units from a queue offset on, of one file."""
        found = self._readable_units(index, count)
        if found and not self._is_whole(index + len(found) - 1, found[-1]):
            # The message of the last unit may also be damaged, with valid ones after it.
            found = self._readable_units(index, min(count, max(self._stop() - index, 0)))
        return found

    def _readable_units(self, index: int, count: int) -> list[QueueUnit]:
        found = []
        for unit in parse_units(self.packed_units(index, count)):
            if not self._is_readable(unit):
                break
            found.append(unit)
        return found

    def packed_units(self, index: int, count: int) -> bytes:
        """Return the packed units of one file, valid or not."""
        try:
            data = self._files.read(count * UNIT_BYTES, index * UNIT_BYTES)
        except NotFoundError:
            return b""
        return data[: len(data) // UNIT_BYTES * UNIT_BYTES]

    def close(self) -> None:
        """Close the descriptors."""
        self._files.close()
