"""The marks of processes that may die, in memory that they share with who judges them."""

from __future__ import annotations

from collections.abc import Iterator

from stress.crash.journal.expectation import Expectation
from stress.crash.journal.marks import Mark, MarkKind, mark_of
from stress.crash.ledger import AnyLedger, Part

_WHAT_BITS, _ID_BITS = 8, 32


class JournalOwn(Part):
    """One who appends: a place for a thread, of one process after the other."""

    def mark(self, mark: Mark) -> None:
        """Note a mark, now.  A process that dies in the middle has not made it."""
        what, kind, tx_id, record_id, call = mark.values
        # The middle one is stored last, and was 0 before; see `Part`.
        self._put(self._try(1), tx_id << _ID_BITS | record_id, what << _WHAT_BITS | kind, call)

    def marks(self) -> Iterator[Mark]:
        """All that were made."""
        for index in range(self.tried):
            ids, kinds, call = self._entry(index)
            if kinds:
                tx_id, record_id = ids >> _ID_BITS, ids & ((1 << _ID_BITS) - 1)
                yield mark_of((kinds >> _WHAT_BITS, kinds & ((1 << _WHAT_BITS) - 1), tx_id, record_id, call))


class JournalLedger(AnyLedger[JournalOwn]):
    """All who append, the one before the other."""

    def __init__(self, writers: int, room: int) -> None:
        super().__init__(JournalOwn, writers, room)

    @property
    def promised(self) -> int:
        """How many calls were told that they are durable, one by one."""
        return sum(mark.what is MarkKind.DURABLE for own in self.writers for mark in own.marks())

    def expectation(self) -> Expectation:
        """What they come to."""
        expected = Expectation()
        for own in self.writers:
            for mark in own.marks():
                expected.add(mark)
        return expected
