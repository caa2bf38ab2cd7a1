"""How a store is kept."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from binlog.commitlog.append.commit_log import BODY_BYTES_MAX, FILE_BYTES, LOCAL_HOST
from binlog.commitlog.append.flush_services import COMMIT_PACE, FLUSH_PACE, Pace
from binlog.commitlog.retention import Retention
from binlog.format.commitlog.indexes import UNITS_IN_FILE, KeyIndexSize
from binlog.format.commitlog.message_parts import Host
from binlog.format.values import coerce_options


class Flush(enum.Enum):
    """When what was appended is on the disk: see docs/durability.md."""

    SYNC = "sync"  # when the append returns
    ASYNC = "async"  # soon after
    POOLED = "pooled"  # soon after; until it is in the file, in shared memory, which RocketMQ does not know


QUEUES_PACE = Pace(1.0, 2, 60.0)
_KEY_INDEX = KeyIndexSize()
_RETENTION = Retention()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How a store is kept; what RocketMQ's brokers do unless told.

    file_bytes, units_in_file: of the commit log's files and of the queues'; those of a store never change.
    flush, flush_pace: when the commit log comes to the disk.
    commit_pace, pool_buffers: with pooled flush, when it comes to the file, and how many files have a buffer at once.
    queues_pace: the same for the queues and the key index, which can be made again.
    key_index: how large each of its files is.
    retention: what is removed when it is old, and when the disk is full.
    store_host: stands in each message.  record_crc: whether each has a CRC of the whole of it.
    body_bytes_max: a message with a larger body is refused.
    """

    file_bytes: int = FILE_BYTES
    units_in_file: int = UNITS_IN_FILE
    flush: Flush = Flush.SYNC
    flush_pace: Pace = FLUSH_PACE
    commit_pace: Pace = COMMIT_PACE
    pool_buffers: int = 2
    queues_pace: Pace = QUEUES_PACE
    key_index: KeyIndexSize = _KEY_INDEX
    retention: Retention = _RETENTION
    store_host: Host = LOCAL_HOST
    record_crc: bool = True
    body_bytes_max: int = BODY_BYTES_MAX

    def __post_init__(self) -> None:
        """Take words for a flush, sizes and times too.  Raises: TypeError, ValueError."""
        coerce_options(self)
