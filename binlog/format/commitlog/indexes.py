"""A consume queue: which messages a topic's queue has, 20 bytes each, in files as long as each other.

Where a queue does not begin at 0, what comes before its first message in a file is filled with blank units.

The key index: a file that finds messages by `topic#key`, as a hash table whose chains begin with the newest.

A header of 40 bytes, then the slots, then the entries.  A slot has the number of the newest entry whose hash leads to
it, and that one the number of the one before; 0 ends the chain, so entry 0 is none.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from binlog.format.commitlog.message_parts import java_hash
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


KEY_INDEX_HEADER = Layout(
    "key_index_header",
    "The header of a key index",
    size=40,
    fields=(
        Field("begin_ms", "i64", "the store time of the first message in it"),
        Field("end_ms", "i64", "the store time of the last one"),
        Field("begin_offset", "i64", "where the first one lies in the commit log"),
        Field("end_offset", "i64", "where the last one lies"),
        Field("slot_count", "i32", "slots in use"),
        Field("entry_count", "i32", "entries in use, and one: it begins at 1"),
    ),
)

KEY_INDEX_SLOT = Layout(
    "key_index_slot",
    "A slot of a key index",
    size=4,
    fields=(Field("newest", "i32", "the number of the newest entry; 0 for none"),),
)

KEY_INDEX_ENTRY = Layout(
    "key_index_entry",
    "An entry of a key index",
    size=20,
    fields=(
        Field("key_hash", "i32", "Java's hash of `topic#key`, without its sign"),
        Field("offset", "i64", "where the message lies in the commit log"),
        Field("seconds", "i32", "its store time, in seconds after that of the first message"),
        Field("previous", "i32", "the number of the entry before it in the chain; 0 for none"),
    ),
)

SLOT_COUNT = 5_000_000
ENTRY_COUNT = 20_000_000
_INT_MIN = -(2**31)
_INT_MAX = 2**31 - 1


def key_index_bytes(slot_count: int, entry_count: int) -> int:
    """How long such a file is."""
    return KEY_INDEX_HEADER.size + slot_count * KEY_INDEX_SLOT.size + entry_count * KEY_INDEX_ENTRY.size


@dataclass(frozen=True, slots=True)
class KeyIndexSize:
    """How many slots and entries each file has; RocketMQ's unless told."""

    slots: int = SLOT_COUNT
    entries: int = ENTRY_COUNT

    @classmethod
    def of(cls, file_bytes: int, slots: int) -> KeyIndexSize:
        """That of a file of so many bytes with so many slots.  Raises: ValueError where there is none."""
        entries, rest = divmod(file_bytes - key_index_bytes(slots, 0), KEY_INDEX_ENTRY.size)
        if slots < 1 or entries < 1 or rest:
            raise ValueError(f"{file_bytes} bytes are no key index of {slots} slots")
        return cls(slots, entries)

    @property
    def file_bytes(self) -> int:
        """How long a file is."""
        return key_index_bytes(self.slots, self.entries)

    def slot_at(self, hash_: int) -> int:
        """Where the slot lies that a hash leads to."""
        return KEY_INDEX_HEADER.size + hash_ % self.slots * KEY_INDEX_SLOT.size

    def entry_at(self, number: int) -> int:
        """Where an entry lies."""
        return key_index_bytes(self.slots, number)


def parse_slots(data: bytes) -> array[int]:
    """What the slots say that `data` holds."""
    slots = array("i")
    slots.frombytes(data)
    if sys.byteorder == "little":
        slots.byteswap()
    return slots


def seconds_between(begin_ms: int, store_ms: int) -> int:
    """What an entry says of when a message was stored, in a file that begins at `begin_ms`."""
    return 0 if begin_ms <= 0 or store_ms < begin_ms else min((store_ms - begin_ms) // 1000, _INT_MAX)


def tag_hash(topic: str, tag: str) -> int:
    """The hash of a message's tag among the keys, where RocketMQ puts it since version 5.5 (INDEX_TAG_TYPE)."""
    return key_hash(topic, f"T#{tag}")


def key_hash(topic: str, key: str) -> int:
    """The hash by which a message's key is found: 0 for the one whose absolute value is no Java int."""
    value = java_hash(f"{topic}#{key}")
    return 0 if value == _INT_MIN else abs(value)
