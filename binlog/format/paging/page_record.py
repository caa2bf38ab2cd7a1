"""A message in a page, and what ends a page, as native/page_writer.c and page_scan.c have it.

Ours: `{`, how long the message is, whose transaction it is, a CRC of that; the message; a CRC of all.  Both CRCs go
over the page's salt and the offset at which the record lies, too.  The first one is there so that a length is believed
before the message is looked at: one that leads past the file's end is then a message that was being written when the
process died, and not a damaged length.

JBoss Messaging's: `{`, how many bytes follow, the transaction, the message, `}`.

Messages of pages by the compiled functions; page_record.py is the plain way to say it.
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

_CRC = Field(
    "crc", "u32", "CRC-32C of the page's salt, of the offset of this record (u64), and of what stands here before"
)
PAGE_RECORD = Layout(
    "page_record",
    "What comes before a message",
    size=20,
    fields=(
        Field("marker", "u8", "`{`", const=_OPENS),
        Field("reserved", "bytes:3", "zeros", const=bytes(3)),
        Field("message_bytes", "u32", "how long the message is that follows"),
        Field("tx_id", "i64", f"the transaction, {NO_TRANSACTION} for none"),
        _CRC,
    ),
)
PAGE_CHECK = Layout(
    "page_check",
    "What comes behind a message",
    size=4,
    fields=(Field("crc", "u32", "CRC-32C that goes on from the one before the message, of the message"),),
)
PAGE_END = Layout(
    "page_end",
    "What ends a page to which nothing is added any more",
    size=20,
    fields=(
        Field("marker", "u8", "`}`", const=_CLOSES),
        Field("reserved", "bytes:3", "zeros", const=bytes(3)),
        Field("message_count", "u32", "so many messages are in the page"),
        Field("message_bytes", "u64", "and they take so many bytes, without what is around them"),
        _CRC,
    ),
)
JBM_PAGE_RECORD = Layout(
    "jbm_page_record",
    "What comes before a message in JBoss Messaging's pages; `}` comes behind it",
    size=13,
    fields=(
        Field("marker", "u8", "`{`", const=_OPENS),
        Field("following_bytes", "i32", "the transaction's eight, and those of the message"),
        Field("tx_id", "i64", f"the transaction, {NO_TRANSACTION} for none"),
    ),
)
_TX_BYTES = 8
_SALT_AND_OFFSET = struct.Struct(">8sQ")
_CRC_OFFSET = PAGE_RECORD.offset("crc")


# So much of a page of JBoss Messaging's tells it from others.
IDENTITY_BYTES = 512


class PageMessage(NamedTuple):
    """A message in a page.  tx_id: NO_TRANSACTION for none."""

    message: bytes
    tx_id: int = NO_TRANSACTION


class PageEnd(NamedTuple):
    """What a whole page has: messages, and bytes of these."""

    message_count: int
    message_bytes: int


def record_bytes(header: PageHeader, message_bytes: int) -> int:
    """How many bytes of the file a message of so many takes."""
    return message_bytes + (PAGE_RECORD.size + PAGE_CHECK.size if header.salt else JBM_PAGE_RECORD.size + 1)


def page_bytes(header: PageHeader, end: PageEnd) -> int:
    """How many bytes such messages take with the page's header, and so where what ends the page lies."""
    return header.size + record_bytes(header, 0) * end.message_count + end.message_bytes


def pack_page_message(record: PageMessage, header: PageHeader, offset: int) -> bytes:
    """The message as it lies at the offset `at` of a page."""
    if not header.salt:
        values = {"following_bytes": _TX_BYTES + len(record.message), "tx_id": record.tx_id}
        return JBM_PAGE_RECORD.pack(values) + record.message + b"}"
    values = {"message_bytes": len(record.message), "tx_id": record.tx_id, "crc": 0}
    head = PAGE_RECORD.pack(values)[:_CRC_OFFSET]
    crc = _crc(head, header, offset)
    return head + crc.to_bytes(4, "big") + record.message + crc32c(record.message, crc).to_bytes(4, "big")


def pack_page_end(end: PageEnd, header: PageHeader, offset: int) -> bytes:
    """What ends the page, at the offset `at`; nothing in JBoss Messaging's layout."""
    if not header.salt:
        return b""
    data = PAGE_END.pack({**end._asdict(), "crc": 0})[:_CRC_OFFSET]
    return data + _crc(data, header, offset).to_bytes(4, "big")


def parse_page_end(data: bytes, header: PageHeader, offset: int) -> PageEnd | None:
    """What ends the page, if that is what the 20 bytes are that lie at the offset `at`."""
    if len(data) != PAGE_END.size or data[0] != _CLOSES or not header.salt:
        return None
    found = PAGE_END.unpack(data)
    if found["crc"] != _crc(data[:_CRC_OFFSET], header, offset):
        return None
    return PageEnd(found["message_count"], found["message_bytes"])


def parse_page_record(data: bytes, offset: int, header: PageHeader, path: str) -> tuple[PageMessage | PageEnd, int]:
    """What lies at the offset `at` of a page whose bytes are `data`, and where it ends.

    Raises: CorruptError, whose rule is "torn" where the file ends within the record.
    """
    if offset >= len(data):
        raise CorruptError(path, offset, "torn", "the page ends here")
    if not header.salt:
        return _parse_jbm(data, offset, path)
    if data[offset] == _CLOSES:
        end = parse_page_end(data[offset : offset + PAGE_END.size], header, offset)
        if end is None:
            raise CorruptError(path, offset, "check", "what ends the page is not what was written")
        return end, offset + PAGE_END.size
    if data[offset] != _OPENS:
        raise CorruptError(path, offset, "marker", f"{data[offset]} begins no record")
    start = offset + PAGE_RECORD.size
    if start > len(data):
        raise CorruptError(path, offset, "torn", "the page ends in what comes before a message")
    head = PAGE_RECORD.unpack(data, offset)
    crc = _crc(data[offset : offset + _CRC_OFFSET], header, offset)
    if head["crc"] != crc:
        raise CorruptError(path, offset, "check", "what comes before a message is not what was written")
    stop = start + head["message_bytes"]
    if stop + PAGE_CHECK.size > len(data):
        raise CorruptError(path, offset, "torn", "the page ends in a message")
    message = data[start:stop]
    if PAGE_CHECK.unpack(data, stop)["crc"] != crc32c(message, crc):
        raise CorruptError(path, offset, "check", "the message is not what was written")
    return PageMessage(message, head["tx_id"]), stop + PAGE_CHECK.size


def _parse_jbm(data: bytes, offset: int, path: str) -> tuple[PageMessage, int]:
    if data[offset] != _OPENS:
        raise CorruptError(path, offset, "marker", f"{data[offset]} begins no record")
    start = offset + JBM_PAGE_RECORD.size
    if start > len(data):
        raise CorruptError(path, offset, "torn", "the page ends in what comes before a message")
    head = JBM_PAGE_RECORD.unpack(data, offset)
    stop = start + head["following_bytes"] - _TX_BYTES
    if stop < start:
        raise CorruptError(path, offset, "length", f"{head['following_bytes']} bytes have no room for the transaction")
    if stop >= len(data):
        raise CorruptError(path, offset, "torn", "the page ends in a message")
    if data[stop] != _CLOSES:
        raise CorruptError(path, stop, "marker", f"{data[stop]} ends no message")
    return PageMessage(data[start:stop], head["tx_id"]), stop + 1


def _crc(data: bytes, header: PageHeader, offset: int) -> int:
    return crc32c(data, crc32c(_SALT_AND_OFFSET.pack(header.salt, offset)))


def jbm_identity(start: bytes) -> bytes:
    """What tells a page of JBoss Messaging's from others of its number: a hash of its first record; zeros for none.

    start: so many bytes as IDENTITY_BYTES that the page begins with, or all.
    """
    if len(start) < JBM_PAGE_RECORD.size:
        return bytes(SALT_BYTES)
    following: int = JBM_PAGE_RECORD.unpack(start)["following_bytes"]
    end = JBM_PAGE_RECORD.offset("tx_id") + max(following, 0) + 1
    return hashlib.sha256(start[: min(end, IDENTITY_BYTES)]).digest()[:SALT_BYTES]


class ScanStop(enum.IntEnum):
    """Why a scan ended."""

    SHORT = 0  # the data end, or end within a record
    END = 1  # what ends a page
    INVALID = 2  # this is no record
    ENOUGH = 3  # so many were asked for


class PageScan(NamedTuple):
    """Messages that follow one another.

    tx_ids: as many ids of transactions, or None where no message has one.  consumed: bytes that the messages take, and
    those that were skipped.
    """

    messages: list[bytes]
    tx_ids: list[int] | None
    consumed: int
    stop: int
    skipped: int


def scan(data: bytes, offset: int, salt: bytes, *, skip: int = 0, count_max: int = sys.maxsize) -> PageScan:
    """The messages in `data`, which lie at the offset `at` of a page; a few of them where told so."""
    return PageScan(*scan_page(data, offset, salt, skip, count_max))
