"""Why files of a journal are not used again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from binlog.journal.journal_file import JournalFile
from binlog.journal.ledger import Ledger


class Kept(NamedTuple):
    """What keeps a file.

    records: ids of those that lie in it and are there.  transactions: those that go on and have records in it.
    outlasts: names of files that mean something else without it: with records that something in it ended, and that
    would come back; or with the commit of a transaction of which it is known by this file that records are missing.
    """

    name: str
    file_id: int
    records: list[int]
    transactions: list[int]
    outlasts: list[str]


def kept_files(files: Iterable[JournalFile], ledger: Ledger) -> list[Kept]:
    """What keeps each of the files."""
    found = {file: Kept(file.name, file.header.file_id, [], [], []) for file in files}
    for record_id, places in ledger.records.items():
        for file in {file for file, _ in ledger.pairs(places)} & found.keys():
            found[file].records.append(record_id)
    for tx_id, transaction in ledger.transactions.items():
        for file in transaction.pinned.keys() & found.keys():
            found[file].transactions.append(tx_id)
    for file, kept in found.items():
        others = (*file.negated, *file.outlasts)
        kept.outlasts.extend(other.name for other in others if other is not file and other in found)
    return list(found.values())
