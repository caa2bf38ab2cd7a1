"""The marks of a queue as the five numbers of a trace's record."""

from __future__ import annotations

from typing import NamedTuple

from stress.crash.marks import Recorder, Values
from stress.crash.paging.actor import Witness
from stress.paging.ledger import Identity, Mark, What

_BITS = 32


class _Numbers(NamedTuple):
    values: Values


def values_of(mark: Mark) -> Values:
    """As five numbers."""
    what, life, thread, tx, (its_life, producer, number) = mark
    return what, life << _BITS | thread, tx, its_life << _BITS | producer, number


def mark_of(values: Values) -> Mark:
    """The mark that `values` gave."""
    what, who, tx, its, number = values
    low = (1 << _BITS) - 1
    return Mark(What(what), who >> _BITS, who & low, tx, Identity(its >> _BITS, its & low, number))


class Recorded:
    """Puts marks into the trace of this process."""

    def __init__(self) -> None:
        self._recorder = Recorder()

    def mark(self, mark: Mark) -> None:
        """Note a mark, now."""
        self._recorder.mark(_Numbers(values_of(mark)))


class Twice:
    """Puts marks into a ledger, and into the trace of this process."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._recorded = Recorded()

    def mark(self, mark: Mark) -> None:
        """Note a mark, now."""
        self._witness.mark(mark)
        self._recorded.mark(mark)
