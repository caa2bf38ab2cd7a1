"""Messages of a commit log, many at a time, by the compiled code."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from binlog.storage.native import pack_messages, stamp_messages, walk_messages

__all__ = ["Run", "Walk", "WalkStop", "pack_messages", "stamp_messages", "walk"]


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
