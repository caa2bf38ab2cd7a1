"""A signal handler that raises, and raises again a moment later, such as while the first exception is being handled."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

# An exception in the callback of a weak reference, of which a thread that ends has one, is reported and goes no
# further.
swallowed = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
AGAIN_SECONDS = [microseconds * 1e-6 for microseconds in range(5, 405, 5)]


class RepeatedInterrupt:
    """The handler, of SIGUSR1, which the test sends."""

    def __init__(self) -> None:
        self._again_seconds = 0.0
        self._came_again = True

    def handle(self, number: int, _: object) -> None:
        """Handle the signal: raise, and again after a moment."""
        if number == signal.SIGALRM:
            self._came_again = True
        else:
            signal.setitimer(signal.ITIMER_REAL, self._again_seconds)
        raise KeyboardInterrupt

    def interrupt(self, again_seconds: float, call: Callable[[], object]) -> None:
        """Make a call during which the signal comes, and return after both exceptions."""
        self._again_seconds = again_seconds
        self._came_again = False
        try:
            with pytest.raises(KeyboardInterrupt):
                call()
            while not self._came_again:  # an expired timer does not mean that its handler has run
                time.sleep(0)
        except KeyboardInterrupt:
            pass  # the second one came after the call


@contextmanager
def repeated_interrupts() -> Iterator[RepeatedInterrupt]:
    """Install the handler within the block."""
    repeated = RepeatedInterrupt()
    numbers = (signal.SIGUSR1, signal.SIGALRM)
    before = [signal.signal(number, repeated.handle) for number in numbers]
    try:
        yield repeated
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
