"""The layouts of consume queues and of the key index.

A consume queue has a unit of 20 bytes for each message of a queue, in files of one size.  If a queue does not start at
0, the part of the file before its first message is filled with blank units.

A file of the key index finds messages by `topic#key`.  It is a hash table: a header of 40 bytes, the slots, and the
entries.  A slot has the number of the newest entry for its hashes, and each entry the number of the next older one;
0 ends the chain, so there is no entry 0.
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
        Field("offset", "i64", "offset of the message in the commit log"),
        Field("message_bytes", "i32", "size of the message there; 0 after the last unit"),
        Field(
            "tag_code",
            "i64",
            "Java's hash of its tag, 0 without a tag; of a delayed message, its due time in ms; a value below "
            "-2147483648 is a position in `consumequeue_ext`, where RocketMQ keeps the hash or the due time",
        ),
    ),
)

UNIT_BYTES = QUEUE_UNIT.size
UNITS_IN_FILE = 300_000
_HASH_MIN = -(2**31)


class QueueUnit(NamedTuple):
    """A unit of a consume queue, which refers to one message."""

    offset: int
    message_bytes: int
    tag_code: int

    @property
    def is_extended(self) -> bool:
        """Return whether the tag code refers to RocketMQ's `consumequeue_ext` (`enableConsumeQueueExt`)."""
        return self.tag_code < _HASH_MIN

    def pack(self) -> bytes:
        """Return the packed unit."""
        return QUEUE_UNIT.pack(self._asdict())


BLANK_UNIT = QueueUnit(0, 2**31 - 1, 0)


def parse_unit(data: bytes | memoryview, at: int = 0) -> QueueUnit:
    """Unpack the unit at `at`, without validating it."""
    return QueueUnit(*QUEUE_UNIT.unpack(data, at).values())


def parse_units(data: bytes) -> Iterator[QueueUnit]:
    """Unpack all units in `data`."""
    return map(QueueUnit._make, struct.iter_unpack(QUEUE_UNIT.format, data))


KEY_INDEX_HEADER = Layout(
    "key_index_header",
    "The header of a key index",
    size=40,
    fields=(
        Field("begin_ms", "i64", "store time of the first message"),
        Field("end_ms", "i64", "store time of the last message"),
        Field("begin_offset", "i64", "offset of the first message in the commit log"),
        Field("end_offset", "i64", "offset of the last message"),
        Field("slot_count", "i32", "slots in use"),
        Field("entry_count", "i32", "entries in use plus one, because numbers start at 1"),
    ),
)

KEY_INDEX_SLOT = Layout(
    "key_index_slot",
    "A slot of a key index",
    size=4,
    fields=(Field("newest", "i32", "number of the newest entry; 0 for none"),),
)

KEY_INDEX_ENTRY = Layout(
    "key_index_entry",
    "An entry of a key index",
    size=20,
    fields=(
        Field("key_hash", "i32", "absolute value of Java's hash of `topic#key`"),
        Field("offset", "i64", "offset of the message in the commit log"),
        Field("seconds", "i32", "its store time, in seconds after the first message of the file"),
        Field("previous", "i32", "number of the next older entry in the chain; 0 for none"),
    ),
)

SLOT_COUNT = 5_000_000
ENTRY_COUNT = 20_000_000
_INT_MIN = -(2**31)
_INT_MAX = 2**31 - 1


def key_index_bytes(slot_count: int, entry_count: int) -> int:
    """Return the size of a key index file."""
    return KEY_INDEX_HEADER.size + slot_count * KEY_INDEX_SLOT.size + entry_count * KEY_INDEX_ENTRY.size


@dataclass(frozen=True, slots=True)
class KeyIndexSize:
    """The slots and entries of each key index file; the defaults are RocketMQ's."""

    slots: int = SLOT_COUNT
    entries: int = ENTRY_COUNT

    @classmethod
    def of(cls, file_bytes: int, slots: int) -> KeyIndexSize:
        """Return the size with these slots for a file of `file_bytes`.  Raises: ValueError if there is none."""
        entries, rest = divmod(file_bytes - key_index_bytes(slots, 0), KEY_INDEX_ENTRY.size)
        if slots < 1 or entries < 1 or rest:
            raise ValueError(f"{file_bytes} bytes is not the size of a key index with {slots} slots")
        return cls(slots, entries)

    @property
    def file_bytes(self) -> int:
        """Return the size of a file."""
        return key_index_bytes(self.slots, self.entries)

    def slot_at(self, hash_: int) -> int:
        """Return the position of the slot for a hash."""
        return KEY_INDEX_HEADER.size + hash_ % self.slots * KEY_INDEX_SLOT.size

    def entry_at(self, number: int) -> int:
        """Return the position of an entry."""
        return key_index_bytes(self.slots, number)


def parse_slots(data: bytes) -> array[int]:
    """Unpack the slots in `data`."""
    slots = array("i")
    slots.frombytes(data)
    if sys.byteorder == "little":
        slots.byteswap()
    return slots


def seconds_between(begin_ms: int, store_ms: int) -> int:
    """Return the seconds of an entry for a message, in a file whose first message was stored at `begin_ms`."""
    return 0 if begin_ms <= 0 or store_ms < begin_ms else min((store_ms - begin_ms) // 1000, _INT_MAX)


def tag_hash(topic: str, tag: str) -> int:
    """Return the hash of a tag among the keys; RocketMQ adds it since version 5.5 (INDEX_TAG_TYPE)."""
    return key_hash(topic, f"T#{tag}")


def key_hash(topic: str, key: str) -> int:
    """Return the hash of a key: 0 for the hash whose absolute value does not fit in a Java int."""
    value = java_hash(f"{topic}#{key}")
    return 0 if value == _INT_MIN else abs(value)
