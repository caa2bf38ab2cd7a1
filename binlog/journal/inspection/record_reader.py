"""A reader for the records of a journal, one by one, with their states."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import JOURNAL_COUNT, Kind
from binlog.journal.inspection.survey import FilePart, JournalColumns, JournalSurvey, PartReader, survey_journal
from binlog.journal.loading.record_states import RecordState

_PLAIN = frozenset((Kind.ADD, Kind.UPDATE, Kind.DELETE))
_ENDS = frozenset((Kind.PREPARE, Kind.COMMIT, Kind.ROLLBACK))
_TYPED = frozenset((Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX))


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record in a file of a journal.

    file, file_id: the name of the file, and the id of its current use.
    tx_id: None outside of transactions.  record_id: None for a prepare, commit or rollback.
    user_type: only of adds and updates.  body: the user's bytes, also those of a DELETE_TX or PREPARE.
    counts: of a COMMIT or PREPARE: for each file, its id as records have it, and how many records of the transaction it
    has.
    """

    file: str
    file_id: int
    offset: int
    kind: Kind
    state: RecordState
    tx_id: int | None
    record_id: int | None
    user_type: int | None
    body: bytes
    counts: tuple[tuple[int, int], ...]


class JournalRecords:
    """All records of a journal as of one moment, in the order of their appends.

    problems: damaged or missing records.  layout: None if no file has a header.  file_bytes_max: size of the largest
    file.
    Iterating raises NotFoundError if the owner reuses or compacts a file before it is read.
    """

    def __init__(self, survey: JournalSurvey) -> None:
        self._files = survey.files
        self.layout = survey.layout
        self.file_bytes_max = survey.file_bytes_max
        self.problems = survey.problems

    def __iter__(self) -> Iterator[StoredRecord]:
        for file in self._files:
            for columns in PartReader(file.part):
                yield from _records(file.part, columns)


def read_records(
    path: str | os.PathLike[str],
    *,
    prefix: str = "journal",
    extension: str = "jnl",
    layout: JournalLayout | None = None,
) -> JournalRecords:
    """Return all records of the journal in a folder; takes no lock and writes nothing.

    layout: of files with a four-byte header; by default, recognised by their records.
    Raises: as `survey_journal`.
    """
    return JournalRecords(survey_journal(path, prefix=prefix, extension=extension, layout=layout))


def _records(part: FilePart, columns: JournalColumns) -> Iterator[StoredRecord]:
    data = columns.data
    narrow = [memoryview(columns.columns[name]) for name in ("kind", "state", "user_type")]
    wide = [memoryview(columns.columns[name]).cast("q") for name in ("offset", "tx_id", "record_id", "body_offset")]
    sizes = [memoryview(columns.columns[name]).cast("i") for name in ("body_bytes", "counts_bytes")]
    for kind, state, user_type, offset, tx_id, record_id, body_at, body_bytes, counts_bytes in zip(
        *narrow, *wide, *sizes, strict=True
    ):
        body_end = body_at + body_bytes
        yield StoredRecord(
            file=part.name,
            file_id=part.header.file_id,
            offset=offset,
            kind=Kind(kind),
            state=RecordState(state),
            tx_id=None if kind in _PLAIN else tx_id,
            record_id=None if kind in _ENDS else record_id,
            user_type=user_type if kind in _TYPED else None,
            body=bytes(data[body_at:body_end]),
            counts=_counts(bytes(data[body_end : body_end + counts_bytes])) if kind in _ENDS else (),
        )


def _counts(data: bytes) -> tuple[tuple[int, int], ...]:
    counts = (JOURNAL_COUNT.unpack(data, at) for at in range(0, len(data), JOURNAL_COUNT.size))
    return tuple((each["file_id"], each["record_count"]) for each in counts)
