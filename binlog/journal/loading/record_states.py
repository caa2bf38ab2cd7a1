"""The state of each record of a journal, computed by replaying all files in order."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from binlog._codec import journal_states
from binlog.format.journal.compiled import ColumnScan
from binlog.format.problem import Problem
from binlog.journal.record import Record


class RecordState(enum.IntEnum):
    """What happened to a record.

    An add or update is LIVE; UPDATED if it is live and a later update exists; or DELETED.
    A record of a transaction can also be OPEN: the transaction was neither committed nor rolled back, and the next load
    rolls it back.  PREPARED: it waits for its commit or rollback.  ROLLED_BACK.  FAILED: the transaction is incomplete,
    so none of it counts.
    Any record can be VOID: it had no effect, because the record that it updates or deletes does not exist, or because
    the transaction that it prepares was prepared again.
    DONE: a delete, commit or rollback, or the prepare of a committed transaction, that took effect.
    """

    LIVE = 1
    UPDATED = 2
    DELETED = 3
    OPEN = 4
    PREPARED = 5
    ROLLED_BACK = 6
    FAILED = 7
    VOID = 8
    DONE = 9


_LIVE_STATES = (RecordState.LIVE, RecordState.UPDATED)


class Symptom(enum.IntEnum):
    """How a record shows that others are missing.

    An update, or a delete outside of transactions, of an unknown record; or a commit or prepare that counts more
    records of its transaction in a file than the file has.
    """

    UPDATE_WITHOUT_RECORD = 1
    DELETE_WITHOUT_RECORD = 2
    INCOMPLETE_TRANSACTION = 3


class StatesInput(NamedTuple):
    """A file whose records get states.

    file_id: as its records have it.  number: of its JournalFile, if the locations of live records are wanted.
    columns: if they have objects for a load, each object becomes None as soon as its record is dead.
    """

    file_id: int
    columns: ColumnScan
    number: int = -1


@dataclass(frozen=True, slots=True)
class MissingRecord:
    """A record that shows that others are missing.  Files and records are given by their indexes.

    other, count: for INCOMPLETE_TRANSACTION, the file that lacks records, or a negative number if it cannot be read;
    and how many records of the transaction it has.
    """

    symptom: Symptom
    file: int
    index: int
    other: int
    count: int


class TransactionState(NamedTuple):
    """An open or prepared transaction, or one with an incomplete commit and no rollback.

    state: OPEN, PREPARED or FAILED.  has_commit: it has an incomplete commit.
    content: the file index, the record index and the loaded object of each of its records, in order, with its prepares,
    and with the incomplete commit at the end.
    """

    tx_id: int
    state: int
    has_commit: bool
    content: list[tuple[int, int, Any]]


class RecordStates(NamedTuple):
    """The states of all records.  Files are given by their indexes.

    states: for each file, one byte per record, a RecordState.  live_bytes: for each file, the size of its live records.
    is_incomplete: for each file, whether it lacks records that a commit or prepare counts in it.
    missing_records: records that show it; a thousand at most.
    order: pairs of u32, the file and the record, of the records that matter, in the order in which they took effect:
    live adds and updates, deletes, and each commit after the records of its transaction.
    must_outlive: pairs of files; the first one must outlive the second one, for it ends records there.
    transactions: first those with an incomplete commit, then open ones; each in the order of their first records.
    suspect_commit: a commit or prepare whose transaction may have records in a file without a header: the index of that
    file among headerless_ids, the file of the commit, and its index there.
    id_max: the largest id of a record or a transaction; at least 0.
    records: live records in the order of their appends.  locations: see PackedLocations in the ledger.
    """

    states: list[bytes]
    live_bytes: list[int]
    is_incomplete: list[bool]
    missing_records: list[MissingRecord]
    order: bytes
    must_outlive: list[tuple[int, int]]
    transactions: list[TransactionState]
    suspect_commit: tuple[int, int, int] | None
    id_max: int
    records: list[Record]
    locations: dict[int, int | list[int]]

    def live_count(self, file: int) -> int:
        """Return how many live records a file has."""
        return sum(map(self.states[file].count, _LIVE_STATES))


def record_states(
    files: Iterable[StatesInput], unreadable_ids: Iterable[int] = (), headerless_ids: Iterable[int] = ()
) -> RecordStates:
    """Replay all files, oldest first, and return the state of each record.  Reads `files` one by one.

    A transaction takes effect when it is committed, unless it is incomplete.  A record in a file that no longer exists
    does not make it incomplete: a file is only removed once none of its records matters.
    unreadable_ids: of files that exist but cannot be read; a transaction with records in one of them has failed.
    headerless_ids: numbers from the names of files that have lost their headers.
    """
    given = (
        ((file_id, of.kind, of.tx_id, of.record_id, of.record_bytes, of.counts), number, of.records or None)
        for file_id, of, number in files
    )
    per_file, missing_records, order, must_outlive, transactions, suspect_commit, id_max, records, locations = (
        journal_states(given, tuple(unreadable_ids), tuple(headerless_ids))
    )
    return RecordStates(
        [states for states, _, _ in per_file],
        [live_bytes for _, live_bytes, _ in per_file],
        [is_incomplete for _, _, is_incomplete in per_file],
        [MissingRecord(Symptom(number), *indexes) for number, *indexes in missing_records],
        order,
        must_outlive,
        sorted((TransactionState(*each) for each in transactions), key=_order),
        suspect_commit,
        id_max,
        records,
        locations,
    )


def _order(transaction: TransactionState) -> tuple[bool, tuple[int, int]]:
    # An open transaction may have the id of one with an incomplete commit, and is newer.
    return not transaction.has_commit, transaction.content[0][:2]


def missing_record_problems(
    paths: Sequence[str], files: Sequence[ColumnScan], states: RecordStates, *, is_any_gone: bool = True
) -> Iterator[Problem]:
    """Yield a problem for each record that shows that others are missing, in the order of these records.

    paths: of the files, oldest first, whose states are given.
    is_any_gone: a file may have been removed.  Then a delete of an unknown record shows nothing: its file may be gone.
    An update of an unknown record shows nothing if a delete follows it.
    """
    for (symptom, number, index), missing_records in groupby(
        states.missing_records, lambda each: (each.symptom, each.file, each.index)
    ):
        file = files[number]
        at = file.offset_of(index)
        if symptom is Symptom.INCOMPLETE_TRANSACTION:
            names = ", ".join(_shortfall(paths, each) for each in missing_records)
            text = f"records of the transaction {file.tx_id_of(index)} are missing: {names}"
            yield Problem(paths[number], at, "transaction", text)
        elif symptom is Symptom.UPDATE_WITHOUT_RECORD and states.states[number][index] in _LIVE_STATES:
            text = f"an update of the record {file.id_of(index)}, which does not exist"
            yield Problem(paths[number], at, "update", text, at + file.bytes_of(index))
        elif symptom is Symptom.DELETE_WITHOUT_RECORD and not is_any_gone:
            text = f"a delete of the record {file.id_of(index)}, which does not exist"
            yield Problem(paths[number], at, "delete", text)


def _shortfall(paths: Sequence[str], missing: MissingRecord) -> str:
    if missing.other < 0:
        return "a file that may have them cannot be read"
    return f"{paths[missing.other].rpartition('/')[2]} has {missing.count} records of it"
