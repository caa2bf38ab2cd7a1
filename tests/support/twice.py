"""A signal handler that raises, and once more a moment later: while what it broke off is undone, say."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

# What is raised in the callback of a weak reference, of which a thread that ends has one, is told and goes no further.
swallowed = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
AGAIN_SECONDS = [microseconds * 1e-6 for microseconds in range(5, 405, 5)]


class Twice:
    """It, of SIGUSR1, with which somebody is to strike."""

    def __init__(self) -> None:
        self._again_seconds = 0.0
        self._came_again = True

    def handle(self, number: int, _: object) -> None:
        """See above."""
        if number == signal.SIGALRM:
            self._came_again = True
        else:
            signal.setitimer(signal.ITIMER_REAL, self._again_seconds)
        raise KeyboardInterrupt

    def interrupt(self, again_seconds: float, call: Callable[[], object]) -> None:
        """Make a call into which somebody strikes, and return behind both exceptions."""
        self._again_seconds = again_seconds
        self._came_again = False
        try:
            with pytest.raises(KeyboardInterrupt):
                call()
            while not self._came_again:  # a timer that has run off does not tell that its handler ran
                time.sleep(0)
        except KeyboardInterrupt:
            pass  # the second one came behind the call


@contextmanager
def raising_twice() -> Iterator[Twice]:
    """Have it be the handler meanwhile."""
    twice = Twice()
    numbers = (signal.SIGUSR1, signal.SIGALRM)
    before = [signal.signal(number, twice.handle) for number in numbers]
    try:
        yield twice
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
