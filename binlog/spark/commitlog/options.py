"""The options of reading a commit log, and the start and end of a read in each queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from binlog import Since, Start
from binlog.commitlog import ColumnReader
from binlog.errors import GoneError
from binlog.spark.log.options import ENGINE, one_local_path
from binlog.spark.log.positions import parse_common
from binlog.spark.option_values import Options, boolean, count, parse_known, record_bytes, size, some_text

Queue = tuple[str, int]
"""A topic, and the id of one of its queues."""

Position = Start | Since | Mapping[Queue, int]
"""The beginning, the end, a time; or a queue offset for each of some queues."""

_FORMS = """'earliest', 'latest', a time such as 2026-11-30T12:00:00Z, or queue offsets such as \
{"TOPIC":{"0":17,"1":4}}"""
_NS_IN_MS = 1_000_000


def parse_position(option: str, text: str) -> Position:
    """Parse a position.  Raises: ValueError."""
    return parse_common(option, text, _FORMS, _queue_offsets)


def _queue_offsets(text: str) -> Mapping[Queue, int] | None:
    if not text.startswith("{"):
        return None
    found = from_json(json.loads(text))
    for (topic, queue_id), index in found.items():
        if not isinstance(index, int) or isinstance(index, bool) or index < 0 or queue_id < 0:
            raise ValueError(f"{index!r} is not a queue offset of {topic}/{queue_id}")
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> dict[Queue, int]:
    """Return queue offsets by topic and queue.  In JSON, the queues are strings."""
    return {(topic, int(queue_id)): index for topic, each in value.items() for queue_id, index in each.items()}


def to_json(resolve_all: Mapping[Queue, int]) -> dict[str, dict[str, int]]:
    """Return the reverse.  The order of the keys matters, because Spark compares offsets as text."""
    found: dict[str, dict[str, int]] = {}
    for (topic, queue_id), index in sorted(resolve_all.items()):
        found.setdefault(topic, {})[str(queue_id)] = index
    return found


def resolve(position: Position, store: ColumnReader, queue: Queue, existing: range, *, fail_on_data_loss: bool) -> int:
    """Return the queue offset of a position in a queue.

    existing: the queue offsets of the queue.
    Raises: ValueError if it is after the end; GoneError if retention removed it and fail_on_data_loss is set.
    """
    if isinstance(position, Start):
        return existing.start if position is Start.BEGINNING else existing.stop
    if isinstance(position, Since):
        return store.index_at(*queue, -(-position.time_ns // _NS_IN_MS))
    index = position[queue]
    if index > existing.stop:
        topic, queue_id = queue
        raise ValueError(
            f"binlog: {store.path}: {topic}/{queue_id} ends at queue offset {existing.stop}, before {index}"
        )
    if index < existing.start and fail_on_data_loss:
        text = f"{store.path}: {loss_text(queue, index, existing.start)}"
        raise GoneError(f"{text}; use failOnDataLoss=false to continue after them")
    return max(index, existing.start)


def loss_text(queue: Queue, start: int, stop: int) -> str:
    """Describe messages of a queue that retention removed."""
    topic, queue_id = queue
    return f"the messages of {topic}/{queue_id} from queue offset {start} up to {stop} were removed"


_MIB = 1 << 20


@dataclass(frozen=True)
class StoreReadOptions:
    """The options of a read.

    path: the store's directory, absolute.
    topics: those to read; None for all but RocketMQ's internal ones.
    queue_id: the queue of each topic; None for all.  tag: only messages with this tag; None for all.
    The others are as in ReadOptions, with sizes in bytes of messages.
    """

    path: str
    topics: frozenset[str] | None = None
    queue_id: int | None = None
    tag: str | None = None
    start: Position = Start.BEGINNING
    end: Position = Start.END
    partition_bytes: int | None = None
    partitions_min: int = 1
    record_bytes_max: int = 64 * _MIB
    fail_on_data_loss: bool = True
    records_per_trigger: int | None = None
    bytes_per_trigger: int | None = None


def parse_store_options(options: Mapping[str, str]) -> StoreReadOptions:
    """Parse the options of a read.  Raises: ValueError for a missing, unknown or wrong option."""
    given = {name.lower(): value for name, value in options.items()}
    path = one_local_path(given, "commit log", "store")
    found = parse_known(given, _OPTIONS, ENGINE)
    parsed = StoreReadOptions(path=path, **found)
    for name, position in (("startingPosition", parsed.start), ("endingPosition", parsed.end)):
        _check_position(name, position, parsed)
    return parsed


def _check_position(name: str, position: Position, parsed: StoreReadOptions) -> None:
    """Raise ValueError if a position is for a queue that is not read."""
    for topic, queue_id in position if isinstance(position, Mapping) else ():
        if parsed.topics is not None and topic not in parsed.topics:
            raise ValueError(f"binlog: {name} has the topic {topic!r}, which the option topic does not include")
        if parsed.queue_id not in (None, queue_id):
            raise ValueError(f"binlog: {name} has queue {queue_id}, but the option queue is {parsed.queue_id}")


def _topics(name: str, text: str) -> frozenset[str]:
    topics = [topic.strip() for topic in text.split(",")]
    if not all(topics):
        raise ValueError(f"binlog: {name} must be a topic, or several separated by commas, not {text!r}")
    return frozenset(topics)


def _queue(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"binlog: {name} must be the number of a queue, at least 0, not {text!r}")
    return int(text)


_OPTIONS: Options = {
    "topic": ("topics", _topics),
    "queue": ("queue_id", _queue),
    "tag": ("tag", some_text),
    "startingPosition": ("start", parse_position),
    "endingPosition": ("end", parse_position),
    "minPartitions": ("partitions_min", count),
    "maxPartitionBytes": ("partition_bytes", size),
    "maxRecordBytes": ("record_bytes_max", record_bytes),
    "failOnDataLoss": ("fail_on_data_loss", boolean),
    "maxRecordsPerTrigger": ("records_per_trigger", count),
    "maxBytesPerTrigger": ("bytes_per_trigger", size),
}
