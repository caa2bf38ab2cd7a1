"""What a compaction writes, record by record: what is alive, each committed transaction as one again.

So of a transaction, or what is left of it, all or nothing is there, also where one of its records is damaged later.
One of which a single record is left needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

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
        """How many bytes it takes."""
        body_bytes = place_of(self.item).body_bytes if isinstance(self.item, Record) else 0
        return record_bytes(self.kind, body_bytes, len(self.counts))


def pieces_of(items: Iterable[Record | Deleted], transactions: Transactions) -> Iterator[Piece]:
    """The records that say what the items say; those of a transaction, which its commit does together, lie together."""
    for (number, tx_id), group in groupby(items, lambda item: transactions.get(place_of(item), _NONE)):
        together = list(group)
        if not number or len(together) == 1:
            yield from (Piece(_kind(item), 0, item) for item in together)
            continue
        yield from (Piece(_IN_TRANSACTION[_kind(item)], tx_id, item) for item in together)
        yield Piece(Kind.COMMIT, tx_id, None)


def divide(pieces: Iterable[Piece], room: int) -> list[list[Piece]] | None:
    """As many as fit in each file; commits with their counts.  None where one does not fit."""
    parts: list[list[Piece]] = []
    left = 0
    counts: dict[int, int] = {}
    for piece in pieces:
        if piece.kind == Kind.COMMIT:
            piece = piece._replace(counts=tuple(counts.items()))
            counts = {}
        size = piece.bytes
        if size > room:
            return None
        if size > left:
            parts.append([])
            left = room
        parts[-1].append(piece)
        left -= size
        if piece.kind in _IN_TRANSACTION.values():
            counts[len(parts) - 1] = counts.get(len(parts) - 1, 0) + 1
    return parts


def _kind(item: Record | Deleted) -> Kind:
    if isinstance(item, Deleted):
        return Kind.DELETE
    return Kind.UPDATE if item.is_update else Kind.ADD
