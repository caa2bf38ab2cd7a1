"""The names of files, folders and topics in a store.

Also the delay levels, which RocketMQ defines by their number.
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
# Folders of a RocketMQ store that this engine reads or leaves alone.
FOLDERS = frozenset(
    {
        COMMIT_LOG_FOLDER,
        QUEUES_FOLDER,
        INDEX_FOLDER,
        CONFIG_FOLDER,
        "batchconsumequeue",  # if it is empty: see binlog/commitlog/recovery/survey.py
        "compaction",
        "consumequeue_ext",
        "kvStore",
        "lost+found",
        "rocksdbstore",  # since version 5.5; its contents are derived from the commit log
        "tiered_index_file",
        "timerlog",
    }
)
LITE_TOPIC_PREFIX = "%LMQ%"

_OFFSET = re.compile(r"[0-9]{20}", re.ASCII)
# The characters that RocketMQ's brokers allow, as many as a folder name may have.
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]{1,255}", re.ASCII)
_QUEUE = re.compile(r"[0-9]{1,10}", re.ASCII)
_INDEX = re.compile(r"[0-9]{17}", re.ASCII)


def mapped_file_name(offset: int) -> str:
    """Return the name of a mapped file, its start offset: `00000000001073741824` for 1073741824."""
    return f"{offset:020d}"


def mapped_file_offset(name: str) -> int | None:
    """Return the offset in the name of a mapped file, or None for any other name."""
    return int(name) if _OFFSET.fullmatch(name) else None


def index_name(made: dt.datetime, *, after: str) -> str:
    """Return a name for a key index file, from the local time: `20260131235959123` at the end of January 2026.

    after: the name of the previous file, or an empty string.  The new name sorts after it, even if the clock went back.
    """
    name = f"{made:%Y%m%d%H%M%S}{made.microsecond // 1000:03d}"
    return name if name > after else f"{int(after) + 1:017d}"


def is_index_name(name: str) -> bool:
    """Return whether a name is that of a key index file: its creation time, as yyyyMMddHHmmssSSS."""
    return _INDEX.fullmatch(name) is not None


def is_topic(name: str) -> bool:
    """Return whether a topic can have queues: at most 255 ASCII letters, digits and `%|_-`."""
    return _TOPIC.fullmatch(name) is not None


def is_queue_name(name: str) -> bool:
    """Return whether a name is that of a queue's folder: the queue id in decimal digits."""
    return _QUEUE.fullmatch(name) is not None


HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
# The end records of half messages; the body of each is a queue offset.
ENDED_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ENDED_TAG = "d"
DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"
_SYSTEM_PREFIX = "RMQ_SYS_"
_RETRY_PREFIX = "%RETRY%"
_DEAD_PREFIX = "%DLQ%"

# By level, from 1 on.  As in RocketMQ, a lower level means one second, and a higher one the longest delay.
DELAY_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def retry_topic(group: str) -> str:
    """Return the topic with the messages that a consumer group gets again."""
    return _RETRY_PREFIX + group


def dead_topic(group: str) -> str:
    """Return the topic with the dead letters of a consumer group."""
    return _DEAD_PREFIX + group


def is_system_topic(topic: str) -> bool:
    """Return whether RocketMQ reserves a topic."""
    return topic.startswith(_SYSTEM_PREFIX) or topic == DELAY_TOPIC


def is_parking_topic(topic: str) -> bool:
    """Return whether a topic has parked messages, or their end records."""
    return topic in (HALF_TOPIC, ENDED_TOPIC, DELAY_TOPIC)


def due_ms(store_ms: int, level: int) -> int:
    """Return when a message with this store time and delay level is due."""
    seconds = DELAY_SECONDS[min(level, len(DELAY_SECONDS)) - 1] if level > 0 else 1
    return store_ms + 1000 * seconds
