"""A journal read record by record, in the plainest way: a row for each, with what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from binlog.errors import CorruptError
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, parse_record
from tests.support.journals import files, header_of

Row = dict[str, Any]

_TRANSACTIONAL = (Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX)
_ENDS = (Kind.PREPARE, Kind.COMMIT, Kind.ROLLBACK)
_BODIES = (Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX)


def plain_rows(path: Path, layout: JournalLayout | None = None) -> list[Row]:
    """All records of a journal, none of which is damaged, in the order in which they were appended."""
    rows: list[Row] = []
    there: dict[int, list[Row]] = {}
    going: dict[int, list[Row]] = {}
    for file in files(path):
        header = header_of(file, layout)
        for record, row in _rows_of(file, header):
            rows.append(row)
            _replay(record, row, there, going)
    for each in there.values():
        for row in each[:-1]:
            row["state"] = "updated"
    return rows


def _rows_of(file: Path, header: FileHeader) -> list[tuple[JournalRecord, Row]]:
    data = file.read_bytes()
    at, found = header.layout.header_bytes, []
    while at < len(data):
        try:
            record, end = parse_record(data, at, header, str(file))
        except CorruptError:
            at += 1
            continue
        found.append((record, _row(file, header, at, end, record)))
        at = end
    return found


def _row(file: Path, header: FileHeader, at: int, end: int, record: JournalRecord) -> Row:
    kind = record.kind
    return {
        "file": file.name,
        "file_id": header.file_id,
        "offset": at,
        "kind": kind.name.lower(),
        "id": None if kind in _ENDS else record.record_id,
        "transaction": record.tx_id if kind in (*_TRANSACTIONAL, *_ENDS) else None,
        "transaction_state": None,
        "user_type": record.user_type if kind in _BODIES else None,
        "data": record.body if kind in (*_BODIES, Kind.DELETE_TX, Kind.PREPARE) else None,
        "state": None,
        "record_bytes": end - at,
    }


def _replay(record: JournalRecord, row: Row, there: dict[int, list[Row]], going: dict[int, list[Row]]) -> None:
    """Go on by one record.  there: the rows of each id that is there.  going: of each transaction that goes on."""
    if record.kind not in (*_TRANSACTIONAL, *_ENDS):
        _do(record.kind, row, there)
        return
    content = going.setdefault(record.tx_id, [])
    content.append(row)
    if record.kind is Kind.PREPARE:
        _set(content, "prepared")
    elif record.kind is Kind.ROLLBACK:
        _set(content, "rolled_back")
        row["state"] = "done"
        del going[record.tx_id]
    elif record.kind is Kind.COMMIT:
        del going[record.tx_id]
        for each in content:
            each["transaction_state"] = "committed"
            _do(Kind[each["kind"].upper()], each, there)
    else:
        row["state"] = row["transaction_state"] = "open"


def _set(content: list[Row], state: str) -> None:
    for row in content:
        row["state"] = row["transaction_state"] = state


def _do(kind: Kind, row: Row, there: dict[int, list[Row]]) -> None:
    """What a record does that counts."""
    if kind in _ENDS:
        row["state"] = "done"
    elif kind in (Kind.DELETE, Kind.DELETE_TX):
        gone = there.pop(row["id"], [])
        row["state"] = "done" if gone else "void"
        for each in gone:
            each["state"] = "deleted"
    elif kind is Kind.UPDATE_TX and row["id"] not in there:
        row["state"] = "void"
    else:
        there.setdefault(row["id"], []).append(row)
        row["state"] = "live"
