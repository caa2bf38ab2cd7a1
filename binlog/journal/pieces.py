"""What a compaction writes, record by record: what is alive, each committed transaction as one again.

So of a transaction, or what is left of it, all or nothing is there, also where one of its records is damaged later.
One of which a single record is left needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from binlog.format.journal.block import fragments_end
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind, record_bytes
from binlog.journal.record import Deleted, Record
from binlog.journal.survivors import Transactions, place_of

_IN_TRANSACTION = {Kind.ADD: Kind.ADD_TX, Kind.UPDATE: Kind.UPDATE_TX, Kind.DELETE: Kind.DELETE_TX}
_NONE = (0, 0)


class Piece(NamedTuple):
    """A record that is to be written.

    item: what it adds, updates or deletes; None for a commit.
    counts: of a commit: in which of the files that are written how many records of the transaction lie.
    """

    kind: Kind
    tx_id: int
    item: Record | Deleted | None
    counts: tuple[tuple[int, int], ...] = ()

    @property
    def bytes(self) -> int:
        """How many bytes it has, without the heads of its fragments."""
        body_bytes = place_of(self.item).body_bytes if isinstance(self.item, Record) else 0
        return record_bytes(self.kind, body_bytes, len(self.counts), JournalLayout.NATIVE)


def pieces_of(items: Iterable[Record | Deleted], transactions: Transactions) -> Iterator[Piece]:
    """The records that say what the items say; those of a transaction, which its commit does together, lie together."""
    for (number, tx_id), group in groupby(items, lambda item: transactions.get(place_of(item), _NONE)):
        together = list(group)
        if not number or len(together) == 1:
            yield from (Piece(_kind(item), 0, item) for item in together)
            continue
        yield from (Piece(_IN_TRANSACTION[_kind(item)], tx_id, item) for item in together)
        yield Piece(Kind.COMMIT, tx_id, None)


def divide(pieces: Iterable[Piece], first: int, file_bytes: int) -> list[list[Piece]] | None:
    """As many as fit in each file, from the offset `first` on; commits with their counts.  None if one does not fit."""
    parts: list[list[Piece]] = []
    at = file_bytes
    counts: dict[int, int] = {}
    for piece in pieces:
        if piece.kind == Kind.COMMIT:
            piece = piece._replace(counts=tuple(counts.items()))
            counts = {}
        end = fragments_end(at, piece.bytes)
        if end > file_bytes:
            parts.append([])
            end = fragments_end(first, piece.bytes)
            if end > file_bytes:
                return None
        parts[-1].append(piece)
        at = end
        if piece.kind in _IN_TRANSACTION.values():
            counts[len(parts) - 1] = counts.get(len(parts) - 1, 0) + 1
    return parts


def _kind(item: Record | Deleted) -> Kind:
    if isinstance(item, Deleted):
        return Kind.DELETE
    return Kind.UPDATE if item.is_update else Kind.ADD
