"""The records of a page: messages, and the end of a page.

Our layout: `{`, the message's size, its transaction, a CRC of these; the message; a CRC of everything.  Both CRCs
include the page's salt and the record's offset.  The first CRC validates the size before the message is read.  So if a
valid size exceeds the file, the process died while it was writing that message; the size is not damaged.

The layout of JBoss Messaging: `{`, the number of bytes that follow, the transaction, the message, `}`.

native/paging/page_writer.c writes these records, and native/codec/paging/page_scan.c reads them.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import sys
from typing import NamedTuple

from binlog._codec import scan_page
from binlog.errors import CorruptError
from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout
from binlog.format.paging.page_file import SALT_BYTES, PageHeader

NO_TRANSACTION = -1
_OPENS = ord("{")
_CLOSES = ord("}")

_CRC = Field("crc", "u32", "CRC-32C of the page's salt, the offset of this record (u64), and the fields above")
PAGE_RECORD = Layout(
    "page_record",
    "The head of a message",
    size=20,
    fields=(
        Field("marker", "u8", "`{`", const=_OPENS),
        Field("reserved", "bytes:3", "zeros", const=bytes(3)),
        Field("message_bytes", "u32", "size of the message that follows"),
        Field("tx_id", "i64", f"transaction, {NO_TRANSACTION} for none"),
        _CRC,
    ),
)
PAGE_CHECK = Layout(
    "page_check",
    "The check after a message",
    size=4,
    fields=(Field("crc", "u32", "CRC-32C of the message, continued from the CRC of the head"),),
)
PAGE_END = Layout(
    "page_end",
    "The end of a closed page",
    size=20,
    fields=(
        Field("marker", "u8", "`}`", const=_CLOSES),
        Field("reserved", "bytes:3", "zeros", const=bytes(3)),
        Field("message_count", "u32", "messages in the page"),
        Field("message_bytes", "u64", "bytes of these messages, without framing"),
        _CRC,
    ),
)
JBM_PAGE_RECORD = Layout(
    "jbm_page_record",
    "The head of a message in a page of JBoss Messaging; `}` follows the message",
    size=13,
    fields=(
        Field("marker", "u8", "`{`", const=_OPENS),
        Field("following_bytes", "i32", "size of what follows: the 8 bytes of the transaction, and the message"),
        Field("tx_id", "i64", f"transaction, {NO_TRANSACTION} for none"),
    ),
)
_TX_BYTES = 8
_SALT_AND_OFFSET = struct.Struct(">8sQ")
_CRC_OFFSET = PAGE_RECORD.offset("crc")


# This prefix of a page of JBoss Messaging distinguishes it from others.
IDENTITY_BYTES = 512


class PageMessage(NamedTuple):
    """A message of a page.  tx_id: NO_TRANSACTION for none."""

    message: bytes
    tx_id: int = NO_TRANSACTION


class PageEnd(NamedTuple):
    """The number of messages in a closed page, and their bytes."""

    message_count: int
    message_bytes: int


def record_bytes(header: PageHeader, message_bytes: int) -> int:
    """Return the size of a record with a message of this size."""
    return message_bytes + (PAGE_RECORD.size + PAGE_CHECK.size if header.salt else JBM_PAGE_RECORD.size + 1)


def page_bytes(header: PageHeader, end: PageEnd) -> int:
    """Return the size of a page with these messages, which is the offset of the record that ends it."""
    return header.size + record_bytes(header, 0) * end.message_count + end.message_bytes


def pack_page_message(record: PageMessage, header: PageHeader, offset: int) -> bytes:
    """Return the bytes of a message's record at this offset."""
    if not header.salt:
        values = {"following_bytes": _TX_BYTES + len(record.message), "tx_id": record.tx_id}
        return JBM_PAGE_RECORD.pack(values) + record.message + b"}"
    values = {"message_bytes": len(record.message), "tx_id": record.tx_id, "crc": 0}
    head = PAGE_RECORD.pack(values)[:_CRC_OFFSET]
    crc = _crc(head, header, offset)
    return head + crc.to_bytes(4, "big") + record.message + crc32c(record.message, crc).to_bytes(4, "big")


def pack_page_end(end: PageEnd, header: PageHeader, offset: int) -> bytes:
    """Return the bytes of the record that ends a page, at this offset; empty in the layout of JBoss Messaging."""
    if not header.salt:
        return b""
    data = PAGE_END.pack({**end._asdict(), "crc": 0})[:_CRC_OFFSET]
    return data + _crc(data, header, offset).to_bytes(4, "big")


def parse_page_end(data: bytes, header: PageHeader, offset: int) -> PageEnd | None:
    """Parse the record that ends a page, from the 20 bytes at this offset; return None if they are not that."""
    if len(data) != PAGE_END.size or data[0] != _CLOSES or not header.salt:
        return None
    found = PAGE_END.unpack(data)
    if found["crc"] != _crc(data[:_CRC_OFFSET], header, offset):
        return None
    return PageEnd(found["message_count"], found["message_bytes"])


def parse_page_record(data: bytes, offset: int, header: PageHeader, path: str) -> tuple[PageMessage | PageEnd, int]:
    """Parse the record at an offset of a page; return it and its end offset.

    data: the bytes of the page.
    Raises: CorruptError; its rule is "torn" if the file ends within the record.
    """
    if offset >= len(data):
        raise CorruptError(path, offset, "torn", "the page ends here")
    if not header.salt:
        return _parse_jbm(data, offset, path)
    if data[offset] == _CLOSES:
        end = parse_page_end(data[offset : offset + PAGE_END.size], header, offset)
        if end is None:
            raise CorruptError(path, offset, "check", "the end of the page is damaged")
        return end, offset + PAGE_END.size
    if data[offset] != _OPENS:
        raise CorruptError(path, offset, "marker", f"{data[offset]} is not the start of a record")
    start = offset + PAGE_RECORD.size
    if start > len(data):
        raise CorruptError(path, offset, "torn", "the page ends within the head of a message")
    head = PAGE_RECORD.unpack(data, offset)
    crc = _crc(data[offset : offset + _CRC_OFFSET], header, offset)
    if head["crc"] != crc:
        raise CorruptError(path, offset, "check", "the head of a message is damaged")
    stop = start + head["message_bytes"]
    if stop + PAGE_CHECK.size > len(data):
        raise CorruptError(path, offset, "torn", "the page ends within a message")
    message = data[start:stop]
    if PAGE_CHECK.unpack(data, stop)["crc"] != crc32c(message, crc):
        raise CorruptError(path, offset, "check", "the message is damaged")
    return PageMessage(message, head["tx_id"]), stop + PAGE_CHECK.size


def _parse_jbm(data: bytes, offset: int, path: str) -> tuple[PageMessage, int]:
    if data[offset] != _OPENS:
        raise CorruptError(path, offset, "marker", f"{data[offset]} is not the start of a record")
    start = offset + JBM_PAGE_RECORD.size
    if start > len(data):
        raise CorruptError(path, offset, "torn", "the page ends within the head of a message")
    head = JBM_PAGE_RECORD.unpack(data, offset)
    stop = start + head["following_bytes"] - _TX_BYTES
    if stop < start:
        raise CorruptError(path, offset, "length", f"{head['following_bytes']} bytes are too few for the transaction")
    if stop >= len(data):
        raise CorruptError(path, offset, "torn", "the page ends within a message")
    if data[stop] != _CLOSES:
        raise CorruptError(path, stop, "marker", f"{data[stop]} is not the end of a message")
    return PageMessage(data[start:stop], head["tx_id"]), stop + 1


def _crc(data: bytes, header: PageHeader, offset: int) -> int:
    return crc32c(data, crc32c(_SALT_AND_OFFSET.pack(header.salt, offset)))


def jbm_identity(start: bytes) -> bytes:
    """Return the identity of a page of JBoss Messaging: a hash of its first record, or zeros if it has none.

    start: the first IDENTITY_BYTES of the page, or all of it.
    """
    if len(start) < JBM_PAGE_RECORD.size:
        return bytes(SALT_BYTES)
    following: int = JBM_PAGE_RECORD.unpack(start)["following_bytes"]
    end = JBM_PAGE_RECORD.offset("tx_id") + max(following, 0) + 1
    return hashlib.sha256(start[: min(end, IDENTITY_BYTES)]).digest()[:SALT_BYTES]


class ScanStop(enum.IntEnum):
    """The reason why a scan ended."""

    SHORT = 0  # the data end, possibly within a record
    END = 1  # the record that ends a page
    INVALID = 2  # not a valid record
    ENOUGH = 3  # `count_max` is reached


class PageScan(NamedTuple):
    """Consecutive messages of a page.

    tx_ids: the transaction of each message, or None if no message has one.  consumed: the bytes of these messages and
    of the skipped ones.
    """

    messages: list[bytes]
    tx_ids: list[int] | None
    consumed: int
    stop: int
    skipped: int


def scan(data: bytes, offset: int, salt: bytes, *, skip: int = 0, count_max: int = sys.maxsize) -> PageScan:
    """Scan the messages in `data`, which start at this offset of a page."""
    return PageScan(*scan_page(data, offset, salt, skip, count_max))
