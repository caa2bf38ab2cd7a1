"""What those who append to a journal that is to break say of their calls, and of what a load told them."""

from __future__ import annotations

import enum
from typing import NamedTuple

from binlog.format.journal.record import Kind
from stress.crash.marks import Values

_NUMBER_BITS = 32

Identity = tuple[int, int]
"""Which call: whose, and as which of its own."""


class Operation(NamedTuple):
    """One call that appends a record.

    writer, number: who made it, and as which of its calls.  kind: of the record.
    tx_id, record_id: 0 where it has none.
    """

    writer: int
    number: int
    kind: Kind
    tx_id: int = 0
    record_id: int = 0

    @property
    def identity(self) -> Identity:
        """Which call."""
        return self.writer, self.number


class MarkKind(enum.IntEnum):
    """Tried and loading come before the call, the others after it.

    Those of what a load told come between `LOADING` and `LOADED`, which says that this was all.
    """

    TRIED = 1  # a call
    REFUSED = 2  # an error said that it did nothing
    DURABLE = 3  # it, and all calls of its writer before, are promised to survive a power cut
    LOADING = 4
    TOLD = 5  # the body of this call is there
    PREPARED = 6  # this transaction is prepared
    FAILED = 7  # this transaction has failed
    LOADED = 8  # record_id: how many problems were told
    THERE = 9  # this call was done, by what an earlier load told


class Mark(NamedTuple):
    """One mark."""

    what: MarkKind
    operation: Operation

    @property
    def values(self) -> Values:
        """As five numbers."""
        writer, number, kind, tx_id, record_id = self.operation
        return self.what, kind, tx_id, record_id, writer << _NUMBER_BITS | number


def mark_of(values: Values) -> Mark:
    """The mark that `values` gave."""
    what, kind, tx_id, record_id, call = values
    number = call & ((1 << _NUMBER_BITS) - 1)
    return Mark(MarkKind(what), Operation(call >> _NUMBER_BITS, number, Kind(kind), tx_id, record_id))


def plain_mark(what: MarkKind, *, tx_id: int = 0, record_id: int = 0) -> Mark:
    """A mark of no call."""
    return Mark(what, Operation(0, 0, Kind.ADD, tx_id, record_id))
