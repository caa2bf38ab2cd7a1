"""A record of a journal, as JBoss Messaging lays it out, with its check size or the CRC that ours has in place of it.

Each begins with its type, from 11 to 19, and the lower 32 bits of the id of the file's use.  Four bytes end it:

- in JBoss Messaging's layouts how many bytes the whole record takes;
- in ours CRC-32C of the file's salt, of the offset at which the record lies (u64) and of the record before the CRC: a
  copy of a record that lies elsewhere, or was made in another use of the file, is none.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from binlog.errors import CorruptError
from binlog.format.crc import crc32c
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.layout import Field, Layout


class Kind(enum.IntEnum):
    """What a record does: the numbers that JBoss Messaging gives since September 2008."""

    ADD = 11
    UPDATE = 12
    ADD_TX = 13
    UPDATE_TX = 14
    DELETE_TX = 15
    DELETE = 16
    PREPARE = 17
    COMMIT = 18
    ROLLBACK = 19


_KIND = Field("kind", "u8", "the type of the record")
_FILE = Field("file_id", "u32", "lower 32 bits of the id in the file's header")
_TX = Field("tx_id", "i64", "the transaction")
_RECORD = Field("record_id", "i64", "the record that is added, updated or deleted")
_BODY = Field("body_bytes", "i32", "the body follows these fields, and then the check")
_USER_TYPE = Field("user_type", "u8", "what the user says of the body")
_EXTRA = Field("extra_bytes", "i32", "what the user says of the transaction follows these fields, and then the counts")
_FILES = Field("file_count", "i32", "of so many files the counts follow, and then the check")

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
        Field("record_count", "i32", "records of the transaction in it, before this one"),
    ),
)
JOURNAL_RECORDS = (
    JOURNAL_ADD, JOURNAL_ADD_TX, JOURNAL_DELETE_TX, JOURNAL_DELETE, JOURNAL_PREPARE, JOURNAL_COMMIT, JOURNAL_ROLLBACK
)  # fmt: skip
CHECK_BYTES = 4
USER_TYPE_MAX = 255

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
# Until September 2008 these two had each other's number, DELETE_TX no body, and PREPARE nothing of the user's.
_SWAPPED = {Kind.DELETE: Kind.DELETE_TX, Kind.DELETE_TX: Kind.DELETE}
_OLD_DELETE_TX = Layout("journal_old_delete_tx", "", 21, (_KIND, _FILE, _TX, _RECORD))

_CHECK = struct.Struct(">I")
_PLACE = struct.Struct(">8sQ")
_COUNT = struct.Struct(JOURNAL_COUNT.format)


class JournalRecord(NamedTuple):
    """A record, whatever its layout.

    body: the user's bytes, also those of a PREPARE and DELETE_TX.  counts: of COMMIT and PREPARE, for each file its id
    as records have it, and how many records of the transaction are in it.  What a kind does not have is 0, or empty.
    """

    kind: Kind
    tx_id: int = 0
    record_id: int = 0
    user_type: int = 0
    body: bytes = b""
    counts: tuple[tuple[int, int], ...] = ()


def record_bytes(kind: Kind, body_bytes: int, file_count: int, layout: JournalLayout = JournalLayout.NATIVE) -> int:
    """How many bytes a record takes."""
    head = _of_layout(kind, old=layout is JournalLayout.JBM_2008_07)[1]
    return head.size + body_bytes + JOURNAL_COUNT.size * file_count + CHECK_BYTES


def pack_counts(counts: Iterable[tuple[int, int]]) -> bytes:
    """For each file its id as records have it, and how many records of a transaction it has, as a commit has them."""
    return b"".join(_COUNT.pack(*each) for each in counts)


def unpack_counts(data: bytes) -> Iterable[tuple[int, int]]:
    """The counts that `pack_counts` packed."""
    return _COUNT.iter_unpack(data)


def pack_record(record: JournalRecord, header: FileHeader, at: int) -> bytes:
    """The record as it lies at the offset `at` of a file.  Raises: ValueError for a body in the oldest layout."""
    old = header.layout is JournalLayout.JBM_2008_07
    kind, head = _of_layout(record.kind, old=old)
    if old and record.body and record.kind in (Kind.DELETE_TX, Kind.PREPARE):
        raise ValueError(f"{record.kind.name} has no body in the layout {header.layout.value!r}")
    fixed = head.pack(
        {
            "kind": kind,
            "file_id": header.record_id,
            "tx_id": record.tx_id,
            "record_id": record.record_id,
            "body_bytes": len(record.body),
            "extra_bytes": len(record.body),
            "file_count": len(record.counts),
            "user_type": record.user_type,
        }
    )
    data = b"".join((fixed, record.body, pack_counts(record.counts)))
    return data + _CHECK.pack(_check(data, header, at))


def parse_record(data: bytes, at: int, header: FileHeader, path: str) -> tuple[JournalRecord, int]:
    """The record at the offset `at` of a file whose bytes are `data`, and where it ends.

    Raises: CorruptError where there is none.
    """
    kind, fixed, start, body_bytes, end = _parse_head(data, at, header, path)
    if _CHECK.unpack_from(data, end - CHECK_BYTES)[0] != _check(data[at : end - CHECK_BYTES], header, at):
        raise CorruptError(path, at, "check", "the record is not what was written")
    counts = tuple(unpack_counts(data[start + body_bytes : end - CHECK_BYTES]))
    record = JournalRecord(
        kind,
        fixed.get("tx_id", 0),
        fixed.get("record_id", 0),
        fixed.get("user_type", 0),
        data[start : start + body_bytes],
        counts,
    )
    return record, end


def is_record(data: bytes | memoryview, at: int, header: FileHeader) -> bool:
    """Whether a sound record lies at an offset."""
    try:
        end = _parse_head(data, at, header, "")[-1]
    except CorruptError:
        return False
    found: int = _CHECK.unpack_from(data, end - CHECK_BYTES)[0]
    return found == _check(data[at : end - CHECK_BYTES], header, at)


def said_end(data: bytes, at: int, header: FileHeader) -> int | None:
    """Where the record at an offset ends by what it says, whether it is sound or not; None where it says nonsense."""
    try:
        return _parse_head(data, at, header, "")[-1]
    except CorruptError:
        return None


def _parse_head(
    data: bytes | memoryview, at: int, header: FileHeader, path: str
) -> tuple[Kind, dict[str, Any], int, int, int]:
    """The kind, the fields before the body, where that begins, how long it is, and where the record ends."""
    old = header.layout is JournalLayout.JBM_2008_07
    number = data[at] if at < len(data) else 0
    if number not in Kind._value2member_map_:
        raise CorruptError(path, at, "kind", f"{number} is no type of a record")
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
        raise CorruptError(path, at, "length", "a length leads out of the file")
    return kind, fixed, at + head.size, body_bytes, end


def check_seed(header: FileHeader, at: int) -> int:
    """The CRC of what comes before the record itself, in our layout."""
    return crc32c(_PLACE.pack(header.salt, at))


def _check(data: bytes | memoryview, header: FileHeader, at: int) -> int:
    if header.layout is JournalLayout.NATIVE:
        return crc32c(data, check_seed(header, at))
    return len(data) + CHECK_BYTES


def _of_layout(kind: Kind, *, old: bool) -> tuple[int, Layout]:
    """The number of a kind, and what it begins with."""
    if not old:
        return kind, _HEADS[kind]
    heads = {Kind.DELETE_TX: _OLD_DELETE_TX, Kind.PREPARE: JOURNAL_COMMIT}
    return _SWAPPED.get(kind, kind), heads.get(kind, _HEADS[kind])
