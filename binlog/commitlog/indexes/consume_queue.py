"""Consume queues: for each queue of a topic, an index of its messages by queue offset.

A consume queue is built from the commit log, and can be rebuilt.  Invariant: the unit of queue offset n is at byte
20 * n, so a unit that is dispatched twice has the same place, and stays as it is.

The queues of a store have a folder for each topic, and in it a folder for each queue.
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

_RECOVERED_FILES = 3  # as in RocketMQ: earlier files were flushed long ago
_BLANKS_AT_ONCE = 4096
_AHEAD_BYTES = 1 << 16  # most of many queues have few messages, and RocketMQ's files have 6 MB
_READ_BYTES = 4096 * UNIT_BYTES


class ConsumeQueue:
    """The consume queue in a folder, in files of `units_in_file` units.

    min_index: the queue offset of the first message that is still in the commit log.
    """

    def __init__(self, files: FilePool, folder: str, units_in_file: int = UNITS_IN_FILE) -> None:
        self.min_index = 0
        self.files = MappedFileQueue(folder, units_in_file * UNIT_BYTES, ahead_bytes=_AHEAD_BYTES, files=files)

    @property
    def max_index(self) -> int:
        """Return the queue offset of the next message."""
        return self.files.max_offset // UNIT_BYTES

    def load(self) -> None:
        """Open the files; `recover` then finds the end of their units."""
        self.files.load()

    def put(self, index: int, units: bytes) -> None:
        """Add units with queue offsets from `index` on, except those that the queue has already.

        Raises: CorruptError if units before them are missing; AccessError, FullError, PoisonedError.
        """
        if not self.files.files:
            self._begin(index)
        known = self.max_index - index
        if known < 0:
            path = self.files.folder
            raise CorruptError(
                path, index * UNIT_BYTES, "index", f"the next unit must be {self.max_index}, not {index}"
            )
        data = memoryview(units)[known * UNIT_BYTES :]
        while data:
            file = self.files.last_file()
            part = data[: file.file_bytes - file.wrote]
            file.append(part)
            data = data[len(part) :]

    def _begin(self, index: int) -> None:
        """Create the first file, with blank units before the first unit."""
        file = self.files.last_file(index * UNIT_BYTES)
        missing = index - file.offset // UNIT_BYTES
        while missing > 0:
            count = min(missing, _BLANKS_AT_ONCE)
            file.append(BLANK_UNIT.pack() * count)
            missing -= count
        self.min_index = index

    def read(self, index: int, count: int) -> bytes:
        """Read up to `count` packed units from a queue offset on; none if the queue has none there."""
        parts = []
        while count > 0 and (file := self.files.find(index * UNIT_BYTES)) is not None:
            try:
                part = file.read(count * UNIT_BYTES, index * UNIT_BYTES - file.offset)
            except GoneError:
                break  # retention is removing it, with all of its messages
            if not part:
                break
            parts.append(part)
            index += len(part) // UNIT_BYTES
            count -= len(part) // UNIT_BYTES
        return b"".join(parts)

    def unit(self, index: int) -> QueueUnit | None:
        """Return the unit at a queue offset, or None if there is none."""
        data = self.read(index, 1)
        return parse_unit(data) if data else None

    def find_by_time(self, store_ms: int, stored: Callable[[QueueUnit], int]) -> int:
        """Return the queue offset of the first message stored at a time or later; of the last if there is none.

        stored: returns the store time of a message, in milliseconds since 1970 UTC.  0 if the queue has no messages.
        """
        return find_by_time(range(self.min_index, self.max_index), self.unit, store_ms, stored)

    def recover(self, replay_from: int | None = None) -> int:
        """End the queue after its last valid unit; return the end of that message in the commit log, 0 if none.

        replay_from: after a crash, the start of the messages in the commit log that will be dispatched again.  Their
        units are dropped, because the disk may have only a part of them.
        """
        end = 0
        for file in self._files_to_recover(replay_from):
            count, end = _count_units(file, replay_from, end)
            if count * UNIT_BYTES < file.file_bytes:
                self.files.truncate(file.offset + count * UNIT_BYTES)
                break
        return end

    def _files_to_recover(self, replay_from: int | None) -> tuple[MappedFile, ...]:
        """Return the last files, and those before them with units to drop."""
        files = self.files.files
        first = max(len(files) - _RECOVERED_FILES, 0)
        while replay_from is not None and first and parse_unit(files[first].read(UNIT_BYTES, 0)).offset >= replay_from:
            first -= 1
        return files[first:]

    def truncate(self, log_end: int, matches_log: Callable[[int, QueueUnit], bool] = lambda index, unit: True) -> None:
        """Drop the last units, until one whose message is before the end of the commit log.

        matches_log: whether the message with a queue offset is where its unit says.  Units for which it is not are
        dropped too: a power cut may leave half of a unit.
        """
        index = self.max_index
        while index > self._first_index:
            unit = self.unit(index - 1)
            if unit is None or _is_blank(unit):
                break
            if unit.offset + unit.message_bytes <= log_end and matches_log(index - 1, unit):
                break
            index -= 1
        self.cut(index)

    def cut(self, index: int) -> None:
        """Drop all units from a queue offset on."""
        if index < self.max_index:
            self.files.truncate(index * UNIT_BYTES)

    def clear(self) -> None:
        """Remove all files, to rebuild the queue from the commit log."""
        self.files.clear()
        self.min_index = 0

    def correct_min_index(self, log_start: int) -> None:
        """Start the queue at the first message that is still in the commit log, which starts at `log_start`."""
        indexes = range(self._first_index, self.max_index)
        found = bisect_left(indexes, log_start, key=self._log_offset)
        self.min_index = self._first_index + found

    def _log_offset(self, index: int) -> int:
        try:
            unit = self.unit(index)
        except GoneError:
            return -1  # its file was removed, and so was its message
        return -1 if unit is None or _is_blank(unit) else unit.offset

    def remove_files(self, log_start: int) -> int:
        """Remove files that have no message in the commit log any more; return how many were removed.

        Files that are not flushed stay, because flushing resumes at its position.
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
        """Unmap the files."""
        self.files.close()


def find_by_time(
    indexes: range, unit: Callable[[int], QueueUnit | None], store_ms: int, stored: Callable[[QueueUnit], int]
) -> int:
    """Return the index of the first message stored at a time or later; see `ConsumeQueue.find_by_time`."""

    def stored_at(index: int) -> int:
        found = unit(index)
        # A reader's queue may lose its first units meanwhile: their messages are older than all others.
        return -1 if found is None else stored(found)

    found = bisect_left(indexes, store_ms, key=stored_at)
    return indexes[min(found, len(indexes) - 1)] if indexes else 0


def _is_blank(unit: QueueUnit) -> bool:
    return unit == BLANK_UNIT


def _count_units(file: MappedFile, replay_from: int | None, end: int) -> tuple[int, int]:
    """Count the valid units of a file, and find the end of their last message in the commit log.

    end: of the last message of the files before.
    """
    count = 0
    for start in range(0, file.file_bytes, _READ_BYTES):
        for unit in parse_units(file.read(_READ_BYTES, start)):
            if unit.offset < 0 or unit.message_bytes <= 0:
                return count, end
            if not _is_blank(unit):
                # Units are in the order of the log.  If a power cut tore a unit, its offset may be 0.
                if unit.offset < end or (replay_from is not None and unit.offset >= replay_from):
                    return count, end
                end = unit.offset + unit.message_bytes
            count += 1
    return count, end


def _last_log_offset(file: MappedFile) -> int:
    return parse_unit(file.read(UNIT_BYTES, file.file_bytes - UNIT_BYTES)).offset


def list_queues(folder: str, topic: str | None = None) -> list[tuple[str, int]]:
    """Return topic and id of each queue with a folder in this one, of one topic or of all.  Raises: AccessError."""
    topics = [name for name in (list_folder(folder) if topic is None else [topic]) if is_topic(name)]
    found = [(name, queue) for name in topics for queue in list_folder(os.path.join(folder, name))]
    return sorted((name, int(queue)) for name, queue in found if is_queue_name(queue))


class ConsumeQueues:
    """The consume queues of a store.  Any thread may get one; one thread at a time may create one."""

    def __init__(self, files: FilePool, folder: str, units_in_file: int = UNITS_IN_FILE) -> None:
        self._files = files
        self._folder = folder
        self._units_in_file = units_in_file
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._mutex = threading.Lock()

    def load(self) -> None:
        """Open the queues that have folders.  Raises: CorruptError if a file has another size."""
        for topic, queue_id in list_queues(self._path):
            self.get_or_create(topic, queue_id).load()

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue, or None if it never had a message."""
        return self._queues.get((topic, queue_id))

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue, creating its folder if it is missing.

        Raises: CorruptError for an invalid topic, which only bytes that were not validated can contain.
        """
        found = self._queues.get((topic, queue_id))
        if found is not None:
            return found
        if not is_topic(topic) or queue_id < 0:
            raise CorruptError(
                self._path, 0, "topic", f"the topic {topic!r} with queue {queue_id} cannot have a folder"
            )
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
        """Return the topic, the id and the queue of each."""
        return list(self._queues.items())

    def close(self) -> None:
        """Unmap all files."""
        for queue in self:
            queue.close()
