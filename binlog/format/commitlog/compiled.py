"""Messages of a commit log, many at a time, by the compiled functions; message.py is the plain way to say it."""

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

    END = 0  # no byte is left
    SHORT = 1  # a message leads past the bytes given
    BLANK = 2  # the marker that ends a file
    INVALID = 3  # these are no message


@dataclass(frozen=True, slots=True)
class Run:
    """Messages of one queue that follow one another, in the log as in the queue.

    topic: UTF-8.  units: of the queue, 20 bytes each, whose tag codes are hashes, or times in the topic of delays.
    """

    topic: bytes
    queue_id: int
    first_queue_offset: int
    units: bytes


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk found.

    consumed: bytes that its messages take.  store_ms: of the last one; 0 where there is none.
    keys: int64, three for each key: its hash, where its message lies, and when that was stored.
    """

    consumed: int
    stop: WalkStop
    runs: list[Run]
    keys: memoryview
    store_ms: int


def walk(data: bytes, offset: int, *, check: bool) -> Walk:
    """Go through whole messages from the start of `data`, which lies at `offset` of the log.

    check: compare the CRCs of each.
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
    """How many messages there are, and the columns wanted; or the number of the first that is not what its unit says.

    data: what `pick_messages` picked.  units: those of the messages.  indexes: their queue offsets, 64 bits each.
    tag: only messages that have it; None for all.
    """
    bits = sum(1 << number for number, name in enumerate(COLUMNS) if name in wanted)
    found = message_columns(data, units, indexes, topic, queue_id, tag, bits)
    if isinstance(found, int):
        return found
    count, made = found
    return count, {name: column for name, column in zip(COLUMNS, made, strict=True) if column is not None}
