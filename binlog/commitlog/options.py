"""The options of a store."""

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
    """When appended messages are on the disk: see docs/durability.md."""

    SYNC = "sync"  # when the append returns
    ASYNC = "async"  # soon after
    POOLED = "pooled"  # soon after; before they reach the file they are in shared memory, unknown to RocketMQ


QUEUES_PACE = Pace(1.0, 2, 60.0)
_KEY_INDEX = KeyIndexSize()
_RETENTION = Retention()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The options of a store; the defaults are those of RocketMQ's brokers.

    file_bytes, units_in_file: size of the files of the commit log and of the queues; fixed once the store exists.
    flush, flush_pace: when the commit log reaches the disk.
    commit_pace, pool_buffers: with Flush.POOLED, when it reaches the file, and how many files can have a buffer.
    queues_pace: when the queues and the key index reach the disk; both can be rebuilt.
    key_index: the size of each of its files.
    retention: what is removed when it is old or the disk is full.
    store_host: written into each message.  record_crc: whether each message gets a CRC of the whole message.
    body_bytes_max: an append with a larger body raises ValueError.
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
        """Convert strings to enums, sizes and times.  Raises: TypeError, ValueError."""
        coerce_options(self)
