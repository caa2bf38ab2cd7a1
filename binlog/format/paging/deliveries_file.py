"""The file of delivery counts beside a page: a header, and eight bytes for each message.

Each count has its own CRC, over the page's salt and the message's number.  Zeros mean that the message was never
delivered.  A count never crosses a sector, and is overwritten when the message is delivered again.
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
    "The header of a file of delivery counts",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPD`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("page_id", "u64", "the page whose messages were delivered"),
        Field("salt", f"bytes:{SALT_BYTES}", "the salt of that page; for a page of `jbm`, see *Acknowledgements*"),
        Field("crc", "u32", "CRC-32C of 0..27"),
    ),
)
DELIVERY = Layout(
    "delivery",
    "A delivery count",
    size=8,
    fields=(
        Field("count", "u32", "how often the message was delivered; 0 for never"),
        Field("crc", "u32", "CRC-32C of the page's salt, the message's number (u32), and the count"),
    ),
)
_DELIVERY = struct.Struct(DELIVERY.format)
_COUNTED = struct.Struct(f">{SALT_BYTES}sII")


class FoundDeliveries(NamedTuple):
    """The contents of a file of delivery counts.

    counts: how often each message was delivered, by its number.  is_whole: whether the header is that of the page.
    """

    counts: dict[int, int]
    is_whole: bool
    problems: list[Problem]


def pack_deliveries_header(page_id: int, salt: bytes) -> bytes:
    """Return the header of the delivery counts of a page."""
    data = DELIVERIES_HEADER.pack({"page_id": page_id, "salt": salt, "crc": 0})[:-4]
    return data + crc32c(data).to_bytes(4)


def delivery_offset(number: int) -> int:
    """Return the offset of the count of a message."""
    return DELIVERIES_HEADER.size + DELIVERY.size * number


def pack_delivery(number: int, count: int, salt: bytes) -> bytes:
    """Return the bytes of the count of a message."""
    count = min(count, COUNT_MAX)
    return _DELIVERY.pack(count, crc32c(_COUNTED.pack(salt, number, count)))


def parse_deliveries(data: bytes, page_id: int, salt: bytes, path: str) -> FoundDeliveries:
    """Parse all valid counts; a message with a damaged count counts as never delivered.

    A power cut can leave zeros in place of the header.
    """
    if data[: DELIVERIES_HEADER.size] != pack_deliveries_header(page_id, salt):
        is_leftover = not any(data[: DELIVERIES_HEADER.size]) or len(data) < DELIVERIES_HEADER.size
        text = "the header is not that of its page, so all messages count as never delivered"
        return FoundDeliveries({}, False, [] if is_leftover else [Problem(path, 0, "deliveries_header", text)])
    counts, problems = dict[int, int](), list[Problem]()
    end = len(data) - (len(data) - DELIVERIES_HEADER.size) % DELIVERY.size
    for number, (count, crc) in enumerate(_DELIVERY.iter_unpack(data[DELIVERIES_HEADER.size : end])):
        if not count and not crc:
            continue
        if crc == crc32c(_COUNTED.pack(salt, number, count)):
            counts[number] = count
        else:
            text = f"the delivery count of message {number} is damaged"
            problems.append(Problem(path, delivery_offset(number), "delivery_crc", text, delivery_offset(number + 1)))
    return FoundDeliveries(counts, True, problems)
