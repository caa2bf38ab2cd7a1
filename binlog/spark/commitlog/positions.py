"""Where a read of a store begins and ends: in each queue."""

from __future__ import annotations

import json
from collections.abc import Mapping

from binlog import Since, Start
from binlog.commitlog import ColumnReader
from binlog.errors import GoneError
from binlog.spark.positions import parse_place

Queue = tuple[str, int]
"""A topic, and the id of one of its queues."""

Position = Start | Since | Mapping[Queue, int]
"""The beginning, the end, a time; or a queue offset for each of some queues."""

_FORMS = """'earliest', 'latest', a time as 2026-11-30T12:00:00Z, or queue offsets as {"TOPIC":{"0":17,"1":4}}"""
_NS_IN_MS = 1_000_000


def parse_position(option: str, text: str) -> Position:
    """What an option says.  Raises: ValueError."""
    return parse_place(option, text, _FORMS, _queue_offsets)


def _queue_offsets(text: str) -> Mapping[Queue, int] | None:
    if not text.startswith("{"):
        return None
    found = from_json(json.loads(text))
    for (topic, queue_id), index in found.items():
        if not isinstance(index, int) or isinstance(index, bool) or index < 0 or queue_id < 0:
            raise ValueError(f"no queue offset of {topic}/{queue_id} is {index!r}")
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> dict[Queue, int]:
    """Queue offsets by topic and queue, of which JSON has texts."""
    return {(topic, int(queue_id)): index for topic, each in value.items() for queue_id, index in each.items()}


def to_json(places: Mapping[Queue, int]) -> dict[str, dict[str, int]]:
    """The reverse, with the keys in the one order in which Spark compares them."""
    found: dict[str, dict[str, int]] = {}
    for (topic, queue_id), index in sorted(places.items()):
        found.setdefault(topic, {})[str(queue_id)] = index
    return found


def resolve(position: Position, store: ColumnReader, queue: Queue, there: range, *, fail_on_data_loss: bool) -> int:
    """The queue offset that a position means in a queue.

    there: the queue offsets that it has.
    Raises: ValueError where it is behind the end; GoneError where retention removed it and the read is to fail then.
    """
    if isinstance(position, Start):
        return there.start if position is Start.BEGINNING else there.stop
    if isinstance(position, Since):
        return store.index_at(*queue, -(-position.time_ns // _NS_IN_MS))
    index = position[queue]
    if index > there.stop:
        topic, queue_id = queue
        raise ValueError(f"binlog: {store.path}: {topic}/{queue_id} ends at queue offset {there.stop}, before {index}")
    if index < there.start and fail_on_data_loss:
        raise GoneError(f"{store.path}: {lost(queue, index, there.start)}; failOnDataLoss=false goes on behind them")
    return max(index, there.start)


def lost(queue: Queue, start: int, stop: int) -> str:
    """What to say of messages of a queue that retention removed."""
    topic, queue_id = queue
    return f"the messages of {topic}/{queue_id} from queue offset {start} on were removed, up to {stop}"
