"""The log of a page store's transactions: a header, and a record of each transaction that changed pages.

A generation of the log begins with each checkpoint: with a salt of its own in the header, which goes into the CRCs of
its records, so that those of the generation before, which lie there still, are none of it.  A record holds what its
transaction made of each page; the kinds of these actions have SwiftMQ's numbers.
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
# What a disk writes whole, or not at all; the header has one to itself.
RECORDS_AT = 512

LOG_START = Layout(
    "pagestore_log",
    "The header of `transaction.log`; the first record lies at 512",
    size=64,
    fields=(
        Field("magic", "bytes:8", "`BINLOGTL`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("page_bytes", "u32", "how large a page is"),
        Field("generation", "u64", "how often the log began anew, 1 at first"),
        Field("salt", f"bytes:{SALT_BYTES}", "of the generation, at random; goes into the CRC of each record"),
        Field("began_ns", "u64", "when the generation began, nanoseconds since 1970 UTC"),
        Field("reserved", "bytes:20", "zeros", const=bytes(20)),
        Field("crc", "u32", "CRC-32C of 0..59"),
    ),
)
LOG_RECORD = Layout(
    "pagestore_record",
    "What comes before the actions of a transaction",
    size=36,
    fields=(
        Field("mark", "bytes:4", "the first four bytes of the generation's salt"),
        Field("kind", "u8", "2: the transaction is committed"),
        Field("reserved", "bytes:3", "zeros", const=bytes(3)),
        Field("action_count", "u32", "so many actions follow"),
        Field("action_bytes", "u32", "and they take so many bytes"),
        Field("tx_id", "u64", "the transaction"),
        Field("synced", "u64", "where the log ended that was on the disk when this was written"),
        Field("crc", "u32", "CRC-32C of the salt, of the offset of this record (u64), of what stands here before, "
              "and of the actions"),
    ),
)  # fmt: skip
LOG_ACTION = Layout(
    "pagestore_action",
    "An action: what a transaction made of a page; the bytes follow",
    size=12,
    fields=(
        Field(
            "kind", "u8", "1 a new page, zeros but for what follows; 2 all of the page; 3 it is free; 4 a part of it"
        ),
        Field("reserved", "u8", "0", const=0),
        Field("offset", "u16", "where in the page the bytes go"),
        Field("length", "u16", "so many bytes follow"),
        Field("reserved_2", "u16", "0", const=0),
        Field("page", "u32", "the page's number"),
    ),
)
MARK_BYTES = 4

PageAction = tuple[int, int, int, int, bytes | bytearray]
"""An action that is to be packed: its kind, the page, offset and size of a part of what the page holds, all of that.

Of an INSERT or UPDATE the zeros at the end of the part are left out.
"""

# What a record of SwiftMQ's log begins with: START, COMMIT, ABORT.
_SWIFTMQ_STARTS = (b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\3")
_CRC = struct.Struct(">I")
_SALT_AND_OFFSET = struct.Struct(">8sQ")
_HEAD = struct.Struct(">4sB3sIIQQ")
_ACTION = struct.Struct(LOG_ACTION.format)
_START_CRC_AT = LOG_START.offset("crc")
_CRC_AT = LOG_RECORD.offset("crc")


class ActionKind(enum.IntEnum):
    """INSERT: a new page, zeros but for these bytes.  UPDATE: all of a page.  DELETE: it is free.  PORTION: a part."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    PORTION = 4


_KINDS = {int(kind): kind for kind in ActionKind}  # asking the enumeration takes thrice as long


class RecordKind(enum.IntEnum):
    """What a record says of its transaction."""

    COMMIT = 2


class Action(NamedTuple):
    """What became of a page.  offset: where `data` goes in it."""

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
        """As it lies in the file."""
        head = LOG_START.pack({**self._asdict(), "crc": 0})[:_START_CRC_AT]
        return head + _CRC.pack(crc32c(head))


class LogRecord(NamedTuple):
    """A transaction.  synced: where the log ended that was on the disk when it was written."""

    tx_id: int
    synced: int
    actions: tuple[Action, ...]


def parse_log_start(data: bytes, path: str) -> LogStart:
    """The header that a log begins with.  Raises: CorruptError; VersionError."""
    if len(data) < LOG_START.size:
        raise CorruptError(path, 0, "header", f"of the header only {len(data)} bytes are there")
    found = LOG_START.unpack(data)
    if data[:4] in _SWIFTMQ_STARTS:
        text = "this is a store of SwiftMQ's own, whose log has no checks; only its pages are laid out as ours are"
        raise CorruptError(path, 0, "swiftmq", text)
    if found["magic"] != _MAGIC or found["crc"] != crc32c(data[:_START_CRC_AT]):
        raise CorruptError(path, 0, "header_crc", "the header is not what was written")
    if found["version"] != VERSION:
        text = f"{path}: version {found['version']}; {VERSION} is known"
        raise VersionError(text, found=found["version"], known=(VERSION,))
    if not is_page_size(found["page_bytes"]):
        raise CorruptError(path, LOG_START.offset("page_bytes"), "page_bytes", f"pages of {found['page_bytes']} bytes")
    return LogStart(found["page_bytes"], found["generation"], found["salt"], found["began_ns"])


def pack_actions(actions: Sequence[tuple[int, int, int, bytes | bytearray | memoryview]]) -> bytes:
    """Actions as they lie in a record; each is kind, page, offset and bytes."""
    parts: list[bytes | bytearray | memoryview] = []
    for kind, page, offset, data in actions:
        parts += (_ACTION.pack(kind, 0, offset, len(data), 0, page), data)
    return b"".join(parts)


def pack_record(tx_id: int, synced: int, action_count: int, actions: bytes, salt: bytes, offset: int) -> bytes:
    """The record of a transaction, as it lies at the offset `at`."""
    head = _HEAD.pack(salt[:MARK_BYTES], RecordKind.COMMIT, b"", action_count, len(actions), tx_id, synced)
    return b"".join((head, _CRC.pack(crc32c(actions, crc32c(head, crc_seed(salt, offset)))), actions))


def crc_seed(salt: bytes, offset: int) -> int:
    """The CRC of what comes before the record itself."""
    return crc32c(_SALT_AND_OFFSET.pack(salt, offset))


def parse_record(data: bytes, offset: int, start: LogStart, path: str, base: int = 0) -> tuple[LogRecord, int]:
    """The record at the offset `at` of the log, and where it ends.

    data: of the log, from its offset `base` on.
    Raises: CorruptError, whose rule is "torn" where the data end within the record.
    """
    position = offset - base
    if position + LOG_RECORD.size > len(data):
        raise CorruptError(path, offset, "torn", "the log ends within a record")
    mark, kind, _, count, size, tx_id, synced = _HEAD.unpack_from(data, position)
    if mark != start.salt[:MARK_BYTES] or kind != RecordKind.COMMIT:
        raise CorruptError(path, offset, "record", "no record of this generation begins here")
    end = position + LOG_RECORD.size + size
    if end > len(data):
        raise CorruptError(path, offset, "torn", "the log ends within a record")
    body = data[position + LOG_RECORD.size : end]
    (crc,) = _CRC.unpack_from(data, position + _CRC_AT)
    if crc != crc32c(body, crc32c(data[position : position + _CRC_AT], crc_seed(start.salt, offset))):
        raise CorruptError(path, offset, "check", "the record is not what was written")
    return LogRecord(tx_id, synced, _parse_actions(body, count, start.page_bytes, offset, path)), base + end


def declared_bytes(data: bytes, offset: int) -> int:
    """How many bytes the record at an offset takes by what it says, of those that are there."""
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
        raise CorruptError(path, offset, "action", f"an action of the record makes no sense: {error}") from None
    return tuple(actions)
