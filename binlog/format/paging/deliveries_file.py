"""The file beside a page that says how often each message was given: a header, and eight bytes for each message.

Each count has a CRC of its own, over the page's salt and the message's number.  Zeros are a message that was never
given.  A count lies in one sector, and is written over when the message is given again.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout
from binlog.format.paging.page_file import SALT_BYTES
from binlog.format.problem import Problem

VERSION = 1
_MAGIC = b"BINLOGPD"
COUNT_MAX = (1 << 32) - 1

DELIVERIES_HEADER = Layout(
    "deliveries_header",
    "The header of a file of deliveries",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPD`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("page_id", "u64", "of the page whose messages were given"),
        Field("salt", f"bytes:{SALT_BYTES}", "of that page; see below for a page of `jbm`"),
        Field("crc", "u32", "CRC-32C of 0..27"),
    ),
)
DELIVERY = Layout(
    "delivery",
    "How often a message was given",
    size=8,
    fields=(
        Field("count", "u32", "so often; 0 for never"),
        Field("crc", "u32", "CRC-32C of the page's salt, of the message's number (u32), and of the count"),
    ),
)
_DELIVERY = struct.Struct(DELIVERY.format)
_COUNTED = struct.Struct(f">{SALT_BYTES}sII")


class FoundDeliveries(NamedTuple):
    """What is in a file of deliveries.

    counts: how often each message was given, by its number.  is_whole: the header is one of the page.
    """

    counts: dict[int, int]
    is_whole: bool
    problems: list[Problem]


def pack_deliveries_header(page_id: int, salt: bytes) -> bytes:
    """The header of the deliveries of a page."""
    data = DELIVERIES_HEADER.pack({"page_id": page_id, "salt": salt, "crc": 0})[:-4]
    return data + crc32c(data).to_bytes(4)


def delivery_offset(number: int) -> int:
    """Where the count of a message lies."""
    return DELIVERIES_HEADER.size + DELIVERY.size * number


def pack_delivery(number: int, count: int, salt: bytes) -> bytes:
    """The count of a message as it lies there."""
    count = min(count, COUNT_MAX)
    return _DELIVERY.pack(count, crc32c(_COUNTED.pack(salt, number, count)))


def parse_deliveries(data: bytes, page_id: int, salt: bytes, path: str) -> FoundDeliveries:
    """All counts that are whole; of others it is told, and their messages count as never given.

    Zeros in place of the header are what a power cut leaves.
    """
    if data[: DELIVERIES_HEADER.size] != pack_deliveries_header(page_id, salt):
        is_leftover = not any(data[: DELIVERIES_HEADER.size]) or len(data) < DELIVERIES_HEADER.size
        text = "it does not begin as the deliveries of its page, so all count as given never"
        return FoundDeliveries({}, False, [] if is_leftover else [Problem(path, 0, "deliveries_header", text)])
    counts, problems = dict[int, int](), list[Problem]()
    end = len(data) - (len(data) - DELIVERIES_HEADER.size) % DELIVERY.size
    for number, (count, crc) in enumerate(_DELIVERY.iter_unpack(data[DELIVERIES_HEADER.size : end])):
        if not count and not crc:
            continue
        if crc == crc32c(_COUNTED.pack(salt, number, count)):
            counts[number] = count
        else:
            text = f"how often message {number} was given cannot be read"
            problems.append(Problem(path, delivery_offset(number), "delivery_crc", text, delivery_offset(number + 1)))
    return FoundDeliveries(counts, True, problems)
