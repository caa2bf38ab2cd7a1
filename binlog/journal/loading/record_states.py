"""What became of each record of a journal, in one place for all who ask."""

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
    """What became of a record.

    Of adds and updates: LIVE: it is there, and nothing came behind it.  UPDATED: it is there, and an update of it came
    behind it.  DELETED: it was there.
    Of records of transactions: OPEN: nobody has ended it; the next load does, where no process has the journal.
    PREPARED: it waits for its commit or rollback.  ROLLED_BACK.  FAILED: a part of it is missing, so none of it counts.
    Of any: VOID: nothing came of it: what it updates or deletes is not there, or what it prepares was prepared again.
    DONE: of a delete, of what ends a transaction, or of what prepared one that was committed: it did what it says.
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


_THERE = (RecordState.LIVE, RecordState.UPDATED)


class Event(enum.IntEnum):
    """What is odd about a record.

    An update, or a delete outside of transactions, of what is not there; a commit or prepare that counts more records
    of its transaction in another file than that has.
    """

    UPDATE_OF_NONE = 1
    DELETE_OF_NONE = 2
    LACKING = 3


class StatesInput(NamedTuple):
    """A file, to say what became of its records.

    file_id: as records have it.  number: of its JournalFile, if it is to be said where records lie.
    columns: if these have what each record is for a load, None takes the place of that as soon as a record is gone.
    """

    file_id: int
    columns: ColumnScan
    number: int = -1


@dataclass(frozen=True, slots=True)
class Odd:
    """Something that is odd: by the file's place among those given, and the record's in the file.

    other, count: for LACKING another file's place, and how many records of the transaction it has; negative for a file
    that cannot be read.
    """

    event: Event
    file: int
    index: int
    other: int
    count: int


class TransactionState(NamedTuple):
    """A transaction that nobody has ended, or whose commit failed and was not rolled back.

    state: OPEN, PREPARED or FAILED.  is_ended: by a commit that failed.
    content: for each of its records the file's place, the record's in the file, and what it is for a load.  Also what
    prepared it, and, last, the commit that failed.
    """

    tx_id: int
    state: int
    is_ended: bool
    content: list[tuple[int, int, Any]]


class RecordStates(NamedTuple):
    """What became of all records.  Files are said by their places among those given.

    states: for each file a byte for each of its records, a RecordState.  live_bytes: for each file how many bytes those
    records take that are there.  lacking: for each file whether a transaction has fewer records in it than it says.
    odd: a thousand things at most.
    order: pairs of u32, a file and a record in it, of what counts, in the order in which it came to count: adds and
    updates that are there; deletes; and commits, each behind what it committed.
    outlasts: pairs of files, of which the first one has the end of records in the second one, and must stay so long.
    transactions: those whose commits failed, and then those that go on; in the order in which they began.
    doubt: a commit whose transaction may have records in a file that is not known: the place of that among those not
    known, the commit's file, and its place there.
    id_max: the largest id of a record or a transaction; 0 at least.
    records: those that are there, in the order in which they came to be.  places: where they lie, see `Ledger`.
    """

    states: list[bytes]
    live_bytes: list[int]
    lacking: list[bool]
    odd: list[Odd]
    order: bytes
    outlasts: list[tuple[int, int]]
    transactions: list[TransactionState]
    doubt: tuple[int, int, int] | None
    id_max: int
    records: list[Record]
    places: dict[int, int | list[int]]

    def live_count(self, file: int) -> int:
        """How many records of a file are there."""
        return sum(map(self.states[file].count, _THERE))


def record_states(
    files: Iterable[StatesInput], lost_ids: Iterable[int] = (), unknown_ids: Iterable[int] = ()
) -> RecordStates:
    """What became of the records of all files, which come oldest first, and are asked for one by one.

    A transaction does what it does when it is committed; one of which a part is missing does nothing.  A part in a file
    that is gone is not missing: a file only goes once nobody needs what is in it.
    lost_ids: of files that are there, but cannot be read: a transaction with records in one of them has failed.
    unknown_ids: of first uses of files that are there, and have lost their headers.
    """
    given = (
        ((file_id, of.kind, of.tx_id, of.record_id, of.record_bytes, of.counts), number, of.records or None)
        for file_id, of, number in files
    )
    found, odd, order, outlasts, transactions, doubt, id_max, records, places = journal_states(
        given, tuple(lost_ids), tuple(unknown_ids)
    )
    return RecordStates(
        [states for states, _, _ in found],
        [live_bytes for _, live_bytes, _ in found],
        [is_lacking for _, _, is_lacking in found],
        [Odd(Event(what), *where) for what, *where in odd],
        order,
        outlasts,
        sorted((TransactionState(*each) for each in transactions), key=_order),
        doubt,
        id_max,
        records,
        places,
    )


def _order(transaction: TransactionState) -> tuple[bool, tuple[int, int]]:
    # One that goes on may have the id of one that has failed, and began behind it.
    return not transaction.is_ended, transaction.content[0][:2]


def odd_problems(
    paths: Sequence[str], files: Sequence[ColumnScan], found: RecordStates, *, is_any_gone: bool = True
) -> Iterator[Problem]:
    """What shows that records are missing, in the order of the records that show it.

    paths: of the files, which come oldest first, and are those whose states were found.
    is_any_gone: a delete of what is not there shows nothing, for a file with that may be gone.  Nor does an update of
    what is not there if a delete came after it, in any case.
    """
    for (event, place, index), odd in groupby(found.odd, lambda each: (each.event, each.file, each.index)):
        file = files[place]
        at = file.offset_of(index)
        if event is Event.LACKING:
            names = ", ".join(_lacking(paths, each) for each in odd)
            text = f"of the transaction {file.tx_id_of(index)} something is missing: {names}"
            yield Problem(paths[place], at, "transaction", text)
        elif event is Event.UPDATE_OF_NONE and found.states[place][index] in _THERE:
            text = f"an update of the record {file.id_of(index)}, which is not there"
            yield Problem(paths[place], at, "update", text, at + file.bytes_of(index))
        elif event is Event.DELETE_OF_NONE and not is_any_gone:
            yield Problem(paths[place], at, "delete", f"a delete of the record {file.id_of(index)}, which is not there")


def _lacking(paths: Sequence[str], odd: Odd) -> str:
    if odd.other < 0:
        return "a file with some of it cannot be read"
    return f"{paths[odd.other].rpartition('/')[2]} has {odd.count} records of it"
