"""The compiled codec for many messages at a time; message.py is its reference in Python."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from binlog._codec import message_columns, walk_messages

# In the order of `enum column` in native/codec/commitlog/columns.c.
COLUMNS = (
    "queue_offset",
    "offset",
    "born_time",
    "store_time",
    "prepared_offset",
    "flag",
    "system_flag",
    "reconsume_count",
    "message_bytes",
    "body",
    "born_host",
    "store_host",
    "message_id",
    "properties",
)


class WalkStop(enum.IntEnum):
    """Why a walk ended."""

    END = 0  # all bytes were walked
    SHORT = 1  # a message extends past the given bytes
    BLANK = 2  # the blank that ends a file
    INVALID = 3  # not a message


@dataclass(frozen=True, slots=True)
class Run:
    """Messages that are consecutive in the log and in their queue.

    topic: UTF-8.  units: packed queue units; the tag codes are hashes of tags, or due times in the topic of delays.
    """

    topic: bytes
    queue_id: int
    first_queue_offset: int
    units: bytes


@dataclass(frozen=True, slots=True)
class Walk:
    """The result of a walk through messages.

    consumed: size of the messages.  store_ms: store time of the last one; 0 if there is none.
    keys: three int64 for each key: its hash, and the offset and store time of its message.
    """

    consumed: int
    stop: WalkStop
    runs: list[Run]
    keys: memoryview
    store_ms: int


def walk(data: bytes, offset: int, *, check: bool) -> Walk:
    """Walk through whole messages from the start of `data`, which is at `offset` of the log.

    check: compare the CRCs of each message.
    """
    consumed, stop, runs, keys, store_ms = walk_messages(data, offset, check)
    return Walk(consumed, WalkStop(stop), [Run(*run) for run in runs], memoryview(keys).cast("q"), store_ms)


def columns_of(
    data: bytes,
    units: memoryview,
    indexes: array[int],
    topic: str,
    queue_id: int,
    *,
    tag: str | None,
    wanted: Collection[str],
) -> tuple[int, dict[str, Any]] | int:
    """Return the number of messages and the wanted columns; or the number of the first message that is not valid.

    A message is valid if it matches its unit and its queue.
    data: the result of `select_messages`.  units: the units of the messages.  indexes: their queue offsets, int64.
    tag: only messages that have it; None for all.
    """
    bits = sum(1 << number for number, name in enumerate(COLUMNS) if name in wanted)
    found = message_columns(data, units, indexes, topic, queue_id, tag, bits)
    if isinstance(found, int):
        return found
    count, made = found
    return count, {name: column for name, column in zip(COLUMNS, made, strict=True) if column is not None}
