"""Whether who uses what has failed is refused, where what is used are several things that fail each by itself.

What is depaged lies in pages and in a journal.  Of a call that uses both, and says that a write or sync has failed,
nobody knows which of the two it was.  But what a later call used and was accepted had not failed, so it was another
one; and where none is left, the failure was forgotten.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.errors import PoisonedError


class Used(enum.Enum):
    """What a call uses."""

    PAGES = "pages"
    JOURNAL = "journal"


class Refusals:
    """What was told."""

    def __init__(self, wrong: list[str]) -> None:
        """wrong: where it is noted what is."""
        self._wrong = wrong
        self._suspected: list[set[Used]] = []

    @contextmanager
    def told(self, *used: Used) -> Iterator[None]:
        """For a call that may say that one of these has failed."""
        try:
            yield
        except PoisonedError:
            self._suspected.append(set(used))
            raise

    def accepted(self, *used: Used) -> None:
        """A call was accepted that for sure used all of these."""
        for each in self._suspected:
            each.difference_update(used)
        if not all(self._suspected):
            self._suspected = [each for each in self._suspected if each]
            self._wrong.append(f"{' and '.join(each.value for each in used)} served after a failed write or sync")

    @contextmanager
    def using(self, *used: Used) -> Iterator[None]:
        """For a call that uses all of these."""
        with self.told(*used):
            yield
        self.accepted(*used)
