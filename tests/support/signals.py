"""Signals to the main thread, which alone runs their handlers."""

from __future__ import annotations

import signal
import threading


def strike(number: int) -> None:
    """Have the main thread's handler run, whatever that is doing."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, number)
