"""A consume queue: which messages a topic's queue has, 20 bytes each, in files as long as each other.

Where a queue does not begin at 0, what comes before its first message in a file is filled with blank units.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from binlog.format.layout import Field, Layout

QUEUE_UNIT = Layout(
    "queue_unit",
    "A unit of a consume queue",
    size=20,
    fields=(
        Field("offset", "i64", "where the message lies in the commit log"),
        Field("message_bytes", "i32", "how many bytes it takes there; 0 where the queue ends"),
        Field(
            "tag_code",
            "i64",
            "Java's hash of its tag, 0 without one; of a delayed message, when it is due, in ms; below -2147483648: "
            "where in `consumequeue_ext` RocketMQ has either of them",
        ),
    ),
)

UNIT_BYTES = QUEUE_UNIT.size
UNITS_IN_FILE = 300_000
_HASH_MIN = -(2**31)


class QueueUnit(NamedTuple):
    """A message of a queue."""

    offset: int
    message_bytes: int
    tag_code: int

    @property
    def is_extended(self) -> bool:
        """Whether the tag code only says where RocketMQ keeps it, as with `enableConsumeQueueExt`."""
        return self.tag_code < _HASH_MIN

    def pack(self) -> bytes:
        """The unit's 20 bytes."""
        return QUEUE_UNIT.pack(self._asdict())


BLANK_UNIT = QueueUnit(0, 2**31 - 1, 0)


def parse_unit(data: bytes | memoryview, at: int = 0) -> QueueUnit:
    """The unit that lies at `at`, whatever it says."""
    return QueueUnit(*QUEUE_UNIT.unpack(data, at).values())


def parse_units(data: bytes) -> Iterator[QueueUnit]:
    """All units that `data` holds."""
    return map(QueueUnit._make, struct.iter_unpack(QUEUE_UNIT.format, data))
