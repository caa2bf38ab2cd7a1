"""The file that says which messages of a page store were given: a header, and a record each time one is.

A record counts for the message that its queue has under its key, in the page that it says, and says how often that was
given then; the largest count is right.  No record lies in two sectors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from binlog.format.crc import crc32c
from binlog.format.layout import Field, Layout

VERSION = 1
_MAGIC = b"BINLOGPV"
SALT_BYTES = 8
COUNT_MAX = (1 << 31) - 1

PAGESTORE_DELIVERIES = Layout(
    "pagestore_deliveries",
    "The header of the file of deliveries",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPV`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("reserved", "u64", "0", const=0),
        Field("salt", f"bytes:{SALT_BYTES}", "of this file, at random; goes into the CRCs of its records"),
        Field("crc", "u32", "CRC-32C of 0..27"),
    ),
)
PAGESTORE_DELIVERY = Layout(
    "pagestore_delivery",
    "That a message was given",
    size=32,
    fields=(
        Field("queue_page", "u32", "the first page of the queue's index"),
        Field("message_page", "u32", "the first page of the message"),
        Field("key", "i64", "of the message in its queue"),
        Field("count", "u32", "how often it was given, this time too"),
        Field("reserved", "u64", "0", const=0),
        Field("crc", "u32", "CRC-32C of the file's salt, of this offset (u64), and of what stands here before"),
    ),
)
_PLACE = struct.Struct(f">{SALT_BYTES}sQ")
_RECORD = struct.Struct(">IIqIQ")
_CRC = struct.Struct(">I")


class Given(NamedTuple):
    """A message that was given so often."""

    queue_page: int
    message_page: int
    key: int
    times: int


def pack_deliveries_start(salt: bytes) -> bytes:
    """The header of a file."""
    data = PAGESTORE_DELIVERIES.pack({"salt": salt, "crc": 0})[:-4]
    return data + _CRC.pack(crc32c(data))


def pack_given(given: Given, salt: bytes, at: int) -> bytes:
    """A record as it lies at the offset `at`."""
    data = _RECORD.pack(*given, 0)
    return data + _CRC.pack(crc32c(data, crc32c(_PLACE.pack(salt, at))))


def parse_deliveries(data: bytes) -> Iterator[Given]:
    """The records that are whole, in their order; none if the header is not."""
    salt = data[PAGESTORE_DELIVERIES.offset("salt") : PAGESTORE_DELIVERIES.offset("crc")]
    if len(salt) != SALT_BYTES or data[: PAGESTORE_DELIVERIES.size] != pack_deliveries_start(salt):
        return
    size = PAGESTORE_DELIVERY.size
    for at in range(PAGESTORE_DELIVERIES.size, len(data) - size + 1, size):
        *fields, _ = _RECORD.unpack_from(data, at)
        given = Given(*fields)
        if data[at : at + size] == pack_given(given, salt, at):
            yield given
