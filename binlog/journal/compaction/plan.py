"""The plan of a compaction: groups of files that can be rewritten together.

A group is a run of consecutive files without records of an open transaction, and with all or none of the files of every
other transaction.  So its live records are a sequence of adds, updates, deletes and whole transactions.
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
    """The files in which a transaction has records, by their indexes, and whether it is open."""

    files: frozenset[int]
    is_open: bool


class TransactionSpans:
    """The spans of all transactions in a sequence of files."""

    def __init__(self) -> None:
        self._ended: set[TransactionSpan] = set()  # a set, because many transactions share few spans
        self._open: dict[int, set[int]] = {}
        self._committed: dict[int, frozenset[int]] = {}

    def add_file(self, number: int, columns: ColumnScan) -> None:
        """Add the records of the next file.  number: its index."""
        for match in _OF_TRANSACTIONS.finditer(columns.kind):
            kind, tx_id = columns.kind[match.start()], columns.tx_id_of(match.start())
            if kind == Kind.ROLLBACK and tx_id not in self._open:
                # It rolls back an incomplete commit, and must outlive it: a load would report the commit again.
                self._open[tx_id] = set(self._committed.get(tx_id, ()))
            self._open.setdefault(tx_id, set()).add(number)
            if kind in _ENDS:
                files = frozenset(self._open.pop(tx_id))
                self._ended.add(TransactionSpan(files, is_open=False))
                if kind == Kind.COMMIT:
                    self._committed[tx_id] = files

    def all(self) -> list[TransactionSpan]:
        """Return the spans, each once."""
        still_open = {TransactionSpan(frozenset(files), is_open=True) for files in self._open.values()}
        return [*self._ended, *still_open]


def compaction_groups(
    files: Sequence[JournalFile], miscounted: AbstractSet[JournalFile], spans: Sequence[TransactionSpan], bytes_max: int
) -> list[list[JournalFile]]:
    """Divide files into groups, each with at most about `bytes_max` of live records if possible.

    miscounted: files whose records contradict the counts of the journal; no group has these, or damaged files.
    """
    excluded = {number for number, file in enumerate(files) if file.damaged or file in miscounted}
    for span in spans:
        if span.is_open:
            excluded |= span.files
    growing = True
    while growing:
        before = len(excluded)
        for span in spans:
            if excluded.intersection(range(min(span.files), max(span.files) + 1)):
                excluded |= span.files
        growing = len(excluded) > before
    # Do not end a group after a file if a transaction has records both in or before it and in a later file.
    joined = {number for span in spans for number in range(min(span.files), max(span.files))}
    groups: list[list[JournalFile]] = [[]]
    live_bytes = 0
    for number, file in enumerate(files):
        if number in excluded:
            groups.append([])
            live_bytes = 0
            continue
        groups[-1].append(file)
        live_bytes += file.live_bytes
        if live_bytes > bytes_max and number not in joined:
            groups.append([])
            live_bytes = 0
    return [group for group in groups if group]
