"""What a process does with a store that is killed at each of its calls and stores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from stress.crash.store.ledger import StoreOwn
from stress.crash.store.options import REMOVING, options

Scenario = Callable[[Path, StoreOwn, Flush], None]

_LARGE_BYTES = 1900


def only_open(path: Path, own: StoreOwn, flush: Flush) -> None:
    """Open and close: recovery, where a process was killed before."""
    with MessageStore(path, options(flush)) as store:
        own.append(store, 0)


def append(path: Path, own: StoreOwn, flush: Flush) -> None:
    """Messages one by one and together, into all queues."""
    with MessageStore(path, options(flush)) as store:
        for _ in range(3):
            own.append(store, 0)
        own.append(store, 0, 0, 0)


def roll(path: Path, own: StoreOwn, flush: Flush) -> None:
    """On to the next file, with a blank behind the last message, and to the next but one.

    The messages of each file are as long as those of the others: what a buffer had before lies where a message may end.
    """
    with MessageStore(path, options(flush)) as store:
        for _ in range(9):
            own.append(store, _LARGE_BYTES)
        own.append(store, *(_LARGE_BYTES,) * 3)


def remove(path: Path, own: StoreOwn, flush: Flush) -> None:
    """Files that go, while there are more to come."""
    with MessageStore(path, dataclasses.replace(REMOVING, flush=flush)) as store:
        for _ in range(2):
            for _ in range(3):
                own.append(store, *(_LARGE_BYTES,) * 3)
            store.remove_expired()
        own.append(store, 0)


SCENARIOS: dict[str, Scenario] = {scenario.__name__: scenario for scenario in (only_open, append, roll, remove)}
