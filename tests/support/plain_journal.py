"""A journal read record by record, in the plainest way: a row for each, with what became of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind
from tests.support.journal_bytes import plain_records
from tests.support.journals import files, header_of

Row = dict[str, Any]

_TRANSACTIONAL = (Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX)
_ENDS = (Kind.PREPARE, Kind.COMMIT, Kind.ROLLBACK)
_BODIES = (Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX)


def plain_rows(path: Path, layout: JournalLayout | None = None) -> list[Row]:
    """All records of a journal, none of which is damaged, in the order in which they were appended."""
    replay = PlainReplay()
    for file in files(path):
        header = header_of(file, layout)
        replay.files.add(header.file_id)
        for record, row in rows_of(file, header):
            replay.go_on(record, row)
    return replay.rows


class PlainReplay:
    """What became of the rows of a journal, gone through one by one.

    files: ids of files that are there, up to the one that is gone through.
    there: the rows of each id that is there.  going: those of each transaction that goes on, with what prepared it.
    failed: those of each transaction whose commit failed, and the commit, until it is rolled back.
    order: the rows that count, as they came to.  odd: rules of problems, and the rows that show them.
    lacking: ids of files in which records of a transaction are missing.
    outlasts: pairs of ids of files, of which the first one must stay for as long as the second one.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.files: set[int] = set()
        self.there: dict[int, list[Row]] = {}
        self.going: dict[int, list[Row]] = {}
        self.failed: dict[int, list[Row]] = {}
        self._broken: set[int] = set()
        self.order: list[Row] = []
        self.odd: list[tuple[str, Row]] = []
        self.lacking: set[int] = set()
        self.must_outlive: set[tuple[int, int]] = set()

    def go_on(self, record: JournalRecord, row: Row) -> None:
        """By one record."""
        self.rows.append(row)
        tx_id = record.tx_id
        if record.kind not in (*_TRANSACTIONAL, *_ENDS):
            self._do(record.kind, row)
        elif record.kind in _TRANSACTIONAL:
            content = self.going.setdefault(tx_id, [])
            prepared = [each["state"] for each in content if each["kind"] == "prepare"]
            _set([row], prepared[-1] if prepared else "open")
            content.append(row)
        elif record.kind is Kind.ROLLBACK:
            if tx_id in self.going:
                _set(self.going[tx_id], "rolled_back")
            self._end(row, self.going.pop(tx_id, None) or self.failed.pop(tx_id, []))
            self._broken.discard(tx_id)
            row |= {"state": "done", "transaction_state": "rolled_back"}
        elif record.kind is Kind.PREPARE:
            self._prepare(record, row)
        else:
            self._commit(record, row)

    def _prepare(self, record: JournalRecord, row: Row) -> None:
        content = self.going.get(record.tx_id, [])
        if not self._is_whole(record, row, content):
            self._broken.add(record.tx_id)
        for each in content:
            if each["kind"] == "prepare":
                each["state"] = "void"
        content.append(row)
        self.going[record.tx_id] = content
        _set(content, "failed" if record.tx_id in self._broken else "prepared")

    def _commit(self, record: JournalRecord, row: Row) -> None:
        content = self.going.pop(record.tx_id, [])
        if not self._is_whole(record, row, content) or record.tx_id in self._broken:
            content.append(row)
            _set(content, "failed")
            self.failed[record.tx_id] = self.failed.get(record.tx_id, []) + content
        else:
            self._end(row, content)
            for each in (*content, row):
                each["transaction_state"] = "committed"
                if each["state"] != "void":
                    self._do(Kind[each["kind"].upper()], each)
            self.order.append(row)
        self._broken.discard(record.tx_id)

    def _is_whole(self, record: JournalRecord, row: Row, content: list[Row]) -> bool:
        """Whether there is of a transaction what a commit or prepare counts; what is more is taken out of it.

        That is an earlier one's with the same id, which a crash left, but for files behind those that are counted.
        """
        said, own = dict(record.counts), row["file_id"]
        more = {
            file_id: count - max(said.get(file_id, 0), 0)
            for file_id, count in _per_file(content).items()
            if count > max(said.get(file_id, 0), 0)
        }
        lacking = {file_id for file_id in more if said and file_id > min(said)}
        for each in list(content):
            if each["kind"] != "prepare" and more.get(each["file_id"], 0) > 0:
                more[each["file_id"]] -= 1
                each["state"] = each["transaction_state"] = "rolled_back"
                content.remove(each)
                self._outlast(own, each)
        left = _per_file(content)
        lacking |= {file_id for file_id, count in said.items() if file_id in self.files and left[file_id] != count}
        if len(said) < len(record.counts) or any(count < 1 or file_id > own for file_id, count in said.items()):
            lacking.add(own)
        if lacking:
            self.odd.append(("transaction", row))
            self.lacking |= lacking
            self.must_outlive |= {(file_id, own) for file_id in lacking if file_id != own}
        return not lacking

    def _end(self, row: Row, content: list[Row]) -> None:
        for each in content:
            self._outlast(row["file_id"], each)

    def _outlast(self, file_id: int, row: Row) -> None:
        if file_id != row["file_id"]:
            self.must_outlive.add((file_id, row["file_id"]))

    def _do(self, kind: Kind, row: Row) -> None:
        """What a record does that counts."""
        if kind in _ENDS:
            row["state"] = "done"
        elif kind in (Kind.DELETE, Kind.DELETE_TX):
            gone = self.there.pop(row["id"], [])
            row["state"] = "done" if gone else "void"
            self.order.append(row)
            self._end(row, gone)
            for each in gone:
                each["state"] = "deleted"
            if kind is Kind.DELETE and not gone:
                self.odd.append(("delete", row))
        elif kind is Kind.UPDATE_TX and row["id"] not in self.there:
            row["state"] = "void"
        else:
            if kind is Kind.UPDATE and row["id"] not in self.there:
                self.odd.append(("update", row))
            rows = self.there.setdefault(row["id"], [])
            for each in rows:
                each["state"] = "updated"
            rows.append(row)
            self.order.append(row)
            row["state"] = "live"


def rows_of(file: Path, header: FileHeader) -> list[tuple[JournalRecord, Row]]:
    """The records of a file, with a row for each."""
    found = plain_records(file.read_bytes(), header)
    return [(record, _row(file, header, at, end, record)) for at, record, end in found if record is not None]


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


def _per_file(content: list[Row]) -> Counter[int]:
    return Counter(each["file_id"] for each in content if each["kind"] != "prepare")


def _set(content: list[Row], state: str) -> None:
    for row in content:
        row["transaction_state"] = state
        if row["state"] != "void":
            row["state"] = state
