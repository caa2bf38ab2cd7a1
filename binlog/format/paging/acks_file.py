"""The file beside a page that says which of its messages were acknowledged: a header, and records of 24 bytes.

Its CRCs go over the page's salt, so that no acknowledgement counts for another page.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from binlog.format.crc import crc32c
from binlog.format.layout import Field, Layout
from binlog.format.paging.page_file import SALT_BYTES
from binlog.format.paging.page_record import NO_TRANSACTION

VERSION = 1
_MAGIC = b"BINLOGPA"
_MARKER = ord("(")

ACKS_HEADER = Layout(
    "acks_header",
    "The header of a file of acknowledgements",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPA`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("page_id", "u64", "of the page whose messages are acknowledged"),
        Field("salt", f"bytes:{SALT_BYTES}", "of that page; zeros where it has none"),
        Field("crc", "u32", "CRC-32C of 0..27"),
    ),
)
ACK_RECORD = Layout(
    "ack_record",
    "An acknowledgement",
    size=24,
    fields=(
        Field("marker", "u8", "`(`", const=_MARKER),
        Field("reserved", "bytes:3", "zeros", const=bytes(3)),
        Field("first", "u32", "the first message of those that follow one another: 0 is the page's first"),
        Field("message_count", "u32", "so many messages"),
        Field("tx_id", "i64", f"it counts where this transaction was committed; {NO_TRANSACTION} for none, and always"),
        Field(
            "crc", "u32", "CRC-32C of the page's salt, of this record's offset (u64), and of what stands here before"
        ),
    ),
)
_CRC_AT = ACK_RECORD.offset("crc")
_PLACE = struct.Struct(">8sQ")


class Ack(NamedTuple):
    """That messages of a page that follow one another were acknowledged, if `tx_id` was committed."""

    first: int
    message_count: int
    tx_id: int = NO_TRANSACTION


def pack_acks_header(page_id: int, salt: bytes) -> bytes:
    """The header of the acknowledgements of a page."""
    data = ACKS_HEADER.pack({"page_id": page_id, "salt": salt, "crc": 0})[:-4]
    return data + crc32c(data).to_bytes(4, "big")


def pack_ack(ack: Ack, salt: bytes, at: int) -> bytes:
    """The acknowledgement as it lies at the offset `at`."""
    data = ACK_RECORD.pack({**ack._asdict(), "crc": 0})[:_CRC_AT]
    return data + crc32c(data, crc32c(_PLACE.pack(salt, at))).to_bytes(4, "big")


def parse_acks(data: bytes, page_id: int, salt: bytes) -> tuple[list[Ack], int]:
    """The acknowledgements of a page in a file whose bytes are `data`, and where the last whole one ends.

    Nothing is in a file whose header is that of another page, or was not written: its end is 0 then.
    """
    if data[: ACKS_HEADER.size] != pack_acks_header(page_id, salt):
        return [], 0
    acks = []
    at = ACKS_HEADER.size
    while at + ACK_RECORD.size <= len(data):
        found = ACK_RECORD.unpack(data, at)
        ack = Ack(found["first"], found["message_count"], found["tx_id"])
        if data[at : at + ACK_RECORD.size] != pack_ack(ack, salt, at):
            break
        acks.append(ack)
        at += ACK_RECORD.size
    return acks, at
