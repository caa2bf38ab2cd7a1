"""The names of a store's files.

Topics that RocketMQ keeps for itself, and how long a message waits at each delay level.
"""

from __future__ import annotations

import datetime as dt
import re

COMMIT_LOG_FOLDER = "commitlog"
QUEUES_FOLDER = "consumequeue"
INDEX_FOLDER = "index"
CONFIG_FOLDER = "config"
CHECKPOINT_FILE = "checkpoint"
ABORT_FILE = "abort"
LOCK_FILE = "lock"
DELAY_OFFSETS_FILE = "delayOffset.json"
TOPICS_FILE = "topics.json"
# Folders that a store of RocketMQ may have and that this engine reads, or leaves as they are.
FOLDERS = frozenset(
    {
        COMMIT_LOG_FOLDER,
        QUEUES_FOLDER,
        INDEX_FOLDER,
        CONFIG_FOLDER,
        "batchconsumequeue",  # empty ones: see binlog/commitlog/recovery/survey.py
        "compaction",
        "consumequeue_ext",
        "kvStore",
        "lost+found",
        "rocksdbstore",  # since version 5.5: what may be kept there is derived from the commit log
        "tiered_index_file",
        "timerlog",
    }
)
LITE_TOPIC_PREFIX = "%LMQ%"

_OFFSET = re.compile(r"[0-9]{20}", re.ASCII)
# What RocketMQ's brokers allow, of as many characters as a folder's name may have.
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]{1,255}", re.ASCII)
_QUEUE = re.compile(r"[0-9]{1,10}", re.ASCII)
_INDEX = re.compile(r"[0-9]{17}", re.ASCII)


def mapped_file_name(offset: int) -> str:
    """`00000000001073741824` for 1073741824: where the file starts, counted through all of them."""
    return f"{offset:020d}"


def mapped_file_offset(name: str) -> int | None:
    """The offset in a mapped file's name, or None for any other name."""
    return int(name) if _OFFSET.fullmatch(name) else None


def index_name(made: dt.datetime, *, after: str) -> str:
    """`20260131235959123` for the last second of January 2026, of the clock on the wall, as RocketMQ names them.

    after: the name of the file before, or nothing; the new one's comes later in their order, though clocks go back.
    """
    name = f"{made:%Y%m%d%H%M%S}{made.microsecond // 1000:03d}"
    return name if name > after else f"{int(after) + 1:017d}"


def is_index_name(name: str) -> bool:
    """Whether it is the name of a key index: when it was made, as yyyyMMddHHmmssSSS."""
    return _INDEX.fullmatch(name) is not None


def is_topic(name: str) -> bool:
    """Whether a topic can have queues: letters, digits and `%|_-` of ASCII, 255 at most."""
    return _TOPIC.fullmatch(name) is not None


def is_queue_name(name: str) -> bool:
    """Whether it is the name of a queue's folder: its id, in decimal digits."""
    return _QUEUE.fullmatch(name) is not None


HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
# Of each half message that was ended: a message whose body is its queue offset.
ENDED_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ENDED_TAG = "d"
DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"
_SYSTEM_PREFIX = "RMQ_SYS_"
_RETRY_PREFIX = "%RETRY%"
_DEAD_PREFIX = "%DLQ%"

# By level, from 1 on.  Of a level that is not here, RocketMQ's dispatch makes a second.
DELAY_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def retry_topic(group: str) -> str:
    """Where messages go that a group of consumers is to be given again."""
    return _RETRY_PREFIX + group


def dead_topic(group: str) -> str:
    """Where messages end that a group of consumers was given too often."""
    return _DEAD_PREFIX + group


def is_system_topic(topic: str) -> bool:
    """Whether RocketMQ keeps it for itself."""
    return topic.startswith(_SYSTEM_PREFIX) or topic == DELAY_TOPIC


def is_waiting_topic(topic: str) -> bool:
    """Whether messages only wait in it, or tell of others that do."""
    return topic in (HALF_TOPIC, ENDED_TOPIC, DELAY_TOPIC)


def due_ms(store_ms: int, level: int) -> int:
    """When a message that was stored then, at that delay level, is to go to its topic."""
    seconds = DELAY_SECONDS[min(level, len(DELAY_SECONDS)) - 1] if level > 0 else 1
    return store_ms + 1000 * seconds
