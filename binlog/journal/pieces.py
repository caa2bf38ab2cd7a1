"""What a compaction writes, record by record: what is alive, each committed transaction as one again.

So of a transaction, or what is left of it, all or nothing is there, also where one of its records is damaged later.
One of which a single record is left needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binlog.format.journal.block import fragments_end
from binlog.format.journal.record import Kind
from binlog.journal.survivors import Survivor

_PLAIN = {Kind.ADD_TX: Kind.ADD, Kind.UPDATE_TX: Kind.UPDATE, Kind.DELETE_TX: Kind.DELETE}


def pieces_of(items: Iterable[Survivor]) -> Iterator[Survivor]:
    """The records that say what the items say; those of a transaction, which its commit does together, lie together."""
    together: list[Survivor] = []
    for item in items:
        if item.kind in _PLAIN:
            together.append(item)
        elif item.kind != Kind.COMMIT:
            yield item
        elif len(together) == 1:
            alone = together.pop()
            yield alone._replace(kind=_PLAIN[alone.kind], tx_id=0)
        elif together:
            yield from together
            yield item
            together.clear()


def divide(pieces: Iterable[Survivor], first: int, file_bytes: int) -> list[list[Survivor]] | None:
    """As many as fit in each file, from the offset `first` on; commits with their counts.  None if one does not fit."""
    parts: list[list[Survivor]] = []
    at = file_bytes
    counts: dict[int, int] = {}
    for piece in pieces:
        if piece.kind == Kind.COMMIT:
            piece = piece._replace(counts=tuple(counts.items()))
            counts = {}
        end = fragments_end(at, piece.new_bytes)
        if end > file_bytes:
            parts.append([])
            end = fragments_end(first, piece.new_bytes)
            if end > file_bytes:
                return None
        parts[-1].append(piece)
        at = end
        if piece.kind in _PLAIN:
            counts[len(parts) - 1] = counts.get(len(parts) - 1, 0) + 1
    return parts
