"""A reader that returns the messages of a queue as columns, many at a time."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from binlog.commitlog.indexes.consume_queue import find_by_time
from binlog.commitlog.read.store_reader import StoreReader
from binlog.errors import CorruptError, FullError, GoneError, NotFoundError
from binlog.format.commitlog.compiled import columns_of
from binlog.format.commitlog.indexes import BLANK_UNIT, UNIT_BYTES, QueueUnit, parse_unit, parse_units
from binlog.format.commitlog.message_parts import java_hash
from binlog.format.commitlog.names import DELAY_TOPIC, QUEUES_FOLDER, is_system_topic

MESSAGE_BYTES_MAX = 64 << 20
_BYTES_AT_ONCE = 1 << 20
_UNITS_AT_ONCE = 1 << 14
_SAMPLE_UNITS = 64


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Messages of one queue as columns, in buffers with the layout of Arrow arrays.

    columns: the requested ones by name.  `queue_offset`, `offset`, `prepared_offset`: int64.  `born_time`,
    `store_time`: int64, microseconds since 1970 UTC.  `flag`, `system_flag`, `reconsume_count`, `message_bytes`: int32.
    `body`, `message_id`, and `born_host`, `store_host` (for `unpack_host`): int32 bounds, and values.
    `properties`: int32 bounds for each message; bounds and values of the names; bounds and values of the values.
    A buffer may be longer than its contents.
    """

    count: int
    columns: Mapping[str, Any]


class ColumnReader(StoreReader):
    """A StoreReader that returns many messages at a time, without a Python object for each."""

    def reader_state(self) -> object:
        """Return the state that the owner published, or None.  While it is unchanged, no queue has new messages."""
        self._refresh()
        return self._reader_state

    def queues_of(self, topics: Collection[str] | None) -> list[tuple[str, int]]:
        """Return topic and id of each queue of these topics, sorted; None for all but RocketMQ's own topics."""
        wanted = (lambda topic: not is_system_topic(topic)) if topics is None else topics.__contains__
        return [(topic, queue_id) for topic, queue_id in self.queues() if wanted(topic)]

    def index_at(self, topic: str, queue_id: int, store_ms: int) -> int:
        """Return the queue offset of the first message stored at a time or later; the end of the queue if none is."""
        indexes = self.queue_range(topic, queue_id)
        queue = self._queue(topic, queue_id)
        if queue is None or not indexes:
            return indexes.stop
        index = find_by_time(indexes, queue.unit, store_ms, self._stored_ms)
        unit = queue.unit(index)
        return index + 1 if unit is not None and self._stored_ms(unit) < store_ms else index

    def _stored_ms(self, unit: QueueUnit) -> int:
        """Return the store time of a message; -1, before all others, if it was removed meanwhile."""
        try:
            return self.read(unit.offset).store_ms
        except NotFoundError:
            return -1

    def message_bytes(self, topic: str, queue_id: int, indexes: range) -> int:
        """Estimate the size of a message, from a sample."""
        queue = self._queue(topic, queue_id)
        if queue is None or not indexes:
            return 1
        some = [queue.unit(index) for index in indexes[:: max(len(indexes) // _SAMPLE_UNITS, 1)]]
        sizes = [unit.message_bytes for unit in some if unit is not None]
        return sum(sizes) // len(sizes) if sizes else 1

    def limit_range(self, topic: str, queue_id: int, indexes: range, bytes_max: int) -> int:
        """Return the end of the messages that take `bytes_max` bytes together, but at least one message."""
        index = indexes.start
        while units := self._units(topic, queue_id, index, indexes.stop):
            for unit in parse_units(units):
                bytes_max -= unit.message_bytes
                if bytes_max < 0 and index > indexes.start:
                    return index
                index += 1
        return indexes.stop

    def columns(
        self,
        topic: str,
        queue_id: int,
        indexes: range,
        wanted: Collection[str],
        *,
        tag: str | None = None,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> Iterator[MessageColumns]:
        """Yield the messages of a part of `queue_range`, about a megabyte at a time, after comparing both CRCs.

        wanted: names of columns, see MessageColumns.  tag: only messages that have it.
        Raises: GoneError if messages were removed; CorruptError; FullError for a message that is too large.
        """
        self._refresh()
        index = indexes.start
        while index < indexes.stop:
            units = self._units(topic, queue_id, index, indexes.stop)
            if not units:
                raise _removed_error(self.path, topic, queue_id, index)
            queue_offsets = array("q", range(index, index + len(units) // UNIT_BYTES))
            index += len(queue_offsets)
            if tag is not None and topic != DELAY_TOPIC:  # whose units have due times instead of tag codes
                units, queue_offsets = _with_code(units, queue_offsets, java_hash(tag))
            part = _Part(topic, queue_id, memoryview(units), queue_offsets)
            yield from self._columns(part, wanted, tag, message_bytes_max)

    def _units(self, topic: str, queue_id: int, index: int, stop: int) -> bytes:
        queue = self._queue(topic, queue_id)
        return b"" if queue is None else queue.packed_units(index, min(_UNITS_AT_ONCE, stop - index))

    def _columns(
        self, part: _Part, wanted: Collection[str], tag: str | None, message_bytes_max: int
    ) -> Iterator[MessageColumns]:
        at = 0
        while at < len(part.queue_offsets):
            units = part.units[at * UNIT_BYTES :]
            self._check(part, at, message_bytes_max)
            try:
                data, count = self._log.select(units, _BYTES_AT_ONCE)
            except NotFoundError as error:
                raise _removed_error(self.path, part.topic, part.queue_id, part.queue_offsets[at]) from error
            if count == 0:
                self._refuse(part, at)
            queue_offsets = part.queue_offsets[at : at + count]
            found = columns_of(data, units, queue_offsets, part.topic, part.queue_id, tag=tag, wanted=wanted)
            if isinstance(found, int):
                self._refuse(part, at + found)
            if found[0]:
                yield MessageColumns(*found)
            at += count

    def _check(self, part: _Part, at: int, message_bytes_max: int) -> None:
        """Raise GoneError or FullError if a message cannot be returned."""
        unit = parse_unit(part.units, at * UNIT_BYTES)
        if unit == BLANK_UNIT or unit.message_bytes <= 0:
            raise _removed_error(self.path, part.topic, part.queue_id, part.queue_offsets[at])
        if unit.message_bytes > message_bytes_max:
            size = unit.message_bytes
            text = f"{self.path}: a message of {size} bytes at offset {unit.offset}; the limit is {message_bytes_max}"
            raise FullError(text, limit=message_bytes_max, size=size)

    def _refuse(self, part: _Part, at: int) -> NoReturn:
        """Raise the error for a message that its unit does not lead to."""
        unit = parse_unit(part.units, at * UNIT_BYTES)
        index = part.queue_offsets[at]
        folder = os.path.join(self.path, QUEUES_FOLDER, part.topic, str(part.queue_id))
        try:
            message = self.read(unit.offset)
        except NotFoundError as error:
            text = f"queue offset {index} leads to offset {unit.offset} of the commit log, but there is no message"
            raise CorruptError(folder, index * UNIT_BYTES, "unit", text) from error
        what = f"number {message.queue_offset} of {message.topic}/{message.queue_id}, {message.message_bytes} bytes"
        text = f"queue offset {index} leads to another message, at offset {unit.offset} of the commit log: {what}"
        raise CorruptError(folder, index * UNIT_BYTES, "unit", text)


@dataclass(frozen=True, slots=True)
class _Part:
    """Units of a queue, with their queue offsets."""

    topic: str
    queue_id: int
    units: memoryview
    queue_offsets: array[int]


def _with_code(units: bytes, queue_offsets: array[int], code: int) -> tuple[bytes, array[int]]:
    """Return the units that have a tag code, or may have it."""
    kept = [at for at, unit in enumerate(parse_units(units)) if unit.tag_code == code or unit.is_extended]
    parts = [units[at * UNIT_BYTES : (at + 1) * UNIT_BYTES] for at in kept]
    return b"".join(parts), array("q", [queue_offsets[at] for at in kept])


def _removed_error(path: str, topic: str, queue_id: int, index: int) -> GoneError:
    return GoneError(f"{path}: the messages of {topic}/{queue_id} from queue offset {index} on were removed")
