"""A consume queue: which messages one queue of a topic has, by their queue offsets.

It is made from the commit log, and can be made again.  Invariant: the unit of queue offset n lies at 20 * n, so a unit
that is told again is known by its place, and left as it is.

All consume queues of a store: a folder for each topic, and in it one for each queue.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator

from binlog.commitlog.files.mapped_file import MappedFile
from binlog.commitlog.files.mapped_file_queue import MappedFileQueue
from binlog.errors import CorruptError, GoneError
from binlog.format.commitlog.indexes import (
    BLANK_UNIT,
    UNIT_BYTES,
    UNITS_IN_FILE,
    QueueUnit,
    parse_unit,
    parse_units,
)
from binlog.format.commitlog.names import is_queue_name, is_topic
from binlog.storage.file_pool import FilePool
from binlog.storage.files import list_folder

_FILES_LOOKED_AT = 3  # by recovery, as in RocketMQ: those before were flushed long ago
_BLANKS_AT_ONCE = 4096
_AHEAD_BYTES = 1 << 16  # most queues of many have few messages, and RocketMQ's files are of 6 MB
_LOOKED_AT_BYTES = 4096 * UNIT_BYTES


class ConsumeQueue:
    """The queue in a folder, in files of so many units.

    min_index: the queue offset of the first message that is still in the commit log.
    """

    def __init__(self, files: FilePool, folder: str, units_in_file: int = UNITS_IN_FILE) -> None:
        self.min_index = 0
        self.files = MappedFileQueue(folder, units_in_file * UNIT_BYTES, ahead_bytes=_AHEAD_BYTES, files=files)

    @property
    def max_index(self) -> int:
        """The queue offset of the message that comes next."""
        return self.files.max_offset // UNIT_BYTES

    def load(self) -> None:
        """Open what is there; `recover` says how much of it counts."""
        self.files.load()

    def put(self, index: int, units: bytes) -> None:
        """Add units whose queue offsets are `index` and those after it; those that are there already are left out.

        Raises: CorruptError where units before them are missing; AccessError, FullError, PoisonedError.
        """
        if not self.files.files:
            self._begin(index)
        known = self.max_index - index
        if known < 0:
            path = self.files.folder
            raise CorruptError(path, index * UNIT_BYTES, "index", f"unit {index} comes after {self.max_index}")
        data = memoryview(units)[known * UNIT_BYTES :]
        while data:
            file = self.files.last_file()
            part = data[: file.file_bytes - file.wrote]
            file.append(part)
            data = data[len(part) :]

    def _begin(self, index: int) -> None:
        """Make the first file, with blanks before the first unit."""
        file = self.files.last_file(index * UNIT_BYTES)
        missing = index - file.offset // UNIT_BYTES
        while missing > 0:
            count = min(missing, _BLANKS_AT_ONCE)
            file.append(BLANK_UNIT.pack() * count)
            missing -= count
        self.min_index = index

    def read(self, index: int, count: int) -> bytes:
        """Up to so many units from a queue offset on, as they lie there; none where it has none."""
        parts = []
        while count > 0 and (file := self.files.find(index * UNIT_BYTES)) is not None:
            try:
                part = file.read(count * UNIT_BYTES, index * UNIT_BYTES - file.offset)
            except GoneError:
                break  # it is being removed, with all its messages
            if not part:
                break
            parts.append(part)
            index += len(part) // UNIT_BYTES
            count -= len(part) // UNIT_BYTES
        return b"".join(parts)

    def unit(self, index: int) -> QueueUnit | None:
        """The unit of a queue offset, or None where there is none."""
        data = self.read(index, 1)
        return parse_unit(data) if data else None

    def find_by_time(self, store_ms: int, stored: Callable[[QueueUnit], int]) -> int:
        """The queue offset of the first message stored at a time or after it; the last one's, where all are before it.

        stored: when a message was stored, in milliseconds since 1970 UTC.  0 for a queue without messages.
        """
        return find_by_time(range(self.min_index, self.max_index), self.unit, store_ms, stored)

    def recover(self, told_from: int | None = None) -> int:
        """Have the queue end where its units do; where in the commit log its last message ends, 0 without one.

        told_from: after a crash, where in the commit log the messages begin of which the queue is told again.  Their
        units are left out, for they may not be on the disk, and not be as they were.
        """
        end = 0
        for file in self._files_to_look_at(told_from):
            count, end = _count_units(file, told_from, end)
            if count * UNIT_BYTES < file.file_bytes:
                self.files.truncate(file.offset + count * UNIT_BYTES)
                break
        return end

    def _files_to_look_at(self, told_from: int | None) -> tuple[MappedFile, ...]:
        """The last ones, and those before them that have units to leave out."""
        files = self.files.files
        first = max(len(files) - _FILES_LOOKED_AT, 0)
        while told_from is not None and first and parse_unit(files[first].read(UNIT_BYTES, 0)).offset >= told_from:
            first -= 1
        return files[first:]

    def truncate(self, log_end: int, leads_there: Callable[[int, QueueUnit], bool] = lambda index, unit: True) -> None:
        """Leave out all units from the first one on whose message begins at or behind the commit log's end.

        leads_there: whether the message of a queue offset lies where a unit says.  The last units are left out for
        which it does not: after a power cut there may be half of one.
        """
        index = self.max_index
        while index > self._first_index:
            unit = self.unit(index - 1)
            if unit is None or _is_blank(unit):
                break
            if unit.offset + unit.message_bytes <= log_end and leads_there(index - 1, unit):
                break
            index -= 1
        self.cut(index)

    def cut(self, index: int) -> None:
        """Remove all units from a queue offset on."""
        if index < self.max_index:
            self.files.truncate(index * UNIT_BYTES)

    def clear(self) -> None:
        """Remove all its files: it will be made anew from the commit log."""
        self.files.clear()
        self.min_index = 0

    def correct_min_index(self, log_start: int) -> None:
        """Have the queue begin with the first message that is still in the commit log, which begins at `log_start`."""
        indexes = range(self._first_index, self.max_index)
        found = bisect_left(indexes, log_start, key=self._log_offset)
        self.min_index = self._first_index + found

    def _log_offset(self, index: int) -> int:
        try:
            unit = self.unit(index)
        except GoneError:
            return -1  # its file was removed, and its message before
        return -1 if unit is None or _is_blank(unit) else unit.offset

    def remove_files(self, log_start: int) -> int:
        """Remove files all of whose messages are no more in the commit log; how many were.

        Those that are not flushed stay until they are: whoever flushes goes on where it was.
        """
        count = self.files.remove_first(
            lambda file: file.flushed_whole and _last_log_offset(file) < log_start, len(self.files.files)
        )
        self.correct_min_index(log_start)
        return count

    @property
    def _first_index(self) -> int:
        return self.files.min_offset // UNIT_BYTES

    def close(self) -> None:
        """Unmap its files."""
        self.files.close()


def find_by_time(
    indexes: range, unit: Callable[[int], QueueUnit | None], store_ms: int, stored: Callable[[QueueUnit], int]
) -> int:
    """Which index is that of the first message stored at a time or after it; see `ConsumeQueue.find_by_time`."""

    def when(index: int) -> int:
        found = unit(index)
        # A reader's queue may lose its first units meanwhile: those were stored before all others.
        return -1 if found is None else stored(found)

    found = bisect_left(indexes, store_ms, key=when)
    return indexes[min(found, len(indexes) - 1)] if indexes else 0


def _is_blank(unit: QueueUnit) -> bool:
    return unit == BLANK_UNIT


def _count_units(file: MappedFile, told_from: int | None, end: int) -> tuple[int, int]:
    """Return how many units of the file count, and where in the commit log the last of their messages ends.

    end: where the last message of the files before ends.
    """
    count = 0
    for start in range(0, file.file_bytes, _LOOKED_AT_BYTES):
        for unit in parse_units(file.read(_LOOKED_AT_BYTES, start)):
            if unit.offset < 0 or unit.message_bytes <= 0:
                return count, end
            if not _is_blank(unit):
                # Units are in the order of the log; if a power cut has left half of one, its offset may be 0.
                if unit.offset < end or (told_from is not None and unit.offset >= told_from):
                    return count, end
                end = unit.offset + unit.message_bytes
            count += 1
    return count, end


def _last_log_offset(file: MappedFile) -> int:
    return parse_unit(file.read(UNIT_BYTES, file.file_bytes - UNIT_BYTES)).offset


def list_queues(folder: str, topic: str | None = None) -> list[tuple[str, int]]:
    """The topic and id of each queue that has a folder below this one, of one topic or of all.  Raises: AccessError."""
    topics = [name for name in (list_folder(folder) if topic is None else [topic]) if is_topic(name)]
    found = [(name, queue) for name in topics for queue in list_folder(os.path.join(folder, name))]
    return sorted((name, int(queue)) for name, queue in found if is_queue_name(queue))


class ConsumeQueues:
    """The queues below a folder of a store.  Any thread may look one up; one at a time may make one."""

    def __init__(self, files: FilePool, folder: str, units_in_file: int = UNITS_IN_FILE) -> None:
        self._files = files
        self._folder = folder
        self._units_in_file = units_in_file
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._mutex = threading.Lock()

    def load(self) -> None:
        """Open those that are there.  Raises: CorruptError where a file has another size."""
        for topic, queue_id in list_queues(self._path):
            self.get_or_make(topic, queue_id).load()

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, or None where no message was ever put in it."""
        return self._queues.get((topic, queue_id))

    def get_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, whose folder is made where it is missing.

        Raises: CorruptError for what can be no topic, which only bytes that nobody checked can name.
        """
        found = self._queues.get((topic, queue_id))
        if found is not None:
            return found
        if not is_topic(topic) or queue_id < 0:
            raise CorruptError(self._path, 0, "topic", f"queue {queue_id} of the topic {topic!r} can have no folder")
        with self._mutex:
            folder = self._folder
            for name in (topic, str(queue_id)):
                folder = os.path.join(folder, name)
                self._files.directory.make_folder(folder)
            return self._queues.setdefault((topic, queue_id), ConsumeQueue(self._files, folder, self._units_in_file))

    @property
    def _path(self) -> str:
        return self._files.directory.file_path(self._folder)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def items(self) -> list[tuple[tuple[str, int], ConsumeQueue]]:
        """Each with its topic and id."""
        return list(self._queues.items())

    def close(self) -> None:
        """Unmap all files."""
        for queue in self:
            queue.close()
