"""Waiting for another thread or process: for long, because a machine may be slow, but never forever."""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.commitlog.store import MessageStore

_SECONDS = 60


def until(done: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + _SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def until_dispatched(store: MessageStore) -> None:
    """Wait until all messages are in the queues and the key index; retention removes no earlier file."""
    until(lambda: store._dispatcher.offset == store.max_offset)
