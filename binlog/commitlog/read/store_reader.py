"""A reader of a store that another process may be writing."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from binlog.commitlog.files.files_reader import FilesReader, message_at
from binlog.commitlog.indexes.consume_queue import find_by_time, list_queues
from binlog.commitlog.indexes.key_lookup import KeyIndexReader, key_slots_of, messages_with_key
from binlog.commitlog.read.log_scan import LogEnd, LogScan
from binlog.commitlog.read.queue_reader import QueueReader
from binlog.commitlog.recovery.store_state import SidecarReader
from binlog.commitlog.recovery.survey import refuse_features
from binlog.errors import ClosedError, CorruptError, NotFoundError
from binlog.format.commitlog.indexes import BLANK_UNIT, QueueUnit
from binlog.format.commitlog.message import DAMAGED_CONTENT, StoredMessage
from binlog.format.commitlog.message_parts import TAGS, java_hash, other_queues, parse_properties
from binlog.format.commitlog.names import COMMIT_LOG_FOLDER, INDEX_FOLDER, QUEUES_FOLDER
from binlog.format.commitlog.store_files import ReaderState
from binlog.storage.directory import Directory
from binlog.storage.files import is_folder
from binlog.storage.handle import Closing

_UNITS_AT_ONCE = 256
_OPEN_QUEUES_MAX = 64
# RocketMQ has no doorbell; and an owner may die before it rings.
_POLL_SECONDS = 0.05
_POLL_SECONDS_WITH_DOORBELL = 5.0


def check_is_store(path: str) -> None:
    """Raise NotFoundError if the folder is not a store."""
    if not os.path.isdir(os.path.join(path, COMMIT_LOG_FOLDER)):
        raise NotFoundError(f"{path} is not a store: it has no folder {COMMIT_LOG_FOLDER}")


class StoreReader(Closing):
    """A reader of the store in the folder `path`.  Use it as a context manager, from one thread.

    With Flush.SYNC it sees only messages on the disk; otherwise messages in the files.  It needs no permission to
    write.  The constructor raises NotFoundError, AccessError; VersionError if it cannot read the queues of the store.
    """

    def __init__(self, path: str | os.PathLike[str], *, key_slots: int | None = None) -> None:
        """key_slots: the slots of each key index file; by default as published by the owner, or RocketMQ's default."""
        self.path = os.path.abspath(path)
        self._closed = False
        self._key_slots = key_slots
        self._index: KeyIndexReader | None = None
        self._queues: OrderedDict[tuple[str, int], QueueReader] = OrderedDict()
        self._reader_state: ReaderState | None = None
        refuse_features(self.path, reading=True)
        self._directory = Directory(self.path)
        check_is_store(self.path)
        self._log = FilesReader(os.path.join(self.path, COMMIT_LOG_FOLDER))
        self._log_end = LogEnd(self._log)
        self._end: int | None = None  # of the log, if the owner does not publish it; None until it is needed
        self._sidecar: SidecarReader | None = None
        self._refresh()

    def _refresh(self) -> None:
        """Read the published state again."""
        if self._closed:
            raise ClosedError(f"the reader of {self.path} is closed")
        self._end = None
        if self._sidecar is None:
            try:
                self._sidecar = SidecarReader(self._directory)
            except NotFoundError:
                return
        self._reader_state = self._sidecar.reader_state()

    def _readable_end(self) -> int:
        """Return the end of the readable log, as the owner published it, or else as found in the files."""
        if self._reader_state is not None:
            return self._reader_state.readable_end
        if self._end is None:
            self._end = self._log_end.find()
        return self._end

    def _is_readable(self, end: int) -> bool:
        """Return whether bytes that end at `end` may be read."""
        return (self._reader_state is None and self._log_end.is_before_last_file(end)) or end <= self._readable_end()

    def _is_unit_readable(self, unit: QueueUnit) -> bool:
        if unit.offset < 0 or unit.message_bytes <= 0:
            return False
        return unit == BLANK_UNIT or self._is_readable(unit.offset + unit.message_bytes)

    def _log_matcher(self, topic: str, queue_id: int) -> Callable[[int, QueueUnit], bool]:
        """Return a function: whether the message with a queue offset is where its unit says."""

        def matches_log(index: int, unit: QueueUnit) -> bool:
            if unit.offset < self._log_start:
                return True
            try:
                message = message_at(self._log, unit.offset)
            except NotFoundError:
                return False
            except CorruptError as error:
                return error.rule in DAMAGED_CONTENT
            if (message.topic, message.queue_id, message.queue_offset) == (topic, queue_id, index):
                return True
            return other_queues(parse_properties(message.properties)).get(topic) == str(index)

        return matches_log

    @property
    def _log_start(self) -> int:
        if self._reader_state is not None:
            return self._reader_state.log_start
        self._log.refresh()
        return self._log.min_offset

    def read(self, offset: int) -> StoredMessage:
        """Return the message at an offset of the commit log.

        Raises: NotFoundError if the offset is below all messages or above all readable ones; CorruptError if no message
        starts there.
        """
        if not self._is_readable(offset + 1):
            self._refresh()
            if not self._is_readable(offset + 1):
                raise NotFoundError(f"{self._log.folder}: no readable message at {offset}")
        return message_at(self._log, offset)

    def scan(self, offset: int | None = None) -> Iterator[StoredMessage]:
        """Yield the messages that are readable now, of all topics, in the order of the commit log.

        offset: of the first message; None for the oldest.  Messages that are removed meanwhile are skipped.
        Raises: ValueError if the offset is inside of a message; CorruptError.
        """
        self._refresh()
        scan = LogScan(self._log, self._readable_end())
        if offset is not None:
            scan.check_start(offset)
        return scan.messages(self._log_start if offset is None else offset)

    def log_range(self) -> tuple[int, int | None]:
        """Return the start of the commit log, and the end of its readable part if the owner publishes it, or None."""
        self._refresh()
        return self._log_start, None if self._reader_state is None else self._reader_state.readable_end

    def log_offset_by_time(self, store_ms: int) -> int:
        """Return the log offset of the first message stored at a time or later; the end if there is none."""
        self._refresh()
        return LogScan(self._log, self._readable_end()).offset_by_time(store_ms)

    def find(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 2**62, count: int = 64
    ) -> list[StoredMessage]:
        """Return up to `count` messages of a topic with a key, stored within these times, newest first.

        Raises: CorruptError.
        """
        self._refresh()
        index = self._key_index()
        if index is None:
            return []
        end = self._readable_end()
        # Messages after the end may not be on the disk yet, or were cut off.
        offsets = (offset for offset in index.find(topic, key, begin_ms, end_ms) if self._log_start <= offset < end)
        return messages_with_key(offsets, self.read, topic, key, begin_ms, end_ms, count)

    def _key_index(self) -> KeyIndexReader | None:
        folder = os.path.join(self.path, INDEX_FOLDER)
        if self._index is None and os.path.isdir(folder):
            self._index = KeyIndexReader(folder, key_slots_of(self._key_slots, self._reader_state))
        return self._index

    def queues(self, topic: str | None = None) -> list[tuple[str, int]]:
        """Return topic and id of each queue, of one topic or of all."""
        return list_queues(os.path.join(self.path, QUEUES_FOLDER), topic)

    def queue_range(self, topic: str, queue_id: int) -> range:
        """Return the present queue offsets of a queue; an empty range if it does not exist."""
        self._refresh()
        queue = self._queue(topic, queue_id)
        return range(0) if queue is None else queue.indexes(self._log_start)

    def pull(
        self, topic: str, queue_id: int, index: int, count: int, *, tag: str | None = None
    ) -> tuple[list[StoredMessage], int]:
        """Return the messages among the next `count` of a queue from a queue offset on, and the offset to resume at.

        tag: only messages that have it.  If the first messages were removed, it starts with the first that remains.
        Raises: CorruptError.
        """
        self._refresh()
        queue = self._queue(topic, queue_id)
        if queue is None:
            return [], index
        units = queue.units(index, count)
        if not units or units[0] == BLANK_UNIT or units[0].offset < self._log_start:
            index = max(index, queue.indexes(self._log_start).start)
            units = queue.units(index, count)
        wanted = units
        if tag is not None:
            code = java_hash(tag)
            wanted = [unit for unit in units if unit.tag_code == code or unit.is_extended]
        found = [self.read(unit.offset) for unit in wanted]
        if tag is not None:
            found = [message for message in found if parse_properties(message.properties).get(TAGS) == tag]
        return found, index + len(units)

    def follow(
        self,
        topic: str,
        queue_id: int,
        index: int | None = None,
        *,
        tag: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[StoredMessage]:
        """Yield the messages of a queue from a queue offset on, and then new ones as they are appended.

        index: None starts with the next new message.  timeout: end after this many seconds without a message.
        Blocks while there is no message.
        """
        at = self.queue_range(topic, queue_id).stop if index is None else index
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found, after = self.pull(topic, queue_id, at, _UNITS_AT_ONCE, tag=tag)
            yield from found
            if after > at:
                at = after
                deadline = None if timeout is None else time.monotonic() + timeout
                continue
            left = _POLL_SECONDS_WITH_DOORBELL if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return
            self.wait(left)

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until there may be new messages; may return earlier without any."""
        if self._sidecar is None or self._reader_state is None:
            time.sleep(min(timeout, _POLL_SECONDS))
        else:
            self._sidecar.wait(min(timeout, _POLL_SECONDS_WITH_DOORBELL))

    def find_by_time(self, topic: str, queue_id: int, store_ms: int) -> int:
        """Return the queue offset of the first message stored at a time or later; see `MessageStore.find_by_time`."""
        queue = self._queue(topic, queue_id)
        if queue is None:
            return 0
        indexes = self.queue_range(topic, queue_id)
        return find_by_time(indexes, queue.unit, store_ms, lambda unit: self.read(unit.offset).store_ms)

    def find_by_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the queue offset of the first message at or after an offset of the log; the end if there is none."""
        indexes = self.queue_range(topic, queue_id)
        queue = self._queue(topic, queue_id)
        return indexes.start if queue is None else queue.index_of(indexes, offset)

    def log_offsets(self, topic: str, queue_id: int, indexes: range) -> list[tuple[int, int]]:
        """Return queue offset and log offset of each message in a range."""
        queue = self._queue(topic, queue_id)
        found: list[tuple[int, int]] = []
        while queue is not None and indexes and (units := queue.units(indexes.start, len(indexes))):
            found += [(index, unit.offset) for index, unit in zip(indexes, units, strict=False)]
            indexes = indexes[len(units) :]
        return found

    def _queue(self, topic: str, queue_id: int) -> QueueReader | None:
        found = self._queues.get((topic, queue_id))
        if found is None:
            folder = os.path.join(self.path, QUEUES_FOLDER, topic, str(queue_id))
            if not is_folder(folder):
                return None
            found = self._queues[topic, queue_id] = QueueReader(
                folder, self._is_unit_readable, self._log_matcher(topic, queue_id)
            )
            if len(self._queues) > _OPEN_QUEUES_MAX:
                self._queues.popitem(last=False)[1].close()
        self._queues.move_to_end((topic, queue_id))
        return found

    def close(self) -> None:
        """Close the descriptors; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for queue in self._queues.values():
            queue.close()
        self._log.close()
        if self._index is not None:
            self._index.close()
        if self._sidecar is not None:
            self._sidecar.close()
        self._directory.close()
