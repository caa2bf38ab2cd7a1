"""Records of a journal, in the native layout (block.py) and in JBoss Messaging's.

A record in JBoss Messaging's layouts begins with its kind, from 11 to 19, and the lower 32 bits of the file id.  Its
last four bytes are its size.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from binlog.errors import CorruptError
from binlog.format.journal.block import fragments_end, pack_fragments, parse_fragments
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.layout import Field, Layout


class Kind(enum.IntEnum):
    """The kind of a record, with the numbers that JBoss Messaging uses since September 2008."""

    ADD = 11
    UPDATE = 12
    ADD_TX = 13
    UPDATE_TX = 14
    DELETE_TX = 15
    DELETE = 16
    PREPARE = 17
    COMMIT = 18
    ROLLBACK = 19


_KIND = Field("kind", "u8", "the kind of the record")
_FILE = Field("file_id", "u32", "lower 32 bits of the id in the file's header")
_TX = Field("tx_id", "i64", "the transaction")
_RECORD = Field("record_id", "i64", "the record that is added, updated or deleted")
_BODY = Field("body_bytes", "i32", "size of the body, which follows these fields; the check is last")
_USER_TYPE = Field("user_type", "u8", "the user's type of the body")
_EXTRA = Field("extra_bytes", "i32", "size of the user's bytes, which follow these fields; then the counts")
_FILES = Field("file_count", "i32", "number of counts, which follow; the check is last")

JOURNAL_ADD = Layout("journal_add", "ADD (11), UPDATE (12)", 18, (_KIND, _FILE, _RECORD, _BODY, _USER_TYPE))
JOURNAL_ADD_TX = Layout(
    "journal_add_tx", "ADD_TX (13), UPDATE_TX (14)", 26, (_KIND, _FILE, _TX, _RECORD, _BODY, _USER_TYPE)
)
JOURNAL_DELETE_TX = Layout("journal_delete_tx", "DELETE_TX (15)", 25, (_KIND, _FILE, _TX, _RECORD, _BODY))
JOURNAL_DELETE = Layout("journal_delete", "DELETE (16)", 13, (_KIND, _FILE, _RECORD))
JOURNAL_PREPARE = Layout("journal_prepare", "PREPARE (17)", 21, (_KIND, _FILE, _TX, _EXTRA, _FILES))
JOURNAL_COMMIT = Layout("journal_commit", "COMMIT (18)", 17, (_KIND, _FILE, _TX, _FILES))
JOURNAL_ROLLBACK = Layout("journal_rollback", "ROLLBACK (19)", 13, (_KIND, _FILE, _TX))
JOURNAL_COUNT = Layout(
    "journal_count",
    "How many records of a transaction a file has",
    8,
    (
        Field("file_id", "u32", "lower 32 bits of the id of the file's use"),
        Field("record_count", "i32", "number of the transaction's records in that file, before this record"),
    ),
)
JOURNAL_RECORDS = (
    JOURNAL_ADD, JOURNAL_ADD_TX, JOURNAL_DELETE_TX, JOURNAL_DELETE, JOURNAL_PREPARE, JOURNAL_COMMIT, JOURNAL_ROLLBACK
)  # fmt: skip
CHECK_BYTES = 4
USER_TYPE_MAX = 255

_DATA_USER_TYPE = Field("user_type", "u8", "the user's type of the body, which follows")
_DATA_FILES = Field("file_count", "u32", "number of counts, which end the record; the user's bytes are before them")

JOURNAL_DATA_ADD = Layout("journal_data_add", "ADD (11), UPDATE (12)", 9, (_RECORD, _DATA_USER_TYPE))
JOURNAL_DATA_ADD_TX = Layout("journal_data_add_tx", "ADD_TX (13), UPDATE_TX (14)", 17, (_TX, _RECORD, _DATA_USER_TYPE))
JOURNAL_DATA_DELETE_TX = Layout("journal_data_delete_tx", "DELETE_TX (15); a body follows", 16, (_TX, _RECORD))
JOURNAL_DATA_DELETE = Layout("journal_data_delete", "DELETE (16)", 8, (_RECORD,))
JOURNAL_DATA_END = Layout("journal_data_end", "PREPARE (17), COMMIT (18)", 12, (_TX, _DATA_FILES))
JOURNAL_DATA_ROLLBACK = Layout("journal_data_rollback", "ROLLBACK (19)", 8, (_TX,))
JOURNAL_DATA = (
    JOURNAL_DATA_ADD, JOURNAL_DATA_ADD_TX, JOURNAL_DATA_DELETE_TX, JOURNAL_DATA_DELETE, JOURNAL_DATA_END,
    JOURNAL_DATA_ROLLBACK,
)  # fmt: skip

_HEADS = {
    Kind.ADD: JOURNAL_ADD,
    Kind.UPDATE: JOURNAL_ADD,
    Kind.ADD_TX: JOURNAL_ADD_TX,
    Kind.UPDATE_TX: JOURNAL_ADD_TX,
    Kind.DELETE_TX: JOURNAL_DELETE_TX,
    Kind.DELETE: JOURNAL_DELETE,
    Kind.PREPARE: JOURNAL_PREPARE,
    Kind.COMMIT: JOURNAL_COMMIT,
    Kind.ROLLBACK: JOURNAL_ROLLBACK,
}
_DATA_HEADS = {
    Kind.ADD: JOURNAL_DATA_ADD,
    Kind.UPDATE: JOURNAL_DATA_ADD,
    Kind.ADD_TX: JOURNAL_DATA_ADD_TX,
    Kind.UPDATE_TX: JOURNAL_DATA_ADD_TX,
    Kind.DELETE_TX: JOURNAL_DATA_DELETE_TX,
    Kind.DELETE: JOURNAL_DATA_DELETE,
    Kind.PREPARE: JOURNAL_DATA_END,
    Kind.COMMIT: JOURNAL_DATA_END,
    Kind.ROLLBACK: JOURNAL_DATA_ROLLBACK,
}
# Until September 2008 these two had each other's number, and DELETE_TX and PREPARE had no bytes of the user.
_SWAPPED = {Kind.DELETE: Kind.DELETE_TX, Kind.DELETE_TX: Kind.DELETE}
_OLD_DELETE_TX = Layout("journal_old_delete_tx", "", 21, (_KIND, _FILE, _TX, _RECORD))

_CHECK = struct.Struct(">I")
_COUNT = struct.Struct(JOURNAL_COUNT.format)


class JournalRecord(NamedTuple):
    """A record in any layout.  Fields that its kind does not have are 0 or empty.

    body: the user's bytes, also those of a PREPARE or DELETE_TX.
    counts: of a COMMIT or PREPARE: for each file, its id as records have it, and how many records of the transaction it
    has.
    """

    kind: Kind
    tx_id: int = 0
    record_id: int = 0
    user_type: int = 0
    body: bytes = b""
    counts: tuple[tuple[int, int], ...] = ()


def record_bytes(kind: Kind, body_bytes: int, file_count: int, layout: JournalLayout) -> int:
    """Return the size of a record; in the native layout without the heads of its fragments."""
    size = body_bytes + JOURNAL_COUNT.size * file_count
    if layout is JournalLayout.NATIVE:
        return _DATA_HEADS[kind].size + size
    return _of_layout(kind, old=layout is JournalLayout.JBM_2008_07)[1].size + size + CHECK_BYTES


def record_end(at: int, size: int, layout: JournalLayout) -> int:
    """Return the end of the next record after the offset `at`.  size: as `record_bytes` returns it."""
    return fragments_end(at, size) if layout is JournalLayout.NATIVE else at + size


def pack_counts(counts: Iterable[tuple[int, int]]) -> bytes:
    """Pack the counts of a commit: for each file, its id as records have it, and its records of the transaction."""
    return b"".join(_COUNT.pack(*each) for each in counts)


def unpack_counts(data: bytes) -> Iterable[tuple[int, int]]:
    """Unpack the result of `pack_counts`."""
    return _COUNT.iter_unpack(data)


def pack_record(record: JournalRecord, header: FileHeader, at: int) -> bytes:
    """Pack the next record after the offset `at` of a file.

    Raises: ValueError if the kind has no body in the layout of July 2008.
    """
    old = header.layout is JournalLayout.JBM_2008_07
    kind, head = _of_layout(record.kind, old=old)
    if old and record.body and record.kind in (Kind.DELETE_TX, Kind.PREPARE):
        raise ValueError(f"{record.kind.name} has no body in the layout {header.layout.value!r}")
    values = {
        "kind": kind,
        "file_id": header.record_id,
        "tx_id": record.tx_id,
        "record_id": record.record_id,
        "body_bytes": len(record.body),
        "extra_bytes": len(record.body),
        "file_count": len(record.counts),
        "user_type": record.user_type,
    }
    rest = record.body + pack_counts(record.counts)
    if header.layout is JournalLayout.NATIVE:
        return pack_fragments(record.kind, _DATA_HEADS[record.kind].pack(values) + rest, header.salt, at)
    data = head.pack(values) + rest
    return data + _CHECK.pack(len(data) + CHECK_BYTES)


def parse_record(data: bytes, at: int, header: FileHeader, path: str) -> tuple[JournalRecord, int]:
    """Return the record at the offset `at` of a file, and its end.

    Raises: CorruptError if there is no valid record.
    """
    if header.layout is JournalLayout.NATIVE:
        number, data, end = parse_fragments(data, at, header.salt, path)
        kind = Kind(number)
        head = _DATA_HEADS[kind]
        fixed = head.unpack(data, 0) if len(data) >= head.size else {}
        start, stop = head.size, len(data)
        body_bytes = stop - start - JOURNAL_COUNT.size * fixed.get("file_count", 0)
        if not fixed or body_bytes < 0:
            raise CorruptError(path, at, "length", "the record is shorter than its fields say")
    else:
        kind, fixed, start, body_bytes, end = _parse_head(data, at, header, path)
        stop = end - CHECK_BYTES
        if _CHECK.unpack_from(data, stop)[0] != end - at:
            raise CorruptError(path, at, "check", "the record is not what was written")
    record = JournalRecord(
        kind,
        fixed.get("tx_id", 0),
        fixed.get("record_id", 0),
        fixed.get("user_type", 0),
        data[start : start + body_bytes],
        tuple(unpack_counts(data[start + body_bytes : stop])),
    )
    return record, end


def declared_end(data: bytes, at: int, header: FileHeader) -> int | None:
    """Return the end that a record in JBoss Messaging's layouts declares, valid or not; None if that is impossible."""
    try:
        return _parse_head(data, at, header, "")[-1]
    except CorruptError:
        return None


def _parse_head(data: bytes, at: int, header: FileHeader, path: str) -> tuple[Kind, dict[str, Any], int, int, int]:
    """Return the kind, the fields before the body, the offset and the size of the body, and the end of the record."""
    old = header.layout is JournalLayout.JBM_2008_07
    number = data[at] if at < len(data) else 0
    if number not in Kind._value2member_map_:
        raise CorruptError(path, at, "kind", f"{number} is not the kind of a record")
    kind = Kind(number)
    kind = _SWAPPED.get(kind, kind) if old else kind
    head = _of_layout(kind, old=old)[1]
    if at + head.size > len(data):
        raise CorruptError(path, at, "length", "a record does not fit in the file")
    fixed = head.unpack(data, at)
    if fixed["file_id"] != header.record_id:
        raise CorruptError(path, at, "file_id", f"a record of another use of the file, {fixed['file_id']}")
    body_bytes = fixed.get("body_bytes", fixed.get("extra_bytes", 0))
    file_count = fixed.get("file_count", 0)
    end = at + head.size + body_bytes + JOURNAL_COUNT.size * file_count + CHECK_BYTES
    if body_bytes < 0 or file_count < 0 or end > len(data):
        raise CorruptError(path, at, "length", "a length exceeds the file")
    return kind, fixed, at + head.size, body_bytes, end


def _of_layout(kind: Kind, *, old: bool) -> tuple[int, Layout]:
    """Return the number of a kind in a layout, and the fields at its beginning."""
    if not old:
        return kind, _HEADS[kind]
    heads = {Kind.DELETE_TX: _OLD_DELETE_TX, Kind.PREPARE: JOURNAL_COMMIT}
    return _SWAPPED.get(kind, kind), heads.get(kind, _HEADS[kind])
