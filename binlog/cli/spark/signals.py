"""Ctrl-C and SIGTERM while Spark works: kept until it can be stopped in order.

Fact relied on: an exception that a signal raises in the middle of a call to Java leaves the connection of this thread
with half an answer, and what comes after it fails.  So none is raised there.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from binlog.cli.exits import Signalled

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class DeferredSignals:
    """What came of them.  A second Ctrl-C ends the process at once."""

    def __init__(self) -> None:
        self._number: signal.Signals | None = None
        self._came: signal.Signals | None = None

    def check(self) -> None:
        """Raise KeyboardInterrupt or Signalled for what came.  To be called some times a second, where one can stop."""
        number, self._number = self._number, None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number is not None:
            raise Signalled(number)

    def raise_received(self) -> None:
        """Raise as `check` for a signal that ever came: what fails after one fails because of it."""
        self._number = self._number or self._came
        self.check()

    def install(self) -> None:
        """Take them; again where somebody else took them meanwhile."""
        for number in _NUMBERS:
            signal.signal(number, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._came = signal.Signals(number)
        if self._number == number == signal.SIGINT:
            raise KeyboardInterrupt
        self._number = signal.Signals(number)


@contextlib.contextmanager
def deferred_signals() -> Iterator[DeferredSignals]:
    """Keep them within the block, and raise at its end what came and nobody asked for."""
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    kept = DeferredSignals()
    kept.install()
    try:
        yield kept
        kept.check()
    except Exception:
        kept.raise_received()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
