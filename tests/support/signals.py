"""Signals to the main thread, which alone runs their handlers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def strike(number: int) -> None:
    """Have the main thread's handler run, whatever that is doing."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, number)


@contextmanager
def interrupting(number: int) -> Iterator[None]:
    """Have the signal's handler raise KeyboardInterrupt, as Ctrl-C does, within."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)
