"""Reading a store that another process writes, or nobody: by queue, by place, by time; and following a queue."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from binlog.commitlog.files.files_reader import FilesReader, message_at
from binlog.commitlog.indexes.consume_queue import find_by_time, list_queues
from binlog.commitlog.indexes.key_lookup import KeyIndexReader, messages_with_key, slots_of
from binlog.commitlog.read.log_scan import LogEnd, LogScan
from binlog.commitlog.read.queue_reader import QueueReader
from binlog.commitlog.recovery.store_state import SidecarReader
from binlog.commitlog.recovery.survey import refuse_features
from binlog.errors import ClosedError, CorruptError, NotFoundError
from binlog.format.commitlog.indexes import BLANK_UNIT, QueueUnit
from binlog.format.commitlog.message import DAMAGED_CONTENT, StoredMessage
from binlog.format.commitlog.message_parts import TAGS, java_hash, parse_properties
from binlog.format.commitlog.names import COMMIT_LOG_FOLDER, INDEX_FOLDER, QUEUES_FOLDER
from binlog.format.commitlog.store_files import News
from binlog.storage.directory import Directory
from binlog.storage.files import is_folder
from binlog.storage.handle import Closing

_UNITS_AT_ONCE = 256
_OPEN_QUEUES_MAX = 64
# A store that RocketMQ writes rings no bell; and an owner may die before it does.
_LOOK_SECONDS = 0.05
_LOOK_SECONDS_WITH_BELL = 5.0


def check_is_store(path: str) -> None:
    """Raise NotFoundError if the folder holds no store."""
    if not os.path.isdir(os.path.join(path, COMMIT_LOG_FOLDER)):
        raise NotFoundError(f"{path} is no store: it has no folder {COMMIT_LOG_FOLDER}")


class StoreReader(Closing):
    """The store in the folder `path`.  Use as a context manager.  For one thread.

    With sync flush it sees only what is on the disk; otherwise what is in the files.  Needs no permission to write.
    Raises: NotFoundError, AccessError; VersionError if it cannot read the store's queues.
    """

    def __init__(self, path: str | os.PathLike[str], *, key_slots: int | None = None) -> None:
        """key_slots: of each file of the key index; as the owner tells unless given, or else as RocketMQ has it."""
        self.path = os.path.abspath(path)
        self._closed = False
        self._key_slots = key_slots
        self._index: KeyIndexReader | None = None
        self._queues: OrderedDict[tuple[str, int], QueueReader] = OrderedDict()
        self._news: News | None = None
        refuse_features(self.path, reading=True)
        self._directory = Directory(self.path)
        check_is_store(self.path)
        self._log = FilesReader(os.path.join(self.path, COMMIT_LOG_FOLDER))
        self._log_end = LogEnd(self._log)
        self._end: int | None = None  # of the log, where nobody tells; None until it is needed
        self._sidecar: SidecarReader | None = None
        self._look()

    def _look(self) -> None:
        """See what is new."""
        if self._closed:
            raise ClosedError(f"the reader of {self.path} is closed")
        self._end = None
        if self._sidecar is None:
            try:
                self._sidecar = SidecarReader(self._directory)
            except NotFoundError:
                return
        self._news = self._sidecar.news()

    def _readable_end(self) -> int:
        """Up to where the log may be read, as its owner says or, if nobody does, as it is found."""
        if self._news is not None:
            return self._news.readable_end
        if self._end is None:
            self._end = self._log_end.find()
        return self._end

    def _is_readable(self, end: int) -> bool:
        """Whether what ends there may be read."""
        return (self._news is None and self._log_end.is_before_last_file(end)) or end <= self._readable_end()

    def _counts(self, unit: QueueUnit) -> bool:
        if unit.offset < 0 or unit.message_bytes <= 0:
            return False
        return unit == BLANK_UNIT or self._is_readable(unit.offset + unit.message_bytes)

    def _leads_there(self, topic: str, queue_id: int) -> Callable[[int, QueueUnit], bool]:
        """Whether the message of a queue offset lies where a unit says."""

        def leads_there(index: int, unit: QueueUnit) -> bool:
            if self._news is not None or unit.offset < self._log_start:
                return True
            try:
                message = message_at(self._log, unit.offset)
            except NotFoundError:
                return False
            except CorruptError as error:
                return error.rule in DAMAGED_CONTENT
            return (message.topic, message.queue_id, message.queue_offset) == (topic, queue_id, index)

        return leads_there

    @property
    def _log_start(self) -> int:
        if self._news is not None:
            return self._news.log_start
        self._log.refresh()
        return self._log.min_offset

    def read(self, offset: int) -> StoredMessage:
        """The message that lies at an offset of the commit log.

        Raises: NotFoundError where none is so low, or none may be read so high; CorruptError where none begins there.
        """
        if not self._is_readable(offset + 1):
            self._look()
            if not self._is_readable(offset + 1):
                raise NotFoundError(f"{self._log.folder}: no message at {offset} that may be read")
        return message_at(self._log, offset)

    def scan(self, offset: int | None = None) -> Iterator[StoredMessage]:
        """The messages that may be read now, whatever their topic, in the order of the commit log.

        offset: of the one to begin with; None for the first one that is there.  Those that are removed are left out.
        Raises: ValueError where a message lies about the offset, and not at it; CorruptError.
        """
        self._look()
        scan = LogScan(self._log, self._readable_end())
        if offset is not None:
            scan.check_place(offset)
        return scan.messages(self._log_start if offset is None else offset)

    def log_range(self) -> tuple[int, int | None]:
        """Where in the commit log its first file starts, and up to where it may be read; None where nobody tells."""
        self._look()
        return self._log_start, None if self._news is None else self._news.readable_end

    def log_offset_by_time(self, store_ms: int) -> int:
        """Where in the commit log the first message lies that was stored at a time or after it; the end, for none."""
        self._look()
        return LogScan(self._log, self._readable_end()).offset_by_time(store_ms)

    def find(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 2**62, count: int = 64
    ) -> list[StoredMessage]:
        """The messages of a topic that have a key and were stored within these times, so many at most, newest first.

        Raises: CorruptError.
        """
        self._look()
        index = self._key_index()
        if index is None:
            return []
        end = self._readable_end()
        # What lies behind is being told of just now, and may not be on the disk; or it was cut off.
        offsets = (offset for offset in index.find(topic, key, begin_ms, end_ms) if self._log_start <= offset < end)
        return messages_with_key(offsets, self.read, topic, key, begin_ms, end_ms, count)

    def _key_index(self) -> KeyIndexReader | None:
        folder = os.path.join(self.path, INDEX_FOLDER)
        if self._index is None and os.path.isdir(folder):
            self._index = KeyIndexReader(folder, slots_of(self._key_slots, self._news))
        return self._index

    def queues(self, topic: str | None = None) -> list[tuple[str, int]]:
        """The topic and the id of each queue that is there, of one topic or of all."""
        return list_queues(os.path.join(self.path, QUEUES_FOLDER), topic)

    def queue_range(self, topic: str, queue_id: int) -> range:
        """The queue offsets that a queue has now; none where it is not there."""
        self._look()
        queue = self._queue(topic, queue_id)
        return range(0) if queue is None else queue.indexes(self._log_start)

    def pull(
        self, topic: str, queue_id: int, index: int, count: int, *, tag: str | None = None
    ) -> tuple[list[StoredMessage], int]:
        """The messages among up to so many of a queue, from a queue offset on, and the queue offset to go on from.

        tag: only those that have it.  Where messages are no longer there, it goes on with the first that is.
        Raises: CorruptError.
        """
        self._look()
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
        """The messages of a queue from a queue offset on, and then those that come, as they come.

        index: None begins with what comes next.  timeout: ends once none has come for so many seconds.
        Blocks: until there is one.
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
            left = _LOOK_SECONDS_WITH_BELL if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return
            self.wait(left)

    def wait(self, timeout: float) -> None:
        """Wait until something may be new since the last look, for `timeout` seconds at most, now and then for less."""
        if self._sidecar is None or self._news is None:
            time.sleep(min(timeout, _LOOK_SECONDS))
        else:
            self._sidecar.wait(min(timeout, _LOOK_SECONDS_WITH_BELL))

    def find_by_time(self, topic: str, queue_id: int, store_ms: int) -> int:
        """The queue offset of the first message stored at a time or after it; see `MessageStore.find_by_time`."""
        queue = self._queue(topic, queue_id)
        if queue is None:
            return 0
        indexes = self.queue_range(topic, queue_id)
        return find_by_time(indexes, queue.unit, store_ms, lambda unit: self.read(unit.offset).store_ms)

    def find_by_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """The queue offset of the first message that lies at an offset of the log or behind it; the end, for none."""
        indexes = self.queue_range(topic, queue_id)
        queue = self._queue(topic, queue_id)
        return indexes.start if queue is None else queue.index_of(indexes, offset)

    def log_offsets(self, topic: str, queue_id: int, indexes: range) -> list[tuple[int, int]]:
        """The queue offset of each message of a range, and where in the commit log it lies."""
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
                folder, self._counts, self._leads_there(topic, queue_id)
            )
            if len(self._queues) > _OPEN_QUEUES_MAX:
                self._queues.popitem(last=False)[1].close()
        self._queues.move_to_end((topic, queue_id))
        return found

    def close(self) -> None:
        """Give its descriptors back; a second call does nothing."""
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
