"""Signals to the main thread, in which Python runs their handlers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def signal_main_thread(number: int) -> None:
    """Run the signal's handler in the main thread now."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, number)


@contextmanager
def interrupting(number: int) -> Iterator[None]:
    """Make the signal's handler raise KeyboardInterrupt, as Ctrl-C does, within the block."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)
