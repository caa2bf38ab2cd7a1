"""A journal as lines of text, one for each record, and a journal made of such lines.

A line is a JSON object.  The first one says what the lines are, and the last one how many records there were: without
it something is missing.

Making a journal of the records of another one, by the calls that its user has.
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


_COUNTING = frozenset((RecordState.LIVE, RecordState.UPDATED, RecordState.PREPARED))
_UNFINISHED_END = ".importing"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import came to.

    record_count: records and updates that are there now.  prepared_count: transactions that wait for their end.
    left_out: updates of records that were damaged, and what else no journal takes.
    """

    record_count: int
    prepared_count: int
    left_out: int


def import_journal(path: str | os.PathLike[str], records: Iterable[StoredRecord], options: JournalOptions) -> Imported:
    """Make a journal in a new folder, or in an empty one, of what counts of the records, in their order.

    What is there comes back, in the transactions in which it was; those that are prepared stay so; what was deleted, or
    rolled back, or not ended, does not.  Ids continue above the largest that was met.
    The journal has its name once it is whole, and on the disk; otherwise nothing is there.
    Raises: StateError where the folder holds anything; FullError where a record fits in no file; AccessError;
    PoisonedError; and what reading the records raises.
    """
    path = os.path.abspath(path)
    unfinished = path + _UNFINISHED_END
    with own_errors(path, "looking into the folder"):
        if os.path.lexists(path) and os.listdir(path):
            raise StateError(f"{path} is not empty")
    with own_errors(unfinished, "making the directory"):
        os.mkdir(unfinished)
    try:
        with Journal(unfinished, options) as journal:
            journal.load()
            done = _Import(journal)
            for record in records:
                done.put(record)
            imported = done.finish()
        with Directory(unfinished) as directory:
            with own_errors(path, "naming the folder"):
                os.rename(unfinished, path)
            directory.sync_parent()
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return imported


class _Import:
    """Goes through the records."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._open: dict[int, int] = {}
        self._id_max = 0
        self._record_count = 0
        self._prepared_count = 0
        self._left_out = 0

    def put(self, record: StoredRecord) -> None:
        """The next record."""
        self._id_max = max(self._id_max, record.record_id or 0, record.tx_id or 0)
        if record.kind is Kind.COMMIT and record.tx_id in self._open:
            count = self._open.pop(record.tx_id)
            if count:
                self._journal.commit(record.tx_id, sync=Sync.LATER)
            self._record_count += count
        elif record.state not in _COUNTING:
            return
        elif record.tx_id is None:
            self._put_plain(record)
        elif record.kind is Kind.PREPARE:
            self._journal.prepare(record.tx_id, record.body, sync=Sync.LATER)
            self._open.pop(record.tx_id, None)
            self._prepared_count += 1
        else:
            self._join(record, record.tx_id)

    def finish(self) -> Imported:
        """After the last one."""
        for tx_id, count in self._open.items():  # nothing says that they were committed
            if count:
                self._journal.rollback(tx_id, sync=Sync.LATER)
            self._left_out += count
        if self._journal.new_id() <= self._id_max:
            # A transaction that does nothing, so that the next load meets the id.
            self._journal.prepare(self._id_max, sync=Sync.LATER)
            self._journal.rollback(self._id_max)
        return Imported(record_count=self._record_count, prepared_count=self._prepared_count, left_out=self._left_out)

    def _put_plain(self, record: StoredRecord) -> None:
        assert record.record_id is not None
        put = self._journal.try_append_add if record.kind is Kind.ADD else self._journal.try_append_update
        is_put = put(record.record_id, record.user_type or 0, record.body, sync=Sync.LATER)
        self._record_count += is_put
        self._left_out += not is_put

    def _join(self, record: StoredRecord, tx_id: int) -> None:
        assert record.record_id is not None
        count = self._open.setdefault(tx_id, 0)
        if record.kind is Kind.DELETE_TX:
            self._journal.append_delete_tx(tx_id, record.record_id, record.body)
            return
        join = self._journal.append_add_tx if record.kind is Kind.ADD_TX else self._journal.append_update_tx
        try:
            join(tx_id, record.record_id, record.user_type or 0, record.body)
        except StateError:  # there is such a record, which no journal says twice
            self._left_out += 1
            return
        self._open[tx_id] = count + 1
