"""LMDB as a log: the key is the number after the last one's, found in the transaction that writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stress.bench.appending import Prepared
from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop
from stress.bench.peers.packages import missing_package
from stress.bench.processes import Loop

missing = missing_package("lmdb", "lmdb")

# Of addresses, not of memory or disk; LMDB wants to know the most that there will ever be.
_MAP_BYTES = 64 << 30
_KEY_BYTES = 8


def environment(directory: Path) -> Any:
    """It syncs at each commit, as it does unless told."""
    import lmdb

    return lmdb.open(str(directory), map_size=_MAP_BYTES)


@contextmanager
def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
    """One record a transaction, synced."""

    @contextmanager
    def opener(index: int) -> Iterator[Loop]:
        with environment(directory) as log:
            yield append_loop(lambda record: _append(log, record), os.urandom(RECORD_BYTES))

    yield Prepared(opener, lambda: _stored(directory))


def _append(log: Any, record: bytes) -> None:
    with log.begin(write=True) as transaction, transaction.cursor() as cursor:
        number = int.from_bytes(cursor.key(), "big") + 1 if cursor.last() else 0
        transaction.put(number.to_bytes(_KEY_BYTES, "big"), record, append=True)


def _stored(directory: Path) -> int:
    with environment(directory) as log:
        count: int = log.stat()["entries"]
        return count
