"""The options of reading a commit log's store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binlog import Start
from binlog.spark.commitlog.positions import Position, parse_position
from binlog.spark.option_values import Options, boolean, count, record_bytes, size, some_text, taken
from binlog.spark.options import ENGINE, one_local_path

_MIB = 1 << 20


@dataclass(frozen=True)
class StoreReadOptions:
    """What a read is told.

    path: the store's directory, absolute.
    topics: those that are read; None for all but those that RocketMQ keeps for itself.
    queue_id: which queue of each; None for all.  tag: only messages that have it; None for all.
    The rest is as in ReadOptions, and bytes are those of messages.
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
    """The options of a read, as Spark hands them over.  Raises: ValueError for one that is missing or not known."""
    given = {name.lower(): value for name, value in options.items()}
    path = one_local_path(given, "commit log", "store")
    found = taken(given, _OPTIONS, ENGINE)
    parsed = StoreReadOptions(path=path, **found)
    for name, position in (("startingPosition", parsed.start), ("endingPosition", parsed.end)):
        _check_position(name, position, parsed)
    return parsed


def _check_position(name: str, position: Position, parsed: StoreReadOptions) -> None:
    """Raise ValueError where a position is about a queue that is not read."""
    for topic, queue_id in position if isinstance(position, Mapping) else ():
        if parsed.topics is not None and topic not in parsed.topics:
            raise ValueError(f"binlog: {name} is about the topic {topic!r}, which the option topic does not name")
        if parsed.queue_id not in (None, queue_id):
            raise ValueError(f"binlog: {name} is about queue {queue_id}, and the option queue says {parsed.queue_id}")


def _topics(name: str, text: str) -> frozenset[str]:
    topics = [topic.strip() for topic in text.split(",")]
    if not all(topics):
        raise ValueError(f"binlog: {name} is a topic, or several with commas between them, not {text!r}")
    return frozenset(topics)


def _queue(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"binlog: {name} is the number of a queue, from 0 on, not {text!r}")
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
