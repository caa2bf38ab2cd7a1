"""Export of a journal as lines of text, and import of such lines into a new journal.

A line is a JSON object.  The first one is a header.  The last one has the count of the records; without it, the export
is incomplete.  An import appends the records by the public methods of `Journal`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from binlog.errors import CorruptError, StateError
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind
from binlog.journal.inspection.record_reader import JournalRecords, StoredRecord
from binlog.journal.journal import Journal
from binlog.journal.loading.record_states import RecordState
from binlog.journal.options import FILE_BYTES_MIN, JournalOptions, Sync
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors

VERSION = 1
_MARK = "binlog_journal"
_INT64 = 1 << 63
# A native file this much larger holds the records of a file of JBoss Messaging's.
_MORE_BYTES = 512


class ExportHead(NamedTuple):
    """The header of an export.  file_bytes: size of the largest file; None if there was no file."""

    layout: JournalLayout | None
    file_bytes: int | None

    @property
    def new_file_bytes(self) -> int | None:
        """The size of a file that can hold each of the records, in any layout."""
        if self.file_bytes is None:
            return None
        return max(self.file_bytes + (0 if self.layout is JournalLayout.NATIVE else _MORE_BYTES), FILE_BYTES_MIN)


def export_lines(records: JournalRecords) -> Iterator[str]:
    """Yield the lines of an export, in ASCII, each with a newline.  Raises: as iterating over the records."""
    layout = None if records.layout is None else records.layout.value
    yield _line({_MARK: VERSION, "layout": layout, "file_bytes": records.file_bytes_max or None})
    count = 0
    for record in records:
        yield _line(record_object(record))
        count += 1
    yield _line({"records": count, "problems": len(records.problems)})


def record_object(record: StoredRecord) -> dict[str, object]:
    """Return a record as a JSON object, without the fields that its kind does not have."""
    fields: dict[str, object] = {"kind": record.kind.name.lower(), "state": record.state.name.lower()}
    if record.tx_id is not None:
        fields["transaction"] = record.tx_id
    if record.record_id is not None:
        fields["id"] = record.record_id
    if record.user_type is not None:
        fields["user_type"] = record.user_type
    if record.body or record.user_type is not None:
        fields["data"] = base64.b64encode(record.body).decode("ascii")
    if record.counts:
        fields["counts"] = record.counts
    return {**fields, "file": record.file, "file_id": record.file_id, "offset": record.offset}


class ExportReader:
    """A reader of exported lines: `head`, then the records.

    lines: with their newlines.  source: their name in errors.
    """

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        """Raises: CorruptError if the first line is not the header of an export of this version."""
        self._lines = enumerate(lines, 1)
        self._source = source
        self._at = 0
        fields = self._next()
        if fields is None or fields.get(_MARK) != VERSION:
            raise self._wrong(0, f"the first line is not the header of a journal's export, version {VERSION}")
        layout, file_bytes = fields.get("layout"), fields.get("file_bytes")
        if layout not in (None, *(each.value for each in JournalLayout)):
            raise self._wrong(0, f"{layout!r} is not a layout")
        if file_bytes is not None and (type(file_bytes) is not int or file_bytes < 0):
            raise self._wrong(0, f"{file_bytes!r} is not a size of a file")
        self.head = ExportHead(None if layout is None else JournalLayout(layout), file_bytes)

    def __iter__(self) -> Iterator[StoredRecord]:
        """Yield the records.  Raises: CorruptError if a line is not a record, or the last line is missing."""
        count = 0
        while True:
            at = self._at
            fields = self._next()
            if fields is None:
                raise self._wrong(at, "the export is cut off: its last line is missing")
            if "records" in fields:
                if fields["records"] != count:
                    raise self._wrong(at, f"it has {count} records, and {fields['records']} were exported")
                return
            try:
                yield _record(fields)
            except (KeyError, ValueError, TypeError, binascii.Error) as error:
                raise self._wrong(at, f"not a record: {error!r}") from error
            count += 1

    def _next(self) -> dict[str, Any] | None:
        at = self._at
        for _, line in self._lines:
            self._at += len(line)
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self._wrong(at, f"not a line of an export: {error}") from error
            if not isinstance(fields, dict):
                raise self._wrong(at, "not a line of an export")
            return fields
        return None

    def _wrong(self, at: int, text: str) -> CorruptError:
        return CorruptError(self._source, at, "export", text)


def _record(fields: Mapping[str, Any]) -> StoredRecord:
    kind, state = Kind[fields["kind"].upper()], RecordState[fields["state"].upper()]
    is_end = kind in (Kind.PREPARE, Kind.COMMIT, Kind.ROLLBACK)
    is_plain = kind in (Kind.ADD, Kind.UPDATE, Kind.DELETE)
    is_typed = kind in (Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX)
    return StoredRecord(
        file=str(fields.get("file", "")),
        file_id=_number(fields.get("file_id", 0)),
        offset=_number(fields.get("offset", 0)),
        kind=kind,
        state=state,
        tx_id=None if is_plain else _number(fields["transaction"]),
        record_id=None if is_end else _number(fields["id"]),
        user_type=_number(fields["user_type"], 0, 255) if is_typed else None,
        body=base64.b64decode(fields.get("data", ""), validate=True),
        counts=tuple((_number(file_id), _number(count)) for file_id, count in fields.get("counts", ())),
    )


def _number(value: object, lowest: int = -_INT64, highest: int = _INT64 - 1) -> int:
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(f"{value!r} is not a number between {lowest} and {highest}")
    return value


def _line(value: dict[str, object]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


_IMPORTED_STATES = frozenset((RecordState.LIVE, RecordState.UPDATED, RecordState.PREPARED))
_UNFINISHED_END = ".importing"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The result of an import.

    record_count: imported records and updates.  prepared_count: imported prepared transactions.
    skipped_count: updates of records that were damaged, and other records that no journal accepts.
    """

    record_count: int
    prepared_count: int
    skipped_count: int


def import_journal(path: str | os.PathLike[str], records: Iterable[StoredRecord], options: JournalOptions) -> Imported:
    """Create a journal in a new or empty folder, and import live records in their order.

    Keeps updates and committed transactions together, and prepared transactions prepared.  Skips records that were
    deleted, rolled back or left open.  New ids will be larger than the largest id of the export.
    The folder gets its name after the journal is complete and durable; after an error, nothing is left.
    Raises: StateError if the folder is not empty; FullError if a record fits in no file; AccessError; PoisonedError;
    and what iterating over the records raises.
    """
    path = os.path.abspath(path)
    unfinished = path + _UNFINISHED_END
    with own_errors(path, "listing the folder"):
        if os.path.lexists(path) and os.listdir(path):
            raise StateError(f"{path} is not empty")
    with own_errors(unfinished, "making the directory"):
        os.mkdir(unfinished)
    try:
        with Journal(unfinished, options) as journal:
            journal.load()
            running = _Import(journal)
            for record in records:
                running.add(record)
            imported = running.finish()
        with Directory(unfinished) as directory:
            with own_errors(path, "naming the folder"):
                os.rename(unfinished, path)
            directory.sync_parent()
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return imported


class _Import:
    """A running import."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._open: dict[int, int] = {}
        self._id_max = 0
        self._record_count = 0
        self._prepared_count = 0
        self._skipped_count = 0

    def add(self, record: StoredRecord) -> None:
        """Import the next record if it counts."""
        self._id_max = max(self._id_max, record.record_id or 0, record.tx_id or 0)
        if record.kind is Kind.COMMIT and record.tx_id in self._open:
            count = self._open.pop(record.tx_id)
            if count:
                self._journal.commit(record.tx_id, sync=Sync.LATER)
            self._record_count += count
        elif record.state not in _IMPORTED_STATES:
            return
        elif record.tx_id is None:
            self._add_plain(record)
        elif record.kind is Kind.PREPARE:
            self._journal.prepare(record.tx_id, record.body, sync=Sync.LATER)
            self._open.pop(record.tx_id, None)
            self._prepared_count += 1
        else:
            self._add_to_transaction(record, record.tx_id)

    def finish(self) -> Imported:
        """Finish after the last record, and return the counts."""
        for tx_id, count in self._open.items():  # without a commit, so their records are skipped
            if count:
                self._journal.rollback(tx_id, sync=Sync.LATER)
            self._skipped_count += count
        if self._journal.new_id() <= self._id_max:
            # The largest id must be in the journal.  A transaction without effect brings it there.
            self._journal.prepare(self._id_max, sync=Sync.LATER)
            self._journal.rollback(self._id_max)
        return Imported(
            record_count=self._record_count, prepared_count=self._prepared_count, skipped_count=self._skipped_count
        )

    def _add_plain(self, record: StoredRecord) -> None:
        assert record.record_id is not None
        append = self._journal.try_append_add if record.kind is Kind.ADD else self._journal.try_append_update
        is_appended = append(record.record_id, record.user_type or 0, record.body, sync=Sync.LATER)
        self._record_count += is_appended
        self._skipped_count += not is_appended

    def _add_to_transaction(self, record: StoredRecord, tx_id: int) -> None:
        assert record.record_id is not None
        count = self._open.setdefault(tx_id, 0)
        if record.kind is Kind.DELETE_TX:
            self._journal.append_delete_tx(tx_id, record.record_id, record.body)
            return
        append = self._journal.append_add_tx if record.kind is Kind.ADD_TX else self._journal.append_update_tx
        try:
            append(tx_id, record.record_id, record.user_type or 0, record.body)
        except StateError:  # the id is taken, which no journal allows
            self._skipped_count += 1
            return
        self._open[tx_id] = count + 1
