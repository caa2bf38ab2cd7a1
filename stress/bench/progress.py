"""The progress of a run, on standard error.

No thread draws it: the measuring process forks, and a child forked while a thread holds a lock would wait forever.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from stress.bench.rounds import Result

_CLEAR = "\r\033[K"


class Progress:
    """One line that is overwritten on a terminal, and one a round elsewhere.  Use as a context manager."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._round = -1
        self._begun = time.monotonic()
        self._moves = sys.stderr.isatty()

    def show(self, number: int, result: Result) -> None:
        """Show the measurement that begins now."""
        head = f"{time.monotonic() - self._begun:5.0f} s  round {number + 1} of {self._rounds}"
        if self._moves:
            print(f"{_CLEAR}{head}: {result.row.name}, {result.contestant.name}", end="", file=sys.stderr, flush=True)
        elif number != self._round:
            print(head, file=sys.stderr, flush=True)
        self._round = number

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._moves:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
