"""The transaction log of a page store: a header, and a record for each transaction that changed pages.

Each checkpoint begins a generation of the log.  Its header has a new salt, which is part of the CRCs of its records.
So old records of the previous generation, which are still in the file, are not valid.  A record has the actions of its
transaction on each page; the kinds of actions have SwiftMQ's numbers.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import NamedTuple

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout
from binlog.format.pagestore.page import PAGE_COUNT_MAX, is_page_size, page_content_bytes

VERSION = 1
_MAGIC = b"BINLOGTL"
SALT_BYTES = 8
# A disk writes a sector whole or not at all; the header has a sector of its own.
RECORDS_AT = 512

LOG_START = Layout(
    "pagestore_log",
    "The header of `transaction.log`; the first record is at 512",
    size=64,
    fields=(
        Field("magic", "bytes:8", "`BINLOGTL`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("page_bytes", "u32", "page size"),
        Field("generation", "u64", "number of the generation, from 1"),
        Field("salt", f"bytes:{SALT_BYTES}", "random bytes of the generation; the CRC of each record includes them"),
        Field("began_ns", "u64", "start of the generation, nanoseconds since 1970 UTC"),
        Field("reserved", "bytes:20", "zeros", const=bytes(20)),
        Field("crc", "u32", "CRC-32C of 0..59"),
    ),
)
LOG_RECORD = Layout(
    "pagestore_record",
    "The head of a transaction's record; its actions follow",
    size=36,
    fields=(
        Field("mark", "bytes:4", "the first four bytes of the generation's salt"),
        Field("kind", "u8", "2: the transaction is committed"),
        Field("reserved", "bytes:3", "zeros", const=bytes(3)),
        Field("action_count", "u32", "number of actions"),
        Field("action_bytes", "u32", "bytes of the actions"),
        Field("tx_id", "u64", "transaction"),
        Field("synced", "u64", "the log was on the disk up to this offset when this record was written"),
        Field("crc", "u32", "CRC-32C of the salt, the offset of this record (u64), the fields above, "
              "and of the actions"),
    ),
)  # fmt: skip
LOG_ACTION = Layout(
    "pagestore_action",
    "An action: a change of a page; the bytes follow",
    size=12,
    fields=(
        Field("kind", "u8", "1 a new page, filled up with zeros; 2 a whole page; 3 free the page; 4 a part of a page"),
        Field("reserved", "u8", "0", const=0),
        Field("offset", "u16", "offset in the page"),
        Field("length", "u16", "number of bytes that follow"),
        Field("reserved_2", "u16", "0", const=0),
        Field("page", "u32", "number of the page"),
    ),
)
MARK_BYTES = 4

PageAction = tuple[int, int, int, int, bytes | bytearray]
"""An action to be packed: its kind, the page, the offset and size of a part of the content, and the content.

Zeros at the end of the part are omitted for INSERT and UPDATE.
"""

# The first bytes of a record in SwiftMQ's log: START, COMMIT, ABORT.
_SWIFTMQ_STARTS = (b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\3")
_CRC = struct.Struct(">I")
_SALT_AND_OFFSET = struct.Struct(">8sQ")
_HEAD = struct.Struct(">4sB3sIIQQ")
_ACTION = struct.Struct(LOG_ACTION.format)
_START_CRC_AT = LOG_START.offset("crc")
_CRC_AT = LOG_RECORD.offset("crc")


class ActionKind(enum.IntEnum):
    """The kind of an action.

    INSERT: a new page with these bytes and zeros.  UPDATE: a whole page.  DELETE: free the page.  PORTION: a part of a
    page.
    """

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    PORTION = 4


_KINDS = {int(kind): kind for kind in ActionKind}  # reading the enumeration takes three times as long


class RecordKind(enum.IntEnum):
    """The kind of a record."""

    COMMIT = 2


class Action(NamedTuple):
    """A change of a page.  offset: the position of `data` in the page."""

    kind: ActionKind
    page: int
    offset: int = 0
    data: bytes = b""


class LogStart(NamedTuple):
    """The header of the log."""

    page_bytes: int
    generation: int
    salt: bytes
    began_ns: int = 0

    def pack(self) -> bytes:
        """Return the bytes of the header."""
        head = LOG_START.pack({**self._asdict(), "crc": 0})[:_START_CRC_AT]
        return head + _CRC.pack(crc32c(head))


class LogRecord(NamedTuple):
    """The record of a transaction.  synced: the end of the log that was on the disk when this record was written."""

    tx_id: int
    synced: int
    actions: tuple[Action, ...]


def parse_log_start(data: bytes, path: str) -> LogStart:
    """Parse the header of a log.  Raises: CorruptError; VersionError."""
    if len(data) < LOG_START.size:
        raise CorruptError(path, 0, "header", f"the header has only {len(data)} bytes")
    found = LOG_START.unpack(data)
    if data[:4] in _SWIFTMQ_STARTS:
        text = (
            "this store was written by SwiftMQ, whose log has no checksums; only its pages have the same layout as ours"
        )
        raise CorruptError(path, 0, "swiftmq", text)
    if found["magic"] != _MAGIC or found["crc"] != crc32c(data[:_START_CRC_AT]):
        raise CorruptError(path, 0, "header_crc", "the header is damaged")
    if found["version"] != VERSION:
        text = f"{path}: version {found['version']}; this release reads version {VERSION}"
        raise VersionError(text, found=found["version"], known=(VERSION,))
    if not is_page_size(found["page_bytes"]):
        raise CorruptError(
            path,
            LOG_START.offset("page_bytes"),
            "page_bytes",
            f"a page size of {found['page_bytes']} bytes is not possible",
        )
    return LogStart(found["page_bytes"], found["generation"], found["salt"], found["began_ns"])


def pack_actions(actions: Sequence[tuple[int, int, int, bytes | bytearray | memoryview]]) -> bytes:
    """Return the bytes of actions, each given as kind, page, offset and data."""
    parts: list[bytes | bytearray | memoryview] = []
    for kind, page, offset, data in actions:
        parts += (_ACTION.pack(kind, 0, offset, len(data), 0, page), data)
    return b"".join(parts)


def pack_record(tx_id: int, synced: int, action_count: int, actions: bytes, salt: bytes, offset: int) -> bytes:
    """Return the bytes of a transaction's record at this offset."""
    head = _HEAD.pack(salt[:MARK_BYTES], RecordKind.COMMIT, b"", action_count, len(actions), tx_id, synced)
    return b"".join((head, _CRC.pack(crc32c(actions, crc32c(head, crc_seed(salt, offset)))), actions))


def crc_seed(salt: bytes, offset: int) -> int:
    """Return the initial value of a record's CRC."""
    return crc32c(_SALT_AND_OFFSET.pack(salt, offset))


def parse_record(data: bytes, offset: int, start: LogStart, path: str, base: int = 0) -> tuple[LogRecord, int]:
    """Parse the record at an offset of the log; return it and its end.

    data: the bytes of the log from the offset `base` on.
    Raises: CorruptError; its rule is "torn" if the data end within the record.
    """
    position = offset - base
    if position + LOG_RECORD.size > len(data):
        raise CorruptError(path, offset, "torn", "the log ends within a record")
    mark, kind, _, count, size, tx_id, synced = _HEAD.unpack_from(data, position)
    if mark != start.salt[:MARK_BYTES] or kind != RecordKind.COMMIT:
        raise CorruptError(path, offset, "record", "no record of this generation starts here")
    end = position + LOG_RECORD.size + size
    if end > len(data):
        raise CorruptError(path, offset, "torn", "the log ends within a record")
    body = data[position + LOG_RECORD.size : end]
    (crc,) = _CRC.unpack_from(data, position + _CRC_AT)
    if crc != crc32c(body, crc32c(data[position : position + _CRC_AT], crc_seed(start.salt, offset))):
        raise CorruptError(path, offset, "check", "the record is damaged")
    return LogRecord(tx_id, synced, _parse_actions(body, count, start.page_bytes, offset, path)), base + end


def declared_bytes(data: bytes, offset: int) -> int:
    """Return the size that a record claims to have, limited to the data."""
    if offset + LOG_RECORD.size > len(data):
        return 0
    size: int = _HEAD.unpack_from(data, offset)[4]
    return min(LOG_RECORD.size + size, len(data) - offset)


def _parse_actions(body: bytes, count: int, page_bytes: int, offset: int, path: str) -> tuple[Action, ...]:
    room = page_content_bytes(page_bytes)
    actions = []
    position = 0
    try:
        for _ in range(count):
            kind, _, offset, length, _, page = _ACTION.unpack_from(body, position)
            position += _ACTION.size
            action = Action(_KINDS[kind], page, offset, body[position : position + length])
            position += length
            if offset + length > room or page > PAGE_COUNT_MAX or len(action.data) != length:
                raise ValueError(f"page {page}, {length} bytes at {offset}")
            actions.append(action)
        if position != len(body):
            raise ValueError(f"{len(body) - position} bytes follow the last one")
    except (struct.error, KeyError, ValueError) as error:
        raise CorruptError(path, offset, "action", f"the record has an invalid action: {error}") from None
    return tuple(actions)
