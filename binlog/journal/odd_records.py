"""What is odd about a journal's records, as problems: what shows that some are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from binlog.format.problem import Problem
from binlog.journal.record_states import Event, FileColumns, Odd, RecordState, RecordStates

_THERE = (RecordState.LIVE, RecordState.UPDATED)


def odd_problems(paths: Sequence[str], files: Sequence[FileColumns], found: RecordStates) -> Iterator[Problem]:
    """What shows that records are missing, in the order of the records that show it.

    paths: of the files, which come oldest first, and are those whose states were found.
    An update of what is not there is none where a delete came behind it, for the file with the record may be gone; nor
    is a delete of what is not there.
    """
    for (event, place, index), odd in groupby(found.odd, lambda each: (each.event, each.file, each.index)):
        at = files[place].offset_of(index)
        end = at + _number(files[place].record_bytes, index)
        if event is Event.LACKING:
            tx_id = _number(files[place].tx_id, index)
            names = ", ".join(_lacking(paths, each) for each in odd)
            text = f"of the transaction {tx_id} something is missing: {names}"
            yield Problem(paths[place], at, "transaction", text)
        elif event is Event.UPDATE_OF_NONE and found.states[place][index] in _THERE:
            text = f"an update of the record {_number(files[place].record_id, index)}, which is not there"
            yield Problem(paths[place], at, "update", text, end)


def deletes_of_none(paths: Sequence[str], files: Sequence[FileColumns], found: RecordStates) -> Iterator[Problem]:
    """Deletes of what is not there, which are problems only where no file is gone that had it."""
    for odd in found.odd:
        if odd.event is Event.DELETE_OF_NONE:
            text = f"a delete of the record {_number(files[odd.file].record_id, odd.index)}, which is not there"
            yield Problem(paths[odd.file], files[odd.file].offset_of(odd.index), "delete", text)


def _lacking(paths: Sequence[str], odd: Odd) -> str:
    if odd.other >= len(paths):
        return "a file with some of it cannot be read"
    return f"{paths[odd.other].rpartition('/')[2]} has {odd.count} records of it"


def _number(column: bytes, index: int) -> int:
    return int(memoryview(column).cast("q")[index])
