"""Which files of a journal can be written anew together.

Files that lie one behind the other, none with records of a transaction that goes on, and of every other transaction all
files or none: then what they come to is a row of adds, updates and deletes, and of transactions one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from binlog.format.journal.compiled import ColumnScan
from binlog.format.journal.record import Kind
from binlog.journal.files.journal_files import JournalFile

_OF_TRANSACTIONS = re.compile(b"[^%c%c%c]" % (Kind.ADD, Kind.UPDATE, Kind.DELETE))
_ENDS = (Kind.COMMIT, Kind.ROLLBACK)


class TransactionSpan(NamedTuple):
    """In which of the files a transaction has records, by their places in the row; whether it goes on."""

    files: frozenset[int]
    is_open: bool


class TransactionSpans:
    """Finds the spans of transactions."""

    def __init__(self) -> None:
        self._ended: set[TransactionSpan] = set()  # there are many transactions, and few spans
        self._going: dict[int, set[int]] = {}
        self._committed: dict[int, frozenset[int]] = {}

    def go_through(self, place: int, columns: ColumnScan) -> None:
        """The records of the file that is next, in its place in the row."""
        for found in _OF_TRANSACTIONS.finditer(columns.kind):
            kind, tx_id = columns.kind[found.start()], columns.tx_id_of(found.start())
            if kind == Kind.ROLLBACK and tx_id not in self._going:
                # Of a commit that lacked something: without it that would be told again.
                self._going[tx_id] = set(self._committed.get(tx_id, ()))
            self._going.setdefault(tx_id, set()).add(place)
            if kind in _ENDS:
                files = frozenset(self._going.pop(tx_id))
                self._ended.add(TransactionSpan(files, is_open=False))
                if kind == Kind.COMMIT:
                    self._committed[tx_id] = files

    def all(self) -> list[TransactionSpan]:
        """Those found, each once."""
        going = {TransactionSpan(frozenset(files), is_open=True) for files in self._going.values()}
        return [*self._ended, *going]


def find_runs(
    files: Sequence[JournalFile], unlike: AbstractSet[JournalFile], spans: Sequence[TransactionSpan], bytes_max: int
) -> list[list[JournalFile]]:
    """The runs of files, each with about `bytes_max` of records that are alive at most, where that can be.

    unlike: files that are not what the journal counts; they and damaged ones are in no run.
    """
    left_out = {place for place, file in enumerate(files) if file.damaged or file in unlike}
    for span in spans:
        if span.is_open:
            left_out |= span.files
    growing = True
    while growing:
        before = len(left_out)
        for span in spans:
            if left_out.intersection(range(min(span.files), max(span.files) + 1)):
                left_out |= span.files
        growing = len(left_out) > before
    # A run cannot be cut behind a file where a transaction goes on that has records before.
    joined = {place for span in spans for place in range(min(span.files), max(span.files))}
    runs: list[list[JournalFile]] = [[]]
    alive_bytes = 0
    for place, file in enumerate(files):
        if place in left_out:
            runs.append([])
            alive_bytes = 0
            continue
        runs[-1].append(file)
        alive_bytes += file.alive_bytes
        if alive_bytes > bytes_max and place not in joined:
            runs.append([])
            alive_bytes = 0
    return [run for run in runs if run]
