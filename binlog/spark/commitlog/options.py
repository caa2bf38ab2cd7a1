"""The options of a read, and its positions: an offset in each queue at which it starts and ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from binlog import Since, Start
from binlog.commitlog import ColumnReader
from binlog.errors import GoneError
from binlog.spark.log.options import ENGINE, one_local_path
from binlog.spark.log.positions import parse_place
from binlog.spark.option_values import Options, boolean, count, record_bytes, size, some_text, taken

Queue = tuple[str, int]
"""A topic, and the id of one of its queues."""

Position = Start | Since | Mapping[Queue, int]
"""The beginning, the end, a time, or queue offsets for some queues."""

_FORMS = """'earliest', 'latest', a time as 2026-11-30T12:00:00Z, or queue offsets as {"TOPIC":{"0":17,"1":4}}"""
_NS_IN_MS = 1_000_000


def parse_position(option: str, text: str) -> Position:
    """Parse the value of an option.  Raises: ValueError."""
    return parse_place(option, text, _FORMS, _queue_offsets)


def _queue_offsets(text: str) -> Mapping[Queue, int] | None:
    if not text.startswith("{"):
        return None
    found = from_json(json.loads(text))
    for (topic, queue_id), index in found.items():
        if not isinstance(index, int) or isinstance(index, bool) or index < 0 or queue_id < 0:
            raise ValueError(f"{topic}/{queue_id} cannot have the queue offset {index!r}")
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> dict[Queue, int]:
    """Convert queue offsets from JSON, whose keys are strings, to a mapping by topic and queue."""
    return {(topic, int(queue_id)): index for topic, each in value.items() for queue_id, index in each.items()}


def to_json(resolve_all: Mapping[Queue, int]) -> dict[str, dict[str, int]]:
    """Convert queue offsets to JSON, with sorted keys, because Spark compares the texts."""
    found: dict[str, dict[str, int]] = {}
    for (topic, queue_id), index in sorted(resolve_all.items()):
        found.setdefault(topic, {})[str(queue_id)] = index
    return found


def resolve(position: Position, store: ColumnReader, queue: Queue, present: range, *, fail_on_data_loss: bool) -> int:
    """Return the queue offset of a position in a queue.

    present: the queue offsets that the queue has.
    Raises: ValueError if the position is after the end; GoneError if retention removed it and data loss is an error.
    """
    if isinstance(position, Start):
        return present.start if position is Start.BEGINNING else present.stop
    if isinstance(position, Since):
        return store.index_at(*queue, -(-position.time_ns // _NS_IN_MS))
    index = position[queue]
    if index > present.stop:
        topic, queue_id = queue
        raise ValueError(
            f"binlog: {store.path}: {topic}/{queue_id} ends at queue offset {present.stop}, before {index}"
        )
    if index < present.start and fail_on_data_loss:
        raise GoneError(
            f"{store.path}: {removal_text(queue, index, present.start)}; set failOnDataLoss=false to skip them"
        )
    return max(index, present.start)


def removal_text(queue: Queue, start: int, stop: int) -> str:
    """Return a text about messages that retention removed."""
    topic, queue_id = queue
    return f"the messages of {topic}/{queue_id} from queue offset {start} up to {stop} were removed"


_MIB = 1 << 20


@dataclass(frozen=True)
class StoreReadOptions:
    """The options of a read.

    path: the store's directory, absolute.
    topics: the topics to read; None for all but RocketMQ's own.
    queue_id: the queue of each topic; None for all.  tag: only messages that have it; None for all.
    The rest is as in ReadOptions; bytes are those of messages.
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
    """Parse the options that Spark passes.  Raises: ValueError for a missing or unknown option."""
    given = {name.lower(): value for name, value in options.items()}
    path = one_local_path(given, "commit log", "store")
    found = taken(given, _OPTIONS, ENGINE)
    parsed = StoreReadOptions(path=path, **found)
    for name, position in (("startingPosition", parsed.start), ("endingPosition", parsed.end)):
        _check_position(name, position, parsed)
    return parsed


def _check_position(name: str, position: Position, parsed: StoreReadOptions) -> None:
    """Raise ValueError if a position is about a queue that is not read."""
    for topic, queue_id in position if isinstance(position, Mapping) else ():
        if parsed.topics is not None and topic not in parsed.topics:
            raise ValueError(f"binlog: {name} names the topic {topic!r}, but the option topic does not")
        if parsed.queue_id not in (None, queue_id):
            raise ValueError(f"binlog: {name} names queue {queue_id}, but the option queue is {parsed.queue_id}")


def _topics(name: str, text: str) -> frozenset[str]:
    topics = [topic.strip() for topic in text.split(",")]
    if not all(topics):
        raise ValueError(f"binlog: {name} must be a topic, or topics separated by commas, not {text!r}")
    return frozenset(topics)


def _queue(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"binlog: {name} must be the number of a queue, from 0 on, not {text!r}")
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
