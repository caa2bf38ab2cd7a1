"""What a compaction writes, record by record: what is alive, each committed transaction as one again.

So of a transaction, or what is left of it, all or nothing is there, also where one of its records is damaged later.
One of which a single record is left needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from binlog.format.journal.block import fragments_end
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind, record_bytes
from binlog.journal.survivors import Survivor

_PLAIN = {Kind.ADD_TX: Kind.ADD, Kind.UPDATE_TX: Kind.UPDATE, Kind.DELETE_TX: Kind.DELETE}


class Piece(NamedTuple):
    """A record that is to be written.

    item: what it adds, updates or deletes; None for a commit.
    counts: of a commit: in which of the files that are written how many records of the transaction lie.
    """

    kind: Kind
    tx_id: int
    item: Survivor | None
    counts: tuple[tuple[int, int], ...] = ()

    @property
    def bytes(self) -> int:
        """How many bytes it has, without the heads of its fragments."""
        body_bytes = self.item.body_bytes if self.item else 0
        return record_bytes(self.kind, body_bytes, len(self.counts), JournalLayout.NATIVE)


def pieces_of(items: Iterable[Survivor]) -> Iterator[Piece]:
    """The records that say what the items say; those of a transaction, which its commit does together, lie together."""
    together: list[Survivor] = []
    for item in items:
        if item.kind in _PLAIN:
            together.append(item)
        elif item.kind != Kind.COMMIT:
            yield Piece(item.kind, 0, item)
        elif len(together) == 1:
            yield Piece(_PLAIN[together[0].kind], 0, together.pop())
        elif together:
            yield from (Piece(each.kind, item.tx_id, each) for each in together)
            yield Piece(Kind.COMMIT, item.tx_id, None)
            together.clear()


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
        if piece.kind in _PLAIN:
            counts[len(parts) - 1] = counts.get(len(parts) - 1, 0) + 1
    return parts
