"""A plain replay of a journal: one row for each record, with its state."""

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
    """Return all records of an undamaged journal, in the order of their appends."""
    replay = PlainReplay()
    for file in files(path):
        header = header_of(file, layout)
        replay.files.add(header.file_id)
        for record, row in rows_of(file, header):
            replay.replay(record, row)
    return replay.rows


class PlainReplay:
    """The states of rows, replayed one by one.

    files: ids of existing files, up to the one that is replayed.
    live: the rows of each live id.  open: those of each open transaction, with its prepares.
    failed: those of each transaction with an incomplete commit, and the commit, until it is rolled back.
    order: the rows that matter, in the order in which they took effect.
    symptoms: rules of problems, and the rows that show them.
    incomplete: ids of files in which records of a transaction are missing.
    must_outlive: pairs of ids of files; the first one must outlive the second one.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.files: set[int] = set()
        self.live: dict[int, list[Row]] = {}
        self.open: dict[int, list[Row]] = {}
        self.failed: dict[int, list[Row]] = {}
        self._broken: set[int] = set()
        self.order: list[Row] = []
        self.symptoms: list[tuple[str, Row]] = []
        self.incomplete: set[int] = set()
        self.must_outlive: set[tuple[int, int]] = set()

    def replay(self, record: JournalRecord, row: Row) -> None:
        """Replay one record."""
        self.rows.append(row)
        tx_id = record.tx_id
        if record.kind not in (*_TRANSACTIONAL, *_ENDS):
            self._do(record.kind, row)
        elif record.kind in _TRANSACTIONAL:
            content = self.open.setdefault(tx_id, [])
            prepared = [each["state"] for each in content if each["kind"] == "prepare"]
            _set([row], prepared[-1] if prepared else "open")
            content.append(row)
        elif record.kind is Kind.ROLLBACK:
            if tx_id in self.open:
                _set(self.open[tx_id], "rolled_back")
            self._end(row, self.open.pop(tx_id, None) or self.failed.pop(tx_id, []))
            self._broken.discard(tx_id)
            row |= {"state": "done", "transaction_state": "rolled_back"}
        elif record.kind is Kind.PREPARE:
            self._prepare(record, row)
        else:
            self._commit(record, row)

    def _prepare(self, record: JournalRecord, row: Row) -> None:
        content = self.open.get(record.tx_id, [])
        if not self._is_whole(record, row, content):
            self._broken.add(record.tx_id)
        for each in content:
            if each["kind"] == "prepare":
                each["state"] = "void"
        content.append(row)
        self.open[record.tx_id] = content
        _set(content, "failed" if record.tx_id in self._broken else "prepared")

    def _commit(self, record: JournalRecord, row: Row) -> None:
        content = self.open.pop(record.tx_id, [])
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
        """Whether a transaction has all records that a commit or prepare counts; drops those in excess.

        They are of an earlier transaction with the same id, which a crash left, unless they are in a file after the
        counted ones.
        """
        said, own = dict(record.counts), row["file_id"]
        more = {
            file_id: count - max(said.get(file_id, 0), 0)
            for file_id, count in _per_file(content).items()
            if count > max(said.get(file_id, 0), 0)
        }
        incomplete = {file_id for file_id in more if said and file_id > min(said)}
        for each in list(content):
            if each["kind"] != "prepare" and more.get(each["file_id"], 0) > 0:
                more[each["file_id"]] -= 1
                each["state"] = each["transaction_state"] = "rolled_back"
                content.remove(each)
                self._outlast(own, each)
        left = _per_file(content)
        incomplete |= {file_id for file_id, count in said.items() if file_id in self.files and left[file_id] != count}
        if len(said) < len(record.counts) or any(count < 1 or file_id > own for file_id, count in said.items()):
            incomplete.add(own)
        if incomplete:
            self.symptoms.append(("transaction", row))
            self.incomplete |= incomplete
            self.must_outlive |= {(file_id, own) for file_id in incomplete if file_id != own}
        return not incomplete

    def _end(self, row: Row, content: list[Row]) -> None:
        for each in content:
            self._outlast(row["file_id"], each)

    def _outlast(self, file_id: int, row: Row) -> None:
        if file_id != row["file_id"]:
            self.must_outlive.add((file_id, row["file_id"]))

    def _do(self, kind: Kind, row: Row) -> None:
        """Apply a record that takes effect."""
        if kind in _ENDS:
            row["state"] = "done"
        elif kind in (Kind.DELETE, Kind.DELETE_TX):
            gone = self.live.pop(row["id"], [])
            row["state"] = "done" if gone else "void"
            self.order.append(row)
            self._end(row, gone)
            for each in gone:
                each["state"] = "deleted"
            if kind is Kind.DELETE and not gone:
                self.symptoms.append(("delete", row))
        elif kind is Kind.UPDATE_TX and row["id"] not in self.live:
            row["state"] = "void"
        else:
            if kind is Kind.UPDATE and row["id"] not in self.live:
                self.symptoms.append(("update", row))
            rows = self.live.setdefault(row["id"], [])
            for each in rows:
                each["state"] = "updated"
            rows.append(row)
            self.order.append(row)
            row["state"] = "live"


def rows_of(file: Path, header: FileHeader) -> list[tuple[JournalRecord, Row]]:
    """Return the records of a file, with a row for each."""
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
