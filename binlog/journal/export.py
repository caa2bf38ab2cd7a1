"""A journal as lines of text, one for each record, and a journal made of such lines.

A line is a JSON object.  The first one says what the lines are, and the last one how many records there were: without
it something is missing.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from binlog.errors import CorruptError
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind
from binlog.journal.options import FILE_BYTES_MIN
from binlog.journal.record_reader import JournalRecords, StoredRecord
from binlog.journal.record_states import RecordState

VERSION = 1
_MARK = "binlog_journal"
_INT64 = 1 << 63
# What a file of this size of JBoss Messaging's holds fits in one of ours that is so much larger.
_MORE_BYTES = 512


class ExportHead(NamedTuple):
    """What the first line says.  file_bytes: of the largest file; None without any."""

    layout: JournalLayout | None
    file_bytes: int | None

    @property
    def new_file_bytes(self) -> int | None:
        """Of a new file in which each of the records fits, whatever its layout."""
        if self.file_bytes is None:
            return None
        return max(self.file_bytes + (0 if self.layout is JournalLayout.NATIVE else _MORE_BYTES), FILE_BYTES_MIN)


def export_lines(records: JournalRecords) -> Iterator[str]:
    """The lines of a journal, each with its newline; in ASCII.  Raises: as iterating the records."""
    layout = None if records.layout is None else records.layout.value
    yield _line({_MARK: VERSION, "layout": layout, "file_bytes": records.file_bytes_max or None})
    count = 0
    for record in records:
        yield _line(record_object(record))
        count += 1
    yield _line({"records": count, "problems": len(records.problems)})


def record_object(record: StoredRecord) -> dict[str, object]:
    """A record as an object, without what its kind does not have."""
    found: dict[str, object] = {"kind": record.kind.name.lower(), "state": record.state.name.lower()}
    if record.tx_id is not None:
        found["transaction"] = record.tx_id
    if record.record_id is not None:
        found["id"] = record.record_id
    if record.user_type is not None:
        found["user_type"] = record.user_type
    if record.body or record.user_type is not None:
        found["data"] = base64.b64encode(record.body).decode("ascii")
    if record.counts:
        found["counts"] = record.counts
    return {**found, "file": record.file, "file_id": record.file_id, "offset": record.offset}


class ExportReader:
    """Reads lines that `export_lines` made: `head`, and then the records.

    lines: with their newlines.  source: what they are called in errors.
    """

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        """Raises: CorruptError where the first line is none of an export, or of another version."""
        self._lines = enumerate(lines, 1)
        self._source = source
        self._at = 0
        found = self._next()
        if found is None or found.get(_MARK) != VERSION:
            raise self._wrong(0, f"the first line does not say that it is an export of a journal, version {VERSION}")
        layout, file_bytes = found.get("layout"), found.get("file_bytes")
        if layout not in (None, *(each.value for each in JournalLayout)):
            raise self._wrong(0, f"{layout!r} is no layout")
        if file_bytes is not None and (type(file_bytes) is not int or file_bytes < 0):
            raise self._wrong(0, f"{file_bytes!r} is no size of a file")
        self.head = ExportHead(None if layout is None else JournalLayout(layout), file_bytes)

    def __iter__(self) -> Iterator[StoredRecord]:
        """The records.  Raises: CorruptError for a line that is none, and where the last one is missing."""
        count = 0
        while True:
            at = self._at
            found = self._next()
            if found is None:
                raise self._wrong(at, "the last line is missing, and maybe others before it")
            if "records" in found:
                if found["records"] != count:
                    raise self._wrong(at, f"there are {count} records, and were {found['records']}")
                return
            try:
                yield _record(found)
            except (KeyError, ValueError, TypeError, binascii.Error) as error:
                raise self._wrong(at, f"no record: {error!r}") from error
            count += 1

    def _next(self) -> dict[str, Any] | None:
        at = self._at
        for _, line in self._lines:
            self._at += len(line)
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self._wrong(at, f"no line of an export: {error}") from error
            if not isinstance(found, dict):
                raise self._wrong(at, "no line of an export")
            return found
        return None

    def _wrong(self, at: int, text: str) -> CorruptError:
        return CorruptError(self._source, at, "export", text)


def _record(found: Mapping[str, Any]) -> StoredRecord:
    kind, state = Kind[found["kind"].upper()], RecordState[found["state"].upper()]
    is_end = kind in (Kind.PREPARE, Kind.COMMIT, Kind.ROLLBACK)
    is_plain = kind in (Kind.ADD, Kind.UPDATE, Kind.DELETE)
    is_typed = kind in (Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX)
    return StoredRecord(
        file=str(found.get("file", "")),
        file_id=_number(found.get("file_id", 0)),
        offset=_number(found.get("offset", 0)),
        kind=kind,
        state=state,
        tx_id=None if is_plain else _number(found["transaction"]),
        record_id=None if is_end else _number(found["id"]),
        user_type=_number(found["user_type"], 0, 255) if is_typed else None,
        body=base64.b64decode(found.get("data", ""), validate=True),
        counts=tuple((_number(file_id), _number(count)) for file_id, count in found.get("counts", ())),
    )


def _number(value: object, lowest: int = -_INT64, highest: int = _INT64 - 1) -> int:
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(f"{value!r} is no number between {lowest} and {highest}")
    return value


def _line(value: dict[str, object]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"
