"""Which messages of a page are to be given."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.paging.page import Chunk
from binlog.paging.page_transaction import Outcome
from binlog.storage.page_writers import Mark


class Sifted(NamedTuple):
    """What became of messages that follow one another.

    known: of so many it is known; behind them comes one of a transaction that goes on.  runs: those that are to be
    given, each run with the number of its first.  left_out: the numbers of those whose transaction was not committed.
    tx_counts: how many are of which transaction.
    """

    known: int
    runs: list[tuple[int, list[bytes]]]
    left_out: list[int]
    tx_counts: dict[int, int]


def sift(chunk: Chunk, marks: bytes, outcome: Callable[[int], Outcome]) -> Sifted:
    """Look at each message.  marks: what was acknowledged.  outcome: of a transaction."""
    runs: list[tuple[int, list[bytes]]] = []
    left_out: list[int] = []
    tx_counts: dict[int, int] = {}
    gap = True
    for index, message in enumerate(chunk.messages):
        number = chunk.number + index
        tx_id = NO_TRANSACTION if chunk.tx_ids is None else chunk.tx_ids[index]
        found = Outcome.COMMITTED
        if tx_id != NO_TRANSACTION:
            found = outcome(tx_id)
            if found is Outcome.OPEN:
                return Sifted(index, runs, left_out, tx_counts)
            tx_counts[tx_id] = tx_counts.get(tx_id, 0) + 1
        if found is Outcome.UNKNOWN:
            left_out.append(number)
        if found is Outcome.UNKNOWN or marks[index] != Mark.NONE:
            gap = True
        elif gap:
            runs.append((number, [message]))
            gap = False
        else:
            runs[-1][1].append(message)
    return Sifted(len(chunk.messages), runs, left_out, tx_counts)
