"""Defer Ctrl-C and SIGTERM while Spark works, until the job can be stopped cleanly.

Fact relied on: if a signal handler raises in the middle of a call to Java, half an answer stays in this thread's
connection, and the following calls fail.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from binlog.cli.exits import Signalled

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class DeferredSignals:
    """The signals received so far.  A second Ctrl-C raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self._number: signal.Signals | None = None
        self._came: signal.Signals | None = None

    def check(self) -> None:
        """Raise KeyboardInterrupt or Signalled for a pending signal.  Call it a few times per second."""
        number, self._number = self._number, None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number is not None:
            raise Signalled(number)

    def raise_received(self) -> None:
        """Raise as `check` for any signal received so far, because that caused the error being handled."""
        self._number = self._number or self._came
        self.check()

    def install(self) -> None:
        """Install the handlers, also again after other code has replaced them."""
        for number in _NUMBERS:
            signal.signal(number, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._came = signal.Signals(number)
        if self._number == number == signal.SIGINT:
            raise KeyboardInterrupt
        self._number = signal.Signals(number)


@contextlib.contextmanager
def deferred_signals() -> Iterator[DeferredSignals]:
    """Defer the signals within the block, and raise at its end for a signal that is still pending."""
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
