"""Groups half messages with the copies that a RocketMQ broker puts in when it checks them.

The broker cannot change a message that waits, so it appends it again, counts the check in the copy, and passes over the
one before.  All copies are one transaction: the newest one waits, and ending any of them ends it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from binlog.format.commitlog.message import StoredMessage
from binlog.format.commitlog.properties import (
    CHECK_TIMES,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    UNIQUE_KEY,
    parse_count,
    parse_properties,
)


def group_copies(halves: Iterable[StoredMessage]) -> list[list[StoredMessage]]:
    """Group half messages, given in the order of their queue, by transaction; the newest copy of each comes last."""
    groups: list[list[StoredMessage]] = []
    by_identity: dict[tuple[object, ...], list[list[StoredMessage]]] = defaultdict(list)
    for half in halves:
        known = by_identity[_identity(half)]
        times = _check_times(half)
        group = next((each for each in known if _check_times(each[-1]) < times), None)
        if group is None:
            group = []
            known.append(group)
            groups.append(group)
        group.append(half)
    return groups


def _identity(half: StoredMessage) -> tuple[object, ...]:
    """What a copy has in common with the message that it is one of."""
    properties = parse_properties(half.properties)
    names = (UNIQUE_KEY, REAL_TOPIC, REAL_QUEUE_ID)
    return (*map(properties.get, names), half.born_ms, half.born_host, half.body)


def _check_times(half: StoredMessage) -> int:
    """How often a broker had checked it when it was appended."""
    return parse_count(parse_properties(half.properties).get(CHECK_TIMES, "")) or 0
